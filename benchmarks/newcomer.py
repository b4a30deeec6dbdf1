"""A new user's first events by romco-auto, one model for all, one model for each: a picture.

``python -m benchmarks.newcomer`` leaves out one user of a data set after the other, learns
from the others, then plays the left-out user's events in order: predicted, then learned.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import romco
from romco.streams import Stream
from romco.streams.datasets import load
from romco_lab.figures import canvas, line_styles, save

LEARNERS = {
    "romco-auto": "romco (shared and personal)",
    "arow-global": "one model for all users",
    "arow-unique": "one model for each user",
}
BINS = (0, 5, 10, 20, 40, 80, 160)


def errors(stream: Stream, name: str, seed: int) -> Any:
    """Whether each prediction of each newcomer was wrong, (users, events)."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(stream.y))
    task, x, y = stream.task[order], stream.x[order], stream.y[order]
    wrong = []
    for user in range(stream.n_tasks):
        learner = romco.learner(name, stream.n_features, stream.n_tasks)
        for part in (np.flatnonzero(task != user), np.flatnonzero(task == user)):
            n = len(part)
            margins = learner.replay(romco.Rounds(task[part], x[part], y[part], np.arange(n + 1)))
        wrong.append((np.where(margins >= 0, 1, -1) != y[part])[: BINS[-1]])
    return np.stack(wrong)


def draw(stream: Stream, seeds: int, out: Path) -> Path:
    """The picture, as PNG and SVG."""
    styles = line_styles(list(LEARNERS))
    with canvas(1, 1, 6.4, 3.2) as (figure, ((axes,),)):
        for name, title in LEARNERS.items():
            wrong = np.stack([errors(stream, name, seed) for seed in range(seeds)])
            means = [wrong[:, :, a:b].mean() for a, b in pairwise(BINS)]
            print(f"{title:30}", *(f"{100 * mean:6.2f}" for mean in means))
            middle = [(a + 1 + b) / 2 for a, b in pairwise(BINS)]
            axes.plot(middle, 100 * np.array(means), marker="o", ms=3, label=title, **styles[name])
        axes.set(xscale="log", xlabel="events of the new user so far", ylabel="error, %")
        axes.set_xticks([1, 3, 10, 30, 100, 300], ["1", "3", "10", "30", "100", "300"])
        axes.legend()
        return save(figure, out, "newcomer")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--dataset", default="movies")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--out", type=Path, default=Path("results/newcomer"))
    given = options.parse_args()
    print("error in %, events", *(f"{a + 1}-{b}" for a, b in pairwise(BINS)))
    print(draw(load(given.dataset), given.seeds, given.out))
