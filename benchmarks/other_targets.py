"""Many classes and numbers beside rivals: `python -m benchmarks.other_targets [SET ...]`.

Each set is read once, in the order of its file (or one fixed shuffle where it has none); every
event is predicted, then learned. Rivals are given their best of a grid in hindsight, ROMCO has
nothing to choose. Numeric columns are standardised in hindsight, for all alike. Results go to
docs/targets/results.json, a set at a time; `--report` prints the tables of docs/targets.md from
them. `--only romco`, `rivals` or `packages` runs a part and leaves what else is stored. `--frozen`
prints how good numbers are without answers.
"""

import argparse
import csv
import gzip
import json
import os
import time
from pathlib import Path

import numpy as np

import romco
from benchmarks import packages
from romco.evaluation import Score, baselines

HERE = Path(__file__).parent.parent / "docs"
STEPS = (0.01, 0.03, 0.1, 0.3)
SKIPPED = 5  # first events that are not counted for numbers: nobody knows their place yet


# --- data -------------------------------------------------------------------------------------


def table(name):
    path = Path(os.environ["ROMCO_DATA"]) / name / f"{name}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def encoded(rows, left_out, numeric=()):
    """Numbers standardised, a column for each value of the others; a missing one is all zeros."""
    parts = []
    for name in rows[0]:
        if name in left_out:
            continue
        values = [row[name] for row in rows]
        if name in numeric:
            numbers = np.array([float(v) if v else np.nan for v in values])
            scale = np.nanstd(numbers) or 1.0
            parts.append(np.nan_to_num((numbers - np.nanmean(numbers)) / scale)[:, None])
        else:
            kinds = [kind for kind in sorted(set(values)) if kind]
            if len(kinds) <= 100:
                parts.append(np.array([[v == kind for kind in kinds] for v in values], float))
    return np.hstack(parts)


def numeric_columns(rows, most=12):
    """Columns that are numbers of more than a few values."""

    def is_number(value):
        try:
            float(value)
        except ValueError:
            return False
        return True

    found = []
    for name in rows[0]:
        values = {row[name] for row in rows if row[name]}
        if len(values) > most and all(map(is_number, values)):
            found.append(name)
    return found


def numbered(names):
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([place[name] for name in names])


def swissmetro():
    rows = table("swissmetro")
    for row in rows:
        if row["annual_ticket"] == "1":
            row["train_cost"] = row["swissmetro_cost"] = "0"
    left_out = ("person", "choice", "game")
    x = encoded(rows, left_out, set(numeric_columns(rows)) - set(left_out))
    return numbered([r["person"] for r in rows]), x, numbered([r["choice"] for r in rows])


def fars():
    rows = table("fars")[:4000]
    left_out = ("state", "injury_severity", "fatal")
    codes = {n for n in rows[0] if n.startswith(("alcohol", "drug"))}
    x = encoded(rows, left_out, {"age"} - codes)
    return numbered([r["state"] for r in rows]), x, numbered([r["injury_severity"] for r in rows])


def digits():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    task = np.random.default_rng(1).integers(10, size=len(y))
    return task, x[order] / 16.0, y[order]


def movies():
    """The ratings of the 15 busiest users; features: what 200 other busy users gave the movie."""
    path = Path(os.environ["ROMCO_DATA"]) / "movielens100k" / "u.data"
    ratings = np.loadtxt(path, dtype=np.int64)[:, :3]
    users, count = np.unique(ratings[:, 0], return_counts=True)
    busy = users[np.argsort(-count, kind="stable")]
    given = np.zeros((ratings[:, 1].max() + 1, 200))
    for place, user in enumerate(busy[15:215]):
        own = ratings[ratings[:, 0] == user]
        given[own[:, 1], place] = (own[:, 2] - 3.0) / 2.0
    rows = ratings[np.isin(ratings[:, 0], busy[:15])]
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return numbered(rows[:, 0].tolist()), given[rows[:, 1]], rows[:, 2] - 1


def cheese():
    rows = table("cheese")
    x = np.array([[np.log(float(r["price"])), float(r["display"])] for r in rows])
    y = np.array([float(r["log_volume"]) for r in rows])
    return numbered([r["retailer"] for r in rows]), (x - x.mean(0)) / x.std(0), y


def nlswork():
    rows = table("nlswork")
    numeric = set(numeric_columns(rows)) - {"industry", "occupation"}
    x = encoded(rows, ("woman", "ln_wage"), numeric)
    return numbered([r["woman"] for r in rows]), x, np.array([float(r["ln_wage"]) for r in rows])


def star():
    rows = table("star")
    left_out = ("school", "student", "teacher", "math", "reading", "year")
    x = encoded(rows, left_out, ("teacher_experience",))
    return numbered([r["school"] for r in rows]), x, np.array([float(r["math"]) for r in rows])


def simulated():
    rng = np.random.default_rng(0)
    task, x = rng.integers(20, size=3000), rng.normal(size=(3000, 10))
    w = rng.normal(size=10) + 0.7 * rng.normal(size=(20, 10))
    y = 100.0 + 7.0 * ((x * w[task]).sum(1) + 2.0 * rng.normal(size=20)[task])
    return task, x, y + 7.0 * rng.standard_t(2, size=3000)


CLASSES = {"swissmetro": swissmetro, "fars": fars, "digits": digits, "movies": movies}
NUMBERS = {"cheese": cheese, "nlswork": nlswork, "star": star, "simulated, t2 noise": simulated}


# --- rivals: rows in, what was predicted before each was learned out ----------------------------


def expanded(task, x, how):
    """One model for all, one per task, or one for all that knows the task's name."""
    one = np.ones((len(x), 1))
    if how == "task intercepts":
        return np.hstack([x, one, np.eye(task.max() + 1)[task]])
    return np.hstack([x, one])


def softmax(task, x, y, k, how, step):
    """Stochastic gradient descent on the multinomial logistic loss, with AdaGrad's steps."""
    rows = expanded(task, x, how)
    models = task.max() + 1 if how == "per task" else 1
    w, squares = np.zeros((models, k, rows.shape[1])), np.full((models, k, rows.shape[1]), 1e-8)
    scores = np.empty((len(y), k))
    for e, row in enumerate(rows):
        i = task[e] if models > 1 else 0
        z = w[i] @ row
        scores[e] = z - z.max() - np.log(np.exp(z - z.max()).sum())
        g = np.outer(np.exp(scores[e]) - (np.arange(k) == y[e]), row)
        squares[i] += g * g
        w[i] -= step * g / np.sqrt(squares[i])
    return scores


def plain_softmax(task, x, y, k, how, step):
    """The same with constant steps, which is River's softmax regression."""
    rows = expanded(task, x, how)
    models = task.max() + 1 if how == "per task" else 1
    w, scores = np.zeros((models, k, rows.shape[1])), np.empty((len(y), k))
    for e, row in enumerate(rows):
        i = task[e] if models > 1 else 0
        z = w[i] @ row
        scores[e] = z - z.max() - np.log(np.exp(z - z.max()).sum())
        w[i] -= step * np.outer(np.exp(scores[e]) - (np.arange(k) == y[e]), row)
    return scores


def scikit_sgd(task, x, y, k, how, step):
    """scikit-learn's SGDClassifier, one against the rest, logistic loss."""
    from sklearn.linear_model import SGDClassifier

    rows = expanded(task, x, how)
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=step, alpha=1e-6)
    scores = np.full((len(y), k), -np.log(k))
    for e in range(len(y)):
        if e:
            p = np.clip(model.predict_proba(rows[e : e + 1])[0], 1e-15, 1.0)
            scores[e] = np.log(p / p.sum())
        model.partial_fit(rows[e : e + 1], y[e : e + 1], classes=np.arange(k))
    return scores


def least_squares(task, x, y, how, prior):
    """Recursive least squares with the full covariance."""
    rows = expanded(task, x, how)
    models = task.max() + 1 if how == "per task" else 1
    w, S = {}, {}
    found = np.empty(len(y))
    for e, row in enumerate(rows):
        i = task[e] if models > 1 else 0
        if i not in w:
            w[i], S[i] = np.zeros(len(row)), prior * np.eye(len(row))
        found[e] = w[i] @ row
        gain = S[i] @ row
        v = 1.0 + row @ gain
        w[i] += gain * (y[e] - found[e]) / v
        S[i] -= np.outer(gain, gain) / v
    return found


def gradient_numbers(task, x, y, how, step):
    """Least mean squares with constant steps, errors clipped at 10."""
    rows = expanded(task, x, how)
    models = task.max() + 1 if how == "per task" else 1
    w, found = np.zeros((models, rows.shape[1])), np.empty(len(y))
    for e, row in enumerate(rows):
        i = task[e] if models > 1 else 0
        found[e] = w[i] @ row
        w[i] += step * np.clip(y[e] - found[e], -10.0, 10.0) * row
    return found


# --- measuring --------------------------------------------------------------------------------


def class_scores(task, y, scores, k):
    round = romco.Round(task, np.empty((len(y), 0)), y.astype(float))
    score = Score("classes")
    score.add(round, scores)
    distance = np.exp(scores) - np.eye(k)[y.astype(int)]
    return {
        "error": score.error,
        "f1": score.f1,
        "log loss": score.log_loss,
        "brier": np.square(distance).sum(axis=1).mean(),
        "calibration": score.calibration,
    }


def best(runs, by):
    """Of the runs of a grid the best, by what is measured."""
    return min(runs, key=lambda run: run[by])


def own_classes(task, x, y):
    k, m = int(y.max()) + 1, int(task.max()) + 1
    rounds = romco.Rounds(task, x, y.astype(float), np.arange(len(y) + 1))
    found = {}
    for title, learner in {
        "romco-auto, pairs": romco.learner("classes", x.shape[1], m, n_classes=k),
        "romco-auto, each against the rest": romco.learner(
            "classes", x.shape[1], m, n_classes=k, form="rest"
        ),
        "arow-shared, each against the rest": romco.learner(
            "classes", x.shape[1], m, n_classes=k, inner="arow-shared"
        ),
    }.items():
        begin = time.process_time()
        scores = learner.replay(rounds)
        took = (time.process_time() - begin) / len(y)
        found[title] = {**class_scores(task, y, scores, k), "us": 1e6 * took}
    two = romco.learner("romco-auto", x.shape[1], m)
    sides = romco.Rounds(task, x, np.where(y < k / 2, -1.0, 1.0), rounds.starts)
    begin = time.process_time()
    two.replay(sides)
    event = 1e6 * (time.process_time() - begin) / len(y)
    pairs = found["romco-auto, pairs"]
    pairs["events of two classes"] = pairs["us"] / event / (k - 1)  # times K - 1 of them
    return found


def rival_classes(task, x, y):
    k, m, found = int(y.max()) + 1, int(task.max()) + 1, {}
    ways = ("one for all", "task intercepts", "per task")
    ways = tuple(w for w in ways if w != "task intercepts" or m <= 100)
    for title, rival, some in (
        ("softmax, constant steps (River's)", plain_softmax, ways),
        ("softmax, AdaGrad", softmax, ways),
        ("scikit-learn SGD", scikit_sgd, ways[:1] if len(y) * k < 20_000 else ()),
    ):
        steps = STEPS[::2] if rival is scikit_sgd else STEPS
        runs = [
            {
                **class_scores(task, y, rival(task, x, y, k, how, step), k),
                "chosen": f"{how}, {step}",
            }
            for how in some
            for step in steps
        ]
        if not runs:
            continue
        found[title] = best(runs, "error")
        found[title]["log loss"] = best(runs, "log loss")["log loss"]
    answers = baselines.majority(y.tolist())
    found["majority"] = {"error": float(np.mean([a != b for a, b in zip(answers, y, strict=True)]))}
    return found


def package_classes(task, x, y):
    k, found = int(y.max()) + 1, {}
    for title, makers in packages.class_trees().items():
        runs = [class_scores(task, y, packages.river_classes(m, task, x, y, k), k) for m in makers]
        found[title] = best_of_both(runs)
    runs = [
        {
            **class_scores(task, y, packages.vowpal_classes(task, x, y, k, crossed, rate), k),
            "chosen": f"{crossed or 'plain'}, {rate}",
        }
        for crossed in packages.CROSSED
        for rate in packages.RATES
    ]
    found["Vowpal Wabbit --oaa, with and without -q"] = best_of_both(runs)
    return found


def best_of_both(runs):
    """The run of the lowest error, with the lowest log loss of any."""
    return {**best(runs, "error"), "log loss": best(runs, "log loss")["log loss"]}


def errors(task, predicted, answers):
    """Of numbers, without the first events; RMSE in percent of the answers' spread."""
    scored = Score("number")
    left = len(answers) - SKIPPED
    round = romco.Round(task[SKIPPED:], np.empty((left, 0)), answers[SKIPPED:])
    scored.add(round, predicted[SKIPPED:])
    found = {name: scored.value()[name] for name in ("mae", "rmse", "r2")}
    return {**found, "rmse": 100.0 * found["rmse"] / answers.std()}


def told_in_hindsight(y):
    """Answers as rivals see them: they are told place and unit."""
    return (y - y.mean()) / y.std()


def package_numbers(task, x, y):
    z, found = told_in_hindsight(y), {}
    for title, makers in packages.number_trees().items():
        runs = [errors(task, packages.river_numbers(make, task, x, z), z) for make in makers]
        found[title] = best(runs, "rmse")
    runs = [
        {
            **errors(task, packages.vowpal_numbers(task, x, z, crossed, rate), z),
            "chosen": f"{crossed or 'plain'}, {rate}",
        }
        for crossed in packages.CROSSED
        for rate in packages.RATES
    ]
    found["Vowpal Wabbit, with and without -q"] = best(runs, "rmse")
    return found


def own_numbers(task, x, y):
    m, found = int(task.max()) + 1, {}
    rounds = romco.Rounds(task, x, y, np.arange(len(y) + 1))
    for name in ("romco-auto-number", "arow-unique-number", "pa-unique-number"):
        learner = romco.learner(name, x.shape[1], m)
        begin = time.process_time()
        predicted = learner.replay(rounds)
        took = (time.process_time() - begin) / len(y)
        found[name] = {**errors(task, predicted, y), "us": 1e6 * took}
    learner, inside = romco.learner("romco-auto-number", x.shape[1], m), []
    for e, round in enumerate(rounds):
        if e >= 50:
            low, high = learner.intervals(round, 0.9)[0]
            inside.append(low <= round.y[0] <= high)
        learner.update(round)
    found["romco-auto-number"]["coverage"] = np.mean(inside)
    return found


def rival_numbers(task, x, y):
    m, z, found = int(task.max()) + 1, told_in_hindsight(y), {}
    ways = ("one for all", "per task", *(("task intercepts",) if m <= 100 else ()))
    for how in ways:
        runs = [errors(task, least_squares(task, x, z, how, p), z) for p in (0.1, 1.0, 10.0)]
        found[f"least squares, {how}"] = best(runs, "rmse")
    runs = [
        {**errors(task, gradient_numbers(task, x, z, how, step), z), "chosen": f"{how}, {step}"}
        for how in ways
        for step in STEPS
    ]
    found["gradient descent"] = best(runs, "rmse")
    found["mean of the task"] = errors(task, mean_of_the_task(task, z), z)
    return found


def mean_of_the_task(task, z):
    """The mean of the task's numbers so far; before its first, the mean of all."""
    past = {}
    for e, k in enumerate(task.tolist()):
        past.setdefault(k, []).append(e)
    means = baselines.mean(z)
    for events in past.values():
        means[events[1:]] = baselines.mean(z[events])[1:]
    return means


# --- the report -------------------------------------------------------------------------------


PARTS = {
    "romco": (own_classes, own_numbers),
    "rivals": (rival_classes, rival_numbers),
    "packages": (package_classes, package_numbers),
}


def run(names, parts):
    store = HERE / "targets" / "results.json"
    store.parent.mkdir(exist_ok=True)
    for name in names or [*CLASSES, *NUMBERS]:
        task, x, y = (CLASSES[name] if name in CLASSES else NUMBERS[name])()
        size = {"events": len(y), "tasks": int(task.max()) + 1, "features": x.shape[1]}
        if name in CLASSES:
            size["classes"] = int(y.max()) + 1
        for part in parts:
            found = PARTS[part][name not in CLASSES](task, x, y)
            results = json.loads(store.read_text()) if store.exists() else {}  # others may write
            kept = results.setdefault(name, {"size": size, "found": {}})
            kept["size"] = size
            kept["found"].update(found)
            store.write_text(json.dumps(results, indent=1) + "\n")
            print(name, json.dumps(found, indent=1), flush=True)


def tables():
    """The two tables of docs/targets.md, from the stored results."""
    results = json.loads((HERE / "targets" / "results.json").read_text())
    for kind, sets, cell in (
        ("classes", [n for n in CLASSES if n in results], class_cell),
        ("numbers", [n for n in NUMBERS if n in results], number_cell),
    ):
        print(f"<!-- {kind} -->")
        print("| | " + " | ".join(map(str, (heading(n, results[n]["size"]) for n in sets))) + " |")
        print("|---" * (len(sets) + 1) + "|")
        rows = dict.fromkeys(row for name in sets for row in results[name]["found"])
        for row in rows:
            cells = [cell(results[name]["found"].get(row)) for name in sets]
            print(f"| {row} | " + " | ".join(cells) + " |")
        print()


def heading(name, size):
    classes = f", {size['classes']} classes" if "classes" in size else ""
    return f"{name}{classes}, {size['events']:,} events, {size['tasks']:,} tasks"


def class_cell(found):
    if not found:
        return ""
    if "log loss" not in found:
        return f"{100 * found['error']:.1f}"
    text = (
        f"{100 * found['error']:.1f} / {found['log loss']:.3f} / {100 * found['calibration']:.1f}"
    )
    return text


def number_cell(found):
    if not found:
        return ""
    text = f"{found['rmse']:.2f}"
    if "coverage" in found:
        text += f" / {100 * found['coverage']:.1f}"
    return text


def season(n=6000, tasks=20):
    """A season of prices that one feature follows with noise."""
    rng = np.random.default_rng(0)
    level = 30.0 * np.sin(3.0 * np.pi * np.arange(n) / n)
    z, task = rng.normal(size=n), rng.integers(tasks, size=n)
    x = np.column_stack([level + 2.0 * rng.normal(size=n), z])
    y = 100.0 + level + 5.0 * z + 3.0 * rng.normal(size=tasks)[task] + rng.normal(size=n)
    return task, x, y


def frozen():
    """Print RMSE with answers, and on the last 30 % without, beside Ridge's on these."""
    from scipy.sparse import csr_array, hstack
    from sklearn.linear_model import Ridge

    for name, made in {**NUMBERS, "season": season}.items():
        task, x, y = made()
        n, known = len(y), int((2 / 3 if name == "season" else 0.7) * len(y))
        learner = romco.learner("romco-auto-number", x.shape[1], int(task.max()) + 1)
        begin = learner.replay(
            romco.Rounds(task[:known], x[:known], y[:known], np.arange(known + 1))
        )
        without = learner.predict(romco.Round(task[known:], x[known:], np.empty(0)))
        rest = romco.Rounds(task[known:], x[known:], y[known:], np.arange(n - known + 1))
        live = np.append(begin, learner.replay(rest))
        scale = x[:known].std(axis=0)
        scaled = csr_array((x - x[:known].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0))
        rows = hstack([scaled, csr_array((np.ones(n), (np.arange(n), task)))]).tocsr()
        ridge = Ridge().fit(rows[:known], y[:known]).predict(rows[known:])
        errors = (live - y)[SKIPPED:], without - y[known:], ridge - y[known:]
        cells = [f"{100.0 * np.sqrt(np.mean(error**2)) / y.std():.1f}" for error in errors]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", choices=[*CLASSES, *NUMBERS, []])
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--frozen", action="store_true")
    asked = parser.parse_args()
    if asked.frozen:
        frozen()
    elif asked.report:
        tables()
    else:
        run(asked.sets, asked.only.split(","))
