"""An audit on a Dask cluster: the same tables as on one disk, whatever happens to the workers."""

import os
import signal
import threading
import time

import pytest
import torch

from garnet import OnCluster, OnDisk, as_graph
from garnet.audit import audit
from garnet.datasets import block_model, class_features, random_split
from garnet.errors import ParameterError

distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def _one_thread():
    """Workers have one, and sums of floats depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def graph():
    drawn = block_model(300, mean_degree=10, homophily=0.95, seed=4)
    features = class_features(drawn.labels, dim=8, signal=3.0, seed=0)
    return as_graph(drawn, features=features, split=random_split(drawn.labels, train=0.2, val=0.2, seed=0))


@pytest.fixture
def on_disk(graph, tmp_path):
    """What one process writes."""
    audit(graph, place=OnDisk(memory="1.5GB", parts=2, output=tmp_path / "alone"))
    return tables(tmp_path / "alone")


def tables(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "_garnet.json"}


def workers(*, processes):
    return distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=processes, dashboard_address=":0", memory_limit="auto"
    )


class Killer:
    """Kills a worker as soon as a file is there, and notes in which stage."""

    def __init__(self, client, folder, pattern):
        self.client, self.folder, self.pattern = client, folder, pattern
        self.stage, self.killed_in, self.over = "", [], False
        self.victim = next(iter(client.run(os.getpid).values()))
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def __call__(self, step):
        self.stage = step.stage

    def _watch(self):
        while not self.over:
            if any(self.folder.glob(self.pattern)):
                os.kill(self.victim, signal.SIGKILL)
                self.killed_in.append(self.stage)
                return
            time.sleep(0.002)


@pytest.mark.parametrize(
    ("stage", "pattern"),
    [
        pytest.param("doubt", ".garnet-*/judged-0-0.bin", marks=pytest.mark.slow),
        pytest.param("plant 2 of 3", ".garnet-*/planted-1/spectral-0.bin", marks=pytest.mark.slow),
    ],
)
def test_a_worker_lost_in_the_middle_changes_nothing(graph, on_disk, tmp_path, stage, pattern):
    with workers(processes=True) as cluster, distributed.Client(cluster) as client:
        killer = Killer(client, tmp_path, pattern)
        try:
            place = OnCluster(cluster=client, memory="1.5GB", output=tmp_path / "many")
            found = audit(graph, place=place, progress=killer)
        finally:
            killer.over = True
            killer.thread.join()
    assert killer.killed_in == [stage]
    assert found.parts == 2
    assert tables(tmp_path / "many") == on_disk


def test_workers_that_are_threads_find_the_same(graph, on_disk, tmp_path):
    with workers(processes=False) as cluster, distributed.Client(cluster) as client:
        audit(graph, place=OnCluster(cluster=client, memory="1.5GB", output=tmp_path / "many"))
    assert tables(tmp_path / "many") == on_disk


def test_the_command_with_an_address_where_nobody_answers(command, graph, tmp_path, monkeypatch):
    monkeypatch.setattr("garnet.places.cluster._WAIT", 0.5)
    graph.save(tmp_path / "graph.npz")
    status, _, said = command("audit", tmp_path / "graph.npz", "-o", tmp_path / "out", "--cluster", "tcp://127.0.0.1:9")
    assert status == 1
    assert "no Dask scheduler answers there" in said
    with pytest.raises(ParameterError, match="no Dask scheduler answers there"):
        audit(graph, place=OnCluster(cluster="tcp://127.0.0.1:9"))
