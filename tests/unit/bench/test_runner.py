import json
import multiprocessing
import os
import signal
from dataclasses import replace

import pytest
import torch

from garnet.bench.build import build
from garnet.bench.measure import measure_cell
from garnet.bench.paper import published_model
from garnet.bench.record import read_records
from garnet.bench.runner import run
from garnet.bench.study import parse_study
from garnet.datasets import block_model
from garnet.defenses import TSVD, LinearFloor, Purified
from garnet.errors import ParameterError
from garnet.purify.garnet import GARNET
from garnet.training.loop import Training

QUICK = {"graph": "cora", "backbone": "gcn", "training": {"epochs": 3}}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def study(*groups):
    return parse_study({"title": "t", "seeds": 2, "cells": list(groups)})


def accuracies(records):
    return [record.values.get("accuracy") for record in records]


def test_defences_are_built_as_the_cell_says():
    attacked = {"graph": "cora", "attack": "metattack", "budget": 0.1, "backbone": "gcn"}
    paper, tsvd, floor, plain = (
        build(study({**attacked, **group}).cells[0], "cpu")
        for group in (
            {"defense": "garnet-paper", "model": "paper", "parameters": {"k": 7}},
            {"defense": "tsvd", "parameters": {"rank": 9}, "training": {"lr": 0.5}},
            {"defense": "linear-floor", "parameters": {"k": 3}},
            {"defense": "none", "backbone": "mlp"},
        )
    )
    model = published_model("cora", "gcn", "metattack", 0.1)
    authors = GARNET.paper("cora", "gcn", attack="metattack", budget=0.1)
    assert paper == Purified(replace(authors, k=7), *model, "cpu")
    assert tsvd == TSVD(rank=9, training=Training(lr=0.5))
    assert floor == LinearFloor(k=3)
    assert plain.purifier is None
    assert type(plain.backbone).__name__ == "MLP"


def test_a_graph_without_features_is_measured_or_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("GARNET_DATA", str(tmp_path))
    (tmp_path / "polblogs").mkdir()
    block_model(100, classes=2, mean_degree=8, seed=0).save(tmp_path / "polblogs" / "polblogs.npz")
    group = {"graph": "polblogs", "backbone": "gprgnn", "training": {"epochs": 3}}
    defenses = ["none", "garnet", "tsvd", "rung", "jaccard", "gnnguard"]
    cells = study(*({**group, "defense": name} for name in defenses)).cells
    reasons = {cell.defense: measure_cell(cell).reason for cell in cells}
    assert [name for name in defenses if not reasons[name]] == defenses[:4]
    assert reasons["jaccard"].startswith("The graph has no features, and Jaccard compares")
    assert reasons["gnnguard"].startswith("The graph has no features, and GNNGuard compares")


def test_the_authors_parameters_for_a_clean_graph():
    cell = study({"graph": "citeseer", "defense": "garnet-paper", "backbone": "gcn"}).cells[0]
    assert build(cell, "cpu").purifier == GARNET.paper("citeseer", "gcn", attack="metattack", budget=0)


def test_cells_are_measured_once_and_alike_every_time(tmp_path):
    wanted = study({**QUICK, "defense": ["none", "feature-knn"]})
    steps = []
    first = run(wanted, tmp_path / "a.jsonl", progress=steps.append)
    assert (first.ran, first.missing, first.failures, first.interrupted) == (2, 0, (), False)
    one, two = map(str, wanted.cells)
    counted = [(step.stage, step.detail, step.done, step.total) for step in steps if step.total]
    outcomes = [record.outcome for record in first.records]
    assert counted == [(one, "", 0, 2), (one, outcomes[0], 1, 2), (two, "", 1, 2), (two, outcomes[1], 2, 2)]
    assert {step.detail for step in steps if not step.total} >= {"load", "neighbours"}

    content = (tmp_path / "a.jsonl").read_bytes()
    again = run(wanted, tmp_path / "a.jsonl")
    assert again.ran == 0
    assert (tmp_path / "a.jsonl").read_bytes() == content
    elsewhere = run(wanted, tmp_path / "b.jsonl")
    assert accuracies(elsewhere.records) == accuracies(first.records) == accuracies(again.records)


def test_a_record_says_all_there_is_to_say(tmp_path):
    record = run(study({**QUICK, "defense": "feature-knn", "parameters": {"k": 4}}), tmp_path / "r.jsonl").records[0]
    assert len(record.values["accuracy"]) == len(record.values["val_accuracy"]) == 2
    assert 14 < record.mean < 100
    assert record.parameters["purifier"] == {"name": "FeatureKNN", "k": 4, "feature_rank": None, "seed": 0}
    assert record.parameters["backbone"]["hidden"] == 64
    assert record.parameters["training"]["epochs"] == 3
    assert set(record.fingerprints) == {"graph", "split"}
    assert {"python", "numpy", "scipy", "torch", "pygarnet"} <= set(record.versions)
    assert set(record.machine) == {"processor", "cores", "memory_gb", "gpu"}
    assert {"neighbours", "train", "total"} <= set(record.seconds)
    assert record.peak_bytes > 0


def test_half_a_line_is_reported_and_its_cell_run_again(tmp_path):
    wanted, path = study({**QUICK, "defense": ["none", "feature-knn"]}), tmp_path / "r.jsonl"
    whole = run(wanted, path)
    os.truncate(path, path.stat().st_size - 100)
    resumed = run(wanted, path)
    assert resumed.ran == 1
    assert [damage.line for damage in resumed.damages] == [2]
    assert accuracies(resumed.records) == accuracies(whole.records)
    records, damages = read_records(path)
    assert (len(records), len(damages)) == (2, 1)


def test_a_cell_that_fails_is_recorded_and_the_others_go_on(tmp_path):
    bad = {**QUICK, "defense": "tsvd", "parameters": {"most_bytes": 1}}
    unknown = {**QUICK, "defense": "none", "split": "geom-gcn-x"}
    broken = {**QUICK, "defense": "feature-knn", "parameters": {"k": "three"}}
    wanted, path = study(bad, unknown, broken, {**QUICK, "defense": "none"}), tmp_path / "r.jsonl"
    summary = run(wanted, path)
    assert [record.status for record in summary.records] == ["failed", "failed", "failed", "done"]
    assert "more than its 'most_bytes'" in summary.records[0].reason
    assert "'geom-gcn-x' is malformed" in summary.records[1].reason
    assert "The 'k' parameter of FeatureKNN must be an integer >= 1. Got 'three'" in summary.records[2].reason
    assert run(wanted, path).ran == 0
    assert run(wanted, path, retry=True).ran == 3
    assert len(read_records(path)[0]) == 7


def test_a_record_of_other_defaults_is_told_and_measured_again_on_request(tmp_path):
    wanted, path = study({**QUICK, "defense": "none"}), tmp_path / "r.jsonl"
    run(wanted, path)
    old = json.loads(path.read_text())
    old["parameters"]["backbone"]["hidden"] = 3
    path.write_text(json.dumps(old) + "\n")
    again = run(wanted, path)
    assert (again.ran, again.outdated) == (0, 1)
    again = run(wanted, path, retry=True)
    assert (again.ran, again.outdated) == (1, 0)
    assert run(wanted, path).outdated == 0
    newer = json.loads(path.read_text().splitlines()[-1])
    del newer["parameters"]["backbone"]["dropout"]
    path.write_text(json.dumps(newer) + "\n")
    assert run(wanted, path).outdated == 0


@pytest.mark.slow
def test_processes_side_by_side_measure_the_same_and_one_that_dies_fails_its_cell_alone(tmp_path, monkeypatch):
    package = tmp_path / "package"
    (package / "deadly-1.dist-info").mkdir(parents=True)
    (package / "deadly-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1\n")
    (package / "deadly-1.dist-info" / "entry_points.txt").write_text("[garnet.purifiers]\ndeadly = deadly:Deadly\n")
    (package / "deadly.py").write_text(
        "import os\nfrom dataclasses import dataclass\nfrom garnet.defenses import Purifier\n"
        "@dataclass(frozen=True)\nclass Deadly(Purifier):\n"
        "    def _purify(self, graph, *, progress):\n        os._exit(1)\n"
    )
    monkeypatch.syspath_prepend(package)
    bad = {**QUICK, "defense": "tsvd", "parameters": {"most_bytes": 1}}
    safe = study({**QUICK, "defense": ["none", "feature-knn"]}, bad)
    alone = run(safe, tmp_path / "1.jsonl")
    together = run(study({**QUICK, "defense": ["none", "deadly", "feature-knn"]}, bad), tmp_path / "2.jsonl", jobs=2)
    none, deadly, *rest = together.records
    assert accuracies([none, *rest]) == accuracies(alone.records)
    assert [record.status for record in together.records] == ["done", "failed", "done", "failed"]
    assert "its process died" in deadly.reason
    assert len(read_records(tmp_path / "2.jsonl")[0]) == 4


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interrupt_stops_cleanly_and_the_next_run_goes_on(tmp_path, jobs):
    wanted, path = study({**QUICK, "defense": ["none", "feature-knn"]}), tmp_path / "r.jsonl"

    def interrupt(step):
        if step.done:
            signal.raise_signal(signal.SIGINT)

    summary = run(wanted, path, jobs=jobs, progress=interrupt)
    assert summary.interrupted
    assert (summary.ran, summary.missing) == (1, 1)
    resumed = run(wanted, path)
    assert (resumed.ran, resumed.missing) == (1, 0)
    assert multiprocessing.active_children() == []


def test_measures_of_the_graph(tmp_path):
    groups = [
        {"graph": "cora", "defense": ["none", "feature-knn"], "measure": ["homophily", "recovery"]},
        {"graph": "cora", "defense": "none", "measure": "rank"},
    ]
    plain, neighbours, same, other, rank = run(study(*groups), tmp_path / "r.jsonl").records
    assert plain.values["clean"] == plain.values["input"] == plain.values["after"] == pytest.approx(0.804, abs=1e-3)
    assert neighbours.values["after"] != plain.values["after"]
    assert same.values == {"recall": 1.0, "precision": 1.0}
    assert 0 < other.values["precision"] < other.values["recall"] < 1
    assert rank.values["rank"] == 2193
    assert len(rank.values["singular_values"]) == 200
    assert rank.mean is None


@pytest.mark.parametrize(("choice", "message"), [({"jobs": 0}, "'jobs'"), ({"device": "cupid"}, "'device'")])
def test_what_cannot_be_is_refused(tmp_path, choice, message):
    with pytest.raises(ParameterError, match=message):
        run(study({**QUICK, "defense": "none"}), tmp_path / "r.jsonl", **choice)
