import numpy as np
import pytest
from scipy.sparse import issparse

from romco.streams import simulated
from romco.streams.datasets import load


def test_the_truth_is_low_rank_plus_outliers():
    truth = simulated(n_tasks=10, n_features=30, rank=2, outliers=3).truth
    assert np.linalg.matrix_rank(truth.shared) == 2
    assert (
        np.flatnonzero(np.linalg.norm(truth.personal, axis=0)).tolist() == truth.outliers.tolist()
    )
    np.testing.assert_allclose(np.linalg.norm(truth.shared + truth.personal, axis=0), 1.0)


def test_labels_come_from_the_truth():
    stream = simulated(noise=0.0)
    w = stream.truth.shared + stream.truth.personal
    margins = np.einsum("nd,dn->n", stream.x, w[:, stream.task])
    np.testing.assert_array_equal(np.where(margins >= 0, 1, -1), stream.y)


def test_noise_flips_its_share():
    stream = simulated(noise=0.2, n_events=1000)
    w = stream.truth.shared + stream.truth.personal
    margins = np.einsum("nd,dn->n", stream.x, w[:, stream.task])
    assert np.mean(np.where(margins >= 0, 1, -1) != stream.y) == pytest.approx(0.2, abs=0.01)


def test_imbalance_and_sparsity_are_as_asked():
    stream = simulated(imbalance=0.9, sparsity=0.8, n_events=500, noise=0.0)
    assert np.mean(stream.y > 0) == pytest.approx(0.05, abs=0.01)
    assert issparse(stream.x)
    assert stream.x.nnz / np.prod(stream.x.shape) == pytest.approx(0.2, abs=0.03)


def test_drift_turns_the_weights():
    stream = simulated(drift=1.0, noise=0.0, n_events=400, n_tasks=5, outliers=1)
    w = stream.truth.shared + stream.truth.personal
    margins = np.einsum("nd,dn->n", stream.x, w[:, stream.task])
    right = np.where(margins >= 0, 1, -1) == stream.y
    assert right[-200:].mean() > 0.9
    assert right[:200].mean() < 0.6


def test_the_seed_decides_everything():
    np.testing.assert_array_equal(simulated(seed=4).x, simulated(seed=4).x)
    assert not np.array_equal(simulated(seed=4).x, simulated(seed=5).x)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        pytest.param("spam-like", (4, 7068, 1458, 4129, 710), marks=pytest.mark.slow),
        pytest.param("mhc-like", (12, 18664, 400, 3793, 415), marks=pytest.mark.slow),
        ("movies-like", (30, 6000, 1783, 200, 200)),
    ],
)
def test_presets_have_the_shapes_of_table_1(name, shape):
    stream = load(name)
    counts = np.bincount(stream.task)
    found = (stream.n_tasks, stream.n_events, stream.n_features, counts.max(), counts.min())
    assert found == shape


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_tasks": 0}, {"n_features": 1}, {"n_events": 0}, {"n_events": (1, 2)}, {"rank": 0},
        {"rank": 99}, {"outliers": 21}, {"noise": 1.0}, {"sparsity": -0.1}, {"imbalance": 1.0},
    ],
)  # fmt: skip
def test_bad_shapes_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong)).removeprefix("n_")):
        simulated(**wrong)


def test_unknown_name_names_the_known():
    with pytest.raises(ValueError, match="spam-like"):
        load("junk")
