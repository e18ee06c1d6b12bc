import json

import pytest

from garnet.bench.cell import Cell
from garnet.bench.study import load_study, parse_study
from garnet.errors import ParameterError


def study(seeds=2, **group):
    return parse_study({"title": "t", "seeds": seeds, "cells": [group]})


def test_a_group_is_the_product_of_its_lists(tmp_path):
    (tmp_path / "s.toml").write_text(
        """
        title = "Table 2"
        note = "about it"
        [[cells]]
        graph = ["cora", "Pubmed"]
        attack = "metattack"
        budget = [0, 0.2]
        defense = ["none", "garnet-paper"]
        backbone = ["gcn", "gprgnn"]
        model = "paper"
        [[cells]]
        graph = "cora"
        defense = "garnet"
        backbone = "gcn"
        [cells.parameters]
        k = [10, 20, 30]
        support = "none"
        features = "none"
        [cells.training]
        epochs = 3
        patience = "none"
        """
    )
    found = load_study(tmp_path / "s.toml")
    assert (found.title, found.note, len(found.cells)) == ("Table 2", "about it", 16 + 3)
    assert found.cells[0] == Cell(
        graph="cora", attack="metattack", budget=0.0, backbone="gcn", model="paper", seeds=tuple(range(10))
    )
    last = found.cells[-1]
    assert dict(last.parameters) == {"features": "none", "k": 30, "support": None}
    assert dict(last.training) == {"epochs": 3, "patience": None}
    assert str(last) == "cora, clean, gcn, garnet features=none k=30 support=None"


def test_facts_are_json_and_the_key_depends_on_all_of_them():
    cell = study(graph="cora", defense="garnet", backbone="gcn", parameters={"sigma2": float("inf")}).cells[0]
    assert json.loads(json.dumps(cell.facts(), allow_nan=False)) == cell.facts()
    assert cell.facts()["parameters"] == {"sigma2": "inf"}
    variants = [
        cell,
        study(3, graph="cora", defense="garnet", backbone="gcn", parameters={"sigma2": float("inf")}).cells[0],
        study(graph="cora", defense="garnet", backbone="gcn").cells[0],
        study(graph="cora", defense="garnet", backbone="gcn", split="random").cells[0],
        study(graph="cora", defense="garnet", backbone="gcn", model="paper").cells[0],
        study(graph="cora", defense="garnet", backbone="gcn", training={"lr": 0.1}).cells[0],
    ]
    assert len({one.key for one in variants}) == len(variants)
    assert all(len(one.key) == 16 for one in variants)


def test_duplicates_are_dropped():
    group = {"graph": "cora", "attack": "metattack", "budget": [0, 0.0, 0.1], "defense": "none", "backbone": "gcn"}
    assert len(parse_study({"title": "t", "cells": [group, group]}).cells) == 2


def test_a_defence_without_a_backbone_occurs_once():
    cells = study(graph="cora", defense=["linear-floor", "none"], backbone=["gcn", "mlp"], model="paper").cells
    assert [(cell.defense, cell.backbone, cell.model) for cell in cells] == [
        ("linear-floor", None, None), ("none", "gcn", "paper"), ("none", "mlp", "paper"),
    ]  # fmt: skip


def test_measures_without_training_need_no_backbone_but_for_the_authors_parameters():
    cells = study(graph="cora", defense=["none", "garnet"], measure=["homophily", "recovery"]).cells
    assert [(cell.backbone, cell.seeds) for cell in cells] == [(None, ())] * 4
    cells = study(graph="cora", defense="garnet-paper", backbone=["gcn", "gprgnn"], measure="homophily").cells
    assert [cell.backbone for cell in cells] == ["gcn", "gprgnn"]


@pytest.mark.parametrize(("seeds", "wanted"), [(3, (0, 1, 2)), ([5, 7, 5], (5, 7))])
def test_seeds_are_a_number_or_a_list(seeds, wanted):
    assert study(seeds, graph="cora", defense="none", backbone="gcn").cells[0].seeds == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": "coro"}, "graph named 'coro'. Did you mean cora"),
        ({"graph": 3}, "no graph named 3"),
        ({"graph": []}, "'graph' of a group of cells is empty"),
        ({"defense": "garnett"}, "Did you mean garnet"),
        ({"backbone": "gprgn"}, "Did you mean gprgnn"),
        ({"attack": "metatack", "budget": 0}, "Did you mean metattack"),
        ({"measure": "acuracy"}, "Did you mean accuracy"),
        ({"model": "papers"}, "Did you mean paper"),
        ({"graphs": "cora"}, "Did you mean graph"),
        ({"parameters": {"gama": 1}}, "parameter of defence 'garnet' named 'gama'. Did you mean gamma"),
        ({"parameters": {"device": "cuda"}}, "no parameter of defence 'garnet' named 'device'"),
        ({"parameters": {"k": [[1]]}}, "must be text or a number"),
        ({"parameters": 3}, r"must be a table, \[cells.parameters\]"),
        ({"training": {"epoch": 1}}, "Did you mean epochs"),
        ({"training": {"epochs": [1, 2]}}, "must be text or a number"),
        ({"budget": 0.2}, "'none' has no budget"),
        ({"attack": "metattack"}, "needs a 'budget'"),
        ({"attack": "metattack", "budget": -1}, "Got -1 instead"),
        ({"split": 3}, "A split is named by text"),
        ({"defense": ["garnet", "none"], "parameters": {"k": 3}}, "'none' has no parameters"),
        ({"measure": "rank"}, "with the defence 'none'. Got 'garnet'"),
        ({"measure": "homophily", "defense": "tsvd"}, "needs a purifier"),
    ],
)
def test_what_is_not_known_is_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        study(**{"graph": "cora", "defense": "garnet", "backbone": "gcn"} | change)


@pytest.mark.parametrize("missing", ["graph", "defense", "backbone"])
def test_what_is_missing_is_named(missing):
    group = {"graph": "cora", "defense": "garnet", "backbone": "gcn"}
    del group[missing]
    with pytest.raises(ParameterError, match=f"lacks '{missing}'"):
        study(**group)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "is not valid TOML"),
        ("title = 't'", "has no cells"),
        ("[[cells]]\ngraph = 'cora'", "needs a 'title'"),
        ("title = 't'\ntitel = 3", "Did you mean title"),
        ("title = 't'\ncells = 3", r"begin each group with a line \[\[cells\]\]"),
        ("title = 't'\nseeds = 0", "must be a number up to"),
        ("title = 't'\nseeds = [-1]", "must be a number up to"),
        ("title = '\udcff'", "is not UTF-8 text"),
    ],
)
def test_a_damaged_study_is_one_sentence(tmp_path, text, message):
    path = tmp_path / "s.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ParameterError, match=message) as refused:
        load_study(path)
    assert "\n" not in str(refused.value)
    assert "s.toml" in str(refused.value)


def test_a_missing_study_is_one_sentence(tmp_path):
    with pytest.raises(ParameterError, match=r"Cannot read the study .*: no such file or directory"):
        load_study(tmp_path / "none.toml")
