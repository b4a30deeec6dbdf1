"""Checks of the learner contract; each raises AssertionError where it is broken.

Use them on a learner of your own::

    from romco.checks import check_learner
    check_learner(lambda n_features, n_tasks: MyLearner(n_features, n_tasks))

Each check takes ``make``, a function of ``n_features`` and ``n_tasks`` that gives a
fresh learner, and the rounds of a small stream.
"""

import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from romco.kernels.core.events import Events
from romco.kernels.merge.rows import FeatureCounts
from romco.learners import Learner
from romco.learners.base import State
from romco.learners.merging import Change, apply_merged, collect_change, merge
from romco.learners.sharing import Sum, Whole
from romco.rounds import Round, Rounds, chosen
from romco.streams import simulated, synchronous

Make = Callable[[int, int], Learner]
Check = Callable[[Make, Rounds], None]

D, M = 12, 5  # features and tasks of the streams below


def check_learner(make: Make) -> None:
    """Run every check on dense and sparse rounds, with tasks of unequal length.

    >>> import romco
    >>> check_learner(lambda d, m: romco.learner("ogd-unique", d, m))
    """
    for rounds in streams():
        for check in CHECKS:
            check(make, rounds)


def streams() -> Iterator[Rounds]:
    """Small streams that between them hold what a learner may meet."""
    for sparsity in (0.0, 0.6):
        stream = simulated(
            M, D, n_events=(30, 12, 25, 30, 1), sparsity=sparsity, outliers=1, noise=0.1, seed=3
        )
        yield synchronous(stream, seed=1)


def check_predict_ignores_answers(make: Make, rounds: Rounds) -> None:
    """Predictions do not depend on labels that are there by accident."""
    learner = trained(make, rounds)
    for round in rounds:
        blind = round._replace(y=np.full_like(round.y, np.nan))
        np.testing.assert_array_equal(learner.predict(blind), learner.predict(round))


def check_missing_labels_are_left_out(make: Make, rounds: Rounds) -> None:
    """Events whose label is NaN are predicted; of their round the others are learned.

    A learner may learn from them what needs no label (:attr:`Learner.uses_unlabelled`): before the
    others, and no task's weights.
    """
    part = rounds[:10]
    gaps = Rounds(part.task, part.x, part.y.copy(), part.starts)
    gaps.y[::3] = np.nan
    with_gaps = make(D, M)
    blind = make(D, M)
    plain = make(D, M)
    margins = with_gaps.replay(gaps)
    expected = []
    for round in gaps:
        expected.append(blind.predict(round))
        blind.update(round)
        missing = np.isnan(round.y)
        if missing.any() and plain.uses_unlabelled:
            plain.update(chosen(round, missing))
        if not missing.all():
            plain.update(chosen(round, ~missing))
    np.testing.assert_array_equal(margins, np.concatenate(expected))
    assert_same_state(with_gaps.state(), blind.state())
    assert_same_state(with_gaps.state(), plain.state())
    blank = make(D, M)
    blank.update(part[0]._replace(y=np.full(len(part[0].y), np.nan)))
    np.testing.assert_array_equal(blank.weights(), make(D, M).weights())


def check_predict_is_pure(make: Make, rounds: Rounds) -> None:
    """Predicting changes nothing: not the state, not the answers that come later."""
    learner = make(D, M)
    quiet = make(D, M)
    for round in rounds:
        before = learner.state()
        learner.predict(round)
        assert_same_state(learner.state(), before)
        learner.update(round)
        quiet.update(round)
    np.testing.assert_array_equal(learner.weights(), quiet.weights())


def check_input_is_untouched(make: Make, rounds: Rounds) -> None:
    """The caller's arrays are as they were."""
    learner = make(D, M)
    for round in rounds:
        parts = _parts(round)
        copies = list(map(np.copy, parts))
        learner.predict(round)
        learner.update(round)
        for part, copy in zip(parts, copies, strict=True):
            np.testing.assert_array_equal(part, copy)


def check_deterministic(make: Make, rounds: Rounds) -> None:
    """The same stream gives the same bits."""
    assert_same_state(trained(make, rounds).state(), trained(make, rounds).state())


def check_replay_is_the_loop(make: Make, rounds: Rounds) -> None:
    """``replay`` equals predicting and updating round by round, to the last bit."""
    looped = make(D, M)
    replayed = make(D, M)
    margins = []
    for round in rounds:
        margins.append(looped.predict(round))
        looped.update(round)
    np.testing.assert_array_equal(replayed.replay(rounds), np.concatenate(margins))
    assert_same_state(replayed.state(), looped.state())


def check_restore_goes_on(make: Make, rounds: Rounds) -> None:
    """Stopping, restoring and going on gives the same bits as never stopping."""
    half = len(rounds) // 2
    whole = trained(make, rounds)
    first = trained(make, rounds[:half])
    second = make(D, M)
    second.load(first.state()["arrays"])
    second.replay(rounds[half:])
    assert_same_state(second.state(), whole.state())


def check_state_is_a_copy(make: Make, rounds: Rounds) -> None:
    """A state taken earlier does not change while the learner goes on."""
    half = len(rounds) // 2
    learner = trained(make, rounds[:half])
    state = learner.state()
    again = learner.state()
    learner.replay(rounds[half:])
    assert_same_state(state, again)


def check_no_look_ahead(make: Make, rounds: Rounds) -> None:
    """Other labels from round t on leave margins up to and including t as they were."""
    t = len(rounds) // 2
    flipped = Rounds(rounds.task, rounds.x, rounds.y.copy(), rounds.starts)
    flipped.y[rounds.starts[t] :] *= -1.0
    margins = make(D, M).replay(rounds)
    others = make(D, M).replay(flipped)
    known = rounds.starts[t + 1]
    np.testing.assert_array_equal(margins[:known], others[:known])


def check_task_permutation(make: Make, rounds: Rounds) -> None:
    """Renaming tasks permutes the weights and changes nothing else."""
    renamed = np.array([2, 0, 4, 1, 3])
    learner = trained(make, rounds)
    other = trained(make, Rounds(renamed[rounds.task], rounds.x, rounds.y, rounds.starts))
    np.testing.assert_allclose(
        other.weights()[:, renamed], learner.weights(), rtol=1e-8, atol=1e-10
    )


def check_dense_equals_sparse(make: Make, rounds: Rounds) -> None:
    """The same numbers, stored either way, are learned alike."""
    dense = _dense(rounds.x)
    a = make(D, M).replay(Rounds(rounds.task, dense, rounds.y, rounds.starts))
    b = make(D, M).replay(Rounds(rounds.task, csr_array(dense), rounds.y, rounds.starts))
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def check_margins_are_the_weights(make: Make, rounds: Rounds) -> None:
    """A linear learner predicts w_i . x, plus an intercept where it has one."""
    learner = trained(make, rounds)
    if not learner.linear:
        return
    task, x, y, *_ = rounds.events
    at_zero = learner.predict(Round(task, np.zeros(x.shape), y))
    expected = np.einsum("nd,dn->n", _dense(x), learner.weights()[:, task]) + at_zero
    np.testing.assert_allclose(learner.predict(rounds.events), expected, rtol=1e-8, atol=1e-10)


def check_first_margin_is_zero(make: Make, rounds: Rounds) -> None:
    """Before anything was learned every margin is exactly 0, so that +1 is predicted."""
    np.testing.assert_array_equal(make(D, M).predict(rounds[0]), 0.0)


def check_bad_input_changes_nothing(make: Make, rounds: Rounds) -> None:
    """Each kind of bad round raises ValueError and leaves the learner as it was."""
    learner = trained(make, rounds)
    before = learner.state()
    for what, round in bad_rounds():
        try:
            learner.update(round)
        except ValueError:
            assert_same_state(learner.state(), before)
        else:
            raise AssertionError(f"{what} was accepted")


def check_memory_does_not_grow(make: Make, rounds: Rounds) -> None:
    """Learning the same rounds again and again keeps the state's size, within 1 %, and the heap."""
    learner = trained(make, rounds)
    if learner.keeps_events:
        return
    for _ in range(3):
        learner.replay(rounds)
    tracemalloc.start()
    learner.replay(rounds)
    size = _bytes(learner)
    heap = tracemalloc.get_traced_memory()[0]
    for _ in range(5):
        learner.replay(rounds)
    grown = tracemalloc.get_traced_memory()[0] - heap
    tracemalloc.stop()
    assert _bytes(learner) <= 1.01 * size, f"state grew from {size} to {_bytes(learner)} bytes"
    assert grown < 64_000, f"{grown} bytes were kept after learning the same rounds again"


def check_arrays_are_declared(make: Make, rounds: Rounds) -> None:
    """Check that a shardable learner declares each array exactly once."""
    learner = trained(make, rounds)
    if not learner.shardable:
        return
    named = [name for name in learner.arrays() if name in (learner.task_axes or ())]
    for line in learner.sharing():
        named += line.arrays
    assert len(named) == len(set(named)), f"an array is declared twice: {sorted(named)}"
    missing = set(learner.arrays()) - set(named)
    assert not missing, f"neither task_axes nor sharing() names {sorted(missing)}"


def check_one_shard_is_the_learner(make: Make, rounds: Rounds) -> None:
    """Merging the change of a single shard, or no change at all, alters not a bit."""
    learner = make(D, M)
    common = make(D, 1)
    if not learner.shardable:
        return
    learner.become_shard()
    learner.replay(rounds)
    before = learner.state()
    touched = _touched(rounds)
    apply_merged(learner, merge(common, [collect_change(learner, touched, len(rounds.y))]))
    assert_same_state(learner.state(), before)
    apply_merged(learner, merge(common, [collect_change(learner, FeatureCounts(D), 0)] * 2))
    assert_same_state(learner.state(), before)


def check_merging_is_fixed(make: Make, rounds: Rounds) -> None:
    """Shards merge to the same bits each time, to finite numbers, and leave tasks alone."""
    shards = _shards(make, rounds, 2)
    if not shards:
        return
    _, changes = zip(*shards, strict=True)
    results = [merge(make(D, 1), changes) for _ in range(2)]
    for name, array in results[0].values.items():
        np.testing.assert_array_equal(array, results[1].values[name], err_msg=name)
        assert np.isfinite(array).all(), f"{name} is not finite after merging"
    for shard, _ in shards:
        own = {
            name: a.copy() for name, a in shard.arrays().items() if name in (shard.task_axes or ())
        }
        apply_merged(shard, results[0])
        for name, array in own.items():
            np.testing.assert_array_equal(shard.arrays()[name], array, err_msg=name)


def check_sums_are_exact(make: Make, rounds: Rounds) -> None:
    """Check that merged counts equal the counts of one learner."""
    shards = _shards(make, rounds, 3)
    if not shards:
        return
    start = make(D, 1).arrays()
    common = make(D, 1)
    _, changes = zip(*shards, strict=True)
    merge(common, changes)
    for line in common.sharing():
        if not isinstance(line, Whole):
            continue
        for part in line.parts:
            if isinstance(part, Sum):
                old = line.view(start)
                columns = list(part.columns)
                added = sum(line.view(shard.arrays()) - old for shard, _ in shards)
                new = line.view(common.arrays())[:, columns]
                np.testing.assert_allclose(new, (old + added)[:, columns], rtol=1e-12)


CHECKS: tuple[Check, ...] = tuple(
    check
    for name, check in list(globals().items())
    if name.startswith("check_") and check is not check_learner
)


def trained(make: Make, rounds: Rounds) -> Learner:
    """A learner that has learned the rounds."""
    learner = make(D, M)
    learner.replay(rounds)
    return learner


def assert_same_state(a: State, b: State) -> None:
    """Two states are equal to the last bit."""
    first = a["arrays"]
    second = b["arrays"]
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def bad_rounds() -> Iterator[tuple[str, Round]]:
    """Rounds that no learner may accept, each with what is wrong about it."""
    task = np.array([0, 1])
    x = np.ones((2, D))
    y = np.array([1.0, -1.0])
    for bad in (np.nan, np.inf, -np.inf):
        wrong = x.copy()
        wrong[1, 3] = bad
        yield f"feature {bad}", Round(task, wrong, y)
        yield f"sparse feature {bad}", Round(task, csr_array(wrong), y)
    for label in (0.0, 2.0, 0.5, np.inf, -np.inf):
        yield f"label {label}", Round(task, x, np.array([1.0, label]))
    yield "task out of range", Round(np.array([0, M]), x, y)
    yield "negative task", Round(np.array([-1, 0]), x, y)
    yield "task that is no integer", Round(np.array([0.0, 1.0]), x, y)
    yield "too few features", Round(task, x[:, 1:], y)
    yield "too many features", Round(task, np.ones((2, D + 1)), y)
    yield "too few rows", Round(task, x[:1], y)
    yield "too few labels", Round(task, x, y[:1])
    yield "too few tasks", Round(task[:1], x, y)
    yield "empty round", Round(task[:0], x[:0], y[:0])
    yield "flat features", Round(task, x[0], y)
    yield "features that are words", Round(task, np.full((2, D), "a"), y)


def _shards(make: Make, rounds: Rounds, n: int) -> list[tuple[Learner, Change]]:
    """Learners that saw every n-th round each, and what they changed; none if they cannot merge."""
    shards: list[tuple[Learner, Change]] = []
    for k in range(n):
        learner = make(D, M)
        own = [rounds[i] for i in range(k, len(rounds), n)]
        if not learner.shardable:
            return []
        learner.become_shard()
        learner.replay(own)
        shards.append((learner, collect_change(learner, _touched(own), sum(len(r.y) for r in own))))
    return shards


def _touched(rounds: Iterable[Round]) -> FeatureCounts:
    counts = FeatureCounts(D)
    for round in rounds:
        counts.add(Events(round, D, M, False))
    return counts


def _parts(round: Round) -> list[NDArray[Any]]:
    x: Any = round.x
    if issparse(x):
        return [round.task, x.data, x.indices, x.indptr, round.y]
    return [round.task, x, round.y]


def _dense(x: Any) -> NDArray[np.float64]:
    if issparse(x):
        return x.toarray()
    return x


def _bytes(learner: Learner) -> int:
    return sum(map(attrgetter("nbytes"), learner.arrays().values()))
