"""The data sets by name: what they are, whether they are here, how to load them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType, ModuleType

import numpy as np

from romco.streams import (
    cheese,
    emails,
    fars,
    flights,
    mhc,
    movies,
    nlswork,
    spam,
    star,
    swissmetro,
)
from romco.streams.simulated import preset, simulated
from romco.streams.storage import DamagedData, Provenance, data_directory
from romco.streams.stream import Stream

MADE_HERE = Provenance("made by this package from a seed", (), "free")


@dataclass(frozen=True)
class Dataset:
    """A named source of events. ``load(data_dir)`` gives its stream."""

    name: str
    summary: str
    load: Callable[[Path | None], Stream]
    find: Callable[[Path], Path | None] | None = None  # None: made on the spot, always present
    provenance: Provenance = MADE_HERE


@dataclass(frozen=True)
class Statistics:
    """The figures of the paper's Table 1, and the class balance."""

    tasks: int
    events: int
    fewest_events: int  # of any task
    most_events: int
    features: int
    positive: float  # share of +1 among all events
    positive_by_task: tuple[float, ...]


@dataclass(frozen=True)
class Description:
    """One line of the list of data sets."""

    dataset: Dataset
    present: bool
    problem: str | None  # why a present data set cannot be read
    statistics: Statistics | None  # None if missing or unreadable
    labels: tuple[str, ...] | None
    notes: tuple[str, ...]
    place: tuple[Path, ...]  # where a missing one is looked for


def _made(make: Callable[[], Stream], data_dir: Path | None) -> Stream:
    """A stream that needs no file, under the signature of those that do."""
    return make()


def _tabular(summary: str, module: ModuleType) -> Dataset:
    recipe = module.RECIPE
    return Dataset(recipe.name, summary, module.load, module.find, recipe.provenance)


def _like(name: str) -> Dataset:
    make = partial(preset, f"{name}-like")
    return Dataset(f"{name}-like", f"simulated, shaped as {name}", partial(_made, make))


DATASETS: Mapping[str, Dataset] = MappingProxyType(
    {
        dataset.name: dataset
        for dataset in (
            Dataset("spam", "mail of 4 users", spam.load, spam.find, spam.PROVENANCE),
            Dataset("mhc", "peptides and 12 MHC-I alleles", mhc.load, mhc.find, mhc.PROVENANCE),
            Dataset("movies", "30 users' tastes", movies.load, movies.find, movies.PROVENANCE),
            Dataset("emails", "mail of 15 users", emails.load, emails.find, emails.PROVENANCE),
            _tabular("choices of 585 travellers", swissmetro),
            _tabular("people in fatal accidents, 26 states", fars),
            _tabular("departures to 100 places, in time", flights),
            _tabular("wages of 2,319 women, by year", nlswork),
            _tabular("sales of 55 retailers", cheese),
            _tabular("scores in 39 schools", star),
            Dataset("simulated", "low rank plus outlier tasks", partial(_made, simulated)),
            _like("spam"),
            _like("mhc"),
            _like("movies"),
            _like("emails"),
        )
    }
)


def load(name: str, data_dir: str | Path | None = None) -> Stream:
    """The stream of the data set ``name``.

    Parameters
    ----------
    name:
        One of ``DATASETS``.
    data_dir:
        Where the files are; None is ``ROMCO_DATA``, else the cache of the user.

    Returns
    -------
    :
        The stream.

    Raises
    ------
    ValueError
        Where there is no such data set.
    MissingData
        Where the file is not there; it tells where to get it.
    DamagedData
        Where it is not the one that is expected.

    >>> load("simulated").n_tasks
    20

    """
    return _dataset(name).load(data_directory(data_dir))


def present(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether the files of ``name`` are in the data directory; they are not opened.

    Parameters
    ----------
    name:
        One of ``DATASETS``.
    data_dir:
        Where the files are; None is ``ROMCO_DATA``, else the cache of the user.

    Returns
    -------
    :
        True where nothing is missing.

    Raises
    ------
    ValueError
        Where there is no such data set.

    >>> present("simulated"), present("spam", "no-such-directory")
    (True, False)

    """
    find = _dataset(name).find
    return find is None or find(data_directory(data_dir)) is not None


def describe(
    data_dir: str | Path | None = None, names: Iterable[str] = tuple(DATASETS)
) -> Iterator[Description]:
    """What is known of each data set, one after the other; loads those that are present.

    Parameters
    ----------
    data_dir:
        Where the files are; None is ``ROMCO_DATA``, else the cache of the user.
    names:
        Of ``DATASETS``; all if none are given.

    Yields
    ------
    :
        What is known of one.

    >>> [missing] = describe("no-such-directory", ["emails"])
    >>> missing.present, [path.name for path in missing.place]
    (False, ['emails.mat'])

    """
    for name in names:
        yield _describe(_dataset(name), data_directory(data_dir))


def statistics(stream: Stream) -> Statistics:
    """Counts and class balance of a stream.

    Parameters
    ----------
    stream:
        The events.

    Returns
    -------
    :
        Counts of all events, and by task.

    >>> from romco.streams import simulated
    >>> statistics(simulated(n_tasks=4, n_features=10, n_events=5, outliers=1)).events
    20

    """
    events = np.bincount(stream.task, minlength=stream.n_tasks)
    positive = np.bincount(stream.task, weights=stream.y > 0, minlength=stream.n_tasks)
    return Statistics(
        tasks=stream.n_tasks,
        events=stream.n_events,
        fewest_events=int(events.min()),
        most_events=int(events.max()),
        features=stream.n_features,
        positive=float(positive.sum() / events.sum()),
        positive_by_task=tuple((positive / np.maximum(events, 1)).tolist()),
    )


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise ValueError(f"no data set {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name]


def _describe(dataset: Dataset, data_dir: Path) -> Description:
    place = tuple(data_dir / place for place in dataset.provenance.place)
    if not present(dataset.name, data_dir):
        return Description(dataset, False, None, None, None, (), place)
    try:
        stream = dataset.load(data_dir)
    except (DamagedData, OSError) as error:
        return Description(dataset, True, str(error), None, None, (), place)
    figures = statistics(stream)
    return Description(dataset, True, None, figures, stream.labels, stream.notes, place)
