import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import GARNET, as_graph
from garnet.datasets import block_model
from garnet.errors import ParameterError
from garnet.purify.features import alikeness, feature_block, scale
from garnet.spectral.spectrum import normalized_adjacency

RNG = np.random.default_rng(0)
BARE = block_model(80, mean_degree=6, seed=1)
DENSE = RNG.standard_normal((80, 30)).astype(np.float32)
WORDS = sp.csr_array(((RNG.random((80, 900)) < 0.05) * RNG.random((80, 900))).astype(np.float32))


def block(features, kind, rank=8):
    return feature_block(as_graph(BARE, features=features), kind, rank, seed=0, device="cpu")


def gram(x):
    x = np.asarray(x, dtype=np.float64)
    return x @ x.T


@pytest.mark.parametrize("features", [DENSE, sp.csr_array(DENSE), WORDS], ids=["dense", "sparse", "words"])
def test_low_rank_features_are_the_nearest_matrix_of_that_rank_to_unit_rows(features):
    dense = np.asarray(features.toarray() if sp.issparse(features) else features, dtype=np.float64)
    unit = dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)
    left, values, right = np.linalg.svd(unit, full_matrices=False)
    nearest = left[:, :8] * values[:8] @ right[:8]
    found = block(features, "low-rank")
    assert found.shape == (80, 8)
    np.testing.assert_allclose(gram(found), gram(nearest), atol=1e-4)


def test_raw_features_come_as_they_are():
    np.testing.assert_array_equal(block(WORDS, "raw"), WORDS.toarray())


def test_propagated_features_take_two_steps_on_the_graph():
    step = normalized_adjacency(BARE).toarray()
    np.testing.assert_allclose(block(DENSE, "propagated", None), step @ step @ DENSE / 2, atol=1e-5)
    assert block(DENSE, "propagated", 4).shape == (80, 4)


def test_without_features_auto_and_none_give_nothing_and_the_rest_a_sentence():
    assert feature_block(BARE, "auto", 8, seed=0, device="cpu") is None
    assert block(DENSE, "none") is None
    assert block(DENSE, "auto").shape == (80, 8)
    with pytest.raises(ParameterError, match="'features' parameter of GARNET is 'raw', but the graph has no features"):
        feature_block(BARE, "raw", 8, seed=0, device="cpu")


def test_rank_is_cut_to_what_the_features_have():
    assert block(DENSE[:, :3], "low-rank", 64).shape == (80, 3)
    assert block(np.zeros((80, 5), np.float32), "low-rank", 64).abs().max() == 0


def test_scaling():
    points = torch.from_numpy(DENSE).clone()
    points[3] = 0
    unit = scale(points, "unit")
    assert unit[3].abs().max() == 0
    np.testing.assert_allclose(np.delete(unit.norm(dim=1).numpy(), 3), 1, atol=1e-6)
    points[:, 2] = 7
    standard = scale(points, "standardize")
    np.testing.assert_allclose(standard.mean(dim=0), 0, atol=1e-6)
    assert sorted(set(standard.std(dim=0, correction=0).round(decimals=4).tolist())) == [0, 1]
    ranged = scale(points, "minmax")
    assert ranged.min() == 0
    assert ranged.max() == 1
    assert torch.equal(scale(points, "none"), points)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e10, 1e30])
def test_one_row_of_another_size_changes_no_other(size):
    points = torch.from_numpy(DENSE).clone()
    expected = scale(points, "unit")
    points[3] *= size
    np.testing.assert_allclose(scale(points, "unit"), expected, atol=1e-6)
    np.testing.assert_allclose(gram(block(points.numpy(), "low-rank")), gram(block(DENSE, "low-rank")), atol=1e-4)


def test_features_of_nothing_but_zeros():
    assert block(sp.csr_array((80, 900), dtype=np.float32), "low-rank").abs().max() == 0


def test_alikeness_is_one_for_edges_inside_groups_and_none_at_random():
    groups = np.repeat(np.arange(4), 25)
    block = torch.eye(4)[torch.from_numpy(groups)] + 0.001 * torch.randn(
        100, 4, generator=torch.Generator().manual_seed(0)
    )
    rng = np.random.default_rng(0)
    inside = rng.integers(25, size=(2, 400)) + 25 * rng.integers(4, size=400)
    anyhow = rng.integers(100, size=(2, 4000))
    assert alikeness(block, inside) > 0.6  # a quarter of the random pairs lie inside a group too
    assert abs(alikeness(block, anyhow)) < 0.05
    assert alikeness(block, inside[:, :0]) == 0
    many = np.tile(inside, 100)  # of which only some are compared
    assert alikeness(block, many) == alikeness(block, many) > 0.6


def test_features_that_edges_do_not_follow_have_little_say():
    graph = block_model(600, classes=3, homophily=0.9, mean_degree=8, seed=1)
    rng = np.random.default_rng(2)
    telling = np.eye(3)[graph.labels] + 0.1 * rng.standard_normal((600, 3))
    silent = rng.standard_normal((600, 3))

    def share(features):
        return GARNET(rank=10).purify(as_graph(graph, features=features)).settings.feature_weight

    assert share(telling) > 1
    assert share(silent) < 0.4
