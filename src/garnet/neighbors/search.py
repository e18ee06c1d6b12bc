"""Nearest-neighbour search, and the base graph G_base built from it (section 3.2 of the paper)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import torch
from torch import Tensor

from garnet.errors import ParameterError, RecallWarning, brief
from garnet.graph.edges import pairs
from garnet.linalg.threads import sharing
from garnet.neighbors.cell_index import CellIndex, probes_needed
from garnet.neighbors.distances import nearest_in_pool
from garnet.neighbors.quantizer import Quantizer, closest, fit_quantizer
from garnet.parameters import Count, Rule, ShareAboveZero, require_parameters

EXACT_UP_TO = 50_000
_EXACT_ON_GPU = 300_000
_ENTRIES = 8  # adjacency entries that one point counts for when estimating whether there is little to do
TRAINING = 24
"""Sample points per cell."""

# Least points in a cell; most, as a multiple of the fair share; and the factor by which cells grow on a GPU.
_SMALLEST_CELL, _LARGEST_CELL, _MORE_ON_GPU = 128, 4, 8


class Neighbors(Protocol):
    """Anything that finds the k other points nearest to each point in Euclidean distance."""

    def __call__(self, points: Tensor, k: int, *, seed: int) -> Tensor:
        """Indices of the neighbours of the (n, d) points, shape (n, k) int64, nearest first."""


@dataclass(frozen=True)
class Exact:
    """Compares every pair, in tiles of one matrix product and one top-k each; on CPU or CUDA."""

    def __call__(self, points: Tensor, k: int, *, seed: int) -> Tensor:
        """See `Neighbors`."""
        with sharing(_ENTRIES * len(points)):
            return _search(_centred(points), torch.arange(len(points), device=points.device), k)[1]


class PointSource(Protocol):
    """Centred points, wherever they are stored."""

    def __len__(self) -> int:
        """Number of points."""

    def take(self, rows: Tensor) -> Tensor:
        """Some of them, (s, d)."""

    def assign(self, quantizer: Quantizer) -> Tensor:
        """The cell of each, (n,)."""

    def nearest(self, rows: Tensor, k: int) -> Tensor:
        """The k nearest others to some of them, (s, k), by comparing them with all points."""

    def closest(self, points: Tensor, centres: Tensor, count: int) -> Tensor:
        """See `garnet.neighbors.quantizer.closest`."""


@dataclass(frozen=True)
class HeldPoints:
    """Points in memory, on any device: see `PointSource`."""

    points: Tensor

    def __len__(self) -> int:
        return len(self.points)

    def take(self, rows: Tensor) -> Tensor:
        """See `PointSource`."""
        return self.points[rows.to(self.points.device)]

    def assign(self, quantizer: Quantizer) -> Tensor:
        """See `PointSource`."""
        return quantizer.assign(self.points)

    def nearest(self, rows: Tensor, k: int) -> Tensor:
        """See `PointSource`."""
        return _search(self.points, rows.to(self.points.device), k)[1]

    def closest(self, points: Tensor, centres: Tensor, count: int) -> Tensor:
        """See `PointSource`."""
        return closest(points, centres, count)


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Points are grouped into cells; the points of a cell are compared with all those of nearby cells at once.

    The number of cells to probe is not guessed: an exact search for a sample shows where neighbours lie.

    Attributes:
        recall: share of the true neighbours to find.
        size: approximate number of points in a cell; None is sqrt(n) / 5, at least 128, or eight times as many on a
            GPU.
        max_probes: maximum number of cells to search for the neighbours of a cell.
        sample: number of points whose true neighbours are computed.
    """

    recall: ShareAboveZero = 0.95
    size: Count | None = None
    max_probes: Count = 256
    sample: Count = 400

    def __post_init__(self) -> None:
        require_parameters(self)

    def __call__(self, points: Tensor, k: int, *, seed: int) -> Tensor:
        """See `Neighbors`."""
        return self.search(points, k, seed=seed)[1]

    def search(self, points: Tensor, k: int, *, seed: int) -> tuple[Tensor, Tensor]:
        """Squared distances and indices of the neighbours, (n, k) each, nearest first."""
        with sharing(_ENTRIES * len(points)):
            points, size = _centred(points, torch.float64), self.points_a_cell(len(points), on_gpu=points.is_cuda)
            if len(points) <= max(8 * size, 2 * k):
                return _search(points, torch.arange(len(points), device=points.device), k)
            index, probes, _ = self.index(HeldPoints(points), k, size=size, seed=seed)
            return index.search(points, k, probes)

    def points_a_cell(self, n: int, *, on_gpu: bool = False) -> int:
        """Approximate number of points in a cell, if there are n points."""
        return self.size or max(_SMALLEST_CELL, round(n**0.5 / 5)) * (_MORE_ON_GPU if on_gpu else 1)

    def index(self, points: PointSource, k: int, *, size: int, seed: int) -> tuple[CellIndex, int, float]:
        """The cells of some points, how many to probe for k neighbours, and the expected recall."""
        n = len(points)
        shuffled = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
        sample = points.take(shuffled[: TRAINING * n // size])
        quantizer = fit_quantizer(sample, n // size, seed=seed, reach=self.max_probes, closest=points.closest)
        owner = points.assign(quantizer)
        index = CellIndex.of(quantizer, owner, largest=_LARGEST_CELL * size, reach=self.max_probes)
        some = shuffled[-self.sample :].to(owner.device)  # not the points that the cells were fitted to
        truth = points.nearest(some, k)
        probes, reached = probes_needed(index.ranked[index.cell[some]], index.cell[truth], self.recall)
        if reached < self.recall - 1e-6:
            warnings.warn(
                f"The search 'Cells' finds about {reached:.3f} of the neighbours with {probes} probes, less than "
                f"recall={self.recall}; in memory, raise max_probes, or use neighbors='exact'.",
                RecallWarning,
                stacklevel=3,
            )
        return index, probes, reached


_SEARCHES: dict[str, type[Exact] | type[Cells]] = {"exact": Exact, "cells": Cells}


def choose_neighbors(n: int, device: str = "cpu") -> Neighbors:
    """Exact search up to 50,000 points, or 300,000 on a GPU, where it takes a second; cells above."""
    return Exact() if n <= (EXACT_UP_TO if torch.device(device).type == "cpu" else _EXACT_ON_GPU) else Cells()


def named_search(name: str) -> Neighbors:
    """The search with this name, `exact` or `cells`, with its default settings."""
    if not issubclass(type(name), str) or name not in _SEARCHES:
        raise ParameterError(f"There is no neighbour search {brief(name)}; choose one of {', '.join(_SEARCHES)}.")
    return _SEARCHES[name]()


def _search_or_name(value: Any) -> str | None:
    named = issubclass(type(value), str) and value in _SEARCHES
    # A class is callable, too, but is not a search: its parentheses were forgotten.
    fine = named or (callable(value) and not issubclass(type(value), type))
    return None if fine else f"one of {', '.join(map(repr, _SEARCHES))} or a search"


Search = Annotated[Neighbors | str, Rule(_search_or_name)]
"""A search, or the name of one."""


def union(neighbors: Tensor, nodes: Tensor | None = None) -> Tensor:
    """The undirected edges between each point and its neighbours; shape (2, m).

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
    return pairs(sources, targets, span)


def across(points: Tensor, first: Tensor, second: Tensor, k: int) -> Tensor:
    """The undirected edges that join each point to its k nearest on the other side; shape (2, m).

    Args:
        points: (n, d) of all nodes.
        first: the nodes of one side.
        second: the nodes of the other side.
        k: neighbours of each point; all points of the other side if there are fewer.
    """
    if not (len(first) and len(second)):
        return first.new_zeros(2, 0)
    centred, ends = _centred(points), []
    for queries, pool in ((first, second), (second, first)):
        _, found = nearest_in_pool(centred[queries], queries, centred[pool], pool, k)
        sources = queries.repeat_interleave(found.shape[1])
        ends.append(torch.stack([sources, found.reshape(-1)])[:, found.reshape(-1) >= 0])
    one, other = torch.cat(ends, dim=1)
    return pairs(one, other, len(points))


def recall(points: Tensor, neighbors: Tensor, *, sample: int = 1000, seed: int = 0) -> float:
    """Share of a random sample's true nearest neighbours that a search has found."""
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(points), generator=generator)[:sample].to(points.device)
    return _overlap(_search(_centred(points, torch.float64), some, neighbors.shape[1])[1], neighbors[some])


def _centred(points: Tensor, precision: torch.dtype | None = None) -> Tensor:
    """The points about their mean: far from the origin, squares would drown the differences in float32.

    Cells need the mean in float64, as for points in parts: its last bit decides which of two cells a point between them
    is in, and every place must find the same edges.
    """
    return (points - points.mean(dim=0, dtype=precision).to(points.dtype)).contiguous()


def _overlap(truth: Tensor, found: Tensor) -> float:
    """Share of the entries of each row of `truth` that are in the same row of `found`."""
    return float((truth[:, :, None] == found[:, None, :]).any(dim=2).float().mean())


def _search(points: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Squared distances and indices of the k points nearest to each query, exactly."""
    return nearest_in_pool(points[queries], queries, points, torch.arange(len(points), device=points.device), k)
