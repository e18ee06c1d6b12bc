"""Bipartite graphs: how they are told, and that no edge is added within a side."""

import networkx as nx
import numpy as np
import pytest

from garnet import GARNET, OnDisk, as_graph, load_graph
from garnet.errors import BipartiteWarning, GraphError, ParameterError
from garnet.graph.sides import looks_bipartite, two_colouring
from garnet.purify.memory import InMemory
from garnet.registry import PURIFIERS


def shop(first=60, second=40, *, seed=0, **options):
    """Two groups of users who mostly buy the things of their group, with features that say which it is."""
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(first) % 2, np.arange(second) % 2])
    likely = np.where(groups[:first, None] == groups[None, first:], 0.25, 0.02)
    rows, columns = np.nonzero(rng.random((first, second)) < likely)
    edges = np.stack([np.append(rows, columns + first), np.append(columns + first, rows)])
    features = rng.normal(size=(first + second, 8)) + 3 * groups[:, None]
    return as_graph((edges, first + second), features=features, labels=groups, **options)


@pytest.mark.parametrize("seed", range(20))
def test_a_colouring_is_found_where_networkx_finds_one(seed):
    rng = np.random.default_rng(seed)
    graph = nx.gnm_random_graph(12, int(rng.integers(4, 14)), seed=seed)
    if seed % 2:
        graph = nx.bipartite.gnmk_random_graph(7, 5, int(rng.integers(0, 20)), seed=seed)
    found = two_colouring(as_graph(graph).adjacency)
    assert (found is not None) == nx.is_bipartite(graph)
    assert found is None or all(found[u] != found[v] for u, v in graph.edges)


def test_only_graphs_with_many_even_cycles_look_bipartite():
    assert looks_bipartite(shop().adjacency) is not None
    assert looks_bipartite(as_graph(nx.balanced_tree(3, 4)).adjacency) is None
    assert looks_bipartite(as_graph(nx.cycle_graph(40)).adjacency) is None
    assert looks_bipartite(as_graph(nx.karate_club_graph()).adjacency) is None


def test_in_a_large_graph_one_odd_cycle_is_enough_to_have_no_sides():
    graph = nx.grid_2d_graph(200, 200)
    assert looks_bipartite(as_graph(graph).adjacency) is not None
    graph.add_edge((7, 7), (8, 8))
    assert looks_bipartite(as_graph(graph).adjacency) is None


def test_the_sides_are_said_as_a_number_a_mask_or_true():
    plain = shop()
    mask = np.arange(100) >= 60
    marked = as_graph(plain, bipartite=60)
    assert marked == as_graph(plain, bipartite=mask) == as_graph(plain, bipartite=True)
    assert "bipartite: 60 and 40" in repr(marked)
    assert plain.sides is None
    assert as_graph(plain, bipartite=False) == plain
    assert marked.to_networkx().nodes[0]["bipartite"] == 0


@pytest.mark.parametrize(
    ("said", "phrase"),
    [(59, "same side"), (101, "0 to 100 nodes"), ([True] * 3, "100 booleans"), ("users", "100 booleans")],
)
def test_sides_that_are_none_are_refused(said, phrase):
    with pytest.raises(GraphError, match=phrase):
        as_graph(shop(), bipartite=said)


def test_true_is_refused_where_edges_do_not_tell_the_sides():
    with pytest.raises(GraphError, match="odd length"):
        as_graph(nx.complete_graph(3), bipartite=True)
    with pytest.raises(GraphError, match="2 pieces"):
        as_graph(nx.Graph([(0, 1), (2, 3)]), bipartite=True)


METHODS = [GARNET(k=8, support=share) for share in ("auto", 0.3, None)]
METHODS += [GARNET(k=8, caution=100), GARNET(), GARNET(only_drop=True)]


@pytest.mark.parametrize("method", METHODS, ids=range(len(METHODS)))
@pytest.mark.parametrize("seed", [0, 1])
def test_no_edge_is_added_within_a_side(method, seed):
    graph = shop(seed=seed, bipartite=60)
    result = method.purify(graph)
    sides = graph.sides
    assert (sides[result.graph.edges[0]] != sides[result.graph.edges[1]]).all()
    assert (result.graph.sides == sides).all()
    if method.support != "auto":
        assert result.ledger.counts["added"] > 0


def test_new_neighbours_across_the_sides_are_of_the_right_group():
    graph = shop(bipartite=60)
    first, second = GARNET(k=8, support=None, rank=2).purify(graph).ledger.added
    assert (graph.labels[first] == graph.labels[second]).mean() > 0.9


def test_edges_within_the_sides_of_a_graph_that_looks_bipartite_are_warned_of():
    with pytest.warns(BipartiteWarning, match="60 and 40 nodes.*bipartite="):
        GARNET(k=8, support=0.3).purify(shop())
    with pytest.warns(BipartiteWarning, match="bipartite="):
        PURIFIERS.build("feature-knn", {}).purify(shop())
    GARNET(k=8, support=0.3).purify(shop(bipartite=60))
    GARNET(only_drop=True).purify(shop())


def test_a_purifier_that_joins_nodes_of_one_side_refuses_a_bipartite_graph():
    with pytest.raises(GraphError, match="FeatureKNN would join nodes of one side"):
        PURIFIERS.build("feature-knn", {}).purify(shop(bipartite=60))
    kept = PURIFIERS.build("jaccard", {}).purify(shop(bipartite=60)).graph
    assert kept.sides is not None


def test_other_searches_and_places_refuse_a_bipartite_graph(tmp_path):
    graph = shop(bipartite=60)
    with pytest.raises(ParameterError, match="'neighbors'"):
        GARNET(k=3).purify(graph, place=InMemory(neighbors="cells"))
    place = OnDisk(memory="2GB", output=tmp_path / "out")
    with pytest.raises(GraphError, match="in memory only"):
        GARNET(k=3).purify(graph, place=place)
    graph.save(tmp_path / "graph.npz")
    assert load_graph(tmp_path / "graph.npz") == graph
    with pytest.raises(GraphError, match="in memory only"):
        GARNET(k=3).purify(tmp_path / "graph.npz", place=place)
