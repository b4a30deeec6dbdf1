"""Tasks that report the opposite: how much the others lose.

    ROMCO_DATA=... python -m benchmarks.poison [emails mhc swissmetro]

All labels of a fifth of the tasks are flipped, from the first event on. Each event is predicted,
then learned, in a random order. The error is that of the other tasks, beside a run in which nobody
lies.
``python -m benchmarks.decisions poison`` does the same for choices.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

import romco
from romco.streams import Stream, datasets, interleaved

SETS = "emails", "mhc", "swissmetro"  # mailboxes, peptides, choices
LEARNERS = "romco-auto", "arow-global", "arow-unique"
SHARE = 0.2
SEEDS = 3


def errors(learner: str, stream: Stream, liars: np.ndarray, flipped: bool, seed: int) -> float:
    """Share of wrong predictions of the tasks that report what they see, in percent."""
    lies = np.isin(stream.task, liars)
    told = np.where(lies & flipped, -stream.y, stream.y)
    rounds = interleaved(replace(stream, y=told), seed)
    model = romco.learner(learner, n_features=stream.n_features, n_tasks=stream.n_tasks)
    margins = np.asarray(model.replay(rounds))
    honest = ~np.isin(rounds.task, liars)
    wrong = (margins >= 0.0) != (rounds.y > 0.0)
    return 100.0 * float(np.mean(wrong[honest]))


def compare(name: str, learner: str) -> str:
    """One line: error of the honest tasks without and with liars, and how much it grows."""
    stream = datasets.load(name)
    before, after = [], []
    for seed in range(SEEDS):
        count = max(1, round(SHARE * stream.n_tasks))
        liars = np.random.default_rng(seed).permutation(stream.n_tasks)[:count]
        before.append(errors(learner, stream, liars, False, seed))
        after.append(errors(learner, stream, liars, True, seed))
    grown = np.mean(after) / np.mean(before) - 1.0
    return f"| {name} | {learner} | {np.mean(before):.2f} | {np.mean(after):.2f} | {grown:+.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []])
    options = parser.parse_args()
    print("| | learner | all honest, wrong % | a fifth lies | |\n|---|---|---|---|---|")
    for name in options.sets or SETS:
        for learner in LEARNERS:
            print(compare(name, learner), flush=True)


if __name__ == "__main__":
    main()
