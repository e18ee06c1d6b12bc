"""Every command that writes, with inputs small enough to run it a hundred times."""

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

STUDY = """
title = "A small study"
seeds = 1
[[cells]]
graph = "cora"
defense = "none"
backbone = ["mlp", "gcn"]
[cells.training]
epochs = 2
"""
_TIMED = {"result.npy", "audit.npy", "model.npy"}  # parts of an archive that say how long things took
_PURIFY = "purify data/graph.npz --rank 8 --k 4"


@dataclass(frozen=True)
class Command:
    """A command with a place for an output.

    Args:
        name: as the tables of the campaign call it.
        words: the command line, with `{out}` where the output goes.
        ending: of the output's name.
        source: the input, relative to the working directory.
        folder: whether the output is a folder.
        spare: other outputs that it writes.
        appends: whether it adds to an output that is there, as records do.
        long: whether it keeps its directory when it is stopped or fails, to go on from.
    """

    name: str
    words: str
    ending: str
    source: str = "data/graph.npz"
    folder: bool = False
    spare: tuple[str, ...] = ()
    appends: bool = False
    long: bool = False

    def __str__(self):
        return self.name

    def __call__(self, output, *more):
        """The arguments that write to `output`."""
        return [*(str(output) if word == "{out}" else word for word in self.words.split()), *more]

    def outputs(self, output):
        return [output, *self.spare]


COMMANDS = [
    Command("purify", f"{_PURIFY} -o {{out}}", ".npz"),
    Command("purify to a list", f"{_PURIFY} -o {{out}}", ".csv"),
    Command("purify --result", f"{_PURIFY} -o spare.npz --result {{out}}", ".npz", spare=("spare.npz",)),
    Command("purify --memory", f"{_PURIFY} --memory 1GiB -o {{out}}", ".npz", long=True),
    Command("purify to tiles", f"{_PURIFY} --memory 1GiB -o {{out}}", "", folder=True, long=True),
    Command("purify to a table", f"{_PURIFY} --memory 1GiB -o {{out}}", ".parquet", folder=True, long=True),
    Command("audit", "audit data/graph.npz -o {out}", ".csv"),
    Command("audit to Parquet", "audit data/graph.npz -o {out}", ".parquet"),
    Command("audit --nodes-out", "audit data/graph.npz --nodes-out {out}", ".csv"),
    Command("audit --result", "audit data/graph.npz --result {out}", ".npz"),
    Command("audit --report", "audit data/graph.npz --report {out}", ".html"),
    Command("attack", "attack data/graph.npz -a random -b 5 -o {out}", ".npz"),
    Command(
        "attack --graph-output",
        "attack data/graph.npz -a random -b 5 -o spare.npz --graph-output {out}",
        ".npz",
        spare=("spare.npz",),
    ),
    Command("train", "train data/graph.npz --seeds 1 --epochs 2 -o {out}", ".npz"),
    Command("train --result", "train data/graph.npz --seeds 1 --epochs 2 --purify --result {out}", ".npz"),
    Command("report", "report data/result.npz -o {out}", ".html", source="data/result.npz"),
    Command("bench run", "bench run data/study.toml -o {out}", ".jsonl", source="data/study.toml", appends=True),
]
BY_NAME = {command.name: command for command in COMMANDS}
# The rest share their code, and are tried in the slow half of the campaign.
USUAL = [
    "purify",
    "purify --memory",
    "purify to tiles",
    "purify to a table",
    "audit",
    "attack",
    "train",
    "report",
    "bench run",
]
FEW = ["purify", "purify to tiles", "bench run"]
FILES = [command for command in COMMANDS if not command.folder]
FOLDERS = [command for command in COMMANDS if command.folder]


def make_inputs(jailer):
    """A folder with a graph, a result and a study, as the commands above read them."""
    from garnet.datasets import contextual_block_model, random_split
    from garnet.graph.graph import as_graph

    jail = jailer.jail()
    folder = jail.work / "data"
    folder.mkdir()
    graph = contextual_block_model(90, classes=3, mean_degree=8, features=12, seed=0)
    as_graph(graph, split=random_split(graph.labels, train=0.3, val=0.2, seed=0)).save(folder / "graph.npz")
    (folder / "study.toml").write_text(STUDY)
    (folder / "notes.txt").write_text("beside the graph\n")
    done = jail.start(*BY_NAME["purify --result"]("data/result.npz")).wait()
    assert done.status == 0, done
    return folder


def contents(path):
    """What an output holds, without what differs from run to run, as times do."""
    path = Path(path)
    if path.is_dir():
        return {str(one.relative_to(path)): contents(one) for one in sorted(path.rglob("*")) if one.is_file()}
    if path.suffix == ".jsonl":
        lines = (json.loads(line) for line in path.read_text().splitlines())
        # Two runs at once may each measure a cell; the same record twice is the same result.
        return sorted({json.dumps({name: line[name] for name in ("key", "status", "values")}) for line in lines})
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist() if name not in _TIMED}
    if path.suffix == ".html":
        # Charts of seconds differ in more than their numbers.
        text = re.sub(rb"<figure>.*?</figure>|<!-- garnet run .*?-->", b"", path.read_bytes(), flags=re.DOTALL)
        return re.sub(rb"[0-9a-f]{16,}|\d+(\.\d+)?", b"", text)
    return path.read_bytes()


def each(commands=COMMANDS):
    """Commands as parameters of a test; those that are not among the usual are slow."""
    return [pytest.param(one, id=one.name, marks=() if one.name in USUAL else pytest.mark.campaign) for one in commands]


def few(commands=COMMANDS):
    """The same for a table with many rows, where all but a few commands are slow."""
    return [pytest.param(one, id=one.name, marks=() if one.name in FEW else pytest.mark.campaign) for one in commands]


def held(jail, command):
    """What the outputs of a command hold that was told to write to `out`."""
    return [contents(jail.work / path) for path in command.outputs(f"out{command.ending}")]
