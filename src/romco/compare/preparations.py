"""Streams that only an experiment needs, by name: data prepared otherwise, simulated worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from romco.parameters import setting
from romco.streams import Stream, emails, mhc, movies, simulated, spam

MARK = "@"  # parts the name of a data set from how it is prepared
WORLD = "world"
OTHERWISE: Mapping[str, Callable[[Path | None], Stream]] = {
    "spam@gain, logarithms": partial(spam.load, damped=True),
    "spam@frequency, counts": partial(spam.load, selection="frequency", damped=False),
    "spam@frequency, logarithms": partial(spam.load, selection="frequency", damped=True),
    "spam@unscaled": partial(spam.load, normalise=False),
    "mhc@unscaled": partial(mhc.load, normalise=False),
    "movies@unscaled": partial(movies.load, normalise=False),
    "emails@unscaled": partial(emails.load, normalise=False),
}


def prepared(name: str, data_dir: Path | None = None) -> Stream | None:
    """The stream of a name with a mark in it; None for a name without.

    >>> prepared("world@n_tasks=3,n_features=4,n_events=5,outliers=1,seed=2").n_events
    15
    >>> prepared("simulated")
    """
    first, mark, how = name.partition(MARK)
    if not mark:
        return None
    if first == WORLD:
        parts = (setting(part, "parameter=value") for part in how.split(","))
        return simulated(**dict(parts), name=name)
    if name not in OTHERWISE:
        raise ValueError(f"no data set {name!r}; there are {', '.join(OTHERWISE)}")
    return OTHERWISE[name](data_dir)


def world(**parameters: float) -> str:
    """The name of a simulated stream with these parameters.

    >>> world(n_tasks=3, noise=0.1)
    'world@n_tasks=3,noise=0.1'
    """
    return f"{WORLD}{MARK}" + ",".join(f"{key}={value}" for key, value in parameters.items())


def source_of(name: str) -> str:
    """The data set behind a preparation.

    >>> source_of("spam@unscaled")
    'spam'
    """
    return name.partition(MARK)[0]
