"""Promises: every learner in the registry keeps every check."""

import pytest

import romco
from romco.checks import CHECKS, check_learner, streams

STREAMS = list(streams())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", romco.LEARNERS)
def test_learner_keeps_promise(name, check):
    for rounds in STREAMS:
        check(lambda d, m: romco.learner(name, d, m), rounds)


class Cheat:
    """Breaks one promise at a time around a good learner, to show that checks can fail."""

    def __init__(self, d, m):
        self.inner = romco.learner("ogd-unique", d, m)

    def __getattr__(self, name):
        return getattr(self.inner, name)


class LooksAtLabels(Cheat):
    def predict(self, round):
        return self.inner.predict(round) + round.y


class LearnsWhilePredicting(Cheat):
    def predict(self, round):
        margins = self.inner.predict(round)
        self.inner.arrays()["w"][:] += 1.0
        return margins


class ForgetsItsCount(Cheat):
    def load(self, arrays):
        self.inner.load({**arrays, "t": arrays["t"] * 0})


class KeepsEverything(Cheat):
    kept = ()

    def replay(self, rounds):
        self.kept = (*self.kept, [0.0] * 100_000)
        return self.inner.replay(rounds)


@pytest.mark.parametrize(
    "cheat", [LooksAtLabels, LearnsWhilePredicting, ForgetsItsCount, KeepsEverything]
)
def test_checks_catch_a_cheat(cheat):
    with pytest.raises(AssertionError):
        check_learner(cheat)
