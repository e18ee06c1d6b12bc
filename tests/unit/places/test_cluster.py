"""Purifying on a Dask cluster: the same edges as in one process, whatever happens to the workers."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from garnet import GARNET, OnCluster, OnDisk, as_graph
from garnet.datasets import block_model
from garnet.errors import GarnetError, MissingExtra, ParameterError
from garnet.neighbors.quantizer import fit_quantizer
from garnet.places import cluster as cluster_module
from garnet.places.cluster import ClusterRun
from garnet.places.plan import BASELINE
from garnet.places.row_store import RowStore, run_locally
from garnet.places.tiles import TiledGraph
from garnet.progress import Step
from garnet.spectral import Chebyshev

distributed = pytest.importorskip("distributed")
SMALL = as_graph(block_model(300, seed=4), features=np.random.default_rng(0).random((300, 12)))
# Of this rank a dense solver finds the eigenvectors, and a run has 20 rounds of tasks; the block solver has hundreds.
DENSE = GARNET(rank=60, k=6)
KRYLOV = GARNET(rank=4, k=5, tau="mean")
SOLVER = Chebyshev(tol=1e-2, block=8)


@pytest.fixture(autouse=True)
def _one_thread():
    """Workers have one, and sums of floats depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def processes():
    with local_cluster(processes=True) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def threads():
    with local_cluster(processes=False) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(cluster_module, "_WAIT", 1)
    monkeypatch.setattr(cluster_module, "_LOOK", 0.5)
    monkeypatch.setattr(cluster_module, "_LOOKS", 2)


def local_cluster(*, processes, workers=2, threads=1, limit="auto"):
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=threads,
        processes=processes,
        memory_limit=limit,
        dashboard_address=":0",
    )


def on(cluster, **options):
    return OnCluster(cluster=cluster, memory="1.5GB", **options)


def require_same(found, expected):
    assert found.parts == expected.parts
    assert np.array_equal(found.graph.edges, expected.graph.edges)
    assert np.array_equal(found.graph.adjacency.data, expected.graph.adjacency.data)
    assert torch.equal(found.spectrum.values, expected.spectrum.values)
    assert found.threshold == expected.threshold
    assert found.ledger.counts == expected.ledger.counts


@pytest.fixture(scope="module")
def dense():
    torch.set_num_threads(1)
    return DENSE.purify(SMALL, place=OnDisk(memory="1.5GB", parts=2))


@pytest.fixture(scope="module")
def krylov():
    torch.set_num_threads(1)
    return KRYLOV.purify(SMALL, place=OnDisk(memory="1.5GB", parts=2, solver=SOLVER))


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_a_cluster_finds_the_edges_that_one_process_does(kind, request, dense):
    client = request.getfixturevalue(kind)
    require_same(DENSE.purify(SMALL, place=on(client)), dense)


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_what_scores_edges_is_sent_to_the_workers(kind, request):
    method = replace(DENSE, score="signed", weight="score")
    expected = method.purify(SMALL, place=OnDisk(memory="1.5GB", parts=2))
    require_same(method.purify(SMALL, place=on(request.getfixturevalue(kind))), expected)


def test_workers_write_the_tiles_to_a_folder_and_leave_nothing_else(processes, dense, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the workers are not
    before = distributed.default_client()
    address = processes.scheduler.address
    result = DENSE.purify(SMALL, place=on(address, output="purified"))
    assert isinstance(result.graph, TiledGraph)
    require_same(replace(result, graph=TiledGraph.open(tmp_path / "purified").to_graph()), dense)
    assert not list(tmp_path.glob("purified/*tmp*"))
    assert not (tmp_path / "purified" / "work").exists()
    assert distributed.default_client() is before


def test_workers_write_a_table_of_edges(processes, dense, tmp_path):
    table = pytest.importorskip("pyarrow.parquet")
    result = DENSE.purify(SMALL, place=on(processes, output=tmp_path / "clean.parquet"))
    found = table.read_table(tmp_path / "clean.parquet")
    edges = np.stack([found["source"].to_numpy(), found["target"].to_numpy()])
    order = np.lexsort(edges[::-1])
    assert np.array_equal(edges[:, order], dense.graph.edges)
    assert len(list((tmp_path / "clean.parquet").glob("*.parquet"))) == result.parts == 2
    assert result.summary()["edges_after"] == dense.graph.num_edges


def test_workers_that_are_threads_share_the_memory_of_their_process():
    with local_cluster(processes=False, threads=3, limit=0) as cluster, distributed.Client(cluster) as client:
        run = ClusterRun(client)
        there = run.capacity()
        assert (there.threads, there.at_once, there.memory) == (6, 6, None)
        seen = run(_busy, ((0.05,) for _ in range(40)))
        assert max(seen) == there.at_once  # so many tasks of one process were indeed under way


RUNNING, LOCK = [0], threading.Lock()


def _busy(seconds):
    """How many tasks this process does at the moment."""
    with LOCK:
        RUNNING[0] += 1
    time.sleep(seconds)
    with LOCK:
        now = RUNNING[0]
        RUNNING[0] -= 1
    return now


def test_a_graph_is_cut_so_that_all_tasks_of_a_worker_fit_in_its_memory(tmp_path):
    # Each node has half of the others for neighbours, so that a small graph takes much: about 300 bytes for each.
    graph = block_model(2000, mean_degree=6, seed=0)
    needed = 300 * (2000 * 1000 + graph.num_edges)

    def stop(step):
        if step == Step("embed"):
            raise KeyboardInterrupt

    def parts(name, **memory):
        place = OnCluster(cluster=client, output=tmp_path / name, **memory)
        with pytest.raises(KeyboardInterrupt):
            GARNET(rank=4, k=1000).purify(graph, place=place, progress=stop)
        (work,) = tmp_path.glob(".garnet-*")
        found = TiledGraph.open(work / "tiles").parts
        shutil.rmtree(work)
        return found

    with (
        local_cluster(processes=True, workers=1, threads=3, limit="1.5GiB") as cluster,
        distributed.Client(cluster) as client,
    ):
        there = ClusterRun(client).capacity()
        assert (there.threads, there.at_once) == (3, 3)
        assert there.memory < 1.5 * 2**30  # some of it is left for what the worker itself holds
        found = parts("by the limit")
        assert BASELINE + 3 * needed / found <= there.memory < BASELINE + 3 * needed / (found - 1)
        assert parts("with little", memory="1GiB") > found
        assert parts("with plenty", memory="64GB") == there.threads


def test_processes_that_are_workers_have_their_own_memory(processes):
    there = ClusterRun(processes).capacity()
    assert (there.threads, there.at_once) == (2, 1)


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_tasks_are_counted_as_they_are_done(kind, request):
    said = []
    ClusterRun(request.getfixturevalue(kind))(abs, [(-1,)] * 9, done=lambda *counts: said.append(counts))
    assert said == [(number, 9) for number in range(10)]


@dataclass
class Killer:
    """Kills workers, once the stage `embed` has written some of its files, and notes how far the run was."""

    client: object
    folder: Path
    victims: int
    after: int = 10
    stage: str = ""
    killed_in: list = field(default_factory=list)

    def __call__(self, step):
        self.stage = step.stage
        if step == Step("embed"):
            self.pids = list(self.client.run(os.getpid).values())[: self.victims]
            self.thread = threading.Thread(target=self._watch)
            self.thread.start()

    def _watch(self):
        seen = set()
        while self.stage == "embed":
            seen |= {file.name for file in self.folder.glob(".garnet-*/tmp-*-0.bin")}
            if len(seen) >= self.after:
                for pid in self.pids:
                    os.kill(pid, signal.SIGKILL)
                    self.killed_in.append(self.stage)
                return
            time.sleep(0.002)


def require_survived(client, expected, folder, victims):
    killer = Killer(client, folder, victims)
    place = on(client, parts=2, solver=SOLVER, output=folder / "out")
    result = KRYLOV.purify(SMALL, place=place, progress=killer)
    killer.thread.join()
    assert killer.killed_in == ["embed"] * victims
    require_same(replace(result, graph=result.graph.to_graph()), expected)
    return killer


def test_a_worker_lost_in_the_middle_changes_nothing(processes, krylov, tmp_path):
    killer = require_survived(processes, krylov, tmp_path, 1)
    assert killer.pids[0] not in processes.run(os.getpid).values()


@pytest.mark.slow
def test_all_workers_lost_at_once_change_nothing_if_others_come(processes, krylov, tmp_path):
    processes.wait_for_workers(2, timeout=60)
    require_survived(processes, krylov, tmp_path, 2)


@pytest.mark.slow
def test_a_worker_that_nobody_starts_again_changes_nothing(krylov, tmp_path):
    with distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as cluster:
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        command += ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        lone = {**os.environ, "OMP_NUM_THREADS": "1"}
        workers = [subprocess.Popen(command, env=lone, cwd=tmp_path, stderr=subprocess.DEVNULL) for _ in range(2)]
        try:
            with distributed.Client(cluster) as client:
                client.wait_for_workers(2, timeout=60)
                require_survived(client, krylov, tmp_path, 1)
                assert len(client.ncores()) == 1
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_the_block_solver_on_a_cluster(kind, request, krylov):
    client = request.getfixturevalue(kind)
    require_same(KRYLOV.purify(SMALL, place=on(client, solver=SOLVER)), krylov)


def test_large_values_are_sent_once_and_come_back_as_they_were(processes):
    rows = torch.randn(8_000, 80, generator=torch.Generator().manual_seed(0))
    quantizer = fit_quantizer(rows, 1_000, seed=0)
    tasks = [(quantizer, rows, i) for i in range(5)]
    packed, large = cluster_module._packed(_owners, tasks)
    assert {id(value) for value in large} == {id(value) for value in (rows, quantizer.centres, quantizer.ranked)}
    assert sum(map(len, packed)) < quantizer.centres.nbytes
    for found, expected in zip(ClusterRun(processes)(_owners, tasks), run_locally(_owners, tasks), strict=True):
        assert torch.equal(found, expected)


def _owners(quantizer, rows, i):
    return quantizer.assign(rows[i::5])


def test_results_come_in_the_order_of_the_tasks(threads):
    assert ClusterRun(threads)(divmod, ((number, 7) for number in range(600))) == [divmod(n, 7) for n in range(600)]


def test_a_few_rows_are_sent_without_those_they_were_taken_from(processes):
    rows = torch.arange(200_000.0).view(-1, 20)
    packed, _ = cluster_module._packed(torch.sum, [(rows[:3],)])
    assert len(packed[0]) < 1_000
    assert ClusterRun(processes)(torch.sum, [(rows[:3],)]) == [torch.arange(60.0).sum()]


def test_a_value_that_changed_between_two_calls_is_sent_again(threads):
    run, numbers = ClusterRun(threads), np.zeros(1 << 18)
    assert run(np.sum, [(numbers,)]) == [0.0]
    numbers += 1
    assert run(np.sum, [(numbers,)]) == [float(1 << 18)]


def test_an_error_of_a_task_is_the_error_of_the_run(processes, scratch):
    parts = RowStore(scratch, (0, 2, 4), ClusterRun(processes))
    lost = parts.new(3)
    with pytest.raises(GarnetError, match=rf"Cannot read {scratch}/tmp-\w+-[01].bin: No such file"):
        parts.map(torch.abs, lost)


def test_a_folder_that_a_worker_does_not_see(processes, scratch, monkeypatch):
    run = ClusterRun(processes)
    run.require_folder(scratch)
    monkeypatch.chdir(scratch)
    Path("mine").mkdir()
    with pytest.raises(GarnetError, match="does not see the folder mine; all workers must, under the same path"):
        run.require_folder(Path("mine"))
    assert not list(Path("mine").iterdir())


def test_a_cluster_without_workers(impatient, tmp_path):
    with local_cluster(processes=False, workers=0) as cluster, distributed.Client(cluster) as client:
        with pytest.raises(GarnetError, match=r"The Dask cluster at inproc://.* has no workers; start some"):
            DENSE.purify(SMALL, place=on(client, output=tmp_path / "out"))
        assert not (tmp_path / "out").exists()


def test_a_cluster_that_loses_its_last_worker(impatient):
    with local_cluster(processes=False, workers=1) as cluster, distributed.Client(cluster) as client:

        def close(step):
            if step == Step("neighbours"):
                cluster.sync(cluster.workers[0].close)

        with pytest.raises(GarnetError, match="has no workers"):
            DENSE.purify(SMALL, place=on(client), progress=close)


def test_an_address_where_nobody_answers(impatient):
    with pytest.raises(ParameterError, match=r"'cluster' parameter of OnCluster is 'tcp://127.0.0.1:9', but no Dask"):
        DENSE.purify(SMALL, place=on("tcp://127.0.0.1:9"))


def test_something_that_is_no_cluster():
    with pytest.raises(ParameterError, match=r"OnCluster must be a distributed.Client or the address of a scheduler"):
        on(3)


def test_dask_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pygarnet\[cluster\]'"):
        DENSE.purify(SMALL, place=on("tcp://127.0.0.1:9"))
