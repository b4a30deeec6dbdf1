"""A fork while another thread learns: the child has a whole model and free locks."""

import os
import signal
import threading
import warnings
from multiprocessing import get_context

import numpy as np
import pytest

from romco import Chooser
from romco.model import Columns, Model

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
X = np.random.default_rng(0).normal(size=(400, 30))
Y, TASK = np.where(X[:, 0] > 0, 1, -1), (np.arange(400) % 20).tolist()


def forked(act):
    """Exit code of a child that does it; a child that hangs is ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = get_context("fork").Process(target=act)
        child.start()
    child.join(100)
    if child.is_alive():
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    return child.exitcode


@pytest.mark.parametrize("name", ["romco-nucl", "romco-auto"])
def test_children_of_a_process_with_a_learning_thread_predict_and_learn(name):
    model, stop = Model(name, Columns(30), classes=(-1, 1)), []
    model.learn(X, Y, TASK)

    def work():
        while not stop:
            model.learn(X, Y, TASK)

    def in_child():
        seen = int(model.engine.counts.seen.sum())
        assert np.isfinite(model.margins(X, TASK)).all()
        before = model.events
        assert seen == before
        model.learn(X[:50], Y[:50], TASK[:50])
        assert model.events == before + 50
        Model.from_state(model.state())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        codes = [forked(in_child) for _ in range(6)]
    finally:
        stop.append(True)
        thread.join()
    assert codes == [0] * 6


def test_children_of_a_process_with_a_choosing_thread_choose():
    """A lock that a fork does not know stays held in the child."""
    chooser, begun, ended = Chooser(), threading.Event(), threading.Event()

    def actions():
        """Yield actions late: a fork that comes meanwhile has to wait."""
        begun.set()
        ended.wait(1.0)
        yield from "ab"

    thread = threading.Thread(target=lambda: chooser.choose({}, actions=actions(), id=1))
    thread.start()
    begun.wait(60.0)
    try:
        assert forked(lambda: chooser.choose({}, actions=["a", "b"], id=2)) == 0
    finally:
        ended.set()
        thread.join()


def test_a_thread_that_forks_while_it_holds_the_model_goes_on_in_both():
    model = Model("ogd-unique", Columns(30), classes=(-1, 1))

    def in_child():
        model.learn(X, Y, TASK)

    with model.engine.at_rest():
        pid = os.fork()
        if pid == 0:
            os._exit(0 if model.engine.locks.step.is_mine() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert forked(in_child) == 0
    model.learn(X, Y, TASK)
    assert model.events == 400


def test_a_fork_waits_until_who_holds_one_model_and_wants_another_is_done():
    first, second = (Model("ogd-unique", Columns(30), classes=(-1, 1)) for _ in range(2))
    stop = []

    def both():
        while not stop:
            with first.engine.at_rest():
                second.margins(X[:2], TASK[:2])

    thread = threading.Thread(target=both)
    thread.start()
    try:
        assert [forked(lambda: first.learn(X[:50], Y[:50], TASK[:50])) for _ in range(3)] == [0] * 3
    finally:
        stop.append(True)
        thread.join()


@pytest.mark.parametrize("engine", [pytest.param("serial", marks=pytest.mark.slow), "threads"])
def test_children_have_whole_shards_too(engine):
    from romco.shards import Shards

    shards = Shards("romco-auto", 2, Columns(30), engine=engine, classes=(-1, 1), every=50)
    shards.learn(X, Y, TASK)
    stop = []

    def work():
        while not stop:
            shards.learn(X, Y, TASK)

    def in_child():
        assert np.isfinite(shards.margins(X, TASK)).all()
        before = shards.events
        shards.learn(X[:50], Y[:50], TASK[:50])
        assert shards.events == before + 50
        assert shards.model().events == before + 50

    thread = threading.Thread(target=work)
    thread.start()
    try:
        codes = [forked(in_child) for _ in range(3)]
    finally:
        stop.append(True)
        thread.join()
    assert codes == [0] * 3
