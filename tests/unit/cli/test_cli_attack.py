import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from garnet import Perturbation, as_graph, load_graph
from garnet.attacks import DICE, Random
from garnet.attacks.features import FeatureFlip
from garnet.backbones import GCN
from garnet.datasets import contextual_block_model, cora, random_split
from garnet.registry import ATTACKS
from garnet.training.loop import Training, train


@pytest.fixture
def graph():
    bare = contextual_block_model(60, classes=3, features=8, signal=2.0, mean_degree=5, seed=2)
    words = (bare.features > 0.3).astype(np.float32)
    return as_graph(bare, features=words, split=random_split(bare.labels, train=0.3, val=0.2, seed=0))


@pytest.fixture
def file(graph, tmp_path):
    graph.save(tmp_path / "graph.npz")
    return tmp_path / "graph.npz"


def names(folder):
    return {path.name for path in folder.iterdir()}


# --- what it does -----------------------------------------------------------------------------------------------------


def test_a_perturbation_and_an_attacked_graph(command, file, graph, tmp_path):
    status, out, err = command(
        "attack", file, "--attack", "dice", "--budget", "20%", "-o", tmp_path / "poison.npz", "--seed", 3,
        "--graph-output", tmp_path / "poisoned.npz", "--set", "add_share=0.75",
    )  # fmt: skip
    assert status == 0
    made = Perturbation.load(tmp_path / "poison.npz")
    assert made == DICE(add_share=0.75)(graph, budget="20%", seed=3)
    assert load_graph(tmp_path / "poisoned.npz") == made.apply(graph)
    added, dropped = made.added(graph), made.dropped(graph)
    rows = dict(re.findall(r"│ +(\S[^│]*?) +│ +([^│]*?) +│", out.replace("│\n", "│\n ")))
    assert rows["attack"] == "dice"
    assert rows["changes"] == f"{made.num_changes} of {made.num_changes}"
    assert rows["edges added"] == str(added.shape[1])
    assert rows["edges dropped"] == str(dropped.shape[1])
    assert float(rows["seconds"]) >= 0
    assert f"wrote {tmp_path / 'poison.npz'} and {tmp_path / 'poisoned.npz'}" in err


def test_as_json_it_counts_classes_and_training_nodes(command, file, graph, tmp_path):
    status, out, _ = command("attack", file, "-a", "random", "-b", "30", "-o", tmp_path / "p.npz", "--json")
    assert status == 0
    facts, made = json.loads(out), Random()(graph, budget="30")
    first, second = graph.labels[made.edges]
    assert facts["added"] == {
        "all": 30,
        "within": int((first == second).sum()),
        "between": int((first != second).sum()),
        "training": int(np.isin(made.edges, graph.split.train).any(axis=0).sum()),
    }
    assert facts["dropped"]["all"] == 0
    assert facts["entries"]["all"] == 0
    assert (facts["attack"], facts["budget"], facts["seed"], facts["complete"]) == ("random", "30 edges", 0, True)
    assert (facts["changes"], facts["allowed"]) == (30, 30)
    assert (facts["fingerprint"], facts["result"]) == (made.fingerprint, made.result)
    assert facts["parameters"] == {"kind": "add"}
    assert facts["output"] == str(tmp_path / "p.npz")


def test_targets_on_the_line_in_a_file_and_by_name(command, file, graph, tmp_path):
    some = graph.split.test[:3].tolist()
    (tmp_path / "targets.txt").write_text(f"# three of them\n{some[0]}, {some[1]}\n{some[2]}\n")
    named = as_graph(graph, names=np.array([f"node {number}" for number in range(60)]))
    named.save(tmp_path / "named.npz")
    (tmp_path / "names.txt").write_text("".join(f"node {number}\n" for number in some))
    expected = FeatureFlip()(graph, budget="2/target", targets=some)
    for source, targets in (
        (file, ",".join(map(str, some))),
        (file, tmp_path / "targets.txt"),
        (tmp_path / "named.npz", ",".join(f"node {number}" for number in some)),
        (tmp_path / "named.npz", tmp_path / "names.txt"),
    ):
        line = (
            "attack",
            source,
            "-a",
            "feature-flip",
            "-b",
            "2/target",
            "-o",
            tmp_path / "p.npz",
            "--targets",
            targets,
            "--overwrite",
        )
        assert command(*line)[0] == 0
        assert Perturbation.load(tmp_path / "p.npz") == expected


def test_a_plain_number_is_what_the_attack_changes(command, file, tmp_path):
    status, out, _ = command("attack", file, "-a", "feature-flip", "-b", "3", "-o", tmp_path / "p.npz")
    assert status == 0
    assert "features changed" in out
    assert "edges added" not in out
    assert Perturbation.load(tmp_path / "p.npz").budget == "3 entries"


def test_a_victim_a_surrogate_and_other_parameters(command, file, graph, tmp_path):
    victim = train(GCN(hidden=4), graph, seeds=(0,), training=Training(epochs=5))[0]
    victim.save(tmp_path / "model.npz")
    line = ("attack", file, "-a", "feature-flip", "-b", "4", "-o", tmp_path / "p.npz")
    assert command(*line, "--victim", tmp_path / "model.npz", "--set", "direct=true", "--device", "cpu")[0] == 0
    expected = FeatureFlip(direct=True)(graph, budget="4", victim=victim)
    assert Perturbation.load(tmp_path / "p.npz") == expected
    other = ("--surrogate", "gcn", "--set", "at_once=2", "--set", "loss=margin")
    status, _, told = command(*line, *other)
    assert status == 1
    assert "p.npz exists already" in told
    assert Perturbation.load(tmp_path / "p.npz") == expected
    assert command(*line, *other, "--overwrite")[0] == 0
    expected = FeatureFlip(surrogate="gcn", at_once=2, loss="margin")(graph, budget="4")
    assert Perturbation.load(tmp_path / "p.npz") == expected


def test_a_split_of_its_own_goes_with_the_attacked_graph(command, graph, tmp_path):
    as_graph(graph.adjacency, features=graph.features, labels=graph.labels).save(tmp_path / "bare.npz")
    line = ("attack", tmp_path / "bare.npz", "-a", "feature-flip", "-b", "3", "-o", tmp_path / "p.npz")
    status, _, err = command(*line)
    assert status == 1
    assert "--split 0.1,0.1" in err
    drawn = ("--split", "0.3,0.2", "--split-seed", 4, "--graph-output", tmp_path / "poisoned.npz")
    assert command(*line, *drawn)[0] == 0
    assert load_graph(tmp_path / "poisoned.npz").split == random_split(graph.labels, train=0.3, val=0.2, seed=4)


def test_an_edge_list_cannot_hold_everything(command, file, tmp_path):
    line = ("attack", file, "-a", "random", "-b", "3", "-o", tmp_path / "p.npz", "--graph-output", tmp_path / "out.csv")
    status, _, err = command(*line)
    assert status == 0
    assert "out.csv cannot hold features and labels and split" in err


def test_the_list_has_every_name(command):
    status, out, _ = command("attack", "--list")
    assert status == 0
    for name in ATTACKS.names():
        assert re.search(rf"^{name} +(global|local|either) +(edges|entries) ", out, re.MULTILINE)
    status, out, _ = command("attack", "--list", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert list(rows) == list(ATTACKS.names())
    assert rows["feature-flip"]["scope"] == "either"
    assert rows["feature-flip"]["changes"] == "entries"
    assert rows["dice"]["needs"] == ["labels"]
    assert rows["random"]["summary"] == "Flips pairs of nodes at random."
    assert all(row["summary"].endswith(".") for row in rows.values())


# --- what it refuses --------------------------------------------------------------------------------------------------

COMMON = ("-a", "random", "-b", "5", "-o", "p.npz")
WORDS = ("-a", "feature-flip", "-b", "5", "-o", "p.npz")
NODES = "Targets are node numbers, such as 1,2,3, or a file"
REFUSED = [
    ("nothing", (), "An attack needs a graph, a name, a budget and an output"),
    ("no output", ("graph.npz", "-a", "random", "-b", "5"), "An attack needs a graph, a name, a budget and an output"),
    ("no such graph", ("other.npz", *COMMON), "other.npz: there is no such file"),
    ("no such attack", ("graph.npz", "-a", "randm", "-b", "5", "-o", "p.npz"), "Did you mean random?"),
    ("no such parameter", ("graph.npz", *COMMON, "--set", "knd=add"), "named 'knd'. Did you mean kind?"),
    ("no such surrogate", ("graph.npz", *WORDS, "--surrogate", "gnc"), "or the name of one: gcn. Got 'gnc'"),
    ("no surrogate", ("graph.npz", *COMMON, "--surrogate", "gcn"), "no parameter of attack 'random' named 'surrogate'"),
    ("no device", ("graph.npz", *WORDS, "--device", "gpu"), "must be a device that torch has here. Got 'gpu' instead."),
    ("no value", ("graph.npz", *COMMON, "--set", "kind"), "A parameter is set with NAME=VALUE. Got 'kind' instead."),
    ("twice", ("graph.npz", *COMMON, "--set", "kind=add", "--set", "kind=add"), "The parameter 'kind' is given twice."),
    ("bad value", ("graph.npz", *COMMON, "--set", "kind=swap"), "must be one of 'add', 'drop', 'both'. Got 'swap'"),
    ("budget zero", ("graph.npz", "-a", "random", "-b", "0", "-o", "p.npz"), "Got 0 instead"),
    ("budget in words", ("graph.npz", "-a", "random", "-b", "much", "-o", "p.npz"), "Got 'much' instead"),
    ("budget too large", ("graph.npz", "-a", "random", "-b", "9999", "-o", "p.npz"), "only 1770 pairs of nodes"),
    ("targets", ("graph.npz", *COMMON, "--targets", "1,2"), "is on the whole graph and takes no targets"),
    ("bad targets", ("graph.npz", *WORDS, "--targets", "1,x"), NODES),
    ("no such file", ("graph.npz", *WORDS, "--targets", "t.txt"), NODES),
    ("no targets", ("graph.npz", *WORDS, "--targets", ""), "must be node numbers, at least one"),
    ("no such target", ("graph.npz", *WORDS, "--targets", "77"), "The target 77 does not exist: nodes are 0 to 59."),
    ("huge target", ("graph.npz", *WORDS, "--targets", "9" * 30), "Targets must be node numbers"),
    ("no such name", ("named.npz", *WORDS, "--targets", "n1,z"), "The target 'z' does not exist: no node"),
    ("not npz", ("graph.npz", "-a", "random", "-b", "5", "-o", "p.json"), "to an .npz file. Got 'p.json' instead."),
    ("no folder", ("graph.npz", "-a", "random", "-b", "5", "-o", "no/p.npz"), "Cannot write no/p.npz"),
    ("bad graph output", ("graph.npz", *COMMON, "--graph-output", "g.doc"), "must end in .npz"),
    ("itself", ("graph.npz", "-a", "random", "-b", "5", "-o", "graph.npz"), "graph.npz is read by this command"),
    ("itself too", ("graph.npz", *COMMON, "--graph-output", "graph.npz"), "graph.npz is read by this command"),
    ("one file for two", ("graph.npz", *COMMON, "--graph-output", "./p.npz"), "p.npz is written twice by this command"),
    ("no model", ("graph.npz", *COMMON, "--victim", "graph.npz"), "it holds a graph but no model"),
    ("bad split", ("graph.npz", *COMMON, "--split", "half"), "must be two shares, such as 0.1,0.1. Got 'half'."),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "phrase"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_bad_input_is_one_line_a_status_and_no_file(command, graph, tmp_path, monkeypatch, arguments, phrase):
    monkeypatch.chdir(tmp_path)
    graph.save("graph.npz")
    as_graph(graph, names=np.array([f"n{number}" for number in range(60)])).save("named.npz")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    status, out, err = command("attack", *arguments)
    assert status == 1
    assert phrase in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# --- stopping and going on --------------------------------------------------------------------------------------------


def test_resume_begins_anew_if_there_is_nothing_and_goes_on_with_a_larger_budget(command, file, graph, tmp_path):
    line = ("attack", file, "-a", "random", "-o", tmp_path / "p.npz", "--resume")
    assert command(*line, "-b", "5")[0] == 0
    assert Perturbation.load(tmp_path / "p.npz") == Random()(graph, budget="5")
    assert command(*line, "-b", "12")[0] == 0
    assert Perturbation.load(tmp_path / "p.npz") == Random()(graph, budget="12")
    before = (tmp_path / "p.npz").read_bytes()
    for other, phrase in (
        (("-b", "12", "--seed", 1), "had another 'seed', 0. Got 1 instead"),
        (("-b", "12", "--set", "kind=drop"), "had another 'kind', 'add'. Got 'drop' instead"),
    ):
        status, _, err = command(*line, *other)
        assert status == 1
        assert phrase in err
    graph.save(tmp_path / "p2.npz")
    status, _, err = command("attack", file, "-a", "random", "-b", "5", "-o", tmp_path / "p2.npz", "--resume")
    assert status == 1
    assert "an .npz file of another kind" in err
    assert (tmp_path / "p.npz").read_bytes() == before


class Terminal:
    """`garnet` as a process that believes it has a terminal, so that it shows how far it is."""

    def __init__(self, folder, *arguments):
        import pty

        self.screen, end = pty.openpty()
        environment = {**os.environ, "COLUMNS": "100", "TERM": "xterm", "OMP_NUM_THREADS": "1"}
        line = [sys.executable, "-m", "garnet", *map(str, arguments)]
        self.process = subprocess.Popen(line, cwd=folder, stdin=end, stdout=end, stderr=end, env=environment)
        os.close(end)
        self.text = ""

    def read_until(self, pattern, limit=120):
        end = time.monotonic() + limit
        while not re.search(pattern, self.text):
            assert self._more(end - time.monotonic()), self.text

    def finish(self, limit=120):
        end = time.monotonic() + limit
        while self._more(end - time.monotonic()):
            pass
        os.close(self.screen)
        return self.process.wait(limit)

    def _more(self, seconds):
        if seconds <= 0 or not select.select([self.screen], [], [], seconds)[0]:
            return False
        try:
            new = os.read(self.screen, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.text += new.decode(errors="replace")
        return bool(new)


LONG = ("attack", "graph.npz", "-a", "feature-flip", "-b", "120", "--split", "0.1,0.1", "-o", "poison.npz")


@pytest.fixture
def long_attack(tmp_path):
    cora().save(tmp_path / "graph.npz")
    started = []

    def start(*more):
        started.append(Terminal(tmp_path, *LONG, *more))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_ctrl_c_keeps_what_was_done_and_resume_goes_on(long_attack, tmp_path):
    running = long_attack()
    running.read_until(r"entries [1-9]\d*/120")
    running.process.send_signal(signal.SIGINT)
    assert running.finish() == 130
    shown = " ".join(running.text.split())
    assert "stopped: wrote what was done to poison.npz; the same command with --resume goes on" in shown
    assert names(tmp_path) == {"graph.npz", "poison.npz"}
    part = Perturbation.load(tmp_path / "poison.npz")
    assert not part.complete
    assert 0 < len(part.entries) < 120

    assert long_attack("--resume").finish() == 0
    resumed = (tmp_path / "poison.npz").read_bytes()
    assert Perturbation.load(tmp_path / "poison.npz").complete
    assert long_attack().finish() == 0
    assert (tmp_path / "poison.npz").read_bytes() == resumed


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_ctrl_c_before_the_first_change_writes_nothing(long_attack, tmp_path):
    running = long_attack()
    running.read_until("train the surrogate")
    running.process.send_signal(signal.SIGINT)
    assert running.finish() == 130
    shown = " ".join(running.text.split())
    if "nothing was done yet" in shown:
        assert names(tmp_path) == {"graph.npz"}
    else:
        assert Perturbation.load(tmp_path / "poison.npz").num_changes > 0


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.slow
def test_a_second_ctrl_c_aborts_and_leaves_no_half_written_file(long_attack, tmp_path):
    running = long_attack("--set", "at_once=125", "--surrogate", "gprgnn")
    running.read_until("train the surrogate")
    running.process.send_signal(signal.SIGINT)
    running.read_until("stopping after this step")
    running.process.send_signal(signal.SIGINT)
    assert running.finish() in (1, 130)
    assert names(tmp_path) <= {"graph.npz", "poison.npz"}
    if "poison.npz" in names(tmp_path):
        Perturbation.load(tmp_path / "poison.npz")
