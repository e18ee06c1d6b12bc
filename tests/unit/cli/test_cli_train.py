import json
import re

import numpy as np
import pytest
import torch

from garnet import GARNET, Split, as_graph, load_graph
from garnet.datasets import block_model, contextual_block_model, random_split
from garnet.report.purification_record import PurificationRecord
from garnet.training.predictor import Predictor


@pytest.fixture
def graph():
    bare = contextual_block_model(300, classes=3, features=12, signal=2.0, mean_degree=6.0, seed=2)
    return as_graph(bare, split=random_split(bare.labels, train=0.3, val=0.2, seed=0))


def test_accuracy_confusion_and_a_model_that_says_the_same(command, graph, tmp_path):
    graph.save(tmp_path / "mine.npz")
    status, out, err = command(
        "train", tmp_path / "mine.npz", "--purify", "--backbone", "gcn", "--seeds", 3, "--epochs", 30, "--json",
        "-o", tmp_path / "model.npz",
    )  # fmt: skip
    assert (status, "Traceback" in err) == (0, False)
    facts = json.loads(out)
    assert facts["nodes"] == {part: len(getattr(graph.split, part)) for part in ("train", "val", "test")}
    assert facts["accuracy"]["mean"] == pytest.approx(np.mean(facts["accuracy"]["seeds"]))
    assert facts["accuracy"]["sd"] == pytest.approx(np.std(facts["accuracy"]["seeds"], ddof=1))
    assert facts["accuracy"]["mean"] > 0.6
    assert np.sum(facts["confusion"]) == pytest.approx(len(graph.split.test), abs=0.1)
    assert {"purify", "train"} <= facts["seconds"].keys()
    assert sum(facts["members"].values()) == pytest.approx(1)
    assert sum(facts["decided"].values()) == pytest.approx(1)
    assert facts["decided"].keys() == facts["members"].keys()
    assert 0 <= facts["calibration_error"] <= 1
    best = Predictor.load(tmp_path / "model.npz")
    assert best.seed == facts["best_seed"]
    assert best.accuracy() == facts["accuracy"]["seeds"][best.seed]
    assert (
        load_graph(tmp_path / "model.npz").fingerprint == graph.fingerprint
    )  # which a committee reads in its own ways


def test_the_single_purified_graph_comes_with_its_model(command, graph, tmp_path):
    graph.save(tmp_path / "mine.npz")
    quick = ("--defense", "garnet", "--backbone", "gcn", "--seeds", 1, "--epochs", 3)
    status, out, _ = command("train", tmp_path / "mine.npz", *quick, "-o", tmp_path / "model.npz", "--json")
    assert status == 0
    assert {"embed", "neighbours", "prune", "train"} <= json.loads(out)["seconds"].keys()
    assert load_graph(tmp_path / "model.npz").fingerprint == GARNET().purify(graph).graph.fingerprint


@pytest.mark.parametrize("purify", [("--purify",), ("--defense", "garnet")], ids=str)
def test_a_result_has_the_accuracy_before_and_after(command, graph, tmp_path, purify):
    graph.save(tmp_path / "mine.npz")
    usual = ("--backbone", "gcn", "--seeds", 2, "--epochs", 10, "--json")
    before, after = (
        json.loads(command("train", tmp_path / "mine.npz", *usual, *defense)[1]) for defense in ((), purify)
    )
    files = ("-o", tmp_path / "model.npz", "--result", tmp_path / "result.npz")
    status, out, _ = command("train", tmp_path / "mine.npz", *usual, *purify, *files)
    assert status == 0
    told = json.loads(out)
    assert told["accuracy"] == after["accuracy"]
    assert told["seconds"].keys() == after["seconds"].keys()
    result = PurificationRecord.load(tmp_path / "result.npz")
    assert result.accuracy.before == tuple(before["accuracy"]["seeds"])
    assert result.accuracy.after == tuple(after["accuracy"]["seeds"])
    assert result.accuracy.model.startswith("GCN")
    assert result.before.fingerprint == graph.fingerprint
    model = Predictor.load(tmp_path / "model.npz")
    assert result.after.fingerprint == GARNET().purify(graph).graph.fingerprint
    assert result.made.command == model.made.command
    assert model.made.command.startswith("garnet train ")
    assert {stage.name for stage in model.stages} == told["seconds"].keys()


def test_a_report_is_written_along_and_needs_the_model_no_more(command, graph, tmp_path):
    graph.save(tmp_path / "mine.npz")
    quick = ("--backbone", "gcn", "--seeds", 1, "--epochs", 3)
    for defense, name in ((("--purify",), "GARNET()"), ((), "Accuracy")):
        page = tmp_path / f"{name}.html"
        status, out, err = command("train", tmp_path / "mine.npz", *quick, *defense, "--report", page)
        assert (status, "in a browser" in err) == (0, True)
        assert name in page.read_text()
        assert (name in out) == bool(defense)


def test_tables_for_people(command, graph, tmp_path):
    graph.save(tmp_path / "mine.npz")
    status, out, _ = command("train", tmp_path / "mine.npz", "--backbone", "mlp", "--seeds", 1, "--epochs", 5)
    assert status == 0
    assert "test accuracy" in out
    assert re.search(r"\b1 seed\b", out)
    assert "True classes in rows" in out


@pytest.mark.parametrize("arguments", [("--defense", "jaccard", "--backbone", "gcn"), ("--defense", "rung")], ids=str)
def test_any_defence_can_be_trained_saved_and_loaded(command, graph, tmp_path, arguments):
    graph.save(tmp_path / "mine.npz")
    wanted = (*arguments, "--seeds", 2, "--epochs", 5, "-o", tmp_path / "model.npz", "--json")
    status, out, _ = command("train", tmp_path / "mine.npz", *wanted)
    assert status == 0
    best = Predictor.load(tmp_path / "model.npz")
    assert best.accuracy() == json.loads(out)["accuracy"]["seeds"][best.seed]


def test_a_data_file_with_masks_and_one_without(command, graph, tmp_path):
    torch.save(graph.to_pyg(), tmp_path / "masks.pt")
    status, out, _ = command("train", tmp_path / "masks.pt", "--seeds", 1, "--epochs", 5, "--json")
    assert status == 0
    assert json.loads(out)["nodes"]["train"] == len(graph.split.train)

    bare = as_graph(graph.adjacency, features=graph.features, labels=graph.labels)
    torch.save(bare.to_pyg(), tmp_path / "bare.pt")
    status, _, err = command("train", tmp_path / "bare.pt")
    assert status == 1
    assert "The graph has no split, or its masks overlap" in err
    shares = ("--split", "0.5,0.25", "--seeds", 1, "--epochs", 5, "--json")
    first, second = (json.loads(command("train", tmp_path / "bare.pt", *shares)[1]) for _ in range(2))
    assert first["nodes"] == {"train": 150, "val": 75, "test": 75}
    assert first["accuracy"] == second["accuracy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--backbone", "gpr"), "There is no backbone named 'gpr'. Did you mean gprgnn?"),
        (("--defense", "gnngard"), "There is no defence named 'gnngard'. Did you mean gnnguard"),
        (("--defense", "rung", "--backbone", "gcn"), "The defence 'rung' is a model of its own; leave --backbone out."),
        (
            ("--defense", "linear-floor", "--epochs", "3"),
            "The defence 'linear-floor' trains in its own way; leave epochs",
        ),
        (("--defense", "tsvd", "-o", "model.npz"), "What 'tsvd' learns fits its graph alone and cannot be saved"),
        (("--defense", "tsvd", "--purify"), "--purify is short for --defense committee, and --defense says 'tsvd'"),
        (("--split", "half"), "The 'split' parameter must be two shares, such as 0.1,0.1. Got 'half'."),
        (("--lr", "-1"), "The 'lr' parameter of Training must be"),
        (("-o", "model.pt"), "A model is written to an .npz file. Got 'model.pt' instead."),
        (("-o", "nowhere/model.npz"), "Cannot write nowhere/model.npz"),
        (("--report", "report.pdf"), "A report is written to an .html file. Got 'report.pdf' instead."),
        (("--result", "result.npz"), "give --purify along with --result"),
        (("--purify", "--result", "result.json"), "A result is written to an .npz file. Got 'result.json' instead."),
        (("--purify", "--result", "a.npz", "-o", "./a.npz"), "a.npz is written twice by this command"),
    ],
)
def test_bad_arguments_get_one_line(command, graph, tmp_path, arguments, message):
    graph.save(tmp_path / "mine.npz")
    status, out, err = command("train", tmp_path / "mine.npz", *arguments)
    assert status == 1
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_without_validation_nodes_it_is_json_all_the_same(command, graph, tmp_path):
    parts = Split(graph.split.train, graph.split.val[:0], graph.split.test)
    as_graph(graph, split=parts).save(tmp_path / "mine.npz")
    status, out, _ = command("train", tmp_path / "mine.npz", "--seeds", 2, "--epochs", 3, "--json")
    assert status == 0
    assert json.loads(out, parse_constant=pytest.fail)["val_accuracy"] == [None, None]


@pytest.mark.filterwarnings("always::garnet.errors.GarnetWarning")
def test_a_committee_without_validation_nodes_says_so_in_one_line(command, graph, tmp_path):
    labels = graph.labels.copy()
    labels[graph.split.val] = -1
    as_graph(graph, labels=labels).save(tmp_path / "mine.npz")
    arguments = ("--purify", "--backbone", "gcn", "--seeds", 2, "--epochs", 3, "--json")
    status, out, err = command("train", tmp_path / "mine.npz", *arguments)
    assert status == 0
    (line,) = err.strip().splitlines()
    assert line.startswith("warning: No validation node has a label")
    facts = json.loads(out, parse_constant=pytest.fail)
    assert facts["nodes"]["val"] == 0
    assert facts["val_accuracy"] == [None, None]
    assert len(set(facts["members"].values())) == 1


def test_what_cannot_be_learnt_from_gets_one_line(command, graph, tmp_path):
    def refused(name):
        status, out, err = command("train", tmp_path / name, "--purify")
        assert (status, out, len(err.strip().splitlines())) == (1, "", 1)
        return err

    as_graph(graph, labels=np.full(graph.num_nodes, -1)).save(tmp_path / "unknown.npz")
    assert "The graph has no labels" in refused("unknown.npz")
    same = graph.labels.copy()
    same[graph.split.train] = 2
    as_graph(graph, labels=same).save(tmp_path / "same.npz")
    assert "training nodes have the label 2" in refused("same.npz")
    for name, nodes, sentence in (
        ("outside", [5000], "from 0 to 299. Got 5000"),
        ("twice", graph.split.train[:1], f"names a node twice, such as {graph.split.train[0]}"),
    ):
        graph.save(tmp_path / "mine.npz")
        with np.load(tmp_path / "mine.npz") as arrays:
            np.savez(tmp_path / f"{name}.npz", **{**arrays, "idx_val": np.array(nodes)})
        assert sentence in refused(f"{name}.npz")


def test_a_saved_committee_whose_graph_has_lost_its_features_is_refused(command, graph, tmp_path):
    graph.save(tmp_path / "mine.npz")
    arguments = ("--purify", "--backbone", "gcn", "--seeds", 1, "--epochs", 2, "-o", tmp_path / "model.npz")
    assert command("train", tmp_path / "mine.npz", *arguments)[0] == 0
    with np.load(tmp_path / "model.npz") as arrays:
        kept = {name: arrays[name] for name in arrays.files if not name.startswith("attr_")}
    np.savez(tmp_path / "lost.npz", **kept)
    status, _, err = command("report", tmp_path / "lost.npz", "-o", tmp_path / "report.html")
    assert status == 1
    assert "weights for 12 features" in err
    assert len(err.strip().splitlines()) == 1


def test_nothing_is_trained_that_could_not_be_tested_or_would_replace_its_graph(command, graph, tmp_path):
    unknown = graph.labels.copy()
    unknown[graph.split.test] = -1
    as_graph(graph, labels=unknown).save(tmp_path / "blind.npz")
    assert "no test node with a label" in command("train", tmp_path / "blind.npz")[2]
    graph.save(tmp_path / "mine.npz")
    before = (tmp_path / "mine.npz").read_bytes()
    for option in ("-o", "--result"):
        told = command("train", tmp_path / "mine.npz", "--purify", option, tmp_path / "mine.npz")[2]
        assert "is read by this command" in told
    assert (tmp_path / "mine.npz").read_bytes() == before
    assert "must be a device that torch has here" in command("train", tmp_path / "mine.npz", "--device", "gpu")[2]


def test_a_graph_without_labels_or_features(command, tmp_path):
    graph = block_model(50, classes=2, seed=0)
    as_graph(graph.adjacency).save(tmp_path / "edges.csv")
    assert "has no labels" in command("train", tmp_path / "edges.csv")[2]
    as_graph(graph, split=random_split(graph.labels)).save(tmp_path / "bare.npz")
    arguments = ("train", tmp_path / "bare.npz", "--seeds", "1", "--epochs", "3")
    code, told, _ = command(*arguments, "--defense", "tsvd")
    assert code == 0
    assert "one-hot node numbers" in told
    code, told, _ = command(*arguments, "--purify", "-o", tmp_path / "model.npz", "--json")
    assert json.loads(told)["features"] == "one-hot node numbers"
    assert Predictor.load(tmp_path / "model.npz").graph.features is None
    told = command(*arguments, "--defense", "gnnguard")[2]
    assert "has no features, and GNNGuard compares them" in told
