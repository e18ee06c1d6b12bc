import json
import zipfile
from dataclasses import fields

import numpy as np
import pytest

from garnet import as_graph
from garnet.audit import Audit
from garnet.audit.file import load_audit, save_audit
from garnet.datasets import block_model
from garnet.errors import GraphError
from garnet.graph.provenance import Provenance
from garnet.progress import Stage


@pytest.fixture
def found():
    graph = as_graph(block_model(60, mean_degree=6, seed=0), names=np.array([f"n{number}" for number in range(60)]))
    rng = np.random.default_rng(0)
    m = graph.num_edges
    shares = {"suspicion": rng.random(m), "nodes": rng.random(60), "planted": rng.random(9)}
    plain = {one.name: rng.random() for one in fields(Audit) if one.type == "float"}
    reasons = {"gradient": rng.random(m), "smaller_degree": np.arange(m), "because": np.array(["features"] * m)}
    stages = (Stage("reasons", 1.25, 10**9), Stage("plant", 0.5, 2 * 10**9))
    return Audit(
        graph=graph, edges=graph.edges, reasons=reasons, weights={"features": 2.0}, stages=stages, **shares, **plain
    )


@pytest.fixture
def saved(found, tmp_path):
    save_audit(found, tmp_path / "audit.npz", command="garnet audit graph.npz")
    return tmp_path / "audit.npz"


def rewrite(path, **changed):
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | changed)


def described(path, **changed):
    with np.load(path) as archive:
        facts = json.loads(archive["audit"].tobytes())
    rewrite(path, audit=np.frombuffer(json.dumps(facts | changed).encode(), dtype=np.uint8))


def test_all_of_an_audit_comes_back(found, saved):
    back = load_audit(saved)
    assert back.graph == found.graph
    for one in fields(Audit):
        if one.name not in ("graph", "reasons", "made"):
            np.testing.assert_array_equal(getattr(back, one.name), getattr(found, one.name))
    assert {name: column.tolist() for name, column in back.reasons.items()} == {
        name: column.tolist() for name, column in found.reasons.items()
    }
    assert back.made == Provenance.here("garnet audit graph.npz", graph=found.graph)


def test_what_was_read_is_written_as_it_was_made(saved, tmp_path):
    save_audit(load_audit(saved), tmp_path / "again.npz", command="garnet report")
    assert load_audit(tmp_path / "again.npz").made.command == "garnet audit graph.npz"


@pytest.mark.parametrize(
    "changed",
    [
        {"num_nodes": float("inf")},
        {"num_nodes": float("nan")},
        {"num_nodes": -1},
        {"num_nodes": 10**15},
        {"share": float("nan")},
        {"share": -0.1},
        {"power": 1.5},
        {"power": 10**400},
        {"weights": [1]},
        {"stages": [{"name": "reasons", "seconds": float("inf"), "peak_bytes": 1}]},
        {"stages": 3},
        {"made": None},
        {"wordings": 3},
        {"made": {"command": 3, "fingerprints": {}, "versions": {}, "machine": {}}},
    ],
)
def test_a_damaged_description_is_one_sentence(saved, changed):
    described(saved, **changed)
    with pytest.raises(GraphError, match=r"Cannot read .*audit\.npz"):
        load_audit(saved)


@pytest.mark.parametrize("text", [b"[" * 200_000, b"[]", b"{}", b"\xff", b""])
def test_a_description_that_is_none_is_one_sentence(saved, text):
    rewrite(saved, audit=np.frombuffer(text, dtype=np.uint8))
    with pytest.raises(GraphError, match=r"Cannot read .*audit\.npz"):
        load_audit(saved)


@pytest.mark.parametrize("name", ["suspicion", "nodes", "planted"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -0.5, 1.5])
def test_what_is_from_0_to_1_stays_there(found, saved, name, wrong):
    values = getattr(found, name).copy()
    values[2] = wrong
    rewrite(saved, **{name: values})
    with pytest.raises(GraphError, match=f"its {name} has numbers that are not from 0 to 1"):
        load_audit(saved)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0.0, -1.0])
def test_weights_of_edges_are_those_of_a_graph(found, saved, wrong):
    weights = found.graph.weights.copy()
    weights[0] = wrong
    rewrite(saved, weights=weights)
    with pytest.raises(GraphError, match=r"Cannot read .*audit\.npz"):
        load_audit(saved)


@pytest.mark.parametrize(
    "wrong",
    [
        {"against": np.full((3, 5), -1, dtype=np.int8)},
        {"against": np.full((2, 999), -1, dtype=np.int8)},
        {"against": 77},
        {"against": -2},
        {"profiles": 1.5},
        {"profiles": np.nan},
        {"profiles": np.zeros(3)},
        {"judged": np.zeros(3, dtype=np.int8)},
        {"judged": 2},
    ],
)
def test_what_is_said_of_each_edge_fits_the_edges(found, saved, wrong):
    m = found.graph.num_edges
    whole = {
        "against": np.full((3, m), -1, dtype=np.int8),
        "profiles": np.full(m, 0.5),
        "judged": np.zeros(m, dtype=np.int8),
    }
    rewrite(saved, **whole)
    np.testing.assert_array_equal(load_audit(saved).profiles, whole["profiles"])
    for name, value in wrong.items():
        array = whole[name].copy()
        array.flat[2] = value if np.ndim(value) == 0 else 0
        rewrite(saved, **whole | {name: array if np.ndim(value) == 0 else value})
    with pytest.raises(GraphError, match=r"Cannot read .*audit\.npz"):
        load_audit(saved)


@pytest.mark.parametrize("shape", [(0, 10**31), (2**62, 0), (2, 0, 10**31)])
def test_an_array_without_numbers_and_with_an_absurd_side_is_one_sentence(saved, shape):
    header = repr({"descr": "<i8", "fortran_order": False, "shape": shape}).ljust(117).encode() + b"\n"
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["edges.npy"] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(saved, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(GraphError, match="its array 'edges'"):
        load_audit(saved)


def test_an_audit_that_tells_nothing_of_its_making_opens(found, saved):
    with np.load(saved) as archive:
        facts = json.loads(archive["audit"].tobytes())
    del facts["made"], facts["stages"]
    rewrite(saved, audit=np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8))
    back = load_audit(saved)
    assert (back.made, back.stages) == (None, ())
    np.testing.assert_array_equal(back.suspicion, found.suspicion)
