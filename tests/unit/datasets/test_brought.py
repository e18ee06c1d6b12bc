"""Graphs that other packages bring."""

import sys

import pytest

from garnet.datasets import load, names, poisoned
from garnet.errors import GraphError, ParameterError

CODE = """
import numpy as np
import scipy.sparse as sp

from garnet.graph import Split, as_graph

def ring(n=12):
    ring = sp.eye_array(n, k=1) + sp.eye_array(n, k=-1)
    return as_graph(ring, labels=np.arange(n) % 2, split=Split([0, 1], [2, 3], np.arange(4, n)))

def directed():
    return sp.eye_array(4, k=1).tocsr()
"""
POINTS = "[garnet.datasets]\nring = stranger:ring\ndirected = stranger:directed\ncora = stranger:ring\n"


@pytest.fixture(autouse=True)
def stranger(tmp_path, monkeypatch):
    """An installed package that brings graphs."""
    (tmp_path / "stranger.py").write_text(CODE)
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("stranger", None)


def test_a_graph_comes_by_its_name_with_its_own_split():
    assert names().index("cora") < names().index("ring")
    graph = load("Ring")
    assert (graph.num_nodes, graph.num_edges) == (12, 11)
    assert graph.split.train.tolist() == [0, 1]


def test_a_random_split_may_be_asked_for_and_no_other():
    graph = load("ring", split="random-0.5-0.25", seed=1)
    assert (len(graph.split.train), len(graph.split.val), len(graph.split.test)) == (6, 4, 2)
    with pytest.raises(ParameterError, match="ring"):
        load("ring", split="geom-gcn")


def test_the_library_s_own_names_are_its_own():
    assert names().count("cora") == 1
    assert load("cora").num_nodes == 2485


def test_what_is_no_graph_is_refused_as_anywhere():
    with pytest.raises(GraphError):
        load("directed")
    with pytest.raises(ParameterError, match="ring"):
        poisoned("ring", attack="metattack", budget=0.2)


def test_commands_know_it(command, tmp_path):
    status, out, err = command("purify", "ring", "-o", tmp_path / "clean.npz")
    assert status == 0, out + err
    assert (tmp_path / "clean.npz").exists()
