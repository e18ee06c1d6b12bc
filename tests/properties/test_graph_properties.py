import contextlib
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from garnet import Graph, Split, as_graph, load_graph
from garnet.errors import GraphError

QUICK = settings(max_examples=60, deadline=None)
WEIGHTS = st.floats(2.0**-126, 2.0**100, width=32)
NAME = st.text(st.sampled_from("ab1 ,\t\"';#%|\\é\u4e2d\U0001f600_"), min_size=1, max_size=6).filter(
    lambda name: name == name.strip()
)


@st.composite
def pairs(draw):
    """Directed, repeated, looping pairs with weights, and the number of nodes."""
    n = draw(st.integers(0, 9))
    node = st.integers(0, max(n - 1, 0))
    rows = draw(st.lists(st.tuples(node, node, WEIGHTS), max_size=20 if n else 0))
    first, second, weights = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64), np.array(weights, dtype=np.float32), n


@st.composite
def graphs(draw, names=True):
    first, second, weights, n = draw(pairs())
    kinds = [st.none(), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n, unique=True)]
    if names:
        kinds.append(st.lists(NAME, min_size=n, max_size=n, unique=True).map(lambda texts: np.array(texts, dtype=str)))
    dense = draw(st.none() | nps.arrays(np.float32, (n, 3), elements=st.floats(-1e6, 1e6, width=32)))
    sparse = dense is not None and draw(st.booleans())
    parts = draw(st.none() | st.lists(st.integers(0, 3), min_size=n, max_size=n).map(np.array))
    return as_graph(
        sp.coo_array((weights, (first, second)), shape=(n, n)),
        features=sp.csr_array(dense) if sparse else dense,
        labels=draw(st.none() | st.lists(st.integers(-1, 4), min_size=n, max_size=n)),
        split=None if parts is None else Split(*(np.flatnonzero(parts == part) for part in range(3))),
        names=draw(st.one_of(kinds)),
        symmetrize=True,
    )


def saved_and_loaded(graph: Graph, ending: str) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"graph{ending}"
        graph.save(path)
        return load_graph(path)


@QUICK
@given(graphs())
def test_npz_loses_nothing(graph):
    assert saved_and_loaded(graph, ".npz") == graph


@QUICK
@given(graphs(), st.sampled_from([".csv", ".tsv", ".txt", ".edges.gz"]))
def test_edge_lists_lose_only_what_they_cannot_hold(graph, ending):
    names = np.arange(graph.num_nodes) if graph.names is None else graph.names
    kept = np.flatnonzero(graph.degrees)
    # Texts that all spell integers come back as integers, as documented.
    assume(names.dtype.kind != "U" or not all(name.isdigit() for name in names[kept]))
    order = kept[np.argsort(names[kept])]
    expected = as_graph(graph.adjacency[order][:, order], names=names[order])
    assert saved_and_loaded(graph, ending) == expected


@QUICK
@given(graphs(), st.sampled_from([".mtx", ".mtx.gz"]))
def test_matrix_market_keeps_edges_and_weights(graph, ending):
    assert saved_and_loaded(graph, ending) == as_graph(graph.adjacency)


@QUICK
@given(graphs())
def test_as_graph_of_a_graph_and_of_its_other_forms_changes_nothing(graph):
    assert as_graph(graph) == graph
    assert (
        as_graph(graph.to_scipy(), features=graph.features, labels=graph.labels, split=graph.split, names=graph.names)
        == graph
    )
    assert graph.with_edges(graph.edges, graph.weights) == graph
    through_networkx = as_graph(graph.to_networkx(), features=graph.features, split=graph.split)
    assert as_graph(through_networkx, labels=graph.labels) == graph


@QUICK
@given(graphs())
def test_the_promises_of_a_graph_hold(graph):
    matrix = graph.adjacency
    assert (matrix != matrix.T).nnz == 0
    assert not matrix.diagonal().any()
    assert (matrix.data > 0).all()
    assert np.isfinite(matrix.data).all()
    assert matrix.has_sorted_indices
    assert matrix.dtype == np.float32
    assert graph.edges.shape == (2, graph.num_edges)
    assert (graph.edges[0] < graph.edges[1]).all()


@QUICK
@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_edges_does_not_matter(listed, random):
    first, second, weights, n = listed
    order = list(range(len(first)))
    random.shuffle(order)
    one = as_graph(sp.coo_array((weights, (first, second)), shape=(n, n)), symmetrize=True)
    other = as_graph(sp.coo_array((weights[order], (first[order], second[order])), shape=(n, n)), symmetrize=True)
    assert one == other


@QUICK
@given(pairs())
def test_symmetrizing_keeps_every_edge_with_its_largest_weight(listed):
    first, second, weights, n = listed
    graph = as_graph(sp.coo_array((weights, (first, second)), shape=(n, n)), symmetrize=True)
    largest = {}
    for u, v, weight in zip(first.tolist(), second.tolist(), weights.tolist(), strict=True):
        if u != v:
            edge = (min(u, v), max(u, v))
            largest[edge] = max(weight, largest.get(edge, 0.0))
    found = dict(zip(map(tuple, graph.edges.T.tolist()), graph.weights.tolist(), strict=True))
    assert found == largest
    reverse = as_graph(sp.coo_array((weights, (second, first)), shape=(n, n)), symmetrize=True)
    assert reverse == graph


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([".npz", ".csv", ".csv.gz", ".txt", ".mtx"]),
    st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=3)), min_size=1, max_size=4),
    st.integers(0, 10**6),
)
def test_damage_anywhere_gives_a_graph_or_a_graph_error(ending, patches, length):
    graph = as_graph(([[0, 1, 1, 2], [1, 0, 2, 1]], 4), labels=[0, 1, 0, 1], names=["a", "b", "c", "d"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"graph{ending}"
        graph.save(path)
        content = bytearray(path.read_bytes())
        for place, patch in patches:
            place %= len(content)
            content[place : place + len(patch)] = patch
        path.write_bytes(content[: length % (3 * len(content))])
        # Any other exception, or a warning, fails the test.
        with contextlib.suppress(GraphError):
            assert as_graph(load_graph(path).adjacency).num_edges >= 0
