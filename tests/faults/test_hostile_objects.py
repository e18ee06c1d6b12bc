"""Objects that are broken, or made to break `as_graph`: each is refused in one sentence, or read as what it means."""

import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from garnet import as_graph
from garnet.errors import GraphError
from garnet.graph.graph import Split

PATH = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
"""The path of three nodes."""

FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


def path_matrix(layout="csr"):
    return sp.csr_array((np.ones(4, np.float32), PATH), shape=(3, 3)).asformat(layout)


def broken(layout, **changes):
    """The path's matrix with attributes set behind SciPy's back."""
    matrix = path_matrix(layout)
    for name, value in changes.items():
        setattr(matrix, name, value)
    return matrix


def broken_coo(row, col, data):
    matrix = path_matrix("coo")
    matrix.coords = (np.asarray(row), np.asarray(col))
    matrix.data = np.asarray(data)
    return matrix


def broken_lil(rows=None, data=None):
    matrix = path_matrix("lil")
    if rows is not None:
        matrix.rows[0] = rows
    if data is not None:
        matrix.data[0] = data
    return matrix


def broken_dok(key, value=1.0):
    matrix = path_matrix("dok")
    matrix._dict[key] = value
    return matrix


def multigraph(weight):
    graph = nx.MultiGraph()
    graph.add_edge(0, 1, weight=weight)
    graph.add_edge(0, 1, weight=weight)
    return graph


def weighted(weight):
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=weight)
    graph.add_edge(1, 2)
    return graph


def data(**fields):
    with warnings.catch_warnings(action="ignore"):
        return Data(**{"edge_index": torch.from_numpy(PATH), "num_nodes": 3, **fields})


def beyond_unicode():
    return np.array([0x110000, 0x41, 0x42], np.uint32).view("U1")


BROKEN_MATRICES = {
    "csr with an index too large": lambda: broken("csr", indices=np.array([1, 0, 2, 2**30])),
    "csr with a negative index": lambda: broken("csr", indices=np.array([-1, 0, 2, 1])),
    "csr with float indices": lambda: broken("csr", indices=np.array([1.0, 0, 2, 1])),
    "csr with text indices": lambda: broken("csr", indices=np.array(list("abcd"))),
    "csr with two-dimensional indices": lambda: broken("csr", indices=np.zeros((2, 2), int)),
    "csr with short indices": lambda: broken("csr", indices=np.array([1])),
    "csr with short data": lambda: broken("csr", data=np.ones(1)),
    "csr with short indptr": lambda: broken("csr", indptr=np.array([0, 4])),
    "csr with empty indptr": lambda: broken("csr", indptr=np.zeros(0, int)),
    "csr with falling indptr": lambda: broken("csr", indptr=np.array([0, 3, 1, 4])),
    "csr with indptr past the end": lambda: broken("csr", indptr=np.array([0, 1, 3, 10**9])),
    "csr with indptr not from 0": lambda: broken("csr", indptr=np.array([-5, 1, 3, 4])),
    "csr without data": lambda: broken("csr", data=None),
    "csr of objects": lambda: broken("csr", data=np.array([None] * 4)),
    "csr of texts": lambda: broken("csr", data=np.array(list("abcd"))),
    "csc with an index too large": lambda: broken("csc", indices=np.array([1, 0, 2, 99])),
    "csc with short data": lambda: broken("csc", data=np.ones(1)),
    "bsr with an index too large": lambda: broken("bsr", indices=np.full(4, 99)),
    "bsr with flat data": lambda: broken("bsr", data=np.ones(4)),
    "bsr with short data": lambda: broken("bsr", data=np.ones((1, 1, 1))),
    "bsr with blocks that do not fit": lambda: broken("bsr", data=np.ones((4, 2, 2))),
    "bsr with empty blocks": lambda: broken("bsr", data=np.ones((4, 0, 0))),
    "coo with an index too large": lambda: broken_coo([0, 99], [1, 0], [1, 1]),
    "coo with a negative index": lambda: broken_coo([0, -1], [1, 0], [1, 1]),
    "coo with short data": lambda: broken_coo([0, 1], [1, 0], [1]),
    "coo with short rows": lambda: broken_coo([0], [1, 0], [1, 1]),
    "coo with float rows": lambda: broken_coo([0.5, 1.0], [1, 0], [1, 1]),
    "dia with too few offsets": lambda: broken("dia", offsets=np.array([0])),
    "dia with float offsets": lambda: broken("dia", offsets=np.array([-1.0, 1.0])),
    "dia with flat data": lambda: broken("dia", data=np.ones(6)),
    "lil with an index too large": lambda: broken_lil(rows=[2**40]),
    "lil with a negative index": lambda: broken_lil(rows=[-1]),
    "lil with too many indices": lambda: broken_lil(rows=[0, 1, 2]),
    "lil with text": lambda: broken_lil(data=["x"]),
    "lil with None for a row": lambda: broken_lil(rows=None, data=()),
    "dok with an index too large": lambda: broken_dok((0, 99)),
    "dok with a negative index": lambda: broken_dok((0, -1)),
    "dok with text for a key": lambda: broken_dok(("a", "b")),
    "dok with one number for a key": lambda: broken_dok((1,)),
    "dok with text for a value": lambda: broken_dok((0, 2), "x"),
}

SOURCES = {
    "an array of objects": lambda: np.array([[None, 1], [1, None]]),
    "an array of texts": lambda: np.array([["a", "b"], ["c", "d"]]),
    "an array of dates": lambda: np.zeros((2, 2), "M8[s]"),
    "an array of records": lambda: np.zeros((2, 2), "i4,f4"),
    "an array of complex numbers": lambda: np.ones((2, 2), complex),
    "a masked array": lambda: np.ma.masked_equal(np.array([[0, 1], [1, 0]]), 1),
    "an array without columns": lambda: np.zeros((2, 0)),
    "one number": lambda: np.array(1.0),
    "a sparse vector": lambda: sp.coo_array(np.ones(3)),
    "a sparse matrix of complex numbers": lambda: sp.csr_array(np.ones((2, 2), complex)),
    "a sparse matrix that is not square": lambda: sp.csr_array(np.ones((2, 3))),
    "an edge_index of texts": lambda: (np.array([["a"], ["b"]]), 2),
    "an edge_index of objects": lambda: (np.array([[None], [{}]]), 2),
    "an edge_index of NaN": lambda: (np.array([[np.nan], [1.0]]), 2),
    "an edge_index of halves": lambda: (np.array([[0.5], [1.0]]), 2),
    "an edge_index with masks": lambda: (np.ma.masked_equal(PATH, 2), 3),
    "an edge_index that is ragged": lambda: ([[0, 1], [1]], 2),
    "an edge_index that is text": lambda: ("01", 2),
    "an edge_index that is None": lambda: (None, 2),
    "an edge_index that is a set": lambda: ({0, 1}, 2),
    "an edge_index past 64 bits": lambda: ([[0], [2**70]], 2),
    "an edge_index past int64": lambda: (np.array([[0], [2**63]], np.uint64), 2),
    "a tensor without data": lambda: (torch.zeros(2, 4, dtype=torch.long, device="meta"), 2),
    "a tensor of bfloat16": lambda: (torch.zeros(2, 4, dtype=torch.bfloat16), 2),
    "a sparse tensor of edges": lambda: (torch.from_numpy(PATH).to_sparse(), 3),
    "n of a half": lambda: (PATH, 3.5),
    "n of a float": lambda: (PATH, 3.0),
    "n of NaN": lambda: (PATH, float("nan")),
    "n of text": lambda: (PATH, "3"),
    "n of an array": lambda: (PATH, np.full((50, 50), 3)),
    "n of None": lambda: (PATH, None),
    "n of True": lambda: (PATH, True),
    "n negative": lambda: (PATH, -1),
    "n absurd": lambda: (PATH, 10**15),
    "n beyond any integer": lambda: (PATH, 10**400),
    "a NetworkX graph with NaN": lambda: weighted(float("nan")),
    "a NetworkX graph with text": lambda: weighted("heavy"),
    "a NetworkX graph with None": lambda: weighted(None),
    "a NetworkX graph with complex weights": lambda: weighted(1j),
    "a NetworkX graph with lists": lambda: weighted([1, 2]),
    "a NetworkX graph with a huge weight": lambda: weighted(10**400),
    "a NetworkX multigraph with text": lambda: multigraph("x"),
    "a NetworkX graph with two names alike": lambda: nx.Graph([(1, "1")]),
    "a dictionary": lambda: {0: [1]},
    "a number": lambda: 7,
    "None": lambda: None,
    "a tensor": lambda: torch.eye(3),
    "a HeteroData": lambda: HeteroData(),
    "a HeteroData with nodes": lambda: HeteroData({"paper": {"x": torch.ones(2, 2)}}),
    "a Data without anything": lambda: Data(),
    "a Data with a list": lambda: data(edge_index=[[0, 1], [1, 0], [2]]),
    "a Data with text": lambda: data(edge_index="edges"),
    "a Data with NaN": lambda: data(edge_index=torch.full((2, 2), float("nan")), num_nodes=None),
    "a Data with floats": lambda: data(edge_index=torch.rand(2, 2)),
    "a Data on no device": lambda: data(edge_index=torch.zeros(2, 4, dtype=torch.long, device="meta")),
    "a Data with sparse edges": lambda: data(edge_index=torch.from_numpy(PATH).to_sparse()),
    "a Data with complex edges": lambda: data(edge_index=torch.from_numpy(PATH).to(torch.complex64)),
    "a Data with three rows": lambda: data(edge_index=torch.zeros(3, 2, dtype=torch.long)),
    "a Data with absurdly many nodes": lambda: data(num_nodes=10**15),
    "a Data with negatively many nodes": lambda: data(num_nodes=-3),
    "a Data with text for its nodes": lambda: data(num_nodes="three"),
    "a Data with too few nodes": lambda: data(num_nodes=2),
    "a Data with weights of another length": lambda: data(edge_weight=torch.ones(3)),
    "a Data with complex weights": lambda: data(edge_weight=torch.ones(4, dtype=torch.complex64)),
    "a Data with NaN for weights": lambda: data(edge_weight=torch.full((4,), float("nan"))),
    "a Data with text for weights": lambda: data(edge_weight="heavy"),
    "a Data with quantised features": lambda: data(x=quantised()),
    "a Data with complex features": lambda: data(x=torch.ones(3, 2, dtype=torch.complex64)),
    "a Data with nested features": lambda: data(x=nested()),
    "a Data with features on no device": lambda: data(x=torch.ones(3, 2, device="meta")),
    "a Data with features for other nodes": lambda: data(x=torch.ones(7, 2)),
    "a Data with text for features": lambda: data(x="features"),
    "a Data with a list of features": lambda: data(x=[torch.ones(2), torch.ones(3)]),
    "a Data with labels on no device": lambda: data(y=torch.zeros(3, dtype=torch.long, device="meta")),
    "a Data with a mask on no device": lambda: data(train_mask=torch.zeros(3, dtype=torch.bool, device="meta")),
    "a Data with sparse features out of range": lambda: data(x=sparse_features([[0], [99]])),
    "a Data with sparse features below zero": lambda: data(x=sparse_features([[-7], [0]])),
    "a Data with sparse features of vectors": lambda: data(x=torch.ones(3, 2, 2).to_sparse(2)),
    "a Data with sparse features by columns": lambda: data(x=by_columns()),
}

PARTS = {
    "features of objects": {"features": np.full((3, 1), None)},
    "features of texts": {"features": [["a"], ["b"], ["c"]]},
    "features of records": {"features": np.zeros((3, 1), "i4,f4")},
    "features that are ragged": {"features": [[1], [1, 2], [1]]},
    "features with masks": {"features": np.ma.masked_equal(np.eye(3), 1)},
    "features of one number": {"features": 5},
    "features that are a function": {"features": len},
    "features that are a generator": {"features": (i for i in range(3))},
    "features sparse and broken": {"features": broken("csr", indices=np.array([1, 0, 2, 99]))},
    "features sparse and of objects": {"features": broken("csc", data=np.array([None] * 4))},
    "features on no device": {"features": torch.ones(3, 2, device="meta")},
    "features sparse with NaN": {"features": sp.csr_array(np.full((3, 1), np.nan))},
    "labels of texts": {"labels": list("abc")},
    "labels of objects": {"labels": np.array([None, 1, 2])},
    "labels of halves": {"labels": [0.5, 1, 2]},
    "labels of NaN": {"labels": [np.nan, 1, 2]},
    "labels with masks": {"labels": np.ma.masked_equal([0, 1, 2], 1)},
    "labels of one number": {"labels": 1},
    "labels in a table": {"labels": [[0], [1], [2]]},
    "labels that are far apart": {"labels": [0, 99_999, 1]},
    "labels that are numbers of something": {"labels": [10_001, 20_003, 10_001]},
    "labels past int64": {"labels": np.array([0, 1, 2**64 - 1], np.uint64)},
    "names of objects": {"names": np.array([None, "a", "b"])},
    "names of bytes": {"names": np.array([b"a", b"b", b"c"])},
    "names of floats": {"names": [0.5, 1.5, 2.5]},
    "names alike": {"names": ["a", "a", "b"]},
    "names too few": {"names": ["a", "b"]},
    "names beyond Unicode": {"names": beyond_unicode()},
    "a split that is a tuple": {"split": ([0], [1], [2])},
    "a split that is text": {"split": "random"},
    "a split of texts": {"split": Split(np.array(["a"]), np.array([1]), np.array([2]))},
    "a split of halves": {"split": Split(np.array([0.5]), np.array([1]), np.array([2]))},
    "a split of None": {"split": Split(None, None, None)},
    "a split of masks": {"split": Split(*(np.array([True, False, False]),) * 3)},
    "a split with a node twice": {"split": Split(np.array([0]), np.array([0]), np.array([2]))},
    "a split past the end": {"split": Split(np.array([0]), np.array([1]), np.array([3]))},
    "a split past int64": {"split": Split(np.array([2**64 - 1], np.uint64), np.array([1]), np.array([2]))},
}


def nested():
    with warnings.catch_warnings(action="ignore"):
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


def quantised():
    with warnings.catch_warnings(action="ignore"):
        return torch.quantize_per_tensor(torch.ones(3, 2), 1.0, 0, torch.qint8)


def by_columns():
    with warnings.catch_warnings(action="ignore"):
        return torch.ones(3, 2).to_sparse_csc()


def sparse_features(places):
    with torch.sparse.check_sparse_tensor_invariants(enable=False):
        return torch.sparse_coo_tensor(torch.tensor(places), torch.ones(1), (3, 2))


def assert_refused(source, **parts):
    with pytest.raises(GraphError) as caught:
        as_graph(source, **parts)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert len(message) < 400


@pytest.mark.parametrize("make", BROKEN_MATRICES.values(), ids=BROKEN_MATRICES)
def test_a_matrix_with_broken_insides_is_refused_in_one_sentence(make):
    assert_refused(make())


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_what_is_no_graph_is_refused_in_one_sentence(make):
    assert_refused(make())


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_what_does_not_belong_to_a_graph_is_refused_in_one_sentence(parts):
    assert_refused((PATH, 3), **parts)


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("kind", [np.float16, np.float64, np.longdouble, np.int8, np.uint64, bool])
def test_sound_matrices_of_every_format_and_type_are_read(layout, kind):
    source = path_matrix(layout)
    source = source if kind == np.float16 else source.astype(kind)
    if kind == np.float16 and layout in ("csr", "csc", "bsr", "coo", "dia"):
        source.data = source.data.astype(kind)
    wanted = as_graph((PATH, 3), features=path_matrix())
    assert as_graph(source, features=source) == wanted


def test_room_left_at_the_end_of_a_matrix_is_no_part_of_it():
    source = broken("csr", indices=np.array([1, 0, 2, 1, 77]), data=np.ones(5))
    assert as_graph(source) == as_graph((PATH, 3))


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2", "uint16", "bool"])
def test_features_of_every_type_that_means_numbers_are_read(kind):
    x = torch.eye(3).to(getattr(torch, kind))
    assert np.array_equal(as_graph(data(x=x)).features, np.eye(3))
    assert np.array_equal(as_graph((PATH, 3), features=x).features, np.eye(3))


@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64", "int32", "int8"])
def test_edges_of_every_type_that_means_integers_are_read(kind):
    edges = torch.from_numpy(PATH).to(getattr(torch, kind))
    assert as_graph(data(edge_index=edges)) == as_graph((PATH, 3)) == as_graph((edges, 3))


@pytest.mark.parametrize("sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
def test_sparse_features_are_read_from_tensors(sparse):
    with warnings.catch_warnings(action="ignore"):
        x = sparse(torch.eye(3))
    for graph in (as_graph(data(x=x)), as_graph((PATH, 3), features=x)):
        assert np.array_equal(graph.features.toarray(), np.eye(3))


@pytest.mark.parametrize(
    "y", [torch.rand(3), torch.zeros(3, 4), torch.tensor([0, 99_999, 1]), "text", [0, 1], torch.ones(3).bfloat16()]
)
def test_a_y_that_says_no_classes_is_left_out(y):
    assert as_graph(data(y=y)).labels is None


@pytest.mark.parametrize("mask", [torch.zeros(3, 10, dtype=torch.bool), torch.rand(3), "text", torch.zeros(2)])
def test_masks_that_say_no_split_are_left_out(mask):
    assert as_graph(data(train_mask=mask)).split is None


def test_names_that_no_terminal_shows_are_kept(tmp_path):
    names = np.array(["\ud800", "\x1b[2J", "a\nb"])
    graph = as_graph((PATH, 3), names=names)
    graph.save(tmp_path / "graph.npz")
    assert np.array_equal(as_graph(tmp_path / "graph.npz").names, names)
    for ending in ("csv", "tsv", "txt"):
        with pytest.raises(GraphError, match="cannot be kept in a line of text"):
            graph.save(tmp_path / f"graph.{ending}")


def test_classes_may_be_missing_from_a_part_of_a_graph():
    assert as_graph((PATH, 3), labels=[3, 171, -1]).labels.tolist() == [3, 171, -1]
