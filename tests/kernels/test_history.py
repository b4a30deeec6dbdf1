"""History features: the compiled ones are those of the reference, and no label leaks."""

import numpy as np
import pytest

from romco.kernels.io.encoded import Encoded
from romco.kernels.io.history import HistoryFeatures
from romco.kernels.io.lexicon import Lexicon
from tests.reference.history import history_features

LIVES = (2.0, 8.0, 32.0)


def stream(seed, n, labels):
    """Tasks, rows, labels (some unknown) and times."""
    rng = np.random.default_rng(seed)
    tasks = [f"t{k}" for k in rng.integers(0, 4, n)]
    rows = [{f"skill={a}": 1.0, f"item={b}": 1.0, "x": 0.5} for a, b in rng.integers(0, 3, (n, 2))]
    answers = [None if rng.random() < 0.1 else labels(rng) for _ in range(n)]
    times = np.cumsum(rng.integers(0, 5, n)).astype(float)
    return tasks, rows, answers, times


KINDS = {
    "two classes": (lambda rng: "yes" if rng.random() < 0.6 else "no", {}),
    "classes": (lambda rng: "abc"[rng.integers(0, 3)], {}),
    "numbers": (lambda rng: float(rng.normal()), {"number": True}),
    "timed": (lambda rng: bool(rng.random() < 0.5), {"timed": True}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_reference(kind, seed):
    labels, options = KINDS[kind]
    tasks, rows, answers, times = stream(seed, 120, labels)
    history = HistoryFeatures(["skill", "item"], **options)
    wider = history.expand(tasks, rows, answers, times)
    for i, row in enumerate(wider):
        events = list(zip(tasks, rows, answers, times, strict=True))[: i + 1]
        expected = history_features(["skill", "item"], events, LIVES, **options)
        assert {name for name in row if name not in rows[i]} == set(expected)
        for name, value in expected.items():
            assert row[name] == pytest.approx(value, rel=1e-12), name


def test_a_label_is_not_visible_to_its_own_row():
    tasks, rows, answers, _ = stream(0, 80, KINDS["two classes"][0])
    changed = list(answers)
    changed[50] = "no" if answers[50] == "yes" else "yes"
    one = HistoryFeatures(["skill"]).expand(tasks, rows, answers)
    other = HistoryFeatures(["skill"]).expand(tasks, rows, changed)
    assert one[:51] == other[:51]
    assert one[51:] != other[51:]


def test_single_rows_are_a_batch():
    tasks, rows, answers, _ = stream(1, 60, KINDS["classes"][0])
    batch = HistoryFeatures(["item"]).expand(tasks, rows, answers)
    history = HistoryFeatures(["item"])
    single = [
        history.expand([task], [row], [label])[0]
        for task, row, label in zip(tasks, rows, answers, strict=True)
    ]
    assert batch == single


def test_a_block_is_a_list_of_rows():
    tasks, rows, answers, _ = stream(2, 60, KINDS["two classes"][0])
    lexicon = Lexicon()
    names = np.array([lexicon.number(name) for row in rows for name in row], dtype=np.int32)
    values = np.array([value for row in rows for value in row.values()])
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    block = HistoryFeatures(["skill"]).expand(
        tasks, Encoded(values, names, starts, lexicon), answers
    )
    expected = HistoryFeatures(["skill"]).expand(tasks, rows, answers)
    for i, row in enumerate(expected):
        part = block.rows(i, i + 1)
        found = {lexicon.names[k]: v for k, v in zip(part.names, part.values, strict=True)}
        assert found == row


@pytest.mark.parametrize("kept", [0, 7, 20])
def test_rollback_undoes_all_but_the_first_rows(kept):
    tasks, rows, answers, _ = stream(3, 50, KINDS["two classes"][0])
    history, expected = HistoryFeatures(["skill"]), HistoryFeatures(["skill"])
    for one in (history, expected):
        one.expand(tasks[:30], rows[:30], answers[:30])
        one.commit()
    history.expand(tasks[30:], rows[30:], answers[30:])
    history.rollback(kept)
    expected.expand(tasks[30 : 30 + kept], rows[30 : 30 + kept], answers[30 : 30 + kept])
    assert history.expand(tasks, rows) == expected.expand(tasks, rows)


def test_the_oldest_half_is_dropped_at_the_limit():
    history = HistoryFeatures([], limit=4)
    history.expand("abcd", [{}] * 4, [1, 0, 1, 0])
    history.commit()
    history.expand(["e"], [{}], [1])
    assert history.used == 3
    known = ["new" not in str(row) for row in history.expand("abcde", [{}] * 5)]
    assert known == [False, False, True, True, True]


def test_bad_numbers_change_nothing():
    history = HistoryFeatures([], number=True)
    for bad in (float("nan"), float("inf"), "seven"):
        with pytest.raises(ValueError, match=r"seven|finite"):
            history.expand(["a"], [{}], [bad])
    assert history.used == 0
