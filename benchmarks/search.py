"""Our nearest-neighbour search against that of faiss, on the points in which GARNET searches.

Ours is `Cells` as it comes, which finds by itself how many cells to probe, in the time that is measured. The inverted
file of faiss is given the best of three numbers of lists and the fewest probes with which it finds as many of the true
neighbours as ours did, in the median of the seeds: that choice is not timed, its training is. The graph index of faiss
gets the narrowest beam that finds as many. Both exact searches are compared on fewer points. Runs alternate; recall is
of a thousand points. Cases that are not run again stay in the record.

On one thread the seconds compared are those of the processor, which other processes hardly change; on more they are
those of the clock, and `others` says how many cores other processes took meanwhile.

    python benchmarks/search.py [--threads 2] [--rounds 3] [--cases arxiv-r50 drawn-r50 arxiv-r500] [--points FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from record import data_folder, save, so_far

from garnet import GARNET, load_graph
from garnet.datasets import nested_block_model
from garnet.neighbors.search import Cells, Exact
from garnet.purify.features import scale

CASES = {"arxiv-r50": (50, 15), "drawn-r50": (50, 15), "arxiv-r500": (500, 50)}
EXACT_POINTS = 20_000
LINKED = ("arxiv-r50",)  # the others would take minutes
LISTS = (1, 2, 4)  # times the root of the number of points
SAMPLE, WIDER = 1000, 1.25
TIE = 1e-6  # between squared distances of points of length one, in single precision
TRAINING, POINTS_A_LIST = 10, 64  # rounds of k-means, and points of a list that it sees at most
LINKS, NARROWEST, WIDEST = 32, 16, 4096
FIRST_POINTS = 3_000  # of a search that only loads libraries


def main() -> None:
    """Run the cases and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    options.add_argument("--points", type=Path, help="folder that keeps the points between runs")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    faiss.omp_set_num_threads(chosen.threads)
    figures: dict[str, Any] = {}
    for name in chosen.cases:
        points, k = points_of(name, chosen.points), CASES[name][1]
        Cells()(points[:FIRST_POINTS], k, seed=0)
        figures[name] = {
            "threads": chosen.threads,
            "seeds": list(range(chosen.rounds)),
            "cells": approximate(points, k, chosen.rounds, links=name in LINKED),
            "exact": exact(points[:EXACT_POINTS].contiguous(), k, chosen.rounds),
        }
    path = so_far("search.json")
    before = json.loads(path.read_text())["figures"] if path.exists() else {}
    save("search", {**before, **figures})


def points_of(name: str, folder: Path | None) -> torch.Tensor:
    """What GARNET searches in by default: rows of the spectral embedding, of length one."""
    kept = folder / f"{name}.npy" if folder else None
    if kept and kept.exists():
        return torch.from_numpy(np.load(kept))
    if name.startswith("arxiv"):
        graph = load_graph(data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz", symmetrize=True)
    else:
        graph = nested_block_model(200_000, seed=0)
    points = scale(GARNET(rank=CASES[name][0]).embed(graph).embedding.float(), "unit")
    points = points[points.abs().amax(dim=1) > 0].contiguous()  # of isolated nodes nothing is known
    if kept:
        np.save(kept, points.numpy())
    return points


def approximate(points: torch.Tensor, k: int, rounds: int, *, links: bool) -> dict[str, Any]:
    """`Cells` and the inverted file in turn, and the index of links once where it does not take minutes."""
    data, judge = points.numpy(), Judge(points, k)
    goal = float(np.median([judge(Cells()(points, k, seed=seed)) for seed in range(rounds)]))
    lists, probes = fitting(data, k, goal, judge)
    searches: dict[str, Callable[[int], torch.Tensor]] = {
        "ours": lambda seed: Cells()(points, k, seed=seed),
        "faiss": lambda seed: inverted_file(data, k, lists, probes, seed),
    }
    figures = compared(searches, rounds, judge)
    figures |= {"points": list(points.shape), "k": k, "lists": lists, "probes": probes}
    if links:
        beam = NARROWEST
        while beam < WIDEST:
            found, cost = measured(partial(linked, data, k, beam))
            if judge(found) >= goal:
                break
            beam *= 2
        figures["faiss_links"] = {**cost, "recall": judge(found), "links": LINKS, "beam": beam}
        print("links", figures["faiss_links"], flush=True)
    return figures


def exact(points: torch.Tensor, k: int, rounds: int) -> dict[str, Any]:
    """Both exact searches in turn."""
    data = points.numpy()
    searches: dict[str, Callable[[int], torch.Tensor]] = {
        "ours": lambda seed: Exact()(points, k, seed=seed),
        "faiss": lambda seed: without_self(faiss.knn(data, data, k + 1)[1], k),
    }
    return compared(searches, rounds, Judge(points, k))


def compared(searches: dict[str, Callable[[int], torch.Tensor]], rounds: int, judge: Judge) -> dict[str, Any]:
    """Each search in turn, with another seed each round; medians, and the median of the rounds' ratios."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in searches}
    for seed in range(rounds):
        for name, search in searches.items():
            found, cost = measured(lambda search=search, seed=seed: search(seed))
            runs[name].append({**cost, "recall": judge(found)})
            print(name, {key: round(value, 3) for key, value in runs[name][-1].items()}, flush=True)
    ratios = [theirs["seconds"] / mine["seconds"] for mine, theirs in zip(runs["ours"], runs["faiss"], strict=True)]
    medians = {
        name: {key: float(np.median([run[key] for run in some])) for key in some[0]} for name, some in runs.items()
    }
    figures = {"ratio": float(np.median(ratios)), "ratios": ratios, **medians}
    print(f"faiss takes {figures['ratio']:.2f} times as long", flush=True)
    return figures


def fitting(data: np.ndarray, k: int, goal: float, judge: Judge) -> tuple[int, int]:
    """The number of lists, and of probes, with which the inverted file reaches a recall in the least time."""
    best = (np.inf, 0, 0)
    for times in LISTS:
        lists, probes, reached = round(times * len(data) ** 0.5), 0, 0.0
        index, made = measured(partial(trained, data, lists, seed=0))
        while reached < goal and probes < lists:
            index.nprobe = probes = int(np.ceil(max(1, WIDER * probes)))
            found, cost = measured(partial(index.search, data[judge.some], k + 1))
            reached = judge.share(without_self(found[1], k, judge.some))
        seconds = made["seconds"] + cost["seconds"] * len(data) / SAMPLE
        print(f"{lists} lists, {probes} probes: recall {reached:.4f}, about {seconds:.1f} s", flush=True)
        best = min(best, (seconds, lists, probes))
    return best[1:]


class Judge:
    """Recall on a sample of points: the share found of k others that are as near as the k nearest.

    Points of the same neighbours are the same, and which of many equally near ones a search names is no matter.
    """

    def __init__(self, points: torch.Tensor, k: int) -> None:
        self.points, self.data = points, points.numpy()
        self.some = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[:SAMPLE].numpy()
        truth = without_self(faiss.knn(self.data[self.some], self.data, k + 1)[1], k, self.some)
        self.farthest = self.away(truth).max(axis=1) + TIE

    def __call__(self, found: torch.Tensor) -> float:
        """Of what was found for all points."""
        return self.share(found[torch.from_numpy(self.some)])

    def share(self, found: torch.Tensor) -> float:
        """Of what was found for the sample."""
        return float((self.away(found) <= self.farthest[:, None]).mean())

    def away(self, found: torch.Tensor) -> np.ndarray:
        """Squared distances of the sample to what was found, infinite where nothing was."""
        there = found.numpy()
        rows = zip(self.some, there, strict=True)
        away = np.stack([np.square(self.data[ids].astype(float) - self.data[one]).sum(axis=1) for one, ids in rows])
        return np.where(there < 0, np.inf, away)


def trained(data: np.ndarray, lists: int, seed: int) -> Any:
    """An inverted file of all points."""
    dimension = data.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dimension), dimension, lists)
    index.cp.seed, index.cp.niter, index.cp.max_points_per_centroid = seed + 1, TRAINING, POINTS_A_LIST
    index.train(data)
    index.add(data)
    return index


def inverted_file(data: np.ndarray, k: int, lists: int, probes: int, seed: int) -> torch.Tensor:
    """The whole search: training, filling and asking."""
    index = trained(data, lists, seed)
    index.nprobe = probes
    return without_self(index.search(data, k + 1)[1], k)


def linked(data: np.ndarray, k: int, beam: int) -> torch.Tensor:
    """The same by the graph index, HNSW."""
    index = faiss.IndexHNSWFlat(data.shape[1], LINKS)
    index.add(data)
    index.hnsw.efSearch = max(beam, k + 1)
    return without_self(index.search(data, k + 1)[1], k)


def without_self(found: np.ndarray, k: int, queries: np.ndarray | None = None) -> torch.Tensor:
    """The k nearest others out of the k + 1 nearest."""
    queries = np.arange(len(found)) if queries is None else queries
    others = found != queries[:, None]
    others[others.all(axis=1), -1] = False
    return torch.from_numpy(found[others].reshape(len(found), k))


def measured(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What the work gives, and what it cost; see above for which seconds count."""
    busy, clock, own = busy_seconds(), time.perf_counter(), time.process_time()
    result = work()
    wall, own = time.perf_counter() - clock, time.process_time() - own
    others = max(0.0, busy_seconds() - busy - own) / wall
    single = torch.get_num_threads() == 1
    return result, {"seconds": own if single else wall, "wall": wall, "processor": own, "others": others}


def busy_seconds() -> float:
    """What all cores have worked since the machine was started; Linux only."""
    times = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(times[:3]) + sum(times[5:7])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
