import time

import numpy as np
import pytest
import scipy.stats

from garnet import as_graph
from garnet.datasets import block_model, class_features, contextual_block_model, inter_class_edges
from garnet.errors import GraphError, ParameterError


@pytest.mark.parametrize("homophily", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("mean_degree", [4.0, 20.0])
def test_block_model_has_the_degree_and_homophily_asked_for(homophily, mean_degree):
    graph = block_model(20_000, classes=4, mean_degree=mean_degree, homophily=homophily, seed=3)
    assert 0.93 * mean_degree < 2 * graph.num_edges / 20_000 <= mean_degree
    assert graph.homophily == pytest.approx(homophily, abs=0.02)
    assert np.bincount(graph.labels).tolist() == [5000] * 4
    assert set(graph.weights) == {1.0}


def test_block_model_degrees_follow_the_power_law():
    heavy, light = (block_model(50_000, exponent=exponent, seed=1).degrees for exponent in (2.2, 6.0))
    assert heavy.max() > 5 * light.max()
    tail = np.sort(heavy)[-1000:-20]
    # The Hill estimate of the exponent, from the nodes below the bound that keeps hubs from repeated edges.
    assert 1 + 1 / np.log(tail / tail[0]).mean() == pytest.approx(2.2, abs=0.4)


def test_block_model_repeats_itself_for_a_seed_and_only_then():
    assert block_model(500, seed=5) == block_model(500, seed=5)
    assert block_model(500, seed=5) != block_model(500, seed=6)


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (0, {"mean_degree": 0.0}),
        (1, {"mean_degree": 0.0}),
        (2, {"mean_degree": 1.0}),
        (3, {"classes": 9, "mean_degree": 2.0}),
        (50, {"classes": 1, "homophily": 0.0}),
        (50, {"mean_degree": 0.0}),
        (50, {"mean_degree": 49.0}),
    ],
)
def test_block_model_at_its_edges(n, options):
    graph = block_model(n, **options)
    assert graph.num_nodes == len(graph.labels) == n
    assert graph.num_edges <= n * options.get("mean_degree", 10.0) / 2


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"n": -1}, "The 'n' parameter of block_model must be an integer >= 0. Got -1 instead."),
        ({"n": 10.0}, "'n' parameter"),
        ({"classes": 0}, "The 'classes' parameter of block_model must be an integer >= 1. Got 0 instead."),
        ({"mean_degree": -1.0}, "'mean_degree' parameter"),
        ({"mean_degree": 100.0}, "'mean_degree' parameter"),
        ({"mean_degree": float("nan")}, "'mean_degree' parameter"),
        ({"homophily": 1.5}, "'homophily' parameter"),
        ({"exponent": 2.0}, "'exponent' parameter"),
    ],
)
def test_block_model_refuses(options, phrase):
    with pytest.raises(ParameterError, match=phrase):
        block_model(**{"n": 100} | options)


def test_block_model_of_a_fifth_of_a_million_nodes_takes_seconds():
    start = time.perf_counter()
    assert block_model(200_000).num_edges > 900_000
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize("count", [0, 1, 100, 3000])
def test_inter_class_edges_are_new_distinct_sorted_and_between_classes(count):
    graph = block_model(200, classes=3, seed=2)
    edges = inter_class_edges(graph, count, seed=4)
    assert edges.shape == (2, count)
    assert edges.dtype == np.int64
    keys = edges[0] * 200 + edges[1]
    assert (np.diff(keys) > 0).all()
    assert (edges[0] < edges[1]).all()
    assert (graph.labels[edges[0]] != graph.labels[edges[1]]).all()
    assert graph.with_edges(np.hstack([graph.edges, edges])).num_edges == graph.num_edges + count
    np.testing.assert_array_equal(edges, inter_class_edges(graph, count, seed=4))


def test_inter_class_edges_can_be_all_there_are():
    graph = as_graph(([[0, 2], [2, 0]], 5), labels=[0, 0, 1, 1, -1])
    np.testing.assert_array_equal(inter_class_edges(graph, 3, seed=0), [[0, 1, 1], [3, 2, 3]])
    with pytest.raises(GraphError, match=r"has 3 pairs .* fewer than 4"):
        inter_class_edges(graph, 4, seed=0)


@pytest.mark.parametrize("known", [10, 400])
def test_inter_class_edges_are_drawn_alike(known):
    labels = np.full(400, -1)
    labels[:known] = np.arange(known) % 5 // 2
    graph = as_graph((np.zeros((2, 0), dtype=int), 400), labels=labels)
    counts = np.zeros(400)
    for seed in range(300):
        counts += np.bincount(inter_class_edges(graph, 10, seed=seed).ravel(), minlength=400)
    partners = np.array([np.count_nonzero((labels >= 0) & (labels != label)) if label >= 0 else 0 for label in labels])
    expected = counts.sum() * partners / partners.sum()
    drawn = partners > 0
    assert not counts[~drawn].any()
    assert scipy.stats.chisquare(counts[drawn], expected[drawn]).pvalue > 1e-3


def test_inter_class_edges_need_labels():
    with pytest.raises(GraphError, match="no labels"):
        inter_class_edges(as_graph(np.zeros((2, 2))), 1, seed=0)
    with pytest.raises(ParameterError, match="'count' parameter"):
        inter_class_edges(as_graph(np.zeros((2, 2)), labels=[0, 1]), -1, seed=0)


def nearest_mean_accuracy(features, labels):
    """Accuracy on one half of the nodes of the rule that takes the nearest mean of the other half."""
    means = np.stack([features[::2][labels[::2] == label].mean(axis=0) for label in range(labels.max() + 1)])
    distances = (means**2).sum(axis=1) - 2 * features[1::2] @ means.T
    return (distances.argmin(axis=1) == labels[1::2]).mean()


@pytest.mark.parametrize("signal", [0.0, 0.5, 1.0, 3.0])
def test_class_features_tell_two_classes_apart_as_often_as_the_closed_form_says(signal):
    labels = np.arange(40_000) % 4 // 2
    features = class_features(labels, dim=32, signal=signal, seed=5)
    assert features.shape == (40_000, 32)
    assert features.dtype == np.float32
    far, near = (features[labels == label].astype(float).mean(axis=0) for label in (0, 1))
    assert np.linalg.norm(far) == pytest.approx(signal, abs=0.07)
    expected = scipy.stats.norm.cdf(np.linalg.norm(far - near) / 2)
    assert nearest_mean_accuracy(features, labels) == pytest.approx(expected, abs=0.03)
    noise = features - np.where(labels[:, None] == 0, far, near)
    assert noise.std() == pytest.approx(1.0, abs=0.01)


def test_class_features_of_unknown_labels_are_noise_and_move_no_others():
    labels = np.where(np.arange(3000) % 2, 0, -1)
    features = class_features(labels, dim=4, signal=50.0)
    assert np.linalg.norm(features[labels == -1].mean(axis=0)) < 0.2
    assert np.linalg.norm(features[labels == 0].mean(axis=0)) == pytest.approx(50.0, abs=0.2)
    np.testing.assert_array_equal(features, class_features(np.minimum(labels * 7, labels), dim=4, signal=50.0))


def test_class_features_repeat_themselves_for_a_seed_and_only_then():
    one, same, other = (class_features([0, 1, 2], dim=5, signal=1.0, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).all()


@pytest.mark.parametrize("labels", [[], [-1, -1]])
def test_class_features_without_classes(labels):
    assert class_features(labels, dim=3, signal=1.0).shape == (len(labels), 3)


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ({"dim": 0}, "The 'dim' parameter of class_features must be an integer >= 1. Got 0 instead."),
        ({"signal": -1.0}, "'signal' parameter of class_features"),
        ({"signal": float("nan")}, "'signal' parameter of class_features"),
        ({"signal": float("inf")}, "'signal' parameter of class_features"),
        ({"seed": -1}, "'seed' parameter of class_features"),
    ],
)
def test_class_features_refuse(options, phrase):
    with pytest.raises(ParameterError, match=phrase):
        class_features([0, 1], **{"dim": 4, "signal": 1.0} | options)


@pytest.mark.parametrize("labels", [None, [[0, 1]], [0.5]])
def test_class_features_need_labels(labels):
    with pytest.raises(GraphError, match="Labels must be one integer a node"):
        class_features(labels, dim=4, signal=1.0)


def test_contextual_block_model_adds_features_to_the_block_model():
    plain = block_model(400, classes=3, homophily=0.6, seed=9)
    graph = contextual_block_model(400, classes=3, homophily=0.6, features=12, signal=2.0, seed=9)
    assert as_graph(plain, features=graph.features) == graph
    np.testing.assert_array_equal(graph.features, class_features(plain.labels, dim=12, signal=2.0, seed=9))
    assert contextual_block_model(0, mean_degree=0.0).features.shape == (0, 64)


def test_contextual_block_model_is_classified_the_better_the_larger_the_signal():
    accuracies = []
    for signal in (0.0, 1.0, 2.0, 4.0):
        graph = contextual_block_model(5000, signal=signal, seed=1)
        accuracies.append(nearest_mean_accuracy(graph.features, graph.labels))
    assert accuracies[0] == pytest.approx(0.2, abs=0.04)
    assert (np.diff(accuracies) > 0.1).all()
    assert accuracies[-1] > 0.95
