"""Tables of edges as people have them: whatever is not beyond doubt is asked for."""

import csv
import io

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from garnet import as_graph, load_graph
from garnet.errors import GarnetError, GraphError, ParameterError
from garnet.graph.graph import read_graph
from garnet.io.table_layout import TableOptions

PAYMENTS = """txid;sender;receiver;amount;time
1;alice;bob;10,5;2024-01-01
2;bob;carol;3;2024-01-02
3;alice;bob;4;2024-01-03
4;carol;carol;1;2024-01-03
5;dave;alice;7;2024-01-04
"""


def write(path, text, encoding="utf-8"):
    path.write_text(text, encoding=encoding, newline="")
    return path


def weights_of(graph):
    """The weight of each edge by the names of its ends."""
    names = np.arange(graph.num_nodes) if graph.names is None else graph.names
    return {
        tuple(sorted(names[[u, v]].tolist())): float(w) for u, v, w in zip(*graph.edges, graph.weights, strict=True)
    }


def report(path, **options):
    return read_graph(path, TableOptions(**options))[1]


def test_columns_are_named_and_the_rest_is_said_to_be_unread(tmp_path):
    path = write(tmp_path / "pay.csv", PAYMENTS)
    graph = load_graph(path, source="sender", target="receiver", weight="amount", decimal=",")
    assert weights_of(graph) == {("alice", "bob"): 10.5, ("bob", "carol"): 3, ("alice", "dave"): 7}
    assert graph == load_graph(path, source="2", target=3, weight=4, decimal=",")
    found = report(path, source="sender", target="receiver")
    assert (found.pairs, found.loops, found.repeated, found.nodes, found.edges) == (5, 1, 1, 4, 3)
    for word in ("semicolons", "txid", "amount", "time", "1 loop dropped", "1 duplicate merged"):
        assert word in str(found)


@pytest.mark.parametrize(("rule", "weight"), [("max", 10.5), ("sum", 14.5), ("count", 2.0), ("first", 10.5)])
def test_duplicates_are_merged_by_the_rule(tmp_path, rule, weight):
    path = write(tmp_path / "pay.csv", PAYMENTS)
    graph = load_graph(path, source="sender", target="receiver", weight="amount", decimal=",", duplicates=rule)
    assert weights_of(graph)["alice", "bob"] == weight


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=30),
    rule=st.sampled_from(["max", "sum", "count", "first"]),
)
def test_duplicates_agree_with_going_through_the_rows(rows, rule):
    merged = {}
    for u, v, w in rows:
        if u != v:
            merged.setdefault((u, v), []).append(w)
    one = {"max": max, "sum": sum, "count": len, "first": lambda some: some[0]}[rule]
    directed = {pair: one(some) for pair, some in merged.items()}
    mirrored = all(directed.get((v, u)) == w for (u, v), w in directed.items())
    expected = {}
    for u, v, _ in rows:  # in the order of the rows, so that the first of both directions is known
        pair = (min(u, v), max(u, v))
        if u == v or pair in expected:
            continue
        both = [directed[way] for way in ((u, v), (v, u)) if way in directed]
        expected[pair] = both[0] if mirrored or rule == "first" else one(both) if rule in ("max", "sum") else sum(both)
    found = as_graph(rows, duplicates=rule, symmetrize=True)
    assert weights_of(found) == expected


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
def test_what_divides_all_rows_alike_is_found(tmp_path, mark, ending):
    path = write(tmp_path / f"list.{ending}", f"a{mark}b\nb{mark}c\nc{mark}d\n")
    assert load_graph(path).num_edges == 3
    assert load_graph(path, delimiter=mark) == load_graph(path)


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("source,target\na,b\n", True),
        ("Sender,Receiver\na,b\nb,c\n", True),
        ("left,right\n1,2\n2,3\n", True),
        ("left,right,w\na,b,1\nb,c,2\n", True),
        ("a,b\nb,c\n", False),
        ("1,2\n2,3\n", False),
        ("a,b\n", False),
        ("hub,a\nhub,b\nhub,c\n", False),
        ("a,b,1\nc,d,2\n", False),
        ("x,y\na,b\nc,d\nd,x\n", False),
    ],
)
def test_a_header_is_told_from_an_edge(tmp_path, text, header):
    path = write(tmp_path / "list.csv", text)
    rows = len(text.splitlines()) - header
    assert report(path).pairs == rows
    assert load_graph(path) == load_graph(path, header=header)


def test_a_header_in_doubt_is_asked_for(tmp_path):
    path = write(tmp_path / "list.csv", "teller,hearer\nann,bob\ncy,dan\n")
    with pytest.raises(GraphError, match=r"'teller,hearer'.*--header or --no-header"):
        load_graph(path)
    assert load_graph(path, header=True).num_nodes == 4
    assert load_graph(path, header=False).num_nodes == 6
    assert load_graph(path, source="teller", target="hearer").num_nodes == 4


def test_a_supposed_header_that_names_a_node_is_asked_for(tmp_path):
    rows = "".join(f"{i},{i + 1}\n" for i in range(300))
    path = write(tmp_path / "list.csv", f"ann,bob\n{rows}ann,7\n")
    with pytest.raises(GraphError, match="may be a header or an edge"):
        load_graph(path)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (PAYMENTS.replace("sender", "a").replace("receiver", "b"), {}, "its columns are txid, a, b, amount, time; say"),
        ("nameOrig,x,nameDest\na,1,b\n", {}, "--source nameOrig --target nameDest"),
        ("1,2,3,4\n2,3,4,5\n", {}, r"4 columns without names \(1: '1', 2: '2'.*--source 1 --target 2"),
        (PAYMENTS, {"source": "sendr", "target": "receiver"}, "no column 'sendr', only txid.*did you mean 'sender'"),
        (PAYMENTS, {"source": 2, "target": 9}, "no column 9, only 1 to 5"),
        (PAYMENTS, {"source": "sender", "target": "receiver", "weight": "sender"}, "cannot be their weight"),
        (PAYMENTS, {"source": "sender", "target": "receiver", "weight": "amount"}, r"'10,5'.*--decimal ,"),
        (PAYMENTS, {"source": "sender", "target": "receiver", "weight": "time"}, "line 2 has the weight '2024-01-01'"),
        ("a,b,a\n1,2,3\n", {"source": "a", "target": "b"}, "2 columns of the name 'a'"),
        ("source,target,w,weight\n1,2,3,4\n", {}, "'w' and 'weight'"),
        ("1;2;1,5\n2;3;2,5\n", {}, "can be divided at ',' .*at ';'|can be divided at"),
        ("1,2\n2,3\n", {"weight": "amount"}, "no column 'amount'|columns have no names"),
    ],
)
def test_what_is_in_doubt_is_refused_with_what_to_say(tmp_path, text, options, message):
    with pytest.raises(GraphError, match=message):
        load_graph(write(tmp_path / "list.csv", text), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "a"}, "source 'a', and the other is not; give target"),
        ({"source": "a", "target": "a"}, "cannot be the column 'a'"),
        ({"source": 0, "target": 1}, "'source' of a table must be .* Got 0"),
        ({"source": True, "target": 1}, "Got True"),
        ({"delimiter": ";;"}, "'delimiter' of a table must be one character. Got ';;'"),
        ({"delimiter": '"'}, "stand between cells"),
        ({"decimal": "'"}, "must be '.' or ','"),
        ({"encoding": "klingon"}, "such as latin-1 or utf-16. Got 'klingon'"),
        ({"encoding": "zlib"}, "Got 'zlib'"),
        ({"duplicates": "mean"}, "max, sum, count or first. Got 'mean'"),
        ({"header": "yes"}, "True, False or None. Got 'yes'"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path, options, message):
    with pytest.raises(ParameterError, match=message):
        load_graph(write(tmp_path / "list.csv", "a,b\nb,c\n"), **options)


def test_what_is_no_table_has_no_columns_to_choose(tmp_path):
    as_graph([(0, 1)]).save(tmp_path / "graph.npz")
    with pytest.raises(ParameterError, match=r"graph\.npz is no table of edges, so it has no source"):
        load_graph(tmp_path / "graph.npz", source="a", target="b")
    with pytest.raises(ParameterError, match="ndarray is no table of edges"):
        as_graph(np.zeros((2, 2)), source="a", target="b")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-8-sig", "cp1252"])
def test_other_encodings_are_read_where_they_are_named(tmp_path, encoding):
    path = write(tmp_path / "list.csv", "source,target\nJosé,Zoë\nZoë,Ann\n", encoding)
    assert load_graph(path, encoding=encoding).names.tolist() == ["Ann", "José", "Zoë"]
    if encoding != "utf-8-sig":
        with pytest.raises(GraphError, match=r"--encoding (latin-1|utf-16)"):
            load_graph(path)


def test_a_text_in_another_encoding_than_it_is_said_to_be(tmp_path):
    path = write(tmp_path / "list.csv", "José,b\nb,c\n", "latin-1")
    with pytest.raises(GraphError, match="it is not text in utf-16"):
        load_graph(path, encoding="utf-16")


names = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=6).filter(
    lambda name: name == name.strip() and name[0] not in "#%"
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(names, names, st.floats(0.125, 9, width=32), names), min_size=1, max_size=20),
    mark=st.sampled_from([",", ";", "\t"]),
    order=st.permutations([0, 1, 2, 3]),
)
def test_any_table_that_python_writes_is_read_as_it_was_meant(tmp_path, rows, mark, order):
    heads = ["from", "to", "amount", "note"]
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=mark, lineterminator="\n")
    writer.writerows([[row[i] for i in order] for row in [heads, *rows]])
    path = write(tmp_path / "table.csv", stream.getvalue())
    said = {"source": "from", "target": "to", "weight": "amount", "delimiter": mark, "symmetrize": True}
    expected = networkx.Graph()
    for u, v, w, _ in rows:
        if u != v:
            expected.add_edge(u, v, weight=max(w, expected.get_edge_data(u, v, {"weight": 0})["weight"]))
    found = weights_of(load_graph(path, **said))
    whole = {tuple(sorted((u, v))): w for u, v, w in expected.edges(data="weight")}
    if not all(name.lstrip("+-").isascii() and name.lstrip("+-").isdigit() for row in rows for name in row[:2]):
        assert found == pytest.approx(whole)
    assert len(found) <= len(whole)


def test_parquet_is_read_by_the_same_rules(tmp_path):
    path = tmp_path / "pay.parquet"
    columns = {"txid": [1, 2], "payer_id": ["a", "b"], "payee_id": ["b", "c"], "amount": [2.0, 3.0]}
    pa.parquet.write_table(pa.table(columns), path)
    with pytest.raises(GraphError, match="--source payer_id --target payee_id"):
        load_graph(path)
    graph = load_graph(path, source="payer_id", target="payee_id", weight="amount")
    assert weights_of(graph) == {("a", "b"): 2, ("b", "c"): 3}
    with pytest.raises(ParameterError, match="has no delimiter to choose"):
        load_graph(path, delimiter=";")
    assert as_graph(pa.table(columns), source="payer_id", target="payee_id", weight="amount") == graph


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_are_tables(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"txid": [7, 8], "a": ["x", "y"], "b": ["y", "z"], "amount": [1.5, 2.0]})
    with pytest.raises(GraphError, match=r"The table cannot be read as edges: its columns are txid, a, b, amount"):
        as_graph(frame)
    assert weights_of(as_graph(frame, source="a", target="b", weight="amount")) == {("x", "y"): 1.5, ("y", "z"): 2}
    missing = frames.DataFrame({"a": ["x", None], "b": ["y", "z"]})
    with pytest.raises(GraphError, match="'a' has no name in row 1"):
        as_graph(missing)


@pytest.mark.parametrize(
    ("rows", "edges"),
    [
        ([(0, 1), (1, 2)], {(0, 1): 1, (1, 2): 1}),
        ([("a", "b", 2.5)], {("a", "b"): 2.5}),
        ([["a", 7]], {("7", "a"): 1}),
        ([], {}),
    ],
)
def test_lists_of_pairs_are_tables(rows, edges):
    assert weights_of(as_graph(rows)) == edges


@pytest.mark.parametrize("rows", [[(0, 1), (1, 2, 3)], [(0, None)], [(0.5, 1)], [("", "a")], [(0, 1, "heavy")]])
def test_lists_that_are_no_pairs_are_refused(rows):
    with pytest.raises(GarnetError):
        as_graph(rows)


def large_table(rows=60_000, mark=","):
    rng = np.random.default_rng(0)
    heads, tails = rng.integers(5_000, size=(2, rows))
    lines = [
        f"{i}{mark}α-{u}{mark}β-{v}{mark}{u % 7 + 0.25}" for i, (u, v) in enumerate(zip(heads, tails, strict=True))
    ]
    return "\n".join([f"row{mark}sender{mark}receiver{mark}amount", *lines]) + "\n"


@pytest.mark.parametrize("mark", [",", "\t", ";"])
def test_a_large_plain_table_is_what_it_is_with_a_comment(tmp_path, mark):
    text = large_table(mark=mark)
    asked = {"weight": "amount", "duplicates": "sum"}
    plain = load_graph(write(tmp_path / "plain.csv", text), **asked)
    assert plain.num_nodes > 9_000
    assert load_graph(write(tmp_path / "comment.csv", text + "# that was all\n"), **asked) == plain
    assert load_graph(write(tmp_path / "lines.csv", text.replace("\n", "\r\n")), **asked) == plain
    numbers = text.replace("α-", "1").replace("β-", "2")
    graph = load_graph(write(tmp_path / "numbers.csv", numbers), **asked)
    assert graph.names.dtype == np.int64
    assert graph.weights.sum() == pytest.approx(plain.weights.sum())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("7,a,b", "line 60002 has 3 column"),
        ("7,a,b,1,2", "line 60002 has 5 column"),
        ("7,,b,1", "line 60002 has a node name that is empty"),
        ("7, ,b,1", "line 60002 has a node name that is empty"),
        ("7,a,b,1_0", "line 60002 has the weight '1_0'"),
        ("7,a,b,", "line 60002 has the weight ''"),
        ("7,a,b,nan", "line 60002 has the weight 'nan'"),
        (f"7,{'a' * 1001},b,1", "line 60002 has a node name"),
    ],
)
def test_a_faulty_row_of_a_large_table_is_named(tmp_path, row, message):
    path = write(tmp_path / "large.csv", large_table() + row + "\n")
    with pytest.raises(GraphError, match=message):
        load_graph(path, weight="amount")


def test_letters_of_another_encoding_in_a_column_that_nobody_reads(tmp_path):
    path = tmp_path / "large.csv"
    path.write_bytes(large_table().encode() + b"\xff,a,b,1\n")
    with pytest.raises(GraphError, match="line 60002 is not text in UTF-8"):
        load_graph(path, weight="amount")


def test_blanks_around_the_names_of_a_large_table_are_no_part_of_them(tmp_path):
    text = large_table()
    spaced = text + "7, α-1 ,β-2,1\n"
    path, other = write(tmp_path / "spaced.csv", spaced), write(tmp_path / "plain.csv", text + "7,α-1,β-2,1\n")
    assert load_graph(path, weight="amount") == load_graph(other, weight="amount")


ROW = "source,target,weight\n" + "a,b,1\n" * 70_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("one decimal comma", "1;2;1,5\n", "can be divided at ',' .*at ';'|can be divided at"),
        ("empty", "", "it is empty"),
        ("blank lines", "\n\n", "it has no edges"),
        ("one column", "a\nb\n", r"1 column\(s\)"),
        ("a short row", "source,target\na,b\nb\n", r"line 3 has 1 column\(s\)"),
        ("a long row far down", f"{ROW}a,b,1,1\n", r"line 70002 has 4 column\(s\)"),
        ("NUL", b"a,b\nb,\0c\n", "NUL bytes"),
        ("UTF-16", "a,b\nb,c\n".encode("utf-16"), "--encoding utf-16"),
        ("UTF-32", "a,b\nb,c\n".encode("utf-32"), "--encoding utf-32"),
        ("latin-1 far down", ROW.encode() + "José,b,1\n".encode("latin-1"), "line 70002 .*--encoding latin-1"),
        ("an open quote at first", '"a,b\nb,c\n', "quote that is not closed"),
        ("an open quote", 'source,target\na,b\nb,"c\n', "line 3 has a quote that is never closed"),
        ("an open quote far up", f'source,target,weight\nb,"c,1\n{ROW}', "line 2 has a quote that is never closed"),
        ("a quote closed elsewhere", 'source,target\na,b\nc,"d\ne,f\ng"\n', "line 3 has a quote .*another line"),
        ("a line without end", b"source,target\na," + b"b" * 3_000_000, "a line of more than 1048576"),
        ("a line without end far down", ROW.encode() + b"a," * 3_000_000, "line 70002 has more than 1048576"),
        ("a million columns", b"7," * 1_000_000 + b"7\n", "a line of more than 1048576"),
        ("half a million columns", b"," * 500_000 + b"\n", "500001 columns without names"),
        ("NaN", "source,target,weight\na,b,1\nb,c,nan\n", "line 3 has the weight 'nan' in its column 'weight'"),
        ("infinite", "1,2,1\n2,3,inf\n", "line 2 has the weight 'inf' in its column 3"),
        ("infinite in 32 bits", "a,b,1\nb,c,1e39\n", "line 2 has the weight '1e39' in its column 3"),
        ("negative", "source,target,w\n1,2,-3\n", "line 2 has the weight '-3' in its column 'w'.*not be negative"),
    ],
)
def test_hostile_tables_are_refused_where_they_are_wrong(tmp_path, name, content, message):
    path = tmp_path / "list.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(GraphError, match=message) as refused:
        load_graph(path)
    assert "\n" not in str(refused.value), name
    assert len(str(refused.value)) < len(str(path)) + 400


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "edges"])
def test_decimal_commas_are_asked_for_whatever_the_ending(tmp_path, ending):
    path = write(tmp_path / f"list.{ending}", "1;2;1,5\n2;3;2,5\n")
    with pytest.raises(GraphError, match="can be divided at"):
        load_graph(path)
    assert weights_of(load_graph(path, delimiter=";", decimal=",")) == {(1, 2): 1.5, (2, 3): 2.5}


def test_blanks_between_decimal_commas_are_asked_for(tmp_path):
    path = write(tmp_path / "list.txt", "1 2 1,5\n2 3 2,5\n")
    with pytest.raises(GraphError, match="can be divided at"):
        load_graph(path)
    assert weights_of(load_graph(path, delimiter=" ", decimal=",")) == {(1, 2): 1.5, (2, 3): 2.5}
    assert load_graph(write(tmp_path / "list.txt", "New York,Rome\nSan Jose,Bonn\n"), header=False).num_nodes == 4


def test_one_column_cannot_be_both_ends_by_another_name(tmp_path):
    path = write(tmp_path / "list.csv", PAYMENTS)
    for target in (2, "2", "SENDER"):
        with pytest.raises(GraphError, match="'sender' cannot be both ends"):
            load_graph(path, source="sender", target=target)


@pytest.mark.parametrize(
    ("weight", "message"), [(np.inf, "in row 1, counted from 0, of column 'amount'"), (-2.0, "Got -2 in row 1")]
)
def test_a_faulty_weight_of_a_table_is_found_by_its_row(tmp_path, weight, message):
    table = pa.table({"source": [1, 2], "target": [2, 3], "amount": [1.0, weight]})
    pa.parquet.write_table(table, tmp_path / "list.parquet")
    for data in (table, tmp_path / "list.parquet"):
        with pytest.raises(GraphError, match=message):
            as_graph(data, source="source", target="target", weight="amount")


def test_lines_within_quotes_may_be_blank_or_look_like_comments(tmp_path):
    notes = ["two\n\nlines", "a\n# hash", '% "x"\n%', "plain"]
    stream = io.StringIO()
    csv.writer(stream).writerows(
        [("source", "target", "note"), *(("a", f"b{i}", note) for i, note in enumerate(notes))]
    )
    path = write(tmp_path / "list.csv", '# a comment with a " in it\n\n' + stream.getvalue() + "\n# the end\n")
    assert sorted(weights_of(load_graph(path))) == [("a", "b0"), ("a", "b1"), ("a", "b2"), ("a", "b3")]
    path.write_text(path.read_text() + "a,b,c,d\n")
    with pytest.raises(GraphError, match="line 14 has 4"):
        load_graph(path)


def test_weights_of_both_directions_that_add_up_to_too_much_are_refused():
    with pytest.raises(GraphError, match="more than 32 bits can hold"):
        as_graph([("a", "b", 3e38), ("b", "a", 2e38)], duplicates="sum", symmetrize=True)


ENCODED = {"utf-8": "utf-8", "utf-8-sig": "utf-8", "utf-16": "utf-8", "latin-1": "latin-1", "cp1252": "cp1252"}


@st.composite
def tables(draw):
    """Edges between nodes with names, none of which is a number, and an encoding that has all their letters."""
    encoding = draw(st.sampled_from(sorted(ENCODED)))
    letters = st.characters(codec=ENCODED[encoding], exclude_categories=["C", "Z"])
    name = st.text(letters, min_size=1, max_size=5).map(lambda text: f"n{text}")
    rows = draw(st.lists(st.tuples(name, name, st.floats(0.125, 9, width=32)), min_size=1, max_size=15))
    return rows, encoding


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=tables(),
    mark=st.sampled_from([",", ";", "\t", "|"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_a_graph_is_the_same_from_a_text_a_file_and_a_frame(tmp_path, table, mark, quoting, end):
    pandas = pytest.importorskip("pandas")
    rows, encoding = table
    said = {"source": "from", "target": "to", "weight": "amount", "symmetrize": True}
    expected = as_graph(rows, symmetrize=True)
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=mark, quoting=quoting, lineterminator=end)
    writer.writerows([("from", "to", "amount"), *rows])
    path = write(tmp_path / "table.csv", stream.getvalue(), encoding)
    assert load_graph(path, **said, delimiter=mark, encoding=encoding) == expected
    frame = pandas.DataFrame(rows, columns=["from", "to", "amount"])
    frame.to_parquet(tmp_path / "table.parquet")
    assert load_graph(tmp_path / "table.parquet", **said) == expected
    assert as_graph(frame, **said) == expected
