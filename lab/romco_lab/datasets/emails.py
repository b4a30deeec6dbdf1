"""``emails``: the mail of fifteen users over one vocabulary."""

import io
from functools import partial
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from scipy.sparse import csr_array, vstack

from romco.streams.datasets import Dataset, data_directory
from romco.streams.stream import Stream
from romco_lab.datasets.storage import Provenance, first_existing, located, verified
from romco_lab.datasets.weighting import most_frequent, tf_idf

FILE = "ecml06/emails.mat"
SHA256 = "0f661cd1ad2d1cc54065c4526721a7b5f4374f7e08b3471509c04bc79fae0cce"
WORDS = 1500

PROVENANCE = Provenance(
    origin="the ECML/PKDD 2006 discovery challenge, task B (by its shape), as one MATLAB file",
    place=(FILE,),
    terms="no licence statement: research use, do not redistribute",
)

_SELECTION = (
    "features are the 1500 words that occur in most messages of the whole set, document "
    "frequencies likewise (looks ahead at words, not at labels)"
)
_SIGN = (
    "the file does not say which of its labels 0 and 1 is spam: 1 is taken to be, as in the "
    "challenge; the classes are balanced, so error rates do not depend on it"
)


def find(data_dir: Path) -> Path | None:
    """The file, or None if it is not there."""
    return first_existing(data_dir, (FILE,))


def load(data_dir: Path | None = None, normalise: bool = True) -> Stream:
    """6000 messages, 400 of each of 15 users, half of them spam (+1).

    The 1500 most frequent words, TF-IDF of unit length unless ``normalise=False``,
    (6000, 1500) sparse.

    Raises MissingData where the file is not there, and DamagedData where it is another one.
    """
    data_dir = data_directory(data_dir)
    path = located("emails", find(data_dir), data_dir, PROVENANCE)
    cells = loadmat(io.BytesIO(verified(path, SHA256)), variable_names=["X", "Y"])
    users = [csr_array(x) for x in cells["X"].ravel()]
    counts = csr_array(vstack(users, format="csr"))
    spam = np.concatenate([label.ravel() for label in cells["Y"].ravel()]) == 1
    return Stream(
        name="emails",
        task=np.repeat(np.arange(len(users)), [user.shape[0] for user in users]),
        x=tf_idf(csr_array(counts[:, most_frequent(counts, WORDS)]), normalise=normalise),
        y=np.where(spam, 1.0, -1.0),
        tasks=tuple(f"User{i + 1}" for i in range(len(users))),
        labels=("legitimate", "spam"),
        notes=(_SELECTION, _SIGN),
    )


DATASET = Dataset(
    "emails",
    "mail of 15 users",
    load,
    find,
    PROVENANCE.origin,
    PROVENANCE.place,
    {"unscaled": partial(load, normalise=False)},
)
