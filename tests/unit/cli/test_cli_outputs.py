"""What commands do to files that are there already: the user's own, and those of earlier runs."""

import json
import os
import signal
import subprocess
import sys

import pytest

from garnet import GARNET, load_graph
from garnet.datasets import block_model, random_split
from garnet.graph.graph import as_graph
from garnet.io.scratch import Scratch

pytest.importorskip("fcntl", reason="locks of POSIX")
ATTACK = ("attack", "graph.npz", "-a", "dice", "-b", "5%")
COMMANDS = {
    "purify": ("purify", "graph.npz", "-o", "out.npz", "--result", "result.npz", "--rank", 8, "--k", 4),
    "purify to text": ("purify", "graph.npz", "-o", "out.csv", "--rank", 8, "--k", 4),
    "audit": ("audit", "graph.npz", "-o", "a.csv", "--nodes-out", "n.csv", "--result", "r.npz", "--report", "r.html"),
    "attack": (*ATTACK, "-o", "p.npz", "--graph-output", "g.csv"),
    "train": ("train", "graph.npz", "-o", "model.npz", "--backbone", "gcn", "--seeds", 2, "--epochs", 5),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with a graph in it."""
    graph = block_model(90, mean_degree=8, seed=0)
    features = graph.adjacency.toarray()[:, :12]
    split = random_split(graph.labels, train=0.3, val=0.2, seed=0)
    as_graph(graph, features=features, split=split).save(tmp_path / "graph.npz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_command_again_has_nothing_to_do(command, here, name):
    assert command(*COMMANDS[name])[0] == 0
    before = contents(here)
    assert {path.name for path in here.iterdir()} > {"graph.npz"}
    status, out, said = command(*COMMANDS[name])
    assert (status, out) == (0, "")
    assert said.startswith("done already: ")
    assert contents(here) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_another_command_does_not_replace_what_is_there_unless_told(command, here, name):
    assert command(*COMMANDS[name])[0] == 0
    before = contents(here)
    change = {"train": ("--split-seed", 1), "purify to text": ("--support", 0.3)}.get(name, ("--seed", 1))
    other = (*COMMANDS[name], *change)
    status, out, said = command(*other)
    assert (status, out) == (1, "")
    assert "exists already" in said
    assert contents(here) == before
    assert command(*other, "--overwrite")[0] == 0
    assert contents(here).keys() == before.keys()
    assert contents(here) != before


def test_a_file_that_the_user_changed_is_no_longer_the_commands(command, here):
    line = COMMANDS["purify to text"]
    assert command(*line)[0] == 0
    (here / "out.csv").write_text("my own notes\n")
    status, _, said = command(*line)
    assert (status, "exists already" in said) == (1, True)
    assert (here / "out.csv").read_text() == "my own notes\n"


def test_an_input_that_has_changed_is_another_run(command, here):
    line = COMMANDS["purify"]
    assert command(*line)[0] == 0
    block_model(80, mean_degree=8, seed=1).save("graph.npz")
    assert command(*line)[0] == 1
    assert command(*line, "--overwrite")[0] == 0
    assert load_graph("out.npz").num_nodes == 80


def test_of_several_outputs_those_that_are_missing_are_made(command, here):
    line = COMMANDS["audit"]
    assert command(*line)[0] == 0
    before = contents(here)
    (here / "n.csv").unlink()
    status, out, _ = command(*line)
    assert status == 0
    assert out
    assert contents(here)["n.csv"] == before["n.csv"]


@pytest.mark.parametrize("how", ["name", "link", "hard link"])
@pytest.mark.parametrize("memory", [(), ("--memory", "1GiB")])
def test_an_output_that_is_the_input_is_refused_until_told(command, here, how, memory):
    name = "graph.npz" if how == "name" else "other.npz"
    if how == "link":
        (here / name).symlink_to("graph.npz")
    elif how == "hard link":
        os.link("graph.npz", name)
    before = contents(here)
    line = ("purify", "graph.npz", "-o", name, "--rank", 8, "--k", 4, *memory)
    status, _, said = command(*line)
    assert (status, "is read by this command" in said) == (1, True)
    assert contents(here) == before
    assert command(*line, "--overwrite")[0] == 0
    assert contents(here)[name] != before[name]
    assert (here / name).is_symlink() == (how == "link")


def test_an_attack_that_was_stopped_goes_on_only_when_told(command, here):
    assert command(*ATTACK, "-o", "p.npz")[0] == 0
    (here / "mine.npz").write_bytes(b"mine")
    assert command(*ATTACK, "-o", "mine.npz", "--resume")[0] == 1
    assert (here / "mine.npz").read_bytes() == b"mine"


def test_the_report_of_a_result_is_replaced_only_when_told(command, here):
    assert command(*COMMANDS["purify"])[0] == 0
    line = ("report", "result.npz", "-o", "page.html")
    assert command(*line)[0] == 0
    before = (here / "page.html").read_bytes()
    assert "done already" in command(*line)[2]
    assert command(*line, "--title", "Other")[0] == 1
    assert (here / "page.html").read_bytes() == before
    assert command(*line, "--title", "Other", "--overwrite")[0] == 0
    assert (here / "page.html").read_bytes() != before


def test_while_a_run_is_at_work_the_same_command_waits_for_nobody(command, here):
    with Scratch.claim(here / "out.npz"):
        status, _, said = command(*COMMANDS["purify"])
        assert (status, "Another run is writing" in said) == (1, True)
    assert command(*COMMANDS["purify"])[0] == 0


CHILD = """
import os, signal, sys
from pathlib import Path
from garnet.io.atomic import atomic_path
with atomic_path(sys.argv[1]) as unfinished:
    unfinished.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path):
    done = subprocess.run([sys.executable, "-c", CHILD, path], check=False)
    assert done.returncode == -signal.SIGKILL


def test_what_a_killed_run_left_is_shown_and_removed_when_told(command, here):
    (here / ".garnet-0123456789abcdef").mkdir()
    (here / ".garnet-0123456789abcdef" / "thesis.txt").write_text("mine")
    killed(here / "out.npz")
    with Scratch.make(here, output=here / "busy.npz", key={"a": 1}) as busy:
        status, out, said = command("clean", here)
        assert status == 0
        assert out.count(".garnet-") == 2
        assert ("dead" in out, "at work" in out) == (True, True)
        assert "nothing was removed" in said
        assert command("clean", here, "--yes")[0] == 0
        assert busy.folder.is_dir()
    left = {path.name for path in here.iterdir()}
    assert left == {"graph.npz", ".garnet-0123456789abcdef"}
    assert (here / ".garnet-0123456789abcdef" / "thesis.txt").read_text() == "mine"
    assert "nothing is left" in command("clean")[2]
    assert command("clean", here / "nowhere")[0] == 1


def test_what_a_killed_run_left_goes_with_the_next_run_for_that_output(command, here):
    killed(here / "out.npz")
    assert len(list(here.glob(".garnet-*"))) == 1
    assert command(*COMMANDS["purify"])[0] == 0
    assert set(contents(here)) == {"graph.npz", "out.npz", "result.npz"}


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_done_already_is_told_in_json_too(command, here, as_json):
    line = ("attack", "graph.npz", "-a", "dice", "-b", "5%", "-o", "p.npz")
    assert command(*line)[0] == 0
    status, out, _ = command(*line, *as_json)
    assert status == 0
    assert not as_json or json.loads(out) == {"done_already": ["p.npz"]}


def test_the_demo_replaces_its_own_page_and_no_other(command, here):
    (here / "garnet-demo.html").write_text("mine")
    status, _, said = command("demo")
    assert (status, "exists already" in said) == (1, True)
    assert (here / "garnet-demo.html").read_text() == "mine"


def test_the_format_and_the_name_of_the_input_belong_to_the_run(command, here):
    assert command("purify", "graph.npz", "-o", "a.csv", "--rank", 8, "--k", 4)[0] == 0
    (here / "a.csv").rename("a.mtx")
    assert command("purify", "graph.npz", "-o", "a.mtx", "--rank", 8, "--k", 4)[0] == 1
    assert command("audit", "graph.npz", "--report", "r.html")[0] == 0
    (here / "graph.npz").rename("other.npz")
    assert command("audit", "other.npz", "--report", "r.html")[0] == 1


def test_a_file_that_changes_while_the_command_works_is_not_replaced(command, here, monkeypatch):
    line = COMMANDS["purify"]
    assert command(*line)[0] == 0
    (here / "result.npz").unlink()

    def meanwhile(*arguments, **options):
        (here / "out.npz").write_bytes(b"mine")
        return purify(*arguments, **options)

    purify = GARNET.purify
    monkeypatch.setattr(GARNET, "purify", meanwhile)
    status, _, said = command(*line)
    assert (status, "has appeared meanwhile" in said) == (1, True)
    assert (here / "out.npz").read_bytes() == b"mine"
