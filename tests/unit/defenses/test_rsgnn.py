"""RS-GNN against a dense implementation of its graph and its losses."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import Split, as_graph
from garnet.backbones import GCN
from garnet.backbones.base import Noise
from garnet.datasets import contextual_block_model, inter_class_edges, load, random_split
from garnet.defenses import Purified
from garnet.defenses.rsgnn import RSGNN
from garnet.errors import ParameterError
from garnet.training.loop import Training

SMALL = RSGNN(k=4, width=8, hidden=6, dropout=0.0, training=Training(epochs=20, lr=0.01))


@pytest.fixture(scope="module")
def graph():
    graph = contextual_block_model(60, classes=3, features=8, signal=2.5, mean_degree=5.0, seed=3)
    return as_graph(graph, split=random_split(graph.labels, seed=0))


def started(model, graph, seeds=(0,)):
    """Parameters before training, the codes made longer so that weights lie on both sides of the thresholds."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    models = [model.initial(graph.features.shape[1], 3, generator) for generator in generators]
    stacked = {name: torch.stack([one[name] for one in models]) for name in models[0]}
    return {name: value * (3 if name.startswith("code") else 1) for name, value in stacked.items()}, Noise(generators)


def dense_parts(model, graph, parameters):
    """Unit features X, products Z Z^T, the mask of candidates and the weights S, all of them dense."""
    p = {name: value[0].double().numpy() for name, value in parameters.items()}
    x = graph.features.astype(float)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    codes = np.maximum(x @ p["code_weight0"] + p["code_bias0"], 0) @ p["code_weight1"] + p["code_bias1"]
    products = codes @ codes.T
    cosine = x @ x.T
    np.fill_diagonal(cosine, -np.inf)
    candidate = graph.adjacency.toarray() > 0
    for node, nearest in enumerate(np.argsort(-cosine, axis=1)[:, : min(model.k, len(x) - 1)]):
        candidate[node, nearest] = candidate[nearest, node] = True
    weights = np.where(candidate & (products >= model.least), np.maximum(products, 0), 0)
    return p, x, products, candidate, weights


def dense_logits(p, x, weights):
    looped = weights + np.eye(len(weights))
    root = 1 / np.sqrt(looped.sum(axis=1))
    convolution = root[:, None] * looped * root
    return convolution @ np.maximum(convolution @ x @ p["weight0"] + p["bias0"], 0) @ p["weight1"] + p["bias1"]


@pytest.mark.parametrize("k", [0, 4, 100])
def test_logits_are_those_of_a_gcn_on_the_weighted_candidates(graph, k):
    model = replace(SMALL, k=k)
    parameters, _ = started(model, graph)
    p, x, _, candidate, weights = dense_parts(model, graph, parameters)
    assert 0 < np.count_nonzero(weights) < candidate.sum()
    given = model.logits(parameters, model.prepare(graph, "cpu"), None)[0].numpy()
    np.testing.assert_allclose(given, dense_logits(p, x, weights), rtol=1e-4, atol=1e-4)


def penalty(model, graph, **weights):
    model = replace(model, **{"reconstruction": 0.0, "smoothness": 0.0} | weights)
    parameters, noise = started(model, graph)
    return float(model.logits_and_penalties(parameters, model.prepare(graph, "cpu"), noise)[1])


def test_reconstruction_is_the_loss_over_all_pairs(graph):
    # Candidates all of them, so that every factor is exact.
    model = replace(SMALL, k=100, negatives=7, sigma=1.3)
    _, x, products, _, _ = dense_parts(model, graph, started(model, graph)[0])
    squared = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    upper = np.triu(np.ones_like(products, dtype=bool), k=1)
    edge = (graph.adjacency.toarray() > 0) & upper
    other = upper & ~edge
    joined = (np.exp(-squared / 1.3**2) * (products - 1) ** 2)[edge].sum()
    mean_of_others = (np.exp(squared / 1.3**2) * products**2)[other].mean()
    n = graph.num_nodes
    expected = (joined + 7 * n * mean_of_others) / (edge.sum() + 7 * n)
    assert penalty(model, graph, reconstruction=1.0) == pytest.approx(expected, rel=1e-4)


def test_pairs_that_are_no_candidates_count_with_the_mean_distance(graph):
    # With a sigma this wide all factors are one, and the closed form is exact whatever the candidates are.
    wide = replace(SMALL, sigma=1e3, reconstruction=1.0)
    few, all_of_them = (penalty(replace(wide, k=k), graph, reconstruction=1.0) for k in (0, 100))
    assert few == pytest.approx(all_of_them, rel=1e-4)
    assert penalty(replace(SMALL, k=0), graph, reconstruction=1.0) != pytest.approx(few, rel=0.01)


def test_smoothness_is_over_the_pairs_it_is_sure_of(graph):
    model = replace(SMALL, sure=2.0)
    p, x, _, _, weights = dense_parts(model, graph, started(model, graph)[0])
    logits = dense_logits(p, x, weights)
    soft = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    squared = ((soft[:, None] - soft[None]) ** 2).sum(axis=2)
    counted = np.triu(weights >= 2.0, k=1)
    assert 0 < counted.sum() < np.count_nonzero(np.triu(weights))
    expected = (weights * squared)[counted].sum() / graph.num_nodes
    assert penalty(model, graph, smoothness=1.0) == pytest.approx(expected, rel=1e-3)
    assert penalty(replace(model, sure=1e6), graph, smoothness=1.0) == 0


def test_neither_scale_of_features_nor_weights_of_edges_count(graph):
    plain = SMALL.fit(graph).logits()
    scaled = replace(graph, features=graph.features * np.float32(1024))
    weighted = graph.with_edges(graph.edges, np.linspace(0.1, 9, graph.num_edges))
    torch.testing.assert_close(SMALL.fit(scaled).logits(), plain, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(SMALL.fit(weighted).logits(), plain, rtol=0, atol=0)


def test_sparse_features_give_what_dense_ones_give(graph):
    features = np.where(graph.features > 0.5, graph.features, 0)
    features[3] = 0
    parameters, _ = started(SMALL, graph)
    first, second = (
        SMALL.logits(parameters, SMALL.prepare(as_graph(graph, features=kind), "cpu"), None)
        for kind in (features, sp.csr_array(features))
    )
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_a_graph_without_edges():
    split = Split(np.arange(3), np.arange(0), np.arange(0))
    bare = as_graph((np.zeros((2, 0), dtype=int), 3), features=np.eye(3, 4), labels=np.arange(3), split=split)
    for k in (0, 4):
        assert torch.isfinite(replace(SMALL, k=k).fit(bare).logits()).all()


def test_planted_edges_do_it_little_harm():
    graph = load("cora", split="random")
    planted = inter_class_edges(graph, graph.num_edges // 2, seed=0)
    poison = graph.with_edges(np.concatenate([graph.edges, planted], axis=1))
    model = replace(RSGNN(), k=5, training=Training(epochs=40, lr=0.01))
    plain = Purified(None, GCN(hidden=16), Training(epochs=40, lr=0.01)).fit(poison)
    assert model.fit(poison).accuracy() > plain.accuracy() + 0.05


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("k", -1, "an integer >= 0"),
        ("negatives", 2.5, "an integer >= 0"),
        ("width", 0, "an integer >= 1"),
        ("sigma", 0.1, "a number >= 0.2"),
        ("reconstruction", -1.0, "a number >= 0"),
        ("smoothness", float("nan"), "a number >= 0"),
        ("least", float("inf"), "a number >= 0"),
        ("sure", "much", "a number >= 0"),
    ],
)
def test_parameters_are_checked(graph, name, value, wanted):
    with pytest.raises(ParameterError, match=rf"^The '{name}' parameter of RSGNN must be {wanted}\. Got .* instead\.$"):
        replace(SMALL, **{name: value}).fit(graph)
