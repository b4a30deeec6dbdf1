"""``flights``: departures from New York in the first half of 2013, in order of time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Columns, Recipe, Tabular, dataset, read

WEATHER = (
    *("temperature_f", "dew_point_f", "humidity", "wind_direction", "wind_mph", "gust_mph"),
    *("rain_inch", "pressure_mb", "visibility_miles"),
)
_TIME = "in order of time; in truth an answer is known hours later (delay_known_at)"


def _calendar(columns: Columns) -> Columns:
    """Hours and the day of the week, as words."""
    departure = columns["scheduled_departure"].astype("datetime64[m]")
    weekday = (departure.astype("datetime64[D]").astype(np.int64) + 3) % 7  # 0 is Monday
    return {
        **columns,
        "hour": (departure.astype("datetime64[h]").astype(np.int64) % 24).astype("U2"),
        "arrival_hour": columns["scheduled_arrival"].astype("U2"),
        "weekday": weekday.astype("U1"),
    }


RECIPE = Recipe(
    name="flights",
    file="flights/flights.csv.gz",
    sha256="d0f52f1b07ce16b891cf775a121f10389b4e8a67ce715f0066238e51d569073d",
    task="dest",
    numbers=("distance",),
    words=("origin", "carrier", "hour", "arrival_hour", "weekday"),
    origin="the R package nycflights13",
    terms="public domain (CC0)",
    derive=_calendar,
)


def events(
    data_dir: Path | None = None, scaled: bool = True, weather: bool = False, task: str = "dest"
) -> Tabular:
    """119,729 departures; ``delay`` in minutes, ``late`` by more than 15.

    The task is ``dest`` (100), ``carrier`` (16) or ``tailnum`` (3,759). Features are
    schedule and calendar, with ``weather`` also what was observed an hour before.

    Parameters
    ----------
    data_dir:
        Where the files are; None is ``ROMCO_DATA``, else the cache of the user.
    scaled:
        Whether columns of numbers are standardised over the whole set.
    weather:
        Whether what was observed an hour before is a feature, too.
    task:
        Who the task is: "dest", "carrier" or "tailnum".

    Returns
    -------
    :
        The columns and features, for a question of one's own.

    Raises
    ------
    MissingData
        Where the file is not there; it tells where to get it.
    DamagedData
        Where it is not the one that is expected.

    """
    numbers = (*RECIPE.numbers, *WEATHER) if weather else RECIPE.numbers
    return read(replace(RECIPE, numbers=numbers, task=task), data_dir, scaled)


def load(data_dir: Path | None = None, scaled: bool = True, weather: bool = False) -> Stream:
    """Whether a flight arrives more than 15 minutes late (+1); the task is where it goes.

    Parameters
    ----------
    data_dir:
        Where the files are; None is ``ROMCO_DATA``, else the cache of the user.
    scaled:
        Whether columns of numbers are standardised over the whole set.
    weather:
        Whether what was observed an hour before is a feature, too.

    Returns
    -------
    :
        The stream.

    Raises
    ------
    MissingData
        Where the file is not there; it tells where to get it.
    DamagedData
        Where it is not the one that is expected.

    """
    found = events(data_dir, scaled, weather)
    return found.choose(found.columns["late"] == "1", ("on time", "late"), _TIME)


def clock(data_dir: Path | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """When each flight was to depart, and when its delay was known, in minutes (n,); in order.

    Parameters
    ----------
    data_dir:
        Where the files are; None is ``ROMCO_DATA``, else the cache of the user.

    Returns
    -------
    :
        Times to depart (n,), and times when delays were known (n,), for ``Delay.until``.

    Raises
    ------
    MissingData
        Where the file is not there; it tells where to get it.
    DamagedData
        Where it is not the one that is expected.

    """
    columns = events(data_dir).columns
    times = [
        columns[name].astype("datetime64[m]").astype(np.float64)
        for name in ("scheduled_departure", "delay_known_at")
    ]
    return times[0], np.maximum(*times)


DATASET = dataset(RECIPE, "departures to 100 places, in time", load, clock=clock)
