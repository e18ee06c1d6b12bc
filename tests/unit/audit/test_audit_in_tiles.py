"""An audit on disk finds what one in memory does, streams it into tables, and goes on where it was killed."""

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from garnet import InMemory, OnDisk, as_graph
from garnet.audit import TiledAudit, audit, tiled_ground
from garnet.audit.blocks import purifier
from garnet.audit.planted import planted
from garnet.audit.tiled_planted import pairs_to_plant, usual_weight
from garnet.datasets import block_model, class_features, cora, random_split
from garnet.errors import GarnetError, GraphError, ParameterError
from garnet.progress import Step
from garnet.spectral import Spectrum

DRAWN = block_model(700, mean_degree=10, homophily=0.95, seed=1)
SMALL = block_model(300, mean_degree=10, homophily=0.95, seed=1)
GRAPHS = {
    "cora": cora(),
    "no features": as_graph(cora().adjacency),
    "labels count": as_graph(cora(), split=random_split(cora().labels, train=0.1, val=0.1, seed=0)),
    "weights": as_graph(DRAWN.with_edges(DRAWN.edges, np.random.default_rng(0).random(DRAWN.num_edges) + 0.5)),
}


def on_disk(parts=3, **options):
    return OnDisk(memory="1GiB", parts=parts, **options)


def collected(pieces):
    pieces = list(pieces)
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


@pytest.mark.parametrize(
    "name", [one if one == "cora" else pytest.param(one, marks=pytest.mark.slow) for one in GRAPHS]
)
def test_what_is_found_on_disk_is_what_is_found_in_memory(name, tmp_path):
    graph, expected = GRAPHS[name], audit(GRAPHS[name])
    found = audit(graph, place=on_disk(output=tmp_path / "out"))
    assert found.parts == 3
    # Where ends are equally far from each other but for rounding, ranks are dealt out by it.
    for figure in ("share", "power", "false_alarms"):
        assert getattr(found, figure) == pytest.approx(getattr(expected, figure), abs=2e-4)
    assert found.weights == pytest.approx(expected.weights, abs=1e-3)
    assert (found.doubted_edges, found.labels) == (expected.doubted_edges, expected.labels)
    np.testing.assert_allclose(np.sort(found.planted), np.sort(expected.planted), atol=5e-3)

    edges, table = collected(found.batches()), expected.edge_table()
    assert (np.diff(edges["suspicion"]) <= 0).all()
    assert list(edges) == [column for column in table if column != "group"]
    back = np.lexsort((edges["target"], edges["source"]))
    np.testing.assert_array_equal(np.stack([edges["source"], edges["target"]])[:, back], expected.edges)
    np.testing.assert_allclose(edges["suspicion"][back], expected.suspicion, atol=5e-3)
    assert np.median(np.abs(edges["suspicion"][back] - expected.suspicion)) < 1e-5
    for reason in (*expected.reasons.keys() - {"because"},):
        np.testing.assert_allclose(edges[reason][back], expected.reasons[reason], atol=1e-3)
    for words, theirs in ((edges["because"], expected.reasons["because"]), (edges["reason"], expected.reason)):
        assert (words[back] == theirs).mean() > 0.999
    for column, values in found.edge_table().items():
        np.testing.assert_array_equal(values, edges[column][: len(values)])
    assert len(found.edge_table()["source"]) == min(1000, graph.num_edges)

    nodes, theirs = found.node_table(), expected.node_table()
    assert (np.diff(nodes["stability"]) >= 0).all()
    ours, order = np.argsort(nodes["node"]), np.argsort(theirs["node"])
    for column, atol in (("neighbors", 0), ("stability", 5e-3), ("score", 5e-2)):
        np.testing.assert_allclose(nodes[column][ours], theirs[column][order], atol=atol)
    json.dumps(found.summary(), allow_nan=False)
    assert found.summary()["doubted"] == expected.summary()["doubted"]


@pytest.mark.parametrize("name", ["weights", "no features"])
def test_the_very_edges_are_planted_that_are_planted_in_memory(name):
    graph = GRAPHS[name]
    with on_disk().open(purifier(0), graph) as work:
        for number in range(2):
            copy, new = planted(graph, seed=(5, number))
            assert np.array_equal(pairs_to_plant(work, (5, number)).numpy(), copy.edges[:, new])
        assert usual_weight(work) == pytest.approx(float(np.median(graph.weights)), rel=1e-6)


@pytest.mark.slow
def test_of_many_edges_some_are_enough_to_rank_the_others(monkeypatch, tmp_path):
    clean = block_model(3000, mean_degree=14, homophily=0.95, seed=2)
    ends = np.sort(np.random.default_rng(0).integers(3000, size=(2, 1000)), axis=0)
    edges = np.concatenate([clean.edges, ends[:, ends[0] < ends[1]]], axis=1)
    graph = as_graph(clean.with_edges(edges), features=class_features(clean.labels, dim=12, signal=3.0, seed=0))
    expected = audit(graph)
    monkeypatch.setattr(tiled_ground, "RANKED", graph.num_edges // 3)
    found = audit(graph, place=on_disk(output=tmp_path / "out"))
    assert found.share == pytest.approx(expected.share, rel=0.3)  # as that of another seed would be
    assert found.power == pytest.approx(expected.power, abs=0.02)
    table = collected(found.batches())
    suspicion = table["suspicion"][np.lexsort((table["target"], table["source"]))]
    assert np.corrcoef(suspicion, expected.suspicion)[0, 1] > 0.99
    assert ((suspicion > 0.5) == expected.doubted).mean() > 0.98


def test_tables_name_nodes_as_the_user_does_and_may_be_text(tmp_path):
    names = np.array([f"Knoten, {number:03d}" for number in range(700)])
    named = as_graph(DRAWN, names=names)
    expected = audit(named)
    found = audit(named, place=on_disk(output=tmp_path / "found.csv"))
    assert {path.name for path in (tmp_path / "found.csv").iterdir()} == {
        "_garnet.json",
        *(f"{kind}-0000{piece}.csv" for kind in ("part", "_nodes") for piece in range(3)),
    }
    with (tmp_path / "found.csv" / "part-00000.csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    pair, table = {first["source"], first["target"]}, expected.edge_table()
    assert pair == {table["source"][0], table["target"][0]}
    edges = collected(found.batches())
    assert edges["smaller_degree"].dtype.kind == "i"
    assert edges["suspicion"] == pytest.approx(table["suspicion"], abs=5e-3)
    assert set(found.node_table()["node"]) == set(names)
    assert found.to_pandas(nodes=True).shape == (700, 5)


def test_without_an_output_the_worst_edges_and_the_nodes_are_held():
    found = audit(DRAWN, place=on_disk())
    assert isinstance(found, TiledAudit)
    assert len(found.edge_table()["source"]) == 1000
    assert sorted(found.node_table()["node"]) == list(range(700))
    assert repr(found).startswith("TiledAudit(700 nodes;")
    assert [stage.name for stage in found.stages] == STAGES
    with pytest.raises(GarnetError, match="where the place has an output"):
        found.batches()


@pytest.mark.parametrize("n", [2, 3, 5])
def test_graphs_of_few_nodes_and_edges_and_with_more_parts_than_edges(n):
    path = as_graph((np.stack([np.arange(n - 1), np.arange(1, n)]), n), symmetrize=True)
    found = audit(path, place=on_disk(parts=4))
    assert np.isfinite(found.edge_table()["suspicion"]).all()
    full = audit(as_graph(np.ones((n, n)) - np.eye(n)), place=on_disk(parts=2))  # where nothing can be planted
    assert full.blind
    assert full.doubted_edges == 0


def test_a_graph_without_edges_and_what_only_memory_has(tmp_path):
    empty = as_graph((np.zeros((2, 0), np.int64), 5))
    with pytest.raises(GraphError, match="5 nodes and no edges between them; there is nothing to audit"):
        audit(empty, place=on_disk(output=tmp_path / "out"))
    assert not list(tmp_path.iterdir())
    with pytest.raises(ParameterError, match="can only be learnt from in memory"):
        audit(DRAWN, place=on_disk(), refuted=[(0, 1)])
    with pytest.raises(ParameterError, match="'ledger' of a place"):
        audit(DRAWN, place=on_disk(ledger=True))
    with pytest.raises(GarnetError, match=r"folder whose name says which. Got 'found.tsv'"):
        audit(DRAWN, place=on_disk(output=tmp_path / "found.tsv"))
    with pytest.raises(ParameterError, match="'place' parameter of audit must be InMemory"):
        audit(DRAWN, place="disk")
    with pytest.raises(ParameterError, match="beside a place"):
        audit(DRAWN, place=InMemory(), device="cuda")
    spectrum = Spectrum(torch.ones(1), torch.ones(700, 1), torch.zeros(1), 0)
    with pytest.raises(ParameterError, match="'spectrum' of InMemory"):
        audit(DRAWN, place=InMemory(spectrum=spectrum))


def test_a_place_in_memory_is_where_an_audit_is_made_anyway():
    assert np.array_equal(audit(DRAWN, place=InMemory()).suspicion, audit(DRAWN).suspicion)


# --- resuming --------------------------------------------------------------------------------------------------------

STAGES = ["tile", "reasons", "plant 1 of 3", "plant 2 of 3", "plant 3 of 3", "doubt"]
KILLED = {
    "begin": ("tile", ""),
    "embed": ("reasons", "spectral-1.bin"),
    "classes": ("reasons", "likely-2.bin"),
    "sample": ("reasons", "edges.bin"),
    "plant": ("plant 2 of 3", "planted-1/tiles/tile-1-*.bin"),
    "copy": ("plant 3 of 3", "planted-2/spectral-0.bin"),
    "judge": ("doubt", "judged-0-1.bin"),
    "write": ("doubt", "part-00001.parquet"),
    "nodes": ("doubt", "_nodes-00001.parquet"),
    "end": ("doubt", "_garnet.json"),
}
USUAL = {"embed", "copy", "judge", "write", "end"}
# Each case is a process of its own, which kills itself in a stage: at its begin, or once a file of some name is there.
CHILD = """
import json, os, signal, sys
from pathlib import Path
from garnet import OnDisk
from garnet.audit import audit

replace, now = Path.replace, []

def run(source, output, stage, name):
    def progress(step):
        now[:] = [step.stage]
        if step.stage == stage and not step.detail and not name:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(path, target):
        found = replace(path, target)
        if name and now == [stage] and Path(target).match(name):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    Path.replace = watched
    audit(source, place=OnDisk(memory="1GiB", parts=3, output=output), progress=progress)

for case in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        run(*case)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Begun(list):
    """The stages of which a run says that they begin."""

    def __call__(self, step):
        if not step.detail:
            self.append(step.stage)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "graph.npz"
    features = class_features(SMALL.labels, dim=8, signal=3.0, seed=0)
    split = random_split(SMALL.labels, train=0.2, val=0.2, seed=0)
    as_graph(SMALL, features=features, split=split).save(path)
    return path


def tables(folder):
    """The bytes of all files."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def undisturbed(source, tmp_path_factory):
    pytest.importorskip("pyarrow")
    output = tmp_path_factory.mktemp("whole") / "out"
    audit(source, place=on_disk(output=output))
    return tables(output)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="locks and signals of POSIX")
@pytest.mark.parametrize("names", [USUAL, KILLED.keys() - USUAL])
def test_killed_anywhere_the_same_call_gives_the_same_tables(source, undisturbed, tmp_path, names):
    names = sorted(names)
    for name in names:
        (tmp_path / name).mkdir()
    cases = [(str(source), str(tmp_path / name / "out"), *KILLED[name]) for name in names]
    line = [sys.executable, "-c", CHILD, json.dumps(cases)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert not done.stderr, done.stderr
    assert set(map(int, done.stdout.split())) == {-signal.SIGKILL}
    for name in names:
        output, begun = tmp_path / name / "out", Begun()
        assert not output.exists()
        found = audit(source, place=on_disk(output=output), progress=begun)
        # The manifest is written when all has been noted.
        assert begun == ([] if name == "end" else STAGES[STAGES.index(KILLED[name][0]) :]), name
        assert [stage.name for stage in found.stages] == STAGES
        assert tables(output) == undisturbed, name
        assert [path.name for path in output.parent.iterdir()] == ["out"], name
    again = audit(source, place=on_disk(output=output))
    assert again.done_before
    assert again.share == found.share
    assert again.edge_table().keys() == found.edge_table().keys()


def test_folders_of_others_are_refused_and_earlier_audits_replaced_when_told_to(source, undisturbed, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    (output / "notes.txt").write_text("mine")
    with pytest.raises(GarnetError, match=r"no result of ours \(notes.txt\)"):
        audit(source, place=on_disk(output=output))
    (output / "notes.txt").unlink()
    audit(source, place=on_disk(output=output))
    with pytest.raises(GarnetError, match="holds a finished audit; choose another folder"):
        audit(source, place=on_disk(output=output), seed=1)
    (output / "notes.txt").write_text("mine")
    audit(source, place=on_disk(output=output, overwrite=True), seed=1)
    assert (output / "notes.txt").read_text() == "mine"
    assert tables(output).keys() == undisturbed.keys() | {"notes.txt"}
    assert tables(output)["part-00000.parquet"] != undisturbed["part-00000.parquet"]


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_writes_a_folder_and_says_what_memory_only_can(command, source, undisturbed, tmp_path):
    line = ("audit", source, "--memory", "1GiB", "-o", tmp_path / "out")
    status, told, said = command(*line, "--top", "3")
    assert status == 0
    assert "edges are more likely made up" in told
    assert "Groups of nodes are looked for in memory only." in told
    assert [line.split(" ", 1)[1] for line in said.splitlines()] == STAGES
    status, told, said = command(*line)
    assert (status, "done already" in said) == (0, True)
    figures = json.loads(command("audit", source, "--memory", "1GiB", "--json")[1])
    assert figures["edges"] == SMALL.num_edges
    assert figures["groups"] is None
    for option, value in (
        ("--report", "a.html"),
        ("--nodes-out", "a.csv"),
        ("--groups", "a.csv"),
        ("--result", "a.npz"),
        ("--split", "0.1,0.1"),
        ("--confirmed", "a.csv"),
        ("--device", "cuda"),
    ):
        status, _, said = command(*line[:-1], tmp_path / "other", option, value)
        assert status == 1
        assert f"there is no {option};" in said
    status, _, said = command("audit", source, "--scratch", tmp_path)
    assert (status, "leave --scratch out" in said) == (1, True)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_progress_tells_of_the_stages_that_take_long():
    said = []
    audit(DRAWN, place=on_disk(), progress=said.append)
    assert Step("doubt", "judge", 6, 6) in said
    assert any(step.stage == "plant 1 of 3" and step.detail == "edges" for step in said)
