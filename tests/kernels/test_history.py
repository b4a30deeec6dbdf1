"""History features: the compiled ones are those of the reference, and no label leaks."""

import numpy as np
import pytest

from romco.kernels.io.encoded import Encoded
from romco.kernels.io.history import HistoryFeatures
from romco.kernels.io.lexicon import Lexicon
from tests.reference.history import history_features

COLUMNS = ["skill", "item"]


def stream(seed, n, label):
    """Tasks, rows by name and labels, NaN where one is not known."""
    rng = np.random.default_rng(seed)
    rows = [
        {f"skill={a}": 1.0, f"item={b}": 1.0, "x": 0.5, "at": float(7 * k)}
        for k, (a, b) in enumerate(rng.integers(0, 3, (n, 2)))
    ]
    y = np.array([np.nan if rng.random() < 0.1 else label(rng) for _ in range(n)])
    return rng.integers(0, 4, n), rows, y


def encoded(rows, lexicon=None):
    lexicon = Lexicon() if lexicon is None else lexicon
    names = np.array([lexicon.number(name) for row in rows for name in row], dtype=np.int32)
    values = np.array([value for row in rows for value in row.values()])
    return Encoded(values, names, np.concatenate([[0], np.cumsum(list(map(len, rows)))]), lexicon)


def as_dicts(block):
    names = block.lexicon.names
    parts = (block.rows(i, i + 1) for i in range(len(block.starts) - 1))
    return [{names[k]: v for k, v in zip(p.names, p.values, strict=True)} for p in parts]


KINDS = {
    "two classes": (lambda rng: float(rng.random() < 0.6), {}),
    "classes": (lambda rng: float(rng.integers(0, 4)), {}),
    "numbers": (lambda rng: float(rng.normal()), {"numeric": True}),
    "timed": (lambda rng: float(rng.random() < 0.5), {"time": "at"}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_agrees_with_the_reference(kind, seed):
    label, options = KINDS[kind]
    tasks, rows, y = stream(seed, 120, label)
    history = HistoryFeatures(COLUMNS, **options)
    history.make_classes(4 if kind == "classes" else 2)
    wide = as_dicts(history.expand(tasks, encoded(rows), y))
    events = [(t, r, None if np.isnan(v) else v) for t, r, v in zip(tasks, rows, y, strict=True)]
    if not options.get("numeric"):
        events = [(t, r, None if v is None else int(v)) for t, r, v in events]
    for i, row in enumerate(wide):
        expected = history_features(COLUMNS, events[: i + 1], **options)
        assert {name for name in row if name not in rows[i]} == set(expected)
        for name, value in expected.items():
            assert row[name] == pytest.approx(value, rel=1e-12), name
        assert ("at" in row) == (kind != "timed")


def test_a_label_is_not_visible_to_its_own_row():
    tasks, rows, y = stream(0, 80, KINDS["two classes"][0])
    changed = y.copy()
    changed[50] = 1.0 if y[50] != 1.0 else 0.0
    one = as_dicts(HistoryFeatures(["skill"]).expand(tasks, encoded(rows), y))
    other = as_dicts(HistoryFeatures(["skill"]).expand(tasks, encoded(rows), changed))
    assert one[:51] == other[:51]
    assert one[51:] != other[51:]


@pytest.mark.parametrize("limit", [5, 1000])
def test_single_rows_are_a_batch(limit):
    tasks, rows, y = stream(1, 150, KINDS["two classes"][0])
    batch = HistoryFeatures(["item"], limit=limit).expand(tasks, encoded(rows), y)
    history, single = HistoryFeatures(["item"], limit=limit), []
    for i, row in enumerate(rows):
        single += as_dicts(history.expand(tasks[i : i + 1], encoded([row]), y[i : i + 1]))
        history.commit(1)
    assert as_dicts(batch) == single
    assert history.used <= limit


@pytest.mark.parametrize("limit", [5, 1000])
@pytest.mark.parametrize("kept", [0, 7, 20])
def test_rollback_undoes_what_is_not_committed(kept, limit):
    tasks, rows, y = stream(3, 90, KINDS["two classes"][0])
    block, history, expected = (
        encoded(rows),
        *(HistoryFeatures(["skill"], limit=limit) for _ in range(2)),
    )
    for one in (history, expected):
        one.expand(tasks[:30], block.rows(0, 30), y[:30])
        one.commit(30)
    history.expand(tasks[30:], block.rows(30, 90), y[30:])
    history.commit(kept)
    history.rollback()
    expected.expand(tasks[30 : 30 + kept], block.rows(30, 30 + kept), y[30 : 30 + kept])
    expected.commit(kept)
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(history.arrays()[name], array)
    for one in (history, expected):  # the order in which slots are forgotten, too
        one.expand(tasks, block, y)
    np.testing.assert_array_equal(history.arrays()["table"], expected.arrays()["table"])


def test_the_slot_observed_longest_ago_is_forgotten():
    history = HistoryFeatures([], limit=4)
    tasks, rows = np.array([0, 1, 2, 3, 0, 4]), encoded([{"x": 1.0}] * 6)
    history.expand(tasks, rows, np.ones(6))
    known = [
        "history.task.recent[]" not in row
        for row in as_dicts(history.expand(np.arange(5), rows.rows(0, 5)))
    ]
    assert known == [True, False, True, True, True]


def test_features_of_a_prediction_are_used_when_its_label_is_late():
    tasks, rows, y = stream(4, 40, KINDS["classes"][0])
    block, history = encoded(rows), HistoryFeatures(COLUMNS)
    early = history.describe(tasks[30:], block.rows(30, 40))
    before = as_dicts(history.expand(tasks[30:], block.rows(30, 40)))
    history.make_classes(4)
    history.expand(tasks[:30], block.rows(0, 30), y[:30])
    history.commit(30)
    given = np.pad(early, ((0, 0), (0, 3 + len(history.features) - early.shape[1])))
    assert as_dicts(history.expand(tasks[30:], block.rows(30, 40), None, given)) == before


def test_a_state_goes_on_and_a_forged_one_is_refused():
    tasks, rows, y = stream(5, 60, KINDS["classes"][0])
    block, history = encoded(rows), HistoryFeatures(COLUMNS, limit=20)
    history.make_classes(4)
    history.expand(tasks, block, y)
    history.commit(60)
    made = HistoryFeatures(COLUMNS, limit=20)
    made.load(history.categories, history.arrays())
    assert as_dicts(made.expand(tasks, block, y)) == as_dicts(history.expand(tasks, block, y))
    history.rollback()
    good = history.arrays()
    for name, change in {
        "task": lambda a: a - 5,
        "category": lambda a: a + 1000,
        "table": lambda a: a - 2.0,
    }.items():
        with pytest.raises(ValueError, match="history"):
            HistoryFeatures(COLUMNS).load(history.categories, {**good, name: change(good[name])})
    for bad in ({"table": good["table"][:-1]}, {"table": good["table"][:, :-2]}):
        with pytest.raises(ValueError, match="history"):
            HistoryFeatures(COLUMNS).load(history.categories, good | bad)
    for code in (-1.0, 0.5, 64.0 * (1 + len(history.categories))):  # 64 (1 + category) + labels
        forged = good["table"].copy()
        forged[0, 3] = code
        with pytest.raises(ValueError, match="history"):
            HistoryFeatures(COLUMNS).load(history.categories, good | {"table": forged})
    with pytest.raises(ValueError, match="twice"):
        HistoryFeatures(COLUMNS).load(
            history.categories, {k: np.concatenate([a, a]) for k, a in good.items()}
        )
    with pytest.raises(ValueError, match="category"):
        HistoryFeatures(COLUMNS).load(["town=Rome"], good)


def test_forget_drops_a_task_and_names_are_pruned():
    history, lexicon = HistoryFeatures(["group", "item"], limit=6), Lexicon()
    for k in range(40):
        block = encoded([{f"group={k}": 1.0, f"item={k}": 1.0}], lexicon)
        history.expand(np.array([k % 2]), block, np.ones(1))
        history.commit(1)
        before = history.expand(np.array([k % 2]), block)
        history.prune()
        assert as_dicts(history.expand(np.array([k % 2]), block)) == as_dicts(before)
    assert len(history.categories) <= 12
    assert history.used == 6
    assert 0 in history.arrays()["task"]
    history.forget(0)
    assert set(history.arrays()["task"]) == {1, -2}  # -2: what all tasks share
    assert "history.item.count[1]" in as_dicts(history.expand(np.array([1]), block))[0]
