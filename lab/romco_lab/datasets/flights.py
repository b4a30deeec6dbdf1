"""``flights``: departures from New York in the first half of 2013, in order of time.

119,729 departures; ``delay`` in minutes, ``late`` by more than 15. Features are schedule and
calendar.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from romco.streams.stream import Stream
from romco_lab.datasets.tabular import Columns, Recipe, Tabular, dataset, read

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


def _question(found: Tabular) -> Stream:
    """Make +1 of a flight that arrives more than 15 minutes late; the task is its destination."""
    return found.choose(found.columns["late"] == "1", ("on time", "late"), _TIME)


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
    question=_question,
)


def clock(data_dir: Path | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """When each flight was to depart, and when its delay was known, in minutes (n,); in order."""
    columns = read(RECIPE, data_dir).columns
    departure, known = (
        columns[name].astype("datetime64[m]").astype(np.float64)
        for name in ("scheduled_departure", "delay_known_at")
    )
    return departure, np.maximum(departure, known)


DATASET = dataset(RECIPE, "departures to 100 places, in time", clock=clock)
