"""The benchmarks that make records for the leaderboard."""

import importlib
import json
import shlex
from pathlib import Path

import pytest

from garnet import as_graph
from garnet.attacks import DICE
from garnet.backbones import GCN
from garnet.bench.record import read_records
from garnet.bench.stress import stress
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Committee, Purified
from garnet.defenses.lookup import named_defense
from garnet.errors import GarnetError, GraphError
from garnet.training import Training

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"
QUICK = Training(epochs=5, lr=0.05)


@pytest.fixture(scope="module")
def graph():
    made = contextual_block_model(120, classes=3, mean_degree=6, homophily=0.9, features=8, signal=1.0, seed=0)
    return as_graph(made, split=random_split(made.labels, train=0.2, val=0.2, seed=0))


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def stressed(graph, path, **choice):
    choice = {"budgets": ["5%"], "attacks": ["dice"], "seeds": 1} | choice
    return stress(graph, Purified(None, training=QUICK), path=path, graph_name="drawn", defense_name="none", **choice)


@pytest.mark.parametrize(
    ("arguments", "file", "defense"),
    [
        ("", "stress-cora-committee.jsonl", Committee()),
        ("--defense feature-knn --graph citeseer", "stress-citeseer-feature-knn.jsonl", named_defense("feature-knn")),
        ("--caution 0 --seeds 2 --attacks dice,prbcd", "rounds-cora-caution-0.jsonl", Committee(caution=0)),
        ("--defense tsvd --attacks dice --queries 2000", "stress-cora-tsvd.jsonl", named_defense("tsvd")),
        ("--leeway none --budgets 1%,5%", "rounds-cora-leeway-none.jsonl", Committee(leeway=None)),
        ("--leeway 1.5 --unbounded -o results/x.jsonl", "x.jsonl", Committee(leeway=1.5)),
    ],
)
def test_the_recorded_command_of_a_round_asks_for_the_same(benchmark, arguments, file, defense):
    asked = benchmark("rounds").asked
    first = asked(arguments.split())
    again = asked(shlex.split(first.command)[2:])
    assert (first.output.name, first.defense) == (file, defense)
    assert (again.command, again.output, again.defense, again.name) == (
        first.command,
        first.output,
        first.defense,
        first.name,
    )
    assert vars(again.given) == vars(first.given)


def test_a_round_has_one_file_and_one_name_whatever_the_order_of_its_options(benchmark):
    asked = benchmark("rounds").asked
    one, other = asked(["--caution", "2", "--leeway", "1.5"]), asked(["--leeway", "1.5", "--caution", "2"])
    assert (one.output, one.name, one.command) == (other.output, other.name, other.command)
    assert one.output.name == "rounds-cora-caution-2-leeway-1.5.jsonl"


def test_rounds_that_differ_have_files_of_their_own(benchmark):
    asked = benchmark("rounds").asked
    near = [asked(["--caution", caution]) for caution in ("0.12345678", "0.12345679")]
    assert len({one.output for one in near}) == len({one.name for one in near}) == 2
    assert [asked(shlex.split(one.command)[2:]).defense for one in near] == [one.defense for one in near]


def test_only_a_committee_has_caution(benchmark, capsys):
    with pytest.raises(SystemExit):
        benchmark("rounds").asked(["--defense", "garnet", "--caution", "0"])
    assert "garnet has no caution" in capsys.readouterr().err


def test_flips_are_the_latest_of_a_record_and_those_not_kept_are_left_out(benchmark, graph, tmp_path):
    transfer, path = benchmark("transfer"), tmp_path / "stress-drawn-none.jsonl"
    stressed(graph, path, attacks=["dice", "prbcd"])
    (dice,) = (one.line() for one in read_records(path)[0] if one.cell["attack"] == "dice")
    again, unkept = json.loads(dice), json.loads(dice)
    again["values"]["evasion"] = 12.5
    path.write_text(path.read_text() + json.dumps(again) + "\n")
    found = {one.attack: one for one in transfer.recorded(tmp_path, "drawn", graph, 0.05)}
    assert list(found) == ["random", "dice", "prbcd"]
    assert found["dice"].left[0] == 12.5
    unkept["values"]["changed"] = None
    path.write_text(path.read_text() + json.dumps(unkept) + "\n")
    assert {one.attack for one in transfer.recorded(tmp_path, "drawn", graph, 0.05)} == {"random", "prbcd"}
    assert transfer.recorded(tmp_path, "drawn", graph, 0.1) == []
    with pytest.raises(GraphError, match="another graph"):
        transfer.recorded(tmp_path, "drawn", graph.with_edges(graph.edges[:, 1:]), 0.05)
    path.write_text("nothing\n")
    with pytest.raises(GarnetError, match="Line 1"):
        transfer.recorded(tmp_path, "drawn", graph, 0.05)


def test_figures_are_made_again_if_flips_budget_or_defence_are_others(benchmark, graph, tmp_path):
    transfer, path = benchmark("transfer"), tmp_path / "stress-drawn-none.jsonl"
    stressed(graph, path)
    sets = transfer.recorded(tmp_path, "drawn", graph, 0.05)
    figures = transfer.transferred("linear-floor", graph, sets, 0.05)
    assert [len(figures[kind]) for kind in ("evasion", "poisoning")] == [2, len(transfer.harmful(sets))]
    figures = json.loads(json.dumps(figures))
    assert not transfer.is_stale(figures, "linear-floor", sets, 0.05)
    assert transfer.is_stale(None, "linear-floor", sets, 0.05)
    assert transfer.is_stale({"clean": 80.0, "evasion": [], "poisoning": []}, "linear-floor", sets, 0.05)
    assert transfer.is_stale(figures, "linear-floor", sets, 0.1)
    assert transfer.is_stale(figures, "feature-knn", sets, 0.05)
    stressed(graph, path, attacks=[DICE(add_share=0.1)])
    assert transfer.is_stale(figures, "linear-floor", transfer.recorded(tmp_path, "drawn", graph, 0.05), 0.05)


def test_a_row_with_a_backbone_is_tried_by_its_name_and_not_with_its_own_flips(benchmark, graph, tmp_path):
    transfer = benchmark("transfer")
    stressed(graph, tmp_path / "stress-drawn-none.jsonl")
    sets = transfer.recorded(tmp_path, "drawn", graph, 0.05)
    assert transfer.named("none, gcn").backbone == GCN()
    assert transfer.made_for_others("none", sets) == []
    assert transfer.made_for_others("none, gcn", sets) == sets
