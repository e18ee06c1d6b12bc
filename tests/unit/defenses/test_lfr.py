"""GCN-LFR against a dense implementation of its two networks."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import as_graph
from garnet.backbones.base import Noise
from garnet.datasets import contextual_block_model, poisoned, random_split
from garnet.defenses.lfr import LFR
from garnet.errors import ParameterError
from garnet.graph.edges import canonical
from garnet.training.loop import Training


@pytest.fixture(scope="module")
def graph():
    graph = contextual_block_model(120, classes=3, features=16, signal=2.5, mean_degree=6.0, seed=3)
    # A path joins what is isolated: eigenvalues that are there several times have no vectors of their own.
    path = np.stack([np.arange(119), np.arange(1, 120)])
    graph = graph.with_edges(canonical(*np.concatenate([graph.edges, path], axis=1), 120))
    return as_graph(graph, split=random_split(graph.labels, seed=0))


def started(model, graph, seeds=(0,)):
    """Parameters before training, with a bias so that it shows, and what draws in training."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    models = [model.initial(graph.features.shape[1], 3, generator) for generator in generators]
    stacked = {name: torch.stack([one[name] for one in models]) for name in models[0]}
    return {name: value + 0.1 * ("bias" in name) for name, value in stacked.items()}, Noise(generators)


def features_of(graph):
    return graph.features / np.abs(graph.features).sum(axis=1, keepdims=True)


def two_layers(graph, weights, first, second):
    hidden = np.maximum(first @ features_of(graph) @ weights["weight0"] + weights["bias0"], 0)
    return second @ hidden @ weights["weight1"] + weights["bias1"]


def low_frequencies(graph, rank):
    """Eigenvectors of the smallest eigenvalues of the normalised Laplacian, which is dense here."""
    adjacency = graph.adjacency.toarray().astype(float)
    root = 1 / np.sqrt(adjacency.sum(axis=1))
    return np.linalg.eigh(np.eye(len(root)) - root[:, None] * adjacency * root)[1][:, :rank]


def test_prediction_is_the_gcn_alone(graph):
    model = LFR(rank=5, hidden=8)
    parameters, _ = started(model, graph)
    convolution = graph.adjacency.toarray() + np.eye(graph.num_nodes)
    expected = two_layers(
        graph, {name: value[0].numpy() for name, value in parameters.items()}, convolution, convolution
    )
    given = model.logits(parameters, model.prepare(graph, "cpu"), None)[0].numpy()
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rank", [1, 7, 120, 1000])
def test_low_frequencies_share_the_weights(graph, rank):
    model = LFR(rank=rank, hidden=8, alpha=1.0, dropout=0.0)
    parameters, noise = started(model, graph)
    weights = {name: value[0].numpy() for name, value in parameters.items()}
    vectors = low_frequencies(graph, rank)
    kept = vectors.shape[1]
    filters = [vectors @ (weights[f"filter{layer}"][:kept] * vectors.T) for layer in (0, 1)]
    expected = two_layers(graph, weights, *filters)
    given = model.logits(parameters, model.prepare(graph, "cpu"), noise)[0].numpy()
    np.testing.assert_allclose(given, expected, rtol=1e-4, atol=1e-4)


def test_alpha_is_the_share_of_nodes_judged_by_low_frequencies(graph):
    rows = []
    for alpha in (0.0, 0.25, 1.0):
        model = LFR(rank=5, hidden=8, alpha=alpha, dropout=0.0)
        parameters, noise = started(model, graph)
        inputs = model.prepare(graph, "cpu")
        rows.append(torch.stack([model.logits(parameters, inputs, noise)[0] for _ in range(30)]))
    whole, mixed, low = rows
    by_low, by_whole = (mixed == low).all(dim=2), (mixed == whole).all(dim=2)
    assert (by_low ^ by_whole).all()
    # 3,600 nodes were drawn: five standard deviations.
    assert abs(by_low.float().mean() - 0.25) < 0.036


def test_both_networks_teach_all_parameters(graph):
    model = LFR(rank=5, hidden=8)
    parameters, noise = started(model, graph, seeds=(0, 1))
    for value in parameters.values():
        value.requires_grad_()
    model.logits(parameters, model.prepare(graph, "cpu"), noise).square().sum().backward()
    for name, value in parameters.items():
        assert (value.grad.flatten(1).abs().sum(dim=1) > 0).all(), name


def test_scale_of_features_does_not_count(graph):
    scaled = replace(graph, features=graph.features * np.float32(1024))
    model = replace(LFR(rank=5, hidden=8), training=Training(epochs=5, lr=0.01))
    torch.testing.assert_close(model.fit(scaled).logits(), model.fit(graph).logits(), rtol=1e-4, atol=1e-4)


def test_sparse_features_give_what_dense_ones_give(graph):
    features = np.where(np.abs(graph.features) > 1, graph.features, 0)
    dense, sparse = (as_graph(graph, features=kind) for kind in (features, sp.csr_array(features)))
    model = LFR(rank=5, hidden=8)
    parameters, _ = started(model, graph)
    first, second = (model.logits(parameters, model.prepare(one, "cpu"), None) for one in (dense, sparse))
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_it_learns_and_its_model_serves_another_graph(graph):
    predictor = replace(LFR(rank=20, hidden=16), training=Training(epochs=60, lr=0.01)).fit(graph)
    assert predictor.accuracy() > 0.8
    fewer = graph.with_edges(graph.edges[:, ::2])
    other = predictor.on(fewer)
    assert other.logits().shape == (120, 3)
    assert not torch.equal(other.logits(), predictor.logits())


@pytest.mark.parametrize("rank", [0, -1, 2.5, True])
def test_rank_must_be_a_whole_number(graph, rank):
    with pytest.raises(
        ParameterError, match=r"^The 'rank' parameter of LFR must be an integer >= 1\. Got .* instead\.$"
    ):
        LFR(rank=rank).fit(graph)


def test_alpha_must_be_a_probability():
    with pytest.raises(ParameterError, match=r"^The 'alpha' parameter of LFR must be between 0 and 1"):
        LFR(alpha=1.5)


def test_published_accuracy_on_cora_under_metattack(data_folder, monkeypatch):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    graph = poisoned("cora", attack="metattack", budget=0.2)
    # The paper of GARNET has 65.4 +- 3.7; an undefended GCN about 55.
    accuracies = [
        one.accuracy() for one in replace(LFR(), training=Training(epochs=15, lr=0.01)).fit_seeds(graph, [0, 1])
    ]
    assert np.mean(accuracies) > 0.629
