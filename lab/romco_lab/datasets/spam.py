"""``spam``: the mail of four users, the PU1, PU2, PU3 and PUA corpora."""

import io
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from romco.streams.datasets import Dataset, data_directory
from romco.streams.stream import Stream
from romco_lab.datasets.storage import DamagedData, Provenance, located, verified
from romco_lab.datasets.weighting import best, most_frequent, tf_idf

ARCHIVE = "spam_pu/pu_corpora.npz"
SHA256 = "213f337b584729972cf4dbdb19d7dbbebdd14e9c2010e4c4b67a01d6332c64f1"
CORPORA = {"pu1": 1090, "pu2": 710, "pu3": 4130, "pua": 1140}  # messages of each user
PARTS = 10
BEST_PER_USER = 382  # gives about the 1458 features of the paper
FREQUENT_PER_USER = 500

PROVENANCE = Provenance(
    origin="the PU123A corpora of I. Androutsopoulos et al. (Internet Content Filtering Group, "
    "NCSR Demokritos)",
    place=(ARCHIVE, "spam_pu/pu1 ... spam_pu/pua (the folders part1 ... part10 of text files)"),
    terms="no licence statement: research use, do not redistribute",
)

_UNRELATED = (
    "words were replaced by numbers for each user on its own, so the same number is a different "
    "word for two users: nothing real is shared, and no multi-task gain may be claimed"
)
_IDF = "document frequencies are those of the whole set (looks ahead at words, not at labels)"
_GAIN = (
    "features were selected by information gain over all labels, as the paper must have done: "
    "this looks ahead, so the errors are not those of a live filter"
)
_FREQUENCY = "features are each user's most frequent numbers in the whole set; labels were not used"


@dataclass(frozen=True)
class Corpora:
    """Messages as they were published: numbers instead of words."""

    counts: csr_array  # (n, vocabulary) how often message i has number j
    spam: NDArray[np.bool_]  # (n,)
    user: NDArray[np.int64]  # (n,) 0 to 3


def find(data_dir: Path) -> Path | None:
    """The archive, or the folder that holds ``pu1`` to ``pua``; None if there is neither."""
    archive = data_dir / ARCHIVE
    if archive.exists():
        return archive
    folders = ("spam_pu", "spam_pu/pu_corpora_public", "pu_corpora_public", ".")
    roots = (data_dir / folder for folder in folders)
    return next((root for root in roots if (root / "pu1").is_dir()), None)


def load(
    data_dir: Path | None = None,
    selection: Literal["information-gain", "frequency"] = "information-gain",
    damped: bool | None = None,
    normalise: bool = True,
) -> Stream:
    """7070 messages of 4 users; -1 is legitimate, +1 is spam.

    ``selection="information-gain"`` keeps the union of each user's 382 most telling
    numbers, near the paper's 1458, and looks at all labels to do so.
    ``selection="frequency"`` keeps the union of each user's 500 most frequent ones and
    looks at none. Rows are TF-IDF of unit length (of any, with ``normalise=False``), (7070, d)
    sparse, with plain term counts in the first case and logarithmic ones, which learn better, in
    the second, unless ``damped`` says which.

    Raises MissingData where the file is not there, and DamagedData where it is another one.
    """
    if selection not in ("information-gain", "frequency"):
        raise ValueError(f"selection must be 'information-gain' or 'frequency', not {selection!r}")
    data_dir = data_directory(data_dir)
    corpora = read(located("spam", find(data_dir), data_dir, PROVENANCE))
    return Stream(
        name="spam",
        task=corpora.user,
        x=features(corpora, selection, damped, normalise),
        y=np.where(corpora.spam, 1.0, -1.0),
        tasks=tuple(f"User{i + 1} ({name})" for i, name in enumerate(CORPORA)),
        labels=("legitimate", "spam"),
        notes=(_UNRELATED, _GAIN if selection == "information-gain" else _FREQUENCY, _IDF),
    )


def read(path: Path) -> Corpora:
    """The corpora of the archive, or of a folder of folders of text files."""
    corpora = _read_archive(path) if path.suffix == ".npz" else _read_folders(path)
    found = np.bincount(corpora.user, minlength=len(CORPORA))
    for (name, expected), n in zip(CORPORA.items(), found, strict=True):
        if n != expected:
            raise DamagedData(
                f"{path}: {name} has {n} messages in part1 to part{PARTS}, expected {expected}: "
                "the copy is incomplete or mixed with other files; unpack it again"
            )
    return corpora


def features(
    corpora: Corpora,
    selection: Literal["information-gain", "frequency"],
    damped: bool | None = None,
    normalise: bool = True,
) -> csr_array:
    """TF-IDF of the selected numbers, (n, d), columns in ascending order of the number."""
    chosen: set[int] = set()
    for user in np.unique(corpora.user):
        rows = np.flatnonzero(corpora.user == user)
        counts = csr_array(corpora.counts[rows])
        if selection == "frequency":
            chosen.update(most_frequent(counts, FREQUENT_PER_USER).tolist())
        else:
            gain = information_gain(counts, corpora.spam[rows])
            chosen.update(best(gain, BEST_PER_USER).tolist())
    counts = csr_array(corpora.counts[:, sorted(chosen)])
    return tf_idf(counts, selection == "frequency" if damped is None else damped, normalise)


def information_gain(counts: csr_array, label: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the information (d,) of the presence of each column about the label, in nats.

    >>> counts = csr_array(np.array([[1, 1], [2, 0], [0, 1], [0, 0]]))
    >>> information_gain(counts, np.array([True, True, False, False])).round(3) + 0.0
    array([0.693, 0.   ])
    """
    n, d = counts.shape
    row = np.repeat(np.arange(n), np.diff(counts.indptr))
    present = np.bincount(counts.indices, minlength=d).astype(float)
    both = np.bincount(counts.indices, weights=label[row].astype(float), minlength=d)
    positive = float(label.sum())
    conditional = present * _entropy(both, present)
    conditional += (n - present) * _entropy(positive - both, n - present)
    return np.asarray(_entropy(np.array([positive]), np.array([float(n)])) - conditional / n)


def _entropy(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    p = part / np.maximum(whole, 1.0)
    q = 1.0 - p
    nats = p * np.log(np.where(p > 0, p, 1.0)) + q * np.log(np.where(q > 0, q, 1.0))
    return np.asarray(-nats, dtype=np.float64)


def _read_archive(path: Path) -> Corpora:
    with np.load(io.BytesIO(verified(path, SHA256)), allow_pickle=False) as archive:
        return _corpora(archive["tokens"], archive["indptr"], archive["label"], archive["corpus"])


def _read_folders(root: Path) -> Corpora:
    tokens: list[int] = []
    ends = [0]
    label = []
    user = []
    for task, name in enumerate(CORPORA):
        for path in list_messages(root / name):
            tokens.extend(_numbers(path))
            ends.append(len(tokens))
            label.append("spmsg" in path.name or "spam" in path.name)
            user.append(task)
    return _corpora(np.array(tokens), np.array(ends), np.array(label), np.array(user))


def list_messages(corpus: Path) -> list[Path]:
    """The messages of part1 to part10 in the order of the numbers that end their names."""
    messages: list[Path] = []
    for part in range(1, PARTS + 1):
        folder = corpus / f"part{part}"
        if not folder.is_dir():
            raise DamagedData(f"{folder} is missing: unpack the whole corpus {corpus.name} again")
        messages += sorted(folder.glob("*.txt"), key=_ending_number)
    return messages


def _ending_number(path: Path) -> tuple[int, str]:
    digits = re.search(r"(\d+)$", path.stem)
    return (int(digits.group()) if digits else 0, path.name)


def _numbers(path: Path) -> list[int]:
    words = path.read_text(encoding="ascii", errors="replace").split()
    try:
        return [int(word) for word in words if word != "Subject:"]
    except ValueError as error:
        raise DamagedData(
            f"{path} is not a message of numbers ({error}): unpack the corpus again"
        ) from None


def _corpora(
    tokens: NDArray[np.integer],
    ends: NDArray[np.integer],
    label: NDArray[np.generic],
    user: NDArray[np.integer],
) -> Corpora:
    ones = np.ones(len(tokens))
    shape = (len(user), int(tokens.max(initial=-1)) + 1)
    counts = csr_array((ones, tokens.astype(np.int32), ends.astype(np.int32)), shape=shape)
    counts.sum_duplicates()
    return Corpora(counts, label.astype(bool), user.astype(np.int64))


DATASET = Dataset(
    "spam",
    "mail of 4 users",
    load,
    find,
    PROVENANCE.origin,
    PROVENANCE.place,
    {
        "gain, logarithms": partial(load, damped=True),
        "frequency, counts": partial(load, selection="frequency", damped=False),
        "frequency, logarithms": partial(load, selection="frequency", damped=True),
        "unscaled": partial(load, normalise=False),
    },
)
