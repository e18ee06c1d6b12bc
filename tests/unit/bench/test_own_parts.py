"""Studies of graphs, attacks and defences of one's own."""

import pickle
import sys
import uuid

import pytest

from garnet.attacks import PRBCD, Budget
from garnet.bench.measure import measure_cell
from garnet.bench.record import read_records
from garnet.bench.runner import run
from garnet.bench.study import load_study, parse_study
from garnet.bench.table import make_tables
from garnet.datasets import contextual_block_model, random_split
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import as_graph

MODULE = """
from dataclasses import dataclass
import numpy as np
from garnet.attacks import Attack
from garnet.defenses import Purified, Purifier
from garnet.defenses.jaccard import Jaccard
from garnet import Ledger
from garnet.purify.base import CleanedGraph
import torch

@dataclass(frozen=True, kw_only=True)
class NoEdges(Purifier):
    share: float = 1.0

    def _purify(self, graph, *, progress):
        edges = torch.from_numpy(graph.edges)
        ones = torch.ones(edges.shape[1])
        keep = torch.arange(edges.shape[1]) >= self.share * edges.shape[1]
        ledger = Ledger(edges, ones, ones > 0, keep, graph.num_nodes)
        return CleanedGraph(graph.with_edges(ledger.kept), ledger, ())

@dataclass(frozen=True)
class Careful(Purified):
    pass

@dataclass(frozen=True, kw_only=True)
class Hub(Attack):
    def _run(self, task):
        for other in range(1, task.graph.num_nodes):
            if not task.graph.adjacency[0, other]:
                yield np.array([[0], [other]])

class Neither:
    pass
"""


@pytest.fixture
def graph():
    drawn = contextual_block_model(150, classes=3, mean_degree=6, features=8, signal=2.0, seed=0)
    return as_graph(drawn, split=random_split(drawn.labels, train=0.2, val=0.2, seed=0))


@pytest.fixture
def module(tmp_path):
    """A module beside the study, of a name that no other test has imported."""
    name = f"own_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    return name


@pytest.fixture
def study(tmp_path, graph, monkeypatch):
    """Load a study in whose folder a graph lies, from another folder."""
    graph.save(tmp_path / "my.npz")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    def load(text):
        text = "graph = 'my.npz'\nbackbone = 'gcn'\ntraining = {epochs = 3}\n" + text
        if "defense" not in text:
            text += "\ndefense = 'none'"
        (tmp_path / "own.toml").write_text(f"title = 'own'\nseeds = 2\n[[cells]]\n{text}")
        return load_study(tmp_path / "own.toml")

    return load


def test_a_graph_file_beside_the_study_is_measured_with_its_own_split_or_a_drawn_one(study, graph):
    (cell,) = study("").cells
    record = measure_cell(cell)
    assert (record.status, record.reason) == ("done", "")
    assert record.fingerprints == {"graph": graph.fingerprint, "split": graph.split.fingerprint}
    drawn = measure_cell(study("split = 'random-0.3-0.3'").cells[0])
    expected = random_split(graph.labels, train=0.3, val=0.3, seed=0)
    assert drawn.fingerprints["split"] == as_graph(graph, split=expected).split.fingerprint
    assert measure_cell(study("split = 'geom-gcn'").cells[0]).reason.startswith(
        "The split 'geom-gcn' is not for my.npz"
    )


def test_another_graph_in_the_same_file_is_another_cell(study, graph, tmp_path):
    before = study("").cells[0]
    assert study("").cells[0].key == before.key
    graph.with_edges(graph.edges[:, 5:]).save(tmp_path / "my.npz")
    after = study("").cells[0]
    assert (before.graph, after.graph) == ("my.npz", "my.npz")
    assert after.key != before.key


def test_facts_of_published_cells_are_what_records_are_keyed_by():
    cell = parse_study({"title": "t", "cells": [{"graph": "cora", "defense": "none", "backbone": "gcn"}]}).cells[0]
    assert not {"made", "content", "folder"} & cell.facts().keys()


def test_an_attack_by_name_is_made_for_the_cell(study, graph):
    wanted = study("attack = ['prbcd', 'random']\nbudget = ['5%', '10%']\ndefense = ['none', 'jaccard']")
    assert len(wanted.cells) == 8
    records = [measure_cell(cell) for cell in wanted.cells[:2]]
    attacked = PRBCD()(graph, budget=Budget.fraction(0.05), seed=0).apply(graph)
    assert [record.reason for record in records] == ["", ""]
    assert {record.fingerprints["graph"] for record in records} == {attacked.fingerprint}
    (table,) = make_tables("own", records)
    assert table.columns[-1] == "my.npz prbcd 5%, ours"


def test_metattack_is_published_with_a_number_and_made_with_words(study):
    published, made = (
        parse_study(
            {
                "title": "t",
                "cells": [
                    {"graph": "cora", "attack": "metattack", "budget": budget, "defense": "none", "backbone": "gcn"}
                ],
            }
        ).cells[0]
        for budget in (0.2, "20%")
    )
    assert (published.made, made.made) == ("", "20%")
    assert published.key != made.key


def test_an_attack_that_knows_the_defence_is_given_the_cells(study):
    record = measure_cell(study("attack = 'adaptive-evasion'\nbudget = '4'\ndefense = 'jaccard'").cells[0])
    assert record.reason == ""
    assert record.parameters["attack"]["defense"]["purifier"]["name"] == "Jaccard"
    reason = measure_cell(
        study("attack = 'adaptive-evasion'\nbudget = '4'\ndefense = 'jaccard'\nmeasure = 'homophily'").cells[0]
    ).reason
    assert "knows the defence, and the measure homophily trains none" in reason


def test_classes_of_ones_own_by_module_and_name(study, module, graph):
    cells = study(
        f"defense = ['{module}:NoEdges', '{module}:Careful', 'none']\nattack = '{module}:Hub'\nbudget = '7 edges'"
    ).cells
    records = [measure_cell(cell) for cell in cells]
    assert [record.reason for record in records] == ["", "", ""]
    assert records[0].parameters["purifier"]["name"] == "NoEdges"
    assert records[0].parameters["backbone"]["name"] == "GCN"
    assert records[1].parameters["name"] == "Careful"
    assert records[1].values == records[2].values
    hub = graph.adjacency[[0]].nnz + 7
    swept = study(f"defense = '{module}:NoEdges'\nmeasure = 'homophily'\nparameters = {{share = [0.0, 0.5]}}").cells
    assert [dict(cell.parameters)["share"] for cell in swept] == [0.0, 0.5]
    assert hub <= graph.num_nodes
    assert measure_cell(swept[0]).values["clean"] == measure_cell(swept[0]).values["after"]


def test_a_cell_that_has_gone_to_another_process_finds_them_there(study, module, monkeypatch):
    (cell,) = study(f"defense = '{module}:NoEdges'").cells
    sent = pickle.loads(pickle.dumps(cell))
    monkeypatch.delitem(sys.modules, module)
    assert measure_cell(sent).values == measure_cell(cell).values


@pytest.mark.slow
def test_they_are_found_by_processes_side_by_side(study, module, tmp_path):
    wanted = study(f"defense = ['{module}:NoEdges', 'none']\nattack = 'random'\nbudget = '5%'")
    alone = run(wanted, tmp_path / "1.jsonl")
    together = run(wanted, tmp_path / "2.jsonl", jobs=2)
    assert [one.reason for one in together.records] == ["", ""]
    assert [one.values for one in together.records] == [one.values for one in alone.records]
    assert run(load_study(tmp_path / "own.toml"), tmp_path / "1.jsonl").ran == 0
    assert not any(str(tmp_path) in line for line in (tmp_path / "1.jsonl").read_text().splitlines())
    assert len(read_records(tmp_path / "1.jsonl")[0]) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attack = 'metattack'\nbudget = 0.2", "No attack on my.npz has been published; give the budget in words"),
        ("attack = 'prbcd'\nbudget = 0.2", "'prbcd' has not been published; give the budget in words"),
        ("attack = 'prbcd'\nbudget = 'much'", "A budget is written as 20%"),
        ("attack = 'prbcd'\nbudget = ['5%', 0.2]", "words such as '5%'"),
        ("attack = 'prbcd'", "There is none"),
        ("attack = 'prbcd'\nbudget = '5/target'", "names no targets"),
        ("attack = 'sga'\nbudget = '5%'", "sga aims at single nodes"),
        ("attack = ['prbcd', 'feature-flip']\nbudget = '10'", "counts edges for one attack and entries for another"),
        ("attack = 'prbdc'\nbudget = '5%'", "Did you mean prbcd"),
        ("defense = 'MODULE:None_such'", "has no class None_such; it has "),
        ("defense = 'MODULE:Neither'", "must be a class that inherits from Defense or Purifier, and .*Neither is none"),
        ("defense = 'MODULE:Hub'", "must be a class that inherits from Defense or Purifier"),
        ("attack = 'MODULE:NoEdges'\nbudget = '5%'", "must be a class that inherits from Attack"),
        ("defense = 'no_such_module_anywhere:Mine'", "there is no module no_such_module_anywhere beside the study"),
        ("defense = 'broken_on_purpose:Mine'", "cannot be imported: RuntimeError: told you so"),
        ("defense = 'MODULE:NoEdges'\nparameters = {shere = 1}", "Did you mean share"),
    ],
)
def test_what_is_wrong_is_one_sentence(study, module, tmp_path, text, message):
    (tmp_path / "broken_on_purpose.py").write_text("raise RuntimeError('told you\\nso')")
    with pytest.raises(ParameterError, match=message) as refused:
        study(text.replace("MODULE", module))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["none.npz", "/", "..", "/dev/zero", "a/\x00", "x" * 200 + "/" + "y" * 50])
def test_a_graph_that_is_no_file_is_one_sentence(name):
    with pytest.raises(ParameterError, match="to read a graph from, neither beside the study nor in the") as refused:
        parse_study({"title": "t", "cells": [{"graph": name, "defense": "none", "backbone": "gcn"}]})
    assert "\n" not in str(refused.value)


def test_a_graph_without_a_split_says_what_to_write(study, graph, tmp_path):
    as_graph(graph.adjacency, features=graph.features, labels=graph.labels).save(tmp_path / "my.npz")
    assert "draw one with split = 'random-0.1-0.1'" in measure_cell(study("").cells[0]).reason
    assert measure_cell(study("split = 'random'").cells[0]).reason == ""


def test_a_perturbation_that_is_gone_stops_the_run(tmp_path):
    group = {"graph": "cora", "attack": "p/cora-random-0.1.npz", "split": "random", "defense": "none"}
    wanted = parse_study({"title": "t", "cells": [group | {"backbone": "gcn"}]}, str(tmp_path))
    with pytest.raises(GraphError, match=r"1 of 1 cells lack a file, there is no perturbation p/cora-random-0\.1\.npz"):
        run(wanted, tmp_path / "r.jsonl")
    assert not (tmp_path / "r.jsonl").exists()
