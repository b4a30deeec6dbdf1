"""romco-auto with a part switched off, or with another constant.

``python -m romco_lab.beyond.ablations`` prints by how much each part changes the log loss on the
development sets of two classes, at most 20,000 events of each, in the order of the file, shuffled
and by task. The first 70 % are learned and predicted live, the rest frozen. With ``--sensitivity``
it prints the change where a constant is doubled or halved, also of numbers (RMSE) and of many
classes. With ``--new-tasks`` it prints the frozen loss on three in ten tasks that are held apart,
by that of a model that is told no tasks: in the order of the file and of two shuffles. Names of
sets may follow, and of constants.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import romco
from romco.evaluation import Score
from romco.kernels.auto import constants
from romco.kernels.auto.auto import INPUT_NAMES, STREAM_FIELDS
from romco.learners.auto import Auto
from romco.rounds import Round, Rounds
from romco.streams import Stream
from romco.streams.datasets import load
from romco.typing import Floats

Make = Callable[[int, int], Any]  # from the number of features and tasks
DEVELOPMENT_SETS: tuple[str, ...] = (
    *("swissmetro", "star", "nlswork", "fars", "flights", "mhc", "movies", "emails", "spam"),
)
OTHER_TARGETS: tuple[str, ...] = (
    *("cheese@number", "nlswork@number", "star@number", "swissmetro@classes", "fars@classes"),
)
SCRIPT = """
import json, sys
from romco.kernels.auto import constants
constant, value, name = sys.argv[1:]
setattr(constants, constant, float(value))  # before any learner is imported
from romco_lab.beyond.ablations import losses, usual
print(json.dumps(losses(name, usual(name)).tolist()))
"""
MAX_EVENTS = 20_000
LEARNED = 0.7  # of the events; the others are predicted frozen
NEW_TASKS = 0.3  # share of the tasks that are held apart
OWN, MIXED, HINGE, GLOBAL = LEARNERS = INPUT_NAMES[1:5]


def fix(learner: Auto, *inputs: str, weight: float | None = None) -> None:
    """Let stacking weights of inputs stay as they are, or at a given weight."""
    arrays = learner.arrays()
    at = [INPUT_NAMES.index(name) for name in inputs]
    for model in ("", "frozen_"):
        covariance = arrays[f"{model}covariance"]
        covariance[at] = covariance[:, at] = 0.0
        if weight is not None:
            arrays[f"{model}weight"][at] = weight


def set_stream(learner: Auto, name: str, value: float) -> None:
    """Set a number of the stream's state."""
    learner.arrays()["stream"][STREAM_FIELDS.index(name)] = value


def close_blocks(learner: Auto) -> None:
    """Let no feature have covariances, nor a slope of the moment."""
    for name in ("frequent", "mixed_frequent"):
        learner.arrays()[name][1:] = -2.0  # nothing may join


def hear_only(learner: Auto, name: str) -> None:
    """Let one input be the margin."""
    fix(learner, *INPUT_NAMES, weight=0.0)
    fix(learner, name, weight=1.0)
    set_stream(learner, "tracking", 0.0)


def as_they_are(learner: Auto) -> None:
    """Let a fresh learner take features as they are: of size beyond measure, never found anew."""
    learner.arrays()["units"][:, 4:] = 1e300, 1.0, np.inf, np.inf


def changed(change: Callable[..., None], *given: str | float, **more: float) -> Make:
    """Return what makes learners and changes them."""

    def make(n_features: int, n_tasks: int) -> Auto:
        learner = Auto(n_features, n_tasks)
        change(learner, *given, **more)
        return learner

    return make


def with_constant(name: str, value: float) -> Make:
    """Return what makes learners whose kernel reads another constant."""

    def make(n_features: int, n_tasks: int) -> Auto:
        with mock.patch.object(constants, name, value):
            return Auto(n_features, n_tasks)

    return make


without = partial(changed, fix, weight=0.0)
SINGLE = {f"only {name}": changed(hear_only, name) for name in LEARNERS}
ABLATIONS = {
    "auto without U": without(*INPUT_NAMES[5:]),
    **{f"auto without {name}": without(name) for name in LEARNERS},
    "auto without hinge": without(OWN, HINGE),
    "auto without logistic": without(MIXED, GLOBAL),
    "auto without learned variances": changed(set_stream, "variances_due", 1e300),
    "auto without covariances": changed(close_blocks),
    "auto without moment": changed(set_stream, "tracking", 0.0),
    "auto without old copies": with_constant("COPY_GROWTH", 1.0),
    "auto without functions of columns": changed(set_stream, "functions_due", 1e300),
    "auto without agreement of tasks": with_constant("AGREEMENT_ODDS", 1e300),
    "auto with stacking models that do not learn": changed(fix, *INPUT_NAMES),
    "auto with features as they are": changed(as_they_are),
}
VARIANTS = {**ABLATIONS, **SINGLE}


def variant(name: str, n_features: int, n_tasks: int) -> Auto:
    """Return a fresh romco-auto with a part switched off.

    >>> variant("auto without own hinge", 3, 2).trust()["own hinge"]
    0.0
    """
    return VARIANTS[name](n_features, n_tasks)


def orders(task: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return events as they are, shuffled, and by task."""
    n = len(task)
    return [np.arange(n), np.random.default_rng(n).permutation(n), np.argsort(task, kind="stable")]


def losses(name: str, make: Make) -> Floats:
    """Return losses on a set: (orders, 2), first live, then frozen."""
    target, stream, found = target_of(name), load(name), []
    for order in orders(stream.task[:MAX_EVENTS]):
        learner = make(stream.n_features, int(stream.task[order].max()) + 1)
        n = int(LEARNED * len(order))
        learned, others = some_rounds(stream, order[:n]), some_rounds(stream, order[n:]).events
        live = loss(target, learned.events, learner.replay(learned))
        found.append([live, loss(target, others, learner.predict_frozen(others))])
    return np.array(found)


def target_of(name: str) -> str:
    """Return what is predicted on a set, by its name."""
    _, _, variant = name.partition("@")
    return variant or "two classes"


def usual(name: str) -> Make:
    """Return what makes the learner of a set as it is."""
    target = target_of(name)
    if target == "number":
        return partial(romco.learner, "romco-auto-number")
    if target == "classes":
        n_classes = int(load(name).y.max()) + 1
        return partial(romco.learner, "classes", n_classes=n_classes)
    return Auto


def print_ablations(sets: tuple[str, ...]) -> None:
    """Print mean, least and most change without each part, live and frozen, and the worst sets."""
    whole = {name: losses(name, Auto) for name in sets}
    print("| | live: mean, least, most | on | frozen: mean, least, most | on |")
    print("|---|---|---|---|---|")
    for variant_name, make in ABLATIONS.items():
        changes = np.stack([per_cent(losses(name, make), whole[name]) for name in sets])
        cells = []
        for one in (changes[..., 0], changes[..., 1]):
            worst = sets[int(one.max(axis=1).argmax())]
            cells.append(f"{one.mean():+.2f}, {one.min():+.2f}, {one.max():+.2f} | {worst}")
        print(f"| {variant_name} | {' | '.join(cells)} |", flush=True)


def per_cent(losses: Floats, usual: Floats) -> Floats:
    """Return by how much losses exceed the usual ones."""
    return 100.0 * (losses / usual - 1.0)


def print_sensitivity(names: tuple[str, ...], sets: tuple[str, ...]) -> None:
    """Print mean and most change where a constant is doubled and halved, by target."""
    for target in dict.fromkeys(map(target_of, sets)):
        chosen = tuple(name for name in sets if target_of(name) == target)
        whole = {name: losses(name, usual(name)) for name in chosen}
        print(f"\n{target}:\n\n| constant | live x 2 | live / 2 | frozen x 2 | frozen / 2 |")
        print("|---|---|---|---|---|")
        for constant in names:
            by_set = []
            for name in chosen:
                both = [losses_with(constant, factor, name) for factor in (2.0, 0.5)]
                by_set.append(per_cent(np.array(both), whole[name]))
                if not by_set[0].any():  # a constant of another target
                    break
            else:
                print(sensitivity_row(constant, np.array(by_set)), flush=True)


def sensitivity_row(constant: str, changes: Floats) -> str:
    """Return a row of the table from changes (sets, 2, orders, 2), twice the constant first."""
    cells = [f"`{constant}`"]
    for part in (0, 1):  # live, frozen
        for factor in (0, 1):
            one = changes[:, factor, :, part]
            cells.append(f"{one.mean():+.2f}, {one.max():+.2f}")
    return f"| {' | '.join(cells)} |"


def print_new_tasks(sets: tuple[str, ...]) -> None:
    """Print how well new tasks are predicted, by a model that is told no tasks."""
    print("| | file | shuffled | shuffled |\n|---|---|---|---|")
    for name in sets:
        stream, target, cells = load(name), target_of(name), []
        n = min(MAX_EVENTS, len(stream.y))
        for seed in range(3):
            random = np.random.default_rng(seed)
            held = random.random(stream.n_tasks) < NEW_TASKS
            order = random.permutation(n) if seed else np.arange(n)
            known, new = (order[held[stream.task[order]] == is_new] for is_new in (False, True))
            found = []
            for told in (True, False):
                learner = usual(name)(stream.n_features, stream.n_tasks)
                learner.replay(some_rounds(stream, known, told))
                others = some_rounds(stream, new, told).events
                found.append(loss(target, others, learner.predict_frozen(others)))
            cells.append(f"{found[0] / found[1]:.3f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def some_rounds(stream: Stream, index: NDArray[np.int64], told: bool = True) -> Rounds:
    """Return some events, one a round; all of one task if tasks are not told."""
    task = stream.task[index]
    if not told:
        task = np.zeros_like(task)
    return Rounds(task, stream.x[index], stream.y[index], np.arange(len(index) + 1))


def loss(target: str, events: Round, scores: Floats) -> float:
    """Return the log loss of events, of numbers RMSE."""
    score = Score(target, curve=False)
    score.add(events, scores)
    return score.error if target == "number" else score.log_loss


def losses_with(constant: str, factor: float, name: str) -> Floats:
    """Return losses with a constant times a factor; of a growth, what exceeds 1."""
    least = 1.0 if constant.endswith("GROWTH") else 0.0
    value = least + factor * (getattr(constants, constant) - least)
    command = [sys.executable, "-c", SCRIPT, constant, str(value), name]
    return np.array(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))


if __name__ == "__main__":
    given = sys.argv[1:]
    sets = (*DEVELOPMENT_SETS, *OTHER_TARGETS)
    if "--sensitivity" not in given and "--new-tasks" not in given:
        sets = DEVELOPMENT_SETS
    sets = tuple(name for name in sets if name in given) or sets
    if "--sensitivity" in given:
        names = [name for name in vars(constants) if name.isupper()]
        print_sensitivity(tuple(name for name in names if name in given) or tuple(names), sets)
    elif "--new-tasks" in given:
        print_new_tasks(sets)
    else:
        print_ablations(sets)
