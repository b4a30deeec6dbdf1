"""AROW and CW-COL against their transcriptions, and what a fused Gaussian must be."""

import numpy as np
import pytest

import romco
from tests.learners.agreement import ROUNDS, compare, same_margins
from tests.reference import confidence as reference

D, M = 9, 5


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("models", ["unique", "global"])
def test_arow_agrees_with_the_transcription(models, covariance, rounds):
    options = {"r": 0.3, "covariance": covariance}
    twin = reference.Arow(D, M, models=models, **options)
    compare(romco.learner(f"arow-{models}", D, M, **options), twin, rounds)


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("options", [{}, {"eta1": 2.0, "eta2": 0.3, "r": 0.1, "a": 3.0}], ids=str)
def test_cw_col_agrees_with_the_transcription(options, covariance, rounds):
    learner = romco.learner("cw-col", D, M, covariance=covariance, **options)
    twin = reference.ConfidenceWeighted(D, M, covariance=covariance, **options)
    compare(learner, twin, rounds)
    variances = learner.arrays()["s" if covariance == "diagonal" else "S"]
    for i in range(M):
        found = np.diag(variances[i]) if covariance == "diagonal" else variances[i]
        np.testing.assert_allclose(found, twin.S[i], rtol=0, atol=1e-10)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_cw_col_without_a_global_model_is_arow(covariance):
    for rounds in ROUNDS.values():
        same_margins(
            romco.learner("cw-col", D, M, eta2=0.0, r=0.2, covariance=covariance),
            romco.learner("arow-unique", D, M, r=0.2, covariance=covariance),
            rounds,
            tolerance=1e-10,
        )


def test_fusing_minimises_the_weighted_divergences():
    """The reference's fused Gaussian: no other is nearer to both, in the sense of the docstring."""
    rng = np.random.default_rng(1)
    twin = reference.ConfidenceWeighted(3, 1, eta1=0.7, eta2=1.9, covariance="full")
    spread = [rng.normal(size=(3, 3)) for _ in range(2)]
    twin.S[0], twin.Su = (f @ f.T + np.eye(3) for f in spread)
    twin.W[:, 0], twin.u = rng.normal(size=(2, 3))

    def divergence(mu, S, to, T):
        inverse = np.linalg.inv(T)
        logs = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
        return 0.5 * (np.trace(inverse @ S) + (to - mu) @ inverse @ (to - mu) - 3 + logs)

    def cost(mu, S):
        own = divergence(mu, S, twin.W[:, 0], twin.S[0])
        return 0.7 * own + 1.9 * divergence(mu, S, twin.u, twin.Su)

    mu, S = twin.fused(0)
    for _ in range(50):
        nudge = 1e-3 * rng.normal(size=(3, 3))
        assert cost(mu + 1e-3 * rng.normal(size=3), S) > cost(mu, S)
        assert cost(mu, S + nudge + nudge.T) > cost(mu, S)


@pytest.mark.parametrize("name", ["arow-unique", "cw-col"])
def test_huge_features_leave_finite_numbers(name):
    learner = romco.learner(name, 2, 1)
    for y in (1.0, -1.0) * 5:
        learner.update(romco.Round(np.array([0]), np.array([[1e9, 0.0]]), np.array([y])))
    assert all(np.isfinite(array).all() for array in learner.arrays().values())


@pytest.mark.parametrize("wrong", [{"r": 0.0}, {"covariance": "banded"}])
@pytest.mark.parametrize("name", ["arow-unique", "arow-global", "cw-col"])
def test_impossible_parameters_are_refused(name, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        romco.learner(name, D, M, **wrong)
