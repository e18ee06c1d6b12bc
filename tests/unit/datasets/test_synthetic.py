import time

import numpy as np
import pytest
import scipy.stats

from garnet import as_graph
from garnet.datasets import block_model, inter_class_edges
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
