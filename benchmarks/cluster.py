"""Strong scaling on a Dask cluster of processes with one thread each: the same graph with more and more workers.

    python benchmarks/cluster.py [blocks|arxiv|products] [--workers 1 2] [--memory-run --threads 1 2]
    python benchmarks/cluster.py products --workers 1 2 4 8 15 --memory-run --threads 1 15 --scratch /big/disk

`blocks` is drawn: 100,000 nodes in 30 communities of mean degree 10. So is `products`, of the size of ogbn-products:
2,449,029 nodes in communities within communities, degrees by a power law; the mean degree is what is drawn, some pairs
twice. `--nodes` and `--mean-degree` make either another size. `arxiv` is ogbn-arxiv without its features.

Every count of workers has a cluster of its own, so that memory is counted from nothing, and parts as many as the place
chooses, if nothing else is asked for. The record is written anew after each, so that a run that is killed leaves what
it had. `--memory-run` purifies the same file in memory, in a process of its own, with so many threads.

Of each kind of task there is how often it was called for, how many there were, the seconds that the client waited, the
seconds of all tasks together, and those of the longest of each call: less than that no number of workers takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster
from record import data_folder, save

from garnet import GARNET
from garnet.places.cluster import ClusterRun
from garnet.places.on_disk import OnCluster
from garnet.progress import Step

DRAWN = {"blocks": (100_000, 10.0), "products": (2_449_029, 70.0)}

DRAW = """
import sys
import numpy as np
from garnet.datasets import block_model, nested_block_model
kind, nodes, degree, path = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
if kind == "blocks":
    adjacency = block_model(nodes, classes=30, mean_degree=degree, seed=0).adjacency
else:
    adjacency = nested_block_model(nodes, mean_degree=degree, seed=0).adjacency
np.savez(path, format=b"csr", shape=np.array(adjacency.shape), data=adjacency.data,
         indices=adjacency.indices, indptr=adjacency.indptr)
"""

IN_MEMORY = """
import json, sys
import torch
from garnet import GARNET, load_graph
from garnet.machine import peak_memory
source, threads, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
torch.set_num_threads(threads)
graph = load_graph(source, symmetrize=True)
result = GARNET(**options).purify(graph)
print(json.dumps({**result.summary(), "peak_bytes": peak_memory()}))
"""


@dataclass
class Steps:
    """What the calls for a kind of task cost."""

    calls: int = 0
    tasks: int = 0
    waited: float = 0.0
    busy: float = 0.0
    longest: float = 0.0


def timed(work: Callable[..., Any], *task: Any) -> tuple[Any, float]:
    """What a task gives, and its seconds."""
    began = time.perf_counter()
    found = work(*task)
    return found, time.perf_counter() - began


class Counted(ClusterRun):
    """Counts the calls and the tasks of a run, and times them."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.stage = ""
        self.steps: dict[tuple[str, str], Steps] = defaultdict(Steps)

    def __call__(self, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], **options: Any) -> list[Any]:
        """See `ClusterRun`."""
        began = time.perf_counter()
        found = super().__call__(timed, [(work, *task) for task in tasks], **options)
        step, seconds = self.steps[self.stage, work.__name__], [some for _, some in found]
        step.calls += 1
        step.tasks += len(found)
        step.waited += time.perf_counter() - began
        step.busy += sum(seconds)
        step.longest += max(seconds, default=0.0)
        return [value for value, _ in found]

    def listen(self, step: Step) -> None:
        """Know which stage it is."""
        self.stage = step.stage


@dataclass(frozen=True, kw_only=True)
class Counting(OnCluster):
    """A cluster whose run is counted."""

    counted: Counted = field(repr=False)

    def run(self) -> Counted:
        """See `OnCluster`."""
        return self.counted


def peak_bytes() -> int:
    """The largest resident memory of the process that runs this."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def measure(source: Path, workers: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run on a cluster of its own."""
    local = {"n_workers": workers, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        tempfile.TemporaryDirectory(dir=options.scratch) as folder,
        LocalCluster(**local, local_directory=folder) as cluster,
        Client(cluster) as client,
    ):
        counted = Counted(client)
        output = Path(folder) / "purified"
        place = Counting(cluster=client, output=output, parts=options.parts, counted=counted)
        began, spent = time.perf_counter(), time.process_time()
        result = GARNET(**purifier(options)).purify(source, place=place, symmetrize=True, progress=counted.listen)
        seconds = time.perf_counter() - began
        return {
            "workers": workers,
            "seconds": seconds,
            "stages": {stage.name: stage.seconds for stage in result.stages},
            "parts": result.parts,
            "calls": sum(step.calls for step in counted.steps.values()),
            "tasks": sum(step.tasks for step in counted.steps.values()),
            "columns": result.summary().get("products"),
            "processor_seconds_of_each_worker": sorted(client.run(time.process_time).values()),
            "processor_seconds_of_client_and_scheduler": time.process_time() - spent,
            "peak_bytes_of_each_worker": sorted(client.run(peak_bytes).values()),
            "steps": [{"stage": stage, "task": name, **vars(step)} for (stage, name), step in counted.steps.items()],
            "nodes": result.graph.num_nodes,
            "edges_after": result.graph.num_edges,
            "fingerprint": result.graph.fingerprint,
        }


def in_memory(source: Path, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """The same in memory, in a process of its own."""
    command = [sys.executable, "-c", IN_MEMORY, str(source), str(threads), json.dumps(purifier(options))]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    found = json.loads(done.stdout)
    stages = {stage["name"]: stage["seconds"] for stage in found["stages"]}
    return {
        "threads": threads,
        "seconds": found["seconds"],
        "stages": stages,
        "peak_bytes": found["peak_bytes"],
        "edges_after": found["edges_after"],
    }


def purifier(options: argparse.Namespace) -> dict[str, Any]:
    """The parameters of GARNET."""
    return {"rank": options.rank, "k": options.k, "features": "none"}


def graph_file(options: argparse.Namespace) -> Path:
    """The file of the graph, which is drawn once."""
    if options.graph == "arxiv":
        return data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz"
    nodes, degree = DRAWN[options.graph]
    nodes, degree = options.nodes or nodes, options.mean_degree or degree
    path = options.scratch / f"{options.graph}-{nodes}-{degree:g}.npz"
    if not path.exists():
        unfinished = options.scratch / "unfinished.npz"
        command = [sys.executable, "-c", DRAW, options.graph, str(nodes), str(degree), str(unfinished)]
        subprocess.run(command, check=True)
        unfinished.rename(path)
    return path


def summary(options: argparse.Namespace, runs: list[dict[str, Any]], memory: list[dict[str, Any]]) -> dict[str, Any]:
    """What the runs so far say."""
    first, last = runs[0], runs[-1]
    return {
        "graph": options.graph,
        "rank": options.rank,
        "k": options.k,
        "runs": runs,
        "in_memory": memory,
        "ratio": first["seconds"] / last["seconds"],
        "ratio_of_each_stage": {name: first["stages"][name] / last["stages"][name] for name in first["stages"]},
        "ratios": {str(run["workers"]): first["seconds"] / run["seconds"] for run in runs},
        "same_edges": len({run["fingerprint"] for run in runs}) == 1,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def show(run: dict[str, Any]) -> None:
    """One line of a run, and one of each kind of task that took long."""
    stages = {name: round(seconds, 1) for name, seconds in run["stages"].items()}
    print(f"{run['workers']} workers: {run['seconds']:.1f} s", stages, run["parts"], "parts", run["fingerprint"])
    for step in sorted(run["steps"], key=lambda step: -float(step["waited"])):
        if step["waited"] > 0.01 * run["seconds"]:
            print(
                f"  {step['stage']:10} {step['task']:20} calls {step['calls']:3} tasks {step['tasks']:5} waited "
                f"{step['waited']:8.2f} s  busy {step['busy']:8.2f} s  longest {step['longest']:7.2f} s"
            )
    sys.stdout.flush()


def main() -> None:
    """Run with each number of workers, and write the record after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", nargs="?", choices=("blocks", "arxiv", "products"), default="blocks")
    parser.add_argument("--graph", dest="graph_too", choices=("blocks", "arxiv", "products"), help="the same")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--mean-degree", type=float)
    parser.add_argument("--rank", type=int, default=50)
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--parts", type=int, default=1, help="at least; the place may choose more")
    parser.add_argument("--memory-run", action="store_true", help="also in memory")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of the run in memory")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "garnet-cluster")
    parser.add_argument("--name", default="cluster", help="of the record")
    options = parser.parse_args()
    options.graph = options.graph_too or options.graph
    options.scratch.mkdir(exist_ok=True)
    source = graph_file(options)
    runs: list[dict[str, Any]] = []
    memory: list[dict[str, Any]] = []
    if options.memory_run:
        for threads in options.threads:
            memory.append(in_memory(source, threads, options))
            print("in memory", memory[-1], flush=True)
    for workers in options.workers:
        runs.append(measure(source, workers, options))
        show(runs[-1])
        figures = summary(options, runs, memory)
        print({name: figures[name] for name in ("ratios", "ratio_of_each_stage", "same_edges", "load")}, flush=True)
        save(options.name, figures)


if __name__ == "__main__":
    main()
