"""The black-box unit test, in small files of its format that are made here."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from garnet.backbones import GCN
from garnet.bench.build import build
from garnet.bench.record import read_records
from garnet.bench.runner import run
from garnet.bench.table import make_tables
from garnet.bench.unit_test import unit_test_study
from garnet.cli import main
from garnet.datasets import load, names, poisoned, random_split, unit_test
from garnet.datasets.unit_test_file import Flips
from garnet.defenses import Purified
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import as_graph

NODES, COLUMNS, CLASSES = 90, 24, 3
BUDGETS = {"cora_ml": (5, 40), "citeseer": (7,)}
SOURCES = ("gcn", "jaccard_gcn")
SPLITS = (0, 1)


def contents():
    """Arrays by name: two graphs of three groups, with splits and random flips between groups."""
    arrays = {}
    for seed, graph in enumerate(BUDGETS):
        rng = np.random.default_rng(seed)
        labels = np.arange(NODES) % CLASSES
        pairs = np.array([(a, b) for a in range(NODES) for b in range(a + 1, NODES)])
        same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
        edges = pairs[rng.random(len(pairs)) < np.where(same, 0.15, 0.01)]
        shown = rng.random((NODES, COLUMNS)) < np.where(labels[:, None] == np.arange(COLUMNS) % CLASSES, 0.3, 0.15)
        shown[0, COLUMNS - 1] = True
        arrays |= {f"{graph}/dataset/adjacency": edges, f"{graph}/dataset/features": np.argwhere(shown)}
        arrays[f"{graph}/dataset/labels"] = labels
        for split in SPLITS:
            drawn = random_split(labels, train=0.2, val=0.2, seed=split)
            arrays |= {f"{graph}/splits/{split}/{part}": getattr(drawn, part) for part in ("train", "val", "test")}
            for scenario in ("evasion", "poisoning"):
                for source in SOURCES:
                    chosen = pairs[rng.permutation(len(pairs))]
                    chosen = chosen if source == "gcn" else chosen[labels[chosen[:, 0]] != labels[chosen[:, 1]]]
                    for budget in BUDGETS[graph]:
                        name = f"{graph}/perturbations/{scenario}/{source}/split_{split}/budget_{budget:04d}"
                        arrays[name] = chosen[:budget]
    return arrays


def write(folder, changes=None, without=()):
    arrays = {name: array for name, array in contents().items() if not name.startswith(tuple(without) or ("-",))}
    np.savez(folder / "unit_test.npz", **arrays | (changes or {}))
    return folder / "unit_test.npz"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder, in which the command is run, too."""
    monkeypatch.setenv("GARNET_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dense(arrays, graph, flips=()):
    """The adjacency as the authors' own script makes it."""
    matrix = np.zeros((NODES, NODES))
    for a, b in arrays[f"{graph}/dataset/adjacency"]:
        matrix[a, b] = matrix[b, a] = 1
    for a, b in flips:
        matrix[a, b] = matrix[b, a] = 1 - matrix[a, b]
    return matrix


def test_graphs_splits_and_perturbations_are_those_of_the_file(data):
    path, arrays = write(data), contents()
    test = unit_test()
    assert (test.path, test.splits) == (path, {"cora_ml": SPLITS, "citeseer": SPLITS})
    assert len(test.flips) == 2 * 2 * 2 * (2 + 1)
    graph = test.graph("cora_ml", 1)
    assert np.array_equal(graph.adjacency.toarray(), dense(arrays, "cora_ml"))
    assert graph.features.shape == (NODES, COLUMNS)
    assert np.array_equal(np.argwhere(graph.features.toarray() == 1), arrays["cora_ml/dataset/features"])
    assert set(graph.features.data) == {1.0}
    assert np.array_equal(graph.labels, arrays["cora_ml/dataset/labels"])
    assert np.array_equal(graph.split.test, arrays["cora_ml/splits/1/test"])
    flips = Flips("cora_ml", "evasion", "gcn", 1, 40)
    listed = arrays["cora_ml/perturbations/evasion/gcn/split_1/budget_0040"]
    made = test.perturbation(flips, graph)
    assert np.array_equal(made.apply(graph).adjacency.toarray(), dense(arrays, "cora_ml", listed))
    assert (made.attack, made.budget, made.num_changes) == ("unit-test/evasion/gcn", "40 edges", 40)
    assert unit_test(path).guesses("citeseer").startswith("citeseer has 90 nodes, one for each label; 24 columns")


def test_they_have_names_of_their_own(data):
    write(data)
    assert {"unit-test-cora-ml", "unit-test-citeseer"} <= set(names())
    assert load("unit-test-cora-ml") == unit_test().graph("cora_ml", 0)
    assert load("unit-test-citeseer", split="unit-test-1") == unit_test().graph("citeseer", 1)
    clean = load("unit-test-citeseer")
    attacked = poisoned("unit-test-citeseer", attack="unit-test/poisoning/jaccard_gcn", budget=7)
    assert (attacked.adjacency != clean.adjacency).nnz == 2 * 7
    assert poisoned("unit-test-citeseer", attack="unit-test/poisoning/gcn", budget=0) == clean


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load("unit-test-cora-ml", split="random"), "'random' is not for unit-test-cora-ml"),
        (lambda: load("unit-test-cora-ml", split="unit-test-7"), "There is no split 7 of cora_ml .* exist: 0, 1"),
        (lambda: load("unit-test-cora-ml", split="unit-test-x"), "'unit-test-x' is malformed"),
        (lambda: load("cora", split="unit-test-0"), "for the graphs of the unit test alone"),
        (lambda: poisoned("unit-test-cora-ml", attack="metattack", budget=5), "Got 'metattack' instead"),
        (
            lambda: poisoned("unit-test-cora-ml", attack="unit-test/evasion/gcn", budget=6),
            r"budget of 6 in .*unit_test.npz. Those that exist: 5, 40\.",
        ),
        (lambda: poisoned("unit-test-cora-ml", attack="unit-test/evasion/grand", budget=5), "It has none at all"),
    ],
)
def test_what_is_not_there_is_said(data, call, message):
    write(data)
    with pytest.raises(ParameterError, match=message):
        call()


def test_listing_edges_twice_makes_no_difference(data):
    once = unit_test(write(data))
    graphs = [once.graph("cora_ml", 0)]
    made = [once.perturbation(once.flips[-1], once.graph("cora_ml", 0))]
    told = [once.guesses("cora_ml")]
    arrays = contents()
    lists = [name for name in arrays if "adjacency" in name or "budget" in name]
    twice = unit_test(write(data, {name: np.concatenate([arrays[name], arrays[name][:, ::-1]]) for name in lists}))
    graphs.append(twice.graph("cora_ml", 0))
    made.append(twice.perturbation(twice.flips[-1], twice.graph("cora_ml", 0)))
    told.append(twice.guesses("cora_ml"))
    assert graphs[0] == graphs[1]
    assert made[0] == made[1]
    assert ["listed once each." in told[0], "listed in both directions." in told[1]] == [True, True]


ADJACENCY, LABELS, FEATURES = (f"cora_ml/dataset/{part}" for part in ("adjacency", "labels", "features"))
FLIPS = "cora_ml/perturbations/evasion/gcn/split_0/budget_0005"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({ADJACENCY: np.zeros((2, 5), int)}, "'cora_ml/dataset/adjacency' has shape (2, 5) but must have two columns"),
        ({ADJACENCY: np.zeros((5, 2))}, "'cora_ml/dataset/adjacency' has dtype float64"),
        ({ADJACENCY: np.array([[0, NODES]])}, "has the index 90, outside of 0 to 89"),
        ({ADJACENCY: np.array([[0, -1]])}, "has the index -1, outside of 0 to 89"),
        ({ADJACENCY: np.array([[0, None]])}, "holds Python objects"),
        ({FEATURES: np.array([[NODES, 0]])}, "'cora_ml/dataset/features' has the index 90"),
        ({FEATURES: np.array([[0, 2**31 - 1]])}, "declares 2147483648 columns of features"),
        ({FEATURES: np.array([[0, 2**62]])}, "has the index 4611686018427387904"),
        ({FEATURES: np.array([0, 1])}, "has shape (2,) but must have 2 dimension(s)"),
        ({LABELS: np.zeros(NODES)}, "'cora_ml/dataset/labels' has dtype float64"),
        ({LABELS: np.zeros((NODES, 1), int)}, "must have 1 dimension(s)"),
        ({LABELS: np.full(NODES, -1)}, "must have a class >= 0 for each node"),
        ({LABELS: np.zeros(0, int)}, "must have a class >= 0 for each node"),
        ({LABELS: np.full(NODES, 2**40)}, "labels must number the classes"),
        ({"cora_ml/splits/0/train": np.array([NODES])}, "a split must hold node numbers from 0 to 89"),
        ({"cora_ml/splits/0/train": np.zeros(3, int)}, "a split names a node twice"),
        ({"cora_ml/splits/0/train": np.zeros(0, int)}, "its split 0 of cora_ml has a part without nodes"),
        ({"cora_ml/splits/0/val": np.array([0.5])}, "'cora_ml/splits/0/val' has dtype float64"),
        ({FLIPS: np.array([[0, NODES]])}, "budget_0005' has the index 90, outside of 0 to 89"),
        ({FLIPS: np.array([[0.0, 1.0]])}, "budget_0005' has dtype float64"),
        ({FLIPS: np.array([[0, 1, 2]])}, "budget_0005' has shape (1, 3) but must have two columns"),
        ({FLIPS: np.array([[3, 3]])}, "flips an edge from node 3 to itself"),
        ({FLIPS: np.array([[0, one] for one in range(1, 9)])}, "flips 8 edges, more than the budget in its name"),
        ({FLIPS[:-4] + "5": np.zeros((0, 2), int)}, "mean the same perturbation"),
        ({FLIPS[:-4] + "many": np.zeros((0, 2), int)}, "budget_many' has no scenario, model, split or budget"),
        ({FLIPS.replace("split_0", "split_9"): np.zeros((0, 2), int)}, "has no scenario, model, split or budget"),
        ({FLIPS.replace("gcn", "\x1b[2J"): np.zeros((0, 2), int)}, "has no scenario, model, split or budget"),
    ],
)
def test_a_damaged_file_is_one_sentence(data, changes, message):
    path = write(data, changes)

    def read():
        test = unit_test(path)
        test.perturbation(Flips("cora_ml", "evasion", "gcn", 0, 5), test.graph("cora_ml", 0))

    with pytest.raises(GraphError, match=re.escape(message)) as raised:
        read()
    assert str(raised.value).startswith(f"Cannot read {path}: ")
    assert "\n" not in str(raised.value)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("cora_ml/dataset/labels", "it has no array 'cora_ml/dataset/labels'"),
        ("cora_ml/dataset/adjacency", "it has no array 'cora_ml/dataset/adjacency'"),
        ("cora_ml/dataset/features", "it has no array 'cora_ml/dataset/features'"),
        ("cora_ml/splits/0/val", "it has no array 'cora_ml/splits/0/val'"),
        ("cora_ml/splits", "it has no split of cora_ml"),
        ("cora_ml/perturbations/evasion", "it has no perturbations of cora_ml for evasion"),
        ("c", "it is not the unit test"),
    ],
)
def test_what_a_file_lacks_is_named(data, without, message):
    path = write(data, {"other": np.zeros(1)}, [without])
    with pytest.raises(GraphError, match=re.escape(message)):
        unit_test(path).graph("cora_ml", 0)


def test_a_file_that_is_missing_or_no_archive(data, monkeypatch):
    with pytest.raises(GraphError, match=r"unit test was not found: looked for unit_test.npz in .*GARNET_DATA"):
        unit_test()
    with pytest.raises(GraphError, match="there is no such file"):
        unit_test(data / "elsewhere.npz")
    (data / "unit_test.npz").write_bytes(b"PK" + bytes(100))
    with pytest.raises(GraphError, match=r"not a whole \.npz"):
        unit_test()


def test_a_graph_alone_will_do(data):
    study = unit_test_study(unit_test(write(data, without=["citeseer"])), ["none"])
    assert {cell.graph for cell in study.cells} == {"unit-test-cora-ml"}
    assert len(study.cells) == 2 * 2 * (1 + 2 * 2)


@pytest.fixture
def command(data, monkeypatch, capsys):
    def bench(*arguments):
        monkeypatch.setattr(sys, "argv", ["garnet", "bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        written = capsys.readouterr()
        return stopped.value.code or 0, written.out, written.err

    return bench


def by_hand(defense, graph, scenario, budget):
    """Mean accuracy over the splits under each source, from dense matrices and without the library's reader."""
    arrays, means = contents(), {}
    features = np.zeros((NODES, COLUMNS))
    features[tuple(arrays[f"{graph}/dataset/features"].T)] = 1
    for source in SOURCES:
        found = []
        for split in SPLITS:
            flips = arrays[f"{graph}/perturbations/{scenario}/{source}/split_{split}/budget_{budget:04d}"]
            parts = unit_test().graph(graph, split).split
            known = {"features": features, "labels": arrays[f"{graph}/dataset/labels"], "split": parts}
            clean, attacked = (as_graph(dense(arrays, graph, some), **known) for some in ((), flips))
            if scenario == "evasion":
                found.append(defense.predict(defense.fit(clean, seed=0), attacked).accuracy())
            else:
                found.append(defense.fit(attacked, seed=0).accuracy())
        means[source] = 100 * np.mean(found)
    return means


def table_of(out, graph, scenario):
    """Rows of a Markdown table, by their first word."""
    text = out[out.index(f"**unit-test: {graph}, {scenario}**") :]
    rows = [line.strip("| ").split(" | ") for line in text.split("\n\n")[1].splitlines()[2:]]
    return {label: entries for label, *entries in rows}


@pytest.mark.slow
def test_the_study_finds_the_worst_source_of_each_budget(command, data):
    write(data)
    status, out, err = command("run", "unit-test", "--defense", "none")
    assert status == 0, err
    titles = " ".join(out.split())
    assert "Black-box unit test: unit-test-cora-ml, poisoning" in titles
    assert "under the worst of its 2 sources" in out
    assert "citeseer has 90 nodes" in out
    records, _ = read_records(data / "unit-test.jsonl")
    assert len(records) == 2 * 2 * 2 + 2 * 2 * 2 * (2 + 1)

    status, shown, _ = command("show", "unit-test", "--markdown")
    defense = build(next(cell for cell in unit_test_study(unit_test(), ["none"]).cells), "cpu")
    assert isinstance(defense, Purified)
    assert isinstance(defense.backbone, GCN)
    for graph, scenario, budgets in (("cora_ml", "poisoning", (5, 40)), ("citeseer", "evasion", (7,))):
        rows = table_of(shown, f"unit-test-{graph.replace('_', '-')}", scenario)
        assert list(rows) == ["0", *map(str, budgets), "mean"]
        clean = np.mean([100 * defense.fit(unit_test().graph(graph, split), seed=0).accuracy() for split in SPLITS])
        assert rows["0"][0].startswith(f"{clean:.1f} ± ")
        points = [(0, clean)]
        for budget in budgets:
            means = by_hand(defense, graph, scenario, budget)
            source = min(means, key=means.get)
            assert re.fullmatch(rf"{means[source]:.1f} ± [\d.]+ \({source}\)", rows[str(budget)][0])
            points.append((budget, means[source]))
        area = np.trapezoid([y for _, y in points], [x for x, _ in points]) / budgets[-1]
        assert rows["mean"] == [f"{area:.1f}"]


def test_edges_do_not_matter_to_a_model_that_reads_none(command, data):
    write(data)
    assert command("run", "unit-test", "--defense", "none", "--backbone", "mlp", "--scenario", "evasion")[0] == 0
    records, _ = read_records(data / "unit-test.jsonl")
    assert {record.cell["measure"] for record in records} == {"evasion"}
    for graph in ("unit-test-cora-ml", "unit-test-citeseer"):
        for split in SPLITS:
            own = [one for one in records if (one.cell["graph"], one.cell["split"]) == (graph, f"unit-test-{split}")]
            assert len({record.mean for record in own}) == 1
    rows = table_of(command("show", "unit-test", "--markdown")[1], "unit-test-cora-ml", "evasion")
    assert rows["0"][0].startswith(rows["mean"][0])


@pytest.mark.slow
def test_a_defence_that_cannot_be_evaded_says_so_and_poisons_all_the_same(command, data):
    write(data, without=["citeseer"])
    status, out, _ = command("run", "unit-test", "--defense", "prognn", "--defense", "none", "--seeds", "2")
    assert status == 1
    assert "ProGNN learns one graph only" in out
    shown = command("show", "unit-test", "--markdown")[1]
    evasion, poisoning = (table_of(shown, "unit-test-cora-ml", one) for one in ("evasion", "poisoning"))
    assert [entries[0] for entries in evasion.values()] == ["failed", "failed", "failed", "–"]
    assert all(entries[0] not in ("failed", "–") for entries in poisoning.values())
    assert all(re.match(r"\d", entry) for rows in (evasion, poisoning) for entry in (row[1] for row in rows.values()))


def test_a_part_of_the_cells_is_told(data):
    write(data, without=["citeseer", "cora_ml/perturbations/evasion/gcn/split_1"])
    study = unit_test_study(unit_test(), ["linear-floor"], scenarios=["poisoning"])
    assert "Not every source has every budget in every split of cora_ml." in study.note
    first = run(replace(study, cells=study.cells[:4]), data / "records.jsonl")
    (table,) = make_tables("t", first.records, cells=[cell.facts() for cell in study.cells])
    clean, small, large, mean = (str(row.entries[0]) for row in table.rows)
    assert clean.endswith(" [1 of 2 cells]")
    assert small.endswith(" [2 of 4 cells]")
    assert large.endswith(" (gcn) [1 of 4 cells]")
    assert mean.endswith(" [4 of 10 cells]")
    assert "Failed" not in " ".join(table.below)


def test_options_are_checked(command, data):
    write(data)
    (data / "own.toml").write_text('title = "t"\n[[cells]]\ngraph = "cora"\ndefense = "none"\nbackbone = "gcn"\n')
    for arguments, message in (
        (("own.toml", "--defense", "garnet"), "The option --defense is for the study unit-test alone"),
        (("unit-test", "--defense", "granet"), "There is no defence named 'granet'. Did you mean garnet"),
        (("unit-test", "--scenario", "both"), "There is no scenario named 'both'"),
        (("unit-test", "--backbone", "gnc"), "There is no backbone named 'gnc'"),
    ):
        status, _, err = command("run", *arguments)
        assert status == 1
        assert message in err
    assert not (data / "results").exists()
    (data / "unit_test.npz").unlink()
    status, _, err = command("run", "unit-test")
    assert (status, "unit test was not found" in err) == (1, True)
