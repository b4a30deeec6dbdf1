"""One event at a time, without arrays: the same to the last bit as a round of one."""

import numpy as np
import pytest

from romco.model import Hashed, Model, Names, Scale
from romco.model.rows import Rows

from .test_model import FAST, LABELS, ROWS, TASKS

STRANGE = [
    {},
    {"f1": 0.5, "never seen": 3.0},
    {"f1": 1, "f2": True, "f3": None, "f4": "text"},
    {"f1": -0.0, "f2": 1e-308, "f3": 1e15},
    {1: 2.0, "f1": 0.25},
]


def outcome(predict, *given):
    """The answer, or the words in which it is refused, as text where numbers were learned."""
    try:
        return predict(*given)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    "features", [Names, pytest.param(lambda: Hashed(16), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", FAST)
def test_one_row_is_a_round_of_one(name, features):
    model = Model(name, features(), positive="spam")
    for end in (0, 1, 25, 60):
        if end:
            model.learn(ROWS[:end], LABELS[:end], TASKS[:end])
        for row in [*ROWS[:8], *STRANGE]:
            for task in ("user 0", "user 3", "somebody new", 7):
                rows, tasks = [row], [task]
                found = outcome(model.engine.margin_one, row, task)
                assert found == outcome(model.margins, rows, tasks)
                found = outcome(model.engine.probability_one, row, task)
                assert found == outcome(model.engine.probabilities, Rows(rows, tasks))


def test_names_that_come_later_are_seen_and_new_features_are_taken():
    model = Model("pa-unique", classes=("no", "yes"), tasks=["ann"])
    for k in range(200):  # the learner grows on the way
        row = {f"f{k}": 1.0}
        assert model.engine.margin_one(row, "ann") == 0.0
        model.learn_one(row, "yes", "ann")
        assert model.engine.margin_one(row, "ann") == model.margins([row], ["ann"])[0] > 0.0


@pytest.mark.parametrize(
    "row", [{"a": object()}, {"a": float("inf")}, {"a": 1e61}, {"a": 1j}, [1.0], 3]
)
def test_a_bad_row_is_refused_in_the_same_words(row):
    model = Model("romco-auto")
    model.learn_one({"a": 1.0}, "yes", "ann")
    with pytest.raises(ValueError) as long:  # noqa: PT011
        model.margins([row], ["ann"])
    with pytest.raises(ValueError) as short:  # noqa: PT011
        model.engine.margin_one(row, "ann")
    assert str(short.value) == str(long.value)
    assert model.engine.margin_one({"a": 1.0}, "ann") == model.margins([{"a": 1.0}], ["ann"])[0]


def test_a_task_that_is_no_name_is_refused():
    with pytest.raises(ValueError, match="cannot be a name"):
        Model().engine.margin_one({"a": 1.0}, ["ann"])


def test_a_probability_has_the_same_bits_alone():
    rng = np.random.default_rng(3)
    margins = np.concatenate([rng.normal(0, spread, 2000) for spread in (1e-9, 0.1, 3.0, 1e3)])
    margins = np.concatenate([margins, [0.0, -0.0, 1e290, -1e290, 5e-324]])
    for log_a in (-30.0, 0.3, 30.0):
        scale = Scale(log_a)
        alone = [scale.probability_of_one(margin) for margin in margins.tolist()]
        np.testing.assert_array_equal(alone, scale.probability(margins))


def test_labels_and_offsets_of_numpy_stay_in_the_compiled_step():
    model = Model(target="number")
    model.learn_one({"a": 1.0}, np.float64(2.5), "ann", offset=np.float64(0.5))
    step, row = model.engine, {"a": 0.5}
    assert step.learn_event(row, np.float64(2.0), "ann", 1.0, np.float64(1.0)) is not NotImplemented
    other = Model(target="number")
    other.learn([{"a": 1.0}, row], [2.5, 2.0], ["ann", "ann"], offset=[0.5, 1.0])
    assert model.margins([row], ["ann"], offset=[0.0]) == other.margins(
        [row], ["ann"], offset=[0.0]
    )
