"""Whole filters, of columns or by workers that share the rows: the same as products tile by tile."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import GARNET, OnCluster, OnDisk, as_graph
from garnet.datasets import block_model, nested_block_model
from garnet.places import held_matrix
from garnet.places.build import build_tiles
from garnet.places.cluster import ClusterRun
from garnet.places.held_matrix import HeldMatrix, held, held_bytes, release
from garnet.places.plan import BASELINE, BLOCK, MOST_COLUMNS, Cut
from garnet.places.row_store import RowStore, whole
from garnet.places.tiled_operator import TiledSpace
from garnet.spectral import Chebyshev
from garnet.spectral.block_space import Polynomial, by_products

N = 1500
MEMORY = 1 << 30
METHOD = GARNET(rank=6, k=4)
SOLVER = Chebyshev(tol=1e-3, block=20)  # more columns than a task takes
POLYNOMIAL = Polynomial(0.2, 0.7, 5)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def drawn(*, weighted=False):
    graph = nested_block_model(N, mean_degree=9, seed=2)
    if not weighted:
        return as_graph(graph.adjacency)
    upper = sp.triu(graph.adjacency, 1).tocoo()
    upper.data = np.random.default_rng(0).random(upper.nnz, dtype=np.float32) + 0.5
    return as_graph(sp.csr_array(upper + upper.T))


@pytest.fixture
def spaces(scratch):
    """Makes the space of a graph in parts, in which a task takes so many columns."""

    def make(graph, parts, columns):
        folder = scratch / f"{parts}-{columns}"
        folder.mkdir()
        tiles = build_tiles(graph, folder / "tiles", memory=MEMORY, parts=parts)
        store = RowStore(folder, tiles.bounds)
        counts = [torch.from_numpy(tiles.counts(i))[:, None] for i in range(parts)]
        ones = store.new(1)
        for file, count in zip(ones.files, counts, strict=True):
            file.write_bytes(((1.0 + count).rsqrt() * (count > 3)).float().numpy().tobytes())
        return TiledSpace(tiles, store, ones, 5, columns=columns)

    yield make
    release()


@pytest.mark.parametrize("weighted", [False, True])
def test_all_ways_give_the_same_bits(spaces, weighted):
    graph, expected = drawn(weighted=weighted), None
    for parts, columns in ((1, 0), (1, 16), (4, 0), (4, 3), (5, 1)):
        space = spaces(graph, parts, columns)
        block = space.random(7)
        product, filtered = space.product(block), space.filtered(block, POLYNOMIAL)
        shifted = space.product(block, slope=0.5, shift=0.25, minus=product)
        found = [whole(one) for one in (block, product, filtered, shifted)]
        found += [space.moments(block, POLYNOMIAL), torch.tensor(space.scale)]
        assert space.products == 7 + 5 * 7 + 7 + 5 * 7
        expected = expected or found
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.equal(ours, theirs)


def test_a_filter_is_the_polynomial_of_the_matrix_in_columns_of_about_unit_length(spaces):
    space = spaces(drawn(), 3, 16)
    block = space.random(4)
    plain, found = whole(by_products(space, block, POLYNOMIAL)), space.filtered(block, POLYNOMIAL)
    factors = whole(found)[0] / plain[0]
    assert torch.equal(whole(found), plain * factors)
    assert torch.equal(factors.log2().round(), factors.log2())
    lengths = whole(found).norm(dim=0)
    assert lengths.min() > 0.7
    assert lengths.max() < 1.5
    assert space.unit(found) is found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parts", [1, 6])
def test_the_matrix_that_is_held_is_the_adjacency(scratch, weighted, parts, monkeypatch):
    monkeypatch.setattr(held_matrix, "_AT_ONCE", 100)
    graph = drawn(weighted=weighted)
    tiles = build_tiles(graph, scratch / "tiles", memory=MEMORY, parts=parts)
    matrix = HeldMatrix.of(tiles)
    weights = np.ones(len(matrix.columns), np.float32) if matrix.weights is None else matrix.weights.numpy()
    found = sp.csr_array((weights, matrix.columns.numpy(), matrix.starts.numpy()), shape=(N, N))
    assert found.has_sorted_indices
    assert abs(found - graph.adjacency).sum() == 0
    sizes = [one.nbytes for one in (matrix.starts, matrix.columns)] + ([weights.nbytes] if weighted else [])
    assert sum(sizes) < held_bytes(tiles) < sum(sizes) + (4 << 20) * 10 + tiles.sizes["tile-0-0.bin"] + 8 * N


def test_a_process_holds_the_matrix_of_one_graph_at_a_time_and_none_in_the_end(scratch):
    first, second = (
        build_tiles(block_model(200, seed=seed), scratch / f"tiles-{seed}", memory=MEMORY, parts=2) for seed in (0, 1)
    )
    assert held(first) is held(first)
    other = held(second)
    assert held(second) is other
    assert len(held_matrix._held) == 1
    METHOD.purify(drawn(), place=OnDisk(memory="2GB", solver=SOLVER))
    assert not held_matrix._held


def test_a_task_takes_columns_where_its_process_has_room_for_the_matrix_and_for_them():
    cut = Cut(memory=8 << 30, width=50, k=15, at_once=1)
    assert cut.columns(1_000_000, 8, 1 << 30) == MOST_COLUMNS
    assert cut.columns(1_000_000, 8, 8 << 30) == 0
    few = [cut.columns(20_000_000, 64, matrix) for matrix in (1 << 30, 4 << 30, 6 << 30)]
    assert few == sorted(few, reverse=True)
    assert MOST_COLUMNS > few[0] > few[1] > 0
    several = Cut(memory=8 << 30, width=50, k=15, at_once=4).columns(20_000_000, 64, 1 << 30)
    assert 4 * several <= few[0]
    # All that is held at the same time: the matrix, five copies of each column, and what Python takes.
    assert BASELINE + (4 << 30) + 5 * 4 * 20_000_000 * few[1] < 8 << 30


def test_tasks_that_share_the_rows_take_more_columns_the_more_they_are():
    cut = Cut(memory=8 << 30, width=50, k=15, at_once=1)
    assert cut.columns(1_000_000, 8, 1 << 30, threads=8) == BLOCK
    few = [cut.columns(50_000_000, 64, 16 << 30, threads=threads) for threads in (4, 16, 64)]
    assert 0 < few[0] < few[1] < few[2] < BLOCK
    assert cut.columns(50_000_000, 64, 16 << 30) == 0


# --- on clusters -----------------------------------------------------------------------------------------------------

distributed = pytest.importorskip("distributed")


@pytest.fixture
def strips(monkeypatch):
    """So that no process may hold the adjacency."""
    monkeypatch.setattr(Cut, "columns", lambda *_, **__: 0)


@pytest.fixture
def processes():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def purified(workers, **options):
    """What so many workers find, in as many parts."""
    local = {"n_workers": workers, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**local) as cluster, distributed.Client(cluster) as client:
        return METHOD.purify(drawn(), place=OnCluster(cluster=client, memory="2GB", **options))


def require_same(found, expected):
    assert np.array_equal(found.graph.edges, expected.graph.edges)
    assert np.array_equal(found.graph.adjacency.data, expected.graph.adjacency.data)
    assert torch.equal(found.spectrum.values, expected.spectrum.values)
    assert found.spectrum.products == expected.spectrum.products
    assert found.threshold == expected.threshold


@pytest.fixture(scope="module")
def alone():
    torch.set_num_threads(1)
    return METHOD.purify(drawn(), place=OnDisk(memory="2GB", solver=SOLVER))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_finds_the_same_edges(workers, alone):
    found = purified(workers, solver=SOLVER)
    assert found.parts == workers
    require_same(found, alone)


@pytest.mark.parametrize(("workers", "parts"), [(1, 4), pytest.param(2, 5, marks=pytest.mark.slow)])
def test_workers_that_have_several_parts_find_the_same_edges(workers, parts, alone):
    found = purified(workers, solver=SOLVER, parts=parts)
    assert found.parts == parts
    require_same(found, alone)


def test_workers_that_may_hold_few_columns_find_the_same_edges(alone, monkeypatch):
    monkeypatch.setattr(Cut, "columns", lambda *_, **__: 7)
    require_same(purified(2, solver=SOLVER), alone)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.usefixtures("strips")
def test_workers_that_may_not_hold_the_adjacency_find_the_same_edges(workers, alone):
    require_same(purified(workers, solver=SOLVER), alone)


def test_the_usual_solver_has_wide_blocks_that_do_not_depend_on_the_workers():
    place = OnCluster(cluster="tcp://127.0.0.1:9")
    widths = [place.usual_solver(100_000, rank).width(rank) for rank in (4, 16, 17, 50, 128, 500)]
    assert widths == [16, 16, 32, 64, 64, 64]
    assert place.usual_solver(100_000, 8) == OnDisk(memory="1GiB").usual_solver(100_000, 8) == Chebyshev()
    assert place.usual_solver(1_000, 8).tol == 1e-5


def test_workers_forget_the_adjacency_when_the_embedding_is_done(processes, tmp_path):
    held_by = []

    def look(step):
        if step.stage == "neighbours" and not held_by:
            held_by.extend(processes.run(_held_graphs).values())

    place = OnCluster(cluster=processes, memory="2GB", output=tmp_path / "out", solver=SOLVER)
    METHOD.purify(drawn(), place=place, progress=look)
    assert held_by == [0, 0]


def _held_graphs():
    return len(held_matrix._held)


@dataclass(frozen=True, kw_only=True)
class Deadly(OnCluster):
    """A cluster in which the worker that has the first task of a kind dies of it."""

    deadly: str
    step: int | None = None
    died: list = field(default_factory=list)
    folder: Path

    def run(self):
        return DeadlyRun(self.cluster, self)


class DeadlyRun(ClusterRun):
    def __init__(self, client, place):
        super().__init__(client)
        self.place = place

    def __call__(self, work, tasks, **options):
        if work.__name__ != self.place.deadly or self.place.died:
            return super().__call__(work, tasks, **options)
        self.place.died.append(work.__name__)
        told = str(self.place.folder / "flag"), self.place.step, work
        return super().__call__(_once_deadly, [(*told, *task) for task in tasks], **options)


def _once_deadly(flag, step, work, *task):
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return work(*task)
    if step is not None:
        threading.Thread(target=_dies_at, args=(step, *task), daemon=True).start()
    work(*task)  # what it wrote is there, and will be written again
    return os.kill(os.getpid(), signal.SIGKILL)


def _dies_at(step, gang, hand):
    """End this process once a part of a gang has taken so many steps."""
    folder = gang[0] if isinstance(gang, tuple) else gang.folder
    while not (folder / f"{step}-{hand[0]}").exists():
        time.sleep(1e-4)
    os.kill(os.getpid(), signal.SIGKILL)


DEADLY = ["_alone", "_remainder", "_mixed", "_dot", "times", "_plant_strip"]
DEADLY += ["_search_part", "_seen", "score_tile", "revise_tile", "gather_strip"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["take_part", *DEADLY])
def test_a_worker_that_dies_in_a_task_changes_nothing(processes, alone, tmp_path, task):
    require_survived(processes, alone, tmp_path, task)


def require_survived(client, alone, tmp_path, task, step=None):
    told = {"deadly": task, "step": step, "folder": tmp_path}
    place = Deadly(cluster=client, memory="2GB", output=tmp_path / "out", solver=SOLVER, **told)
    found = METHOD.purify(drawn(), place=place)
    assert place.died == [task]
    assert (tmp_path / "flag").exists()
    assert np.array_equal(found.graph.to_graph().edges, alone.graph.edges)
    assert np.array_equal(found.graph.to_graph().adjacency.data, alone.graph.adjacency.data)
    assert torch.equal(found.spectrum.values, alone.spectrum.values)


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 1, 5])
@pytest.mark.parametrize("task", ["take_part", "_alone"])
def test_a_worker_that_dies_between_two_steps_changes_nothing(processes, alone, tmp_path, task, step):
    require_survived(processes, alone, tmp_path, task, step)


@pytest.mark.slow
def test_a_worker_that_nobody_replaces_leaves_its_parts_to_the_others(alone, tmp_path):
    with distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as cluster:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        command += ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        lone = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        workers = [subprocess.Popen(command, env=lone, cwd=tmp_path, stderr=subprocess.DEVNULL) for _ in range(2)]
        try:
            with distributed.Client(cluster) as client:
                client.wait_for_workers(2, timeout=60)
                require_survived(client, alone, tmp_path, "take_part", 3)
                assert len(client.ncores()) == 1
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("strips")
def test_a_worker_that_dies_in_a_product_of_a_strip_changes_nothing(processes, alone, tmp_path):
    require_survived(processes, alone, tmp_path, "_product")
