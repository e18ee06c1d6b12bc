"""The eigenvectors and the features of a tiled graph, as matrices whose rows are in parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from garnet.errors import GarnetError, ParameterError
from garnet.places.held_matrix import release
from garnet.places.row_files import RowFile, write
from garnet.places.row_store import RowMatrix, RowStore, whole
from garnet.places.tiled_operator import TiledSpace
from garnet.places.tiles import TiledGraph
from garnet.purify.features import leading_directions, product, unit_rows
from garnet.purify.settings import Settings
from garnet.spectral import Arpack, Chebyshev, Spectrum
from garnet.spectral.spectrum import eigengap, spread_components

_WIDEST = 8_192  # most features whose Gram matrix is summed in memory


def tiled_spectrum(
    graph: TiledGraph, store: RowStore, settings: Settings, solver: Chebyshev, *, columns: int = 0
) -> Spectrum:
    """The leading eigenpairs of the normalised adjacency; their vectors are a `RowMatrix`.

    Args:
        graph: the graph.
        store: where matrices are kept.
        settings: rank, which end of the spectrum leads, degree regularisation and seed.
        solver: the block solver.
        columns: columns that a task may filter; 0 if no process may hold the part of the adjacency that this takes.
    """
    rank = settings.rank
    spread = torch.zeros(graph.num_nodes, dtype=torch.bool)
    spread[spread_components(torch.from_numpy(components(graph)), rank)] = True
    roots = store.new(1)
    for i, file in enumerate(roots.files):
        degrees = torch.from_numpy(graph.degrees(i))
        root = torch.ones_like(degrees)
        if settings.normalize:
            root = torch.where(degrees > 0, (degrees + settings.tau).rsqrt(), 0.0)
        # A node left out has neither row nor column.
        write(file, (root * spread[graph.bounds[i] : graph.bounds[i + 1]])[:, None])
    if solver.fills(graph.num_nodes, rank):
        found = _of_a_small_graph(graph, store, whole(roots), settings)
    else:
        with released(store):
            space = TiledSpace(graph, store, roots, settings.seed, columns=columns)
            found = solver.solve(space, rank, settings.end)
    kept = eigengap(found.values) if settings.by_eigengap else rank
    every: Any = found.vectors
    vectors: Any = store.map(_leading(kept), every, roots)
    return Spectrum(found.values[:kept], vectors, found.residuals[:kept], found.products)


@contextmanager
def released(store: RowStore) -> Iterator[None]:
    """Every process that holds the adjacency for this work drops it afterwards."""
    try:
        yield
    except GarnetError:  # perhaps nothing answers any more
        raise
    except BaseException:
        store.everywhere(release)
        raise
    store.everywhere(release)


def _leading(kept: int) -> Any:
    return lambda vectors, roots: torch.where(roots > 0, vectors[:, :kept], 0.0)


def _of_a_small_graph(graph: TiledGraph, store: RowStore, roots: Tensor, settings: Settings) -> Spectrum:
    """The same by a dense solver."""
    scaling = sp.diags_array(roots[:, 0].double().numpy())
    matrix = sp.csr_array(scaling @ graph.to_graph().adjacency @ scaling)
    found = Arpack()(matrix, settings.rank, end=settings.end, seed=settings.seed, device="cpu")
    vectors: Any = store.new(settings.rank)
    for file, rows in zip(vectors.files, torch.split(found.vectors, np.diff(store.bounds).tolist()), strict=True):
        write(file, rows)
    return Spectrum(found.values, vectors, found.residuals, found.products)


def components(graph: TiledGraph) -> NDArray[np.int64]:
    """The component of each node, by one pass over the upper tiles until there is nothing left to join."""
    n, bounds = graph.num_nodes, graph.bounds
    label = np.arange(n)
    joined = np.flatnonzero(np.concatenate([graph.counts(i) for i in range(graph.parts)]))
    for i in range(graph.parts):
        if (label[joined] == label[joined[:1]]).all():
            break
        for j in range(i, graph.parts):
            tile = graph.tile(i, j)
            rows = np.repeat(label[bounds[i] : bounds[i + 1]], np.diff(tile.starts))
            columns = label[bounds[j] : bounds[j + 1]][tile.columns]
            apart = np.flatnonzero(rows != columns)  # soon most endpoints are known to be in the same component
            if len(apart):
                both = rows[apart], columns[apart]
                joins = sp.coo_array((np.ones(len(apart), np.int8), both), shape=(n, n))
                label = connected_components(joins, directed=False)[1].astype(np.int64)[label]
    return label


def tiled_features(graph: TiledGraph, store: RowStore, settings: Settings) -> RowMatrix | None:
    """Coordinates of the nodes' features; see `garnet.purify.features.feature_block`."""
    width, rank = graph.feature_width or 0, settings.feature_rank
    if settings.features == "none":
        return None
    numbers, target = range(store.count), store.new(width)
    if settings.features == "raw" or rank is None:
        store.each(_raw, repeat(graph), numbers, target.files)
        return target
    if width > _WIDEST:
        raise ParameterError(
            f"The graph has {width} features; with a memory limit or a cluster at most {_WIDEST} are reduced. Reduce "
            "them yourself, or leave them out with features='none'."
        )
    squares = np.zeros((width, width))
    for i in numbers:  # one at a time: each is as large as their sum
        squares += store.run(_squares, [(graph, i)])[0]
    directions = leading_directions(squares, min(rank, graph.num_nodes, width))
    store.each(_coordinates, repeat(graph), numbers, repeat(directions), target.files)
    target.width = directions.shape[1]
    return target


def _squares(graph: TiledGraph, i: int) -> NDArray[np.float64]:
    rows = unit_rows(graph.features(i))
    return product(rows.T, rows)


def _coordinates(graph: TiledGraph, i: int, directions: NDArray[np.float64], target: RowFile) -> None:
    write(target, torch.from_numpy(product(unit_rows(graph.features(i)), directions)))


def _raw(graph: TiledGraph, i: int, target: RowFile) -> None:
    rows: Any = graph.features(i)
    write(target, torch.from_numpy(np.asarray(rows.toarray() if sp.issparse(rows) else rows)))
