"""The studies and records that come with the project."""

import json
import shutil
from pathlib import Path

import pytest

from garnet.bench.record import read_records
from garnet.bench.shipped import shipped, study_file
from garnet.bench.stress import stress
from garnet.bench.study import load_study
from garnet.datasets import load
from garnet.defenses.lookup import named_defense

ROOT = Path(__file__).resolve().parents[3]
STUDIES = [study_file(name) for name in shipped()]


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_can_be_read_and_repeats_no_cell(path):
    study = load_study(path)
    assert len({cell.key for cell in study.cells}) == len(study.cells)


def test_every_table_and_ablation_has_a_study():
    names = " ".join(path.stem for path in STUDIES)
    for wanted in ("table-2", "table-3", "table-7", "table-8", "table-9", "table-10", "table-11", "table-12"):
        assert wanted in names
    for wanted in ("figure-1", "ablation-refinement", "ablation-k", "ablation-gamma", "citeseer"):
        assert wanted in names


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.jsonl")), ids=lambda path: path.stem)
def test_records_are_whole_and_name_no_folder(path):
    records, damages = read_records(path)
    assert records
    assert not damages
    assert all(record.status == "done" for record in records)
    text = path.read_text()
    assert not any(word in text for word in ("/home/", "/tmp/", "/work/"))
    assert all(json.loads(line)["machine"]["processor"] for line in text.splitlines())


def test_the_command_of_a_row_has_nothing_left_to_do(data_folder, monkeypatch, tmp_path):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    path = shutil.copy(ROOT / "results" / "stress-cora-none-gcn.jsonl", tmp_path)
    found = stress(
        load("cora"),
        named_defense("none", backbone="gcn"),
        budgets=["1%", "5%", "10%"],
        attacks=["prbcd", "metattack", "adaptive-metattack"],
        seeds=1,
        unbounded=False,
        path=path,
        graph_name="cora",
        defense_name="none",
        backbone="gcn",
    )
    assert (found.ran, len(found.battery.records)) == (0, 1 + 4 * 3)
