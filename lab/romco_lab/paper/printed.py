"""The numbers printed in the paper, as facts to stand beside measured ones."""

import csv
from functools import cache
from importlib.resources import files

Key = tuple[str, str, str, str]  # data set, learner, task, measure


@cache
def printed_numbers() -> dict[Key, float]:
    """All numbers of the paper's result tables: percent and seconds.

    The paper gives no average for spam; the mean over its four users is added here.

    >>> printed_numbers()["spam", "romco-logd", "User1", "error_rate"]
    4.0
    """
    text = (files("romco_lab.paper") / "printed.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    numbers = {
        (row["dataset"], row["learner"], row["task"], row["measure"]): float(row["value"])
        for row in rows
    }
    return {**_averages(numbers), **numbers}


def printed(dataset: str, learner: str, task: str, measure: str) -> float | None:
    """A printed number, if the paper has it; ``User1 (pu1)`` is the paper's ``User1``."""
    return printed_numbers().get((dataset, learner, task.partition(" (")[0], measure))


def _averages(numbers: dict[Key, float]) -> dict[Key, float]:
    users: dict[Key, list[float]] = {}
    for (dataset, learner, task, measure), value in numbers.items():
        if task != "macro":
            users.setdefault((dataset, learner, "macro", measure), []).append(value)
    return {key: sum(values) / len(values) for key, values in users.items()}
