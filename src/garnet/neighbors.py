"""Nearest-neighbour search, and the base graph G_base that it gives (section 3.2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from garnet.edges import canonical
from garnet.errors import MissingExtra
from garnet.graph import Edges

_EXACT_UP_TO = 50_000
_TILE = 1 << 24


class Neighbors(Protocol):
    """Anything that finds the k nearest other points, in Euclidean distance, of each point."""

    def __call__(self, points: Tensor, k: int, *, seed: int) -> Tensor:
        """Indices, shape (n, k) int64, nearest first, of the neighbours of the (n, d) points."""


@dataclass(frozen=True)
class Exact:
    """Every pair compared, in tiles of one matrix product and one top-k; on CPU or CUDA."""

    def __call__(self, points: Tensor, k: int, *, seed: int) -> Tensor:
        """See `Neighbors`."""
        everyone = torch.arange(len(points), device=points.device)
        return torch.cat([_nearest(points, mine, everyone, mine, k) for mine in _tiles(everyone, len(points))])


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Points fall into k-means cells; each cell is compared with the cells around it.

    All queries of a cell share one set of candidates, so that a cell is one matrix product and one top-k, whatever the
    device. Cells are probed from the nearest outwards until `candidates` points are in hand.

    Attributes:
        cells: number of cells; None is about 2.5 sqrt(n).
        candidates: points to compare each query with, at least; None is 2000, or 20 k if that is more.
        rounds: k-means iterations, on a sample of 64 points a cell.
    """

    cells: int | None = None
    candidates: int | None = None
    rounds: int = 6

    def __call__(self, points: Tensor, k: int, *, seed: int) -> Tensor:
        """See `Neighbors`."""
        n = len(points)
        cells = min(self.cells or round(2.5 * n**0.5), n)
        wanted = min(max(self.candidates or 2000, 20 * k), n)
        centres = _kmeans(points, cells, self.rounds, seed)
        cell_of = _closest(points, centres)
        order = cell_of.argsort(stable=True)
        sizes = torch.bincount(cell_of, minlength=cells)
        stop = sizes.cumsum(0)
        members = [order[b - s : b] for b, s in zip(stop.tolist(), sizes.tolist(), strict=True)]
        between = _squared_distances(centres, centres)
        around = between.fill_diagonal_(-torch.inf).argsort(dim=1)
        reach = sizes[around].cumsum(dim=1)
        probes = ((reach < wanted).sum(dim=1) + 1).clamp(max=cells)

        found = torch.empty(n, k, dtype=torch.int64, device=points.device)
        for cell, mine in enumerate(members):
            if len(mine):
                pool = torch.cat([members[c] for c in around[cell, : probes[cell]].tolist()])
                # A cell is the first of those around it, so its own points lead the pool.
                for at in _tiles(torch.arange(len(mine), device=points.device), len(pool)):
                    found[mine[at]] = _nearest(points, mine[at], pool, at, k)
        return found


@dataclass(frozen=True, kw_only=True)
class Ivf:
    """The inverted file of faiss, on CPU.

    Attributes:
        cells: number of inverted lists; None is about 2.5 sqrt(n).
        probes: lists searched for each query.
    """

    cells: int | None = None
    probes: int = 16

    def __call__(self, points: Tensor, k: int, *, seed: int) -> Tensor:
        """See `Neighbors`."""
        try:
            import faiss
        except ImportError as error:
            raise MissingExtra("faiss", "The search 'Ivf'", "faiss-cpu") from error
        data = np.ascontiguousarray(points.cpu().numpy(), dtype=np.float32)
        n, dimension = data.shape
        cells = min(self.cells or round(2.5 * n**0.5), max(1, n // 40))
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(dimension), dimension, cells)
        index.cp.seed = seed % (1 << 31) or 1
        index.train(data)
        index.add(data)
        index.nprobe = min(self.probes, cells)
        _, found = index.search(data, k + 1)
        while (found < 0).any() and index.nprobe < cells:
            index.nprobe = min(4 * index.nprobe, cells)
            _, found = index.search(data, k + 1)
        others = found != np.arange(n)[:, None]
        others &= np.cumsum(others, axis=1) <= k
        others[others.sum(axis=1) < k, -1] = True
        return torch.from_numpy(found[others].reshape(n, k)).to(points.device)


def choose_neighbors(n: int) -> Neighbors:
    """Exact search up to 50,000 points, cells above."""
    return Exact() if n <= _EXACT_UP_TO else Cells()


def union(neighbors: Tensor, nodes: Tensor | None = None) -> Edges:
    """The undirected edges that join each point to its neighbours, or a neighbour to it; shape (2, m).

    Args:
        neighbors: (n, k) indices.
        nodes: (n,) node number of each point; None is 0 .. n-1.
    """
    n, k = neighbors.shape
    sources = torch.arange(n, device=neighbors.device).repeat_interleave(k)
    targets = neighbors.reshape(-1)
    if nodes is not None:
        sources, targets = nodes[sources], nodes[targets]
    span = n if nodes is None else int(nodes.max()) + 1
    return canonical(sources.cpu().numpy(), targets.cpu().numpy(), span)


def recall(points: Tensor, neighbors: Tensor, *, sample: int = 1000, seed: int = 0) -> float:
    """Share of the true nearest neighbours of a random sample of points that a search has found."""
    n, k = neighbors.shape
    chosen = np.random.default_rng(seed).choice(n, size=min(sample, n), replace=False)
    mine = torch.from_numpy(chosen).to(points.device)
    everyone = torch.arange(n, device=points.device)
    truth = torch.cat([_nearest(points, part, everyone, part, k) for part in _tiles(mine, n)])
    hits = (truth[:, :, None] == neighbors[mine][:, None, :]).any(dim=2)
    return float(hits.float().mean())


def _nearest(points: Tensor, queries: Tensor, pool: Tensor, at: Tensor, k: int) -> Tensor:
    """The k of `pool` nearest to each of `queries`, which itself stands in the pool at `at`."""
    away = _squared_distances(points[queries], points[pool])
    away[torch.arange(len(at), device=at.device), at] = torch.inf
    return pool[away.topk(k, dim=1, largest=False).indices]


def _tiles(indices: Tensor, width: int) -> tuple[Tensor, ...]:
    """Parts of `indices` so short that a matrix of a part's length and the given width stays small."""
    return torch.split(indices, max(1, _TILE // width))


def _squared_distances(queries: Tensor, pool: Tensor) -> Tensor:
    """Squared distances up to a constant for each query, which no comparison within a row sees."""
    return torch.addmm((pool * pool).sum(dim=1)[None, :], queries, pool.T, alpha=-2.0)


def _closest(points: Tensor, centres: Tensor) -> Tensor:
    return torch.cat([_squared_distances(part, centres).argmin(dim=1) for part in _tiles(points, len(centres))])


def _kmeans(points: Tensor, cells: int, rounds: int, seed: int) -> Tensor:
    """Centres of a few Lloyd iterations on a sample; a cell that runs empty keeps its centre."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(points), generator=generator)[: 64 * cells].to(points.device)
    sample = points[chosen]
    centres = sample[:cells].clone()
    for _ in range(rounds):
        cell_of = _closest(sample, centres)
        order = cell_of.argsort(stable=True)
        sums = torch.segment_reduce(sample[order], "sum", lengths=torch.bincount(cell_of, minlength=cells))
        sizes = torch.bincount(cell_of, minlength=cells)
        filled = sizes > 0
        centres[filled] = sums[filled] / sizes[filled, None]
    return centres
