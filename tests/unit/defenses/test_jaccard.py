"""Jaccard: which edges go, against the definition."""

import numpy as np
import pytest
import scipy.sparse as sp

from garnet import as_graph
from garnet.defenses.jaccard import Jaccard, cosine_similarity, jaccard_similarity
from garnet.errors import GraphError, ParameterError
from garnet.registry import PURIFIERS


def random_graph(features, seed=0):
    rng = np.random.default_rng(seed)
    n = features.shape[0]
    matrix = np.triu(rng.random((n, n)) < 0.4, 1) * rng.uniform(0.5, 3, (n, n))
    return as_graph(matrix + matrix.T, features=features)


def binary_features(n=30, d=12, seed=1):
    return (np.random.default_rng(seed).random((n, d)) < 0.15).astype(float)


def continuous_features(n=30, d=12, seed=1):
    return np.random.default_rng(seed).standard_normal((n, d))


def jaccard_of_sets(first, second):
    one, other = set(np.flatnonzero(first)), set(np.flatnonzero(second))
    return len(one & other) / len(one | other) if one | other else 0.0


def cosine_of(first, second):
    lengths = np.linalg.norm(first) * np.linalg.norm(second)
    return first @ second / lengths if lengths else 0.0


def pairs(matrix):
    return {tuple(edge) for edge in np.asarray(matrix).T.tolist()}


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("features", "definition", "threshold"),
    [(binary_features(), jaccard_of_sets, 0.2), (continuous_features(), cosine_of, -0.1)],
    ids=["jaccard of binary", "cosine of others"],
)
def test_edges_below_the_threshold_go_and_weights_stay(store, features, definition, threshold):
    graph = random_graph(store(features))
    weights = {tuple(edge): weight for edge, weight in zip(graph.edges.T.tolist(), graph.weights, strict=True)}
    wanted = {(u, v) for u, v in weights if definition(features[u], features[v]) >= threshold}
    found = Jaccard(threshold=threshold).purify(graph)
    assert 0 < len(wanted) < len(weights)
    assert pairs(found.graph.edges) == pairs(found.ledger.kept) == wanted
    assert pairs(found.ledger.dropped) == set(weights) - wanted
    kept = zip(found.graph.edges.T.tolist(), found.graph.weights, strict=True)
    assert all(weights[tuple(edge)] == weight for edge, weight in kept)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_kind_can_be_asked_for(store):
    binary, continuous = binary_features(), continuous_features() * (binary_features(seed=2) > 0)
    for features in (binary, continuous):
        graph = random_graph(store(features))
        for found, definition in (
            (jaccard_similarity(graph, graph.edges), jaccard_of_sets),
            (cosine_similarity(graph, graph.edges), cosine_of),
        ):
            np.testing.assert_allclose(
                found, [definition(features[u], features[v]) for u, v in graph.edges.T], atol=1e-6
            )
    graph = random_graph(binary)
    kinds = [Jaccard(threshold=0.3, similarity=kind).purify(graph).graph for kind in ("auto", "jaccard", "cosine")]
    assert kinds[0] == kinds[1]
    assert kinds[2].num_edges > kinds[1].num_edges  # of two sets the cosine is never the smaller


def test_an_edge_at_the_threshold_stays():
    graph = as_graph(np.array([[0, 1], [1, 0]]), features=np.array([[1.0, 1, 0], [1, 0, 1]]))
    assert Jaccard(threshold=1 / 3).purify(graph).graph.num_edges == 1
    assert Jaccard(threshold=0.34).purify(graph).graph.num_edges == 0


def test_scale_does_not_change_the_cosine():
    features = continuous_features()
    factors = 10.0 ** np.random.default_rng(3).uniform(-25, 25, (30, 1))
    for store in (np.asarray, sp.csr_array):
        plain, scaled = random_graph(store(features)), random_graph(store(features * factors))
        one, other = (cosine_similarity(graph, graph.edges) for graph in (plain, scaled))
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_nothing_in_common_loses_every_edge():
    graph = random_graph(np.eye(30))
    found = Jaccard().purify(graph)
    assert found.graph.num_edges == 0
    assert found.ledger.dropped.shape == graph.edges.shape
    assert found.graph.num_nodes == 30
    alone = as_graph(sp.csr_array((4, 4)), features=np.ones((4, 2)))
    assert Jaccard().purify(alone).graph.num_edges == 0


def test_chunks_make_no_difference(monkeypatch):
    graph = random_graph(sp.csr_array(binary_features()))
    whole = jaccard_similarity(graph, graph.edges)
    monkeypatch.setattr("garnet.defenses.jaccard._CHUNK", 7)
    np.testing.assert_array_equal(jaccard_similarity(graph, graph.edges), whole)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": "high"}, r"^The 'threshold' parameter of Jaccard must be a number\. Got 'high' instead\.$"),
        ({"threshold": float("nan")}, r"^The 'threshold' parameter of Jaccard must be a number\. Got nan instead\.$"),
        ({"similarity": "dot"}, r"^The 'similarity' parameter of Jaccard must be one of .* Got 'dot' instead\.$"),
    ],
)
def test_wrong_parameters_are_named(parameters, message):
    with pytest.raises(ParameterError, match=message):
        PURIFIERS.build("jaccard", parameters).purify(random_graph(binary_features()))


def test_features_are_needed():
    with pytest.raises(GraphError, match=r"^The graph has no features, and Jaccard compares nothing else"):
        Jaccard().purify(as_graph(np.array([[0, 1], [1, 0]])))


def test_an_attack_on_cora_loses_its_edges(data_folder, monkeypatch):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    from garnet.datasets import load, poisoned

    clean, attacked = load("cora"), poisoned("cora", attack="metattack", budget=0.2)
    dropped = pairs(Jaccard().purify(attacked).ledger.dropped)
    added = pairs(attacked.edges) - pairs(clean.edges)
    kept_before = pairs(attacked.edges) & pairs(clean.edges)
    assert len(dropped & added) / len(added) > 3 * len(dropped & kept_before) / len(kept_before)
