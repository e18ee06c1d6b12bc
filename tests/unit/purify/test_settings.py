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


DENSE, SPARSE = Shape(nodes=1000, edges=20_000), Shape(nodes=1000, edges=2_000)


@pytest.mark.parametrize(
    ("method", "shape", "expected"),
    [
        (GARNET(), DENSE, (10, "planted", "trust")),
        (GARNET(), SPARSE, (10, "planted", "trust")),
        (GARNET(only_drop=True), SPARSE, (0, "planted", "given")),
        (GARNET(k=5, weight="one"), DENSE, (5, "planted", "one")),
        (GARNET(support=0.3), DENSE, (0, 0.3, "given")),
        (GARNET(support=0.3), SPARSE, (11, 0.3, "similarity")),
        (GARNET(support=None), SPARSE, (11, None, "similarity")),
        (GARNET(k=5, support=0.4, weight="one"), DENSE, (5, 0.4, "one")),
    ],
)
def test_what_is_doubted_how_many_neighbours_and_what_they_weigh(method, shape, expected):
    settings = method.on(shape)
    assert (settings.k, settings.support, settings.weight) == expected


def test_a_graph_of_few_nodes_has_fewer_neighbours_to_share_among():
    assert GARNET().on(STAR).k == 9


@pytest.mark.parametrize(
    ("method", "feature_weight", "k", "refill"),
    [
        (GARNET(), None, 0, 0.0),
        (GARNET(), 1.5, 10, 2.0),
        (GARNET(), 0.75, 10, 0.5),
        (GARNET(), 0.15, 0, 0.0),
        (GARNET(k=5), None, 5, 2.0),
        (GARNET(refill=0.3), None, 10, 0.3),
    ],
)
def test_features_tell_how_much_is_given_back_unless_it_is_said(method, feature_weight, k, refill):
    told = method.on(SPARSE).told(feature_weight)
    assert (told.k, told.refill) == (k, pytest.approx(refill))


@pytest.mark.parametrize(
    "method", [GARNET(), GARNET(support=None, sigma2=2.0, gamma=-math.inf, gamma_unit="absolute")], ids=["inf", "-inf"]
)
def test_settings_come_back_from_json(method):
    settings = method.on(LABELLED)
    assert Settings.of_plain(json.loads(json.dumps(settings.plain(), allow_nan=False))) == settings


def test_every_parameter_of_the_method_is_a_setting():
    settled = {field.name for field in fields(Settings)}
    assert settled == {field.name for field in fields(GARNET)} | {"by_eigengap", "credit", "doubted", "power"}


@pytest.mark.parametrize("place", [InMemory(), OnDisk(memory="1GiB", parts=2)], ids=["memory", "disk"])
def test_a_result_says_the_settings_it_was_made_with(place):
    graph = as_graph(LABELLED, features=np.eye(4)[LABELLED.labels])
    result = GARNET(rank="auto").purify(graph, place=place)
    found, before = result.settings, GARNET(rank="auto").on(graph)
    assert found.feature_weight > 0  # which was not known before the spectrum was
    assert 0 <= found.doubted < 1
    assert 0 < found.power < 1
    assert found == replace(before.told(found.feature_weight), doubted=found.doubted, power=found.power)
    assert Settings.of_plain(result.summary()["settings"]) == result.settings


def test_settings_print_as_one_line():
    settings = GARNET(rank=9, k=4, support=0.3).on(LABELLED)
    assert str(settings) == "rank 9, k 4, doubted 0.3, features none, weight similarity"
    telling = replace(settings, features="low-rank", feature_weight=1.5, support=None)
    assert str(telling) == "rank 9, k 4, doubted none, features low-rank x 1.5, weight similarity"
    planted = replace(GARNET(rank=9, only_drop=True).on(LABELLED), doubted=0.0625)
    assert str(planted) == (
        "rank 9, k 0, doubted 0.0625 as planted edges tell, features none, weight given, nothing added"
    )
