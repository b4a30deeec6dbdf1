import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

import romco
from romco.kernels.core.events import Events
from romco.rounds import Round, Rounds

TASK, Y = np.array([0, 1]), np.array([1.0, -1.0])
X = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])


def margins(x, task=TASK):
    learner = romco.learner("ogd-unique", 3, 2)
    learner.update(Round(TASK, X, Y))
    return learner.predict(Round(task, x, Y))


@pytest.mark.parametrize(
    "x",
    [
        X.astype(np.float32), X.astype(int), np.asfortranarray(X), X.tolist(), X[::-1][::-1],
        csr_array(X), csr_matrix(X), coo_array(X), csr_array(X.astype(np.float32)),
        csr_array((X != 0) * X).astype(np.int64),
    ],
    ids=["f4", "int", "fortran", "list", "strided", "csr", "matrix", "coo", "csr-f4", "csr-int"],
)  # fmt: skip
def test_every_way_to_give_the_same_numbers(x):
    np.testing.assert_array_equal(margins(x), margins(X))


def test_duplicates_are_summed_and_the_callers_arrays_stay():
    data, indices, indptr = np.array([1.5, 0.5, 3.0, 1.0]), np.array([1, 1, 2, 0]), [0, 2, 4]
    x = csr_array((data, indices, np.array(indptr)), shape=(2, 3))
    np.testing.assert_array_equal(margins(x), margins(X))
    np.testing.assert_array_equal(x.indices, [1, 1, 2, 0])


def test_wide_indices_are_read():
    x = csr_array(X)
    x.indices, x.indptr = x.indices.astype(np.int64), x.indptr.astype(np.int64)
    np.testing.assert_array_equal(margins(x), margins(X))


def test_small_integers_are_tasks():
    np.testing.assert_array_equal(margins(X, TASK.astype(np.int8)), margins(X))


def test_a_broken_csr_matrix_is_refused():
    x = csr_array(X)
    x.indices = np.array([1, 0, 7], dtype=np.int32)
    with pytest.raises(ValueError, match="feature 7"):
        Events(Round(TASK, x, Y), 3, 2)
    x = csr_array(X)
    x.indptr = np.array([0, 2, 9], dtype=np.int32)
    with pytest.raises(ValueError, match="CSR"):
        Events(Round(TASK, x, Y), 3, 2)


def test_a_row_that_ends_beyond_all_rows_is_not_read():
    x = csr_array(X)
    x.indptr = np.array([0, 2_000_000_000, 3], dtype=np.int32)
    with pytest.raises(ValueError, match="event 0: x is not a valid CSR matrix: indptr decreases"):
        Events(Round(TASK, x, Y), 3, 2)


def test_errors_say_where():
    x = X.copy()
    x[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"event 1 \(task 1\): feature 2 is nan"):
        Events(Round(TASK, x, Y), 3, 2)


def test_overflow_is_an_error_not_an_answer():
    learner = romco.learner("ogd-unique", 3, 2, eta=1e300)
    learner.update(Round(TASK, X * 1e10, Y))
    with pytest.raises(FloatingPointError, match="overflow"):
        learner.predict(Round(TASK, X * 1e10, Y))


def hostile(indices=None, indptr=None, data=None):
    x = csr_array(X)
    x.indices = x.indices if indices is None else indices
    x.indptr = x.indptr if indptr is None else indptr
    x.data = x.data if data is None else data
    return x


WIDE = np.array([0, 1, -(2**40) + 2], dtype=np.int64)


@pytest.mark.parametrize("name", romco.LEARNERS)
@pytest.mark.parametrize(
    "x",
    [
        hostile(indices=WIDE),
        hostile(indices=WIDE % 2**32 + 2**40),
        hostile(indices=np.array([0, 1, 2**63], dtype=np.uint64)),
        hostile(indices=np.array([0.0, 1.0, 2.0])),
        hostile(indices=np.array([[0, 1, 2]])),
        hostile(indices=np.array([0, 1], dtype=np.int32)),
        hostile(indptr=np.array([0, 2, 2**32 + 3], dtype=np.int64)),
        hostile(indptr=np.array([0, -(2**32) + 2, 3], dtype=np.int64)),
        hostile(indptr=np.array([0, 3], dtype=np.int32)),
        hostile(indptr=np.array([0], dtype=np.int32)),
        hostile(indptr=np.array([0, 2, 3, 3], dtype=np.int32)),
        hostile(data=np.array([1.0])),
    ],
)
def test_no_csr_matrix_can_lead_a_learner_astray(name, x):
    learner = romco.learner(name, 3, 2)
    before = learner.state()
    for act in (learner.update, learner.predict):
        with pytest.raises(ValueError, match=r"CSR|array|feature"):
            act(Round(TASK, x, Y))
    for array, values in learner.arrays().items():
        np.testing.assert_array_equal(values, before["arrays"][array])


@pytest.mark.parametrize("starts", [[0, 3], [0, 5, 2], [0, 2**62], [], [2, 0]])
def test_rounds_that_end_beyond_the_events_are_refused(starts):
    learner = romco.learner("ogd-unique", 3, 2)
    with pytest.raises((ValueError, IndexError)):
        learner.replay(Rounds(TASK, X, Y, np.array(starts, dtype=np.int64)))
    assert not learner.weights().any()


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_read_in_place_by_index(sparse):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.6)
    index, task = np.array([5, 0, 3]), np.array([0, 1, 0])
    given, y = csr_array(x) if sparse else x, np.array([1.0, -1.0, 1.0])
    learner = romco.learner("arow-unique", 4, 2)
    events = Events(Round(task, given, y), 4, 2, rows=index)
    margins = learner.kernel.replay(events, np.arange(4))
    rounds = [Round(task[[e]], x[[row]], y[[e]]) for e, row in enumerate(index)]
    expected = romco.learner("arow-unique", 4, 2)
    np.testing.assert_array_equal(margins, expected.replay(rounds))
    np.testing.assert_array_equal(learner.weights(), expected.weights())


def test_rows_that_are_not_there_bad_or_unsorted_are_refused():
    task, y = np.array([0]), np.array([1.0])
    for row in (-1, 2):
        for x in (X, csr_array(X)):
            with pytest.raises(ValueError, match=f"no row {row} among 2"):
                Events(Round(task, x, y), 3, 2, rows=np.array([row]))
    with pytest.raises(ValueError, match="rows has 2 entries"):
        Events(Round(task, X, y), 3, 2, rows=np.array([0, 1]))
    bad = X.copy()
    bad[1, 2] = np.nan
    for x in (bad, csr_array(bad)):
        Events(Round(task, x, y), 3, 2, rows=np.array([0]))
        with pytest.raises(ValueError, match="feature 2 is nan"):
            Events(Round(task, x, y), 3, 2, rows=np.array([1]))
    unsorted = csr_array((np.ones(3), np.array([1, 2, 0]), np.array([0, 1, 3])), shape=(2, 3))
    with pytest.raises(ValueError, match="must be sorted"):
        Events(Round(task, unsorted, y), 3, 2, rows=np.array([1]))
