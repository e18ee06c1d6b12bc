import csv
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from garnet import as_graph
from garnet.audit import audit
from garnet.audit.file import load_audit, save_audit
from garnet.audit.planted import doubt, planted
from garnet.audit.reasons import reasons_of
from garnet.datasets import block_model, class_features, cora, random_split
from garnet.edges import contains
from garnet.errors import GarnetError, GraphError


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
    ours, theirs = reasons_of(moved, seed=0, device="cpu"), reasons_of(plain, seed=0, device="cpu")
    place = np.argsort(order)
    back = np.sort(order[moved.edges], axis=0)
    where = {tuple(edge): number for number, edge in enumerate(back.T.tolist())}
    matched = [where[tuple(edge)] for edge in plain.edges.T.tolist()]
    assert place.shape == (600,)
    np.testing.assert_allclose(ours.found["features"][matched], theirs.found["features"], atol=1e-4)
    np.testing.assert_allclose(ours.found["shared_neighbors"][matched], theirs.found["shared_neighbors"], atol=1e-6)
    np.testing.assert_allclose(ours.found["spectral"][matched], theirs.found["spectral"], atol=1e-3)


def test_graphs_without_features_or_labels_are_audited_by_their_edges():
    bare = audit(as_graph(cora().adjacency))
    assert set(bare.weights) == {"spectral", "shared_neighbors"}
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
    result = doubt(belief, rng.normal(-3, 1, 500))
    order = np.argsort(belief)
    assert (np.diff(result.suspicion[order]) <= 1e-12).all()
    assert abs(result.share - false.mean()) < 0.03


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
