import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from garnet import GARNET, as_graph, load_graph
from garnet.datasets import block_model
from garnet.errors import GarnetError, GraphError
from garnet.graph.provenance import Provenance
from garnet.report.purification_record import Accuracy, PurificationRecord
from garnet.report.statistics import bins, counts_in


@pytest.fixture(scope="module")
def purified():
    graph = block_model(200, mean_degree=6, seed=1)
    return graph, GARNET(rank=8, k=4).purify(graph)


def rewrite(path, **changed):
    """The same file with some arrays replaced, or removed if None."""
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files} | changed
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def facts_of(path):
    with np.load(path) as found:
        return json.loads(found["result"].tobytes())


def described(path, **changed):
    text = json.dumps(facts_of(path) | changed)
    rewrite(path, result=np.frombuffer(text.encode(), dtype=np.uint8))


@pytest.fixture
def saved(tmp_path, purified):
    path = tmp_path / "result.npz"
    PurificationRecord.of(*purified).save(path)
    return path


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(12, 60), labelled=st.booleans(), named=st.booleans())
def test_a_result_comes_back_as_it_was(tmp_path_factory, seed, n, labelled, named):
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.3), 1)
    graph = as_graph(
        dense + dense.T,
        labels=rng.integers(-1, 3, n) if labelled else None,
        names=np.array([f"<node {i}>" for i in range(n)]) if named else None,
    )
    result = GARNET(k=3, rank=4).purify(graph)
    path = tmp_path_factory.mktemp("result") / "one.npz"
    truth = graph.edges[::-1, : graph.num_edges // 3]
    accuracy = Accuracy(before=(0.5, 0.25), after=(1.0, 0.75), model="gcn")
    PurificationRecord.of(graph, result, truth=truth, accuracy=accuracy, command="garnet purify 'a b'").save(path)
    loaded = PurificationRecord.load(path)
    assert loaded.before == graph
    assert loaded.after == result.graph
    for name, chosen in (
        ("kept", loaded.given & loaded.stays),
        ("dropped", loaded.given & ~loaded.stays),
        ("added", loaded.stays & ~loaded.given),
    ):
        assert np.array_equal(loaded.edges[:, chosen], getattr(result.ledger, name))
        assert np.array_equal(loaded.scores[chosen], getattr(result.ledger, f"{name}_scores"))
    assert loaded.base_counts.sum() == np.isfinite(result.scores).sum()
    assert loaded.threshold == result.threshold
    assert np.array_equal(loaded.values, result.spectrum.values.numpy())
    assert loaded.summary == result.summary()
    assert loaded.made.fingerprints == {"before": graph.fingerprint, "after": result.graph.fingerprint}
    assert loaded.accuracy == accuracy
    assert loaded.made == Provenance.here("garnet purify 'a b'", before=graph, after=result.graph)
    assert {tuple(edge) for edge in loaded.edges[:, loaded.adversarial].T} == {(v, u) for u, v in truth.T}


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_every_score_is_in_a_bin(values):
    bounds = bins(np.array(values))
    counts = counts_in(np.array(values), bounds)
    assert counts.sum() == len(values)
    assert (np.diff(bounds) > 0).all()
    inside = sum(bounds[5] <= one < bounds[6] for one in values)
    assert counts[5] == inside


def test_a_few_extreme_scores_leave_room_for_the_others():
    usual = np.linspace(-1, 0, 960)
    counts = counts_in(np.append(usual, np.full(40, -1e6)), bins(np.append(usual, np.full(40, -1e6))))
    assert (counts > 0).all()


def test_the_same_purification_gives_the_same_bytes(tmp_path, purified):
    for name in ("one.npz", "two.npz"):
        PurificationRecord.of(*purified).save(tmp_path / name)
    contents = []
    for name in ("one.npz", "two.npz"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            contents.append({one: archive.read(one) for one in archive.namelist()})
    assert contents[0] == contents[1]


def test_nothing_is_left_behind_where_it_cannot_be_written(tmp_path, purified):
    with pytest.raises(GarnetError, match="nowhere does not exist"):
        PurificationRecord.of(*purified).save(tmp_path / "nowhere" / "result.npz")
    with pytest.raises(GraphError, match=r"an \.npz file"):
        PurificationRecord.of(*purified).save(tmp_path / "result.csv")
    assert not list(tmp_path.iterdir())


def test_the_purification_of_another_graph_is_refused(purified):
    with pytest.raises(GraphError, match="another graph"):
        PurificationRecord.of(block_model(201, mean_degree=6, seed=1), purified[1])


@pytest.mark.parametrize(
    "truth", [np.array([[0], [200]]), np.array([[-1], [3]]), np.zeros((3, 2), int), np.ones((2, 2))]
)
def test_truth_that_is_no_edges_is_refused(purified, truth):
    with pytest.raises(GraphError, match="adversarial edges"):
        PurificationRecord.of(*purified, truth=truth)


@pytest.mark.parametrize("shares", [(), (1.2,), (float("nan"),), (80.0,)])
def test_accuracies_are_shares(purified, shares):
    with pytest.raises(GraphError, match="share from 0 to 1"):
        PurificationRecord.of(*purified, accuracy=Accuracy(before=(0.5,), after=shares))


def test_files_that_hold_no_result(tmp_path, purified):
    with pytest.raises(GraphError, match="no such file"):
        PurificationRecord.load(tmp_path / "missing.npz")
    purified[0].save(tmp_path / "graph.npz")
    with pytest.raises(GraphError, match="garnet purify --result"):
        PurificationRecord.load(tmp_path / "graph.npz")
    (tmp_path / "text.npz").write_text("nothing")
    with pytest.raises(GraphError, match="Cannot read"):
        PurificationRecord.load(tmp_path / "text.npz")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("edges", lambda old: old[:, ::-1]),
        ("edges", lambda old: old + 1000),
        ("edges", lambda old: old[0]),
        ("edges", lambda old: old[[0, 0]]),
        ("edges", lambda old: None),
        ("scores", lambda old: old[:-1]),
        ("scores", lambda old: old * np.nan),
        ("weights_before", lambda old: -old),
        ("weights_after", lambda old: old.astype(object)),
        ("base_bounds", lambda old: old[1:]),
        ("values", lambda old: old * np.inf),
        ("labels", lambda old: old[:3]),
        ("result", lambda old: old[:-4]),
        ("result", lambda old: np.zeros(1 << 21, np.uint8)),
    ],
)
def test_a_damaged_file_is_one_sentence(saved, name, damage):
    with np.load(saved) as found:
        old = found[name]
    with np.errstate(invalid="ignore"):
        rewrite(saved, **{name: damage(old)})
    with pytest.raises(GraphError, match="Cannot read"):
        PurificationRecord.load(saved)


@pytest.mark.parametrize(
    "changed",
    [
        {"num_nodes": 10**15},
        {"num_nodes": -1},
        {"num_nodes": "many"},
        {"threshold": "low"},
        {"summary": {}},
        {"summary": {"parameters": {}, "stages": [{"name": "embed", "seconds": "1.0", "peak_bytes": 1}]}},
        {"summary": {"parameters": [], "stages": []}},
        {"accuracy": {"before": [2], "after": [0], "model": ""}},
        {"summary": {"parameters": {}, "stages": [{"name": "embed", "seconds": float("inf"), "peak_bytes": 1}]}},
        {"command": None},
    ],
)
def test_a_damaged_description_is_one_sentence(saved, changed):
    described(saved, **changed)
    with pytest.raises(GraphError, match="Cannot read"):
        PurificationRecord.load(saved)


def test_purify_saves_a_result(command, tmp_path):
    block_model(150, mean_degree=6, seed=2).save(tmp_path / "graph.npz")
    line = ("purify", tmp_path / "graph.npz", "-o", tmp_path / "clean.npz", "--rank", "6", "--json")
    status, out, _ = command(*line, "--result", tmp_path / "result.npz")
    loaded, said = PurificationRecord.load(tmp_path / "result.npz"), json.loads(out)
    assert status == 0
    assert loaded.after.num_edges == said["edges_after"]
    assert loaded.made.command.startswith("garnet purify ")
    for taken in ("graph.npz", "clean.npz"):
        status, _, err = command(*line, "--result", tmp_path / taken)
        assert status == 1
        assert "choose another" in err
    assert load_graph(tmp_path / "graph.npz").num_nodes == 150
    status, _, err = command(*line, "--result", tmp_path / "result.json")
    assert status == 1
    assert ".npz" in err
