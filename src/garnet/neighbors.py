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
_EXACT_ON_GPU = 300_000
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
        return _search(_centred(points), torch.arange(len(points), device=points.device), k)


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Points fall into small cells; each cell is compared with the cells around it, until recall is as asked.

    All points of a cell share one pool of candidates, so that a cell is one matrix product and one top-k, on any
    device. What is missed lies across the border of a pool, and another partition has its borders elsewhere: partitions
    are added until a sample, searched exactly, shows the recall that was asked for.

    Attributes:
        recall: share of the true neighbours to find.
        size: points in a cell, about.
        candidates: points in a pool, at least; None is 30 k, or 1,000 if that is more.
        max_partitions: when to give up on `recall`.
        sample: points whose true neighbours are looked up to measure it.
    """

    recall: float = 0.95
    size: int = 100
    candidates: int | None = None
    max_partitions: int = 8
    sample: int = 256

    def __call__(self, points: Tensor, k: int, *, seed: int) -> Tensor:
        """See `Neighbors`."""
        points = _centred(points)
        generator = torch.Generator().manual_seed(seed)
        pool = max(self.candidates or max(1000, 30 * k), k + 1)
        if len(points) <= 2 * pool:
            return Exact()(points, k, seed=seed)
        some = torch.randperm(len(points), generator=generator)[: self.sample].to(points.device)
        truth = _search(points, some, k)
        found = _by_cells(points, k, _partition(points, self.size, generator), pool)
        for _ in range(1, self.max_partitions):
            if _overlap(truth, found[1][some]) >= self.recall:
                break
            found = _better_of(found, _by_cells(points, k, _partition(points, self.size, generator), pool))
        return found[1].gather(1, found[0].argsort(dim=1))


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
        return torch.from_numpy(found[others].reshape(n, k)).to(points.device)


def choose_neighbors(n: int, device: str = "cpu") -> Neighbors:
    """Exact search up to 50,000 points, or 300,000 on a GPU, where it takes a second; cells above."""
    return Exact() if n <= (_EXACT_UP_TO if torch.device(device).type == "cpu" else _EXACT_ON_GPU) else Cells()


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
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(points), generator=generator)[:sample].to(points.device)
    return _overlap(_search(_centred(points), some, neighbors.shape[1]), neighbors[some])


def _centred(points: Tensor) -> Tensor:
    """The points about their mean: far from the origin, squares would drown the differences in float32."""
    return (points - points.mean(dim=0)).contiguous()


def _overlap(truth: Tensor, found: Tensor) -> float:
    """Share of the entries of each row of `truth` that the same row of `found` has."""
    return float((truth[:, :, None] == found[:, None, :]).any(dim=2).float().mean())


def _search(points: Tensor, queries: Tensor, k: int) -> Tensor:
    """The k nearest of all points to each query, exactly."""
    everyone = torch.arange(len(points), device=points.device)
    return torch.cat([_nearest(points, part, everyone, part, k)[1] for part in _tiles(queries, len(points))])


def _by_cells(points: Tensor, k: int, cells: list[Tensor], wanted: int) -> tuple[Tensor, Tensor]:
    """Distances and indices of the nearest in the pool of each cell, (n, k) each."""
    sizes = torch.tensor([len(cell) for cell in cells], device=points.device)
    centres = torch.stack([points[cell].mean(dim=0) for cell in cells])
    most = min(len(cells), 8 * wanted * len(cells) // len(points) + 16)
    if int(sizes.topk(most, largest=False).values.sum()) <= k:
        most = len(cells)
    pools = []
    for part in _tiles(torch.arange(len(cells), device=points.device), len(cells)):
        # A cell is the first of those around it, so that its own points lead its pool.
        away = _squared_distances(centres[part], centres)
        away[torch.arange(len(part), device=part.device), part] = -torch.inf
        around = away.topk(most, dim=1, largest=False).indices
        probes = ((sizes[around].cumsum(dim=1) < wanted).sum(dim=1) + 1).clamp(max=most)
        pools += [near[:count] for near, count in zip(around.tolist(), probes.tolist(), strict=True)]
    away = torch.empty(len(points), k, device=points.device)
    found = torch.empty(len(points), k, dtype=torch.int64, device=points.device)
    for cell, near in zip(cells, pools, strict=True):
        pool = torch.cat([cells[other] for other in near])
        for at in _tiles(torch.arange(len(cell), device=points.device), len(pool)):
            mine = cell[at]
            away[mine], found[mine] = _nearest(points, mine, pool, at, k)
    return away, found


def _better_of(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The nearest of two searches, each neighbour once."""
    away, found = (torch.cat(pair, dim=1) for pair in zip(one, other, strict=True))
    found, order = found.sort(dim=1)
    away = away.gather(1, order)
    away[:, 1:][found[:, 1:] == found[:, :-1]] = torch.inf
    away, best = away.topk(one[0].shape[1], dim=1, largest=False)
    return away, found.gather(1, best)


def _nearest(points: Tensor, queries: Tensor, pool: Tensor, at: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """How near, and which, are the k of `pool` nearest to each of `queries`, which stands in the pool at `at`.

    Distances are squared and lack each query's own square, which no comparison within a row sees.
    """
    away = _squared_distances(points.index_select(0, queries), points.index_select(0, pool))
    away[torch.arange(len(at), device=at.device), at] = torch.inf
    away, nearest = away.topk(k, dim=1, largest=False)
    return away, pool[nearest]


def _tiles(indices: Tensor, width: int) -> tuple[Tensor, ...]:
    """Parts of `indices` so short that a matrix of a part's length and the given width stays small."""
    return torch.split(indices, max(1, _TILE // width))


def _squared_distances(queries: Tensor, pool: Tensor) -> Tensor:
    """Squared distances up to a constant for each query, which no comparison within a row sees."""
    return torch.addmm((pool * pool).sum(dim=1)[None, :], queries, pool.T, alpha=-2.0)


def _partition(points: Tensor, size: int, generator: torch.Generator) -> list[Tensor]:
    """Cells of about `size` points: k-means groups, each split by k-means once more."""
    groups = _kmeans_cells(points, round((len(points) / size) ** 0.5), generator)
    split = (_kmeans_cells(points[group], round(len(group) / size), generator) for group in groups)
    return [group[cell] for group, cells in zip(groups, split, strict=True) for cell in cells]


def _kmeans_cells(points: Tensor, cells: int, generator: torch.Generator, rounds: int = 3) -> list[Tensor]:
    """Indices of the points of each cell after a few Lloyd iterations on a sample."""
    if cells <= 1:
        return [torch.arange(len(points), device=points.device)]
    sample = points[torch.randperm(len(points), generator=generator)[: 32 * cells].to(points.device)]
    centres = sample[:cells].clone()
    for _ in range(rounds):
        members = _members(sample, centres)
        for cell, mine in enumerate(members):
            if len(mine):
                centres[cell] = sample[mine].mean(dim=0)
    return [mine for mine in _members(points, centres) if len(mine)]


def _members(points: Tensor, centres: Tensor) -> list[Tensor]:
    """Indices of the points that are closest to each centre."""
    tiles = _tiles(points, len(centres))
    closest = torch.cat([_squared_distances(part, centres).argmin(dim=1) for part in tiles])
    sizes = torch.bincount(closest, minlength=len(centres))
    return list(torch.split(closest.argsort(stable=True), sizes.tolist()))
