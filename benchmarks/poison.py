"""Tasks that report the opposite: how much the others lose.

    ROMCO_DATA=... python -m benchmarks.poison [emails mhc swissmetro]

All labels of a fifth of the tasks are flipped, or missing, from the first event on. Each event is
predicted, then learned, in a random order. The error is that of the other tasks, beside a run in
which nobody lies.
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
FACTORS = 1.0, np.nan, -1.0  # of the labels of a fifth of the tasks
SEEDS = 3


def errors(learner: str, stream: Stream, liars: np.ndarray, factor: float, seed: int) -> float:
    """Share of wrong predictions of the honest tasks, in percent.

    Labels of ``liars`` are multiplied by ``factor``: 1 true, -1 flipped, NaN missing.
    """
    lies = np.isin(stream.task, liars)
    rounds = interleaved(replace(stream, y=np.where(lies, factor * stream.y, stream.y)), seed)
    model = romco.learner(learner, n_features=stream.n_features, n_tasks=stream.n_tasks)
    margins = np.asarray(model.replay(rounds))
    honest = ~np.isin(rounds.task, liars)
    wrong = (margins >= 0.0) != (rounds.y > 0.0)
    return 100.0 * float(np.mean(wrong[honest]))


def compare(name: str, learner: str) -> str:
    """One line: error of the honest tasks without and with liars, and how much it grows."""
    stream = datasets.load(name)
    found = []
    for seed in range(SEEDS):
        count = max(1, round(SHARE * stream.n_tasks))
        liars = np.random.default_rng(seed).permutation(stream.n_tasks)[:count]
        found.append([errors(learner, stream, liars, factor, seed) for factor in FACTORS])
    honest, silent, flipped = np.mean(found, axis=0)
    grown = flipped / honest - 1.0
    return f"| {name} | {learner} | {honest:.2f} | {silent:.2f} | {flipped:.2f} | {grown:+.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []])
    options = parser.parse_args()
    print("| | learner | all honest, wrong % | a fifth silent | a fifth lies | |")
    print("|---|---|---|---|---|---|")
    for name in options.sets or SETS:
        for learner in LEARNERS:
            print(compare(name, learner), flush=True)


if __name__ == "__main__":
    main()
