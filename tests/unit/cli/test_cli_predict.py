import csv
import json

import numpy as np
import pytest

from garnet import as_graph
from garnet.datasets import block_model, class_features, random_split
from garnet.training import Predictor

QUICK = ("--backbone", "gcn", "--seeds", 2, "--epochs", 20, "--lr", 0.01)


def accounts(seed, n=400, frauds=8):
    """Named accounts of which few are frauds, and look like others."""
    bare = block_model(n, classes=n // frauds, mean_degree=6, homophily=0.6, seed=seed)
    labels = (bare.labels == 0).astype(np.int64)
    features = class_features(labels, dim=6, signal=0.5, seed=seed)
    names = [f"account-{seed}-{number}" for number in range(n)]
    split = random_split(labels, train=0.3, val=0.2, seed=seed)
    return as_graph(bare.adjacency, features=features, labels=labels, split=split, names=names)


@pytest.fixture
def folder(tmp_path):
    accounts(0).save(tmp_path / "mine.npz")
    accounts(1).save(tmp_path / "new.npz")
    return tmp_path


@pytest.fixture
def saved(command, folder):
    status, _, _ = command("train", folder / "mine.npz", *QUICK, "-o", folder / "model.npz")
    assert status == 0
    return folder / "model.npz"


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- what is said of an imbalanced graph ------------------------------------------------------------------------------


def test_the_figure_that_fits_comes_first_and_a_class_that_is_missed_is_said(command, folder):
    status, out, err = command("train", folder / "mine.npz", *QUICK)
    assert status == 0
    said = [line for line in out.splitlines() if "│" in line]
    places = [
        next(number for number, line in enumerate(said) if word in line)
        for word in ("test balanced accuracy", "test accuracy", "F1", "AUC", "average precision", "recall")
    ]
    assert places == sorted(places)
    assert places[0] == 0
    assert "always saying 0 has 98" in out
    (line,) = err.strip().splitlines()
    assert line.startswith("warning: Class 1 is never ")
    assert "--class-weights balanced" in line


def test_json_has_every_figure_of_every_seed(command, folder):
    arguments = ("train", folder / "mine.npz", *QUICK, "--json", "-o", folder / "model.npz")
    facts = json.loads(command(*arguments)[1], parse_constant=pytest.fail)
    assert (facts["headline"], facts["positive"], facts["largest"]) == ("balanced accuracy", 1, 0)
    assert set(facts["never_found"]) == {"1"}
    best = Predictor.load(folder / "model.npz")
    for name in ("accuracy", "balanced_accuracy", "f1", "auc", "average_precision"):
        seeds = facts[name]["seeds"]
        assert len(seeds) == 2
        assert seeds[facts["best_seed"]] == getattr(best, name)()
        assert facts[name]["mean"] == pytest.approx(np.mean(seeds))
        assert facts[name]["sd"] == pytest.approx(np.std(seeds, ddof=1))
    assert facts["recall"][1] == 0
    assert sum(facts["judged"]) == facts["nodes"]["test"]


def test_class_weights_are_balanced_or_typed(command, folder):
    found = []
    for weights in (None, "balanced", "1,500"):
        given = () if weights is None else ("--class-weights", weights)
        facts = json.loads(command("train", folder / "mine.npz", *QUICK, "--json", *given)[1])
        found.append(facts["recall"][1])
    assert found[0] == 0 < min(found[1:])


def test_the_report_opens_on_the_figure_that_fits(command, folder):
    status, _, _ = command("train", folder / "mine.npz", *QUICK, "--report", folder / "report.html")
    assert status == 0
    page = (folder / "report.html").read_text()
    verdict = page.index("balanced accuracy; 95")
    assert verdict < page.index("Class 1 is never ") < page.index("Confidence")
    assert "<h2>Balanced accuracy</h2>" in page
    assert "average precision of class 1" in page


def test_where_classes_are_as_large_nothing_is_different(command, tmp_path):
    bare = block_model(120, classes=3, homophily=0.9, seed=0)
    features = class_features(bare.labels, dim=6, signal=3.0, seed=0)
    split = random_split(bare.labels, train=0.3, val=0.2)
    as_graph(bare, features=features, split=split).save(tmp_path / "even.npz")
    status, out, err = command("train", tmp_path / "even.npz", *QUICK, "--report", tmp_path / "report.html")
    assert status == 0
    assert next(line for line in out.splitlines() if "│" in line).split()[1:3] == ["test", "accuracy"]
    assert "always saying" not in out
    assert "warning" not in err
    assert "The model is right on" in (tmp_path / "report.html").read_text()


# --- predictions ------------------------------------------------------------------------------------------------------


def test_train_writes_what_the_best_model_says_of_each_node(command, folder):
    files = ("-o", folder / "model.npz", "--predictions", folder / "out.csv")
    status, _, err = command("train", folder / "mine.npz", *QUICK, *files)
    assert status == 0
    assert "out.csv" in err
    best, rows = Predictor.load(folder / "model.npz"), rows_of(folder / "out.csv")
    assert list(rows[0]) == ["node", "predicted", "probability", "probability_0", "probability_1", "label", "part"]
    assert [row["node"] for row in rows] == best.graph.names.tolist()
    assert [int(row["predicted"]) for row in rows] == best.predictions().tolist()
    assert [int(row["label"]) for row in rows] == best.graph.labels.tolist()
    np.testing.assert_allclose([float(row["probability_1"]) for row in rows], best.probabilities()[:, 1], rtol=1e-5)
    assert {row["node"] for row in rows if row["part"] == "test"} == set(best.graph.names[best.graph.split.test])


def test_a_saved_model_is_asked_about_another_graph(command, folder, saved):
    status, out, err = command("predict", saved, folder / "new.npz", "-o", folder / "new.csv", "--json")
    assert status == 0
    other, rows = Predictor.load(saved).on(accounts(1)), rows_of(folder / "new.csv")
    assert [row["node"] for row in rows] == other.graph.names.tolist()
    np.testing.assert_allclose([float(row["probability_0"]) for row in rows], other.probabilities()[:, 0], rtol=1e-5)
    facts = json.loads(out, parse_constant=pytest.fail)
    assert facts["predicted"] == {str(c): int((other.predictions() == c).sum()) for c in (0, 1)}
    assert facts["judged_on"] == "test nodes"
    assert facts["auc"]["mean"] == other.auc()
    assert "warning: Class 1 is never" in err


def test_a_graph_without_labels_is_answered_and_not_judged(command, folder, saved):
    bare = accounts(2)
    as_graph(bare.adjacency, features=bare.features).save(folder / "bare.npz")
    status, out, _ = command("predict", saved, folder / "bare.npz", "-o", folder / "bare.csv")
    assert status == 0
    assert "accuracy" not in out
    rows = rows_of(folder / "bare.csv")
    assert [row["node"] for row in rows] == [str(number) for number in range(400)]
    assert {(row["label"], row["part"]) for row in rows} == {("", "")}


def test_labels_without_a_split_are_all_compared(command, folder, saved):
    bare = accounts(2)
    labels = bare.labels.copy()
    labels[:100] = -1
    as_graph(bare.adjacency, features=bare.features, labels=labels).save(folder / "some.npz")
    status, out, _ = command("predict", saved, folder / "some.npz", "-o", folder / "some.csv", "--json")
    assert status == 0
    facts = json.loads(out)
    assert facts["judged_on"] == "all nodes with a label"
    assert sum(facts["judged"]) == 300
    assert [row["label"] == "" for row in rows_of(folder / "some.csv")] == [True] * 100 + [False] * 300


def test_parquet_has_types_and_nulls(command, folder, saved):
    parquet = pytest.importorskip("pyarrow.parquet")
    bare = accounts(2)
    as_graph(bare.adjacency, features=bare.features, labels=np.r_[-1, bare.labels[1:]]).save(folder / "some.npz")
    assert command("predict", saved, folder / "some.npz", "-o", folder / "some.parquet")[0] == 0
    table = parquet.read_table(folder / "some.parquet").to_pydict()
    assert table["label"] == [None, *bare.labels[1:].tolist()]
    np.testing.assert_array_equal(table["probability_1"], Predictor.load(saved).on(bare).probabilities()[:, 1])


def test_nothing_is_replaced_unasked_and_the_same_command_has_nothing_to_do(command, folder, saved):
    asked = ("predict", saved, folder / "new.npz", "-o", folder / "new.csv")
    assert command(*asked)[0] == 0
    written = (folder / "new.csv").read_bytes()
    assert "done already" in command(*asked)[2]
    (folder / "new.csv").write_text("mine")
    assert command(*asked)[0] == 1
    assert (folder / "new.csv").read_text() == "mine"
    assert command(*asked, "--overwrite")[0] == 0
    assert (folder / "new.csv").read_bytes() == written


def test_a_committee_answers_for_another_graph(command, folder):
    quick = ("--purify", "--backbone", "mlp", "--seeds", 1, "--epochs", 5, "-o", folder / "committee.npz")
    assert command("train", folder / "mine.npz", *quick)[0] == 0
    assert command("predict", folder / "committee.npz", folder / "new.npz", "-o", folder / "new.csv")[0] == 0
    other = Predictor.load(folder / "committee.npz").on(accounts(1))
    assert [int(row["predicted"]) for row in rows_of(folder / "new.csv")] == other.predictions().tolist()


# --- what is refused --------------------------------------------------------------------------------------------------


def refused(command, *arguments):
    status, out, err = command(*arguments)
    *told, error = err.strip().splitlines()
    assert (status, out) == (1, "")
    assert all(line.startswith("read ") for line in told)
    return error


def test_a_graph_with_other_features_is_refused(command, folder, saved):
    bare = accounts(2)
    as_graph(bare, features=bare.features[:, :5]).save(folder / "narrow.npz")
    bare.save(folder / "edges.csv")
    for name, found in (("narrow.npz", "has 5 features"), ("edges.csv", "has no features")):
        told = refused(command, "predict", saved, folder / name, "-o", folder / "out.csv")
        assert f"{found}, and the model was trained on 6" in told
        assert not (folder / "out.csv").exists()


def test_a_model_that_knows_nodes_by_number_refuses_other_nodes(command, folder):
    graph = accounts(0)
    blind = as_graph(graph.adjacency, labels=graph.labels, split=graph.split, names=graph.names)
    blind.save(folder / "blind.npz")
    assert command("train", folder / "blind.npz", *QUICK, "-o", folder / "model.npz")[0] == 0
    as_graph(blind, names=blind.names[::-1]).save(folder / "turned.npz")
    for path in ("turned.npz", "new.npz"):
        other = as_graph(as_graph(folder / path).adjacency, names=as_graph(folder / path).names)
        other.save(folder / "other.npz")
        told = refused(command, "predict", folder / "model.npz", folder / "other.npz", "-o", folder / "out.csv")
        assert "knows nodes by their numbers" in told
    blind.with_edges(blind.edges[:, ::2]).save(folder / "fewer.npz")
    assert command("predict", folder / "model.npz", folder / "fewer.npz", "-o", folder / "out.csv")[0] == 0


def test_what_is_no_model_is_refused(command, folder, saved):
    (folder / "text.npz").write_text("no archive")
    for path, words in (("mine.npz", "it holds a graph but no model"), ("none.npz", "no such file"), ("text.npz", "")):
        told = refused(command, "predict", folder / path, folder / "new.npz", "-o", folder / "out.csv")
        assert words in told
        assert path in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-o", "out.txt"), "A table of predictions is written to a .csv or a .parquet file. Got 'out.txt' instead."),
        (("-o", "nowhere/out.csv"), "Cannot write nowhere/out.csv"),
        (("-o", "out.csv", "--device", "gpu"), "must be a device that torch has here"),
    ],
)
def test_bad_arguments_get_one_line(command, folder, saved, arguments, words, monkeypatch):
    monkeypatch.chdir(folder)
    assert words in refused(command, "predict", saved, "new.npz", *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--class-weights", "heavy"), "must be balanced, or a number for each class, such as 1,20. Got 'heavy'."),
        (("--class-weights", "1,-2"), "The 'class_weights' parameter of Training must be"),
        (("--class-weights", "1,2,3"), "2 numbers, one for each class of the labels. Got 3"),
        (("--class-weights", "balanced", "--defense", "linear-floor"), "'linear-floor' trains in its own way; leave"),
        (("--predictions", "out.json"), "A table of predictions is written to a .csv or a .parquet file."),
        (("--predictions", "mine.npz"), "A table of predictions is written to"),
        (("--predictions", "a.csv", "--report", "a.csv"), ".html"),
    ],
)
def test_train_refuses_in_one_line(command, folder, arguments, words, monkeypatch):
    monkeypatch.chdir(folder)
    assert words in refused(command, "train", "mine.npz", *arguments)
