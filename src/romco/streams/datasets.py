"""Data sets by name: simulated ones, and those that installed packages add."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from romco.parameters import setting
from romco.plugins import Registry
from romco.streams.simulated import preset, simulated
from romco.streams.stream import Stream

VARIANT_MARK = "@"  # between the name of a data set and that of a variant
Loader = Callable[[Path | None], Stream]
Times = NDArray[np.float64]


@dataclass(frozen=True)
class Dataset:
    """A named source of events.

    ``variants`` load the same data with another preparation or target, under the name
    ``NAME@VARIANT``; a variant called "classes" or "number" answers ``--target``.
    """

    name: str
    summary: str
    load: Loader
    find: Callable[[Path], Path | None] | None = None  # None: no file is needed
    origin: str = "simulated from a seed"  # who made it, and where to get it
    places: tuple[str, ...] = ()  # paths below the data directory, in order of preference
    variants: Mapping[str, Loader] = field(default_factory=dict)
    # Times (n,) of the events, and when their labels became known (n,).
    clock: Callable[[Path | None], tuple[Times, Times]] | None = None


@dataclass(frozen=True)
class Statistics:
    """Sizes of a stream and its class balance."""

    tasks: int
    events: int
    fewest_events: int  # of any task
    most_events: int
    features: int
    positive: float  # share of +1 among all events
    positive_by_task: tuple[float, ...]


@dataclass(frozen=True)
class Description:
    """Line of the list of data sets."""

    dataset: Dataset
    present: bool
    problem: str | None  # why a present data set cannot be read
    statistics: Statistics | None  # None if missing or unreadable
    labels: tuple[str, ...] | None
    notes: tuple[str, ...]
    place: tuple[Path, ...]  # where a missing one is looked for


def _make(make: Callable[[], Stream], data_dir: Path | None) -> Stream:
    """Make a stream that needs no file, under the signature of those that do."""
    return make()


def _shaped_as(name: str) -> Dataset:
    make = partial(preset, f"{name}-like")
    return Dataset(f"{name}-like", f"simulated, shaped as {name}", partial(_make, make))


DATASETS = Registry(
    "romco.datasets",
    {
        dataset.name: dataset
        for dataset in (
            Dataset("simulated", "low rank plus outlier tasks", partial(_make, simulated)),
            *map(_shaped_as, ("spam", "mhc", "movies", "emails")),
        )
    },
)


def data_directory(explicit: str | Path | None = None) -> Path:
    """Return the directory that holds real data; it need not exist.

    The first of: the argument, the environment variable ``ROMCO_DATA``, the user's cache.

    >>> data_directory("my-data").name
    'my-data'
    """
    named = explicit or os.environ.get("ROMCO_DATA")
    if named:
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache) / "romco"


def find(name: str) -> Dataset:
    """Return the data set of a name; ValueError that lists the names where there is none."""
    if name not in DATASETS:
        raise ValueError(f"no data set {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name]


def load(name: str, data_dir: str | Path | None = None) -> Stream:
    """Load a stream by its name, ``NAME`` or, of a variant, ``NAME@VARIANT``.

    A variant of ``simulated`` lists parameters of :func:`romco.streams.simulated`. Raises
    ValueError for an unknown name or variant and for a damaged file, FileNotFoundError where the
    file is not in ``data_dir``; the message says where to get it.

    >>> load("simulated").n_tasks, load("simulated@n_tasks=3,outliers=1").n_tasks
    (20, 3)
    """
    first, mark, variant = name.partition(VARIANT_MARK)
    dataset = find(first)
    if not mark:
        return dataset.load(data_directory(data_dir))
    if first == "simulated":
        parameters = (setting(part, "parameter=value") for part in variant.split(","))
        return simulated(**dict(parameters), name=name)
    if variant not in dataset.variants:
        known = ", ".join(dataset.variants) or "none"
        raise ValueError(f"data set {first!r} has no variant {variant!r}; there are: {known}")
    return dataset.variants[variant](data_directory(data_dir))


def present(name: str, data_dir: str | Path | None = None) -> bool:
    """Return whether the files of ``name`` are in the data directory; they are not opened."""
    finder = find(name).find
    return finder is None or finder(data_directory(data_dir)) is not None


def describe(
    data_dir: str | Path | None = None, names: Iterable[str] | None = None
) -> Iterator[Description]:
    """Describe each data set (all if no names are given); loads those that are present."""
    for name in DATASETS if names is None else names:
        yield _describe(find(name), data_directory(data_dir))


def statistics(stream: Stream) -> Statistics:
    """Return the counts and the class balance of a stream.

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


def _describe(dataset: Dataset, data_dir: Path) -> Description:
    place = tuple(data_dir / place for place in dataset.places)
    if not present(dataset.name, data_dir):
        return Description(dataset, False, None, None, None, (), place)
    try:
        stream = dataset.load(data_dir)
    except (ValueError, OSError) as error:
        return Description(dataset, True, str(error), None, None, (), place)
    figures = statistics(stream)
    return Description(dataset, True, None, figures, stream.labels, stream.notes, place)
