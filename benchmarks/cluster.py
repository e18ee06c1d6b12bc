"""Strong scaling on a Dask cluster of processes: the same graph in the same parts with one worker and with two.

    python benchmarks/cluster.py [arxiv|blocks] [--rank 50] [--k 15] [--parts 4]

Workers have one thread each. `blocks` is drawn: 100,000 nodes in 30 communities of mean degree 10; `arxiv` is
ogbn-arxiv without its features. Every count of workers has a cluster of its own, so that memory is counted from
nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from record import data_folder, save

from garnet import GARNET, as_graph
from garnet.datasets import block_model
from garnet.places.cluster import ClusterRun
from garnet.places.on_disk import OnCluster


class Counted(ClusterRun):
    """Counts the calls and the tasks of a run."""

    calls = tasks = 0

    def __call__(
        self, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *, done: Any | None = None
    ) -> list[Any]:
        """See `ClusterRun`."""
        tasks = list(tasks)
        self.calls += 1
        self.tasks += len(tasks)
        return super().__call__(work, tasks, done=done)


@dataclass(frozen=True, kw_only=True)
class Counting(OnCluster):
    """A cluster whose runs are counted."""

    runs: list[Counted] = field(default_factory=list, repr=False)

    def run(self) -> Counted:
        """See `OnCluster`."""
        self.runs.append(Counted(self.cluster))
        return self.runs[-1]


def peak_bytes() -> int:
    """The largest resident memory of the process that runs this."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure(source: Any, workers: int, options: argparse.Namespace) -> tuple[dict[str, Any], np.ndarray]:
    """One run; gives its figures and the edges of the purified graph."""
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        purifier = GARNET(rank=options.rank, k=options.k, features="none")
        place = Counting(cluster=client, output=Path(folder) / "purified", parts=options.parts)
        began, spent = time.perf_counter(), time.process_time()
        result = purifier.purify(source, place=place, symmetrize=True)
        seconds = time.perf_counter() - began
        figures = {
            "workers": workers,
            "seconds": seconds,
            "stages": {stage.name: stage.seconds for stage in result.stages},
            "parts": result.parts,
            "calls": place.runs[0].calls,
            "tasks": place.runs[0].tasks,
            "processor_seconds_of_each_worker": sorted(client.run(time.process_time).values()),
            "processor_seconds_of_client_and_scheduler": time.process_time() - spent,
            "peak_bytes_of_each_worker": sorted(client.run(peak_bytes).values()),
            "edges_after": result.graph.num_edges,
        }
        return figures, result.graph.to_graph().edges


def main() -> None:
    """Run with one worker and with two, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", nargs="?", choices=("arxiv", "blocks"), default="blocks")
    parser.add_argument("--rank", type=int, default=50)
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--parts", type=int, default=4)
    options = parser.parse_args()
    if options.graph == "arxiv":
        source: Any = str(data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz")
    else:
        source = as_graph(block_model(100_000, classes=30, mean_degree=10, seed=0))
    load = os.getloadavg()
    (one, first), (two, second) = (measure(source, workers, options) for workers in (1, 2))
    for figures in (one, two):
        print(figures)
    ratios = {name: one["stages"][name] / two["stages"][name] for name in one["stages"]}
    figures = {
        "graph": options.graph,
        "runs": [one, two],
        "ratio": one["seconds"] / two["seconds"],
        "ratio_of_each_stage": ratios,
        "same_edges": bool(np.array_equal(first, second)),
        "cores": os.cpu_count(),
        "load_before_and_after": [load[0], os.getloadavg()[0]],
    }
    print({name: figures[name] for name in ("ratio", "ratio_of_each_stage", "same_edges", "load_before_and_after")})
    save("cluster", figures)


if __name__ == "__main__":
    main()
