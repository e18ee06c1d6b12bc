import numpy as np
import pytest

from garnet import as_graph
from garnet.audit import audit
from garnet.audit.file import load_audit, save_audit
from garnet.datasets import block_model, contextual_block_model, random_split
from garnet.errors import GraphError


def communities(seed):
    return block_model(300, classes=6, mean_degree=14, homophily=0.97, seed=seed)


def described(seed):
    graph = contextual_block_model(300, classes=6, mean_degree=12, features=16, signal=4.0, seed=seed)
    return as_graph(graph, split=random_split(graph.labels, train=0.3, val=0.3, seed=seed))


def area(good, bad):
    good, bad = (np.nan_to_num(one, nan=0.5) for one in (good, bad))
    return float(((good[:, None] > bad) + 0.5 * (good[:, None] == bad)).mean())


@pytest.mark.parametrize("make", [communities, described])
@pytest.mark.parametrize("seed", range(2))
def test_an_edge_of_the_graph_is_as_suspicious_as_it_was(make, seed):
    found = audit(make(seed))
    judged = found.judge(found.edges)
    told = judged.verdict != "unknown"
    assert told.mean() > 0.9
    assert np.allclose(judged.score[told], 1 - found.suspicion[told], atol=1e-3)
    clear = told & (np.abs(found.suspicion - 0.5) > 1e-3)
    assert ((judged.verdict == "doubt") == found.doubted)[clear].all()
    assert judged.purify_again is None


@pytest.mark.parametrize("make", [communities, described])
@pytest.mark.parametrize("seed", range(2))
def test_planted_edges_score_worse_than_true_ones_that_were_held_out(make, seed):
    graph, rng = make(seed), np.random.default_rng(seed)
    hidden = np.zeros(graph.num_edges, dtype=bool)
    hidden[rng.choice(graph.num_edges, 100, replace=False)] = True
    pairs = rng.integers(graph.num_nodes, size=(2, 400))
    far = pairs[:, graph.labels[pairs[0]] != graph.labels[pairs[1]]][:, :100]
    found = audit(graph.with_edges(graph.edges[:, ~hidden]))
    # Of a hundred against a hundred, chance gives more than 0.62 once in a thousand times.
    assert area(found.judge(graph.edges[:, hidden]).score, found.judge(far).score) > 0.62


def test_order_direction_and_copies_do_not_count():
    graph, rng = described(0), np.random.default_rng(0)
    found = audit(graph)
    edges = rng.integers(graph.num_nodes + 5, size=(2, 80))
    once, order = found.judge(edges), rng.permutation(160) % 80
    again = found.judge(edges[::-1, order])
    assert np.array_equal(once.score[order], again.score, equal_nan=True)
    assert (once.verdict[order] == again.verdict).all()


def test_it_judges_as_before_when_it_was_saved(tmp_path):
    graph, rng = described(1), np.random.default_rng(0)
    found = audit(graph)
    save_audit(found, tmp_path / "audit.npz")
    loaded = load_audit(tmp_path / "audit.npz")
    edges = rng.integers(graph.num_nodes + 5, size=(2, 200))
    rows = {graph.num_nodes + 1: graph.features[0], graph.num_nodes + 2: graph.features[1]}
    before, after = (one.judge(edges, features=rows) for one in (found, loaded))
    assert np.allclose(before.score, after.score, atol=1e-6, equal_nan=True)
    assert (before.reason == after.reason).all()
    # And once more, from the file of a file.
    save_audit(loaded, tmp_path / "again.npz")
    assert np.array_equal(
        load_audit(tmp_path / "again.npz").judge(edges).score, loaded.judge(edges).score, equal_nan=True
    )


def test_a_file_of_an_earlier_version_must_be_made_again(tmp_path):
    path = tmp_path / "audit.npz"
    save_audit(audit(communities(0)), path)
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files if not name.startswith("judge")}
    np.savez(path, **arrays)
    old = load_audit(path)
    assert old.graph.num_nodes == 300
    with pytest.raises(GraphError, match="make it again"):
        old.judge([[0], [1]])


def test_damage_is_told(tmp_path):
    path = tmp_path / "audit.npz"
    save_audit(audit(described(0)), path)
    whole = path.read_bytes()
    with np.load(path) as found:
        parts = {name: found[name] for name in found.files if name.startswith("judge")}
    assert len(parts) > 8
    for name, array in parts.items():
        path.write_bytes(whole)
        with np.load(path) as found:
            arrays = {other: found[other] for other in found.files}
        np.savez(path, **(arrays | {name: np.full(array.shape, np.nan)}))
        with pytest.raises(GraphError):
            load_audit(path)
