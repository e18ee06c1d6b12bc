"""The embedding of a tiled graph: its leading eigenvectors beside its features, one row a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from garnet.errors import ParameterError
from garnet.places.row_store import Parts, Tall, read, whole, write
from garnet.places.tiled_operator import TiledSpace
from garnet.places.tiles import TiledGraph
from garnet.purify.features import leading_directions, product, scale, unit_rows
from garnet.spectral.arpack import Arpack
from garnet.spectral.chebyshev import Chebyshev
from garnet.spectral.spectrum import End, spread_components

_WIDEST = 8_192  # features of which the squares of all pairs are added up in memory


@dataclass(frozen=True)
class Pairs:
    """Eigenpairs whose vectors lie in files; see `garnet.spectral.spectrum.Spectrum`."""

    values: Tensor
    vectors: Tall
    residuals: Tensor
    products: int


def spectrum(
    graph: TiledGraph, parts: Parts, rank: int, *, tau: float | None, solver: Chebyshev, end: End, seed: int
) -> Pairs:
    """The leading eigenpairs of the normalised adjacency, whose vectors are a `Tall`.

    Args:
        graph: the graph.
        parts: where tall matrices live.
        rank: eigenpairs.
        tau: degree regularisation; None for the adjacency as it is.
        solver: the block solver.
        end: which end of the spectrum leads.
        seed: of the solver.
    """
    spread = torch.zeros(graph.num_nodes, dtype=torch.bool)
    spread[spread_components(torch.from_numpy(components(graph)), rank)] = True
    roots = parts.new(1)
    for i, file in enumerate(roots.files):
        degrees = torch.from_numpy(graph.degrees(i))
        root = torch.ones_like(degrees) if tau is None else torch.where(degrees > 0, (degrees + tau).rsqrt(), 0.0)
        # A node that takes no part has neither row nor column.
        write(file, (root * spread[graph.bounds[i] : graph.bounds[i + 1]])[:, None])
    if solver.fills(graph.num_nodes, rank):
        return _of_a_small_graph(graph, parts, whole(roots), rank, end, seed)
    found = solver.solve(TiledSpace(graph, parts, roots, seed), rank, end)
    vectors: Any = found.vectors
    return Pairs(found.values, parts.map(_where_spread, vectors, roots), found.residuals, found.products)


def _of_a_small_graph(graph: TiledGraph, parts: Parts, roots: Tensor, rank: int, end: End, seed: int) -> Pairs:
    """The same by a dense solver."""
    scaling = sp.diags_array(roots[:, 0].double().numpy())
    matrix = sp.csr_array(scaling @ graph.to_graph().adjacency @ scaling)
    found = Arpack()(matrix, rank, end=end, seed=seed, device="cpu")
    vectors = parts.new(rank)
    for file, rows in zip(vectors.files, torch.split(found.vectors, np.diff(parts.bounds).tolist()), strict=True):
        write(file, rows)
    return Pairs(found.values, vectors, found.residuals, found.products)


def components(graph: TiledGraph) -> NDArray[np.int64]:
    """The component of each node, by one look at every tile of the upper half."""
    n, bounds = graph.num_nodes, graph.bounds
    label = np.arange(n)
    for i in range(graph.parts):
        for j in range(i, graph.parts):
            tile = graph.tile(i, j)
            rows = np.repeat(label[bounds[i] : bounds[i + 1]], np.diff(tile.starts))
            columns = label[bounds[j] : bounds[j + 1]][tile.columns]
            joins = sp.coo_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(n, n))
            label = connected_components(joins, directed=False)[1].astype(np.int64)[label]
    return label


def feature_coordinates(graph: TiledGraph, parts: Parts, kind: str, rank: int | None) -> Tall | None:
    """Coordinates of the nodes' features; see `garnet.purify.features.feature_block`."""
    if kind == "none" or (kind == "auto" and not graph.feature_width):
        return None
    if not graph.feature_width:
        raise ParameterError(f"The 'features' parameter of GARNET is {kind!r}, but the graph has no features.")
    numbers = range(parts.count)
    target = parts.new(0)
    if kind == "raw" or rank is None:
        parts.each(_raw, repeat(graph), numbers, target.files)
        target.width = graph.feature_width
        return target
    if graph.feature_width > _WIDEST:
        raise ParameterError(
            f"The graph has {graph.feature_width} features; with a memory limit or a cluster at most {_WIDEST} are "
            "reduced. Reduce them yourself, or leave them out with features='none'."
        )
    squares = np.zeros((graph.feature_width, graph.feature_width))
    for i in numbers:  # one at a time: each is as large as their sum
        squares += parts.run(_squares, [(graph, i)])[0]
    rank = min(rank, graph.num_nodes, graph.feature_width)
    directions = leading_directions(squares, rank)
    parts.each(_coordinates, repeat(graph), numbers, repeat(directions), target.files)
    target.width = rank
    return target


def ends_of_some_edges(
    graph: TiledGraph, parts: Parts, spectral: Tall, block: Tall, *, most: int, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """How alike the ends of some edges are in V, (m,), and the features of both, (m, d) each; all edges if few."""
    share = min(1.0, most / max(graph.num_edges, 1))
    tiles = [(i, j) for i in range(graph.parts) for j in range(i, graph.parts)]
    tasks = [
        (graph, i, j, [(tall.files[i], tall.files[j], tall.width) for tall in (spectral, block)], share, seed)
        for i, j in tiles
    ]
    alike, first, second = zip(*parts.run(_ends, tasks), strict=True)
    return torch.cat(alike), torch.cat(first), torch.cat(second)


def scaled(scaling: Any, weight: float = 1.0) -> Callable[[Tensor], Tensor]:
    """The function that puts rows on the scale of every other."""
    return lambda rows: weight * scale(rows, scaling)


def _where_spread(vectors: Tensor, roots: Tensor) -> Tensor:
    return torch.where(roots > 0, vectors, 0.0)


def _unit(graph: TiledGraph, i: int) -> Any:
    return unit_rows(graph.features(i))


def _squares(graph: TiledGraph, i: int) -> NDArray[np.float64]:
    rows = _unit(graph, i)
    return product(rows.T, rows)


def _coordinates(graph: TiledGraph, i: int, directions: NDArray[np.float64], target: Any) -> None:
    write(target, torch.from_numpy(product(_unit(graph, i), directions)))


def _raw(graph: TiledGraph, i: int, target: Any) -> None:
    rows: Any = graph.features(i)
    write(target, torch.from_numpy(np.asarray(rows.toarray() if sp.issparse(rows) else rows)))


def _ends(
    graph: TiledGraph, i: int, j: int, files: list[tuple[Any, Any, int]], share: float, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    tile = graph.tile(i, j)
    rows = np.repeat(np.arange(len(tile.starts) - 1), np.diff(tile.starts))
    chosen = np.random.default_rng([seed, i, j]).random(len(rows)) < share
    if i == j:
        chosen &= rows < tile.columns
    u, v = torch.from_numpy(rows[chosen]), torch.from_numpy(tile.columns[chosen].astype(np.int64))
    (spectral_u, spectral_v), (block_u, block_v) = (
        (read(first, width)[u], read(second, width)[v]) for first, second, width in files
    )
    return (spectral_u * spectral_v).sum(dim=1), block_u, block_v
