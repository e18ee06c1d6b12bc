import csv
import json
from functools import cache

import numpy as np
import pytest

from garnet import as_graph
from garnet.audit import audit
from garnet.audit.file import load_audit, save_audit
from garnet.audit.judged import read_pairs
from garnet.datasets import block_model, class_features
from garnet.errors import GarnetError, GraphError, ParameterError
from garnet.graph.edges import canonical, contains


@cache
def attacked(kind, seed):
    """A graph, which of its edges were made up, and what is found in it without being told."""
    clean = block_model(400, classes=8, mean_degree=10, homophily=0.95, seed=seed)
    rng = np.random.default_rng(seed)
    ends = {
        "anywhere": lambda: rng.integers(400, size=(2, 170)),
        "at a few": lambda: np.stack([rng.choice(400, 25, replace=False).repeat(6), rng.integers(400, size=150)]),
        "rings": lambda: np.concatenate(
            [one[np.array(np.triu_indices(10, 1))] for one in rng.permutation(400)[:40].reshape(4, 10)], axis=1
        ),
    }[kind]()
    made = canonical(*ends[:, ends[0] != ends[1]], 400)
    features = class_features(clean.labels, dim=8, signal=3.0, seed=seed)
    edges = np.concatenate([clean.edges, made[:, ~contains(clean.edges, made, 400)]], axis=1)
    graph = as_graph(clean.with_edges(edges), features=features)
    return graph, ~contains(clean.edges, graph.edges, 400), audit(graph)


def area(suspicion, false):
    """Area under the ROC curve, counted pair by pair; ties count half."""
    worse = suspicion[false][:, None] - suspicion[~false][None, :]
    return float((worse > 0).mean() + (worse == 0).mean() / 2)


@pytest.mark.parametrize("kind", ["anywhere", "at a few", "rings"])
def test_who_refutes_half_of_the_made_up_edges_finds_the_others_sooner(kind):
    gained = []
    for seed in range(3):
        graph, false, before = attacked(kind, seed)
        refuted = np.random.default_rng(seed).permutation(np.flatnonzero(false))[: false.sum() // 2]
        rest = ~np.isin(np.arange(len(false)), refuted)
        after = audit(graph, refuted=graph.edges.T[refuted])
        gained.append(area(after.suspicion[rest], false[rest]) - area(before.suspicion[rest], false[rest]))
    assert min(gained) >= 0
    assert np.mean(gained) > (0.0 if kind == "anywhere" else 0.02)


@pytest.mark.parametrize("kind", ["anywhere", "at a few"])
def test_who_judges_the_most_suspicious_edges_ranks_the_rest_no_worse(kind):
    gained = []
    for seed in range(3):
        graph, false, before = attacked(kind, seed)
        top, rest = before.order[:40], before.order[40:]
        pairs = graph.edges.T[top]
        after = audit(graph, refuted=pairs[false[top]], confirmed=pairs[~false[top]])
        gained.append(area(after.suspicion[rest], false[rest]) - area(before.suspicion[rest], false[rest]))
    assert np.mean(gained) >= 0


@pytest.mark.parametrize("refutes", [False, True])
@pytest.mark.parametrize("count", [1, 300])
def test_confirming_edges_never_makes_their_neighbours_more_suspicious(count, refutes):
    for seed in range(2):
        graph, false, before = attacked("anywhere", seed)
        rng = np.random.default_rng(seed)
        confirmed = rng.permutation(np.flatnonzero(~false))[:count]
        refuted = graph.edges.T[rng.permutation(np.flatnonzero(false))[:30]] if refutes else None
        without = audit(graph, refuted=refuted) if refutes else before
        told = audit(graph, confirmed=graph.edges.T[confirmed], refuted=refuted)
        near = np.isin(graph.edges, graph.edges[:, confirmed]).any(axis=0)
        assert (told.suspicion[near] <= without.suspicion[near]).all()
        assert (told.suspicion[confirmed] == 0).all()


def test_an_account_with_several_refuted_edges_makes_its_others_more_suspicious():
    for seed in range(3):
        graph, _, before = attacked("anywhere", seed)
        node = int(np.argsort(-np.bincount(graph.edges.ravel()), kind="stable")[20])
        mine = np.flatnonzero((graph.edges == node).any(axis=0))
        refuted, rest = mine[:4], mine[4:]
        after = audit(graph, refuted=graph.edges.T[refuted])
        assert (after.suspicion[refuted] == 1).all()
        others = np.setdiff1d(np.arange(graph.num_edges), mine)

        def log_odds(found, edges):
            return np.log(found.suspicion[edges] / (1 - found.suspicion[edges]))

        change = log_odds(after, rest) - log_odds(before, rest)
        assert change.min() > np.median(log_odds(after, others) - log_odds(before, others))
        assert any("beside refuted edges" in text for text in after.reason[rest])
        assert after.nodes[node] < before.nodes[node]


def test_without_anything_said_nothing_changes():
    graph, _, before = attacked("anywhere", 0)
    for nothing in ([], np.zeros((0, 2), dtype=np.int64)):
        same = audit(graph, confirmed=nothing, refuted=nothing)
        assert same.suspicion.tobytes() == before.suspicion.tobytes()
        assert same.nodes.tobytes() == before.nodes.tobytes()
        assert dict(same.weights) == dict(before.weights)


def test_the_same_judgement_gives_the_same_bytes_in_any_order():
    graph, false, _ = attacked("at a few", 1)
    pairs = graph.edges.T[np.flatnonzero(false)[:30]]
    first = audit(graph, refuted=pairs)
    second = audit(graph, refuted=[(int(b), int(a)) for a, b in pairs[::-1]])
    assert first.suspicion.tobytes() == second.suspicion.tobytes()


def test_judged_edges_are_named_as_such_and_remembered(tmp_path):
    graph, false, _ = attacked("anywhere", 0)
    pairs = graph.edges.T
    found = audit(graph, refuted=pairs[false][:5], confirmed=pairs[~false][:7])
    save_audit(found, tmp_path / "audit.npz")
    for one in (found, load_audit(tmp_path / "audit.npz")):
        assert (one.reason == "you refuted it").sum() == 5
        assert (one.reason == "you confirmed it").sum() == 7
        assert (one.summary()["refuted"], one.summary()["confirmed"]) == (5, 7)


@pytest.mark.parametrize("other", [None, np.ones((400, 3))])
def test_graphs_that_tell_little_can_be_told_something(other):
    graph, false, _ = attacked("anywhere", 0)
    pairs = graph.edges.T
    found = audit(as_graph(graph.adjacency, features=other), refuted=pairs[false][:20], confirmed=pairs[~false][:20])
    assert np.isfinite(found.suspicion).all()
    assert ((found.suspicion >= 0) & (found.suspicion <= 1)).all()
    full = audit(as_graph(np.ones((5, 5)) - np.eye(5)), refuted=[(0, 1)], confirmed=[(2, 3)])
    assert sorted(full.suspicion)[-1] == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([("a", "nobody")], "'a' – 'nobody', but no node is called 'nobody'"),
        ([("a", "c")], "It has none of 'a' – 'c'"),
        ([("a", "a")], "It has none of 'a' – 'a'"),
        ([("a", "b"), ("c",)], "such as"),
        (["ab"], "such as"),
        ("ab", "such as"),
        (7, "such as"),
        ([7], "such as"),
        (np.zeros((2, 3), dtype=int), r"Give its \.T"),
        (np.zeros(4), "shape"),
    ],
)
def test_what_is_no_edge_is_one_sentence_with_the_pair(wrong, said):
    graph = as_graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), names=["a", "b", "c"])
    for name in ("confirmed", "refuted"):
        with pytest.raises(ParameterError, match=said) as told:
            audit(graph, **{name: wrong})
        assert f"'{name}'" in str(told.value)
        assert "\n" not in str(told.value)
    with pytest.raises(ParameterError, match="'b' – 'c' in both lists"):
        audit(graph, confirmed=[("a", "b"), ("b", "c")], refuted=[("b", "c")])


def test_numbers_of_nodes_are_their_names_where_they_have_none():
    graph = block_model(50, seed=0)
    first, second = graph.edges[:, 3].tolist()
    assert audit(graph, refuted=[(str(second), first)]).suspicion[3] == 1
    for wrong in (50, -1, "1.0", "x", None):
        with pytest.raises(ParameterError, match="no node is called"):
            audit(graph, refuted=[(first, wrong)])


@pytest.fixture
def payments(tmp_path):
    graph, _, _ = attacked("at a few", 0)
    as_graph(graph, names=[f"account {number}" for number in range(400)]).save(tmp_path / "graph.npz")
    return tmp_path


def test_the_command_learns_from_rows_of_its_own_table(payments, command):
    assert command("audit", payments / "graph.npz", "-o", payments / "all.csv", "--top", 0)[0] == 0
    with (payments / "all.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    for name, chosen in (("bad", rows[1:11]), ("good", rows[11:21])):
        with (payments / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([rows[0], *chosen])
    line = ("--confirmed", payments / "good.csv", "--refuted", payments / "bad.csv")
    status, told, said = command("audit", payments / "graph.npz", *line, "--json", "-o", payments / "new.csv")
    assert status == 0, said
    figures = json.loads(told)
    assert (figures["confirmed"], figures["refuted"]) == (10, 10)
    with (payments / "new.csv").open(newline="") as file:
        new = {(row["source"], row["target"]): float(row["suspicion"]) for row in csv.DictReader(file)}
    assert {new[one, other] for one, other, *_ in rows[1:11]} == {1.0}
    assert {new[one, other] for one, other, *_ in rows[11:21]} == {0.0}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bad.csv", "source,target\naccount 1,nobody\n", "no node is called 'nobody'"),
        ("bad.csv", "a,b,c\n", "3 columns, none of which are called source and target"),
        ("bad.csv", "source,target\none\n", "its line 2 has 1 columns"),
        ("bad.csv", b"source,target\n\xff,a\n", "not UTF-8"),
        ("bad.csv", b"\x00", "NUL"),
        ("bad.xlsx", "", r"a .csv or a .tsv file"),
        ("missing.csv", None, "no such file"),
    ],
)
def test_lists_that_cannot_be_read_are_one_sentence(payments, command, name, text, said):
    if text is not None:
        (payments / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    before = sorted(payments.iterdir())
    line = ("--refuted", payments / name, "-o", payments / "out.csv")
    status, out, told = command("audit", payments / "graph.npz", *line)
    assert (status, out) == (1, "")
    assert said in told
    assert len(told.strip().splitlines()) == 1
    assert sorted(payments.iterdir()) == before


def test_lists_of_two_columns_need_no_header(tmp_path):
    (tmp_path / "pairs.tsv").write_bytes('\ufeffa b\tc\r\n\r\nd\t"e\nf"\r\n'.encode())
    assert read_pairs(tmp_path / "pairs.tsv") == [("a b", "c"), ("d", "e\nf")]
    (tmp_path / "pairs.csv").write_text("weight,target,source\n1,a,b\n")
    assert read_pairs(tmp_path / "pairs.csv") == [("b", "a")]
    (tmp_path / "none.csv").write_text("")
    assert read_pairs(tmp_path / "none.csv") == []
    (tmp_path / "long.csv").write_text("a,b\na,b,c\n")
    with pytest.raises(GraphError, match="line 2"):
        read_pairs(tmp_path / "long.csv")
    with pytest.raises(GarnetError, match=r"'pairs\.json'"):
        read_pairs(tmp_path / "pairs.json")


def test_a_list_is_not_written_over(payments, command):
    (payments / "bad.csv").write_text("source,target\n")
    status, _, told = command(
        "audit", payments / "graph.npz", "--refuted", payments / "bad.csv", "-o", payments / "bad.csv"
    )
    assert (status, "is read by this command" in told) == (1, True)
