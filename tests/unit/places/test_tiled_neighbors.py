"""The search among points in parts: what it promises, in how much memory, and what it says while it lasts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial import cKDTree

from garnet import GARNET, OnDisk
from garnet.datasets import block_model
from garnet.errors import RecallWarning
from garnet.neighbors.search import Cells
from garnet.places import tiled_search
from garnet.places.plan import BASELINE, most_cells
from garnet.places.row_store import RowStore, write
from garnet.progress import Step
from garnet.purify.settings import Shape

N, WIDTH, K = 4000, 12, 8
SETTINGS = GARNET(k=K, seed=1).on(Shape(nodes=N, edges=1))
# Of this rank a dense solver finds the eigenvectors, which is quicker.
METHOD = GARNET(rank=90, k=4, support=0.3)


@pytest.fixture
def inexact(monkeypatch):
    """So that few points are not searched exactly."""
    monkeypatch.setattr(tiled_search, "EXACT_UP_TO", 100)


@pytest.fixture(scope="module")
def points():
    """Dense about the origin and sparse far from it, as the rows of a spectral embedding are."""
    rng = np.random.default_rng(0)
    return (rng.standard_normal((N, WIDTH)) * rng.lognormal(-1, 1, size=(N, 1))).astype("f4")


@pytest.fixture(scope="module")
def truth(points):
    return cKDTree(points).query(points, k=K + 1)[1][:, 1:]


def search(folder, points, *, memory=1 << 30, **options):
    """Pairs of neighbours, the base graph that lists their files, and how many cells there were."""
    store = RowStore(folder, (0, 1500, 1600, N))
    stored = store.new(WIDTH, "points")
    for file, rows in zip(stored.files, np.split(points, store.bounds[1:-1]), strict=True):
        write(file, torch.from_numpy(rows))
    base = tiled_search.tiled_base_graph(store, stored, SETTINGS, memory=memory, search=Cells(**options))
    found = set()
    for (i, j), segments in base.files.items():
        for name, first, count in segments:
            local = np.fromfile(folder / name, np.int32, 2 * count, offset=8 * first).reshape(-1, 2)
            found |= set(map(tuple, (local + np.array([store.bounds[i], store.bounds[j]])).tolist()))
    cells = folder / "cells.npz"
    return found, base, len(np.load(cells)["ranked"]) if cells.exists() else None


def share(found, truth):
    wanted = [(min(u, v), max(u, v)) for u, near in enumerate(truth.tolist()) for v in near]
    return sum(pair in found for pair in wanted) / len(wanted)


@pytest.mark.parametrize("asked", [0.8, 0.95])
def test_the_recall_that_is_expected_is_had(inexact, points, truth, scratch, asked):
    found, base, cells = search(scratch, points, recall=asked)
    assert 1 <= base.probes < cells
    assert base.recall >= asked
    # Three standard errors of a sample of 400; a pair that only one end would have found counts for both.
    assert share(found, truth) > base.recall - 0.03


def test_less_memory_means_fewer_cells_and_a_recall_that_is_still_true(inexact, points, truth, scratch):
    tight = BASELINE + 10 * (BASELINE // most_cells(2 * BASELINE, WIDTH, 256) + 1)
    assert most_cells(tight, WIDTH, 256) == 10
    found, base, cells = search(scratch, points, memory=tight)
    assert 5 <= cells <= 20  # a crowded one counts several times
    assert base.recall >= 0.95
    assert share(found, truth) > base.recall - 0.03


def test_a_recall_that_few_probes_do_not_reach_is_said_and_still_true(inexact, points, truth, scratch):
    with pytest.warns(RecallWarning, match=r"less than recall=0.99"):
        found, base, _ = search(scratch, points, recall=0.99, max_probes=4)
    assert base.probes == 4
    assert 0.3 < base.recall < 0.99
    assert share(found, truth) > base.recall - 0.03


@pytest.mark.parametrize("held", [1, 2000 * WIDTH, 1 << 24])
def test_few_points_are_searched_exactly_and_said_to_be(points, truth, scratch, held, monkeypatch):
    monkeypatch.setattr(tiled_search, "_HELD", held)  # of very wide points a part at a time is
    found, base, cells = search(scratch, points)
    assert base.probes is base.recall is cells is None
    assert share(found, truth) > 0.9999


@pytest.mark.usefixtures("inexact")
def test_a_run_that_goes_on_knows_what_the_search_was_made_with(scratch):
    graph, stopped = block_model(400, mean_degree=8, seed=0), []

    def stop(step):
        if step == Step("prune") and not stopped:
            stopped.append(step)
            raise KeyboardInterrupt

    def purify(name, progress=None):
        return METHOD.purify(graph, place=OnDisk(memory="1GiB", output=scratch / name), progress=progress)

    whole = purify("whole").summary()
    with pytest.raises(KeyboardInterrupt):
        purify("stopped", progress=stop)
    resumed = purify("stopped").summary()
    assert resumed["probes"] == whole["probes"] >= 1
    assert resumed["recall"] == whole["recall"] >= 0.95


@pytest.mark.parametrize("exact", [True, False])
def test_a_part_of_which_nothing_is_known_has_no_neighbours(points, scratch, exact, request, monkeypatch):
    if not exact:
        request.getfixturevalue("inexact")
    monkeypatch.setattr(tiled_search, "_HELD", 1)  # each part on its own
    lonely = points.copy()
    lonely[1600:] = 0
    found, _, _ = search(scratch, lonely)
    assert {node for pair in found for node in pair} == set(range(1600))
    near = cKDTree(lonely[:1600]).query(lonely[:1600], k=K + 1)[1][:, 1:]
    assert share(found, near) > (0.9999 if exact else 0.93)


def test_a_graph_that_needs_no_neighbours_has_no_recall():
    graph = block_model(200, mean_degree=90, seed=0)
    summary = GARNET(rank=8).purify(graph, place=OnDisk(memory="1GiB")).summary()
    assert summary["base_edges"] == 0
    assert summary["probes"] is summary["recall"] is None


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("support", "weighed"), [(0.3, 0), ("auto", 3)])
def test_stages_say_how_many_of_their_tasks_are_done(exact, support, weighed, request):
    if not exact:
        request.getfixturevalue("inexact")
    said = {}

    def listen(step):
        steps = said.setdefault(step.stage, [])
        assert bool(step.detail) == bool(steps)  # what begins a stage has no detail
        steps.append((step.detail, step.done, step.total))

    graph = block_model(300, mean_degree=8, seed=0)
    replace(METHOD, support=support).purify(graph, place=OnDisk(memory="1GiB", parts=3), progress=listen)
    assert list(said) == ["tile", "embed", "neighbours", "prune"]

    def counted(name, total):
        return [(name, done, total) for done in range(total + 1)]

    sort, sample = counted("sort into cells", 3), counted("try a sample", 3)
    searched = counted("search", 3) if exact else [*sort, *sample, *sort, *counted("search", 12)]
    assert said["neighbours"] == [("", 0, 0), *searched]
    assert said["prune"] == [("", 0, 0), *counted("score", 6), *(weighed * counted("weigh", 6)), *counted("write", 3)]


@pytest.mark.usefixtures("inexact")
@pytest.mark.parametrize("spoilt", ["pairs-1.bin", "pairs-1.json"])
def test_pairs_that_are_not_what_a_stopped_run_wrote_are_found_again(scratch, points, spoilt):
    search(scratch, points)
    before = {path.name: path.read_bytes() for path in scratch.glob("pairs-*.bin")}
    file = next(scratch.glob(spoilt))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    search(scratch, points)
    assert {path.name: path.read_bytes() for path in scratch.glob("pairs-*.bin")} == before
