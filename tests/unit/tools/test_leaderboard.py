"""The leaderboard is made of the records of stress tests, and of studies where there are none."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from garnet import as_graph
from garnet.attacks import DICE, Attack, QuerySearch
from garnet.backbones import GCN
from garnet.bench.stress import stress
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Purified
from garnet.errors import GarnetError
from garnet.training import Training
from tools.leaderboard import leaderboard
from tools.stress_tables import attacker_who_knows, figure, restarts, rounds

RECORDS = Path(__file__).resolve().parents[3] / "results"


@dataclass(frozen=True)
class Broken(Attack):
    """Finds nothing."""

    def _run(self, task):
        raise ZeroDivisionError("nothing")
        yield


@pytest.fixture
def records(tmp_path):
    for name in ("leave-it-on", "citations"):
        (tmp_path / f"{name}.jsonl").write_bytes((RECORDS / f"{name}.jsonl").read_bytes())
    return tmp_path


def run(records, name, epochs, file=None, **choice):
    made = contextual_block_model(120, classes=3, mean_degree=6, homophily=0.9, features=8, signal=1.0, seed=0)
    return stress(
        as_graph(made, split=random_split(made.labels, train=0.2, val=0.2, seed=0)),
        Purified(None, GCN(hidden=8), Training(epochs=epochs, lr=0.05)),
        path=records / f"stress-cora-{file or name}.jsonl",
        graph_name="cora",
        defense_name=name,
        **{"budgets": ["5%", "40%"], "attacks": ["dice"], "seeds": 1, "unbounded": False}
        | {"command": f"garnet stress cora --defense {name}"}
        | choice,
    )


def lines(path):
    return path.read_text().splitlines(keepends=True)


def rows_of(page):
    """The cells of each row of a table by the heads of their columns, without links and bold type."""
    lines = [re.sub(r"\(\.\./[^)]*\)|\*\*", "", line) for line in page.splitlines() if line.startswith("| ")]
    heads, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {row[0].split("`")[1]: dict(zip(heads, row, strict=True)) for row in rows if row[0].startswith("`")}


def test_without_a_stress_test_there_are_dashes(records):
    page = leaderboard(records)
    assert "## Cora" in page
    committee = next(line for line in page.splitlines() if line.startswith("| `committee` |"))
    assert committee.count("—") == 7
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


def test_a_transfer_fills_what_is_not_measured_and_none_is_left_out(records):
    tried = {"clean": 80.0, "evasion": [], "poisoning": []}
    (records / "transfer-cora.json").write_text(json.dumps({"figures": {"feature-knn": tried}}))
    (records / "transfer-atlantis.json").write_text(json.dumps({"figures": {"lfr": tried}}))
    page = leaderboard(records)
    assert rows_of(page)["feature-knn"]["clean"] == "[80.0]"
    assert "## Atlantis" in page
    (records / "transfer-cora.json").write_text(json.dumps({"figures": {"lfr": tried | {"budget": 0.2}}}))
    with pytest.raises(GarnetError, match="has lfr with 20 % of the edges flipped"):
        leaderboard(records)


def test_attacks_are_counted_once_and_rows_without_a_search_are_marked(records):
    run(records, "rung", epochs=5, attacks=["dice", DICE(add_share=0.1), "prbcd"])
    run(records, "lfr", epochs=5, attacks=["dice", QuerySearch(queries=3)])
    page = leaderboard(records)
    rows = rows_of(page)
    assert [rows[name]["attacks"] for name in ("rung", "lfr", "committee")] == ["2", "2", "—"]
    assert "†" in rows["rung"]["worst"]
    assert "†" not in rows["lfr"]["worst"]
    assert "† Not attacked by a search" in page


def test_every_command_is_told_whose_attacks_a_row_counts(records):
    def told(budget, attacks, output=""):
        line = f"garnet stress cora --defense rung --budgets {budget} --attacks {attacks}{output}"
        run(records, "rung", epochs=5, budgets=[budget], attacks=attacks.split(","), command=line)
        return line, re.findall(r"^garnet stress .*$", leaderboard(records), flags=re.M)

    dice, shown = told("5%", "dice")
    assert shown == [dice]
    prbcd, shown = told("5%", "prbcd")
    assert shown == [dice, prbcd]
    # More of the edges than the board counts.
    assert told("40%", "dice")[1] == [dice, prbcd]
    every, shown = told("5%", "grbcd,prbcd,dice", " -o results/stress-cora-rung.jsonl")
    assert shown == [every]
    less, shown = told("2%", "dice")
    assert shown == [every, less]


def test_attempts_that_failed_are_said(records):
    run(records, "rung", epochs=5)
    assert "‡" not in leaderboard(records)
    run(records, "rung", epochs=5, attacks=["dice", Broken()])
    page = leaderboard(records)
    assert "‡" in rows_of(page)["rung"]["worst"]
    assert "‡ Attempts failed" in page


def test_flips_made_for_the_other_threat_have_an_arrow(records):
    run(records, "rung", epochs=5, attacks=[QuerySearch(queries=3)])
    row = rows_of(leaderboard(records))["rung"]
    assert row["adaptive evasion"].endswith("(query-search)")
    assert row["adaptive poisoning"].endswith("(→ query-search)")


def test_two_stress_tests_of_one_name_are_refused(records):
    run(records, "rung", epochs=5)
    run(records, "rung", epochs=6, file="other")
    with pytest.raises(GarnetError, match=r"stress-cora-other.jsonl and stress-cora-rung.jsonl .* rung on cora"):
        leaderboard(records)


def test_a_stress_test_is_on_the_board_though_its_budgets_are_too_large(records):
    found = run(records, "rung", epochs=30, budgets=["40%"])
    row = rows_of(leaderboard(records))["rung"]
    assert row["clean"] == f"[{found.battery.clean.mean:.1f}]"
    assert (row["worst"], row["seconds"], row["attacks"]) == ("—", "—", "0")


def test_attempts_without_what_they_are_compared_with_are_refused(records):
    run(records, "rung", epochs=5)
    path = records / "stress-cora-rung.jsonl"
    path.write_text("".join(line for line in lines(path) if '"role": "clean"' not in line))
    with pytest.raises(GarnetError, match="without the accuracy where nobody attacks"):
        leaderboard(records)


def test_who_knows_has_every_budget_of_every_defence_and_a_warning(records):
    run(records, "rung", epochs=5, budgets=["5%", "20%"])
    run(records, "lfr", epochs=5, budgets=["10%"])
    # A model that says something else when it is asked again fails a check.
    path = records / "stress-cora-rung.jsonl"
    clean, *others = map(json.loads, lines(path))
    clean["values"]["evasion"] = 0.0
    path.write_text("".join(json.dumps(one) + "\n" for one in (clean, *others)))
    page = attacker_who_knows(records)
    rows = rows_of(page)
    budgets = [f"{when}: {one}" for when in ("after", "before") for one in ("5%", "10%", "20%")]
    assert list(rows["rung"]) == ["Cora", "clean", *budgets]
    assert (rows["rung"]["Cora"], rows["lfr"]["Cora"]) == ("`rung` ⚠", "`lfr`")
    assert rows["rung"]["after: 10%"] == "—" != rows["rung"]["after: 5%"]


def test_rounds_count_each_attack_once(records):
    for file in ("rounds-cora-0", "rounds-cora-1", "stress-cora-committee"):
        run(records, "committee", epochs=5, attacks=["dice", DICE(add_share=0.1)])
        (records / "stress-cora-committee.jsonl").replace(records / f"{file}.jsonl")
    for line in rounds(records).splitlines()[2:]:
        assert line.split("|")[2].strip() == "1"


def test_rounds_are_compared_by_the_attacks_that_all_were_tried_with(records):
    for file, attacks in {"rounds-cora-0": ["dice"], "rounds-cora-1": ["dice"], "": ["dice", "prbcd"]}.items():
        run(records, "committee", epochs=5, attacks=attacks)
        if file:
            (records / "stress-cora-committee.jsonl").replace(records / f"{file}.jsonl")
    first, _, second, today = (line.split("|")[1:-1] for line in rounds(records).splitlines()[2:])
    assert [row[1].strip() for row in (first, second, today)] == ["1", "1", "2"]
    assert first[2:] == second[2:]  # the same attack on the same committee
    assert all(float(now) <= float(then) for now, then in zip(today[3:], second[3:], strict=True))


def test_restarts_say_how_far_the_seeds_agree(records):
    found = {
        name: run(records, name, epochs=5, budgets=["5%"], seeds=seeds) for name, seeds in (("rung", 2), ("lfr", 1))
    }
    for name in found:
        (records / f"stress-cora-{name}.jsonl").replace(records / f"restarts-cora-{name}.jsonl")
    rows = rows_of(restarts(records))
    assert (rows["rung"]["seeds"], rows["lfr"]["seeds"]) == ("2", "1")
    accuracies = found["rung"].worst("evasion", "5%").accuracies
    mean, sd = sum(accuracies) / 2, abs(accuracies[0] - accuracies[1]) / 2**0.5
    assert rows["rung"]["evasion: 5%"].startswith(f"{mean:.1f} ± {sd:.1f} (")
    assert "±" not in rows["lfr"]["evasion: 5%"]


def test_a_sentence_may_have_a_figure_of_the_board(records):
    run(records, "rung", epochs=5, budgets=["5%"])
    row = rows_of(attacker_who_knows(records))["rung"]
    told = [figure(f"cora rung {one}", records) for one in ("clean", "evasion 5%", "poisoning 5%")]
    assert list(row.values())[1:] == told
    for wrong in ("cora rung evasion 7%", "cora lfr clean", "citeseer rung clean", "cora rung"):
        with pytest.raises(GarnetError, match=f"'{wrong}'"):
            figure(wrong, records)


def test_a_damaged_record_is_named(records):
    (records / "stress-cora-none.jsonl").write_text("nothing\n")
    with pytest.raises(GarnetError, match="Line 1 of the record"):
        leaderboard(records)
