"""What a table says of nodes becomes features, labels and a split, and everything that was guessed is said."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from garnet import NodeTable, as_graph, load_graph
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import read_graph

EDGES = [("ann", "bob"), ("bob", "cy"), ("cy", "dan")]
ACCOUNTS = {
    "account": ["bob", "ann", "eve", "cy"],
    "age": ["30", "", "50", "40"],
    "country": ["DE", "FR", "NA", "DE"],
    "fraud": ["yes", "no", "", "no"],
    "part": ["train", "val", "", "test"],
}
ASKED = {"id": "account", "features": ["age", "country"], "labels": "fraud", "split": "part"}


def as_csv(path, columns=ACCOUNTS):
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    return path


def test_a_table_of_nodes_is_joined_by_names(tmp_path):
    graph = as_graph(EDGES, nodes=as_csv(tmp_path / "accounts.csv"), **ASKED)
    assert graph.names.tolist() == ["ann", "bob", "cy", "dan", "eve"]
    assert graph.labels.tolist() == [0, 1, 0, -1, -1]  # no, yes
    assert [part.tolist() for part in (graph.split.train, graph.split.val, graph.split.test)] == [[1], [0], [2]]
    assert graph.degrees.tolist() == [1, 2, 2, 1, 0]
    known = np.array([30.0, 50.0, 40.0])
    bob, eve, cy = (known - known.mean()) / known.std()
    assert graph.features[:, 0] == pytest.approx([0, bob, cy, 0, eve])
    assert graph.features[:, 1].tolist() == [1, 0, 0, 1, 0]  # whose age is missing
    assert graph.features[:, 2:].tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]]


def test_every_form_of_a_table_says_the_same(tmp_path):
    path = as_csv(tmp_path / "accounts.csv")
    expected = as_graph(EDGES, nodes=path, **ASKED)
    numbers = {**ACCOUNTS, "age": [30.0, None, 50.0, 40.0]}
    pa.parquet.write_table(pa.table(numbers), tmp_path / "accounts.parquet")
    for table in (ACCOUNTS, pa.table(numbers), tmp_path / "accounts.parquet"):
        assert as_graph(EDGES, nodes=table, **ASKED) == expected
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in EDGES))
    assert load_graph(tmp_path / "edges.csv", nodes=NodeTable(path, **ASKED)) == expected


def test_what_was_made_of_the_columns_is_said(tmp_path):
    _, report = read_graph(EDGES, nodes=NodeTable(as_csv(tmp_path / "accounts.csv"), **ASKED))
    said = "\n".join(report.notes)
    for words in ("4 nodes from accounts.csv", "1 of them without edges", "1 nodes are not in it", "2 missing",
                  "0 = no, 1 = yes; 2 unknown", "1 train, 1 val, 1 test"):  # fmt: skip
        assert words in said
    _, report = read_graph(EDGES, nodes=NodeTable(as_csv(tmp_path / "accounts.csv"), id="account"))
    assert "not read: age, country, fraud, part" in report.notes[0]


def test_integers_number_classes_in_their_order():
    nodes = {"id": [1, 2, 3], "label": [10, 2, 10]}
    assert as_graph([(1, 2), (2, 3)], nodes=nodes, labels="label").labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("columns", "asked", "message"),
    [
        (ACCOUNTS, {}, r"say which one has the names of the nodes, such as --id account"),
        (ACCOUNTS, {"id": "acount"}, "no column 'acount' for the names of nodes, only account"),
        (ACCOUNTS, {"id": "account", "features": ["agee"]}, "no column 'agee'"),
        (ACCOUNTS, {"id": "account", "features": "age"}, "a list of the names of its columns, or 'all'. Got 'age'"),
        (ACCOUNTS, {"id": "account", "labels": "fraud", "features": ["fraud"]}, "'fraud' .* asked for twice"),
        (ACCOUNTS, {"id": "account", "split": "country"}, r"'DE' in row 0, .* a part is train, val or test"),
        (ACCOUNTS, {"id": "country"}, "has no name in row 2, .* of its column 'country'"),
        ({**ACCOUNTS, "account": ["ann", "bob", "ann", "x"]}, {"id": "account"}, "names the node ann twice"),
        ({**ACCOUNTS, "account": ["w", "x", "y", "z"]}, {"id": "account"}, "No edge has a node of"),
        ({**ACCOUNTS, "age": ["1", "2", "inf", "3"]}, {"id": "account", "features": ["age"]}, "'age' has inf in row 2"),
        ({**ACCOUNTS, "account": [1.5, 2.5, 3.5, 4.5]}, {"id": "account"}, "names are integers or texts"),
    ],
)
def test_what_does_not_fit_is_one_sentence(columns, asked, message):
    with pytest.raises(GraphError, match=message):
        as_graph(EDGES, nodes=columns, **asked)


def test_too_many_categories_are_no_features():
    nodes = {"id": [*map(str, range(300))], "note": [f"note {i}" for i in range(300)]}
    with pytest.raises(GraphError, match="'note' has 300 different values"):
        as_graph([("0", "1")], nodes=nodes, features=["note"])


def test_columns_without_a_table_are_refused():
    with pytest.raises(GraphError, match="no table of nodes that could have the column 'fraud'"):
        as_graph(EDGES, labels="fraud")
    with pytest.raises(GraphError, match="no table of nodes that could have the column 'account'"):
        as_graph(EDGES, id="account")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("accounts.csv", "account,age\nann,1\nbob\n", "row 2 has 1 column"),
        ("accounts.csv", "", "it has no rows"),
        ("accounts.json", "{}", "a table of nodes ends in"),
        ("accounts.parquet", "no parquet", "not a whole Parquet file"),
        ("accounts.csv", "account;a,b\nann;1,2\n", "can be divided at"),
    ],
)
def test_broken_files_are_one_sentence(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(GraphError, match=message):
        as_graph(EDGES, nodes=tmp_path / name, id="account")
    with pytest.raises(GraphError, match="there is no such file"):
        as_graph(EDGES, nodes=tmp_path / "missing.csv", id="account")


def test_classes_keep_their_names(tmp_path):
    table = {"id": ["ann", "bob", "cy", "dan"], "kind": ["shop", "person", None, "shop"]}
    graph = as_graph(EDGES, nodes=table, labels="kind")
    assert graph.label_names.tolist() == ["person", "shop"]
    place = {name: i for i, name in enumerate(graph.names.tolist())}
    assert [graph.labels[place[name]] for name in ("ann", "bob", "cy")] == [1, 0, -1]
    graph.save(tmp_path / "graph.npz")
    assert load_graph(tmp_path / "graph.npz") == graph
    assert as_graph(graph, labels=np.zeros(graph.num_nodes, int)).label_names is None
    assert as_graph(EDGES, nodes={"id": ["ann"], "kind": [0]}, labels="kind").label_names is None


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["one"], "none for class 1"),
        (["a", "a"], "same name"),
        ([1, 2], "label_names"),
        ([["a", "b"]], "label_names"),
    ],
)
def test_names_of_classes_in_a_file_are_checked(tmp_path, names, message):
    as_graph(([[0, 1], [1, 0]], 2), labels=[0, 1]).save(tmp_path / "graph.npz")
    with np.load(tmp_path / "graph.npz") as arrays:
        np.savez(tmp_path / "other.npz", **arrays, label_names=np.array(names))
    with pytest.raises(GraphError, match=message):
        load_graph(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("text", "asked", "message"),
    [
        ("id,x\nann,1\nann,2\n", {"features": ["x"]}, "names the node ann twice"),
        ("id,x\nzoe,1\n", {"features": ["x"]}, "No edge has a node of nodes.csv.*'zoe'"),
        ("id,x\nann,1\n", {"labels": "fraud"}, "no column 'fraud'.*only id, x"),
        ("id,x\nann,1\nbob,inf\n", {"features": "all"}, "has inf in row 1"),
        ("id,x\nann,1e308\nbob,-1e308\n", {"features": "all"}, "too large to be scaled"),
        ("id,x,x\nann,1,2\n", {"features": "all"}, "2 columns of the name 'x'"),
        ('id,x\nann,"1\nbob,2\n', {"features": "all"}, "line 2 has a quote that is never closed"),
        ('"id,x\nann,1\n', {"features": "all"}, "a quote that is not closed"),
        ("id,x\nann,1\n" + "," * 3_000_000, {"features": "all"}, "line 3 has more than 1048576 characters"),
        ("id" + ",x" * 1_000_000 + "\n", {"features": "all"}, "columns; a table of nodes may have"),
    ],
)
def test_hostile_tables_are_one_sentence(tmp_path, text, asked, message):
    (tmp_path / "nodes.csv").write_text(text)
    with pytest.raises(GraphError, match=message) as refused:
        as_graph(EDGES, nodes=tmp_path / "nodes.csv", **asked)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("asked", [{"encoding": "klingon"}, {"delimiter": ";;"}])
def test_what_no_text_has_is_refused(asked):
    with pytest.raises(ParameterError, match="of a table must be"):
        NodeTable("accounts.csv", **asked)


@pytest.mark.parametrize("values", [np.ones((2, 2)), 1])
def test_columns_have_one_value_a_row(values):
    with pytest.raises(GraphError, match="one value a row"):
        as_graph(EDGES, nodes={"id": ["ann", "bob"], "x": values}, features=["x"])


def test_a_missing_number_is_the_mean_and_told(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,x\nann,1\nbob,NaN\ncy,3\ndan,2\n")
    graph = as_graph(EDGES, nodes=tmp_path / "nodes.csv", features=["x"])
    assert graph.features[1].tolist() == [0, 1]


def test_a_table_that_knows_its_columns_is_asked_nothing_more(tmp_path):
    table = NodeTable(as_csv(tmp_path / "accounts.csv"), **ASKED)
    assert as_graph(EDGES, nodes=table) == as_graph(EDGES, nodes=tmp_path / "accounts.csv", **ASKED)
    with pytest.raises(GraphError, match="give labels to it"):
        as_graph(EDGES, nodes=table, labels="fraud")
