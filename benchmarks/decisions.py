"""Choices of romco.Chooser beside Vowpal Wabbit's, greedy ones, and what is known of simulations.

    ROMCO_DATA=... python -m benchmarks.decisions [sets people simulation routing joins poison
    intervals speed] [--shuffles 3]

Classes as actions, the protocol of the contextual bandit bake-off: a choice earns 1 where it is the
label, and only its own reward is seen; the figure is the share of wrong choices in one pass. Vowpal
Wabbit plays the same rows in the same order with ``--cbify``. The scale of the prior was chosen
with a look at the five sets and the mixed-effect arms, the law of trust with a look at other seeds
of the poison simulation.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import romco
from romco.policies import LoggedChoice, evaluate

SETS = "yeast", "dna", "satimage", "pendigits", "letter"
MAX_ROWS = 8000
VW_POLICIES = {
    "greedy": "--epsilon 0",
    "epsilon": "--epsilon 0.05",
    "squarecb": "--squarecb",
    "regcbopt": "--regcbopt --mellowness 0.1",
    "bag": "--bag 5",
    "cover": "--cover 5",
}
VW_RATES = 0.1, 0.5, 2.5
ROUTING_SHUFFLES = 20
SPEED_CHUNK = 250  # choices timed at once: on a busy machine the fastest tell most
METS_SEEDS = 10
Rows = list[dict[str, Any]]


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["ROMCO_DATA"]) / f"{name}.csv.gz")


def class_set(name: str, seed: int) -> tuple[Rows, list[str]]:
    """Rows and labels of a set in a random order."""
    frame = read(f"decisions/{name}")
    labels = frame.pop("label").astype(str)
    order = np.random.default_rng(seed).permutation(len(frame))[:MAX_ROWS]
    rows = frame.astype(float).iloc[order].to_dict("records")
    return rows, labels.iloc[order].tolist()


def optimistic(chooser: romco.Chooser, x: Any, task: Any, actions: Any, id: Any) -> Any:
    """Choose as the chooser does."""
    return chooser.choose(x, task=task, actions=actions, id=id).action


def greedy(chooser: romco.Chooser, x: Any, task: Any, actions: Any, id: Any) -> Any:
    """Choose the largest expected reward by the same posterior."""
    expected = chooser.expect(x, task=task, actions=actions)
    best = max(expected, key=lambda name: expected[name])
    offer = [one for one in actions if one == best or (type(one) is dict and one["name"] == best)]
    return chooser.choose(x, task=task, actions=offer, id=id).action


def wrong_choices(
    rows: Rows, labels: list[str], seed: int, choose: Callable[..., Any], tasks: Any = None
) -> float:
    """Share of wrong choices in one pass, in percent."""
    chooser = romco.Chooser(seed=seed)
    actions = sorted(set(labels))
    wrong = 0
    for i, (x, label) in enumerate(zip(rows, labels, strict=True)):
        task = None if tasks is None else tasks[i]
        right = choose(chooser, x, task, actions, i) == label
        chooser.reward(i, right)
        wrong += not right
    return 100.0 * wrong / len(rows)


def vowpal_lines(rows: Rows, labels: list[str], tasks: Any = None) -> list[str]:
    """Return rows for Vowpal Wabbit.

    Numbers are standardised by the whole set, which favours it. Columns of 0 and 1 are not, which
    favours it on yeast and dna.
    """
    number = {label: k + 1 for k, label in enumerate(sorted(set(labels)))}
    frame = pd.DataFrame(rows)
    numeric = frame.select_dtypes("number").loc[:, lambda columns: columns.nunique() > 2]
    frame[numeric.columns] = (numeric - numeric.mean()) / numeric.std()
    rows = frame.to_dict("records")
    lines = []
    for i, (x, label) in enumerate(zip(rows, labels, strict=True)):
        words = [
            f"{name}={value.replace(' ', '_')}" if isinstance(value, str) else f"{name}:{value}"
            for name, value in x.items()
        ]
        person = "" if tasks is None else f" |p p{tasks[i]}"
        lines.append(f"{number[label]} |x {' '.join(words)}{person}")
    return lines


def vowpal_wabbit(lines: list[str], actions: int) -> dict[str, list[float]]:
    """Share of wrong choices of each policy at each rate, in percent."""
    from vowpalwabbit import Workspace

    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.vw"
        path.write_text("\n".join(lines) + "\n")
        for name, options in VW_POLICIES.items():
            found[name] = []
            for rate in VW_RATES:
                how = f"--cbify {actions} --cb_explore_adf {options} -l {rate} -b 22"
                model = Workspace(f"{how} -d {path} --quiet")
                found[name].append(100.0 * model.get_sum_loss() / len(lines))
                model.finish()
    return found


def compare(name: str, data: Callable[[int], tuple[Any, ...]], shuffles: int) -> str:
    """One line: romco, greedy on the same posterior, the best of VW's policies and rates."""
    ours, lazy, theirs = [], [], []
    for seed in range(shuffles):
        rows, labels, *tasks = data(seed)
        person = tasks[0] if tasks else None
        ours.append(wrong_choices(rows, labels, seed, optimistic, person))
        lazy.append(wrong_choices(rows, labels, seed, greedy, person))
        theirs.append(vowpal_wabbit(vowpal_lines(rows, labels, person), len(set(labels))))
    means = {
        (policy, rate): np.mean([one[policy][k] for one in theirs])
        for policy in VW_POLICIES
        for k, rate in enumerate(VW_RATES)
    }
    best = min(means, key=lambda key: means[key])
    mine = np.mean(ours)
    return (
        f"| {name} | {mine:.1f} | {np.mean(lazy):.1f} | {means[best]:.1f} ({best[0]}, {best[1]}) | "
        f"{mine / means[best]:.2f} | {mine / np.mean(lazy):.2f} |"
    )


HEAD = "| | wrong, % | greedy | best of VW | over VW | over greedy |\n|---|---|---|---|---|---|"


def sets(shuffles: int) -> None:
    """Five class sets."""
    print(HEAD)
    for name in SETS:
        print(compare(name, lambda seed, name=name: class_set(name, seed), shuffles), flush=True)


def people(shuffles: int) -> None:
    """Travellers' choices; the person is the task."""

    def data(seed: int) -> tuple[Rows, list[str], list[str]]:
        frame = read("swissmetro/swissmetro")
        order = np.random.default_rng(seed).permutation(len(frame))
        frame = frame.iloc[order].drop(columns="game")
        labels = frame.pop("choice").astype(str).tolist()
        persons = frame.pop("person").astype(str).tolist()
        return frame.to_dict("records"), labels, persons

    print(HEAD)
    print(compare("swissmetro", data, shuffles), flush=True)


def mets_regret(seed: int, known: bool, choose: Callable[..., Any]) -> float:
    """Regret over 5,000 choices among 100 arms with mixed effects (Aouali et al., 2023)."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(0.0, np.sqrt(3.0), (5, 2))
    mixing = rng.uniform(-1.0, 1.0, (100, 5))
    weights = mixing @ effects + rng.normal(size=(100, 2))
    actions: list[Any] = [str(k) for k in range(100)]
    if known:
        actions = [
            {"name": str(k), **{f"b{j}": v for j, v in enumerate(row)}}
            for k, row in enumerate(mixing.tolist())
        ]
    chooser = romco.Chooser("number", seed=seed)
    regret = 0.0
    for i in range(5000):
        x = rng.uniform(-1.0, 1.0, 2)
        scores = weights @ x
        row = {"x": float(x[0]), "y": float(x[1])}
        chosen = int(choose(chooser, row, None, actions, i))
        regret += scores.max() - scores[chosen]
        chooser.reward(i, float(scores[chosen] + rng.normal()))
    return float(regret)


def simulation(_: int) -> None:
    """Mixed-effect arms, with and without their features."""
    for known in (True, False):
        found = [mets_regret(seed, known, optimistic) for seed in range(METS_SEEDS)]
        lazy = [mets_regret(seed, known, greedy) for seed in range(3)]
        what = "known" if known else "not known"
        print(f"| meTS, features {what} | {np.mean(found):,.0f} | greedy {np.mean(lazy):,.0f} |")


def routing(_: int) -> None:
    """Three language models, 30 sources as tasks, no text: regret of rewards."""
    frame = read("decisions/routing")
    rewards = frame.filter(like="reward:").to_numpy()
    names = [column.removeprefix("reward:") for column in frame.filter(like="reward:")]
    source = frame["source"].astype(str).tolist()
    found = []
    for seed in range(ROUTING_SHUFFLES):
        chooser = romco.Chooser("number", seed=seed)
        regret = 0.0
        for i in np.random.default_rng(seed).permutation(len(frame)).tolist():
            choice = chooser.choose({}, task=source[i], actions=names, id=i)
            earned = float(rewards[i, names.index(choice.action)])
            regret += rewards[i].max() - earned
            chooser.reward(i, earned)
        found.append(regret)
    error = np.std(found) / np.sqrt(ROUTING_SHUFFLES)
    print(f"| routing, regret | {np.mean(found):.1f} ± {error:.1f} |")


def linear_world(seed: int, actions: int = 5, features: int = 5, people: int = 100) -> Any:
    """Weights, levels of actions, and levels of people."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0.0, 0.7, (actions, features))
    return rng, weights, rng.normal(0.0, 0.5, actions), rng.normal(0.0, 0.5, (people, actions))


def joins(_: int) -> None:
    """An action that joins after 2,000 choices: better, or worse, than all others."""
    for what, level in (("good", 2.5), ("bad", -4.0)):
        shares = []
        for seed in range(10):
            rng, weights, levels, personal = linear_world(seed)
            weights[4], levels[4] = 0.0, level
            chooser = romco.Chooser(seed=seed)
            chosen = []
            for i in range(2200):
                x, person = rng.normal(size=5), int(rng.integers(100))
                names = "01234"[: 4 + (i >= 2000)]
                row = {f"x{j}": float(v) for j, v in enumerate(x)}
                action = chooser.choose(row, task=person, actions=list(names), id=i).action
                score = (
                    weights[int(action)] @ x + levels[int(action)] + personal[person][int(action)]
                )
                chooser.reward(i, bool(rng.random() < 1.0 / (1.0 + np.exp(-score))))
                chosen.append(action)
            shares.append(chosen[2000:].count("4") / 200)
        print(f"| a {what} action that joins is chosen in | {np.mean(shares):.0%} |")


def poison(_: int) -> None:
    """A fifth of the people report the opposite: regret of the others."""
    for label, count in (("all honest", 0), ("a fifth report the opposite", 20)):
        missed = []
        found = []
        for seed in range(5):
            rng, weights, levels, personal = linear_world(seed)
            chooser = romco.Chooser(seed=seed)
            regret = 0.0
            loss = []
            for i in range(6000):
                x, person = rng.normal(size=5), int(rng.integers(100))
                row = {f"x{j}": float(v) for j, v in enumerate(x)}
                action = int(chooser.choose(row, task=person, actions=list("01234"), id=i).action)
                likely = 1.0 / (1.0 + np.exp(-(weights @ x + levels + personal[person])))
                reward = bool(rng.random() < likely[action])
                chooser.reward(i, reward != (person < count))
                if person >= 20:
                    regret += likely.max() - likely[action]
                    loss.append(1.0 - likely[action])
            found.append(regret)
            missed.append(np.mean(loss))
        share = f"no reward in {np.mean(missed):.2%}"
        print(f"| {label}: 80 of 100 people | regret {np.mean(found):.0f} | {share} |")


def intervals(_: int) -> None:
    """Share of 200 logs of 3,000 choices whose intervals hold the truth."""
    for name, epsilon in (("epsilon 0.1", 0.1), ("epsilon 0.02", 0.02), ("own log", None)):
        held: dict[str, list[bool]] = {}
        for seed in range(200):
            log, truth = simulated_log(seed, epsilon)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = evaluate(log, best_by_sign)
            for estimate, one in value.estimates.items():
                held.setdefault(estimate, []).append(one.low <= truth <= one.high)
        shares = ", ".join(f"{key} {np.mean(value):.0%}" for key, value in held.items())
        print(f"| intervals hold the truth, {name} | {shares} |", flush=True)


def best_by_sign(event: LoggedChoice, actions: Sequence[Any]) -> dict[str, float]:
    return {"a" if event.context["x"] > 0 else "b": 1.0}


def simulated_log(seed: int, epsilon: float | None) -> tuple[list[LoggedChoice], float]:
    """A log of a policy with a uniform part, or of a chooser with a floor of 0.05."""
    rng = np.random.default_rng(seed)
    chooser = romco.Chooser(floor=0.05, seed=seed)
    log = []
    for i in range(3000):
        x = float(rng.normal())
        if epsilon is None:
            choice = chooser.choose({"x": x}, actions=["a", "b", "c", "d"], id=i)
            action, probabilities = str(choice.action), choice.probabilities
        else:
            probabilities = dict.fromkeys("abcd", epsilon / 4)
            probabilities["c" if x > 0 else "d"] += 1.0 - epsilon
            action = str(rng.choice(list("abcd"), p=list(probabilities.values())))
        good = action == ("a" if x > 0 else "b")
        reward = float(rng.random() < (0.6 if good else 0.4))
        if epsilon is None:
            chooser.reward(i, reward)
        log.append(LoggedChoice({"x": x}, action, reward, probabilities[action], probabilities))
    return log, 0.6


def speed(_: int) -> None:
    """Microseconds of choose and reward together."""
    rng = np.random.default_rng(0)
    for actions, features in ((3, 26), (26, 16)):
        rows = [
            {f"x{j}": v for j, v in enumerate(row)}
            for row in rng.normal(size=(10_000, features)).tolist()
        ]
        names = [f"a{k}" for k in range(actions)]
        ids = [f"r{i}" for i in range(len(rows))]
        chooser = romco.Chooser()
        times = []
        for begin in range(0, len(rows), SPEED_CHUNK):
            begun = time.process_time()
            for i in range(begin, begin + SPEED_CHUNK):
                chooser.choose(rows[i], task="ann", actions=names, id=ids[i])
                chooser.reward(ids[i], i & 1)
            times.append((time.process_time() - begun) / SPEED_CHUNK)
        best, usual = 1e6 * min(times), 1e6 * float(np.median(times))
        what = f"choose and reward, {actions} actions, {features} features"
        print(f"| {what} | {best:.1f} us at best, {usual:.1f} usually |")


PARTS = {
    one.__name__: one
    for one in (sets, people, simulation, routing, joins, poison, intervals, speed)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--shuffles", type=int, default=3)
    options = parser.parse_args()
    for name in options.parts or PARTS:
        print(f"\n### {name}: {PARTS[name].__doc__}\n", flush=True)
        PARTS[name](options.shuffles)


if __name__ == "__main__":
    main()
