import csv
import gzip
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import garnet
from garnet import Split, as_graph, load_graph
from garnet.errors import GarnetError, GraphError
from garnet.graph import files

WEIGHTED = as_graph(np.array([[0, 0.1, 0, 0], [0.1, 0, 3e7, 0], [0, 3e7, 0, 1e-30], [0, 0, 1e-30, 0]]))
TEXT_ENDINGS = [".csv", ".tsv", ".txt", ".edges"]
ALL_ENDINGS = [".npz", *(ending + packed for ending in (*TEXT_ENDINGS, ".mtx") for packed in ("", ".gz"))]


@pytest.mark.parametrize("ending", [*ALL_ENDINGS, ".NPZ", ".Csv.GZ"])
def test_every_format_keeps_edges_and_weights_exactly(tmp_path, ending):
    path = tmp_path / f"graph{ending}"
    WEIGHTED.save(path)
    assert load_graph(path) == WEIGHTED
    assert as_graph(str(path)) == WEIGHTED


@pytest.mark.parametrize("ending", ALL_ENDINGS)
def test_same_graph_same_bytes(tmp_path, ending):
    first, second = tmp_path / f"a{ending}", tmp_path / f"b{ending}"
    WEIGHTED.save(first)
    WEIGHTED.save(second)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    "features", [np.arange(8, dtype=np.float32).reshape(4, 2), sp.csr_array(np.eye(4, 7, dtype=np.float32))]
)
@pytest.mark.parametrize("names", [[9, -3, 2**62, 0], ["b", "ä", "", "a,b\n"]])
def test_npz_keeps_everything(tmp_path, features, names):
    split = Split(np.array([2]), np.array([], dtype=np.int64), np.array([0, 3]))
    graph = as_graph(WEIGHTED, features=features, labels=[1, -1, 0, 2], split=split, names=names)
    graph.save(tmp_path / "graph.npz")
    assert load_graph(tmp_path / "graph.npz") == graph


def test_npz_and_mtx_keep_nodes_without_edges(tmp_path):
    graph = as_graph(([[0, 5], [5, 0]], 9))
    for ending in (".npz", ".mtx"):
        graph.save(tmp_path / f"graph{ending}")
        assert load_graph(tmp_path / f"graph{ending}") == graph


def test_npz_ignores_arrays_it_does_not_know_even_dangerous_ones(tmp_path):
    graph_file, extended = tmp_path / "graph.npz", tmp_path / "extended.npz"
    WEIGHTED.save(graph_file)
    with np.load(graph_file) as arrays:
        np.savez(extended, **arrays, node_names=np.array([{"any": "object"}], dtype=object), idx_val=np.array([3]))
    graph = load_graph(extended)
    np.testing.assert_array_equal(graph.split.val, [3])
    assert len(graph.split.train) == len(graph.split.test) == 0


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float64, np.float32])
@pytest.mark.parametrize("wrap", [sp.csr_array, sp.csr_matrix])
def test_npz_of_scipy(tmp_path, kind, dtype, wrap):
    dense = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=dtype)
    sp.save_npz(tmp_path / "matrix.npz", wrap(dense).asformat(kind))
    assert load_graph(tmp_path / "matrix.npz") == as_graph(dense)


def test_npz_of_scipy_in_column_format_keeps_directions_apart(tmp_path):
    one_way = np.array([[0.0, 2.0], [0.0, 0.0]])
    sp.save_npz(tmp_path / "matrix.npz", sp.csc_array(one_way))
    with pytest.raises(GraphError, match=r"matrix\.npz: the graph is directed"):
        load_graph(tmp_path / "matrix.npz")
    assert load_graph(tmp_path / "matrix.npz", symmetrize=True) == as_graph(one_way + one_way.T)


def test_npz_in_foreign_byte_order_and_column_order(tmp_path):
    matrix = WEIGHTED.adjacency
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array([4, 4])}
    features = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(
        tmp_path / "graph.npz",
        **{f"adj_{piece}": array.astype(array.dtype.newbyteorder(">")) for piece, array in arrays.items()},
        attr_matrix=np.asfortranarray(features),
    )
    assert load_graph(tmp_path / "graph.npz") == as_graph(WEIGHTED, features=features)


PATH = as_graph((np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), 3))
NAMED = as_graph(PATH, names=["a", "b", "c"])
TENS = as_graph(PATH, names=[10, 20, 30])

EDGE_LISTS = {
    "plain": ("csv", "0,1\n1,2\n", PATH),
    "no newline at the end": ("csv", "0,1\n1,2", PATH),
    "windows": ("csv", "0,1\r\n1,2\r\n", PATH),
    "old macintosh": ("csv", "0,1\r1,2\r", PATH),
    "byte order mark": ("csv", "\ufeff0,1\n1,2\n", PATH),
    "both directions": ("csv", "0,1\n1,0\n2,1\n1,2\n", PATH),
    "repeated": ("csv", "0,1\n0,1\n2,1\n", PATH),
    "loops": ("csv", "0,1\n1,1\n2,1\n", PATH),
    "weights": ("csv", "0,1,1.0\n1,2,1e0\n", PATH),
    "zero weight one way": ("csv", "0,1,1\n1,0,0\n1,2,1\n", PATH),
    "comments and blanks": ("csv", "# made by hand\n\n0,1\n  % more\n   \n1,2\n#0,2\n", PATH),
    "comment in latin-1": ("csv", b"# caf\xe9\n0,1\n1,2\n", PATH),
    "header": ("csv", "id_a,id_b\n0,1\n1,2\n", PATH),
    "header after a comment": ("csv", "#\nid_a,id_b,w\n0,1,1\n1,2,1\n", PATH),
    "known header": ("csv", "Source,Target\na,b\nb,c\n", NAMED),
    "known header with weight": ("tsv", "src\tdst\tweight\na\tb\t1\nb\tc\t1\n", NAMED),
    "no header": ("csv", "a,b\nb,c\n", NAMED),
    "spaces after commas": ("csv", "a, b\nb , c\n", NAMED),
    "quotes": ("csv", '"a","b"\n"b","c"\n', NAMED),
    "quoted integers": ("csv", '"10","20"\n"20","30"\n', TENS),
    "integers sort as numbers": ("csv", "9,10\n10,100\n", as_graph(PATH, names=[9, 10, 100])),
    "mixed names sort as text": ("csv", "10,9\n9,b\n", as_graph(PATH, names=["10", "9", "b"])),
    "past int64 is text": ("csv", f"0,{2**63}\n", as_graph(([[0, 1], [1, 0]], 2), names=["0", str(2**63)])),
    "fractions are text": ("csv", "0.5,1.5\n", as_graph(([[0, 1], [1, 0]], 2), names=["0.5", "1.5"])),
    "negative integers": ("csv", "-1,+5\n5,7\n", as_graph(PATH, names=[-1, 5, 7])),
    "tsv": ("tsv", "10\t20\n20\t30\n", TENS),
    "txt blanks": ("txt", "10 20\n20   30\n", TENS),
    "txt leading blanks": ("txt", "  10 20\n  20 30 \n", TENS),
    "txt commas": ("txt", "10,20\n20,30\n", TENS),
    "edges tabs": ("edges", "10\t20\n20\t30\n", TENS),
    "edges blanks and names": ("edges", "% konect\na b 1\nb c 1\n", NAMED),
    "unicode": ("csv", "å,é\né,ü\n", as_graph(PATH, names=["å", "é", "ü"])),
    "one text row is no header": ("csv", "a,b\n", as_graph(([[0, 1], [1, 0]], 2), names=["a", "b"])),
}  # fmt: skip


@pytest.mark.parametrize(("ending", "text", "expected"), EDGE_LISTS.values(), ids=EDGE_LISTS)
@pytest.mark.parametrize("packed", [False, True], ids=["", "gz"])
def test_edge_lists_as_people_write_them(tmp_path, ending, text, expected, packed):
    path = tmp_path / f"graph.{ending}{'.gz' if packed else ''}"
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    assert load_graph(path) == expected


def test_edge_list_with_some_pairs_in_both_directions_is_directed(tmp_path):
    path = tmp_path / "graph.csv"
    path.write_text("0,1\n1,0\n1,2\n")
    with pytest.raises(GraphError, match=r"graph\.csv: the graph is directed: 1 of its 3 edges"):
        load_graph(path)
    assert load_graph(path, symmetrize=True) == PATH


def test_edge_list_leaves_out_nodes_without_edges(tmp_path):
    as_graph(([[1, 3], [3, 1]], 5)).save(tmp_path / "graph.csv")
    assert load_graph(tmp_path / "graph.csv") == as_graph(([[0, 1], [1, 0]], 2), names=[1, 3])


def test_edge_list_without_edges_comes_back_without_nodes(tmp_path):
    as_graph(np.zeros((3, 3))).save(tmp_path / "graph.csv")
    assert load_graph(tmp_path / "graph.csv").num_nodes == 0


def test_csv_is_what_a_spreadsheet_expects(tmp_path):
    as_graph(PATH, names=['say "hi"', "a,b", "c"]).save(tmp_path / "graph.csv")
    assert (tmp_path / "graph.csv").read_text() == 'source,target,weight\n"say ""hi""","a,b",1\n"a,b",c,1\n'


@pytest.mark.parametrize("ending", TEXT_ENDINGS)
def test_names_that_look_like_comments_survive(tmp_path, ending):
    graph = as_graph(PATH, names=["#a", "%b", "c d"])
    graph.save(tmp_path / f"graph{ending}")
    assert load_graph(tmp_path / f"graph{ending}") == graph


@pytest.mark.parametrize("name", ["", " a", "a\n", "a\rb", "\ud800", "x" * 1001])
def test_names_that_no_line_can_hold_are_refused(tmp_path, name):
    graph = as_graph(PATH, names=["a", name, "z"])
    with pytest.raises(GraphError, match="cannot be kept in a line of text"):
        graph.save(tmp_path / "graph.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "%%MatrixMarket matrix coordinate real general\n% note\n\n3 3 4\n1 2 1\n2 1 1\n2 3 1\n3 2 1\n",
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n",
        "%%matrixmarket MATRIX Coordinate Integer Symmetric\r\n3 3 2\r\n2 1 1\r\n3 2 1\r\n",
        "%%MatrixMarket matrix array real general\n3 3\n0\n1\n0\n1\n0\n1\n0\n1\n0\n",
        "%%MatrixMarket matrix array integer symmetric\n3 3\n0\n1\n0\n0\n1\n0",
    ],
)
def test_matrix_market_as_others_write_it(tmp_path, text):
    (tmp_path / "graph.mtx").write_bytes(text.encode())
    assert load_graph(tmp_path / "graph.mtx") == PATH


def test_matrix_market_is_read_by_others(tmp_path):
    WEIGHTED.save(tmp_path / "graph.mtx")
    np.testing.assert_allclose(
        scipy.io.mmread(tmp_path / "graph.mtx").toarray(), WEIGHTED.adjacency.toarray(), rtol=1e-7
    )


@pytest.mark.parametrize("ending", [".npz", ".csv", ".csv.gz", ".mtx.gz"])
def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, ending, monkeypatch):
    path = tmp_path / f"graph{ending}"
    WEIGHTED.save(path)

    def half_then_fail(target, *_rest, **_options):
        target.write("half a graph" if isinstance(target, io.TextIOBase) else b"half a graph")
        raise KeyboardInterrupt

    for module, writer in ((np, "savez_compressed"), (csv, "writer"), (scipy.io, "mmwrite")):
        monkeypatch.setattr(module, writer, half_then_fail)
    with pytest.raises(KeyboardInterrupt):
        PATH.save(path)
    assert load_graph(path) == WEIGHTED
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_save_into_a_missing_folder(tmp_path):
    with pytest.raises(GarnetError, match=r"the folder .* does not exist"):
        PATH.save(tmp_path / "no" / "graph.npz")


@pytest.mark.parametrize("name", ["graph", "graph.parquet.gz", "graph.npz.gz", "graph.gz", ".csv"])
def test_unknown_ending_lists_the_known_ones(tmp_path, name):
    for action in (load_graph, PATH.save):
        with pytest.raises(GraphError, match=r"must end in \.npz, \.mtx, \.csv, \.tsv, \.txt, \.edges"):
            action(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("missing.csv", "there is no such file"),
        ("folder.csv", "it is a folder"),
        ("pipe.csv", "it is not a regular file"),
        ("no\0name.csv", "there is no such file"),
        (f"{'x' * 300}.csv", "file name too long"),
    ],
)
def test_what_is_not_a_file(tmp_path, name, phrase):
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(GraphError, match=phrase):
        load_graph(tmp_path / name)


def test_public_name_is_the_same_function():
    assert garnet.load_graph is load_graph is files.load_graph


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".mtx", ".npz"])
def test_unreadable_file(tmp_path, ending, monkeypatch):
    path = tmp_path / f"graph{ending}"
    PATH.save(path)

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    # Permissions would not do: the superuser may read anything.
    for module, opener in ((Path, "open"), (gzip, "open"), (zipfile, "ZipFile")):
        monkeypatch.setattr(module, opener, refuse)
    with pytest.raises(GraphError, match=r"Cannot read .*graph.*: permission denied\."):
        load_graph(path)
