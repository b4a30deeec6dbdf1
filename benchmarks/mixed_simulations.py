"""Simulated mixed models: `python -m benchmarks.mixed_simulations [layer] [intervals] [groupings]`.

Seeds start at 1000; the tests use others, and so did the choice of constants.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import romco
from benchmarks.mixed_models import Data, loss, with_romco

SEEDS = range(1000, 1020)
Numbers = NDArray[np.float64]


def log_loss(y: NDArray[np.bool_], margins: Numbers) -> float:
    """Return the mean log loss of log-odds."""
    return float(np.mean(np.logaddexp(0.0, -np.where(y, 1.0, -1.0) * margins)))


def layer() -> Iterator[str]:
    """Yield what a personal layer costs where nothing is personal."""
    from sklearn.linear_model import LogisticRegression

    yield "| rows | columns | tasks | log loss while learning, mean and worst, % | after, % |"
    yield "|---|---|---|---|---|"
    for n, d, m in ((300, 20, 5), (300, 5, 100), (1000, 5, 5), (1000, 5, 100), (1000, 20, 100)):
        rises = []
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            X, task = rng.normal(size=(3 * n, d)), rng.integers(0, m, 3 * n).tolist()
            score = X @ (1.5 * rng.normal(size=d) / np.sqrt(d))
            y = score + rng.logistic(size=3 * n) > 0.0
            base = LogisticRegression().fit(X[:n], y[:n])
            layered, live = romco.PersonalLayer(base), []
            for begin in range(n, 2 * n, 20):
                part = slice(begin, begin + 20)
                live.append(layered.decision_function(X[part], task[part]))
                layered.partial_fit(X[part], y[part], task=task[part])
            found = np.concatenate([*live, layered.decision_function(X[2 * n :], task[2 * n :])])
            alone, y = base.decision_function(X[n:]), y[n:]
            halves = slice(n), slice(n, None)
            rises.append([log_loss(y[h], found[h]) / log_loss(y[h], alone[h]) - 1 for h in halves])
        mean, worst = 100 * np.mean(rises, axis=0), 100 * np.max(rises, axis=0)
        told = " | ".join(f"{a:+.2f}, {b:+.2f}" for a, b in zip(mean, worst, strict=True))
        yield f"| {n} | {d} | {m} | {told} |"


def intervals() -> Iterator[str]:
    """Yield how many 90 % intervals of effects hold the true effect."""
    yield "| target | sd of intercepts | events per task | second grouping | term | inside, % |"
    yield "|---|---|---|---|---|---|"
    for number in (True, False):
        for sd, each, m2 in ((1.0, 40, 0), (1.0, 40, 100), (0.3, 30, 0)):
            inside = defaultdict(list)
            for seed in SEEDS:
                for key, covered in _covered(seed, number, sd, each, m2):
                    inside[key].extend(covered)
            for key, covered in inside.items():
                name, share = "number" if number else "two classes", 100 * np.mean(covered)
                yield f"| {name} | {sd} | {each} | {m2 or ''} | {' '.join(key)} | {share:.1f} |"


def simulate(
    seed: int, number: bool, n: int = 4000, m: int = 100, m2: int = 0, sd: float = 1.0
) -> tuple[list[dict[str, Any]], list[Any], list[str], dict[tuple[str, str], Numbers]]:
    """Return rows, answers and pupils of n events, and the true effects.

    m pupils differ in intercept and slope, m2 schools in their intercept.
    """
    rng = np.random.default_rng(seed)
    x, task, other = rng.normal(size=n), rng.integers(0, m, n), rng.integers(0, max(m2, 1), n)
    level, slope = sd * rng.normal(size=m), 0.5 * sd * rng.normal(size=m)
    second = 0.8 * rng.normal(size=max(m2, 1)) * (m2 > 0)
    score = 0.3 + level[task] + (1.0 + slope[task]) * x + second[other]
    y = score + rng.normal(size=n) if number else score + rng.logistic(size=n) > 0.0
    rows = [{"x": a, "school": f"s{b}"} for a, b in zip(x.tolist(), other.tolist(), strict=True)]
    if not m2:
        rows = [{"x": row["x"]} for row in rows]
    true = {("pupil", "intercept"): level, ("pupil", "x"): slope, ("school", "intercept"): second}
    return rows, y.tolist(), [f"p{k}" for k in task], true


def learned(
    seed: int, number: bool, n: int = 4000, m2: int = 0, sd: float = 1.0
) -> tuple[romco.Model, dict[tuple[str, str], Numbers]]:
    """Return a model of simulated events, and the true effects."""
    rows, y, task, true = simulate(seed, number, n, m2=m2, sd=sd)
    kinds = {"x": "number", **({"school": "category"} if m2 else {})}
    schema = romco.Schema(kinds, task=["pupil", "school"] if m2 else ["pupil"])
    model = romco.Model(target="number" if number else None, schema=schema)
    model.learn(rows, y, task)
    return model, true


def _covered(seed: int, number: bool, sd: float, each: int, m2: int) -> Iterator[tuple[Any, Any]]:
    model, true = learned(seed, number, 100 * each, m2, sd)
    for key, found in romco.effects(model).levels.groupby(["grouping", "term"]):
        effect = np.array([true[key][int(name[1:])] for name in found.level])
        effect -= effect.mean()
        yield key, ((found.low <= effect) & (effect <= found.high)).tolist()


def groupings() -> Iterator[str]:
    """Yield log loss with a second grouping as features, and as a second model by offsets."""
    yield "| slopes vary by | first is the task | second is the task | second by offset | truth |"
    yield "|---|---|---|---|---|"
    for name, first, second in (
        ("none", 0.0, 0.0),
        ("first", 0.4, 0.0),
        ("second", 0.0, 0.4),
        ("both", 0.4, 0.4),
    ):
        losses = []
        for seed in SEEDS[:2]:
            data, truth = _crossed(seed, first, second)
            turned = data._replace(groups=data.groups[::-1])
            found = with_romco(data), with_romco(turned), _by_offset(data), truth[data.half :]
            losses.append(
                [loss(d, f) for d, f in zip((data, turned, data, data), found, strict=True)]
            )
        yield f"| {name} | " + " | ".join(f"{one:.4f}" for one in np.mean(losses, axis=0)) + " |"


def _crossed(seed: int, first: float, second: float) -> tuple[Data, Numbers]:
    """Return ratings as many as InstEval has, of as many lecturers and students."""
    n, m1, m2, rng = 73421, 1128, 2972, np.random.default_rng(seed)
    x, g1, g2 = rng.normal(size=(n, 1)), rng.integers(0, m1, n), rng.integers(0, m2, n)
    score = 0.3 + 0.3 * x[:, 0] + 0.5 * rng.normal(size=m1)[g1] + 0.35 * rng.normal(size=m2)[g2]
    score += (first * rng.normal(size=m1)[g1] + second * rng.normal(size=m2)[g2]) * x[:, 0]
    y = np.where(score + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    return Data("ratings", x, y, [g1, g2], False), score


def _by_offset(data: Data) -> Numbers:
    """Learn the second grouping by a model whose offset is the first one's prediction."""
    half, (g1, g2) = data.half, (group.tolist() for group in data.groups)
    inner, outer = (romco.Model(features=romco.Columns(1), classes=(-1.0, 1.0)) for _ in range(2))
    offset = inner.learn(data.x[:half], data.y[:half], g1[:half])
    outer.learn(data.x[:half], data.y[:half], g2[:half], offset=offset)
    return outer.margins(data.x[half:], g2[half:], offset=inner.margins(data.x[half:], g1[half:]))


if __name__ == "__main__":
    parts = {"layer": layer, "intervals": intervals, "groupings": groupings}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*parts, []])
    for part in parser.parse_args().parts or parts:
        for line in parts[part]():
            print(line, flush=True)
