"""SimPGCN against its formulas, written densely, and what its two graphs do."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from garnet import GARNET, Split, as_graph
from garnet.backbones import GCN
from garnet.backbones.base import Noise
from garnet.datasets import poisoned
from garnet.defenses import Purified
from garnet.defenses.simp_gcn import SimPGCN
from garnet.errors import ParameterError
from garnet.training.loop import Training


def weighted_graph(n=12, empty=False):
    rng = np.random.default_rng(0)
    edges = np.stack([np.arange(n - 2), np.arange(1, n - 1)])  # the last node is isolated
    labels = np.arange(n) % 3
    features = rng.standard_normal((n, 5)).astype(np.float32)
    if empty:
        features[3] = 0
    split = Split(np.arange(6), np.arange(6, 8), np.arange(8, n))
    graph = as_graph((edges, n), features=features, labels=labels, split=split, symmetrize=True)
    return graph.with_edges(graph.edges, np.linspace(0.5, 3, graph.num_edges))


def words(n=1400, width=60):
    """Bags of words, of which each node has about six."""
    rng = np.random.default_rng(1)
    features = (rng.random((n, width)) < 0.1).astype(np.float32)
    split = Split(np.arange(20), np.arange(20, 40), np.arange(40, n))
    edges = rng.integers(n, size=(2, 3 * n))
    return as_graph((edges, n), features=features, labels=np.arange(n) % 3, split=split, symmetrize=True)


def parameters_of(model, graph, seed=0):
    generator = torch.Generator().manual_seed(seed)
    first = model.initial(graph.features.shape[1], 3, generator)
    # No parameter at zero, so that each is seen.
    return {name: (value + torch.randn(value.shape, generator=generator))[None] for name, value in first.items()}


def cosines(graph):
    features = torch.from_numpy(graph.features)
    lengths = features.norm(dim=1, keepdim=True)
    unit = features / torch.where(lengths > 0, lengths, 1)
    return unit @ unit.T


def dense(model, graph, parameters):
    """Hidden layer and logits, from the formulas."""
    n = graph.num_nodes
    similar = cosines(graph).fill_diagonal_(-torch.inf)
    near = torch.zeros(n, n)
    for node in range(n):
        best = similar[node].topk(min(model.k, n - 1)).indices
        near[node, best] = near[best, node] = similar[node, best].clamp(min=0)
    looped = torch.from_numpy(graph.adjacency.toarray()) + torch.eye(n)
    convolutions = []
    for matrix in (looped, near):
        degrees = matrix.sum(dim=1)
        root = torch.where(degrees > 0, degrees, 1).rsqrt()
        convolutions.append(root[:, None] * matrix * root)
    layers = [torch.from_numpy(graph.features)]
    for layer in range(2):
        p = {name[:-1]: value[0] for name, value in parameters.items() if name.endswith(str(layer))}
        share = torch.sigmoid(layers[-1] @ p["balance"] + p["balance_bias"])
        loop = layers[-1] @ p["loop"] + p["loop_bias"]
        given, nearest = (matrix @ layers[-1] @ p["weight"] + p["bias"] for matrix in convolutions)
        own = layers[-1] @ p["weight"] + p["bias"]
        mixed = share * given + (1 - share) * nearest + model.gamma * loop * own
        layers.append(mixed if layer else mixed.relu())
    return layers[1], layers[2]


@pytest.mark.parametrize(("k", "gamma", "empty"), [(3, 0.0, False), (3, 0.7, True), (50, 0.1, False)])
def test_evaluation_follows_the_formulas(k, gamma, empty):
    graph, model = weighted_graph(empty=empty), SimPGCN(hidden=4, k=k, gamma=gamma)
    parameters = parameters_of(model, graph)
    found = model.logits(parameters, model.prepare(graph, "cpu"), None)
    torch.testing.assert_close(found[0], dense(model, graph, parameters)[1], rtol=1e-4, atol=1e-4)


def test_training_adds_the_error_of_predicted_similarities():
    graph, model = weighted_graph(), SimPGCN(hidden=4, k=3, dropout=0.0, similarity_weight=0.7)
    parameters = parameters_of(model, graph)
    inputs = model.prepare(graph, "cpu")
    hidden, logits = dense(model, graph, parameters)
    found, penalty = model.logits_and_penalties(parameters, inputs, Noise([torch.Generator().manual_seed(0)]))
    torch.testing.assert_close(found[0], logits, rtol=1e-4, atol=1e-4)
    first, second = inputs.pairs
    predicted = (hidden[first] - hidden[second]).abs() @ parameters["similarity"][0] + parameters["similarity_bias"][0]
    wanted = 0.7 * ((predicted[:, 0] - cosines(graph)[first, second]) ** 2).mean()
    torch.testing.assert_close(penalty[0], wanted, rtol=1e-4, atol=1e-4)


def test_pairs_are_the_most_and_the_least_similar():
    graph = words()
    inputs = SimPGCN(similar=5).prepare(graph, "cpu")
    known = torch.from_numpy(graph.features.any(axis=1))
    assert not known.all()
    first, second = inputs.pairs
    assert (first < second).all()
    assert known[inputs.pairs].all()
    similar = cosines(graph).fill_diagonal_(-torch.inf)
    torch.testing.assert_close(inputs.similarities, similar[first, second])
    compared = torch.zeros_like(similar, dtype=torch.bool)
    compared[first, second] = compared[second, first] = True
    ordered = similar.topk(6, dim=1).values
    # What is more similar than the sixth is one of the five nearest, but for rounding.
    assert compared[similar > ordered[:, 5:] + 1e-5].all()
    far = compared & (similar < ordered[:, 4:5] - 1e-5) & (similar < ordered[:, 4:5] - 1e-5).T
    assert far.sum() >= 5 * known.sum()
    # Bags of six words of sixty share none as often as not, and of fifty others five such are found.
    assert (similar[far] == 0).all()


@pytest.mark.parametrize(("bias", "which"), [(100.0, "given"), (-100.0, "nearest")])
def test_the_balance_chooses_the_graph(bias, which):
    graph, model = weighted_graph(), SimPGCN(hidden=4, k=3, gamma=0.0)
    parameters = parameters_of(model, graph)
    for layer in range(2):
        parameters[f"balance_bias{layer}"] = torch.full((1, 1, 1), bias)
    other = graph.with_edges(np.array([[0, 1], [5, 7]]))
    before, after = (model.logits(parameters, model.prepare(one, "cpu"), None) for one in (graph, other))
    assert torch.equal(before, after) is (which == "nearest")


def test_before_training_the_mix_is_as_asked():
    model = SimPGCN(hidden=4, trust=0.3)
    parameters = model.initial(5, 3, torch.Generator().manual_seed(0))
    for layer in range(2):
        assert parameters[f"balance_bias{layer}"].sigmoid().item() == pytest.approx(0.3)


def test_a_seed_draws_the_same_pairs_beside_others():
    graph = words()
    model = SimPGCN(hidden=8, similarity_weight=5.0, training=Training(epochs=5, lr=0.01))
    assert model.prepare(graph, "cpu").pairs.shape[1] > 10_000
    alone, beside = model.fit(graph, seed=1), model.fit_seeds(graph, [0, 1])[1]
    torch.testing.assert_close(alone.logits(), beside.logits(), rtol=1e-4, atol=1e-4)
    assert torch.equal(model.fit(graph, seed=1).logits(), alone.logits())
    without = replace(model, similarity_weight=0.0).fit(graph, seed=1)
    assert not torch.allclose(without.logits(), alone.logits(), atol=1e-3)


@pytest.mark.parametrize("factor", [1e-4, 1.0, 1e4])
def test_features_of_any_scale_train(factor):
    graph = weighted_graph()
    graph = as_graph(graph, features=graph.features * np.float32(factor))
    one = SimPGCN(hidden=4, training=Training(epochs=20, lr=0.01)).fit(graph)
    assert torch.isfinite(one.logits()).all()


def test_features_of_one_node_alone_join_nothing():
    graph = weighted_graph()
    features = np.zeros_like(graph.features)
    features[2] = 1
    for some in (features, np.zeros_like(features)):
        one = SimPGCN(hidden=4, training=Training(epochs=2)).fit(as_graph(graph, features=some))
        assert torch.isfinite(one.logits()).all()


def test_comes_after_a_purifier():
    short = SimPGCN(hidden=4, training=Training(epochs=2))
    one = Purified(GARNET(rank=3, k=3), short).fit(weighted_graph())
    assert one.backbone == short
    assert [stage.name for stage in one.stages][-1] == "train"
    assert len(one.stages) > 1


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("k", 0, "be an integer >= 1"),
        ("similar", 2.5, "be an integer >= 1"),
        ("trust", 1.0, "be above 0 and below 1"),
        ("gamma", -1.0, "be a number >= 0"),
        ("similarity_weight", float("inf"), "be a number >= 0"),
    ],
)
def test_what_makes_no_sense_is_refused(name, value, wanted):
    with pytest.raises(
        ParameterError, match=rf"^The '{name}' parameter of SimPGCN must {wanted}\. Got {value} instead"
    ):
        SimPGCN(**{name: value}).fit(weighted_graph())


def test_an_attack_costs_it_less_than_a_convolution(data_folder, monkeypatch):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    graph = poisoned("cora", attack="metattack", budget=0.2)
    train = Training(epochs=200, lr=0.01, weight_decay=5e-4)
    convolution = Purified(None, GCN(hidden=16), train).fit(graph)
    assert SimPGCN(hidden=32).fit(graph).accuracy() > convolution.accuracy() + 0.1
