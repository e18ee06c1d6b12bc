import csv
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from garnet import InMemory, as_graph
from garnet.audit import audit
from garnet.audit.evidence import reasons_of, unit_features
from garnet.audit.file import load_audit, save_audit
from garnet.audit.looks import log_odds_of_rank
from garnet.audit.planted import planted
from garnet.datasets import block_model, class_features, cora, random_split
from garnet.errors import GarnetError, GraphError, ParameterError
from garnet.graph.edges import contains
from garnet.io.table_file import save_table
from garnet.purify.calibration import Evidence, learn, logistic


@pytest.fixture(scope="module")
def known():
    """A graph into which made-up edges between classes were put, and which they are."""
    clean = block_model(600, mean_degree=12, homophily=0.98, seed=1)
    features = class_features(clean.labels, dim=20, signal=3.0, seed=1)
    rng = np.random.default_rng(0)
    first, second = rng.integers(600, size=(2, 2000))
    apart = clean.labels[first] != clean.labels[second]
    made_up = np.sort(np.stack([first[apart], second[apart]])[:, :180], axis=0)
    split = random_split(clean.labels, train=0.1, val=0.1, seed=0)
    edges = np.concatenate([clean.edges, made_up], axis=1)
    poisoned = as_graph(clean.with_edges(edges), features=features, labels=clean.labels, split=split)
    return as_graph(clean, features=features, labels=clean.labels, split=split), poisoned


@pytest.fixture(scope="module")
def found(known):
    return audit(known[1])


def area(suspicion, false):
    """Area under the ROC curve, counted pair by pair."""
    return float((suspicion[false][:, None] > suspicion[~false][None, :]).mean())


def test_made_up_edges_look_made_up(known, found):
    clean, poisoned = known
    false = ~contains(clean.edges, poisoned.edges, 600)
    assert area(found.suspicion, false) > 0.95
    assert false[found.suspicion > 0.5].mean() > 0.5


def test_a_graph_that_nobody_touched_has_few_doubted_edges(known, found):
    clean = audit(known[0])
    assert (clean.suspicion > 0.5).mean() < 0.02
    assert clean.share < 0.5 * found.share


def test_it_has_what_it_promises(known, found):
    m, n = known[1].num_edges, 600
    assert found.edges.shape == (2, m)
    assert np.array_equal(found.edges, known[1].edges)
    assert ((found.suspicion >= 0) & (found.suspicion <= 1)).all()
    assert all(column.shape == (m,) for column in found.reasons.values())
    assert set(found.reasons["because"]) <= set(found.weights)
    assert found.nodes.shape == (n,)
    assert ((found.nodes >= 0) & (found.nodes <= 1)).all()
    assert 0.5 < found.power <= 1
    assert len(found.planted) == 3 * round(0.05 * m)
    assert np.median(found.planted) > np.median(found.suspicion)
    json.dumps(found.summary(), allow_nan=False)


def test_a_node_is_as_stable_as_its_edges_are_believed(found):
    node = int(np.argmin(found.nodes))
    mine = (found.edges == node).any(axis=0)
    assert found.nodes[node] == pytest.approx(1 - found.suspicion[mine].mean())


def test_the_same_seed_gives_the_same_bytes(known):
    first, second = (audit(known[1], seed=3).suspicion for _ in range(2))
    assert np.array_equal(first, second)


def test_the_order_of_the_nodes_does_not_matter(known, found):
    rng = np.random.default_rng(5)
    order = rng.permutation(600)
    graph = known[1]
    moved = as_graph(
        graph.adjacency[order][:, order].tocsr(), features=graph.features[order], labels=graph.labels[order]
    )
    plain = as_graph(graph.adjacency, features=graph.features, labels=graph.labels)
    where = {"seed": 0, "place": InMemory()}
    ours, theirs = (reasons_of(one, unit_features(one, **where), **where) for one in (moved, plain))
    back = np.sort(order[moved.edges], axis=0)
    where = {tuple(edge): number for number, edge in enumerate(back.T.tolist())}
    matched = [where[tuple(edge)] for edge in plain.edges.T.tolist()]
    np.testing.assert_allclose(
        ours.columns["feature_similarity"][matched], theirs.columns["feature_similarity"], atol=1e-4
    )
    np.testing.assert_allclose(ours.columns["shared_neighbors"][matched], theirs.columns["shared_neighbors"], atol=1e-6)
    np.testing.assert_allclose(ours.columns["gradient"][matched], theirs.columns["gradient"], atol=1e-3)


def test_graphs_without_features_or_labels_are_audited_by_their_edges():
    bare = audit(as_graph(cora().adjacency))
    assert set(bare.weights) == {"gradient", "shared_neighbors", "degrees"}
    assert "same_class" not in bare.reasons


@pytest.mark.parametrize("n", [2, 3, 5])
def test_graphs_of_few_nodes_and_edges(n):
    path = np.stack([np.arange(n - 1), np.arange(1, n)])
    tiny = audit(as_graph((path, n), symmetrize=True))
    assert tiny.suspicion.shape == (n - 1,)
    assert np.isfinite(tiny.suspicion).all()
    assert (tiny.nodes <= 1).all()


def test_without_edges_there_is_nothing_to_audit():
    with pytest.raises(GraphError, match="3 nodes and no edges"):
        audit(np.zeros((3, 3)))


@pytest.mark.parametrize("known_nodes", [0, 1])
def test_nodes_without_a_known_class_train_no_reason(known, known_nodes):
    graph = known[1]
    labels = np.full(600, -1)
    labels[graph.split.val[:known_nodes]] = 0
    found = audit(as_graph(graph, labels=labels))
    assert np.isfinite(found.suspicion).all()
    assert "same_class" not in found.weights


def test_planted_edges_are_new_and_known():
    graph = cora()
    copy, new = planted(graph, seed=0)
    assert new.sum() == round(0.05 * graph.num_edges)
    assert copy.num_edges == graph.num_edges + new.sum()
    assert np.array_equal(copy.edges[:, ~new], graph.edges)
    assert np.array_equal(copy.weights[~new], graph.weights)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.4))
def test_suspicion_falls_with_belief_and_finds_the_share(seed, share):
    rng = np.random.default_rng(seed)
    false = rng.random(4000) < share
    belief = np.where(false, rng.normal(-3, 1, 4000), rng.normal(1, 1, 4000))
    rule = learn(Evidence(belief, np.zeros(4000)), Evidence(rng.normal(-3, 1, 500), np.zeros(500)), most_say=1.0)
    suspicion = rule.suspicion(torch.from_numpy(belief)).numpy()
    assert (np.diff(suspicion[np.argsort(belief)]) <= 0).all()
    # Four standard errors of what 500 planted edges tell, and the fiftieth of the edges that could be either.
    assert abs(suspicion.mean() - false.mean()) < 4 * false.mean() / 500**0.5 + 0.02


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([-1, 1]))
def test_where_false_edges_crowd_by_degree_others_there_are_doubted_more(seed, side):
    rng = np.random.default_rng(seed)
    degrees = rng.logistic(size=6000)
    false = (side * degrees > np.quantile(side * degrees, 0.85)) & (rng.random(6000) < 0.9)
    belief = np.where(false, rng.normal(-1, 1, 6000), rng.normal(1, 1, 6000))
    edges, planted = Evidence(belief, degrees), Evidence(rng.normal(-1, 1, 900), rng.logistic(size=900))
    rule = learn(edges, planted, most_say=2.0)
    assert side * rule.say < 0
    assert area(-belief - rule.say * degrees, false) > area(-belief, false)
    assert learn(edges, planted, most_say=0.0).say == 0


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_where_planted_edges_look_like_all_others_none_is_doubted(seed):
    rng = np.random.default_rng(seed)
    edges, false = (Evidence(rng.normal(size=count), rng.logistic(size=count)) for count in (4000, 600))
    rule = learn(edges, false, most_say=1.0)
    assert (rule.suspicion(torch.from_numpy(edges.belief + rule.say * edges.degrees)) <= 0.5).all()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(600, 1500))
def test_of_few_edges_those_that_stand_out_are_found(seed, m):
    rng = np.random.default_rng(seed)
    false = np.arange(m) < m // 10
    belief = np.where(false, rng.normal(-3, 1, m), rng.normal(3, 1, m))
    planted = Evidence(rng.normal(-3, 1, m // 7), rng.logistic(size=m // 7))
    rule = learn(Evidence(belief, rng.logistic(size=m)), planted, most_say=0.0)
    suspicion = rule.suspicion(torch.from_numpy(belief)).numpy()
    assert (suspicion[false] > 0.5).mean() > 0.5
    assert (suspicion[~false] > 0.5).mean() < 0.05


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6))
def test_whatever_is_known_of_however_few_edges_suspicion_is_a_chance(seed, m, planted):
    rng = np.random.default_rng(seed)
    edges, false = (
        Evidence(rng.choice([0.0, 1e-9, 1.0, 1e6]) * rng.normal(size=count), rng.integers(-1, 2, count).astype(float))
        for count in (m, planted)
    )
    rule = learn(edges, false, most_say=1.0)
    suspicion = rule.suspicion(torch.from_numpy(edges.belief + rule.say * edges.degrees))
    assert ((suspicion >= 0) & (suspicion <= 1)).all()
    assert rule.power > 0.65 or (suspicion <= 0.5).all()


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(0, 2))
def test_the_regression_finds_the_least_cost_from_wherever_it_starts(seed, m, digits):
    rng = np.random.default_rng(seed)
    design = np.column_stack([3 * rng.normal(size=m), np.ones(m)])
    target, weights = rng.random(m).round(digits), rng.random(m)

    def cost(found):
        scores = design @ found
        return np.sum(weights * (np.logaddexp(0, scores) - target * scores)) + 1e-3 * np.sum(found**2) / 2

    found = logistic(design, target, weights, start=3 * rng.normal(size=2))
    assert cost(found) <= minimize(cost, np.zeros(2), method="Nelder-Mead").fun + 1e-6


def test_ranks_of_many_edges_are_told_apart():
    log_odds = log_odds_of_rank(torch.arange(9_000_000).float())
    assert torch.isfinite(log_odds).all()
    assert log_odds[-1] == pytest.approx(-float(log_odds[0]))


def test_a_reason_that_counts_nothing_is_not_blamed(found):
    bare = audit(block_model(300, mean_degree=6, homophily=0.3, seed=1))
    assert set(bare.reasons["because"]) <= {name for name, weight in bare.weights.items() if weight}


def test_a_device_that_is_not_there_and_features_that_are_none(known):
    with pytest.raises(ParameterError, match="'device' parameter of audit"):
        audit(known[0], device="nowhere")
    empty = audit(as_graph(known[1].adjacency, features=np.zeros((600, 0))))
    assert "feature_similarity" not in empty.weights


def test_tables_are_ranked_and_name_nodes_as_the_user_does(known, found, tmp_path):
    names = np.array([f"n{number}" for number in range(600)])
    named = audit(as_graph(known[1], names=names))
    named.save(tmp_path / "edges.csv")
    with (tmp_path / "edges.csv").open() as file:
        rows = list(csv.DictReader(file))
    suspicion = [float(row["suspicion"]) for row in rows]
    assert suspicion == sorted(suspicion, reverse=True)
    assert len(rows) == named.graph.num_edges
    worst = named.order[0]
    assert (rows[0]["source"], rows[0]["target"]) == tuple(names[named.edges[:, worst]])
    named.save(tmp_path / "nodes.csv", nodes=True)
    with (tmp_path / "nodes.csv").open() as file:
        assert next(csv.DictReader(file))["node"] == names[int(np.argmin(named.nodes))]


def test_parquet_holds_the_same(found, tmp_path):
    read = pytest.importorskip("pyarrow.parquet").read_table
    found.save(tmp_path / "edges.parquet")
    table = read(tmp_path / "edges.parquet").to_pydict()
    assert table["suspicion"] == found.suspicion[found.order].tolist()
    assert table["because"] == found.reasons["because"][found.order].tolist()


def test_a_saved_audit_comes_back_and_is_reported(known, tmp_path, command):
    names = np.array([f"n{number}" for number in range(600)])
    named = audit(as_graph(known[1], names=names))
    save_audit(named, tmp_path / "audit.npz")
    back = load_audit(tmp_path / "audit.npz")
    for part in ("edges", "suspicion", "nodes", "planted"):
        np.testing.assert_array_equal(getattr(back, part), getattr(named, part))
    assert all(np.array_equal(back.reasons[name], column) for name, column in named.reasons.items())
    assert back.summary() == named.summary()
    assert np.array_equal(back.graph.names, names)
    assert np.array_equal(back.graph.labels, named.graph.labels)
    status, _, _ = command("report", tmp_path / "audit.npz", "-o", tmp_path / "page.html", "--node", "n7")
    assert status == 0
    assert "Most suspicious edges" in (tmp_path / "page.html").read_text()


def test_damaged_audits_are_refused(found, tmp_path):
    path = tmp_path / "audit.npz"
    save_audit(found, path)
    with np.load(path) as archive:
        arrays = dict(archive)
    wrong = {
        "suspicion": arrays["suspicion"][1:],
        "edges": arrays["edges"] + 600,
        "audit": np.frombuffer(b"{}", dtype=np.uint8),
        "nodes": arrays["nodes"][:5],
    }
    for name, array in wrong.items():
        np.savez(path, **{**arrays, name: array})
        with pytest.raises(GraphError, match=r"audit\.npz"):
            load_audit(path)
    np.savez(path, **{name: array for name, array in arrays.items() if name != "audit"})
    with pytest.raises(GraphError, match="holds no audit"):
        load_audit(path)


def test_another_ending_is_refused_before_the_work(found, tmp_path, command):
    with pytest.raises(GarnetError, match=r"\.csv or a \.parquet"):
        found.save(tmp_path / "edges.xlsx")
    status, _, told = command("audit", "cora", "-o", tmp_path / "edges.xlsx")
    assert status == 1
    assert "'edges.xlsx'" in told
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_it_found(command, tmp_path):
    status, told, _ = command("audit", "cora", "-o", tmp_path / "edges.csv", "--top", "3")
    assert status == 0
    assert "edges are more likely made up" in told
    assert (tmp_path / "edges.csv").stat().st_size > 0
    status, told, _ = command("audit", "cora", "--json")
    assert status == 0
    assert json.loads(told)["edges"] == cora().num_edges


@pytest.mark.parametrize(
    "options",
    [
        ("-o", "g.csv"),
        ("--result", "g.npz"),
        ("-o", "a.csv", "--nodes-out", "a.csv"),
        ("-o", "a.csv", "--nodes-out", "./a.csv"),
    ],
)
def test_no_file_is_written_over_another_of_the_command(command, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    source = "g.npz" if "g.npz" in options else "g.csv"
    block_model(40, seed=0).save(source)
    before = (tmp_path / source).read_bytes()
    status, _, told = command("audit", source, *options)
    assert status == 1
    assert "is read by this command" in told or "is written twice by this command" in told
    assert (tmp_path / source).read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_names_in_any_script_are_written(tmp_path):
    columns = {"node": np.array(["Zürich", "東京", "half \ud800"]), "stability": np.array([0.5, 0.25, 0.125])}
    save_table(columns, tmp_path / "nodes.csv")
    assert (tmp_path / "nodes.csv").read_text(encoding="utf-8").split() == [
        "node,stability", "Zürich,0.5", "東京,0.25", "half", "?,0.125",
    ]  # fmt: skip
    read = pytest.importorskip("pyarrow.parquet").read_table
    save_table(columns, tmp_path / "nodes.parquet")
    assert read(tmp_path / "nodes.parquet").to_pydict()["node"] == ["Zürich", "東京", "half ?"]


def test_where_nothing_can_be_planted_the_audit_says_so(command, tmp_path):
    as_graph(np.ones((5, 5)) - np.eye(5)).save(tmp_path / "full.npz")
    status, told, _ = command("audit", tmp_path / "full.npz")
    assert status == 0
    assert "no edge was planted to compare with" in told


def test_false_alarms_are_what_suspicion_leaves_of_the_doubted(found):
    assert found.false_alarms == pytest.approx(np.mean([1 - one for one in found.suspicion if one > 0.5]))
    assert found.summary()["false_alarms"] == found.false_alarms


def test_it_shows_itself_in_a_line_and_in_a_small_table(known, found):
    assert repr(found).startswith("Audit(600 nodes;")
    assert len(repr(found)) < 200
    hostile = np.array([f"<script>{number}</script>" for number in range(600)])
    shown = audit(as_graph(known[1], names=hostile))._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown
    assert len(shown) < 2000
