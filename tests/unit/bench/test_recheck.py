"""Whether recorded cells come out again."""

import json
import shutil

import pytest
from scipy import stats

from garnet.bench.recheck import can_be_checked, cell_of, compare, drawn
from garnet.bench.record import Record, read_records, spread
from garnet.bench.shipped import shipped, study_file
from garnet.bench.study import load_study, parse_study

STUDY = """
title = "Checked"
seeds = 3
[[cells]]
graph = "cora"
split = "random"
defense = "none"
backbone = "gcn"
[cells.training]
epochs = 3
[[cells]]
graph = "cora"
defense = "none"
measure = "homophily"
"""


def record(*accuracies, **changed):
    cell = parse_study(
        {"title": "t", "seeds": len(accuracies), "cells": [{"graph": "cora", "defense": "none", "backbone": "gcn"}]}
    ).cells[0]
    mean, sd = spread(list(accuracies))
    known = {"values": {"accuracy": list(accuracies)}, "mean": mean, "sd": sd, "status": "done", "cell": cell.facts()}
    return Record(key=cell.key, seeds=cell.seeds, **(known | changed))


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_cell_can_be_made_of_its_facts(name):
    for cell in load_study(study_file(name)).cells:
        again = cell_of(json.loads(json.dumps(cell.facts())))
        assert again == cell
        assert again.key == cell.key


def test_two_standard_errors_decide():
    then = [80.0, 81.0, 82.0, 83.0]
    error = stats.sem(then)
    for now, agrees in ((0.0, True), (1.9, True), (2.1, True), (2.7, True), (3.0, False), (-3.0, False)):
        found = compare(record(*then), record(*[one + now * error for one in then]))
        assert found.difference == pytest.approx(now * error)
        assert found.allowed == pytest.approx(2 * (2 * error**2) ** 0.5)
        assert found.agrees == agrees


def test_what_has_no_spread_agrees_to_the_last_digit_of_a_table():
    assert compare(record(80.0, 80.0), record(80.05, 80.05)).agrees
    assert not compare(record(80.0, 80.0), record(80.3, 80.3)).agrees


def test_a_failure_and_what_differs_are_told():
    then = record(80.0, 81.0, fingerprints={"graph": "a", "split": "b"}, parameters={"backbone": {"hidden": 64}})
    failed = compare(then, record(80.0, 81.0, status="failed", reason="too large"))
    assert (failed.agrees, failed.why) == (False, "too large")
    now = record(80.0, 81.0, fingerprints={"graph": "a", "split": "c"}, parameters={"backbone": {"hidden": 32}})
    why = compare(then, now).why
    assert "another split" in why
    assert "backbone.hidden: 64 before, 32 now" in why
    assert "another graph" not in why
    assert compare(then, then).why == ""


def test_the_draw_depends_on_the_seed_and_not_on_the_order():
    records = [record(*range(80, 81 + number)) for number in range(12)]
    keys = {tuple(one.key for one in drawn(records, 4, seed)) for seed in range(20)}
    assert len(keys) > 5
    assert {one.key for one in drawn(records, 4, 0)} == {one.key for one in drawn(records[::-1], 4, 0)}
    assert drawn(records, 50, 0) == tuple(records)


@pytest.mark.parametrize("change", [{"defense": "os:system"}, {"attack": "os:system"}, {"graph": "/etc/passwd.npz"}])
def test_nothing_of_somebodys_is_imported_or_read_because_records_say_so(change):
    asked = record(80.0)
    assert can_be_checked(asked)
    assert not can_be_checked(record(80.0, cell=asked.cell | change))
    assert not can_be_checked(record(80.0, status="failed", reason="no"))


@pytest.fixture
def measured(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GARNET_DATA", raising=False)
    (tmp_path / "checked.toml").write_text(STUDY)
    assert command("bench", "run", "checked.toml")[0] == 0
    return tmp_path / "checked.jsonl"


def test_records_of_this_machine_come_out_and_others_do_not(measured, command, tmp_path):
    before = measured.read_bytes()
    status, out, err = command("bench", "check", measured, "--sample", "9", "-o", "now.jsonl")
    assert (status, "2 of 2 cells came out" in err, "DISAGREES" in out) == (0, True, False)
    assert measured.read_bytes() == before
    assert len(read_records("now.jsonl")[0]) == 2
    status, out, err = command("bench", "check", "checked.toml", "--match", "homophily", "--sample", "1")
    assert (status, "1 of 1 cells" in err, "homophily" in out) == (0, True, True)

    lines = [json.loads(line) for line in before.decode().splitlines()]
    lines[0]["values"]["accuracy"] = [99.0, 99.1, 98.9]
    lines[0] |= {"mean": 99.0, "sd": 0.1}
    lines[-1]["values"]["after"] += 0.1
    measured.write_text("".join(json.dumps(line) + "\n" for line in lines))
    status, out, err = command("bench", "check", measured, "--sample", "9")
    assert (status, "0 of 2 cells came out" in err) == (1, True)
    wrong = [line for line in out.splitlines() if "DISAGREES" in line]
    assert len(wrong) == 2
    assert "99.0 ± 0.1" in wrong[0]


def test_what_cannot_be_checked_is_one_sentence(measured, command, tmp_path):
    status, _, err = command("bench", "check", measured, "--match", "no such cell")
    assert (status, len(err.splitlines()), "--match" in err) == (1, 1, True)
    status, _, err = command("bench", "check", "none.jsonl")
    assert (status, "There are no records at none.jsonl" in err) == (1, True)
    status, _, err = command("bench", "check", measured, "-o", measured)
    assert (status, "is read by this command" in err) == (1, True)
    shutil.copy(measured, tmp_path / "copy.jsonl")
    assert command("bench", "check", "copy.jsonl", "--longest", "0")[0] == 1
