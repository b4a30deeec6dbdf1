"""Memory that is refused: a clear error, nothing torn, nothing leaked."""

import numpy as np
import pytest

import romco
from romco.kernels.core import memory
from tests.kernels.mutations import KINDS, STEPS, choose, stream

pytestmark = pytest.mark.usefixtures("without_garbage")


def make(kind):
    name, d, m, _, more = KINDS[kind]
    return romco.learner(name, d, m, **STEPS, **more)


def equal(state, other):
    return state.keys() == other.keys() and all(
        np.array_equal(state[name], other[name]) for name in state
    )


@pytest.fixture(autouse=True)
def as_before():
    """The limits of learners stay, and no request is left to fail."""
    yield
    choose("few")
    memory.fail_at(0)


def requests(act):
    """How many requests for memory `act` makes."""
    memory.fail_at(1 << 40)
    act()
    return (1 << 40) - memory.fail_at(0)


def fails(act):
    """Whether memory is refused to `act`; nothing keeps what it made."""
    try:
        act()
    except MemoryError:
        return True
    return False


def failing_step(kind, rounds, k):
    """Refuse the k-th request: gives whether the learner broke, and checks that it says so."""
    memory.fail_at(k)
    try:
        learner = make(kind)
    except MemoryError:
        return False
    for round in rounds:
        before = learner.state()["arrays"]
        if fails(lambda round=round: learner.update(round)):
            break
    memory.fail_at(0)
    if fails_clearly(learner.state):
        assert fails_clearly(lambda: learner.predict(round))
        assert fails_clearly(lambda: learner.update(round))
        return True
    assert equal(learner.state()["arrays"], before)
    return False


def fails_clearly(act):
    try:
        act()
    except RuntimeError as error:
        return "romco.restore" in str(error)
    return False


SLOW_KINDS = ("few hashed", "many")
EVERY_KIND = pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW_KINDS)) for kind in KINDS],
)


@EVERY_KIND
def test_every_request_of_a_step_may_fail(kind):
    """The learner is as before, or says that it is broken; it never goes on half-made."""
    choose(kind)
    rounds = stream(np.random.default_rng(3), *KINDS[kind][1:3], n=40)
    held, broken = memory.held(), 0
    for k in range(1, requests(lambda: make(kind).replay(rounds)) + 1):
        broken += failing_step(kind, rounds, k)
        assert memory.held() == held, k
    assert broken > 0


@EVERY_KIND
def test_every_request_of_loading_may_fail(kind):
    choose(kind)
    learner = make(kind)
    learner.replay(stream(np.random.default_rng(3), *KINDS[kind][1:3], n=100))
    state = learner.state()
    held = memory.held()
    for k in range(1, requests(lambda: romco.restore(state)) + 1):
        memory.fail_at(k)
        assert fails(lambda: romco.restore(state))
        assert memory.held() == held, k
        memory.fail_at(k)
        fails(lambda: learner.load(state["arrays"]))
        memory.fail_at(0)
        assert equal(learner.state()["arrays"], state["arrays"])
        held = memory.held()


def test_more_than_there_is_is_refused():
    with pytest.raises(MemoryError):
        romco.learner("romco-nucl", 2, 1 << 60)
