import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import to_networkx

from garnet import Graph, Split, as_graph
from garnet.errors import GarnetError, GraphError, MissingExtra

PATH = np.array([[0, 2, 0, 0], [2, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], dtype=np.float64)
"""A path 0 - 1 - 2 with weights 2 and 1, and node 3 alone."""

BOTH_WAYS = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
WEIGHTS = np.array([2.0, 2.0, 1.0, 1.0], dtype=np.float32)


def pyg(**fields):
    fields = {
        "edge_index": torch.from_numpy(BOTH_WAYS),
        "edge_weight": torch.from_numpy(WEIGHTS),
        "num_nodes": 4,
    } | fields
    return Data(**fields)


def networkx_path():
    graph = nx.Graph()
    graph.add_nodes_from(range(4))
    graph.add_weighted_edges_from([(0, 1, 2.0), (1, 2, 1.0)])
    return graph


SOURCES = {
    "dense": lambda: PATH,
    "dense integers": lambda: PATH.astype(np.int8),
    "dense half precision": lambda: PATH.astype(np.float16),
    "dense foreign byte order": lambda: PATH.astype(">f8"),
    **{f"sparse array {kind}": lambda kind=kind: sp.csr_array(PATH).asformat(kind) for kind in
       ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")},
    **{f"sparse matrix {kind}": lambda kind=kind: sp.csr_matrix(PATH).asformat(kind) for kind in ("coo", "csc", "csr")},
    "pyg": pyg,
    "pyg subclass": lambda: type("Mine", (Data,), {})(**pyg().to_dict()),
    "networkx": networkx_path,
    "graph": lambda: as_graph(PATH),
}  # fmt: skip


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_every_kind_of_source_gives_the_same_graph(make):
    graph = as_graph(make())
    assert graph == as_graph(sp.csr_array(PATH))
    np.testing.assert_array_equal(graph.adjacency.toarray(), PATH)
    assert graph.adjacency.dtype == np.float32
    assert graph.names is None
    np.testing.assert_array_equal(graph.edges, [[0, 1], [1, 2]])
    np.testing.assert_array_equal(graph.weights, [2, 1])
    np.testing.assert_array_equal(graph.degrees, [2, 3, 1, 0])


@pytest.mark.parametrize(
    "edge_index", [BOTH_WAYS, BOTH_WAYS.tolist(), torch.from_numpy(BOTH_WAYS), BOTH_WAYS.astype(np.uint8)]
)
def test_pair_of_edge_index_and_size_has_unit_weights(edge_index):
    graph = as_graph((edge_index, np.int32(4)))
    np.testing.assert_array_equal(graph.adjacency.toarray(), PATH > 0)


def test_loops_and_zeros_are_dropped_and_the_largest_of_repeated_weights_counts():
    rows, cols = [0, 0, 1, 1, 2, 1, 2], [1, 1, 0, 0, 2, 2, 1]
    weights = [1.0, 5.0, 5.0, 2.0, 9.0, 0.0, 0.0]
    graph = as_graph(sp.coo_array((weights, (rows, cols)), shape=(3, 3)))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 5, 0], [5, 0, 0], [0, 0, 0]])
    assert graph.adjacency.nnz == 2


def test_repeated_weights_whose_sum_overflows():
    big = np.full(4, 3e38)
    graph = as_graph(sp.coo_array((big, ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2)))
    np.testing.assert_array_equal(graph.weights, np.float32([3e38]))


def test_directed_graph_is_refused_unless_symmetrized():
    one_way = (np.array([[0, 1], [1, 2]]), 3)
    with pytest.raises(GraphError, match="2 of its 2 edges have no reverse edge"):
        as_graph(one_way)
    graph = as_graph(one_way, symmetrize=True)
    np.testing.assert_array_equal(graph.edges, [[0, 1], [1, 2]])


def test_unequal_weights_of_the_two_directions_are_refused_unless_symmetrized():
    matrix = np.array([[0.0, 1.0], [3.0, 0.0]])
    with pytest.raises(GraphError, match="different weights"):
        as_graph(matrix)
    np.testing.assert_array_equal(as_graph(matrix, symmetrize=True).adjacency.toarray(), [[0, 3], [3, 0]])


def test_rounding_errors_between_the_two_directions_are_evened_out():
    graph = as_graph(np.array([[0.0, 1.0], [1.0 + 1e-6, 0.0]]))
    assert (graph.adjacency != graph.adjacency.T).nnz == 0


@pytest.mark.parametrize("n", [0, 1, 5])
def test_graph_without_edges(n):
    graph = as_graph((np.zeros((2, 0), dtype=np.int64), n))
    assert (graph.num_nodes, graph.num_edges) == (n, 0)
    assert graph.edges.shape == (2, 0)
    assert graph == as_graph(graph.to_pyg()) == as_graph(graph.to_networkx()) == as_graph(graph.to_scipy())


def test_graph_without_nodes_takes_empty_lists():
    graph = as_graph(np.zeros((0, 0)), features=np.zeros((0, 3)), labels=[], names=[], split=Split([], [], []))
    assert repr(graph) == "Graph(0 nodes, 0 edges, 3 features, 0 classes)"


BAD = {
    "edge past the end": (lambda: (np.array([[0], [7]]), 4), "Node 7 does not exist"),
    "edge far past the end": (lambda: (np.array([[2**40], [0]]), 4), "Node 1099511627776 does not exist"),
    "edge past int64": (lambda: (np.array([[2**63], [0]], dtype=np.uint64), 4), "Node 9223372036854775808 "),
    "negative node": (lambda: (np.array([[-1], [0]]), 4), "Node -1 does not exist"),
    "edge in an empty graph": (lambda: (np.array([[0], [0]]), np.uint8(0)), "the graph has 0 nodes"),
    "fractional node": (lambda: (np.array([[0.5], [1.0]]), 4), "must be integers"),
    "edge_index upright": (lambda: (np.zeros((5, 2), dtype=int), 4), r"shape \(2, m\)"),
    "edge_index ragged": (lambda: ([[0, 1], [1]], 4), "cannot be made an array"),
    "negative size": (lambda: (BOTH_WAYS, -1), "integer >= 0. Got -1"),
    "fractional size": (lambda: (BOTH_WAYS, 4.0), "integer >= 0. Got 4.0"),
    "boolean size": (lambda: (BOTH_WAYS, True), "integer >= 0. Got True"),
    "absurd size": (lambda: (BOTH_WAYS, 2**62), "more than this machine's memory"),
    "weight too large": (lambda: np.array([[0, 1e300], [1e300, 0]]), "NaN or infinite"),
    "weight NaN": (lambda: np.array([[0, np.nan], [1, 0]]), "NaN or infinite"),
    "weight infinite": (lambda: sp.csr_array(np.array([[0, np.inf], [np.inf, 0]])), "NaN or infinite"),
    "weight negative": (lambda: -PATH, "must not be negative. Got -2"),
    "weight complex": (lambda: PATH * 1j, "must be numbers"),
    "weight text": (lambda: np.array([["a", "b"], ["c", "d"]]), "must be numbers"),
    "weight objects": (lambda: PATH.astype(object), "must be numbers"),
    "not square": (lambda: np.zeros((2, 3)), "must be square"),
    "sparse not square": (lambda: sp.csr_array((2, 3)), "must be square"),
    "vector": (lambda: np.zeros(3), "Cannot read a graph from ndarray"),
    "nothing": (lambda: None, "Cannot read a graph from NoneType"),
    "pyg without edges": (lambda: Data(x=torch.zeros(2, 2)), "no edge_index"),
    "pyg heterogeneous": (lambda: HeteroData(), "no edge_index of its own but relations"),
    "pyg upright": (lambda: pyg(edge_index=torch.zeros(3, 2, dtype=torch.long)), r"shape \(2, m\)"),
    "pyg too few weights": (lambda: pyg(edge_weight=torch.ones(3)), "4 edges but 3 edge weights"),
    "networkx weight None": (lambda: nx.Graph([(0, 1, {"weight": None})]), "must be numbers"),
    "networkx weight lists": (lambda: nx.Graph([(0, 1, {"weight": [1]}), (1, 2, {"weight": [1, 2]})]), "made an array"),
    "networkx weight pairs": (lambda: nx.Graph([(0, 1, {"weight": [1, 2]})]), "needs one weight"),
    "networkx directed": (lambda: nx.DiGraph([(0, 1)]), "directed"),
    "networkx names alike": (lambda: nx.Graph([(1, "1")]), "same name"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "phrase"), BAD.values(), ids=BAD)
def test_what_is_no_graph_is_refused_in_one_sentence(make, phrase):
    with pytest.raises(GraphError, match=phrase) as caught:
        as_graph(make())
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, GarnetError)
    assert isinstance(caught.value, ValueError)


BAD_PARTS = {
    "features short": ({"features": np.zeros((3, 2))}, r"shape \(4, d\)"),
    "features flat": ({"features": np.zeros(4)}, r"shape \(4, d\)"),
    "features NaN": ({"features": np.full((4, 1), np.nan)}, "NaN or infinite"),
    "features too large": ({"features": np.full((4, 1), 1e300)}, "NaN or infinite"),
    "sparse features infinite": ({"features": sp.csr_array(np.full((4, 1), np.inf))}, "NaN or infinite"),
    "features text": ({"features": [["a"]] * 4}, "must be numbers"),
    "features ragged": ({"features": [[1], [1, 2], [1], [1]]}, "cannot be made an array"),
    "features on no device": ({"features": torch.ones(4, 2, device="meta")}, "cannot be made an array"),
    "labels long": ({"labels": [0] * 5}, r"shape \(4,\)"),
    "labels two-dimensional": ({"labels": np.zeros((4, 1), dtype=int)}, r"shape \(4,\)"),
    "labels fractional": ({"labels": [0.0, 1, 1, 0]}, "must be integers"),
    "labels absurd": ({"labels": [2**62, 0, 0, 0]}, "must number the classes"),
    "labels past int64": ({"labels": np.array([2**63, 0, 0, 0], dtype=np.uint64)}, "must number the classes"),
    "split outside": ({"split": Split([0], [1], [4])}, "from 0 to 3"),
    "split negative": ({"split": Split([0], [1], [-1])}, "from 0 to 3"),
    "split overlapping": ({"split": Split([0], [1], [0])}, "disjoint"),
    "split of masks": ({"split": Split([True] * 4, [False] * 4, [False] * 4)}, "arrays of node numbers"),
    "split nested": ({"split": Split([[0]], [1], [2])}, "arrays of node numbers"),
    "split missing part": ({"split": Split([0], None, [2])}, "arrays of node numbers"),
    "split is no Split": ({"split": ([0], [1], [2])}, "must be a Split"),
    "names short": ({"names": ["a"]}, "must be 4"),
    "names fractional": ({"names": [0.5, 1.5, 2.5, 3.5]}, "integers or texts"),
    "names alike": ({"names": ["a", "b", "c", "a"]}, "must be distinct"),
}


@pytest.mark.parametrize(("parts", "phrase"), BAD_PARTS.values(), ids=BAD_PARTS)
def test_malformed_parts_are_refused(parts, phrase):
    with pytest.raises(GraphError, match=phrase):
        as_graph(PATH, **parts)


def test_parts_are_kept_in_their_types():
    split = Split([0], [], [2, 3])
    graph = as_graph(PATH, features=np.ones((4, 2), dtype=int), labels=[0, -7, 2, 1], split=split, names=[9, 8, 7, 6])
    assert graph.features.dtype == np.float32
    np.testing.assert_array_equal(graph.labels, [0, -1, 2, 1])
    np.testing.assert_array_equal(graph.split.test, [2, 3])
    assert graph.split.val.dtype == np.int64
    np.testing.assert_array_equal(graph.names, [9, 8, 7, 6])
    assert repr(graph) == "Graph(4 nodes, 2 edges, 2 features, 3 classes)"


def test_arguments_override_the_parts_of_the_source():
    first = as_graph(PATH, labels=[0, 0, 0, 0], names=["a", "b", "c", "d"])
    second = as_graph(first, labels=[1, 1, 1, 1])
    np.testing.assert_array_equal(second.labels, [1, 1, 1, 1])
    np.testing.assert_array_equal(second.names, first.names)
    assert first != second


def test_homophily_counts_edges_with_known_labels():
    assert as_graph(PATH).homophily is None
    assert as_graph(PATH, labels=[0, 0, 1, 1]).homophily == 0.5
    assert as_graph(PATH, labels=[0, 0, -1, 1]).homophily == 1.0
    assert as_graph(PATH, labels=[-1, -1, -1, -1]).homophily is None


def test_sources_are_not_changed_and_do_not_change_the_graph():
    matrix = sp.csr_array(np.array([[0, 0, 1.0], [0, 4, 0], [1.0, 0, 0]]))
    before = matrix.copy()
    labels = np.array([0, -5, 1])
    graph = as_graph(matrix, labels=labels)
    np.testing.assert_array_equal(matrix.toarray(), before.toarray())
    assert matrix.nnz == before.nnz
    np.testing.assert_array_equal(labels, [0, -5, 1])
    matrix.data[:] = 7
    graph.to_scipy().data[:] = 7
    np.testing.assert_array_equal(graph.weights, [1])


def test_pyg_does_not_share_memory_with_the_graph():
    graph = as_graph(PATH, features=np.ones((4, 2), dtype=np.float32), labels=[0, 1, 2, 3])
    data = graph.to_pyg()
    for tensor in (data.x, data.y, data.edge_weight):
        tensor += 1
    assert graph == as_graph(PATH, features=np.ones((4, 2)), labels=[0, 1, 2, 3])


@pytest.mark.parametrize("sparse", [False, True])
def test_pyg_round_trip(sparse):
    features = np.arange(8, dtype=np.float32).reshape(4, 2)
    split = Split(np.array([0]), np.array([1]), np.array([3]))
    graph = as_graph(PATH, features=sp.csr_array(features) if sparse else features, labels=[0, 1, 1, -1], split=split)
    data = graph.to_pyg()
    assert data.is_undirected()
    data.validate(raise_on_error=True)
    assert as_graph(data) == as_graph(graph, features=features)


@pytest.mark.parametrize("layout", ["coo", "csr", "bfloat16", "integers"])
def test_pyg_features_of_any_layout(layout):
    dense = torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0], [3.0, 0.0]])
    make = {"coo": dense.to_sparse, "csr": dense.to_sparse_csr, "bfloat16": dense.bfloat16, "integers": dense.long}
    x = make[layout]()
    features = as_graph(pyg(x=x)).features
    np.testing.assert_array_equal(features.toarray() if sp.issparse(features) else features, dense.numpy())


def test_pyg_fields_that_a_graph_cannot_hold_are_left_out():
    two_splits = torch.zeros(4, 2, dtype=torch.bool)
    masks = {f"{part}_mask": two_splits for part in ("train", "val", "test")}
    graph = as_graph(pyg(y=torch.rand(4), **masks))
    assert graph.labels is None
    assert graph.split is None
    overlapping = {f"{part}_mask": torch.ones(4, dtype=torch.bool) for part in ("train", "val", "test")}
    assert as_graph(pyg(**overlapping)).split is None


def test_pyg_labels_in_a_column():
    np.testing.assert_array_equal(as_graph(pyg(y=torch.tensor([[0], [1], [2], [3]]))).labels, [0, 1, 2, 3])


@pytest.mark.parametrize("names", [None, ["d", "c", "b", "a"], [40, 30, 20, -(2**63)]])
def test_networkx_round_trip(names):
    graph = as_graph(PATH, labels=[0, 1, 1, 2], names=names)
    assert as_graph(graph.to_networkx()) == graph


def test_networkx_keeps_isolated_nodes_multigraphs_and_names_of_any_kind():
    graph = nx.MultiGraph([("x", (1, 2), {"weight": 3}), ((1, 2), "x", {"weight": 5})])
    graph.add_node("alone")
    result = as_graph(graph)
    assert result.names.tolist() == ["x", "(1, 2)", "alone"]
    np.testing.assert_array_equal(result.weights, [5])


def test_networkx_numpy_integers_are_integers():
    graph = nx.Graph([(np.int64(5), np.int64(7))])
    assert as_graph(graph).names.tolist() == [5, 7]


def test_with_edges_keeps_nodes_and_parts():
    graph = as_graph(PATH, labels=[0, 1, 1, 2])
    other = graph.with_edges(np.array([[3, 0], [0, 2]]), [1.0, 4.0])
    np.testing.assert_array_equal(other.edges, [[0, 0], [2, 3]])
    np.testing.assert_array_equal(other.weights, [4, 1])
    np.testing.assert_array_equal(other.labels, graph.labels)
    with pytest.raises(GraphError, match="needs one weight"):
        graph.with_edges(np.array([[0], [1]]), [1.0, 2.0])


def test_graphs_differ_in_every_part():
    parts = {
        "features": np.eye(4, dtype=np.float32),
        "labels": [0, 1, 2, 3],
        "split": Split([0], [1], [2]),
        "names": ["a", "b", "c", "d"],
    }
    plain = as_graph(PATH)
    variants = [as_graph(PATH, **{part: value}) for part, value in parts.items()]
    assert all(variant != plain for variant in variants)
    assert as_graph(PATH, names=[4, 5, 6, 7]) != variants[-1]
    assert plain != as_graph(PATH * 2)
    assert plain != as_graph(np.zeros((5, 5)))
    assert plain != PATH
    with pytest.raises(TypeError, match="unhashable"):
        hash(plain)


def test_graph_is_frozen():
    with pytest.raises(AttributeError):
        as_graph(PATH).labels = np.zeros(4)
    assert isinstance(as_graph(PATH), Graph)


def test_fingerprint_is_of_nodes_edges_and_weights():
    graph = as_graph(PATH)
    assert graph.fingerprint == as_graph(PATH, labels=[0, 1, 1, 2]).fingerprint
    assert len(int(graph.fingerprint, 16).to_bytes(8, "little")) == 8
    others = [
        as_graph(PATH * 2),
        as_graph(sp.block_diag([sp.csr_array(PATH), sp.csr_array((1, 1))])),
        graph.with_edges(graph.edges[:, 1:]),
    ]
    assert len({graph.fingerprint, *(other.fingerprint for other in others)}) == 4
    wide = Graph(graph.adjacency.copy())
    wide.adjacency.indices = wide.adjacency.indices.astype(np.int64)
    assert wide.fingerprint == graph.fingerprint
    assert as_graph(np.zeros((0, 0))).fingerprint != as_graph(np.zeros((1, 1))).fingerprint


def test_fingerprint_of_a_split_tells_its_parts_apart():
    splits = [Split([0], [1], [2]), Split([0, 1], [], [2]), Split([0], [1, 2], []), Split([1], [0], [2])]
    assert len({as_graph(PATH, split=split).split.fingerprint for split in splits}) == 4
    assert as_graph(PATH, split=splits[0]).split.fingerprint == as_graph(PATH * 3, split=splits[0]).split.fingerprint


def test_networkx_vectors_are_features_and_missing_labels_unknown():
    graph = nx.Graph([("a", "b"), ("b", "c")])
    nx.set_node_attributes(graph, {"a": [1.0, 2], "b": (3, 4), "c": np.array([5, 6])}, "x")
    graph.nodes["b"]["label"] = 3
    found = as_graph(graph)
    np.testing.assert_array_equal(found.features, [[1, 2], [3, 4], [5, 6]])
    assert found.labels.tolist() == [-1, 3, -1]
    nx.set_node_attributes(graph, 0.5, "x")  # where a node is drawn
    assert as_graph(graph).features is None
    graph.nodes["b"]["x"] = [1.0, 2]
    with pytest.raises(GraphError, match="vectors 'x' of the nodes must all have 2 numbers"):
        as_graph(graph)
    with pytest.raises(GraphError, match="directed"):
        as_graph(nx.MultiDiGraph([(0, 1), (1, 2), (2, 1)]))


def test_networkx_of_pyg_is_the_same_graph():
    data = pyg(x=torch.arange(12.0).view(4, 3), y=torch.tensor([0, 1, 1, 0]))
    theirs = to_networkx(data, node_attrs=["x", "y"], edge_attrs=["edge_weight"], to_undirected=True)
    for _, _, edge in theirs.edges(data=True):
        edge["weight"] = edge["edge_weight"]
    assert as_graph(theirs, labels=data.y) == as_graph(data)


def test_what_a_dgl_graph_has_is_read():
    # DGL has no wheels for the PyTorch of the tests: this answers as its graphs do.
    answers = {"is_homogeneous": True, "batch_size": 1, "num_nodes": lambda self: 4}
    answers["edges"] = lambda self: tuple(torch.from_numpy(BOTH_WAYS))
    answers["edata"] = {"weight": torch.from_numpy(WEIGHTS)}
    answers["ndata"] = {"feat": torch.eye(4), "label": torch.tensor([0, 1, 1, 2])}
    kind = type("DGLGraph", (), {**answers, "__module__": "dgl.heterograph"})
    assert as_graph(kind()) == as_graph(PATH, features=np.eye(4), labels=[0, 1, 1, 2])
    for wrong, phrase in (({"is_homogeneous": False}, "several types"), ({"batch_size": 3}, "3 graphs")):
        with pytest.raises(GraphError, match=phrase):
            as_graph(type("DGLGraph", (kind,), {**wrong, "__module__": "dgl.heterograph"})())


def test_igraph_in_and_out():
    igraph = pytest.importorskip("igraph")
    graph = as_graph(PATH, labels=[0, 1, 1, 2], names=["a", "b", "c", "d"])
    assert as_graph(graph.to_igraph()) == graph
    parallel = igraph.Graph([(0, 1), (0, 1), (1, 2)])
    parallel.es["weight"] = [1.0, 5.0, 2.0]
    assert as_graph(parallel).weights.tolist() == [5, 2]
    with pytest.raises(GraphError, match="directed"):
        as_graph(igraph.Graph([(0, 1)], directed=True))


def test_igraph_that_is_not_installed_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "igraph", None)
    with pytest.raises(MissingExtra, match="pip install 'igraph'"):
        as_graph(PATH).to_igraph()
