"""Knowledge tracing: predict whether a student answers the next question correctly.

Three protocols. *Prequential*: train students first, then test students; everything learns.
*Personal*: each test student has a copy of the model after the train students, which learns from
that student alone. *Frozen*: the weights are those after the train students; only the history of a
test student is updated. Files are those of Gervet et al. (2020): part, user, timestamp, item,
skill, correct.
"""

import csv
import gzip
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

import romco
from romco.model.rows import Rows
from romco_lab.figures import COLOURS, DASHES, canvas, save

HISTORY = ("skill", "item")
CURVE_EDGES = (0, 5, 10, 20, 50, 100, 200, 500, 10**9)  # answers of a student so far
MIN_STUDENT_ANSWERS = 10  # and both kinds of answers, for the AUC of one student
CALIBRATION_BINS = 10
EACH = "arow-unique"  # learner that shares nothing between students
HASHED_COLUMNS = 2**12  # of it, for it has all features of all students

# AUC on the test students of the same splits, as published.
PUBLISHED = {
    "assist2009_lpp": {
        "IRT, Gervet et al. 2020": 0.69,
        "PFA, Gervet et al. 2020": 0.72,
        "logistic regression (Best-LR), Gervet et al. 2020": 0.77,
        "DKT, Gervet et al. 2020": 0.75,
        "SAKT, Gervet et al. 2020": 0.75,
        "best leak-free (leap-kt cards)": 0.7765,
    },
    "statics2011_lpp": {
        "IRT, Gervet et al. 2020": 0.79,
        "PFA, Gervet et al. 2020": 0.69,
        "logistic regression (Best-LR), Gervet et al. 2020": 0.82,
        "DKT, Gervet et al. 2020": 0.83,
        "SAKT, Gervet et al. 2020": 0.81,
        "DKT, pyKT leaderboard": 0.822,
        "AKT, pyKT leaderboard": 0.831,
    },
}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """Answers of students in order; test students last."""

    students: list[str]
    rows: list[dict[str, str]]
    correct: list[str]
    test: NDArray[np.bool_]

    @property
    def y(self) -> NDArray[np.bool_]:
        """True for a correct answer."""
        return np.array(self.correct) == "1"


def load(path: Path) -> Answers:
    """Read a gzipped CSV of answers."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    missing = {"part", "user", "item", "skill", "correct"} - set(lines[0] if lines else ())
    if missing:
        raise ValueError(f"{path}: no column {', '.join(sorted(missing))}")
    lines.sort(key=lambda line: line["part"] == "test")  # stable: each student's order stays
    return Answers(
        [line["user"] for line in lines],
        [{"skill": line["skill"], "item": line["item"]} for line in lines],
        [line["correct"] for line in lines],
        np.array([line["part"] == "test" for line in lines]),
    )


def prequential(
    answers: Answers,
    tasks: Sequence[str],
    learner: str = "romco-auto",
    history: Sequence[str] | None = None,
) -> tuple[Floats, float]:
    """Probability of a correct answer for each event, before it is learned; seconds it took."""
    model = _model(learner, history)
    begin = time.process_time()
    rows = Rows(answers.rows, tasks, answers.correct)
    chance = model.engine.predict_and_learn(rows).probabilities
    return chance, time.process_time() - begin


def unseen_students(answers: Answers) -> tuple[Floats, Floats]:
    """Probabilities for test students, frozen and personal."""
    model = _model("romco-auto", HISTORY)
    first = int(np.flatnonzero(answers.test)[0])
    model.learn(answers.rows[:first], answers.correct[:first], answers.students[:first])

    def learn(at: Sequence[int], weight: float) -> Floats:
        rows = [answers.rows[i] for i in at]
        correct = [answers.correct[i] for i in at]
        students = [answers.students[i] for i in at]
        weights = np.full(len(at), weight)
        return model.engine.predict_and_learn(Rows(rows, students, correct, weights)).probabilities

    test = range(first, len(answers.rows))
    alone = [list(run) for _, run in groupby(test, key=lambda i: answers.students[i])]
    personal = [in_copy(partial(learn, at, 1.0)) for at in alone]
    return learn(test, 0.0), np.concatenate(personal)


def in_copy(work: Callable[[], Floats]) -> Floats:
    """Result of a call in a copy of this process, whose changes are dropped."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(work()))
    process.start()
    sender.close()
    found: Floats = receiver.recv()
    process.join()
    return found


def _model(learner: str, history: Sequence[str] | None) -> romco.Model:
    schema = romco.Schema(dict.fromkeys(HISTORY, "category"), complete=True)
    hashed = romco.model.Hashed(HASHED_COLUMNS) if learner == EACH else None
    return romco.Model(learner, hashed, classes=("0", "1"), schema=schema, history=history)


def summary(answers: Answers, chance: Floats, part: NDArray[np.intp]) -> dict[str, float]:
    """AUC, accuracy, log loss, calibration error and the AUC of the 10th-percentile student."""
    y = answers.y[part]
    bins = np.minimum((chance * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    gaps = [abs((y[bins == b] - chance[bins == b]).sum()) for b in range(CALIBRATION_BINS)]
    return {
        "auc": float(roc_auc_score(y, chance)),
        "accuracy": float(((chance >= 0.5) == y).mean()),
        "log_loss": float(log_loss(y, chance)),
        "calibration": float(sum(gaps) / len(y)),
        "auc_10th_student": _student_percentile(answers, chance, part, y),
    }


def calibration(y: NDArray[np.bool_], chance: Floats) -> list[tuple[float, float]]:
    """Mean prediction and share of right answers in each bin of predictions."""
    bins = np.minimum((chance * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    used = [bins == b for b in range(CALIBRATION_BINS) if (bins == b).any()]
    return [(float(chance[one].mean()), float(y[one].mean())) for one in used]


def _student_percentile(
    answers: Answers, chance: Floats, part: NDArray[np.intp], y: NDArray[np.bool_]
) -> float:
    students = np.array(answers.students)[part]
    scores = []
    for student in np.unique(students):
        own = students == student
        if own.sum() >= MIN_STUDENT_ANSWERS and 0 < y[own].sum() < own.sum():
            scores.append(roc_auc_score(y[own], chance[own]))
    if scores:
        return float(np.percentile(scores, 10))
    return float("nan")


def curve(answers: Answers, chance: Floats, part: NDArray[np.intp]) -> list[float]:
    """Log loss by the number of answers that the student has given before."""
    so_far: dict[str, int] = {}
    before = np.array([_count(so_far, student) for student in answers.students])[part]
    y = answers.y[part]
    found = []
    for low, high in pairwise(CURVE_EDGES):
        here = (before >= low) & (before < high)
        found.append(
            float(log_loss(y[here], chance[here], labels=[False, True]))
            if here.any()
            else float("nan")
        )
    return found


def _count(so_far: dict[str, int], student: str) -> int:
    before = so_far.get(student, 0)
    so_far[student] = before + 1
    return before


def run(path: Path, progress: Callable[[str], None] = print) -> dict[str, Any]:
    """All figures of one data set, by name."""
    answers = load(path)
    name = path.name.removesuffix(".csv.gz")
    test = np.flatnonzero(answers.test)
    everybody = ["all"] * len(answers.students)
    progress(f"{name}: {len(answers.rows):,} answers, prequential")
    chance, seconds = prequential(answers, answers.students, history=HISTORY)
    lines = {
        "romco": chance,
        "one model for all": prequential(answers, everybody)[0],
        "one model for each": prequential(answers, answers.students, EACH)[0],
    }
    progress(f"{name}: frozen and personal")
    after, personal = unseen_students(answers)
    return {
        "name": name,
        "answers": len(answers.rows),
        "students": len(set(answers.students)),
        "answers_per_second": len(answers.rows) / seconds,
        "frozen": summary(answers, after, test),
        "personal": summary(answers, personal, test),
        "prequential": summary(answers, chance[test], test),
        "calibration": calibration(answers.y[test], after),
        "curves": {title: curve(answers, one[test], test) for title, one in lines.items()},
        "published": PUBLISHED.get(name, {}),
    }


def write(results: Sequence[dict[str, Any]], out: Path) -> Path:
    """Write results.json, one figure per data set and the page of tables; return the page."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(list(results), indent=1), encoding="utf-8")
    parts = ["# Knowledge tracing, measured\n"]
    for result in results:
        _draw(result, out)
        parts.append(_tables(result))
    page = out / "README.md"
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def _draw(result: dict[str, Any], out: Path) -> None:
    labels = [str(low) for low in CURVE_EDGES[:-1]]
    with canvas(1, 2, 8.4, 3.4) as (figure, ((curves, chances),)):
        for k, (title, losses) in enumerate(result["curves"].items()):
            look = {"color": COLOURS[k], "linestyle": DASHES[k], "linewidth": 1.4 if k else 2.2}
            curves.plot(labels, losses, label=title, **look)
        curves.set(xlabel="answers of the student so far", ylabel="log loss of the next answer")
        curves.legend()
        predicted, right = zip(*result["calibration"], strict=True)
        chances.plot([0, 1], [0, 1], color="#888888", linewidth=1.0)
        chances.plot(predicted, right, marker="o", color=COLOURS[0])
        chances.set(xlabel="predicted chance of a right answer", ylabel="share of right answers")
        save(figure, out, result["name"])


def _tables(result: dict[str, Any]) -> str:
    rows = [f"| {title} | {auc:.4g} | |" for title, auc in result["published"].items()]
    for protocol in ("frozen", "personal", "prequential"):
        figures = result[protocol]
        more = (
            f"accuracy {figures['accuracy']:.3f}, log loss {figures['log_loss']:.4f}, "
            f"calibration error {figures['calibration']:.3f}, "
            f"10th-percentile student {figures['auc_10th_student']:.3f}"
        )
        rows.append(f"| **romco, {protocol}** | **{figures['auc']:.4f}** | {more} |")
    head = "| method | AUC of test students | more |\n|---|---|---|\n"
    title = (
        f"## {result['name']}\n\n{result['answers']:,} answers of {result['students']:,} students, "
    )
    title += f"{result['answers_per_second']:,.0f} answers learned per second and core.\n\n"
    return (
        title
        + head
        + "\n".join(rows)
        + f"\n\n![Learning curves and calibration]({result['name']}.svg)\n"
    )
