"""The whole graph in memory, on a CPU or a GPU: all points are one block, all edges one tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from garnet.errors import ParameterError
from garnet.graph.edges import among, numbers
from garnet.graph.graph import Graph, as_graph
from garnet.graph.sides import warn_of_sides
from garnet.linalg.common_neighbors import shared_neighbors
from garnet.linalg.device_graph import Resident, joined, restricted
from garnet.linalg.edge_products import inner_products
from garnet.linalg.threads import sharing
from garnet.neighbors.search import Search, across, choose_neighbors, named_search, union
from garnet.parameters import Device, require_device, require_parameters
from garnet.progress import Clock, Progress
from garnet.purify.features import feature_block
from garnet.purify.graphical_model import base_embedding
from garnet.purify.judge import Judge
from garnet.purify.place import Counted, Embedding, Pruned, Revised
from garnet.purify.planting import planted_pairs
from garnet.purify.quantile import quantile_of
from garnet.purify.result import Ledger, Purification
from garnet.purify.scores import Choice, Critical, Measured, Tally, TileEdges, gathered, measure, merged
from garnet.purify.settings import Settings, Shape
from garnet.purify.suspicion import MOST_LEARNT, Seen, Suspicion, looks
from garnet.purify.verdicts import Later
from garnet.spectral import Chebyshev, choose_solver
from garnet.spectral.spectrum import Solver, Spectrum, eigengap, spread_components

_EDGES = 1 << 27
"""Edges that are looked at together."""

MOST_EDGES = 5_000_000
"""Edges compared to find the weight of features; a regular sample if there are more."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class InMemory:
    """Purify in this process, with the whole graph in memory.

    Attributes:
        device: `cpu`, `cuda`, or any that torch knows.
        solver: the eigensolver; None chooses by size.
        neighbors: the nearest-neighbour search: `exact`, `cells` or your own; None chooses by size.
        spectrum: leading eigenpairs of this very graph, if known; they are cut to the rank.
    """

    device: Device = "cpu"
    solver: Solver | None = None
    neighbors: Search | None = None
    spectrum: Spectrum | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_parameters(self)

    @contextmanager
    def open(
        self, method: Any, graph: Any, *, symmetrize: bool = False, progress: Progress | None = None
    ) -> Iterator[GraphInMemory]:
        """See `Place`."""
        graph = as_graph(graph, symmetrize=symmetrize)
        require_device(self.device, "InMemory")
        with sharing(graph):
            yield GraphInMemory(graph, self, method, Clock(progress))


class ScoredEdges(NamedTuple):
    """All edges, sorted, and what speaks for and against each of them."""

    edges: TileEdges
    measured: Measured

    def some_at_a_time(self) -> Iterator[ScoredEdges]:
        """The edges, in batches small enough for their intermediate results."""
        for edges, first in some_of(self.edges):
            yield ScoredEdges(edges, Measured(*(part[first : first + len(edges.near)] for part in self.measured)))


def some_of(edges: TileEdges) -> Iterator[tuple[TileEdges, int]]:
    """Batches of edges, and the number of the first edge of each."""
    for first in range(0, max(len(edges.near), 1), _EDGES):
        some = slice(first, first + _EDGES)
        yield TileEdges(edges.ends[:, some], edges.near[some], edges.given[some]), first


def put_together(pieces: Iterable[Measured]) -> Measured:
    """The results of all batches together."""
    one, *others = pieces
    return Measured(*map(torch.cat, zip(one, *others, strict=True))) if others else one


@dataclass(frozen=True, eq=False)
class GraphInMemory:
    """See `Work`."""

    graph: Graph
    place: InMemory
    method: Any
    clock: Clock

    @cached_property
    def shape(self) -> Shape:
        """See `Work`."""
        return Shape.of(self.graph)

    @cached_property
    def given(self) -> Resident:
        """The input adjacency, on the device."""
        return Resident.of(self.graph, self.place.device)

    @cached_property
    def planted(self) -> Tensor:
        """Planted edges, (2, p), where they determine how much the others are doubted."""
        given, n = self.given, self.graph.num_nodes
        if self.method.support != "auto":
            return given.edges[:, :0]

        sides = None if self.graph.sides is None else torch.from_numpy(self.graph.sides)

        def joined(pairs: Tensor) -> Tensor:
            found = among(given.edges, pairs.to(given.edges.device), n).cpu()
            # Between nodes of one side, a made-up edge would be no challenge.
            return found if sides is None else found | (sides[pairs[0]] == sides[pairs[1]])

        return planted_pairs(given.counts, joined, seed=self.method.seed).to(given.edges.device)

    @cached_property
    def on_device(self) -> Resident:
        """The adjacency to read, including the planted edges."""
        if not self.planted.shape[1]:
            return self.given
        return self.given.joining(self.planted, float(self.given.weights.double().mean()))

    def stage(self, name: str, compute: Callable[[], T]) -> T:
        """See `Work`."""
        with self.clock(name):
            return compute()

    def spectrum(self, settings: Settings) -> Spectrum:
        """See `Work`."""
        if self.place.spectrum is not None:
            if settings.support == "planted":
                raise ParameterError(
                    "The 'spectrum' of InMemory is that of the graph alone, but support='auto' reads it with planted "
                    "edges; leave the spectrum out, or give 'support' as a share."
                )
            return _cut(self.place.spectrum, settings, self.graph.num_nodes)
        adjacency, n = self.on_device, self.graph.num_nodes
        matrix = adjacency.normalized(settings.tau) if settings.normalize else adjacency.matrix()
        nodes = spread_components(adjacency.components(), settings.rank)
        if len(nodes) < n:
            matrix = restricted(matrix, nodes)
        solver, device = self._solver, self.place.device
        stays = isinstance(solver, Chebyshev) and device != "cpu" and not solver.fills(len(nodes), settings.rank)
        given = matrix if stays else matrix.to_scipy()
        found = solver(given, settings.rank, end=settings.end, seed=settings.seed, device=device).scatter(nodes, n)
        return found.truncate(eigengap(found.values)) if settings.by_eigengap else found

    def features(self, settings: Settings) -> Tensor | None:
        """See `Work`."""
        kind, rank = settings.features, settings.feature_rank
        return feature_block(self.graph, kind, rank, seed=settings.seed, device=self.place.device)

    def map(self, work: Callable[..., Tensor], *blocks: Tensor, name: str | None = None) -> Tensor:
        """See `Work`."""
        return work(*blocks)

    def take(self, block: Tensor, nodes: Tensor) -> Tensor:
        """See `Work`."""
        return block[nodes.to(block.device)]

    def edge_likeness(self, block: Tensor) -> tuple[Tensor, Tensor]:
        """See `Work`."""
        edges = thinned(self.on_device.edges, self.graph.num_edges)
        return edges, inner_products(block, block, edges)

    def base_graph(self, points: Tensor, settings: Settings) -> Tensor:
        """G_base, (2, m). A node without spectral coordinates or features has no neighbours but its own."""
        known = points.abs().amax(dim=1).nonzero()[:, 0]
        k = min(settings.k, len(known) - 1)
        if k < 1:
            return known.new_zeros(2, 0)
        if self.graph.sides is not None:
            return self._across(points, known, settings.k)
        search = self.place.neighbors or choose_neighbors(len(known), self.place.device)
        if isinstance(search, str):
            search = named_search(search)
        return union(search(points[known], k, seed=settings.seed), known)

    def _across(self, points: Tensor, known: Tensor, k: int) -> Tensor:
        """The same for a bipartite graph: neighbours are on the other side, and all pairs are compared."""
        if self.place.neighbors not in (None, "exact"):
            raise ParameterError(
                "The 'neighbors' parameter of InMemory must be left out for a bipartite graph, whose nodes are "
                "compared with all nodes of the other side."
            )
        second = torch.from_numpy(self.graph.sides).to(known.device)[known]
        return across(points, known[~second], known[second], k)

    def base_embedding(self, base: Tensor, rank: int, settings: Settings) -> Tensor:
        """See `Work`."""
        # Where nothing is added, the comparison is with the input itself.
        compared = self.graph.with_edges(base.cpu().numpy()) if base.shape[1] else self.graph
        return base_embedding(
            compared, rank, settings.sigma2, self._solver, seed=settings.seed, device=self.place.device
        )

    def seen(self, embedding: Embedding) -> Seen:
        """See `Work`."""
        some = thinned(self.given.edges, self.graph.num_edges, MOST_LEARNT)
        return Seen(some, self._looks(embedding, some), self._looks(embedding, self.planted))

    def _looks(self, embedding: Embedding, edges: Tensor) -> Tensor:
        counts, points, rank = self.on_device.counts, embedding.points, embedding.spectrum.rank
        shared = shared_neighbors(self.on_device, edges, joined=True)
        mean = len(self.on_device.columns) / self.graph.num_nodes
        return looks(edges, (points, points), (counts, counts), shared, rank, mean)

    def score(
        self, embedding: Embedding, base: Tensor, settings: Settings, critical: Critical, suspicion: Suspicion | None
    ) -> ScoredEdges:
        """See `Work`."""
        edges = merged(base, self.given.edges, self.graph.num_nodes)
        if settings.only_drop:
            edges = edges.of_input()
        pieces = (self._measured(some, embedding, settings, critical, suspicion) for some, _ in some_of(edges))
        measured = put_together(pieces)
        if settings.weight in ("given", "trust"):
            measured.weight[edges.given] = self.given.edge_weights
        return ScoredEdges(edges, measured)

    def _measured(
        self,
        edges: TileEdges,
        embedding: Embedding,
        settings: Settings,
        critical: Critical,
        suspicion: Suspicion | None,
    ) -> Measured:
        """What is found about some edges."""
        measured = measure(edges, embedding.points, embedding.points, settings, critical)
        ends = edges.ends[:, edges.given]
        if suspicion is not None:
            told = -suspicion.log_odds(self._looks(embedding, ends))
            measured.support[edges.given] = told.to(measured.support).masked_fill(
                measured.score[edges.given].isinf(), math.inf
            )
        elif settings.support is not None and settings.overlap:
            measured.support[edges.given] += settings.overlap * shared_neighbors(self.given, ends, joined=True)
        return measured

    def at_nodes(self, scored: ScoredEdges, of: Counted, *, largest: bool = False) -> Tensor:
        """See `Work`."""
        n = self.graph.num_nodes

        def sums() -> Iterator[Tensor]:
            for edges, measured in scored.some_at_a_time():
                found = of(edges, measured)
                yield from (gathered(found, end, n, largest=largest) for end in edges.ends)

        return reduce(torch.maximum if largest else torch.add, sums())

    def revise(self, name: str, scored: ScoredEdges, of: Revised, nodes: Tensor) -> ScoredEdges:
        """See `Work`."""
        nodes = nodes.to(scored.measured.score.device, torch.float32)
        edges, measured = zip(*(of(*some, nodes, nodes) for some in scored.some_at_a_time()), strict=True)
        near = torch.cat([some.near for some in edges])
        return ScoredEdges(scored.edges._replace(near=near), put_together(measured))

    def quantile(self, scored: ScoredEdges, column: Literal["score", "support"], share: float) -> float:
        """See `Work`."""
        if column == "score":
            return quantile_of(scored.measured.score[scored.edges.near], share)
        return quantile_of(scored.measured.support[scored.edges.given], share)

    def tally(self, scored: ScoredEdges, choice: Choice) -> Tally:
        """See `Work`."""
        return Tally.of(choice, *scored)

    def gather(self, scored: ScoredEdges, choice: Choice, tally: Tally) -> Graph:
        """See `Work`."""
        stays = choice.stays(scored.edges.near, scored.measured)
        weights = scored.measured.weight[stays].clamp_min(choice.floor)
        return replace(self.graph, adjacency=joined(scored.edges.ends[:, stays], weights, self.graph.num_nodes))

    def result(self, settings: Settings, embedding: Embedding, base: Tensor, pruned: Pruned) -> Purification:
        """See `Work`."""
        (edges, measured), n = pruned.scored, self.graph.num_nodes
        stays = pruned.choice.stays(edges.near, measured)
        trust = measured.support if settings.support == "planted" else None
        if self.graph.sides is None and pruned.tally.added:
            warn_of_sides(self.graph.adjacency, pruned.graph.adjacency)
        return Purification(
            graph=pruned.graph,
            spectrum=embedding.spectrum,
            ledger=Ledger(edges.ends, measured.score, edges.given, stays, n, edges.near, trust, self.graph.names),
            threshold=pruned.choice.threshold,
            settings=settings,
            parameters=self.method,
            place=repr(self.place),
            stages=tuple(self.clock.stages),
            later=self._later(settings, embedding, pruned),
        )

    def _later(self, settings: Settings, embedding: Embedding, pruned: Pruned) -> Later:
        """The judge of later edges; the points of all nodes are not kept for it, but recomputed."""
        edges, measured = pruned.scored
        bare = Embedding(None, embedding.spectrum, embedding.feature_weight)
        decided = pruned._replace(scored=None, graph=None)
        return partial(Judge.of, self.graph, self.planted, settings, bare, decided, measured.support[edges.given])

    @property
    def _solver(self) -> Solver:
        return self.place.solver or choose_solver(self.graph.num_nodes)


def _cut(known: Spectrum, settings: Settings, nodes: int) -> Spectrum:
    """The leading pairs of a known spectrum."""
    if len(known.vectors) != nodes or known.rank < settings.rank:
        raise ParameterError(
            f"The 'spectrum' of InMemory has {known.rank} eigenpairs of {len(known.vectors)} nodes; "
            f"give one of at least {settings.rank} pairs and {nodes} nodes, that of the graph itself."
        )
    found = known.truncate(settings.rank)
    return found.truncate(eigengap(found.values)) if settings.by_eigengap else found


def thinned(edges: Tensor, total: int, most: int = MOST_EDGES) -> Tensor:
    """All edges (2, m), or if there are more than `most`, those whose number is a multiple of some step.

    The selection does not depend on where the edges are stored.
    """
    every = math.ceil(total / most)
    return edges if every <= 1 else edges[:, numbers(edges[0], edges[1], 1_000_003) % every == 0]
