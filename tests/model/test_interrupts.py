"""Ctrl-C at any moment: the model is as before or as after, and no lock is left."""

import dis
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import romco
from romco.files import load, save
from romco.learners import Learner
from romco.learners.registry import LEARNERS
from romco.model import Columns, Model, Names, transaction

OURS = str(Path(romco.__file__).parent)  # wherever the checkout is: it may be called romco too
STREAM = romco.streams.simulated(n_tasks=4, n_features=5, n_events=12, outliers=1, sparsity=0.5)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)
LABELS = np.where(ROUNDS.y > 0, "spam", "ham").tolist()
TASKS = [f"task {i}" for i in ROUNDS.task]
ROWS = [
    {f"f{j}": v for j, v in zip(row.indices.tolist(), row.data.tolist(), strict=True)}
    for row in (ROUNDS.x[[i]] for i in range(len(LABELS)))
]


class Plain(Learner):
    """A learner of another package, without a kernel: its update is many bytecodes."""

    def __init__(self, n_features, n_tasks):
        super().__init__(n_features, n_tasks)
        self.w, self.n = np.zeros((n_tasks, n_features)), np.zeros(n_tasks)

    def predict(self, round):
        return np.asarray([x @ self.w[i] for i, x in zip(round.task, _dense(round.x), strict=True)])

    def update(self, round):
        for i, x, y in zip(round.task, _dense(round.x), round.y, strict=True):
            self.n[i] += 1
            self.w[i] += y * x / np.sqrt(self.n[i])

    def weights(self):
        return self.w.T.copy()

    def arrays(self):
        return {"w": self.w, "n": self.n}


def _dense(x):
    return x if isinstance(x, np.ndarray) else x.toarray()


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setitem(LEARNERS, "plain", romco.Method(Plain, "Plain"))


# With these a generator ends that is closed: Python 3.14 would report an interrupt and drop it.
WITHOUT_INTERRUPTS = ("CALL_INTRINSIC_1", "RERAISE")


def opcode_name(frame):
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


def broken_off(act, step):
    """Do it, but raise KeyboardInterrupt at its ``step``-th bytecode; whether that was raised."""
    left = [step]

    def trace(frame, event, _):
        where = frame.f_code.co_filename
        if not where.startswith(OURS) or "/batch/" in where:  # as if it came right after the call
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and opcode_name(frame) not in WITHOUT_INTERRUPTS:
            left[0] -= 1
            if left[0] < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def contents(model):
    state = model.state()
    arrays = state.pop("arrays")
    return repr(state), {name: (a.shape, a.tobytes()) for name, a in arrays.items()}


def free(model):
    """Whether another thread can have both locks."""
    found = []

    def look():
        if model.engine.locks.writing.acquire(timeout=60):
            model.engine.locks.writing.release()
            if model.engine.locks.step.acquire_at_once():
                model.engine.locks.step.release()
                found.append(True)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return bool(found)


def started(name, rows=9, features=None):
    """A model that has learned some rows; the next ones hold new tasks and features."""
    model = Model(name, features or Names(), classes=("ham", "spam"), **PARAMETERS.get(name, {}))
    model.learn(ROWS[:rows], LABELS[:rows], TASKS[:rows])
    return model.state()


PARAMETERS = {"trml": {"every": 4}, "mtfl": {"every": 4}}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("trml", "arow-shared")]
NAMES = ["ogd-unique", "romco-nucl", "romco-auto", "plain", *SLOW]
STRIDES = {"romco-auto": 3, "plain": 37, "trml": 31}  # all learn by the same code
BATCHES = [
    *(("ogd-unique", 61), ("romco-nucl", 59), ("romco-auto", 47), ("plain", 127)),
    *(
        pytest.param(*given, marks=pytest.mark.slow)
        for given in (("ogd-unique", 1), ("romco-auto", 1), ("trml", 31), ("arow-shared", 7))
    ),
]


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(("name", "stride"), BATCHES)
def test_learning_broken_off_at_every_bytecode(name, stride):
    n, known = 10, 3
    state = started(name, known)
    prefixes, model = [], Model.from_state(state)
    prefixes.append(contents(model))
    for row, label, task in zip(ROWS[known:n], LABELS[known:n], TASKS[known:n], strict=True):
        model.learn_one(row, label, task)
        prefixes.append(contents(model))
    step, found, rest = 0, set(), (ROWS[known:n], LABELS[known:n], TASKS[known:n])
    while True:
        model = Model.from_state(state)
        broken = broken_off(partial(model.learn, *rest), step)
        learned = model.events - known
        assert contents(model) == prefixes[learned], (step, learned)
        if step % 50 == 0:
            assert free(model)
        found.add(learned)
        if not broken:
            break
        if step % 3 == 0:
            model.learn(*(part[learned:] for part in rest))
            assert contents(model) == prefixes[-1]
        assert model.engine.locks.step.acquire_at_once()
        step += stride
    assert step > 300
    assert {0, n - known} <= found


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("row", [pytest.param(0, marks=pytest.mark.slow), 10])
def test_learning_one_broken_off_at_every_bytecode(name, row):
    state = started(name, 9)
    model = Model.from_state(state)
    before = contents(model)
    event = ({**ROWS[row], "new": 0.5}, LABELS[row], f"task {row}")
    model.learn_one(*event)
    after, step, seen = contents(model), 0, set()
    broken = True
    while broken:
        model = Model.from_state(state)
        broken = broken_off(partial(model.learn_one, *event), step)
        assert contents(model) == (after if model.events == 10 else before), step
        assert model.engine.locks.step.acquire_at_once()
        seen.add(model.events)
        step += STRIDES.get(name, 13)
    assert seen == {9, 10}


@pytest.mark.parametrize("name", ["ogd-unique", "romco-nucl", "romco-auto"])
def test_the_round_in_which_personal_tasks_are_looked_for(name):
    """Every thousand events; broken off there, it is done all the same."""
    model = Model(name, Columns(2), classes=(-1, 1), **PARAMETERS.get(name, {}))
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(999, 2)), np.arange(999) % 3
    model.learn(X, np.where(X[:, 0] * (task - 0.5) > 0, 1, -1), task)
    state = model.state()
    model.learn([[1.0, 1.0]], [1], [0])
    after, step, broken = contents(model), 0, True
    while broken:
        model = Model.from_state(state)
        broken = broken_off(lambda model=model: model.learn([[1.0, 1.0]], [1], [0]), step)
        assert model.events == 999 or contents(model) == after, step
        step += 13


@pytest.mark.parametrize("name", ["ogd-unique", "romco-auto"])
def test_predicting_broken_off_at_every_bytecode(name):
    state = started(name)
    model = Model.from_state(state)
    before, rows, tasks = contents(model), ROWS[:3], [TASKS[0], "nobody", TASKS[1]]
    step, broken = 0, True
    while broken:
        broken = broken_off(lambda: model.predict(rows, tasks), step)
        assert model.engine.locks.step.acquire_at_once(), step
        model.engine.locks.step.release()
        step += STRIDES.get(name, 13)
    assert contents(model) == before
    assert step > 50


def test_forgetting_broken_off_at_every_bytecode():
    for name in ("ogd-unique", "romco-auto"):
        state = started(name)
        model = Model.from_state(state)
        before = contents(model)
        model.forget(TASKS[0])
        after, step, broken = contents(model), 0, True
        while broken:
            model = Model.from_state(state)
            broken = broken_off(lambda model=model: model.forget(TASKS[0]), step)
            assert contents(model) in (before, after), step
            assert model.engine.locks.step.acquire_at_once()
            step += STRIDES.get(name, 13)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files closed late
def test_saving_broken_off_at_every_bytecode(tmp_path):
    path = tmp_path / "m.romco"
    old, new = (Model.from_state(started("ogd-unique", rows)) for rows in (3, 4))
    save(old, path)
    step, broken, seen = 0, True, set()
    while broken:
        broken = broken_off(lambda: save(new, path), step)
        found = load(path)
        assert contents(found) in (contents(old), contents(new)), step
        assert new.engine.locks.step.acquire_at_once()
        new.engine.locks.step.release()
        seen.add(found.events)
        if found.events == 4:
            save(old, path)
        step += 13  # a prime: all parts of the code are met, in a part of the time
    assert seen == {3, 4}
    save(old, path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.romco", "m.romco.bak"]


def test_numbers_that_overflow_in_the_middle_of_a_batch():
    """What was learned before is counted, what comes after is not learned; both say so."""
    rows = [{"a": 1.0}] * 5 + [{"b": 1.0, "a": 1.0}] + [{"c": 1.0}] * 5
    labels, tasks = ["no", "yes"] * 5 + ["no"], ["ann"] * 11
    alone = Model("ogd-unique", classes=("no", "yes"), eta=1e300)
    events = iter(zip(rows, labels, tasks, strict=True))
    with pytest.raises(FloatingPointError):
        all(alone.learn_one({**row, "big": 1e50}, *rest) < np.inf for row, *rest in events)
    learned = alone.events
    assert 0 < learned < 11
    model = Model("ogd-unique", classes=("no", "yes"), eta=1e300)
    with pytest.raises(FloatingPointError) as raised:
        model.learn([{**row, "big": 1e50} for row in rows], labels, tasks)
    assert contents(model) == contents(alone)
    assert model.events == learned
    assert f"{learned} of 11 rows were learned" in raised.value.__notes__
    assert free(model)


def test_a_new_task_whose_first_event_fails_is_not_known():
    model = Model("ogd-unique", eta=1e300)
    model.learn([{"a": 1e8}], ["yes"], ["ann"])
    before = contents(model)
    with pytest.raises(FloatingPointError):
        model.learn([{"a": 1e50}], ["no"], ["bob"])
    assert contents(model) == before
    assert model.tasks == ["ann"]


def storm(act, count):
    """Do it over and over while real signals come at random moments, ``count`` of them."""
    armed, rng = [False], np.random.default_rng(0)

    def interrupt(*_):
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    def wait():  # a call: in Python 3.13 the jump to a loop's head lies outside its try
        signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(2e-5, 1e-3)))
        while armed[0]:  # an interrupt may fall where Python itself drops exceptions
            act()

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(count):
            armed[0] = True
            try:
                wait()
            except KeyboardInterrupt:
                act()  # in peace, so that there is progress on the slowest machine
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)


def weathered(name, count, batch, readers):
    """A model that has learned the stream in order, whatever came between."""
    model, stop = Model(name, classes=("ham", "spam"), **PARAMETERS.get(name, {})), []

    def rows(begin, n):
        at = [i % len(ROWS) for i in range(begin, begin + n)]
        new = [{**ROWS[i], f"new {(begin + k) // 40}": 0.1} for k, i in enumerate(at)]
        tasks = [f"task {(begin + k) % (3 + (begin + k) // 50)}" for k in range(n)]
        return new, [LABELS[i] for i in at], tasks

    def act():
        model.margins(ROWS[:2], TASKS[:2])
        model.learn(*rows(model.events, batch))

    def read():
        while not stop:
            model.margins(ROWS[:3], TASKS[:3])

    threads = [threading.Thread(target=read) for _ in range(readers)]
    for thread in threads:
        thread.start()
    try:
        storm(act, count)
    finally:
        stop.append(True)
        for thread in threads:
            thread.join(100)
    assert not any(thread.is_alive() for thread in threads)
    assert free(model)
    again = Model(name, classes=("ham", "spam"), **PARAMETERS.get(name, {}))
    again.learn(*rows(0, model.events))
    assert contents(model) == contents(again)
    return model.events


@pytest.mark.parametrize("name", ["trml", "mtfl"])
def test_a_new_task_whose_first_fit_fails_leaves_no_start(name, monkeypatch):
    """Learners that keep events forget no task; but one without an event yet has none to keep."""
    model = Model.from_state(started(name))
    before = contents(model)

    def fails(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(model.engine.learner), "prepare_update", fails)
    with pytest.raises(KeyboardInterrupt):
        model.learn_one(ROWS[10], LABELS[10], "a new task")
    assert contents(model) == before


DROPPED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@DROPPED
@pytest.mark.parametrize(("name", "batch"), [("romco-auto", 1), ("ogd-unique", 40)])
def test_signals_at_random_moments(name, batch):
    assert weathered(name, 100, batch, readers=1) > 50


@DROPPED
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "batch", "readers"),
    [("romco-auto", 1, 0), ("romco-auto", 50, 1), ("ogd-unique", 300, 0), ("romco-nucl", 7, 2)],
)
def test_ten_thousand_signals(name, batch, readers):
    weathered(name, 2_500, batch, readers)


@pytest.mark.parametrize("target", ["two classes", "classes"])
def test_labels_of_rows_that_were_not_learned_are_not_known(target, monkeypatch):
    model, real, calls = Model("pa-unique", target=target), transaction.learn_chunk, []

    def broken(*given):
        calls.append(given)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(transaction, "learn_chunk", broken)
    rows, labels = [{"a": 1.0}] * 300, ["ham"] * 280 + ["spam"] * 20
    with pytest.raises(KeyboardInterrupt):
        model.learn(rows, labels, ["ann"] * 300)
    assert (model.events, model.classes) == (250, ("ham",))
    monkeypatch.undo()
    model.learn(rows[250:], labels[250:], ["ann"] * 50)
    whole = Model("pa-unique", target=target)
    whole.learn(rows, labels, ["ann"] * 300)
    assert model.classes == whole.classes == ("ham", "spam")
    assert model.margins(rows[:1], ["ann"]).tolist() == whole.margins(rows[:1], ["ann"]).tolist()


@pytest.mark.parametrize("name", ["ogd-unique", "romco-auto"])
def test_looking_broken_off_at_every_bytecode(name):
    """``with model.engine.at_rest()``: between getting the lock and the block there is no gap."""
    model = Model.from_state(started(name))
    before = contents(model)

    def look():
        with model.engine.at_rest() as learner:
            return learner.n_tasks

    step, broken = 0, True
    while broken:
        broken = broken_off(look, step)
        assert model.engine.locks.step.acquire_at_once(), step
        model.engine.locks.step.release()
        step += 1
    assert step > 15
    for step in range(0, 3000, 101):
        broken_off(lambda: romco.explain(model), step)
        assert model.engine.locks.step.acquire_at_once(), step
        model.engine.locks.step.release()
    assert contents(model) == before
