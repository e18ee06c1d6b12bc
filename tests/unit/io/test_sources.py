import gzip
import re
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from garnet import Split, as_graph, load_graph
from garnet.datasets import block_model, class_features, random_split
from garnet.errors import GarnetError, GraphError, MissingExtra
from garnet.graph.files import open_source
from garnet.places import build
from garnet.places.build import build_tiles
from garnet.places.graph_size import extent_of
from garnet.places.tiles import MANIFEST

MEMORY = 1 << 30


def write_ogb(folder, graph, edges):
    """A folder as OGB distributes it, with the rows `edges` as they are."""
    texts = {
        "raw/num-node-list": f"{graph.num_nodes}\n",
        "raw/edge": "".join(f"{u},{v}\n" for u, v in edges),
    }
    if graph.features is not None:
        texts["raw/node-feat"] = "".join(",".join(map(repr, row)) + "\n" for row in graph.features.tolist())
    if graph.labels is not None:
        texts["raw/node-label"] = "".join(f"{label}\n" for label in graph.labels)
    if graph.split is not None:
        for name, part in zip(("train", "valid", "test"), ("train", "val", "test"), strict=True):
            texts[f"split/time/{name}"] = "".join(f"{node}\n" for node in getattr(graph.split, part))
    for name, text in texts.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))


def tiled(source, folder, **options):
    return build_tiles(source, folder, memory=MEMORY, **options)


def outcome(read):
    """The graph that a function gives, or what it says instead."""
    try:
        return read()
    except GraphError as error:
        return str(error)


BLOCKS = block_model(300, seed=1)
JOINED = np.flatnonzero(BLOCKS.degrees)  # lists of edges do not know of others
LABELS = BLOCKS.labels[JOINED]
LARGER = as_graph(
    BLOCKS.adjacency[JOINED][:, JOINED],
    features=class_features(LABELS, dim=5, signal=1.0, seed=2),
    labels=LABELS,
    split=random_split(LABELS, seed=3),
)

weights = st.one_of(st.just(1.0), st.sampled_from([0.0, 0.5, 1.0, 1 + 1e-6, 3.25]))
rows = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), weights), max_size=40)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=rows,
    names=st.lists(st.integers(-(2**40), 2**40), min_size=10, max_size=10, unique=True),
    kind=st.sampled_from(["csr", "csc", "coo", "benchmark", "csv", "txt.gz", "ogb", "mirrored csv", "mirrored coo"]),
    parts=st.integers(1, 4),
    chunk=st.sampled_from([1, 3, 1 << 20]),
    symmetrize=st.booleans(),
)
def test_whatever_load_graph_reads_or_refuses_tiles_do_too(scratch, rows, names, kind, parts, chunk, symmetrize):
    folder = Path(mkdtemp(dir=scratch))
    if kind.startswith("mirrored"):
        rows = rows + [(v, u, weight) for u, v, weight in rows]
        kind = kind.removeprefix("mirrored ")
    path = folder / (f"graph.{kind}" if kind in ("csv", "txt.gz") else "graph.npz")
    heads, tails, values = (np.array(column) for column in zip(*rows, strict=True)) if rows else np.zeros((3, 0))
    matrix = sp.coo_array((values, (heads.astype(int), tails.astype(int))), shape=(10, 10))
    if kind == "ogb":
        path = folder / "ogb"
        write_ogb(path, as_graph(np.zeros((10, 10))), [(u, v) for u, v, _ in rows])
    elif kind in ("csv", "txt.gz"):
        mark = "," if kind == "csv" else "\t"
        text = "# a list\n" + "".join(f"{names[u]}{mark}{names[v]}{mark}{weight!r}\n" for u, v, weight in rows)
        path.write_bytes(gzip.compress(text.encode()) if kind == "txt.gz" else text.encode())
    elif kind == "benchmark":
        csr = matrix.tocsr()
        pieces = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": np.array(csr.shape)}
        np.savez_compressed(path, **{f"adj_{name}": piece for name, piece in pieces.items()})
    else:
        sp.save_npz(path, matrix.asformat(kind))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_LARGEST_CHUNK", chunk)
        found = outcome(lambda: tiled(path, folder / "tiles", parts=parts, symmetrize=symmetrize).to_graph())
    assert found == outcome(lambda: load_graph(path, symmetrize=symmetrize))


@pytest.mark.parametrize("kind", ["graph", "npz", "csv", "txt.gz", "edges", "parquet", "ogb"])
@pytest.mark.parametrize("parts", [None, 1, 7])
def test_a_larger_graph_comes_back_whole_from_every_format(scratch, kind, parts):
    graph = LARGER if kind in ("graph", "npz", "ogb") else as_graph(LARGER.adjacency)
    source = graph
    if kind == "ogb":
        source = scratch / "ogb"
        write_ogb(source, graph, graph.edges.T)
    elif kind == "parquet":
        source = scratch / "graph.parquet"
        pa.parquet.write_table(pa.table(dict(zip(("source", "target"), graph.edges, strict=True))), source)
    elif kind != "graph":
        source = scratch / f"graph.{kind}"
        graph.save(source)
    stages = []
    found = tiled(source, scratch / "tiles", parts=parts, symmetrize=kind == "ogb", progress=stages.append)
    assert found.to_graph() == graph
    assert found.parts == (parts or 1)
    steps = ["cut strips"] if kind == "graph" else ["read edges", "distribute edges", "sort strips"]
    assert [step.detail for step in stages[: len(steps)]] == steps


def test_fingerprints_are_of_the_graph_not_of_its_form(scratch):
    weighted = as_graph(LARGER.with_edges(LARGER.edges, np.linspace(0.5, 2, LARGER.num_edges)))
    fewer = LARGER.with_edges(LARGER.edges[:, 1:])
    prints = {}
    for name, graph in {"one": LARGER, "weighted": weighted, "fewer": fewer}.items():
        graph.save(scratch / "graph.npz")
        sp.save_npz(scratch / "scipy.npz", graph.adjacency.tocoo())
        as_graph(graph.adjacency).save(scratch / "graph.csv")
        sources = [(graph, 1), (graph, 5), *((scratch / file, 3) for file in ("graph.npz", "scipy.npz", "graph.csv"))]
        found = {tiled(source, scratch / "tiles", parts=parts).fingerprint for source, parts in sources}
        assert found == {graph.fingerprint}
        prints[name] = found.pop()
    more_nodes = as_graph(sp.block_diag([LARGER.adjacency, sp.csr_array((1, 1))]))
    prints["more nodes"] = tiled(more_nodes, scratch / "tiles").fingerprint
    assert prints["more nodes"] == more_nodes.fingerprint
    assert len(set(prints.values())) == 4


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_npz_keeps_all_that_belongs_to_nodes(scratch, parts, sparse, packed, monkeypatch):
    monkeypatch.setattr(build, "_LARGEST_CHUNK", 7)  # so that rows of features end anywhere in a piece
    features = sp.random_array((9, 11), density=0.3, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
    graph = as_graph(
        ([[0, 5, 8, 1], [5, 0, 1, 8]], 9),
        features=features if sparse else features.toarray(),
        labels=[0, 1, -1, 2, 0, 0, 1, 1, 2],
        split=Split(np.array([1, 0]), np.array([], int), np.array([8])),
        names=["a", "b", "ä", "", "long name", "0", "1", "x,y", "\n"],
    )
    graph.save(scratch / "graph.npz")
    if not packed:
        with np.load(scratch / "graph.npz") as arrays:
            np.savez(scratch / "graph.npz", **arrays)
    found = tiled(scratch / "graph.npz", scratch / "tiles", parts=parts)
    assert found.to_graph() == graph == load_graph(scratch / "graph.npz")
    assert sp.issparse(found.features(0)) == sparse
    assert (found.feature_width, found.parts) == (11, parts)
    # A Graph in memory with the same features takes another way.
    assert tiled(graph, scratch / "tiles", parts=parts).to_graph() == graph


LISTS = {
    "windows": "0,1\r\n1,2\r\n",
    "old macintosh": "0,1\r1,2\r",
    "byte order mark": "\ufeff0,1\n1,2\n",
    "no newline at the end": "0,1\n1,2",
    "comments and blanks": "# made by hand\n\n0,1\n  % more\n   \n1,2\n#0,2\n",
    "header": "id_a,id_b\n0,1\n1,2\n",
    "known header after a comment": "#\nSource,Target,weight\n0,1,1\n1,2,1\n",
    "quoted": '"10","20"\n"20","30"\n',
    "far apart": "-5,9000000000\n9000000000,7\n",
    "loops name nodes": "4,4\n0,1\n1,0\n",
    "zero weights name nodes": "0,1,1\n1,7,0\n",
    "header alone": "source,target\n",
    "nothing": "# nothing\n\n",
    "one column": "0\n1\n",
    "ragged": "0,1\n1\n",
    "ragged weights": "0,1,1\n1,2,x\n",
    "negative": "0,1,1\n1,2,-3\n",
    "not a number": "0,1,1\n1,2,nan\n",
    "vanishes in 32 bits": "0,1,1\n1,2,1e-60\n",
    "beyond 32 bits": "0,1,1\n1,2,1e60\n",
    "weights apart by rounding": "0,1,1\n1,0,1.000001\n",
    "weights apart": "0,1,1\n1,0,1.0001\n",
    "NUL": "0,1\n1,\x002\n",
}


@pytest.mark.parametrize("chunk", [1, 2, 1 << 20])
@pytest.mark.parametrize("text", LISTS.values(), ids=LISTS)
def test_lists_are_read_or_refused_as_load_graph_does(scratch, monkeypatch, text, chunk):
    path = scratch / "list.csv"
    path.write_text(text, newline="")
    monkeypatch.setattr(build, "_LARGEST_CHUNK", chunk)
    assert outcome(lambda: tiled(path, scratch / "tiles").to_graph()) == outcome(lambda: load_graph(path))


@pytest.mark.parametrize("name", ["list.csv", "list.txt"])
@pytest.mark.parametrize("chunk", [1, 2, 1 << 20])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_line_is_counted_from_the_begin_of_the_file(scratch, monkeypatch, name, chunk, end):
    path = scratch / name
    monkeypatch.setattr(build, "_LARGEST_CHUNK", chunk)
    mark = "," if name == "list.csv" else " "
    for row, message in (("4,\ud8ff", "line 5 is not text in UTF-8"), ("4,5,6", "line 5 has 3 column")):
        lines = ["0,1", "# more", "", "2,3", row, "5,6"]
        text = end.join(line.replace(",", mark).encode("utf-8", "surrogatepass") for line in lines)
        path.write_bytes(text)
        assert message in both(path, scratch / "tiles")


@pytest.mark.parametrize("chunk", [1, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1,2\n\n0,b\n", "line 4 has the name 'b'; .*integers"),
        ("a,b\n", "line 1 has the name 'a'; .*integers"),
    ],
)
def test_names_that_are_texts_are_refused(scratch, monkeypatch, text, message, chunk):
    (scratch / "list.csv").write_text(text)
    monkeypatch.setattr(build, "_LARGEST_CHUNK", chunk)
    with pytest.raises(GraphError, match=rf"Cannot read .*list\.csv: {message}"):
        tiled(scratch / "list.csv", scratch / "tiles")


def parquet(path, nodes=None, **columns):
    table = pa.table(columns)
    if nodes is not None:
        table = table.replace_schema_metadata({"garnet:num_nodes": str(nodes)})
    pa.parquet.write_table(table, path, row_group_size=2)
    return path


def parts(folder, tables, nodes=None):
    """A folder as Spark writes one."""
    folder.mkdir()
    for number, columns in enumerate(tables):
        parquet(folder / f"part-{number}.snappy.parquet", nodes, **columns)
    for other in ("_SUCCESS", "_metadata.parquet", ".part-0.snappy.parquet.crc", ".hidden.parquet", "notes.txt"):
        (folder / other).write_bytes(b"not in Parquet")
    return folder


def both(source, folder, **options):
    """What `load_graph` and tiles say of a list: the same, or it is a fault."""
    read = outcome(lambda: load_graph(source, **options))
    assert outcome(lambda: tiled(source, folder, parts=2, **options).to_graph()) == read
    return read


def test_parquet_is_an_edge_list(scratch):
    path, folder = scratch / "list.parquet", scratch / "tiles"
    expected = as_graph(np.array([[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]), names=[-4, 7, 30])
    named = parquet(path, time=[1, 2, 3], Weight=[0.5, 2, 2], dst=[7, 30, 30], src=[-4, 7, 7])
    assert both(named, folder) == expected
    assert both(parquet(path, a=[-4, 7], b=[7, 30], w=[0.5, 2.0]), folder) == expected
    plain = as_graph(expected.adjacency.astype(bool), names=[-4, 7, 30])
    assert both(parquet(path, a=[-4, 30], b=[7, 7]), folder) == plain
    directed = parquet(path, a=[-4, 30, 7], b=[7, 7, 30])
    assert both(directed, folder, symmetrize=True) == plain
    assert "list.parquet: the graph is directed: 1 of its 3 edges" in both(directed, folder)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows, cuts=st.lists(st.integers(0, 40), max_size=3), numbered=st.booleans(), symmetrize=st.booleans())
def test_a_list_cut_into_parquet_files_is_the_list(scratch, rows, cuts, numbered, symmetrize):
    folder = Path(mkdtemp(dir=scratch))
    places = [0, *sorted(cuts), None]
    columns = [np.array([row[place] for row in rows], kind) for place, kind in enumerate((np.int32, np.uint64, float))]
    tables = [
        dict(zip(("u", "v", "weight"), (column[first:last] for column in columns), strict=True))
        for first, last in pairwise(places)
    ]
    found = both(parts(folder / "list", tables, 10 if numbered else None), folder / "tiles", symmetrize=symmetrize)
    if numbered:
        # The same pairs as a matrix say which graph it is, but a matrix has to have both directions.
        one_way = {(u, v) for u, v, weight in rows if u != v and weight}
        once = not any((v, u) in one_way for u, v in one_way)
        matrix = np.zeros((10, 10))
        for u, v, weight in rows:
            matrix[u, v] = max(matrix[u, v], weight)
        expected = outcome(lambda: as_graph(matrix, symmetrize=symmetrize or once))
    elif rows:
        text = folder / "list.csv"
        text.write_text("".join(f"{u},{v},{weight!r}\n" for u, v, weight in rows))
        expected = outcome(lambda: load_graph(text, symmetrize=symmetrize))
    else:
        expected = as_graph(np.zeros((0, 0)), names=np.zeros(0, int))
    if isinstance(found, str):
        assert isinstance(expected, str)
        assert found.partition(": ")[2] == expected.rpartition("list.csv: ")[2].replace("The graph", "the graph")
    else:
        assert found == expected


def test_nodes_without_edges_are_known_by_their_number(scratch):
    tables = [{"source": [4], "target": [1]}, {"source": [0], "target": [1]}]
    found = both(parts(scratch / "list", tables, 9), scratch / "tiles")
    assert found == as_graph((np.array([[4, 0], [1, 1]]), 9), symmetrize=True)
    extent = extent_of(scratch / "list")
    shape = extent.shape
    assert (shape.nodes, shape.edges, extent.pairs, extent.exact, extent.text) == (9, 2, 2, True, False)
    short = parts(scratch / "short", tables, 4)
    for read in (load_graph, lambda path: tiled(path, scratch / "tiles")):
        with pytest.raises(GraphError, match=r"Cannot read .*short.*: node 4 does not exist: the graph has 4 nodes"):
            read(short)


def test_names_that_are_texts_are_read_from_parquet_in_memory_alone(scratch):
    folder = parts(scratch / "list", [{"a": ["x", "é"], "b": ["y", "x"]}, {"a": ["y"], "b": ["z"]}])
    assert load_graph(folder) == as_graph(([[0, 1, 0], [1, 2, 3]], 4), names=["x", "y", "z", "é"], symmetrize=True)
    with pytest.raises(GraphError, match=r"part-0.*column 'a' has type string; .* without a memory limit texts\.$"):
        tiled(folder, scratch / "tiles")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            [{"a": [1], "b": [2]}, {"a": [1], "c": [2]}],
            r"part-1.*its columns are a, c where those of part-0.* are a, b",
        ),
        ([{"a": [1], "b": [2]}, {"a": [1], "b": [2], "w": [0.5]}], r"part-1.*its columns are a, b, w where"),
        ([{"a": [1], "b": [2]}, {"a": [1]}], r"part-1.*it has 1 column\(s\)"),
        ([{"a": [1], "b": [2]}, {"a": [1.5], "b": [2]}], r"part-1.*column 'a' has type double"),
        ([], r"list: it is a folder without \.parquet files"),
    ],
)
def test_a_folder_that_is_no_list_is_refused(scratch, tables, message):
    assert re.search(rf"^Cannot read .*{message}", both(parts(scratch / "list", tables), scratch / "tiles"))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (["5", "6"], r"part-1.*number of nodes as 6 where part-0.* has 5"),
        (["5", None], r"part-1.*number of nodes as None where part-0.* has 5"),
        (["many"], r"part-0.*number of nodes as b'many', which is no number"),
        (["9" * 17], r"declares 9+ nodes for 1 entries, which no real graph has"),
    ],
)
def test_numbers_of_nodes_that_cannot_be_are_refused(scratch, nodes, message):
    for number, count in enumerate(nodes):
        parquet(scratch / f"part-{number}.parquet", count, a=[1], b=[2])
    assert re.search(message, both(scratch, scratch / "tiles"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [0.5], "b": [1.0]}, "column 'a' has type double; .*integers"),
        ({"a": np.array([2**64 - 1], np.uint64), "b": [1]}, "column 'a' has type uint64; .*integers of 64 bits"),
        ({"a": [1, None], "b": [1, 2]}, "column 'a' has missing values"),
        ({"a": [1]}, r"1 column\(s\)"),
        ({"a": [1], "b": [2], "weight": ["heavy"]}, "column 'weight' of weights has type string"),
        ({"a": [1], "b": [2], "weight": [-1.0]}, "must not be negative. Got -1"),
    ],
)
def test_what_is_no_edge_list_in_parquet_is_refused(scratch, columns, message):
    path = parquet(scratch / "list.parquet", **columns)
    assert re.search(rf"Cannot read .*list\.parquet: .*{message}", both(path, scratch / "tiles"))


def test_a_damaged_parquet_file_is_refused(scratch):
    folder = parts(scratch / "list", [{"a": list(range(100)), "b": list(range(1, 101))}] * 2)
    path = folder / "part-1.snappy.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    assert "part-1.snappy.parquet: it is not a whole Parquet file" in both(folder, scratch / "tiles")


def test_what_parquet_needs_is_said(scratch, monkeypatch):
    path = parquet(scratch / "list.parquet", a=[1], b=[2])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for read in (open_source, load_graph):
        with pytest.raises(MissingExtra, match=r"A Parquet file needs .*pip install 'pygarnet\[parquet\]'"):
            read(path)


HOSTILE = {
    "index beyond": {"adj_indices": [1, 7]},
    "negative index": {"adj_indices": [1, -1]},
    "pointers fall": {"adj_indptr": [0, 2, 1]},
    "pointers too few": {"adj_indptr": [0, 2]},
    "data too short": {"adj_data": [1.0]},
    "NaN": {"adj_data": [1.0, np.nan]},
    "not square": {"adj_shape": [2, 3]},
    "huge": {"adj_shape": [2**40, 2**40]},
    "text": {"adj_data": ["a", "b"]},
    "features of other nodes": {"attr_matrix": np.zeros((3, 2))},
    "features not finite": {"attr_matrix": np.full((2, 2), np.inf)},
    "sparse features of other nodes": {
        "attr_data": [1.0], "attr_indices": [0], "attr_indptr": [0, 1], "attr_shape": [1, 2]
    },
    "labels too few": {"labels": [1]},
    "names twice": {"names": [4, 4]},
    "split outside": {"idx_train": [2]},
}  # fmt: skip


@pytest.mark.parametrize("arrays", HOSTILE.values(), ids=HOSTILE)
def test_what_load_graph_refuses_in_npz_is_refused_in_the_same_words(scratch, arrays):
    good = {"adj_data": [1.0, 1.0], "adj_indices": [1, 0], "adj_indptr": [0, 1, 2], "adj_shape": [2, 2]}
    path = scratch / "graph.npz"
    np.savez(path, **(good | arrays))
    found, expected = outcome(lambda: tiled(path, scratch / "tiles")), outcome(lambda: load_graph(path))
    assert isinstance(expected, str)
    assert found == expected
    assert not (scratch / "tiles" / MANIFEST).exists()


def test_features_by_columns_are_refused(scratch):
    pieces = {"data": [1.0, 1.0], "indices": [1, 0], "indptr": [0, 1, 2], "shape": [2, 2]}
    features = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.savez(scratch / "graph.npz", **{f"adj_{name}": piece for name, piece in pieces.items()}, attr_matrix=features)
    with pytest.raises(GraphError, match="save it row by row"):
        open_source(scratch / "graph.npz")


@pytest.mark.parametrize("damage", ["checksum", "cut"])
def test_a_damaged_archive_is_refused_however_it_is_read(scratch, damage):
    path = scratch / "graph.npz"
    matrix = LARGER.adjacency
    pieces = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    np.savez(path, **{f"adj_{name}": piece for name, piece in pieces.items()})
    raw = bytearray(path.read_bytes())
    place = raw.index(matrix.indices.tobytes()[:64]) + 40
    raw[place] ^= 1  # another neighbour, which only the checksum gives away
    path.write_bytes(raw if damage == "checksum" else raw[: place + 1])
    with pytest.raises(GraphError, match=r"Cannot read .*graph\.npz: .*(CRC|zip)"):
        tiled(path, scratch / "tiles")


@pytest.mark.parametrize("name", ["graph.mtx", "graph.pt", "graph"])
def test_what_cannot_be_read_in_pieces_is_said(scratch, name):
    with pytest.raises(GraphError, match=r"must end in \.npz, \.csv, \.tsv, \.txt, \.edges, \.parquet "):
        open_source(scratch / name)
    with pytest.raises(GraphError, match=r"there is no such file"):
        open_source(scratch / "graph.npz")


def test_too_little_memory_is_said_before_anything_is_read(scratch):
    with pytest.raises(
        GarnetError, match=rf"memory of 0\.2 GB is too small for a graph of {LARGER.num_nodes} nodes; give 0\.\d\d GB"
    ):
        build_tiles(LARGER, scratch / "tiles", memory=200_000_000)


def test_an_empty_list_has_no_nodes(scratch):
    (scratch / "list.csv").write_text("source,target\n")
    assert extent_of(scratch / "list.csv").shape.nodes == 0
