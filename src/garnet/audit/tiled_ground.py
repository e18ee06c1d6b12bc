"""What an audit needs of a graph in tiles, and what it sees of a sample of each tile's edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.audit.blocks import Blocks
from garnet.audit.evidence import Reasons
from garnet.audit.looks import Side, seen_of, spoken_of, weights_of
from garnet.graph.graph import Split
from garnet.places.row_files import RowFile, write
from garnet.places.row_store import RowMatrix
from garnet.places.tiled_operator import tile_product
from garnet.places.tiled_scores import points_of, tile_shared_neighbors
from garnet.places.tiled_work import GraphOnDisk
from garnet.places.tiles import TiledGraph
from garnet.purify.features import alikeness
from garnet.purify.memory import thinned
from garnet.purify.suspicion import interpolated, knots_of

RANKED = 1 << 18
"""Edges among which others are ranked; with more, an evenly spaced sample is used. Up to this many, ranks are exact."""

Place = tuple[RowFile, int]
"""Where the rows of a part are stored, and their width."""


@dataclass(frozen=True, eq=False)
class GroundInTiles:
    """See `garnet.audit.blocks.Ground`."""

    work: GraphOnDisk

    @cached_property
    def labels(self) -> NDArray[np.int64] | None:
        """See `Ground`."""
        return self.work.given.labels()

    @cached_property
    def split(self) -> Split | None:
        """See `Ground`."""
        return self.work.given.split()

    def around(self, block: RowMatrix) -> RowMatrix:
        """See `Ground`."""
        return self._product(replace(self.work.given, weighted=False), block, "around")

    def smoothed(self, graph: TiledGraph, block: RowMatrix) -> RowMatrix:
        """See `Ground`."""
        store = self.work.store
        roots = store.new(1)
        for i, file in enumerate(roots.files):
            write(file, (torch.from_numpy(graph.degrees(i)) + 1).rsqrt()[:, None])
        scaled = store.map(torch.mul, block, roots)
        return store.map(_looped, self._product(graph, scaled), scaled, roots)

    def _product(self, graph: TiledGraph, block: RowMatrix, name: str | None = None) -> RowMatrix:
        store = self.work.store
        target = store.new(block.width, name)
        strips = repeat(graph), range(store.count), repeat(block.files), repeat(block.width)
        store.each(_strip_product, *strips, target.files)
        return target


def _looped(sums: Tensor, scaled: Tensor, roots: Tensor) -> Tensor:
    return roots * (sums + scaled)


def _strip_product(graph: TiledGraph, i: int, files: Sequence[RowFile], width: int, target: RowFile) -> None:
    """The rows of part i of the adjacency times a block."""
    image = torch.zeros(graph.bounds[i + 1] - graph.bounds[i], width)
    for j in range(graph.parts):
        image += tile_product(graph, i, j, points_of(graph, j, files[j], width))
    write(target, image)


class PartBlocks(NamedTuple):
    """Where the data on the nodes of a part is stored; see `garnet.audit.looks.Side`."""

    points: Place
    profiles: tuple[Place, Place] | None
    likely: Place | None

    @classmethod
    def of(cls, blocks: Blocks, i: int) -> PartBlocks:
        """The blocks of part i."""

        def there(matrix: RowMatrix) -> Place:
            return matrix.files[i], matrix.width

        profiles = None if blocks.profiles is None else (there(blocks.profiles[0]), there(blocks.profiles[1]))
        return cls(there(blocks.points), profiles, None if blocks.likely is None else there(blocks.likely))

    def read(self, graph: TiledGraph, i: int) -> Side:
        """What is known of the nodes of part i."""
        points, profiles, likely = self
        return Side(
            torch.from_numpy(graph.counts(i)),
            points_of(graph, i, *points),
            None if profiles is None else (points_of(graph, i, *profiles[0]), points_of(graph, i, *profiles[1])),
            None if likely is None else points_of(graph, i, *likely),
        )


def sides_of(graph: TiledGraph, i: int, j: int, places: tuple[PartBlocks, PartBlocks]) -> tuple[Side, Side]:
    """What is known of the nodes of both parts of a tile."""
    left = places[0].read(graph, i)
    return left, left if i == j else places[1].read(graph, j)


class Sample(NamedTuple):
    """What is seen of a graph's edges, or of a sample if there are very many, and of those planted there.

    Attributes:
        edges: (2, s) in the order of their nodes.
        seen: (s,) each, by the names of `garnet.audit.looks.seen_of`.
        planted: (p,) each, by the same names.
        mean_degree: neighbours of a node.
    """

    edges: Tensor
    seen: Mapping[str, Tensor]
    planted: Mapping[str, Tensor]
    mean_degree: float

    def weights(self, work: GraphOnDisk, blocks: Blocks, seed: int) -> dict[str, float]:
        """The weight of each reason."""
        alike = None
        if blocks.profiles is not None:
            features = blocks.profiles[0]
            alike = alikeness(lambda nodes: work.take(features, nodes), self.edges, seed=seed)
        return weights_of(self.mean_degree, alike, blocks.reliable)

    @property
    def ranks(self) -> Ranks:
        """How other edges are ranked among these."""
        said = spoken_of(self.seen, self.mean_degree)
        return Ranks({name: knots_of(told, len(told)) for name, told in said.items()}, self.mean_degree)


class Ranks(NamedTuple):
    """Values against which edges are ranked.

    Attributes:
        knots: for each reason, sorted values of it and the log-odds of their ranks.
        mean_degree: neighbours of a node.
    """

    knots: Mapping[str, tuple[Tensor, Tensor]]
    mean_degree: float

    def reasons(self, seen: Mapping[str, Tensor], weights: Mapping[str, float]) -> Reasons:
        """The reasons for edges, from what is seen of them."""
        said = spoken_of(seen, self.mean_degree)
        ranked = {name: interpolated(told.double(), *self.knots[name]) for name, told in said.items()}
        return Reasons(ranked, weights, {})


def sample_of(work: GraphOnDisk, blocks: Blocks) -> Sample:
    """Sample the edges of a graph in tiles, and those planted there, which are among its own."""
    graph, store = work.graph, work.store
    bounds, parts = torch.tensor(graph.bounds), [PartBlocks.of(blocks, i) for i in range(graph.parts)]
    owners = torch.searchsorted(bounds[1:], work.planted, right=True)
    tasks = [
        (graph, i, j, (parts[i], parts[j]), work.planted[:, (owners[0] == i) & (owners[1] == j)])
        for i in range(graph.parts)
        for j in range(i, graph.parts)
    ]
    names, *found = zip(*store.do("edges", _look, tasks), strict=True)
    edges, seen, planted, new = (torch.cat(every, dim=1) for every in found)
    order, of_new = ((ends[0] * graph.num_nodes + ends[1]).argsort() for ends in (edges, new))
    every, false = (dict(zip(names[0], rows, strict=True)) for rows in (seen[:, order], planted[:, of_new]))
    return Sample(edges[:, order], every, false, 2 * graph.num_edges / graph.num_nodes)


def _look(
    graph: TiledGraph, i: int, j: int, places: tuple[PartBlocks, PartBlocks], planted: Tensor
) -> tuple[tuple[str, ...], Tensor, Tensor, Tensor, Tensor]:
    """Names of what is seen; a sample of a tile's edges with the values; and the same for those planted there."""
    edges = thinned(torch.from_numpy(graph.edges(i, j)), graph.num_edges, RANKED)
    sides, first = sides_of(graph, i, j, places), torch.tensor([[graph.bounds[i]], [graph.bounds[j]]])
    found = [seen_in_tile(graph, i, j, some - first, sides) for some in (edges, planted)]
    rows = [torch.stack([column.double() for column in seen.values()]) for seen in found]
    return tuple(found[0]), edges, rows[0], rows[1], planted


def seen_in_tile(graph: TiledGraph, i: int, j: int, ends: Tensor, sides: tuple[Side, Side]) -> dict[str, Tensor]:
    """What is seen of the edges of a tile; their ends are numbered within their parts."""
    return seen_of(ends, *sides, tile_shared_neighbors(graph, i, j, ends))
