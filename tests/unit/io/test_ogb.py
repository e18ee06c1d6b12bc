import gzip

import numpy as np
import pytest

from garnet import Split, as_graph, load_graph, machine
from garnet.datasets import block_model, class_features, random_split
from garnet.errors import GraphError
from garnet.graph.files import open_source

FILES = {
    "raw/num-node-list.csv.gz": "4\n",
    "raw/edge.csv.gz": "0,1\n1,2\n2,1\n",
    "raw/node-feat.csv.gz": "0.5,1\n-1e-3,2\n0,3\n7,4\n",
    "raw/node-label.csv.gz": "2\nnan\n0.0\n1\n",
    "split/time/train.csv.gz": "3\n0\n",
    "split/time/valid.csv.gz": "1\n",
    "split/time/test.csv.gz": "",
}
SMALL = as_graph(
    (np.array([[0, 1], [1, 2]]), 4),
    features=np.array([[0.5, 1], [-1e-3, 2], [0, 3], [7, 4]]),
    labels=[2, -1, 0, 1],
    split=Split(np.array([0, 3]), np.array([1]), np.zeros(0, int)),
    symmetrize=True,
)


def read_ogb(folder):
    return load_graph(folder, symmetrize=True)


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else gzip.compress(content.encode()))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, FILES)
    return tmp_path


def test_everything_is_read(folder):
    assert read_ogb(folder) == SMALL
    assert read_ogb(str(folder)).features.dtype == np.float32


def test_load_graph_reads_the_folder_too(folder):
    assert load_graph(folder, symmetrize=True) == as_graph(folder, symmetrize=True) == SMALL
    with pytest.raises(GraphError, match=r"Cannot read .*: the graph is directed: 1 of its 3 edges"):
        load_graph(folder)
    with pytest.raises(GraphError, match=r"raw: it is a folder without \.parquet files and without raw/edge\.csv\.gz"):
        load_graph(folder / "raw")


@pytest.mark.parametrize("ends", ["\r\n", "\n\n"])
def test_line_ends_of_others(folder, ends):
    write(folder, {name: content.replace("\n", ends) for name, content in FILES.items()})
    assert read_ogb(folder) == SMALL


def test_no_newline_at_the_end(folder):
    write(folder, {name: content.removesuffix("\n") for name, content in FILES.items()})
    assert read_ogb(folder) == SMALL


def test_only_edges_and_their_number_are_needed(tmp_path):
    write(tmp_path, dict(list(FILES.items())[:2]))
    assert read_ogb(tmp_path) == as_graph((np.array([[0, 1], [1, 2]]), 4), symmetrize=True)


def test_a_graph_without_edges(folder):
    write(folder, {"raw/edge.csv.gz": ""})
    assert read_ogb(folder).num_edges == 0


@pytest.mark.parametrize("chunk", [10, 16, 250, 1 << 22, None])
def test_a_larger_graph_comes_back_whole_from_pieces_of_any_size(tmp_path, chunk):
    labels = block_model(300, seed=1).labels
    graph = as_graph(
        block_model(300, seed=1),
        features=class_features(labels, dim=3, signal=1.0, seed=2),
        split=random_split(labels, seed=3),
    )
    rows = {
        "raw/num-node-list.csv.gz": [[300]],
        "raw/edge.csv.gz": graph.edges.T,
        "raw/node-feat.csv.gz": graph.features,
        "raw/node-label.csv.gz": graph.labels[:, None],
        "split/random/train.csv.gz": graph.split.train[::-1, None],
        "split/random/valid.csv.gz": graph.split.val[:, None],
        "split/random/test.csv.gz": graph.split.test[:, None],
    }
    write(tmp_path, {name: "".join(",".join(map(str, row)) + "\n" for row in table) for name, table in rows.items()})
    assert read_ogb(tmp_path) == graph
    source = open_source(tmp_path)
    heads, tails = (np.concatenate(ends) for ends in zip(*(piece[:2] for piece in source.edges(chunk)), strict=True))
    assert np.array_equal([heads, tails], graph.edges)
    assert np.array_equal(np.concatenate(list(source.features.rows(chunk))), graph.features)


def test_a_line_without_end_is_refused(folder):
    digits = np.random.default_rng(0).integers(ord("0"), ord("9"), 18_000_000, dtype=np.uint8).tobytes()
    write(folder, {"raw/edge.csv.gz": gzip.compress(digits, 1)})
    with pytest.raises(GraphError, match=r"edge\.csv\.gz: it has a line of more than 16777216 characters"):
        read_ogb(folder)


DAMAGED = [
    ("raw/num-node-list.csv.gz", None, "no such file"),
    ("raw/num-node-list.csv.gz", "3\n4\n", "it must hold the number of nodes of one graph. Got [3, 4] instead"),
    ("raw/num-node-list.csv.gz", "", "Got [] instead"),
    ("raw/num-node-list.csv.gz", "-4", "Got [-4] instead"),
    ("raw/num-node-list.csv.gz", "many", "line 1 has 'many', which is not an integer"),
    ("raw/num-node-list.csv.gz", "99999999999", "it declares 99999999999 nodes for "),
    ("raw/edge.csv.gz", b"0,1\n", "it is not a whole gzip file"),
    ("raw/edge.csv.gz", gzip.compress(b"0,1\n" * 1000)[:-9], "it is not a whole gzip file"),
    ("raw/edge.csv.gz", "0,1\n0,4\n", "line 2 has node 4, but the graph has 4 nodes"),
    ("raw/edge.csv.gz", "0,1\n\n-1,2\n", "has node -1, but the graph has 4 nodes"),
    ("raw/edge.csv.gz", "0,1\n1\n", "line 2 has 1 column(s) but must have 2"),
    ("raw/edge.csv.gz", "0,1,2\n", "line 1 has 3 column(s) but must have 2"),
    ("raw/edge.csv.gz", "0,1\n2,1.5\n", "line 2 has '1.5', which is not an integer"),
    ("raw/edge.csv.gz", "0,1\n2,\n", "line 2 has '', which is not an integer"),
    ("raw/edge.csv.gz", "0,1\n2,99999999999999999999\n", "line 2 has '99999999999999999999', which is not"),
    ("raw/edge.csv.gz", gzip.compress(b"0,1\n1,\xff\n"), "line 2 has"),
    ("raw/node-feat.csv.gz", "1,2\n" * 3, "it has 3 rows but must have 4"),
    ("raw/node-feat.csv.gz", "1,2\n" * 5, "it has more rows than the graph has nodes, 4"),
    ("raw/node-feat.csv.gz", "", "it has 0 rows but must have 4"),
    ("raw/node-feat.csv.gz", "1,2\n1,2\n1\n1,2\n", "line 3 has 1 column(s) but must have 2"),
    ("raw/node-feat.csv.gz", "1,2\n1,2\n1,nan\n1,2\n", "line 3 has a feature that is NaN or infinite"),
    ("raw/node-feat.csv.gz", "1,2\n1,2\n1,1e60\n1,2\n", "line 3 has a feature that is NaN or infinite"),
    ("raw/node-feat.csv.gz", "1,2\n1,2\n1,x\n1,2\n", "line 3 has 'x', which is not a number"),
    ("raw/node-label.csv.gz", "1\n2\n", "it has 2 rows but must have 4"),
    ("raw/node-label.csv.gz", "1\n" * 5, "it has more rows than the graph has nodes"),
    ("raw/node-label.csv.gz", "1\n2.5\n1\n1\n", "line 2 has the label 2.5, which is no class"),
    ("raw/node-label.csv.gz", "1\n1\n1\ninf\n", "line 4 has the label inf, which is no class"),
    ("raw/node-label.csv.gz", "1,0\n" * 4, "it has 2 labels a node"),
    ("split/time/valid.csv.gz", None, "no such file"),
    ("split/time/valid.csv.gz", "4\n", "line 1 has node 4"),
    ("split/time/valid.csv.gz", "1\n" * 5, "it has more rows than the graph has nodes"),
]


@pytest.mark.parametrize(("name", "content", "phrase"), DAMAGED, ids=[f"{d[0]} {d[2]}"[:70] for d in DAMAGED])
def test_a_damaged_file_is_named_with_its_fault(folder, name, content, phrase):
    if content is None:
        (folder / name).unlink()
    else:
        write(folder, {name: content})
    with pytest.raises(GraphError) as caught:
        read_ogb(folder)
    assert str(caught.value).startswith(f"Cannot read {folder / name}: ")
    assert phrase in str(caught.value)


def test_a_node_in_two_parts_is_refused(folder):
    write(folder, {"split/time/test.csv.gz": "3\n"})
    with pytest.raises(GraphError, match=r"Cannot read .*: a split names a node twice"):
        read_ogb(folder)


@pytest.mark.parametrize(
    ("name", "content"), [("raw/edge.csv.gz", "0,1\n" * 2000), ("raw/node-feat.csv.gz", "1," * 9999)]
)
def test_more_than_the_memory_is_refused(folder, monkeypatch, name, content):
    monkeypatch.setattr(machine, "physical_memory", lambda: 100_000)
    write(folder, {name: content})
    with pytest.raises(GraphError, match=r"more than this machine's memory"):
        read_ogb(folder)


def test_a_folder_without_edges_is_no_graph_of_ogb(tmp_path):
    with pytest.raises(GraphError, match=r"without raw/edge\.csv\.gz"):
        read_ogb(tmp_path)
