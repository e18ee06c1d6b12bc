import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from garnet.errors import ParameterError
from garnet.report.neighbourhood import ADDED, DROPPED, KEPT, MOST_CHANGED, Ties, make_view, make_views, most_changed
from garnet.report.placing import place


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


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 40))
def test_a_view_is_what_lies_within_two_edges_before_or_after(seed, n):
    ties = random_ties(seed, n)
    node = seed % n
    view = make_view(ties, node)
    expected = np.minimum(distances(ties, node, ADDED), distances(ties, node, DROPPED))
    shown = {row[0]: row[4] for row in view["nodes"]}
    assert shown == {other: expected[other] for other in range(n) if expected[other] <= 2}
    assert view["left_out"] == 0
    known = {tuple(edge): number for number, edge in enumerate(ties.edges.T)}
    wanted = {
        number
        for (u, v), number in known.items()
        if max(expected[u], expected[v]) <= 2 and min(expected[u], expected[v]) <= 1
    }
    found = set()
    for first, second, kind, marked, score in view["edges"]:
        u, v = view["nodes"][first][0], view["nodes"][second][0]
        number = known[min(u, v), max(u, v)]
        assert (kind, marked) == (ties.kinds[number], ties.marked[number])
        assert score == pytest.approx(ties.scores[number], rel=1e-3)
        found.add(number)
    assert found == wanted
    assert len(view["edges"]) == len(wanted)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), most=st.integers(1, 15))
def test_a_view_that_is_too_large_keeps_the_nearest(seed, most):
    ties = random_ties(seed, 40)
    whole, part = make_view(ties, 0), make_view(ties, 0, most=most)
    assert len(part["nodes"]) == min(most, len(whole["nodes"]))
    assert len(part["nodes"]) + part["left_out"] == len(whole["nodes"])
    kept = {row[0] for row in part["nodes"]}
    left = [row[4] for row in whole["nodes"] if row[0] not in kept]
    assert not left or max(row[4] for row in part["nodes"]) <= min(left)
    assert part["nodes"][0][0] == 0
    for kind in (KEPT, DROPPED, ADDED):
        ends = {
            (set(edge) - {0}).pop(): (not marked, -score)
            for edge, of, marked, score in zip(ties.edges.T.tolist(), ties.kinds, ties.marked, ties.scores, strict=True)
            if of == kind and 0 in edge
        }
        shown = sorted(ends[one] for one in ends.keys() & kept)
        assert shown == sorted(ends.values())[: len(shown)]
        neighbours = int((ties.edges == 0).sum())
        if most - 1 < neighbours:
            # Each kind has its share of the picture, to within one node.
            assert abs(len(shown) - (most - 1) * len(ends) / neighbours) <= 1.5


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 50))
def test_most_changed_nodes_lost_the_most(seed, n):
    ties = random_ties(seed, n)
    assume((ties.kinds != KEPT).any())
    counts = [
        tuple(int((ties.edges[:, ties.kinds == kind] == node).sum()) for kind in (DROPPED, ADDED)) for node in range(n)
    ]
    expected = sorted(
        (node for node in range(n) if any(counts[node])), key=lambda node: (-counts[node][0], -counts[node][1], node)
    )
    assert most_changed(ties, 7) == expected[:7]


def test_where_nothing_changed_the_most_doubted_nodes_count():
    ties = random_ties(3, 30, kinds=(KEPT,))
    counts = np.bincount(ties.edges[:, ties.marked].ravel(), minlength=30)
    assert counts[most_changed(ties, 3)].tolist() == np.sort(counts)[::-1][:3].tolist()


def test_nodes_asked_for_come_first_and_once():
    ties = random_ties(5, 60)
    views = make_views(ties, [7, 3, 7])
    assert [view["id"] for view in views[:2]] == [7, 3]
    assert len({view["id"] for view in views}) == len(views) <= MOST_CHANGED + 2
    json.dumps(views, allow_nan=False)


@pytest.mark.parametrize("node", [-1, 60, 1.5, "3", True])
def test_a_node_that_is_not_there_is_refused(node):
    with pytest.raises(ParameterError, match=r"0 to 59\. Got"):
        make_views(random_ties(5, 60), [node])


def test_a_score_that_is_infinite_is_not_known():
    ties = Ties(
        edges=np.array([[0], [1]]),
        kinds=np.zeros(1, np.int8),
        marked=np.zeros(1, bool),
        scores=np.array([np.inf]),
        num_nodes=2,
    )
    assert make_view(ties, 1)["edges"][0][4] is None


def test_a_node_alone_has_a_view():
    ties = random_ties(0, 5, share=0.0)
    assert make_view(ties, 2)["nodes"] == [[2, "2", 0, 0, 0, ties.labels[2]]]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 100))
def test_nodes_are_placed_apart_inside_the_square(seed, n):
    rng = np.random.default_rng(seed)
    rings = np.concatenate([[0], np.sort(rng.integers(1, 3, n - 1))])
    inner = max(int((rings <= 1).sum()), 1)
    edges = np.stack([rng.integers(0, inner, n - 1), np.arange(1, n)])
    groups = rng.integers(-1, 4, n)
    points = place(rings, edges, groups)
    assert np.array_equal(points, place(rings, edges, groups))
    assert np.isfinite(points).all()
    assert np.abs(points).max() <= 1
    assert np.array_equal(points[0], [0, 0])
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2)
    # Circles of the second ring have a radius of 17 thousandths of the picture.
    assert gaps[~np.eye(n, dtype=bool)].min() > 0.017
