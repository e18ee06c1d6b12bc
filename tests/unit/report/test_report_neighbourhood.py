import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from garnet.errors import ParameterError
from garnet.report import neighbourhood
from garnet.report.neighbourhood import (
    ADDED,
    DROPPED,
    KEPT,
    Ties,
    around,
    few_around,
    require_nodes,
    whole_graph,
    worth_seeing,
)


def random_ties(seed, n, share=0.15, kinds=(KEPT, DROPPED, ADDED)):
    rng = np.random.default_rng(seed)
    edges = np.stack(np.nonzero(np.triu(rng.random((n, n)) < share, 1))).astype(np.int64)
    m = edges.shape[1]
    return Ties(
        edges=edges,
        kinds=rng.choice(kinds, m).astype(np.int8),
        marked=rng.random(m) < 0.3,
        scores=rng.normal(size=m),
        num_nodes=n,
        labels=rng.integers(-1, 3, n),
    )


def distances(ties, node, absent):
    """Edges from a node to all others, counted by brute force; two at most."""
    joined = np.zeros((ties.num_nodes, ties.num_nodes), dtype=bool)
    first, second = ties.edges[:, ties.kinds != absent]
    joined[first, second] = joined[second, first] = True
    found = np.full(ties.num_nodes, 3)
    found[joined[node] @ joined | joined[node]] = 2
    found[joined[node]] = 1
    found[node] = 0
    return found


def edges_of(part):
    """The edges of a part by the ids of their ends, with kind, mark and score."""
    pairs = zip(part["first"], part["second"], strict=True)
    ends = (sorted((part["ids"][first], part["ids"][second])) for first, second in pairs)
    told = zip(part["kinds"], part["marked"], part["scores"], strict=True)
    return {
        tuple(pair): (int(kind), int(marked), score) for pair, (kind, marked, score) in zip(ends, told, strict=True)
    }


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40))
def test_around_a_node_is_what_lies_within_two_edges_before_or_after(seed, n):
    ties = random_ties(seed, n)
    node = seed % n
    part = around(ties, node)
    expected = np.minimum(distances(ties, node, ADDED), distances(ties, node, DROPPED))
    assert part["ids"][0] == node
    assert set(part["ids"]) == {other for other in range(n) if expected[other] <= 2}
    assert np.all(np.diff(expected[part["ids"]]) >= 0)
    assert part["left_out"] == 0
    assert part["labels"] == ties.labels[part["ids"]].tolist()
    found = edges_of(part)
    wanted = {
        (u, v): number
        for number, (u, v) in enumerate(ties.edges.T.tolist())
        if max(expected[u], expected[v]) <= 2 and min(expected[u], expected[v]) <= 1
    }
    assert found.keys() == wanted.keys()
    assert len(part["first"]) == len(wanted)
    for pair, number in wanted.items():
        assert found[pair][:2] == (ties.kinds[number], ties.marked[number])
        assert found[pair][2] == pytest.approx(ties.scores[number], rel=1e-3)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), most=st.integers(1, 15))
def test_a_part_that_is_too_large_keeps_the_nearest(seed, most):
    ties = random_ties(seed, 40)
    whole, part = around(ties, 0), around(ties, 0, most=most)
    assert part["ids"] == whole["ids"][:most]
    assert len(part["ids"]) + part["left_out"] == len(whole["ids"])
    kept, neighbours = set(part["ids"]), int((ties.edges == 0).sum())
    shown, all_of = {}, {}
    for kind in (KEPT, DROPPED, ADDED):
        ends = {
            (set(edge) - {0}).pop(): (not marked, -score)
            for edge, of, marked, score in zip(ties.edges.T.tolist(), ties.kinds, ties.marked, ties.scores, strict=True)
            if of == kind and 0 in edge
        }
        best = sorted(ends[one] for one in ends.keys() & kept)
        assert best == sorted(ends.values())[: len(best)]
        shown[kind], all_of[kind] = len(best), len(ends)
    if most - 1 < neighbours:
        # The kinds take turns: one has less than another only where it has no more.
        assert all(shown[kind] >= max(shown.values()) - 1 or shown[kind] == all_of[kind] for kind in shown)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 60))
def test_the_few_edges_that_matter_are_the_worst_marked_and_the_most_trusted_others(seed, n):
    ties = random_ties(seed, n, share=0.6)
    node = seed % n
    part = few_around(ties, node)
    own = [number for number in range(ties.edges.shape[1]) if node in ties.edges[:, number]]
    marked = sorted((number for number in own if ties.marked[number]), key=lambda one: -ties.scores[one])
    trusted = sorted((number for number in own if not ties.marked[number]), key=lambda one: ties.scores[one])
    expected = {int(ties.edges[:, number].sum()) - node for number in (*marked[:12], *trusted[:6])}
    assert (part["ids"][0], set(part["ids"][1:])) == (node, expected)
    assert part["totals"] == [len(marked), len(trusted)]
    inside = {tuple(pair) for pair in ties.edges.T.tolist() if set(pair) <= set(part["ids"])}
    assert edges_of(part).keys() == inside


def test_the_only_dropped_edge_of_a_crowded_node_is_not_left_out():
    m = 300
    ties = Ties(
        edges=np.stack([np.zeros(m, dtype=np.int64), np.arange(1, m + 1)]),
        kinds=np.array([DROPPED] + [ADDED] * (m - 1), dtype=np.int8),
        marked=np.zeros(m, bool),
        scores=np.arange(m, dtype=float),
        num_nodes=m + 1,
    )
    assert 1 in around(ties, 0)["ids"]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 50))
def test_the_nodes_worth_seeing_have_the_most_of_what_counts(seed, n):
    ties = random_ties(seed, n)
    rng = np.random.default_rng(seed)
    orders = [
        ("nothing", np.zeros(len(ties.kinds))),
        ("lost", ties.kinds == DROPPED),
        ("doubt", rng.random(len(ties.kinds))),
    ]
    counts = [[each[(ties.edges == node).any(axis=0)].sum() for _, each in orders[1:]] for node in range(n)]
    nodes, why = worth_seeing(ties, orders, 7)
    lost = bool((ties.kinds == DROPPED).any())
    keys = [tuple(-one for one in counts[node][0 if lost else 1 :]) for node in range(n)]
    expected = sorted((node for node in range(n) if counts[node][1] > 0), key=lambda node: (keys[node], node))
    assert nodes == expected[:7]
    assert why == ("lost" if lost else "doubt")


def test_nodes_asked_for_come_once():
    assert require_nodes(60, [7, 3, np.int64(7)]) == [7, 3]


@pytest.mark.parametrize("node", [-1, 60, 1.5, "3", True])
def test_a_node_that_is_not_there_is_refused(node):
    with pytest.raises(ParameterError, match=r"0 to 59\. Got"):
        require_nodes(60, [node])


def test_a_score_that_is_infinite_is_not_known():
    ties = Ties(
        edges=np.array([[0], [1]]),
        kinds=np.zeros(1, np.int8),
        marked=np.zeros(1, bool),
        scores=np.array([np.inf]),
        num_nodes=2,
    )
    assert around(ties, 1)["scores"] == [None]
    json.dumps(whole_graph(ties), allow_nan=False)


def test_a_node_alone_is_all_there_is():
    ties = random_ties(0, 5, share=0.0)
    assert (around(ties, 2)["ids"], around(ties, 2)["first"]) == ([2], [])


def test_a_graph_is_whole_only_where_both_nodes_and_edges_are_few(monkeypatch):
    ties = random_ties(1, 30)
    whole = whole_graph(ties)
    assert [whole["ids"], list(edges_of(whole))] == [list(range(30)), [tuple(edge) for edge in ties.edges.T.tolist()]]
    monkeypatch.setattr(neighbourhood, "_WHOLE", ties.edges.shape[1] - 1)
    assert whole_graph(ties) is None
    monkeypatch.setattr(neighbourhood, "_WHOLE", 29)
    assert whole_graph(random_ties(1, 30, share=0.01)) is None
