"""`garnet stress`: tables, records, report, status and errors, as somebody at a terminal meets them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from garnet import as_graph
from garnet.bench.record import read_records
from garnet.datasets import contextual_block_model, random_split

QUICK = ("--defense", "none", "--backbone", "gcn", "--epochs", 15, "--attacks", "dice", "-b", "5%,20%", "--seeds", 2)
MINE = """
from dataclasses import dataclass
from garnet.backbones import GCN
from garnet.defenses import Defense, Purified
from garnet.training import Training

@dataclass(frozen=True)
class Mine(Defense):
    def _fit(self, graph, seeds, progress):
        return Purified(None, GCN(hidden=4), Training(epochs=10, lr=0.05)).fit_seeds(graph, seeds)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = contextual_block_model(120, classes=3, mean_degree=6, homophily=0.9, features=8, signal=1.0, seed=0)
    as_graph(made, split=random_split(made.labels, train=0.2, val=0.2, seed=0)).save("graph.npz")
    as_graph(made).save("no-split.npz")
    as_graph(made.adjacency).save("no-labels.npz")
    return tmp_path


def test_tables_checks_verdict_records_and_report(folder, command):
    status, out, err = command("stress", "graph.npz", *QUICK, "-o", "s.jsonl", "--report", "s.html")
    assert status == 0, out + err
    assert "graph.npz, no defence, gcn: evasion (changed after training), accuracy in percent, 2 seeds" in out
    assert "worst" in out
    assert "± is the standard deviation over the seeds" in out
    assert "✓ more budget never helps the defender" in out
    assert "– who knows the defence does at least as well" in out
    assert out.splitlines()[-1].startswith("no defence, gcn on graph.npz: ")
    assert "dice 5%, seed 0: evasion" in err
    assert "wrote s.html" in err
    page = (folder / "s.html").read_text()
    assert "A stress test of no defence, gcn on graph.npz" in page
    content = (folder / "s.jsonl").read_bytes()
    records, damages = read_records("s.jsonl")
    assert (len(records), damages) == (2 + 8 + 1, ())
    assert records[0].parameters["command"].startswith("garnet stress graph.npz --defense none")

    status, again, err = command("stress", "graph.npz", *QUICK, "-o", "s.jsonl", "--report", "s.html")
    assert (status, again, (folder / "s.jsonl").read_bytes()) == (0, out, content)
    assert "seed 0: evasion" not in err
    status, shown, _ = command("bench", "show", "s.jsonl")
    assert (status, shown) == (0, out)
    status, _, _ = command("report", "s.jsonl", "-o", "again.html")
    assert (status, (folder / "again.html").read_text().splitlines()[:-1]) == (0, page.splitlines()[:-1])


def test_json_has_all_of_it(folder, command):
    status, out, _ = command("stress", "no-split.npz", "--split", "0.2,0.2", *QUICK, "--json")
    facts = json.loads(out)
    assert status == 0
    assert facts["worst"]["poisoning"]["20%"]["attack"] in ("dice", "random")
    assert len(facts["checks"]) == 6
    assert len(facts["outcomes"]) == 2 * 2 * 2


def test_a_defence_of_ones_own_is_stressed_by_name(folder, command, monkeypatch):
    package = folder / "package"
    (package / "mine-1.dist-info").mkdir(parents=True)
    (package / "mine-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (package / "mine-1.dist-info" / "entry_points.txt").write_text("[garnet.defenses]\nmine = mine:Mine\n")
    (package / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(package)
    status, out, err = command(
        "stress", "graph.npz", "--defense", "mine", "--attacks", "dice", "-b", "10%", "--seeds", 1
    )
    assert status == 0, err
    assert "mine on graph.npz" in out


def test_a_failed_check_is_loud(folder, command):
    command("stress", "graph.npz", *QUICK, "-o", "s.jsonl")
    path = folder / "s.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if record["cell"]["role"] == "attack":
            record["values"]["poisoning"] = 10.0 if record["cell"]["allowed"] == "5%" else 90.0
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    status, out, _ = command("stress", "graph.npz", *QUICK, "-o", "s.jsonl", "--report", "s.html")
    assert status == 1
    assert "✗ more budget never helps the defender: FAILED: poisoning (random): 10.0 % at 5%, 90.0 % at 20%" in out
    assert "do not quote these figures" in out.splitlines()[-1]
    assert "Do not quote these figures yet" in (folder / "s.html").read_text()
    verdict = read_records(path)[0][-1]
    assert verdict.cell["role"] == "verdict"
    assert "failed" in [check["verdict"] for check in verdict.values["checks"]]


def test_a_battery_of_which_everything_failed_is_not_said_to_be_beyond_evasion(folder, command):
    command("stress", "graph.npz", *QUICK, "-o", "s.jsonl")
    path = folder / "s.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if record["cell"]["role"] == "attack":
            record |= {"status": "failed", "reason": "there was not enough memory", "values": {}}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    status, out, err = command("stress", "graph.npz", *QUICK, "-o", "s.jsonl")
    assert status == 1
    assert "8 attempts failed" in err
    assert "one graph only" not in out
    for record in records:
        if record["cell"]["role"] == "clean":
            record["values"]["evasion"] = None
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert "one graph only" in command("bench", "show", "s.jsonl")[1]


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_and_does_nothing_twice(folder):
    line = [sys.executable, "-m", "garnet", "stress", "graph.npz", *map(str, QUICK), "-o", "s.jsonl"]
    options = {"cwd": folder, "env": os.environ | {"OMP_NUM_THREADS": "1"}, "stderr": subprocess.DEVNULL}
    path = folder / "s.jsonl"
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, **options) as process:
        deadline = time.monotonic() + 120
        while not (path.exists() and path.read_bytes().count(b"\n") > 3) and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    before = path.read_bytes()
    assert subprocess.run(line, stdout=subprocess.DEVNULL, check=False, timeout=120, **options).returncode == 0
    assert path.read_bytes().startswith(before)
    keys = [record.key for record in read_records(path)[0]]
    assert len(keys) == len(set(keys)) == 2 + 8 + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-labels.npz",), "error: The graph has no labels"),
        (("no-split.npz",), "error: The graph has no split"),
        (("graph.npz", "--defense", "comittee"), "Did you mean committee?"),
        (("graph.npz", "-b", "0%,x"), "error: A budget must be a positive share"),
        (("graph.npz", "-b", "x"), "error: A budget is written as 20%"),
        (("graph.npz", "-b", "2%,5/target"), "error: A stress test counts flips of edges"),
        (("graph.npz", "--attacks", "nettack"), "error: The attack nettack aims at single nodes"),
        (("graph.npz", "--attacks", "dyce"), "There is no attack named 'dyce'. Did you mean dice?"),
        (("graph.npz", "-o", "graph.npz"), "error: Records are appended to a .jsonl file"),
        (("graph.npz", "--report", "graph.npz"), "error: A report is written to an .html file"),
        (("graph.npz", "-o", "none/s.jsonl"), "error: Cannot write none/s.jsonl"),
        (("graph.npz", "-o", "notes.jsonl"), "it has something else in it"),
        (("graph.npz", "--report", "notes.html"), "notes.html exists already"),
        (("graph.npz", "--defense", "rung", "--backbone", "gcn"), "is a model of its own; leave --backbone out"),
    ],
)
def test_what_cannot_be_is_one_line_and_harms_nothing(folder, command, arguments, message):
    for name in ("notes.jsonl", "notes.html"):
        (folder / name).write_text("mine")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    status, out, err = command("stress", *arguments)
    assert (status, out) == (1, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
