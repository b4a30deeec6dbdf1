"""Rivals of other packages on many classes and numbers: River's trees and forests, Vowpal Wabbit.

Rows in, what was predicted before each was learned out, as in `benchmarks.other_targets`. All are
told the task: trees as a feature (a number where they take numbers only), Vowpal Wabbit as a
namespace of its own, which `-q` crosses with the features.
"""

import numpy as np

LEAST = 1e-9  # probability that an impossible class is given


def described(task, x, names):
    """Each row as River takes it: a dict, the task among the features."""
    for i, row in zip(task.tolist(), x.tolist(), strict=True):
        told = {f"f{j}": value for j, value in enumerate(row)}
        told["task"] = str(i) if names else float(i)
        yield told


def logarithms(p):
    """Probabilities (k,), some of which may be 0, as log-probabilities."""
    p = np.maximum(p, LEAST)
    return np.log(p / p.sum())


def river_classes(make, task, x, y, k):
    """A classifier of River's."""
    model, scores = make(), np.full((len(y), k), -np.log(k))
    for e, row in enumerate(described(task, x, "AMF" not in type(model).__name__)):
        chances = model.predict_proba_one(row)
        if chances:
            scores[e] = logarithms(np.array([chances.get(c, 0.0) for c in range(k)]))
        model.learn_one(row, int(y[e]))
    return scores


def river_numbers(make, task, x, y):
    """A regressor of River's."""
    model, found = make(), np.zeros(len(y))
    for e, row in enumerate(described(task, x, names=False)):
        found[e] = model.predict_one(row) or 0.0
        model.learn_one(row, float(y[e]))
    return found


def class_trees():
    """Of River: a Hoeffding tree, a forest of Mondrian trees."""
    from river.forest import AMFClassifier
    from river.tree import HoeffdingAdaptiveTreeClassifier, HoeffdingTreeClassifier

    return {
        "River Hoeffding tree": [
            HoeffdingTreeClassifier,
            lambda: HoeffdingTreeClassifier(grace_period=50),
            lambda: HoeffdingAdaptiveTreeClassifier(seed=0),
        ],
        "River AMF, 5 trees": [lambda: AMFClassifier(n_estimators=5, seed=0)],
    }


def number_trees():
    """The same for numbers."""
    from river.forest import AMFRegressor
    from river.tree import HoeffdingAdaptiveTreeRegressor, HoeffdingTreeRegressor

    return {
        "River Hoeffding tree": [
            HoeffdingTreeRegressor,
            lambda: HoeffdingTreeRegressor(grace_period=50),
            lambda: HoeffdingAdaptiveTreeRegressor(seed=0),
        ],
        "River AMF, 5 trees": [lambda: AMFRegressor(n_estimators=5, seed=0)],
    }


def written(task, x):
    """Each row as Vowpal Wabbit reads it, without its answer."""
    for i, row in zip(task.tolist(), x, strict=True):
        features = " ".join(f"{j}:{row[j]:.6g}" for j in np.flatnonzero(row))
        yield f"|t {i} |f {features}"


def vowpal(options, task, x, answers):
    """What Vowpal Wabbit predicted for each row before it learned it."""
    from vowpalwabbit import Workspace

    model, found = Workspace(f"--quiet -b 20 {options}"), []
    for text, answer in zip(written(task, x), answers, strict=True):
        example = model.example(f"{answer} {text}")
        found.append(model.predict(example))
        model.learn(example)
        model.finish_example(example)
    model.finish()
    return np.array(found)


def vowpal_classes(task, x, y, k, crossed, rate):
    """`--oaa`, with probabilities."""
    options = f"--oaa {k} --probabilities --loss_function logistic -l {rate} {crossed}"
    chances = vowpal(options, task, x, (y + 1).astype(int).tolist())
    return np.array([logarithms(row) for row in chances])


def vowpal_numbers(task, x, y, crossed, rate):
    """Squared loss."""
    return vowpal(f"-l {rate} {crossed}", task, x, y.tolist())


CROSSED = ("", "-q tf")
RATES = (0.1, 0.5, 2.0)
