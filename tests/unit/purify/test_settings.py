"""What GARNET's defaults become on a graph."""

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest

from garnet import GARNET, InMemory, OnDisk, Settings, as_graph
from garnet.datasets import block_model
from garnet.errors import GraphError, ParameterError
from garnet.purify.settings import Shape

LABELLED = block_model(400, classes=4, seed=0)
BARE = as_graph(LABELLED.adjacency)
STAR = as_graph((np.array([[0] * 9, range(1, 10)]), 10), symmetrize=True)


@pytest.mark.parametrize(
    ("rank", "graph", "expected"),
    [(None, BARE, 70), (None, STAR, 5), ("auto", LABELLED, 40), ("auto", BARE, 100), ("auto", STAR, 5), (7, BARE, 7)],
)
def test_the_rank(rank, graph, expected):
    assert GARNET(rank=rank, k=3).on(graph).rank == expected


@pytest.mark.parametrize("bad", [0, -3, 2.5, True, "many"])
def test_a_rank_that_is_none(bad):
    with pytest.raises(
        ParameterError, match="'rank' parameter of GARNET must be an integer >= 1 or one of 'auto', 'low'"
    ):
        GARNET(rank=bad)


def test_only_a_rank_without_labels_is_by_the_eigengap():
    assert GARNET(rank="auto").on(BARE).by_eigengap
    assert not GARNET(rank="auto").on(LABELLED).by_eigengap
    assert not GARNET().on(BARE).by_eigengap
    assert GARNET(rank="auto").purify(BARE).spectrum.rank < 100


def test_a_graph_may_forbid_what_no_parameter_alone_does():
    with pytest.raises(ParameterError, match="must be below 10, the node count"):
        GARNET(rank=10).on(STAR)
    with pytest.raises(ParameterError, match="must be below the number of nodes, 10"):
        GARNET(k=10).on(STAR)
    with pytest.raises(ParameterError, match="is 'raw', but the graph has no features"):
        GARNET(features="raw").on(BARE)
    with pytest.raises(GraphError, match="The graph has 4 nodes and no edges between them"):
        GARNET().on(as_graph(np.zeros((4, 4))))


def test_a_graph_of_which_only_the_size_is_known():
    graph = as_graph(LABELLED, features=np.ones((400, 3)))
    size = Shape(
        nodes=400, edges=graph.num_edges, features=3, classes=4, mean_degree=2 * graph.num_edges / graph.num_nodes
    )
    assert GARNET(rank="auto", tau="mean").on(size) == GARNET(rank="auto", tau="mean").on(graph)
    assert GARNET(tau="mean").on(size).tau == pytest.approx(size.mean_degree)


def test_a_dense_graph_is_given_no_neighbours_and_keeps_its_weights():
    dense = GARNET().on(Shape(nodes=1000, edges=20_000))
    sparse = GARNET().on(Shape(nodes=1000, edges=2_000))
    assert (dense.k, dense.support, dense.weight) == (0, 0.2, "given")
    assert (sparse.k, sparse.support, sparse.weight) == (11, 0.3, "similarity")
    asked = GARNET(k=5, support=0.4, weight="one").on(Shape(nodes=1000, edges=20_000))
    assert (asked.k, asked.support, asked.weight) == (5, 0.4, "one")


@pytest.mark.parametrize(
    "method", [GARNET(), GARNET(support=None, sigma2=2.0, gamma=-math.inf, gamma_unit="absolute")], ids=["inf", "-inf"]
)
def test_settings_come_back_from_json(method):
    settings = method.on(LABELLED)
    assert Settings.of_plain(json.loads(json.dumps(settings.plain(), allow_nan=False))) == settings


def test_every_parameter_of_the_method_is_a_setting():
    settled = {field.name for field in fields(Settings)}
    assert settled == {field.name for field in fields(GARNET)} | {"by_eigengap"}


@pytest.mark.parametrize("place", [InMemory(), OnDisk(memory="1GiB", parts=2)], ids=["memory", "disk"])
def test_a_result_says_the_settings_it_was_made_with(place):
    graph = as_graph(LABELLED, features=np.eye(4)[LABELLED.labels])
    result = GARNET(rank="auto").purify(graph, place=place)
    weight = result.settings.feature_weight
    assert weight > 0  # which was not known before the spectrum was
    assert result.settings == replace(GARNET(rank="auto").on(graph), feature_weight=weight)
    assert Settings.of_plain(result.summary()["settings"]) == result.settings


def test_settings_print_as_one_line():
    settings = GARNET(rank=9, k=4).on(LABELLED)
    assert str(settings) == "rank 9, k 4, doubted 0.3, features none, weight similarity"
    telling = replace(settings, features="low-rank", feature_weight=1.5, support=None)
    assert str(telling) == "rank 9, k 4, doubted none, features low-rank x 1.5, weight similarity"
