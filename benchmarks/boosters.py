"""``python -m benchmarks.boosters``: romco beside boosted trees on tables of ``ROMCO_DATA``.

Frozen: learn the first 70 % of a table in the order of the file and predict the rest without
labels. Live: predict each row, then learn it; LightGBM is fitted anew to all past rows whenever
another twentieth of the table has come, 18 times. Log loss of two classes, root mean squared error
of numbers. Boosted trees get the task as a category and stop early by the last 15 % of what they
may see. Needs the extra ``bench``; a library that is missing is left out. Names of tables may
follow.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import romco

ROWS = 20_000  # of a table, at most
LEARNED = 0.7  # share of the rows
FITTED = 0.85  # share of these that trees are fitted to; the rest stops them
REFITS = 18  # of LightGBM, from a tenth of the table on


class Table(NamedTuple):
    """A table, its task and label, and columns that are no features."""

    path: str
    task: str
    label: str
    dropped: tuple[str, ...] = ()
    positive: str | float | None = None  # label of the positive class, or least one; else a number
    log: bool = False  # whether log(1 + label) is predicted


TABLES = {
    "choices": Table("swissmetro/swissmetro.csv.gz", "person", "choice", ("game",), "car"),
    "accidents": Table("fars/fars.csv.gz", "state", "fatal", ("injury_severity",), 1.0),
    "departures": Table(
        "flights/flights.csv.gz",
        "dest",
        "late",
        ("delay", "delay_known_at", "scheduled_arrival", "flight", "tailnum"),
        1.0,
    ),
    "activity": Table(
        "tables/activity_hours.csv.gz", "user", "moved", ("hour_start", "steps", "calories"), 1.0
    ),
    "dear houses": Table(
        "tables/houses.csv.gz", "zipcode", "log_price", ("seq", "id", "date", "price"), 13.05
    ),
    "house prices": Table(
        "tables/houses.csv.gz", "zipcode", "log_price", ("seq", "id", "date", "price")
    ),
    "calories": Table(
        "tables/activity_hours.csv.gz", "user", "calories", ("hour_start", "steps", "moved")
    ),
    "wages": Table("nlswork/nlswork.csv.gz", "woman", "ln_wage"),
    "sales": Table("cheese/cheese.csv.gz", "retailer", "log_volume", ("volume",)),
    "scores": Table("star/star.csv.gz", "school", "math", ("reading", "student", "teacher")),
}
Floats = NDArray[np.float64]
Predictor = Callable[[pd.DataFrame, Any, Any, pd.DataFrame, Any, bool], Floats]
Parts = tuple[pd.DataFrame, NDArray[Any], NDArray[Any]]  # features, labels and tasks


def read(table: Table, folder: Path, rows: int = ROWS) -> Parts:
    """Return features, labels and tasks of a file, of so many rows at most."""
    frame = pd.read_csv(folder / table.path, nrows=rows)
    if "scheduled_departure" in frame:
        when = pd.to_datetime(frame.pop("scheduled_departure"))
        frame = frame.assign(hour=when.dt.hour, weekday=when.dt.day_name())
    return split(table, frame)


def split(table: Table, frame: pd.DataFrame) -> Parts:
    """Return features, labels and tasks of a frame."""
    label = frame.pop(table.label)
    task = frame.pop(table.task).astype(str)
    y = label.to_numpy()
    if table.log:
        y = np.log1p(y.astype(float))
    if isinstance(table.positive, str):
        y = (label == table.positive).to_numpy(int)
    elif table.positive is not None:
        y = (label >= table.positive).to_numpy(int)
    return frame.drop(columns=list(table.dropped)), y, task.to_numpy()


def romco_model(how: str) -> Predictor:
    """Return predictions of a model that ``learn`` or ``fit`` made."""

    def predict(x: Any, y: Any, task: Any, later: Any, later_task: Any, number: bool) -> Floats:
        model = romco.Model(target="number") if number else romco.Model(classes=[0, 1])
        getattr(model, how)(x, y.tolist(), task.tolist())
        return np.asarray(model.margins(later, later_task.tolist()))

    return predict


def with_task(x: pd.DataFrame, task: Any, known: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the features and the task, categories as such."""
    x = x.assign(task=task)
    for name in x:
        if not pd.api.types.is_numeric_dtype(x[name]):
            levels = None if known is None else known[name].cat.categories
            x[name] = pd.Categorical(x[name].astype(object), categories=levels)
    return x


def lightgbm(x: Any, y: Any, task: Any, later: Any, later_task: Any, number: bool) -> Floats:
    """Return predictions of LightGBM."""
    from lightgbm import LGBMClassifier, LGBMRegressor, early_stopping

    x = with_task(x, task)
    n = int(FITTED * len(y))
    kind = LGBMRegressor if number else LGBMClassifier
    made = kind(n_estimators=1000, learning_rate=0.05, n_jobs=1, verbosity=-1)
    stop = [early_stopping(50, verbose=False)]
    made.fit(x[:n], y[:n], eval_set=[(x[n:], y[n:])], callbacks=stop)
    made = kind(
        n_estimators=made.best_iteration_ or 100, learning_rate=0.05, n_jobs=1, verbosity=-1
    )
    made.fit(x, y)
    return np.asarray(made.predict(with_task(later, later_task, x), raw_score=not number))


def catboost(x: Any, y: Any, task: Any, later: Any, later_task: Any, number: bool) -> Floats:
    """Return predictions of CatBoost."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    def text(rows: Any, tasks: Any) -> pd.DataFrame:
        made = rows.assign(task=tasks)
        names = [name for name in made if not pd.api.types.is_numeric_dtype(made[name])]
        made[names] = made[names].fillna("").astype(str)
        return made

    x = text(x, task)
    names = [name for name in x if not pd.api.types.is_numeric_dtype(x[name])]
    n = int(FITTED * len(y))
    kind = CatBoostRegressor if number else CatBoostClassifier
    options = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
    made = kind(iterations=600, **options)
    made.fit(x[:n], y[:n], names, eval_set=(x[n:], y[n:]), early_stopping_rounds=50)
    made = kind(iterations=max(made.get_best_iteration() or 0, 20), **options)
    made.fit(x, y, names)
    rows = text(later, later_task)
    if number:
        return np.asarray(made.predict(rows))
    return np.asarray(np.diff(made.predict_log_proba(rows), axis=1)[:, 0])


def boosting_machine(
    x: Any, y: Any, task: Any, later: Any, later_task: Any, number: bool
) -> Floats:
    """Return predictions of an Explainable Boosting Machine: curves and products by trees."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingRegressor if number else ExplainableBoostingClassifier
    made = kind(outer_bags=1, n_jobs=1).fit(x.assign(task=task), y)
    rows = later.assign(task=later_task)
    return np.asarray(made.predict(rows) if number else made.decision_function(rows))


PREDICTORS: dict[str, Predictor] = {
    "learn": romco_model("learn"),
    "fit": romco_model("fit"),
    "LightGBM": lightgbm,
    "CatBoost": catboost,
    "EBM": boosting_machine,
}


def error(predicted: Floats, y: Floats, number: bool) -> float:
    """Return the root mean squared error, or the log loss of margins."""
    if number:
        return float(np.sqrt(np.mean((predicted - y) ** 2)))
    return float(np.logaddexp(0.0, -(2 * y - 1) * predicted).mean())


def measure(parts: Parts, number: bool) -> dict[str, tuple[float, float]]:
    """Return error and processor seconds of each predictor; a library that is missing has none."""
    x, y, task = parts
    n = int(LEARNED * len(y))
    found = {}
    for name, predictor in PREDICTORS.items():
        begin = time.process_time()
        try:
            predicted = predictor(x[:n], y[:n], task[:n], x[n:], task[n:], number)
        except ImportError:
            continue
        found[name] = error(predicted, y[n:], number), time.process_time() - begin
    return found


def measure_live(table: Table, folder: Path) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return error and processor seconds of romco and of LightGBM, from a tenth of the rows on."""
    x, y, task = read(table, folder)
    number = table.positive is None
    ends = np.linspace(0.1, 1.0, REFITS + 1) * len(y)
    first, *others = ends.astype(int).tolist()
    begin = time.process_time()
    model = romco.Model(target="number") if number else romco.Model(classes=[0, 1])
    live = np.asarray(model.learn(x, y.tolist(), task.tolist()))
    ours = error(live[first:], y[first:], number), time.process_time() - begin
    begin = time.process_time()
    parts = []
    past = first
    for end in others:
        rows = slice(0, past), slice(past, end)
        known = x[rows[0]], y[rows[0]], task[rows[0]]
        parts.append(lightgbm(*known, x[rows[1]], task[rows[1]], number))
        past = end
    theirs = error(np.concatenate(parts), y[first:], number), time.process_time() - begin
    return ours, theirs


def live_lines(folder: Path, chosen: list[str]) -> Iterator[str]:
    """Yield the table of live predictions, line by line."""
    yield "| table | romco, live | LightGBM, fitted 18 times | error | seconds |"
    yield "|---|---|---|---|---|"
    for name in chosen or TABLES:
        ours, theirs = measure_live(TABLES[name], folder)
        ratios = f"{ours[0] / theirs[0]:.3f} | 1/{theirs[1] / ours[1]:.0f}"
        yield f"| {name} | {_cell(ours)} | {_cell(theirs)} | {ratios} |"


def lines(tables: Mapping[str, Table], read: Callable[[Table], Parts]) -> Iterator[str]:
    """Yield the table of frozen predictions, line by line."""
    yield "| table | " + " | ".join(PREDICTORS) + " | learn, fit over the better trees |"
    yield "|---" * (len(PREDICTORS) + 2) + "|"
    ratios = []
    for name, table in tables.items():
        found = measure(read(table), table.positive is None)
        cells = [_cell(found.get(one)) for one in PREDICTORS]
        trees = [found[one][0] for one in ("LightGBM", "CatBoost") if one in found]
        ratio = "-"
        if trees:
            both = [found[one][0] / min(trees) for one in ("learn", "fit")]
            ratios.append(both)
            ratio = ", ".join(f"{value:.3f}" for value in both)
        yield f"| {name} | " + " | ".join(cells) + f" | {ratio} |"
    if ratios:
        mean = np.exp(np.log(ratios).mean(axis=0))
        worst = np.max(ratios, axis=0)
        yield f"Geometric mean over the better trees: learn {mean[0]:.3f}, fit {mean[1]:.3f}"
        yield f"Worst: learn {worst[0]:.3f}, fit {worst[1]:.3f}"


def _cell(found: tuple[float, float] | None) -> str:
    return "-" if found is None else f"{found[0]:.4g} ({found[1]:.1f} s)"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []])
    asked = parser.parse_args().tables
    folder = os.environ.get("ROMCO_DATA")
    if not folder:
        sys.exit("set ROMCO_DATA to the folder of the data sets")
    chosen = {name: TABLES[name] for name in asked or TABLES}
    for line in lines(chosen, partial(read, folder=Path(folder))):
        print(line, flush=True)
    for line in live_lines(Path(folder), asked):
        print(line, flush=True)


if __name__ == "__main__":
    main()
