"""OMTL: transcription, identities, dual feasibility, a convex solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import romco
from romco.streams import interleaved, synchronous
from tests.learners.agreement import ROUNDS, SPARSE, UNEQUAL, compare, same_margins
from tests.reference import shared_loss as reference

D, M = 9, 5
NORMS = ["L1", "L2", "Linf", "r-max"]
ONE_EACH = [synchronous(UNEQUAL, 1), synchronous(SPARSE, 1), interleaved(UNEQUAL, 1)]


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("update", ["implicit", "finite", "scaled"])
def test_agrees_with_the_transcription(update, norm, rounds):
    for C in (0.05, 1.0):
        options = {"C": C, "norm": norm, "update": update}
        compare(
            romco.learner("omtl", D, M, **options), reference.SharedLoss(D, M, **options), rounds
        )


@pytest.mark.parametrize("C", [0.05, 0.3, 5.0])
def test_implicit_l1_is_pa_unique(C):
    for rounds in ONE_EACH:
        same_margins(
            romco.learner("omtl", D, M, norm="L1", C=C),
            romco.learner("pa-unique", D, M, C=C),
            rounds,
        )


@pytest.mark.parametrize("norm", NORMS)
def test_one_event_a_round_is_pa_unique(norm):
    same_margins(
        romco.learner("omtl", D, M, norm=norm, C=0.2),
        romco.learner("pa-unique", D, M, C=0.2),
        interleaved(UNEQUAL, 1),
    )


@pytest.mark.parametrize("update", ["implicit", "finite", "scaled"])
@pytest.mark.parametrize(("r", "norm"), [(1, "Linf"), (M, "L1"), (M + 3, "L1")])
def test_r_max_lies_between_linf_and_l1(update, r, norm):
    for rounds in ONE_EACH:
        same_margins(
            romco.learner("omtl", D, M, norm="r-max", r=r, C=0.1, update=update),
            romco.learner("omtl", D, M, norm=norm, C=0.1, update=update),
            rounds,
        )


def dual(a, norm):
    return {
        "L1": np.max(a),
        "L2": np.linalg.norm(a),
        "Linf": np.sum(a),
        "r-max": max(np.max(a), np.sum(a) / 2),
    }[norm]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("update", ["implicit", "finite", "scaled"])
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), C=st.sampled_from([1e-3, 0.1, 1.0, 10.0]))
def test_weights_stay_in_the_dual_ball(update, norm, seed, C):
    """|a|* <= C in every round, and a = 0 where there is no loss."""
    rng = np.random.default_rng(seed)
    learner = romco.learner("omtl", D, M, C=C, norm=norm, update=update)
    for _ in range(8):
        task = rng.permutation(M)[: rng.integers(1, M + 1)]
        x, y = rng.normal(size=(len(task), D)), rng.choice([-1.0, 1.0], len(task))
        round, before = romco.Round(task, x, y), learner.weights()
        losses = np.maximum(0.0, 1 - y * learner.predict(round))
        learner.update(round)
        moved = (learner.weights() - before)[:, task]
        a = np.einsum("dn,nd->n", moved, x) * y / (x * x).sum(axis=1)
        assert dual(a, norm) <= C * (1 + 1e-9)
        assert (np.abs(a[losses == 0]) == 0).all()
        assert (a >= -1e-12).all()


@pytest.mark.parametrize("case", range(12))
@pytest.mark.parametrize("norm", NORMS)
def test_one_implicit_step_is_what_a_convex_solver_finds(oracles, norm, case):
    with np.load(oracles / "convex_solver_checks.npz") as known:
        x, w, y, C = (known[f"omtl{case}_{key}"] for key in ("X", "W0", "Y", "C"))
        expected = known[f"omtl{case}_{norm.replace('-', '')}_W1"]
    learner = romco.learner("omtl", 3, 5, C=float(C), norm=norm, r=2)
    learner.load({**learner.arrays(), "w": w.T.copy()})
    learner.update(romco.Round(np.arange(5), x, y))
    np.testing.assert_allclose(learner.weights(), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("wrong", [{"C": -1.0}, {"norm": "L3"}, {"update": "lazy"}, {"r": 0}])
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        romco.learner("omtl", D, M, **wrong)
