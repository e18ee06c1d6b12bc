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
_TABLES = "data/edges.csv --nodes data/accounts.csv --label fraud --rank 8 --k 4"
_TRAIN = "train data/graph.npz --seeds 1 --epochs 2"
_STRESS = "stress data/graph.npz --attacks random --budgets 5% --seeds 1 --epochs 2 --backbone mlp --no-unbounded"


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
        anew: whether the same command again does the same work again.
        long: whether it keeps its directory when it is stopped or fails, to go on from.
    """

    name: str
    words: str
    ending: str
    source: str = "data/graph.npz"
    folder: bool = False
    spare: tuple[str, ...] = ()
    appends: bool = False
    anew: bool = False
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
    Command("purify to Parquet", f"{_PURIFY} -o {{out}}", ".parquet"),
    Command("purify to GEXF", f"{_PURIFY} -o {{out}}", ".gexf"),
    Command("purify to GraphML", f"{_PURIFY} -o {{out}}", ".graphml"),
    Command("purify --ledger", f"{_PURIFY} -o spare.npz --ledger {{out}}", ".csv", spare=("spare.npz",)),
    Command("purify --ledger for Gephi", f"{_PURIFY} -o spare.npz --ledger {{out}}", ".gexf", spare=("spare.npz",)),
    Command("purify --nodes-out", f"{_PURIFY} -o spare.npz --nodes-out {{out}}", ".parquet", spare=("spare.npz",)),
    Command("purify --only-drop", f"purify {_TABLES} --only-drop -o {{out}}", ".csv", source="data/edges.csv"),
    Command("purify --nodes", f"purify {_TABLES} -o {{out}}", ".csv", source="data/accounts.csv"),
    Command("audit", "audit data/graph.npz -o {out}", ".csv"),
    Command("audit to Parquet", "audit data/graph.npz -o {out}", ".parquet"),
    Command("audit --nodes-out", "audit data/graph.npz --nodes-out {out}", ".csv"),
    Command("audit --groups", "audit data/graph.npz --groups {out}", ".csv"),
    Command(
        "audit --confirmed",
        "audit data/graph.npz --confirmed data/true.csv -o {out}",
        ".csv",
        source="data/true.csv",
    ),
    Command("audit --memory", "audit data/graph.npz --memory 1GiB -o {out}", "", folder=True, long=True),
    Command("audit --memory to CSV", "audit data/graph.npz --memory 1GiB -o {out}", ".csv", folder=True, long=True),
    Command("audit --result", "audit data/graph.npz --result {out}", ".npz"),
    Command("audit --report", "audit data/graph.npz --report {out}", ".html"),
    Command("attack", "attack data/graph.npz -a random -b 5 -o {out}", ".npz"),
    Command(
        "attack --graph-output",
        "attack data/graph.npz -a random -b 5 -o spare.npz --graph-output {out}",
        ".npz",
        spare=("spare.npz",),
    ),
    Command("train", f"{_TRAIN} -o {{out}}", ".npz"),
    Command("train --result", f"{_TRAIN} --purify --result {{out}}", ".npz"),
    Command("train --predictions", f"{_TRAIN} --predictions {{out}}", ".csv"),
    Command("train --report", f"{_TRAIN} --report {{out}}", ".html"),
    Command("predict", "predict data/model.npz data/graph.npz -o {out}", ".csv", source="data/model.npz"),
    Command("predict to Parquet", "predict data/model.npz data/graph.npz -o {out}", ".parquet"),
    Command("judge", "judge data/result.npz data/later.csv -o {out}", ".csv", source="data/later.csv"),
    Command("judge to Parquet", "judge data/result.npz data/later.csv -o {out}", ".parquet", source="data/result.npz"),
    Command("stress", f"{_STRESS} -o {{out}}", ".jsonl", appends=True),
    Command("stress --report", f"{_STRESS} --report {{out}}", ".html", anew=True),
    Command("report", "report data/result.npz -o {out}", ".html", source="data/result.npz"),
    Command("bench run", "bench run data/study.toml -o {out}", ".jsonl", source="data/study.toml", appends=True),
    Command(
        "bench check",
        "bench check data/records.jsonl -o {out}",
        ".jsonl",
        source="data/records.jsonl",
        appends=True,
        anew=True,
    ),
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
    """A folder with a graph, tables, a study and results, as the commands above read them."""
    from garnet.datasets import contextual_block_model, random_split
    from garnet.graph.graph import as_graph

    jail = jailer.jail()
    folder = jail.work / "data"
    folder.mkdir()
    graph = contextual_block_model(90, classes=3, mean_degree=8, features=12, seed=0)
    as_graph(graph, split=random_split(graph.labels, train=0.3, val=0.2, seed=0)).save(folder / "graph.npz")
    (folder / "study.toml").write_text(STUDY)
    (folder / "notes.txt").write_text("beside the graph\n")
    u, v = graph.edges
    payments = [f"a{one},a{other},{day}" for day, (one, other) in enumerate(zip(u, v, strict=True))]
    (folder / "edges.csv").write_text("\n".join(["source,target,day", *payments, ""]))
    accounts = [f"a{node},{node % 5 == 0}" for node in range(graph.num_nodes)]
    (folder / "accounts.csv").write_text("\n".join(["id,fraud", *accounts, ""]))
    (folder / "true.csv").write_text(f"source,target\n{u[0]},{v[0]}\n")
    (folder / "later.csv").write_text("source,target\n0,50\n1,new\n")
    for name, output in (("purify --result", "result.npz"), ("train", "model.npz"), ("bench run", "records.jsonl")):
        done = jail.start(*BY_NAME[name](f"data/{output}")).wait()
        assert done.status == 0, done
    return folder


def contents(path):
    """What an output holds, without what differs from run to run, as times do."""
    path = Path(path)
    if path.is_dir():
        return {str(one.relative_to(path)): contents(one) for one in sorted(path.rglob("*")) if one.is_file()}
    if path.suffix == ".jsonl":
        lines = [json.loads(line, object_hook=_untimed) for line in path.read_text().splitlines()]
        for line in lines:
            if "verdict" in line["values"]:  # whose key is made of all that it says, seconds too
                line["key"] = "the verdict"
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


def _untimed(facts):
    return {name: value for name, value in facts.items() if name != "seconds"}


def each(commands=COMMANDS):
    """Commands as parameters of a test; those that are not among the usual are slow."""
    return [pytest.param(one, id=one.name, marks=() if one.name in USUAL else pytest.mark.campaign) for one in commands]


def few(commands=COMMANDS):
    """The same for a table with many rows, where all but a few commands are slow."""
    return [pytest.param(one, id=one.name, marks=() if one.name in FEW else pytest.mark.campaign) for one in commands]


def held(jail, command):
    """What the outputs of a command hold that was told to write to `out`."""
    return [contents(jail.work / path) for path in command.outputs(f"out{command.ending}")]
