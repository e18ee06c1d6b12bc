from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import GARNET, as_graph
from garnet.backbones import GCN, GPRGNN, H2GCN, MLP
from garnet.datasets import contextual_block_model, inter_class_edges, load, random_split
from garnet.defenses import TSVD, FeatureKNN, LinearFloor, Purified, Purifier
from garnet.errors import GraphError, ParameterError
from garnet.training.loop import Training

QUICK = Training(epochs=20, lr=0.02)


@pytest.fixture(scope="module")
def graph():
    graph = contextual_block_model(200, classes=3, features=16, signal=2.5, mean_degree=6.0, seed=3)
    return as_graph(graph, split=random_split(graph.labels, seed=0))


def cosines(features):
    rows = features / np.linalg.norm(features, axis=1, keepdims=True)
    return rows @ rows.T


# --- a purifier and a model -------------------------------------------------------------------------------------------


def test_purified_trains_on_the_purified_graph(graph):
    purifier = GARNET(rank=10, k=5)
    (one, other) = Purified(purifier, GCN(hidden=8), QUICK).fit_seeds(graph, [0, 1])
    assert one.graph == other.graph == purifier.purify(graph).graph
    assert [stage.name for stage in one.stages] == ["embed", "neighbours", "prune", "train"]
    assert torch.equal(one.on(one.graph).logits(), one.logits())
    plain = Purified(None, GCN(hidden=8), QUICK).fit(graph)
    assert plain.graph is graph
    assert not torch.equal(plain.logits(), one.logits())


def test_purification_helps_under_attack():
    graph = load("cora", split="random")
    planted = inter_class_edges(graph, graph.num_edges // 4, seed=0)
    poisoned = graph.with_edges(np.concatenate([graph.edges, planted], axis=1))
    plain, cleaned = (
        np.mean([one.accuracy() for one in Purified(purifier, GCN(), QUICK).fit_seeds(poisoned, [0, 1, 2])])
        for purifier in (None, GARNET())
    )
    assert cleaned > plain + 0.02


def test_progress_is_told(graph):
    steps = []
    Purified(FeatureKNN(k=3), MLP(), Training(epochs=1, lr=0.01)).fit_seeds(graph, [0], progress=steps.append)
    assert [(step.stage, step.total) for step in steps] == [("neighbours", 0), ("train", 1)]


def test_the_graph_is_looked_at_before_it_is_purified(graph):
    @dataclass(frozen=True)
    class Costly(Purifier):
        def _purify(self, graph, *, progress):
            raise AssertionError("hours of work for nothing")

    with pytest.raises(GraphError, match="no labels"):
        Purified(Costly(), GCN()).fit(replace(graph, labels=None))
    with pytest.raises(GraphError, match="no training nodes"):
        Purified(Costly(), GCN()).fit(replace(graph, split=None))


# --- TSVD -------------------------------------------------------------------------------------------------------------


def test_tsvd_is_gcn_on_the_dense_truncated_svd(graph):
    one = TSVD(rank=7, backbone=GCN(hidden=8), training=QUICK).fit(graph)
    left, values, right = np.linalg.svd(graph.adjacency.toarray().astype(np.float64))
    matrix = (left[:, :7] * values[:7]) @ right[:7] + np.eye(graph.num_nodes)
    degrees = matrix.sum(axis=1)
    root = np.where(degrees > 1e-6, 1 / np.sqrt(np.maximum(degrees, 1e-6)), 0)
    matrix = root[:, None] * matrix * root
    weights = {name: value.numpy().astype(np.float64) for name, value in one.parameters.items()}
    hidden = np.maximum(matrix @ graph.features @ weights["weight0"] + weights["bias0"], 0)
    expected = matrix @ hidden @ weights["weight1"] + weights["bias1"]
    np.testing.assert_allclose(one.logits(), expected, atol=1e-3)
    assert one.accuracy() > 0.5


@pytest.mark.parametrize("backbone", [GPRGNN(), H2GCN()])
def test_tsvd_takes_other_backbones(graph, backbone):
    one = TSVD(backbone=backbone, training=QUICK).fit(graph)
    assert one.accuracy() > 0.5
    with pytest.raises(GraphError, match="no model that could be saved"):
        one.on(graph)


def test_tsvd_reads_the_low_rank_matrix_of_another_graph(graph):
    whole = TSVD(rank=7, backbone=GCN(hidden=8), training=QUICK)
    one = whole.fit(graph)
    other = graph.with_edges(graph.edges[:, 20:])
    values, vectors = np.linalg.eigh(other.adjacency.toarray().astype(np.float64))
    top = np.argsort(-np.abs(values))[:7]
    matrix = torch.from_numpy((vectors[:, top] * values[top]) @ vectors[:, top].T).float()
    inputs = whole.backbone.prepare(other, "cpu").with_matrix(matrix)
    expected = whole.backbone.logits({name: value[None] for name, value in one.parameters.items()}, inputs, None)[0]
    found = whole.predict(one, other)
    torch.testing.assert_close(found.logits(), expected, rtol=1e-3, atol=1e-3)
    assert found.backbone is None
    assert found.graph == other
    with pytest.raises(GraphError, match="features"):
        whole.predict(one, replace(other, features=other.features[:, 1:]))
    with pytest.raises(GraphError, match="dense matrix"):
        replace(whole, most_bytes=100).predict(one, other)


def test_what_tsvd_refuses(graph):
    with pytest.raises(GraphError, match="dense matrix of 200 x 200 numbers"):
        TSVD(most_bytes=4 * 200**2 - 1).fit(graph)
    with pytest.raises(ParameterError, match=r"must be an integer >= 1. Got 0 instead"):
        TSVD(rank=0)
    with pytest.raises(ParameterError, match=r"must be below 200, the node count. Got 200 instead"):
        TSVD(rank=200).fit(graph)
    with pytest.raises(ParameterError, match=r"GCN, GPRGNN or H2GCN as backbone. Got MLP"):
        TSVD(backbone=MLP()).fit(graph)
    with pytest.raises(ParameterError, match="leave 'batch_size' out"):
        TSVD(training=Training(batch_size=8))


# --- features alone ---------------------------------------------------------------------------------------------------


def test_feature_knn_joins_the_nearest_features(graph):
    found = FeatureKNN(k=4).purify(graph).graph
    similar = cosines(graph.features.astype(np.float64))
    order = np.argsort(np.where(np.eye(200), -np.inf, similar), axis=1)[:, ::-1][:, :4]
    near = np.zeros((200, 200), dtype=bool)
    near[np.arange(200)[:, None], order] = True
    expected = np.where((near | near.T) & (similar > 0), similar, 0)
    np.testing.assert_allclose(found.adjacency.toarray(), expected, atol=1e-5)
    assert found.features is graph.features


def test_feature_knn_does_not_see_the_edges(graph):
    without = graph.with_edges(graph.edges[:, :0])
    assert FeatureKNN(feature_rank=8).purify(graph).graph == FeatureKNN(feature_rank=8).purify(without).graph


def test_what_feature_knn_refuses(graph):
    with pytest.raises(GraphError, match="FeatureKNN joins by nothing else"):
        FeatureKNN().purify(replace(graph, features=None))
    with pytest.raises(ParameterError, match=r"The 'k' parameter of FeatureKNN must be an integer >= 1. Got 0"):
        FeatureKNN(k=0).purify(graph)


# --- the linear floor -------------------------------------------------------------------------------------------------


def test_the_floor_is_the_best_of_its_direct_solutions(graph):
    one = LinearFloor(k=4).fit(graph)
    present = graph.features != 0  # every entry, so that all edges are believed
    assert present.all()
    near = FeatureKNN(k=4).purify(graph).graph.adjacency.toarray() > 0
    matrix = graph.adjacency.toarray() + 0.5 * near + np.eye(200)
    root = 1 / np.sqrt(matrix.sum(axis=1))
    matrix = root[:, None] * matrix * root
    train, val, labels = graph.split.train, graph.split.val, graph.labels
    hidden, best, best_accuracy = graph.features.astype(np.float64), None, -1
    for _ in range(5):
        rows = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
        gram = rows[train] @ rows[train].T
        for ridge in (1e-3, 1e-2, 1e-1, 1, 10):
            lifted = gram + ridge * np.trace(gram) / len(train) * np.eye(len(train))
            scores = rows @ rows[train].T @ np.linalg.solve(lifted, np.eye(3)[labels[train]])
            accuracy = (scores[val].argmax(axis=1) == labels[val]).mean()
            if accuracy > best_accuracy:
                best, best_accuracy = scores, accuracy
        hidden = matrix @ hidden
    np.testing.assert_allclose(one.logits(), best, atol=1e-4)
    assert one.val_accuracy == best_accuracy == one.accuracy(val)
    assert one.accuracy() > 0.7


def test_the_floor_reads_another_graph_with_the_weights_it_has_learnt(graph):
    floor = LinearFloor(k=4, least_similarity=0.0)
    fitted = floor.fit(graph)
    other = graph.with_edges(graph.edges[:, 40:])
    near = FeatureKNN(k=4).purify(graph).graph.adjacency.toarray() > 0
    matrix = other.adjacency.toarray() + 0.5 * near + np.eye(200)
    root = 1 / np.sqrt(matrix.sum(axis=1))
    hops = int(fitted.parameters["hops"])
    assert hops > 0
    hidden = np.linalg.matrix_power(root[:, None] * matrix * root, hops) @ graph.features.astype(np.float64)
    expected = hidden / np.linalg.norm(hidden, axis=1, keepdims=True) @ fitted.parameters["linear"].numpy()
    np.testing.assert_allclose(floor.predict(fitted, other).logits(), expected, atol=1e-4)
    # So does an attacker who writes these edges off.
    followed = floor.relaxed(fitted, graph)
    edges, weights = followed.edges(graph)
    gone = torch.where(torch.arange(len(weights)) < 40, 0.0, weights)
    np.testing.assert_allclose(followed.logits(edges, gone), expected, atol=1e-4)


def test_the_floor_refuses_what_it_has_not_learnt(graph):
    fitted = LinearFloor().fit(graph)
    with pytest.raises(GraphError, match="The graph has 2 features, and the model was trained on"):
        LinearFloor().predict(fitted, replace(graph, features=graph.features[:, :2]))
    with pytest.raises(GraphError, match="not those of a LinearFloor"):
        LinearFloor().predict(Purified(None, GCN(hidden=4), Training(epochs=2)).fit(graph), graph)


def test_edges_of_unlike_features_are_dropped_by_the_floor():
    features = sp.csr_array(np.repeat(np.eye(2, 6), 20, axis=0).astype(np.float32))
    labels = np.repeat([0, 1], 20)
    across = np.stack([np.arange(20), np.arange(20, 40)])
    graph = as_graph((across, 40), features=features, labels=labels, split=random_split(labels), symmetrize=True)
    assert LinearFloor(k=3).fit(graph).accuracy() == 1


def test_nothing_in_the_floor_is_random(graph):
    first, second = LinearFloor().fit_seeds(graph, [0, 5])
    assert torch.equal(first.logits(), second.logits())
    assert (first.seed, second.seed) == (0, 5)
    assert torch.equal(first.logits(), LinearFloor().fit(graph, seed=9).logits())


def test_the_floor_without_validation_nodes(graph):
    bare = as_graph(graph, split=replace(graph.split, val=graph.split.val[:0]))
    one = LinearFloor().fit(bare)
    assert np.isnan(one.val_accuracy)
    assert one.accuracy() > 0.7
    with pytest.raises(GraphError, match="no features, and LinearFloor compares them"):
        LinearFloor().fit(replace(graph, features=None))
