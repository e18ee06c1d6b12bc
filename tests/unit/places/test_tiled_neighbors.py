"""The search among points in parts: what it promises, in how much memory, and what it says while it lasts."""

import numpy as np
import pytest
import torch
from garnet.places.disk import purify_tiled
from garnet.places.neighbors import Effort, neighbor_pairs
from scipy.spatial import cKDTree

from garnet import GARNET
from garnet.datasets import block_model
from garnet.errors import RecallWarning
from garnet.places import neighbors as neighbors_module
from garnet.places.plan import BASELINE, most_cells
from garnet.places.row_store import RowStore, write

N, WIDTH, K = 4000, 12, 8
# Of this rank a dense solver finds the eigenvectors, which is quicker.
PURIFIER = GARNET(memory="1GiB", rank=90, k=4)


@pytest.fixture
def inexact(monkeypatch):
    """So that few points are not searched exactly."""
    monkeypatch.setattr(neighbors_module, "EXACT_UP_TO", 100)


@pytest.fixture(scope="module")
def points():
    """Dense about the origin and sparse far from it, as the rows of a spectral embedding are."""
    rng = np.random.default_rng(0)
    return (rng.standard_normal((N, WIDTH)) * rng.lognormal(-1, 1, size=(N, 1))).astype("f4")


@pytest.fixture(scope="module")
def truth(points):
    return cKDTree(points).query(points, k=K + 1)[1][:, 1:]


def search(folder, points, **options):
    """Recall of the search, the effort that it noted, and its cells."""
    parts = RowStore(folder, (0, 1500, 1600, N))
    stored = parts.new(WIDTH, "points")
    for file, rows in zip(stored.files, np.split(points, parts.bounds[1:-1]), strict=True):
        write(file, torch.from_numpy(rows))
    found = set()
    for (i, j), files in neighbor_pairs(parts, stored, K, seed=1, **options).items():
        for file in files:
            local = np.fromfile(file, np.int32).reshape(-1, 2) + np.array([parts.bounds[i], parts.bounds[j]])
            found |= set(map(tuple, local.tolist()))
    return found, Effort.noted(folder), len(np.load(folder / "quantizer.npz")["centres"])


def share(found, truth):
    wanted = [(min(u, v), max(u, v)) for u, near in enumerate(truth.tolist()) for v in near]
    return sum(pair in found for pair in wanted) / len(wanted)


@pytest.mark.parametrize("asked", [0.8, 0.95])
def test_the_recall_that_is_expected_is_had(inexact, points, truth, scratch, asked):
    found, effort, cells = search(scratch, points, recall=asked)
    assert 1 <= effort.probes < cells
    assert effort.recall >= asked
    # Three standard errors of a sample of 400; a pair that only one end would have found counts for both.
    assert share(found, truth) > effort.recall - 0.03


def test_less_memory_means_fewer_cells_and_a_recall_that_is_still_true(inexact, points, truth, scratch):
    tight = BASELINE + 20 * (BASELINE // most_cells(2 * BASELINE, WIDTH, 256) + 1)
    assert most_cells(tight, WIDTH, 256) == 20
    # Nearly all points are in few of so few cells, and of a crowded one not all are compared.
    with pytest.warns(RecallWarning, match=r"less than the 0.95 it was asked for"):
        found, effort, cells = search(scratch, points, memory=tight)
    assert 10 <= cells <= 40
    assert 0.5 < effort.recall < 0.95
    assert share(found, truth) > effort.recall - 0.03


def test_few_points_are_searched_exactly_and_said_to_be(points, truth, scratch):
    found, effort, cells = search(scratch, points)
    assert effort == Effort(probes=cells, recall=1.0)
    assert share(found, truth) > 0.9999


@pytest.mark.usefixtures("inexact")
def test_a_run_that_goes_on_knows_what_the_search_was_made_with(scratch):
    graph, stopped = block_model(400, mean_degree=8, seed=0), []

    def stop(stage):
        if stage == "prune" and not stopped:
            stopped.append(stage)
            raise KeyboardInterrupt

    whole = purify_tiled(PURIFIER, graph, scratch / "whole").summary()
    with pytest.raises(KeyboardInterrupt):
        purify_tiled(PURIFIER, graph, scratch / "stopped", progress=stop)
    resumed = purify_tiled(PURIFIER, graph, scratch / "stopped").summary()
    assert resumed["probes"] == whole["probes"] >= 1
    assert resumed["recall"] == whole["recall"] >= 0.95


def test_a_graph_that_needs_no_neighbours_has_no_recall():
    summary = GARNET(memory="1GiB", rank=8).purify(block_model(200, mean_degree=90, seed=0)).summary()
    assert summary["base_edges"] == 0
    assert summary["probes"] is summary["recall"] is None


class Listener:
    def __init__(self):
        self.said = []

    def __call__(self, stage):
        self.said.append((stage, []))

    def step(self, name, done, total):
        self.said[-1][1].append((name, done, total))


def test_stages_say_how_many_of_their_tasks_are_done(scratch):
    listener = Listener()
    purify_tiled(PURIFIER, block_model(300, mean_degree=8, seed=0), scratch / "out", parts=3, progress=listener)
    said = dict(listener.said)
    assert list(said) == ["tile", "embed", "neighbours", "prune"]

    def counted(name, total):
        return [(name, done, total) for done in range(total + 1)]

    assert said["neighbours"] == counted("sort into cells", 3) + counted("search", 12)
    assert said["prune"] == counted("score", 6) + counted("write", 3)


@pytest.mark.usefixtures("inexact")
@pytest.mark.parametrize("spoilt", ["pairs-1-*.bin", "pairs-1.json"])
def test_pairs_that_are_not_what_a_stopped_run_wrote_are_found_again(scratch, points, spoilt):
    search(scratch, points)
    before = {path.name: path.read_bytes() for path in scratch.glob("pairs-*.bin")}
    file = next(scratch.glob(spoilt))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    search(scratch, points)
    assert {path.name: path.read_bytes() for path in scratch.glob("pairs-*.bin")} == before
