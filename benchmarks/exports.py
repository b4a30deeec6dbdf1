"""Exports of many tasks: processor seconds, size of the files, growth of memory.

``python -m benchmarks.exports`` learns two events of each task. Columns have curves, some of which
differ by task. ``make test-exports`` prints how exact exports are.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import romco
from romco.exporting import WRITERS


def learned(tasks: int, columns: int) -> romco.Model:
    """A model of two classes, each of whose tasks knows all columns."""
    rng = np.random.default_rng(0)
    model = romco.Model(features=romco.Columns(columns))
    for _ in range(2):
        x = rng.normal(size=(tasks, columns))
        task = rng.permutation(tasks)
        personal = np.where(task % 2, 1.0, -1.0)
        curves = np.abs(x[:, 0]) - 0.8 + personal * (x[:, 1] ** 2 - 1.0)
        model.learn(x, curves + x[:, 2] + rng.normal(size=tasks) > 0.0, task)
    return model


def export(model: romco.Model, to: str) -> None:
    """Print the line of a format; run in a process of its own, whose memory grows."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        paths = romco.export(model, to, folder)
        seconds = time.process_time() - begin
        size = sum(path.stat().st_size for path in map(Path, paths))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"| {to} | {seconds:.1f} | {size / 1e6:,.0f} | {grown / 1e3:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=50)
    options = parser.parse_args()
    model = learned(options.tasks, options.columns)
    weights = len(model.engine.learner.frozen_predictor().pairs.task) / options.tasks
    print(f"{options.tasks:,} tasks of {options.columns} columns, {weights:.0f} weights each\n")
    print("| format | CPU s | MB of files | MB of memory |\n|---|--:|--:|--:|", flush=True)
    for to in WRITERS:
        process = multiprocessing.get_context("fork").Process(target=export, args=(model, to))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
