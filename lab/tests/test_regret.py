"""Regret grows like sqrt(T) with a prox in every round, and can be linear without."""

import cvxpy
import numpy as np
import pytest

import romco
from romco.streams import simulated, synchronous
from romco_lab.regret import best_fixed, paid, regret


def test_the_best_fixed_model_agrees_with_a_general_solver():
    stream = simulated(n_tasks=4, n_features=6, n_events=25, outliers=1, noise=0.1)
    rounds = synchronous(stream, 0)
    lambda1, lambda2 = 0.05, 0.03
    U, V = cvxpy.Variable((6, 4)), cvxpy.Variable((6, 4))
    losses = 0
    for i in range(4):
        mine = rounds.task == i
        margins = rounds.x[mine] @ (U + V)[:, i]
        losses += cvxpy.sum(cvxpy.pos(1 - cvxpy.multiply(rounds.y[mine], margins)))
    penalty = lambda1 * cvxpy.normNuc(U) + lambda2 * cvxpy.sum(cvxpy.norm(V, axis=0))
    problem = cvxpy.Problem(cvxpy.Minimize(losses + len(rounds) * penalty))
    problem.solve(solver=cvxpy.CLARABEL)
    assert best_fixed(rounds, 4, lambda1, lambda2) == pytest.approx(problem.value, rel=1e-4)


@pytest.mark.slow
def test_regret_per_round_falls_like_one_over_sqrt_t():
    stream = simulated(n_tasks=6, n_features=10, n_events=1600, outliers=1, noise=0.1, seed=1)
    rounds = synchronous(stream, 0)
    horizons = [100, 400, 1600]
    parameters = {"eta1": 0.5, "eta2": 0.5, "lambda1": 0.02, "lambda2": 0.015}
    learner = romco.learner(
        "romco-nucl", 10, 6, **parameters, always_prox=True, step="inverse-sqrt"
    )
    costs = np.cumsum(paid(learner, rounds))
    scaled = [
        (costs[T - 1] - best_fixed(rounds[:T], 6, 0.02, 0.015)) / np.sqrt(T) for T in horizons
    ]
    assert min(scaled) > 0
    assert max(scaled) < 2 * min(scaled)  # regret / sqrt(T) stays level while T grows 16-fold


def counter_example(T):
    """One task in one dimension: sqrt(T) rounds with x = 1, then x = 10, always y = +1."""
    x = np.full((T, 1), 10.0)
    x[: int(np.sqrt(T))] = 1.0
    return romco.Rounds(np.zeros(T, dtype=np.int64), x, np.ones(T), np.arange(T + 1))


@pytest.mark.slow
@pytest.mark.parametrize(("always_prox", "growth"), [(False, 10.0), (True, 10.0**0.5)])
def test_the_papers_rule_can_have_linear_regret(always_prox, growth):
    """Skipping the prox in rounds without loss is not what the theorem covers."""
    found = []
    for T in (1_000, 10_000):
        eta = 1 / np.sqrt(T)
        learner = romco.learner(
            "romco-nucl", 1, 1, eta1=eta, eta2=eta, lambda1=0.3, lambda2=0.3,
            always_prox=always_prox,
        )  # fmt: skip
        found.append(regret(learner, counter_example(T)))
    assert found[1] / found[0] == pytest.approx(growth, rel=0.1)
