"""Data sets by name: simulated ones, and those that installed packages add."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.parameters import setting
from romco.plugins import Registry
from romco.streams.simulated import PRESETS, simulated
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


class Description(NamedTuple):
    """A data set, with its stream if it can be read, else the reason why it cannot."""

    dataset: Dataset
    stream: Stream | None
    problem: str = ""


def _shaped_as(name: str) -> Dataset:
    like = f"{name}-like"
    summary = f"simulated, shaped as {name}"
    return Dataset(like, summary, lambda data_dir: simulated(*PRESETS[like], name=like))


DATASETS = Registry(
    "romco.datasets",
    {
        dataset.name: dataset
        for dataset in (
            Dataset("simulated", "low rank plus outlier tasks", lambda data_dir: simulated()),
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
        variants = ", ".join(dataset.variants) or "none"
        raise ValueError(f"data set {first!r} has no variant {variant!r}; there are: {variants}")
    return dataset.variants[variant](data_directory(data_dir))


def present(name: str, data_dir: str | Path | None = None) -> bool:
    """Return whether the files of ``name`` are in the data directory; they are not opened."""
    finder = find(name).find
    return finder is None or finder(data_directory(data_dir)) is not None


def describe(
    data_dir: str | Path | None = None, names: Iterable[str] | None = None
) -> Iterator[Description]:
    """Describe each data set (all if no names are given); loads those that are present."""
    folder = data_directory(data_dir)
    if names is None:
        names = DATASETS
    for dataset in map(find, names):
        if not present(dataset.name, folder):
            places = " or ".join(str(folder / place) for place in dataset.places)
            problem = f"missing: get it from {dataset.origin}; put it at {places}"
            yield Description(dataset, None, problem)
            continue
        try:
            yield Description(dataset, dataset.load(folder))
        except (ValueError, OSError) as error:
            yield Description(dataset, None, f"damaged: {error}")
