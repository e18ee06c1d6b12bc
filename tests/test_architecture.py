"""The page on architecture says which functions a call passes: each of them is called, and in that order."""

import re
import shlex
import sys
from pathlib import Path

import pytest

import garnet
from garnet import GARNET
from garnet.datasets import contextual_block_model, random_split
from garnet.graph.graph import as_graph

PACKAGE = Path(garnet.__file__).parent
PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
SECTION = re.compile(r"^### `(?P<call>[^`]+)`\n(?P<hops>.*?)(?=^###? |\Z)", re.M | re.S)
HOP = re.compile(r"^1\. `(?P<file>[\w/]+\.py):(?P<function>[\w.]+)`: ", re.M)
CALLS = {found["call"]: HOP.findall(found["hops"]) for found in SECTION.finditer(PAGE.read_text())}
STUDY = """
title = "A study"
seeds = 1

[[cells]]
graph = "cora"
split = "random"
defense = "garnet"
backbone = "gcn"
parameters = {rank = 10, k = 5}
training = {epochs = 2}
"""


@pytest.fixture
def graph(tmp_path):
    made = contextual_block_model(120, classes=3, mean_degree=6, features=16, signal=3.0, seed=0)
    made = as_graph(made, split=random_split(made.labels, train=0.2, val=0.2, seed=0))
    made.save(tmp_path / "graph.npz")
    (tmp_path / "study.toml").write_text(STUDY)
    return made


@pytest.fixture
def entered():
    """The functions of the library that are entered from now on, in the order of their first calls."""
    found = {}

    def watch(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            found.setdefault((file, code.co_qualname), len(found))

    before = sys.getprofile()
    sys.setprofile(watch)
    yield found
    sys.setprofile(before)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_passes_the_functions_of_the_page(call, graph, command, entered, tmp_path, monkeypatch):
    hops = CALLS[call]
    assert len(hops) > 10
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GARNET_DATA", raising=False)
    if call.startswith("garnet "):
        status, out, err = command(*shlex.split(call)[1:])
        assert status == 0, out + err
    else:
        data = graph.to_pyg()
        entered.clear()
        eval(call, {"GARNET": GARNET, "data": data})
    assert not [hop for hop in hops if hop not in entered]
    assert sorted(hops, key=entered.get) == hops


def test_no_hop_is_overlooked():
    assert len(re.findall(r"^1\. ", PAGE.read_text(), re.M)) == sum(map(len, CALLS.values()))
    assert {call.split()[1] for call in CALLS if call.startswith("garnet ")} == {"purify", "attack", "bench", "audit"}
