"""GraphML, GEXF, GML and JSON node-link, beside what NetworkX makes of the same graphs."""

import gzip
import json
import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from garnet import GARNET, Graph, as_graph, load_graph
from garnet.datasets import contextual_block_model
from garnet.errors import GraphError
from garnet.purify.drawing import drawing_of, save_drawing

READ = {"graphml": nx.read_graphml, "gexf": nx.read_gexf}


def write_json(graph, path):
    path.write_text(json.dumps(nx.node_link_data(graph)))


def bare(graph):
    """Without what NetworkX says of nodes: its GML would write a label twice."""
    graph = graph.copy()
    for node in graph:
        graph.nodes[node].clear()
    return graph


def write_gml(graph, path):
    nx.write_gml(bare(graph), path)


WRITE = {"graphml": nx.write_graphml, "gexf": nx.write_gexf, "gml": write_gml, "json": write_json}


def people(kind=nx.Graph):
    graph = kind()
    graph.add_nodes_from(["Ada", "Bo & <Co>", 'Ümit "the" 3rd', "alone"])
    graph.add_weighted_edges_from([("Ada", "Bo & <Co>", 2.5), ("Bo & <Co>", 'Ümit "the" 3rd', 0.125)])
    return graph


GRAPHS = {
    "names": people,
    "numbers": nx.karate_club_graph,
    "weights": nx.les_miserables_graph,
    "parallel": lambda: nx.MultiGraph([(0, 1, {"weight": 2.0}), (0, 1, {"weight": 5.0}), (1, 2), (2, 2)]),
    "nothing": nx.Graph,
}


@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("ending", WRITE)
def test_what_networkx_writes_is_read_as_the_graph_itself(tmp_path, ending, make):
    path = tmp_path / f"graph.{ending}"
    WRITE[ending](make(), path)
    assert load_graph(path) == as_graph(make())
    packed = tmp_path / f"graph.{ending}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert load_graph(packed) == as_graph(make())


@pytest.mark.parametrize("ending", WRITE)
def test_a_directed_graph_is_refused_unless_it_is_to_be_symmetrised(tmp_path, ending):
    path = tmp_path / f"graph.{ending}"
    WRITE[ending](people(nx.DiGraph), path)
    with pytest.raises(GraphError, match="directed"):
        load_graph(path)
    assert load_graph(path, symmetrize=True) == as_graph(people())


def test_labels_are_integers_and_unknown_where_a_node_has_none(tmp_path):
    graph = people()
    graph.nodes["Ada"]["label"] = 2
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    write_json(graph, tmp_path / "graph.json")
    for ending in ("graphml", "json"):
        assert load_graph(tmp_path / f"graph.{ending}").labels.tolist() == [2, -1, -1, -1]
    graph.nodes["Ada"]["label"] = "the first"
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    assert load_graph(tmp_path / "graph.graphml").labels is None


@pytest.mark.parametrize("ending", READ)
def test_what_is_written_is_read_by_networkx_and_by_us(tmp_path, ending):
    graph = as_graph(people(), labels=[0, 1, -1, 1])
    path = tmp_path / f"graph.{ending}"
    graph.save(path)
    assert load_graph(path) == graph
    theirs = READ[ending](path)
    assert as_graph(bare(theirs)) == as_graph(people())
    assert [data["class"] for _, data in theirs.nodes(data=True)] == graph.labels.tolist()


# At the end of a text NumPy takes a NUL for nothing.
texts = st.text(min_size=1, max_size=8).filter(lambda text: not text.endswith("\0"))
names = st.lists(texts, min_size=2, max_size=5, unique=True)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=names, ending=st.sampled_from(sorted(READ)))
def test_any_name_comes_back_or_is_refused(tmp_path, names, ending):
    n = len(names)
    graph = as_graph((np.array([[0, 1], [1, 0]]), n), names=names)
    path = tmp_path / f"graph.{ending}"
    if any(re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", name) for name in names):
        with pytest.raises(GraphError, match="XML cannot keep"):
            graph.save(path)
        return
    graph.save(path)
    found = load_graph(path)
    ours = [str(i) for i in range(n)] if found.names is None else list(map(str, found.names.tolist()))
    assert ours == names
    assert found.edges.tolist() == graph.edges.tolist()


@pytest.mark.parametrize("ending", READ)
def test_a_drawing_says_what_became_of_each_edge(tmp_path, ending):
    clean = contextual_block_model(200, classes=4, mean_degree=8, features=16, signal=4.0, seed=0)
    made_up = np.array([pair for pair in np.random.default_rng(0).integers(200, size=(60, 2)) if pair[0] != pair[1]]).T
    given = as_graph(clean.with_edges(np.append(clean.edges, made_up, axis=1)), names=[f"n{i}" for i in range(200)])
    result = GARNET(rank=8, k=4, caution=200).purify(given)
    path = tmp_path / f"drawing.{ending}"
    save_drawing(drawing_of(given, result.graph, result.ledger), path)
    drawn = READ[ending](path)
    counts = {"new" if status == "added" else status: count for status, count in result.ledger.counts.items()}
    statuses = [data["status"] for _, _, data in drawn.edges(data=True)]
    assert {status: statuses.count(status) for status in counts} == counts
    assert min(counts.values()) > 0
    for u, v, data in drawn.edges(data=True):
        i, j = int(u[1:]), int(v[1:])
        old, new = given.adjacency[i, j], result.graph.adjacency[i, j]
        fates = {(True, True): "kept", (True, False): "dropped", (False, True): "new"}
        assert data["status"] == fates[old > 0, new > 0]
        assert data["weight"] == pytest.approx(new or old, rel=1e-6)
        assert data.get("weight_given", 0) == pytest.approx(old)
        assert (0 <= data["suspicion"] <= 1) if old else "suspicion" not in data
    assert drawn.number_of_nodes() == 200
    with pytest.raises(GraphError, match=r"\.graphml or \.gexf"):
        save_drawing(drawing_of(given, result.graph, result.ledger), tmp_path / "drawing.svg")


def test_the_variants_of_json(tmp_path):
    def read(**said):
        (tmp_path / "graph.json").write_text(json.dumps(said))
        return load_graph(tmp_path / "graph.json")

    links = [{"source": 0, "target": 1, "weight": 2}, {"source": 1, "target": 2}]
    assert read(nodes=[{}, {}, {}], links=links).edges.tolist() == [[0, 1], [1, 2]]
    assert read(nodes=[{"name": "a"}, {"name": "b"}, {"name": "c"}], links=links).names.tolist() == ["a", "b", "c"]
    assert read(nodes=[{"name": "a"}, {"name": "a"}, {}], edges=links).weights.tolist() == [2, 1]
    found = read(nodes=[{"id": i} for i in (7, 0, 1, 2)], links=links)
    assert found.names.tolist() == [7, 0, 1, 2]
    assert found.edges.tolist() == [[1, 2], [2, 3]]
    back = [{"source": one["target"], "target": one["source"]} for one in links[1:]]
    with pytest.raises(GraphError, match="directed"):
        read(nodes=[{}, {}, {}], links=links + back)
    assert read(nodes=[{}, {}, {}], links=links + back, directed=False).num_edges == 2


@pytest.mark.parametrize("ending", ["graphml", "gml"])
def test_the_names_that_igraph_writes_beside_ids_are_names(tmp_path, ending):
    graph = nx.convert_node_labels_to_integers(bare(nx.les_miserables_graph()))
    nx.set_node_attributes(graph, dict(enumerate(nx.les_miserables_graph())), "name")
    if ending == "gml":
        path = tmp_path / "graph.gml"
        nx.write_gml(graph, path)
        path.write_text("\n".join(line for line in path.read_text().splitlines() if "label" not in line))
    else:
        path = tmp_path / "graph.graphml"
        nx.write_graphml(graph, path)
    assert load_graph(path) == as_graph(nx.les_miserables_graph())


def test_the_labels_of_gml_are_names_where_they_are_distinct(tmp_path):
    path = tmp_path / "graph.gml"
    text = 'Creator "me"\n# a comment ] [\ngraph [\n  edge [ source 5 target 9 weight 3 graphics [ width 2 ] ]\n'
    nodes = 'node [ id 5 label "Caf&#233; &amp; co" ]\n node [ id 9 label "{}" ]\n] # end [\n'
    path.write_text(text + nodes.format("b"))
    graph = load_graph(path)
    assert graph.names.tolist() == ["Café & co", "b"]
    assert graph.weights.tolist() == [3]
    path.write_text(text + nodes.format("Caf&#233; &amp; co"))
    assert load_graph(path).names.tolist() == [5, 9]


def test_edges_of_gexf_and_graphml_may_say_themselves_whether_they_are_directed(tmp_path):
    gexf = tmp_path / "graph.gexf"
    body = '<nodes><node id="a"><nodes><node id="b"/></nodes></node></nodes><edges>'
    body += '<edge source="a" target="b" type="{}"/>'
    for kind in ("undirected", "mutual"):
        gexf.write_text(f'<gexf><graph defaultedgetype="directed">{body.format(kind)}</edges></graph></gexf>')
        assert load_graph(gexf).num_edges == 1
    gexf.write_text(f"<gexf><graph>{body.format('directed')}</edges></graph></gexf>")
    with pytest.raises(GraphError, match="directed"):
        load_graph(gexf)
    graphml = tmp_path / "graph.graphml"
    mixed = '<node id="a"/><node id="b"/><node id="c"/><edge source="a" target="b" directed="true"/>'
    mixed += '<edge source="c" target="b"/>'
    graphml.write_text(f'<g:graphml xmlns:g="x"><graph edgedefault="undirected">{mixed}</graph></g:graphml>')
    with pytest.raises(GraphError, match="1 of its 3 edges"):
        load_graph(graphml)
    assert isinstance(load_graph(graphml, symmetrize=True), Graph)


KEYS = '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
KEYS += '<key id="l" for="node" attr.name="label" attr.type="int"/>'
GRAPHML = f'<graphml>{KEYS}<graph edgedefault="undirected">{{}}</graph></graphml>'
HEAVY = '<edge source="a" target="b"><data key="w">{}</data></edge>'
TWO = '<node id="a"/><node id="b"/>'
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><graphml><graph>{}</graph></graphml>'
HOSTILE = {
    "graphml": {
        "no XML": ("a,b", "not well-formed"),
        "other XML": ("<svg/>", "not GraphML"),
        "cut": (GRAPHML.format(TWO)[:-20], "not well-formed"),
        "entities": (LAUGHS.format(TWO), "declares entities"),
        "another encoding": ('<?xml version="1.0" encoding="klingon"?><graphml/>', "not well-formed"),
        "a node twice": (GRAPHML.format('<node id="a"/><node id="a"/>'), "called 'a'"),
        "a node without id": (GRAPHML.format("<node/>"), "no id"),
        "a name without end": (GRAPHML.format(f'<node id="{"a" * 1001}"/>'), "longer than 1000"),
        "an edge to nobody": (GRAPHML.format(TWO + '<edge source="a" target="x"/>'), "joins 'x'"),
        "an edge without an end": (GRAPHML.format(TWO + '<edge source="a"/>'), "edge number 1"),
        "a weight of words": (GRAPHML.format(TWO + HEAVY.format("much")), "'much'"),
        "a weight of nothing": (GRAPHML.format(TWO + HEAVY.format("nan")), "NaN"),
        "a negative weight": (GRAPHML.format(TWO + HEAVY.format("-1")), "negative"),
        "a hyperedge": (GRAPHML.format(TWO + "<hyperedge/>"), "hyperedges"),
        "a graph in a node": (GRAPHML.format('<node id="a"><graph/></node>'), "within another"),
        "two graphs": ("<graphml><graph/><graph/></graphml>", "several graphs"),
        "a label of words": (GRAPHML.format('<node id="a"><data key="l">x</data></node>'), "not an integer"),
        "deep": ("<graphml>" + "<a>" * 100_000, "nested more than"),
        "a text without end": (GRAPHML.format(f"<data>{'x' * 2_000_000}</data>"), "in one element"),
    },
    "gexf": {
        "other XML": ("<svg/>", "not GEXF"),
        "dynamic": ('<gexf><graph mode="dynamic"/></gexf>', "dynamic"),
        "a kind of edges": ('<gexf><graph defaultedgetype="sideways"/></gexf>', "sideways"),
        "a weight of words": ('<gexf><graph><edge source="a" target="a" weight="x"/></graph></gexf>', "'x'"),
        "entities": (LAUGHS.format(""), "declares entities"),
    },
    "gml": {
        "no GML": ("a,b", "where a word is wanted|not a whole"),
        "cut": ("graph [ node [ id 1 ]", "not a whole"),
        "closed too often": ("graph [ ] ]", "where none belongs"),
        "a quote without end": ('graph [ node [ id 1 label "x ] ]', "not a whole"),
        "nothing in it": ("# only this\n", "not a whole"),
        "two graphs": ("graph [ ] graph [ ]", "several graphs"),
        "a list without a word": ("graph [ [ ] ]", "without a word"),
        "deep": ("graph [ " + "a [ " * 100_000, "nested too deep"),
        "an edge to nobody": ("graph [ node [ id 1 ] edge [ source 1 target 2 ] ]", "joins '2'"),
        "not UTF-8": (b"graph [\n node [ id \xff ] ]", "line 2 is not text"),
    },
    "json": {
        "no JSON": ("{", "not JSON"),
        "deep": ("[" * 100_000, "not JSON|holds a list"),
        "a list": ("[]", "holds a list"),
        "another kind": ('{"elements": {}}', "no list 'nodes'.*'elements'"),
        "links of numbers": ('{"nodes": [], "links": [1]}', "no list 'links'"),
        "some ids": ('{"nodes": [{"id": 1}, {}], "links": []}', "no id"),
        "a weight of words": ('{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 1, "weight": "x"}]}', "'x'"),
        "a weight of nothing": ('{"nodes": [{}, {}], "links": [{"source": 0, "target": 1, "weight": NaN}]}', "NaN"),
        "an edge to nobody": ('{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}', "joins '2'"),
        "directed maybe": ('{"directed": "maybe", "nodes": [], "links": []}', "'maybe'"),
        "a long number": ('{"nodes": [{"id": 1, "label": ' + "9" * 5000 + '}], "links": []}', "not JSON"),
    },
}  # fmt: skip
CASES = [(ending, *case) for ending, cases in HOSTILE.items() for case in cases.values()]


@pytest.mark.parametrize(
    ("ending", "content", "phrase"), CASES, ids=[f"{e} {name}" for e, cases in HOSTILE.items() for name in cases]
)
def test_a_hostile_file_is_refused_in_one_sentence(tmp_path, ending, content, phrase):
    path = tmp_path / f"graph.{ending}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(GraphError, match=phrase) as caught:
        load_graph(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"Cannot read {path}:")


@pytest.mark.parametrize("ending", HOSTILE)
def test_a_small_file_that_unfolds_without_end_is_refused(tmp_path, ending):
    path = tmp_path / f"graph.{ending}.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(b"<graphml>" if "gexf graphml".find(ending) >= 0 else b"graph [ " if ending == "gml" else b"{")
        for _ in range(40):
            stream.write(b" " * 1_000_000)
    with pytest.raises(GraphError, match="unfold"):
        load_graph(path)
