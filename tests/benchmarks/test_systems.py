"""Every system of the benchmarks runs on tiny streams and answers every event."""

import numpy as np
import pytest

from benchmarks import workloads
from benchmarks.doors import doors
from benchmarks.measure import Entry, Row, first, interleave, times_faster
from benchmarks.parts import BASELINES
from benchmarks.peers import RiverPerTask, SklearnGlobal, VowpalCalls, VowpalFile, lines
from benchmarks.systems import Calls, Plain, Stream, System, Unavailable

SYSTEMS: list[System] = [
    Stream("romco-auto"),
    *doors(),
    Stream("romco-nucl"),
    Calls("romco-nucl"),
    Stream("romco-logd"),
    *(Stream(name) for name in BASELINES),
    RiverPerTask(),
    VowpalCalls(),
    SklearnGlobal(batch=16),
    SklearnGlobal(batch=1, limit=5),
    Plain("gram"),
    Plain("svd"),
]
WORKLOADS = {
    "single sparse events": lambda: workloads.spam(0.005),
    "dense rounds": lambda: workloads.movies(0.005),
    "many tasks": lambda: workloads.large(
        n_tasks=70, n_features=256, nnz=10, warmup=20, events=150, segments=2
    ),
}


def started(system, workload):
    try:
        system.start(workload)
    except Unavailable as reason:
        pytest.skip(str(reason))
    return system


@pytest.mark.parametrize(
    "shape",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "many tasks")) for name in WORKLOADS],
)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_every_event_is_answered(system, shape):
    workload = WORKLOADS[shape]()
    rounds = first(workload.segment(0), system.limit)
    started(system, workload)
    margins = system.run(system.prepare(rounds))
    assert len(margins) == len(rounds.events.y)
    assert np.isfinite(margins).all()
    assert np.any(margins != 0)


def test_vowpal_engine_reads_every_line():
    workload = workloads.spam(0.005)
    system = started(VowpalFile(), workload)
    system.run(system.prepare(workload.segment(0)))
    system.finish()
    assert system.seen == len(workload.segment(0))


@pytest.mark.parametrize("shape", WORKLOADS)
def test_plain_numpy_is_the_same_algorithm(shape):
    """Else a ratio to it would compare two different things."""
    workload = WORKLOADS[shape]()
    rounds = workload.segment(0)
    answers = []
    for system in (Plain("gram"), Plain("svd"), Stream("romco-nucl"), Calls("romco-nucl")):
        system.start(workload)
        answers.append(system.run(system.prepare(rounds)))
    for other in answers[1:]:
        np.testing.assert_allclose(other, answers[0], atol=1e-6 * np.abs(answers[0]).max())


def test_repeats_are_interleaved_and_counted():
    workload = workloads.spam(0.005)
    entries = [Entry(workload, Stream("romco-nucl")), Entry(workload, Stream("absent"))]
    said = []
    ours, absent = interleave(entries, repeats=3, say=said.append)
    assert len(ours.microseconds) == 3
    assert min(ours.microseconds) > 0
    assert ours.events == len(workload.segment(0))
    assert absent.skipped
    assert not absent.microseconds
    assert len(said) == 5  # two warm-ups, three repeats of the one that runs


def test_ratio_is_taken_repeat_by_repeat():
    ours, theirs = Row("w", "ours"), Row("w", "theirs")
    ours.microseconds, theirs.microseconds = [1.0, 2.0, 10.0], [3.0, 8.0, 20.0]
    ratio = times_faster(ours, theirs)
    assert (ratio.middle, ratio.low, ratio.high) == (3.0, 2.0, 4.0)


def test_workloads_are_frozen():
    once, again = workloads.spam(0.01), workloads.spam(0.01)
    np.testing.assert_array_equal(once.segment(0).x.toarray(), again.segment(0).x.toarray())
    np.testing.assert_array_equal(once.segment(0).y, again.segment(0).y)


def test_features_of_a_row_differ_and_popularity_falls():
    rows = workloads.zipf_rows(np.random.default_rng(0), 2000, 1024, 20)
    assert (np.diff(rows, axis=1) > 0).all()
    popularity = np.sort(np.bincount(rows.ravel(), minlength=1024))[::-1]
    assert popularity[:10].mean() > 20 * popularity[512:].mean()


def test_vowpal_lines_carry_task_label_and_features():
    rounds = workloads.spam(0.005).segment(0)
    line = lines(rounds)[0]
    label, task, features = line.split("|")
    assert int(label) == rounds.y[0]
    assert task.split() == ["t", str(rounds.task[0])]
    assert len(features.split()) == 101
