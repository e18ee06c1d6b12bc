"""GNNGuard against a dense model written from the paper, and graphlets against their definition."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from garnet import Split, as_graph
from garnet.backbones import GCN, GPRGNN, MLP
from garnet.defenses import Purified
from garnet.defenses.gnnguard import GNNGuard
from garnet.defenses.jaccard import Jaccard
from garnet.errors import ParameterError
from garnet.graph.graphlets import ORBITS, graphlet_degrees
from garnet.training.loop import Training
from garnet.training.predictor import Predictor


def random_graph(n=14, d=6, classes=3, seed=0, weighted=True, signal=1.5):
    rng = np.random.default_rng(seed)
    matrix = np.triu(rng.random((n, n)) < 0.4, 1) * (rng.uniform(0.5, 3, (n, n)) if weighted else 1.0)
    matrix[:, 0] = matrix[0] = 0  # a node of its own
    labels = np.arange(n) % classes
    features = rng.standard_normal((n, d)) + signal * np.eye(d)[labels]
    split = Split(np.arange(n // 2), np.arange(n // 2, n - 4), np.arange(n - 4, n))
    return as_graph(matrix + matrix.T, features=features, labels=labels, split=split)


def drawn(model, graph, seeds=2):
    generators = [torch.Generator().manual_seed(seed) for seed in range(seeds)]
    models = [model.initial(graph.features.shape[1], 3, generator) for generator in generators]
    parameters = {name: torch.stack([one[name] for one in models]) for name in models[0]}
    # Biases and the memory begin at zero, which would hide where they go.
    noise = torch.Generator().manual_seed(9)
    return {name: value + 0.3 * torch.randn(value.shape, generator=noise) for name, value in parameters.items()}


def dense_attention(hidden, adjacency, threshold):
    """The neighbour importance, node by node."""
    n = len(adjacency)
    attention = np.zeros((n, n))
    for u in range(n):
        alike = np.zeros(n)
        for v in np.flatnonzero(adjacency[u]):
            lengths = np.linalg.norm(hidden[u]) * np.linalg.norm(hidden[v])
            cosine = hidden[u] @ hidden[v] / lengths if lengths else 0.0
            alike[v] = cosine if cosine >= threshold else 0.0
        heard = np.count_nonzero(alike)
        if heard:
            attention[u] = adjacency[u] * alike / (adjacency[u] @ alike) * heard / (heard + 1)
        attention[u, u] = 1 / (heard + 1)
    return attention


def dense_gcn(one, graph, threshold, memory, layers):
    adjacency, hidden, before = graph.adjacency.toarray(), graph.features, None
    for layer in range(layers):
        attention = dense_attention(hidden, adjacency, threshold)
        before = attention if before is None else memory * before + (1 - memory) * attention
        hidden = before @ (hidden @ one[f"weight{layer}"]) + one[f"bias{layer}"]
        hidden = np.maximum(hidden, 0) if layer < layers - 1 else hidden
    return hidden


def dense_gprgnn(one, graph, threshold, memory, hops):
    adjacency, before = graph.adjacency.toarray(), None
    hidden = np.maximum(graph.features @ one["weight0"] + one["bias0"], 0) @ one["weight1"] + one["bias1"]
    filtered = one["coefficients"][0] * hidden
    for hop in range(1, hops + 1):
        attention = dense_attention(hidden, adjacency, threshold)
        before = attention if before is None else memory * before + (1 - memory) * attention
        hidden = before @ hidden
        filtered = filtered + one["coefficients"][hop] * hidden
    return filtered


@pytest.mark.parametrize("memory", [None, 0.0, 0.3])
@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.6])
@pytest.mark.parametrize(
    ("backbone", "dense"),
    [(GCN(layers=3, hidden=5), lambda *given: dense_gcn(*given, 3)),
     (GPRGNN(hops=4, hidden=5), lambda *given: dense_gprgnn(*given, 4))],
    ids=["gcn", "gprgnn"],
)  # fmt: skip
def test_layers_are_those_of_the_paper(backbone, dense, threshold, memory):
    graph = random_graph()
    model = GNNGuard(backbone=backbone, threshold=threshold, memory=memory)
    parameters = drawn(model, graph)
    found = model.logits(parameters, model.prepare(graph, "cpu"), None)
    for seed, logits in enumerate(found):
        one = {name: value[seed].double().numpy() for name, value in parameters.items()}
        kept = 1 / (1 + np.exp(-one["memory"])) if memory is None else memory
        np.testing.assert_allclose(logits.numpy(), dense(one, graph, threshold, kept), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backbone", [GCN(layers=2, hidden=5), GPRGNN(hops=2, hidden=5)], ids=["gcn", "gprgnn"])
def test_the_memory_has_its_true_gradient(backbone):
    """With two layers: similarities of a third would depend on it too, and take no gradient."""
    graph = random_graph()
    model = GNNGuard(backbone=backbone)
    inputs, parameters = model.prepare(graph, "cpu"), drawn(model, graph)
    memory = parameters["memory"].requires_grad_()
    model.logits(parameters, inputs, None).square().sum().backward()
    with torch.no_grad():
        up, down = (
            model.logits({**parameters, "memory": memory + step}, inputs, None).square().sum(dim=(1, 2))
            for step in (1e-2, -1e-2)
        )
    assert (memory.grad != 0).all()
    torch.testing.assert_close(memory.grad[:, 0], (up - down) / 2e-2, rtol=1e-2, atol=1e-3)


def test_similarities_take_no_gradient():
    graph = random_graph()
    model = GNNGuard(backbone=GCN(hidden=5), memory=0.0)
    inputs = model.prepare(graph, "cpu")
    parameters = {name: value.requires_grad_() for name, value in drawn(model, graph, seeds=1).items()}
    model.logits(parameters, inputs, None).square().sum().backward()
    with torch.no_grad():
        hidden = inputs.hear(
            inputs.attention(inputs.alike, 0.1), inputs.features.linear(parameters["weight0"], 0, None)
        )
        hidden = (hidden + parameters["bias0"]).relu()
        frozen = torch.from_numpy(dense_attention(hidden[0].numpy(), graph.adjacency.toarray(), 0.1)).float()
        first = torch.from_numpy(dense_attention(graph.features, graph.adjacency.toarray(), 0.1)).float()
    weight = parameters["weight0"][0].detach().requires_grad_()
    hidden = (first @ torch.from_numpy(graph.features) @ weight + parameters["bias0"][0].detach()).relu()
    (frozen @ hidden @ parameters["weight1"][0].detach() + parameters["bias1"][0].detach()).square().sum().backward()
    torch.testing.assert_close(parameters["weight0"].grad[0], weight.grad, rtol=1e-4, atol=1e-4)


def test_a_threshold_that_nothing_reaches_leaves_a_perceptron():
    graph = random_graph()
    for backbone in (GCN(hidden=5), GPRGNN(hops=3, hidden=5)):
        model = GNNGuard(backbone=backbone, threshold=1.0, memory=1.0)
        parameters = drawn(model, graph)
        alone = graph.with_edges(np.zeros((2, 0), dtype=np.int64))
        one, other = (model.logits(parameters, model.prepare(given, "cpu"), None) for given in (graph, alone))
        torch.testing.assert_close(one, other)


def test_batch_norm_and_residual_are_those_of_gcn():
    """Where every similarity is one, a regular graph leaves the same convolution as GCN's own."""
    n = 12
    ring = np.roll(np.eye(n), 1, axis=1)
    features = np.random.default_rng(0).uniform(0.5, 1, (n, 1)) * np.ones((n, 4))
    graph = as_graph(ring + ring.T, features=features)
    backbone = GCN(layers=4, hidden=1, batch_norm=True, residual=True)
    model = GNNGuard(backbone=backbone, memory=1.0)  # the first attention, of parallel features, counts throughout
    parameters = drawn(model, graph)
    found = model.logits(parameters, model.prepare(graph, "cpu"), None)
    torch.testing.assert_close(found, backbone.logits(parameters, backbone.prepare(graph, "cpu"), None))


SUBGRAPHS = {
    "edge": ([(0, 1)], 0),
    "end of a path of 3": ([(0, 1), (1, 2)], 0),
    "middle of a path of 3": ([(0, 1), (1, 2)], 1),
    "triangle": ([(0, 1), (1, 2), (0, 2)], 0),
    "end of a path of 4": ([(0, 1), (1, 2), (2, 3)], 0),
    "inside a path of 4": ([(0, 1), (1, 2), (2, 3)], 1),
    "leaf of a star of 4": ([(0, 1), (0, 2), (0, 3)], 1),
    "centre of a star of 4": ([(0, 1), (0, 2), (0, 3)], 0),
    "cycle of 4": ([(0, 1), (1, 2), (2, 3), (0, 3)], 0),
    "tail of a paw": ([(0, 1), (1, 2), (0, 2), (2, 3)], 3),
    "side of a paw": ([(0, 1), (1, 2), (0, 2), (2, 3)], 0),
    "joint of a paw": ([(0, 1), (1, 2), (0, 2), (2, 3)], 2),
    "tip of a diamond": ([(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)], 1),
    "waist of a diamond": ([(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)], 0),
}


@pytest.mark.parametrize("chunk", [1, 1 << 24])
def test_graphlets_are_counted_one_by_one(chunk, monkeypatch):
    monkeypatch.setattr("garnet.graph.graphlets._CHUNK", chunk)
    graph = random_graph(n=9)
    joined = graph.adjacency.toarray() > 0
    found = graphlet_degrees(graph)
    assert list(SUBGRAPHS) == list(ORBITS)
    for column, (edges, place) in enumerate(SUBGRAPHS.values()):
        seen = [set() for _ in range(9)]
        for nodes in permutations(range(9), 1 + max(map(max, edges))):
            if all(joined[nodes[a], nodes[b]] for a, b in edges):
                seen[nodes[place]].add(frozenset(frozenset((nodes[a], nodes[b])) for a, b in edges))
        np.testing.assert_array_equal(found[:, column], [len(one) for one in seen], err_msg=ORBITS[column])


def test_graphlets_do_not_look_at_features():
    graph = random_graph()
    model = GNNGuard(backbone=GCN(hidden=5), similarity="graphlets")
    shuffled = replace(graph, features=graph.features[::-1].copy())
    one, other = (model.prepare(given, "cpu") for given in (graph, shuffled))
    assert torch.equal(one.alike, other.alike)
    assert one.alike.unique().numel() > 2
    counts = np.log1p(graphlet_degrees(graph))
    spread = counts.std(axis=0)
    roles = (counts - counts.mean(axis=0)) / np.where(spread > 0, spread, 1)
    wanted = [roles[u] @ roles[v] / np.linalg.norm(roles[u]) / np.linalg.norm(roles[v]) for u, v in graph.edges.T]
    np.testing.assert_allclose(one.alike[0], wanted, atol=1e-5)
    parameters = drawn(model, graph)
    assert "memory" not in parameters
    attention = model.prepare(graph, "cpu").attention(one.alike, 0.1)
    hidden = one.hear(attention, one.features.linear(parameters["weight0"], 0.0, None)) + parameters["bias0"]
    hidden = one.hear(attention, hidden.relu() @ parameters["weight1"]) + parameters["bias1"]
    torch.testing.assert_close(model.logits(parameters, one, None), hidden)


def test_an_unlike_neighbour_is_not_heard():
    """Edges between opposite features change nothing, whoever adds them."""
    graph = random_graph(weighted=False)
    alike = graph.features @ graph.features.T
    opposite = np.argwhere(np.triu(alike < 0, 1) & (graph.adjacency.toarray() == 0)).T
    assert opposite.shape[1] > 5
    attacked = graph.with_edges(np.concatenate([graph.edges, opposite], axis=1))
    model = GNNGuard(backbone=GCN(hidden=5), memory=1.0)
    parameters = drawn(model, graph)
    one, other = (model.logits(parameters, model.prepare(given, "cpu"), None) for given in (graph, attacked))
    torch.testing.assert_close(one, other)


def test_it_learns_and_can_be_saved(tmp_path):
    graph = random_graph(n=40, signal=6)
    defense = GNNGuard(backbone=GPRGNN(hidden=8, hops=3), training=Training(epochs=40, lr=0.05))
    fitted = defense.fit(graph, seed=1)
    assert fitted.accuracy(graph.split.train) > 0.9
    fitted.save(tmp_path / "model.npz")
    loaded = Predictor.load(tmp_path / "model.npz", backbone=defense)
    assert torch.equal(loaded.logits(), fitted.logits())


def test_a_purifier_may_come_first():
    graph = random_graph()
    defense = GNNGuard(backbone=GCN(hidden=4), training=Training(epochs=3))
    cleaned = Jaccard(threshold=0.2).purify(graph).graph
    together = Purified(Jaccard(threshold=0.2), defense).fit(graph, seed=2)
    assert torch.equal(together.logits(), defense.fit(cleaned, seed=2).logits())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"backbone": MLP()},
            r"^The 'backbone' parameter of GNNGuard must be a GCN or a GPRGNN\. Got MLP.* instead\.$",
        ),
        ({"threshold": 2}, r"^The 'threshold' parameter of GNNGuard must be between 0 and 1\. Got 2 instead\.$"),
        ({"threshold": None}, r"^The 'threshold' parameter of GNNGuard must be .* Got None instead\.$"),
        ({"memory": -0.1}, r"^The 'memory' parameter of GNNGuard must be between 0 and 1\. Got -0\.1"),
        ({"similarity": "roles"}, r"^The 'similarity' parameter of GNNGuard must be one of .* Got 'roles' instead\.$"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ParameterError, match=message):
        GNNGuard(**parameters)


def test_cora_under_metattack(data_folder, monkeypatch):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    from garnet.datasets import poisoned

    graph = poisoned("cora", attack="metattack", budget=0.2)
    training = Training(epochs=60, lr=0.01)
    guarded = GNNGuard(backbone=GCN(hidden=16), training=training).fit(graph)
    plain = Purified(None, GCN(hidden=16), training).fit(graph)
    assert guarded.accuracy() > plain.accuracy() + 0.05
