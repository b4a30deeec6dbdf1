"""What learners can do beside learning is declared, and what is declared is so."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import romco
from romco.learners.capabilities import Decomposed, ForgetsTasks, GivesProbabilities
from romco.learners.linear import Gradient
from romco.learners.registry import forget

SOURCE = Path(romco.__file__).parent
PARTED = ("romco", "romco-nucl", "romco-logd", "romco-auto", "pa-shared", "arow-shared")


def taught(name: str, n_tasks: int = 6, **parameters: Any) -> romco.Learner:
    stream = romco.streams.simulated(n_tasks, 10, n_events=40, outliers=1, sparsity=0.3, seed=2)
    learner = romco.learner(name, 10, n_tasks, **parameters)
    learner.replay(romco.streams.synchronous(stream, seed=0))
    return learner


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_who_keeps_parts_apart(name: str) -> None:
    assert isinstance(romco.learner(name, 3, 2), Decomposed) == (name in PARTED)


@pytest.mark.parametrize("name", PARTED)
def test_the_parts_agree_with_each_other(name: str) -> None:
    learner = taught(name)
    assert isinstance(learner, Decomposed)
    U, V = learner.shared(), learner.personal()
    np.testing.assert_allclose(U + V, learner.weights(), atol=1e-12)
    np.testing.assert_allclose(learner.personal_norms(), np.linalg.norm(V, axis=0), atol=1e-12)
    s = np.linalg.svd(U, compute_uv=False)
    found = learner.singular_values()
    np.testing.assert_allclose(found, s[: len(found)], rtol=1e-9)
    np.testing.assert_allclose(s[len(found) :], 0.0, atol=1e-10)


def test_the_default_learner_is_in_the_pictures_of_a_comparison() -> None:
    learner = taught("romco-auto")
    assert isinstance(learner, Decomposed)
    assert len(learner.singular_values()) >= 1


def test_log_odds_become_probabilities() -> None:
    learner = taught("romco-auto")
    assert isinstance(learner, GivesProbabilities)
    margins = np.array([-800.0, -1.0, 0.0, 2.0, 800.0])
    expected = [0.0, 1 / (1 + np.e), 0.5, 1 / (1 + np.exp(-2.0)), 1.0]
    np.testing.assert_allclose(learner.probabilities(margins), expected, atol=1e-15)


def test_outliers_of_romco_are_the_columns_of_v() -> None:
    learner = taught("romco-nucl", lambda2=0.01)
    assert isinstance(learner, Decomposed)
    np.testing.assert_array_equal(
        learner.personal_tasks(), np.flatnonzero(learner.personal_norms())
    )


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_declared_task_axes_are_as_long_as_there_are_tasks(name: str) -> None:
    small, large = romco.learner(name, 10, 6), romco.learner(name, 10, 7)
    assert small.task_axes is not None or isinstance(small, ForgetsTasks)
    for array, axes in (small.task_axes or {}).items():
        for axis in axes if array in small.arrays() else ():
            assert small.arrays()[array].shape[axis] == 6
            assert large.arrays()[array].shape[axis] == 7
    if small.task_axes is not None and not isinstance(
        small, ForgetsTasks
    ):  # then all of them must be declared
        for array, values in small.arrays().items():
            grows = [a for a, n in enumerate(values.shape) if large.arrays()[array].shape[a] != n]
            assert tuple(grows) == small.task_axes.get(array, ())


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name, method in romco.LEARNERS.items() if not method.keeps_events),
    ("arow-unique", {"covariance": "full"}),
    ("arow-global", {"covariance": "full"}),
    ("cw-col", {"covariance": "full"}),
]


@pytest.mark.parametrize(("name", "parameters"), OPTIONS)
def test_a_forgotten_task_is_as_new_and_the_others_stay(
    name: str, parameters: dict[str, Any]
) -> None:
    learner = taught(name, **parameters)
    before = learner.weights()
    forget(learner, 2)
    others = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(learner.weights()[:, others], before[:, others], atol=1e-12)
    if learner.task_axes is None or isinstance(learner, ForgetsTasks):
        return
    new = romco.learner(name, 10, 6, **parameters)
    for array in learner.task_axes.keys() & learner.arrays().keys():
        for axis in learner.task_axes[array]:
            found, fresh = (one.arrays()[array].take(2, axis) for one in (learner, new))
            np.testing.assert_array_equal(found, fresh)


def test_a_learner_that_declares_nothing_forgets_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gradient, "shapes", {})
    learner = romco.learner("ogd-unique", 3, 2)
    with pytest.raises(ValueError, match="ogd-unique does not say"):
        forget(learner, 0)
    with pytest.raises(ValueError, match="mtfl keeps past events"):
        forget(romco.learner("mtfl", 3, 2), 0)


def test_no_room_looks_for_methods_of_a_learner_by_name() -> None:
    """``hasattr(learner, ...)`` and ``getattr(learner, ...)`` are what protocols are for."""
    probes = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path in SOURCE.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id in ("hasattr", "getattr") and _is_learner(ast.unparse(call.args[0]))
    ]
    assert probes == []


def _is_learner(text: str) -> bool:
    return text.split(".")[-1] in ("learner", "inside", "inner", "model", "made", "make", "kernel")
