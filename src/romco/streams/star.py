"""``star``: mathematics scores in the Tennessee class-size experiment, by school."""

from __future__ import annotations

from pathlib import Path

from romco.streams.stream import Stream
from romco.streams.tabular import Recipe, Tabular, find_in, read

HIGH = 557.0  # about the mean score

RECIPE = Recipe(
    name="star",
    file="star/star.csv.gz",
    sha256="3e407b7ea8db73779c3561bdc48d915004bfffabce641fc62e3bb3eff6031ec9",
    task="school",
    numbers=("teacher_experience", "birth_year"),
    words=(
        *("grade", "class_type", "teacher_degree", "teacher_ladder", "teacher_race"),
        *("free_lunch", "school_type", "sex", "ethnicity", "birth_quarter"),
    ),
    origin="the Tennessee class-size experiment, from a public R package",
    terms="GPL as far as known",
)
find = find_in(RECIPE)


def events(data_dir: Path | None = None, scaled: bool = True) -> Tabular:
    """11,935 pupils and years of 39 schools in order of the year; ``math`` is a number."""
    return read(RECIPE, data_dir, scaled)


def load(data_dir: Path | None = None, scaled: bool = True) -> Stream:
    """Whether the score in mathematics is above 557 (+1)."""
    return events(data_dir, scaled).ask_whether_above("math", HIGH, "mean")
