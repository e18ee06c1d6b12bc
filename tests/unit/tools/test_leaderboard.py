"""The leaderboard is made of the records of stress tests, and of studies where there are none."""

import json
from pathlib import Path

import pytest

from garnet import as_graph
from garnet.backbones import GCN
from garnet.bench.stress import stress
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Purified
from garnet.errors import GarnetError
from garnet.training import Training
from tools.leaderboard import leaderboard

RECORDS = Path(__file__).resolve().parents[3] / "results"


@pytest.fixture
def records(tmp_path):
    for name in ("leave-it-on", "citations"):
        (tmp_path / f"{name}.jsonl").write_bytes((RECORDS / f"{name}.jsonl").read_bytes())
    return tmp_path


def run(records, name, epochs):
    made = contextual_block_model(120, classes=3, mean_degree=6, homophily=0.9, features=8, signal=1.0, seed=0)
    return stress(
        as_graph(made, split=random_split(made.labels, train=0.2, val=0.2, seed=0)),
        Purified(None, GCN(hidden=8), Training(epochs=epochs, lr=0.05)),
        budgets=["5%", "40%"],
        attacks=["dice"],
        seeds=1,
        path=records / f"stress-cora-{name}.jsonl",
        graph_name="cora",
        defense_name=name,
        command=f"garnet stress cora --defense {name}",
    )


def test_without_a_stress_test_there_are_dashes(records):
    page = leaderboard(records)
    assert "## Cora" in page
    committee = next(line for line in page.splitlines() if line.startswith("| `committee` |"))
    assert committee.count("—") == 6
    assert "(../../results/leave-it-on.jsonl)" in committee
    assert "## Cora" in leaderboard(RECORDS)
    assert not leaderboard(records / "nowhere")


def test_the_most_robust_is_first_and_leads_to_its_record(records):
    weak, strong = run(records, "rung", epochs=1), run(records, "committee", epochs=30)
    page = leaderboard(records)
    first, second, *others = [line for line in page.splitlines() if line.startswith("| `")]
    assert (first.split("`")[1], second.split("`")[1]) == ("committee", "rung")
    within = min(one.mean for one in strong.battery.outcomes if one.budget == "5%")
    assert f"**[{within:.1f}](../../results/stress-cora-committee.jsonl)" in first
    assert "(../../results/leave-it-on.jsonl)" in first
    assert ("⚠" in second) == bool(weak.failed)
    assert all("**" not in line for line in others)
    assert "garnet stress cora --defense committee\n" in page


def test_flips_made_for_others_count_for_all_but_who_they_were_made_for(records):
    run(records, "rung", epochs=30)
    tried = {
        "rung": {"clean": 80.0, "evasion": [[1.0, "committee", "query-search"]], "poisoning": []},
        "lfr": {"clean": 80.0, "evasion": [], "poisoning": [[60.5, "rung", "dice"], [70.0, "committee", "dice"]]},
        "none": {"clean": 80.0, "evasion": [[50.0, "none, gprgnn", "dice"]], "poisoning": []},
    }
    (records / "transfer-cora.json").write_text(json.dumps({"figures": tried}))
    rows = {line.split("`")[1]: line for line in leaderboard(records).splitlines() if line.startswith("| `")}
    assert "**[1.0](../../results/transfer-cora.json) (evasion, for committee)**" in rows["rung"]
    assert "**[60.5](../../results/transfer-cora.json) (poisoning, for rung)**" in rows["lfr"]
    assert "transfer" not in rows["none"]


def test_a_damaged_record_is_named(records):
    (records / "stress-cora-none.jsonl").write_text("nothing\n")
    with pytest.raises(GarnetError, match="Line 1 of the record"):
        leaderboard(records)
