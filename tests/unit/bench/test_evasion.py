"""The measure `evasion`: models that are trained on the clean graph, and attacked afterwards."""

import numpy as np
import pytest

from garnet.attacks import Budget, Random
from garnet.bench.build import build
from garnet.bench.measure import measure_cell
from garnet.bench.published import accuracy
from garnet.bench.record import append_record, read_records
from garnet.bench.study import parse_study
from garnet.bench.table import make_tables
from garnet.datasets import load
from garnet.datasets.splits import aimed_at
from garnet.graph.graph import as_graph
from garnet.graph.perturbation import Perturbation
from garnet.report.study import study_sections

CLEAN = load("cora", split="random")


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    path = tmp_path_factory.mktemp("perturbations") / "cora-random-0.5.npz"
    Random()(CLEAN, budget=Budget.fraction(0.5)).save(path)
    return path


def cells(attack, **group):
    given = {"graph": "cora", "attack": str(attack), "defense": "none", "backbone": "gcn", "split": "random", **group}
    given = {"training": {"epochs": 5, "lr": 0.05}, **given}
    return parse_study({"title": "t", "seeds": 2, "cells": [given]}).cells


@pytest.mark.parametrize("defense", ["none", "jaccard", "gnnguard"])
def test_models_of_the_clean_graph_are_asked_about_the_attacked_one(attack, defense):
    (cell,) = cells(attack, measure="evasion", defense=defense)
    record = measure_cell(cell)
    assert record.status == "done", record.reason
    attacked, whole = Perturbation.load(attack).apply(CLEAN), build(cell, "cpu")
    by_hand = [100 * whole.predict(one, attacked).accuracy() for one in whole.fit_seeds(CLEAN, cell.seeds)]
    assert record.values["accuracy"] == pytest.approx(by_hand)
    assert record.mean == pytest.approx(np.mean(by_hand))
    assert record.fingerprints["graph"] == attacked.fingerprint
    assert {"fit", "predict", "total"} <= set(record.seconds)


def test_the_same_models_serve_another_attack_as_well_as_new_ones(attack, tmp_path):
    other = tmp_path / "cora-random-0.1.npz"
    Random()(CLEAN, budget=Budget.fraction(0.1), seed=1).save(other)
    first, second = (cells(path, measure="evasion")[0] for path in (attack, other))
    after_first = [measure_cell(first), measure_cell(second)][1]
    whole = build(second, "cpu")
    attacked = Perturbation.load(other).apply(CLEAN)
    fresh = [100 * whole.predict(one, attacked).accuracy() for one in whole.fit_seeds(CLEAN, second.seeds)]
    assert after_first.values["accuracy"] == pytest.approx(fresh)
    # Another training is another model.
    (longer,) = cells(other, measure="evasion", training={"epochs": 30, "lr": 0.05})
    assert measure_cell(longer).mean != after_first.mean


def test_targets_are_kept_out_of_training(tmp_path):
    targets = np.concatenate([CLEAN.split.train[:2], CLEAN.split.test[:3]])
    path = tmp_path / "cora-nettack-1.npz"
    Perturbation.of(CLEAN, np.array([[0], [5]]), attack="nettack", targets=targets).save(path)
    (cell,) = cells(path, measure="evasion")
    record = measure_cell(cell)
    parts = aimed_at(CLEAN.split, targets)
    assert record.fingerprints["split"] == parts.fingerprint
    whole = build(cell, "cpu")
    attacked = as_graph(Perturbation.load(path).apply(CLEAN), split=parts)
    models = whole.fit_seeds(as_graph(CLEAN, split=parts), cell.seeds)
    assert record.values["accuracy"] == pytest.approx([100 * whole.predict(one, attacked).accuracy() for one in models])


def test_words_tables_and_reports_tell_it_from_a_poisoning(attack, tmp_path):
    poisoning, evasion = cells(attack, measure=["accuracy", "evasion"])
    assert str(poisoning) == "cora, random, random 0.5, ours, gcn, none"
    assert str(evasion) == "cora, random, random 0.5, ours, evasion, gcn, none"
    (clean,) = cells("none", measure="evasion")
    assert "clean, evasion" in str(clean)
    path = tmp_path / "records.jsonl"
    for cell in (poisoning, evasion):
        append_record(path, measure_cell(cell))
    records, damages = read_records(path)
    assert (len(records), damages) == (2, ())
    first, second = make_tables("t", records)
    assert first.columns[-1] == "cora random 0.5, ours"
    assert second.columns[-1] == "cora random 0.5, ours, evasion"
    assert "trained on the clean graph" in second.below[0]
    assert "trained on the clean graph" not in first.below[0]
    assert any("evasion" in str(section) for section in study_sections(records, "t"))


def test_no_number_of_the_paper_stands_beside_it():
    poisoning, evasion = parse_study(
        {
            "title": "t",
            "cells": [
                {
                    "graph": "cora",
                    "attack": "metattack",
                    "budget": 0.2,
                    "defense": "none",
                    "backbone": "gcn",
                    "measure": ["accuracy", "evasion"],
                }
            ],
        }
    ).cells
    assert accuracy(poisoning.facts()) is not None
    assert accuracy(evasion.facts()) is None
