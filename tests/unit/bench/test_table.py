from dataclasses import replace

from garnet.bench.record import Record, spread
from garnet.bench.study import parse_study
from garnet.bench.table import as_markdown, make_tables

MACHINE = {"processor": "Abacus", "cores": 1, "memory_gb": 0.1, "gpu": None}
ATTACKED = {"graph": "cora", "attack": "metattack", "backbone": "gcn"}


def cells(*groups):
    return parse_study({"title": "t", "seeds": 3, "cells": list(groups)}).cells


def done(cell, *accuracies, **values):
    mean, sd = spread(list(accuracies))
    values = {"accuracy": list(accuracies)} if accuracies else values
    return Record(
        key=cell.key, cell=cell.facts(), status="done", values=values, mean=mean, sd=sd, seeds=cell.seeds,
        machine=MACHINE, versions={"python": "3.11", "torch": "2.2"},
    )  # fmt: skip


def failed(cell, reason):
    return Record(key=cell.key, cell=cell.facts(), status="failed", reason=reason, machine=MACHINE, seeds=cell.seeds)


def only_table(records, wanted=None):
    (table,) = make_tables("t", records, cells=wanted and [cell.facts() for cell in wanted], note="a note")
    return table


def entries(table):
    return [[str(entry) for entry in row.entries] for row in table.rows]


def test_ours_beside_the_papers_with_marks_beyond_two_deviations():
    wanted = cells({**ATTACKED, "budget": [0, 0.2], "defense": ["none", "garnet-paper"]})
    # The paper has 81.35 ± 0.66 and 56.28 ± 1.19 without, 79.64 ± 0.75 and 73.89 ± 0.91 with the defence.
    clean, clean_paper, poisoned, poisoned_paper = wanted
    records = [
        done(clean, 82.0, 83.0, 84.0), done(clean_paper, 82.0, 83.0, 84.0),
        done(poisoned, 50.0), done(poisoned_paper, 74.0, 74.0, 74.0),
    ]  # fmt: skip
    table = only_table(records, wanted)
    assert table.columns == ("backbone", "defence", "cora metattack clean", "cora metattack 0.2")
    assert [row.labels for row in table.rows] == [("gcn", "none"), ("gcn", "garnet-paper")]
    assert entries(table) == [
        ["83.0 ± 1.0 (81.35 ± 0.66)", "50.0 (56.28 ± 1.19) ▼"],
        ["83.0 ± 1.0 (79.64 ± 0.75) ▲", "74.0 ± 0.0 (73.89 ± 0.91)"],
    ]


def test_missing_and_failed_cells_are_shown_as_such():
    wanted = cells({**ATTACKED, "budget": 0.2, "defense": ["none", "tsvd", "garnet"]})
    table = only_table([failed(wanted[1], "It is too large.")], wanted)
    assert [row[0].split(" (")[0] for row in entries(table)] == ["–", "failed", "–"]
    assert table.below[0] == "a note"
    assert "Failed: cora, metattack 0.2, gcn, tsvd: It is too large." in table.below
    assert only_table([], wanted).below[-1] == "Nothing has been measured yet."


def test_swept_parameters_have_rows_and_no_paper_beside_them():
    wanted = cells({**ATTACKED, "budget": 0.2, "defense": "garnet", "parameters": {"k": [10, 20], "gamma": 0.1}})
    table = only_table([done(cell, 74.0, 75.0) for cell in wanted])
    assert [row.labels for row in table.rows] == [("gcn", "garnet", "k = 10"), ("gcn", "garnet", "k = 20")]
    assert entries(table) == [["74.5 ± 0.7"], ["74.5 ± 0.7"]]


def test_features_are_rows_of_the_papers_table_10():
    wanted = cells(
        {**ATTACKED, "budget": 0.2, "defense": "feature-knn"},
        {**ATTACKED, "budget": 0.2, "defense": "garnet-paper", "parameters": {"features": ["none", "raw"]}},
    )
    table = only_table([], wanted)
    papers = [row.entries[0].paper for row in table.rows]
    assert papers == ["56.44 ± 1.04", "73.89 ± 0.91", "71.97 ± 0.95"]


def test_both_models_training_and_seeds_are_told_apart():
    group = {"graph": "cora", "defense": "none", "backbone": "gcn"}
    wanted = cells({**group, "model": ["paper", "default"]}, {**group, "training": {"lr": 0.1}})
    more = parse_study({"title": "t", "seeds": 4, "cells": [group]}).cells
    table = only_table([done(cell, 80.0) for cell in (*wanted, *more)])
    assert [row.labels[2:] for row in table.rows] == [
        ("seeds = 0 to 2", "paper"),
        ("seeds = 0 to 2", "default"),
        ("lr = 0.1, seeds = 0 to 2", "default"),
        ("seeds = 0 to 3", "default"),
    ]
    assert table.columns[-1] == "cora clean"


def test_numbered_splits_are_one_experiment():
    group = {"graph": "chameleon", "defense": "none", "backbone": "gprgnn"}
    wanted = cells({**group, "split": ["geom-gcn-0", "geom-gcn-1"]})
    records = [done(wanted[0], 60.0, 60.0), done(wanted[1], 62.0, 62.0)]
    assert entries(only_table(records, wanted)) == [["61.0 ± 1.2 (61.36 ± 1.00)"]]
    assert entries(only_table(records[:1], wanted)) == [["60.0 ± 0.0 [1 of 2 splits] (61.36 ± 1.00)"]]
    wanted = cells({**group, "split": ["geom-gcn-0", "random"]})
    assert only_table([], wanted).columns[-2:] == ("chameleon geom-gcn clean", "chameleon random clean")


def test_other_measures_beside_the_papers():
    group = {**ATTACKED, "budget": 0.2}
    homophily, recovery, rank = cells(
        {**group, "defense": "garnet", "measure": ["homophily", "recovery"]},
        {**group, "defense": "none", "measure": "rank"},
    )
    records = [
        done(homophily, clean=0.804, input=0.68, after=0.76),
        done(recovery, recall=0.8, precision=None),
        done(rank, rank=2349),
    ]
    tables = make_tables("t", records)
    assert [entries(table) for table in tables] == [
        [["0.80 (0.80)", "0.68", "0.76 (0.75)"]],
        [["0.80 (0.94)", "– (0.65)"]],
        [["2349"]],
    ]
    assert [table.columns[table.labels :] for table in tables] == [
        ("clean", "input", "after"), ("recall", "precision"), ("0.2",)
    ]  # fmt: skip


def test_markdown():
    wanted = cells({"graph": "cora", "defense": "none", "backbone": ["gcn", "mlp"]})
    text = as_markdown(only_table([done(wanted[0], 81.0, 82.0)], wanted))
    assert text == (
        "**t**\n\n"
        "| backbone | defence | cora clean |\n"
        "| --- | --- | ---: |\n"
        "| gcn | none | 81.5 ± 0.7 (81.35 ± 0.66) |\n"
        "| mlp | none | – |\n\n"
        "a note\n\n"
        "Accuracy in percent, mean ± standard deviation over the seeds; in brackets, the paper's.\n\n"
        "Seeds 0 to 2. Measured on Abacus, 1 core, 0.1 GB. Versions: python 3.11, torch 2.2.\n"
    )


def test_parameters_are_written_as_in_a_study():
    parameters = {"gamma": [-1e9, 3e-4, 0.0, 1 / 3], "support": ["none", 0.3]}
    wanted = cells({**ATTACKED, "budget": 0.2, "defense": "garnet", "parameters": parameters})
    shown = {row.labels[2] for row in only_table([], wanted).rows}
    assert {"gamma = -1e9, support = none", "gamma = 0.0003, support = 0.3", "gamma = 0, support = none"} <= shown
    # What six digits would change is written out, or two rows could have one label.
    assert f"gamma = {1 / 3}, support = none" in shown


def test_machines_and_versions_are_told_once_and_without_what_was_not_installed():
    first, second = cells({"graph": "cora", "defense": "none", "backbone": ["gcn", "mlp"]})
    other = {"processor": "Loom", "cores": 2, "memory_gb": 1, "gpu": "Jacquard"}
    elsewhere = replace(done(second, 80.0), machine=other, versions={"python": "3.12", "pygarnet": None})
    below = only_table([done(first, 80.0), elsewhere]).below[-1]
    assert below == (
        "Seeds 0 to 2. Measured on Abacus, 1 core, 0.1 GB; and Loom, 2 cores, 1 GB with one Jacquard. "
        "Versions: python 3.11, torch 2.2; and python 3.12."
    )


def test_nothing_makes_no_table():
    assert make_tables("t", []) == ()
