"""Studies of perturbations of one's own."""

import numpy as np
import pytest

from garnet.attacks import Budget, Random
from garnet.bench.cell import attack_words, threat
from garnet.bench.measure import measure_cell
from garnet.bench.published import accuracy
from garnet.bench.study import parse_study
from garnet.bench.table import make_tables
from garnet.datasets import load
from garnet.errors import ParameterError
from garnet.graph.perturbation import Perturbation


def study(attack, **group):
    cells = {"graph": "cora", "attack": str(attack), "defense": "none", "backbone": "gcn", "split": "random", **group}
    return parse_study({"title": "ours", "seeds": 2, "cells": [cells | {"training": {"epochs": 5, "lr": 0.01}}]})


@pytest.fixture(scope="module")
def poison(tmp_path_factory):
    path = tmp_path_factory.mktemp("perturbations") / "cora-random-0.05.npz"
    Random()(load("cora", split="random"), budget=Budget.fraction(0.05)).save(path)
    return path


def test_a_cell_is_measured_on_the_perturbed_graph(poison):
    (cell,) = study(poison).cells
    record = measure_cell(cell)
    assert record.status == "done"
    assert record.fingerprints["graph"] == Perturbation.load(poison).result
    assert threat(cell.facts()) == ("random", 0.05)
    assert attack_words(cell.facts()) == "random 0.05, ours"
    (table,) = make_tables("ours", [record])
    assert table.columns[-1] == "cora random 0.05, ours"


def test_targets_of_a_perturbation_are_the_test_nodes(tmp_path):
    graph = load("cora", split="random")
    targets = np.concatenate([graph.split.train[:2], graph.split.test[:3]])
    path = tmp_path / "cora-nettack-1.npz"
    Perturbation.of(graph, np.array([[0], [5]]), attack="nettack", targets=targets).save(path)
    (cell,) = study(path).cells
    accuracies = measure_cell(cell).values["accuracy"]
    assert {round(100 * one / 20, 6) % 1 for one in accuracies} == {0.0}  # five targets, steps of twenty percent


def test_a_perturbation_of_another_graph_fails_its_cell_alone(tmp_path):
    other = load("cora", split="random")
    other = Random()(other, budget="1 edges").apply(other)
    path = tmp_path / "cora-random-1.npz"
    Random(kind="drop")(other, budget="2 edges").save(path)
    record = measure_cell(study(path).cells[0])
    assert record.status == "failed"
    assert "was made for a graph with the fingerprint" in record.reason


def test_the_papers_number_stands_beside_ours():
    (cell,) = parse_study(
        {
            "title": "ours",
            "cells": [
                {
                    "graph": "cora",
                    "attack": "p/cora-lowblow-0.2.npz",
                    "defense": "tsvd",
                    "backbone": "gprgnn",
                    "model": "paper",
                }
            ],
        }
    ).cells
    assert accuracy(cell.facts()).mean == 26.03


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"attack": "poison.npz"}, "named after its graph, attack and budget"),
        ({"attack": "cora-metattack-0.2.npz", "budget": 0.2}, "has no budget and needs a group of cells of its own"),
        ({"attack": ["cora-metattack-0.2.npz", "metattack"]}, "has no budget and needs a group of cells of its own"),
    ],
)
def test_malformed_studies_are_refused(group, message):
    with pytest.raises(ParameterError, match=message):
        parse_study({"title": "x", "cells": [{"graph": "cora", "defense": "none", "backbone": "gcn"} | group]})
