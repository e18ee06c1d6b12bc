"""Where a purification runs: what every place must be able to do, and no more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from garnet.progress import Progress
from garnet.purify.result import Purification
from garnet.purify.scores import Choice, Critical, Measured, Tally, TileEdges
from garnet.purify.settings import Settings, Shape
from garnet.purify.suspicion import Concentration, Seen, Suspicion
from garnet.spectral.spectrum import Spectrum

Block = Any
"""A tall matrix, one row per node: a tensor in memory, or a handle to what a disk or a cluster holds."""
Base = Any
"""The edges of the base graph, as a place keeps them."""
Scored = Any
"""Edges with all that decides which of them stay, as a place keeps them."""

T = TypeVar("T")


class Embedding(NamedTuple):
    """The points of all nodes, V beside the features, and the spectrum they were made from."""

    points: Block
    spectrum: Spectrum
    feature_weight: float | None


class Pruned(NamedTuple):
    """Which edges were chosen, the resulting counts, and the graph of the edges that stay.

    Where nothing was planted, everything learnt from planted edges is None: the share of edges taken for made up, the
    power to recognise them, what they look like, and what the edges of a node say about one another. The last two are
    also None if the choice was made in an earlier run.
    """

    choice: Choice
    tally: Tally
    scored: Scored
    graph: Any
    share: float | None = None
    power: float | None = None
    learnt: Learnt | None = None
    around: Neighborhoods | None = None


class Learnt(NamedTuple):
    """What planted edges showed about a graph.

    Attributes:
        suspicion: what made-up edges look like.
        edges: (2, g) some edges of the graph.
        log_odds: (g,) that they are made up.
    """

    suspicion: Suspicion
    edges: Tensor
    log_odds: Tensor

    @property
    def share(self) -> float:
        """The estimated share of made-up edges."""
        return float(self.log_odds.sigmoid().mean()) if len(self.log_odds) else 0.0


class Neighborhoods(NamedTuple):
    """What the edges of a node say about one another.

    Attributes:
        concentration: how much the doubt in the other edges of its endpoints counts for an edge; None if nothing is
            doubted.
        sums: (n, 2) the sum over the edges at each node of the probability that each is made up, and their number.
        best: (n, 1) how far each node trusts the edge that it trusts most, before its neighbourhood is upheld.
    """

    concentration: Concentration | None
    sums: Tensor
    best: Tensor


Counted = Callable[[TileEdges, Measured], Tensor]
"""For the edges of a tile, numbers to sum at both endpoints, (m, q)."""
Revised = Callable[[TileEdges, Measured, Tensor, Tensor], tuple[TileEdges, Measured]]
"""The edges of a tile, revised by the values of the nodes on either side, (rows, q) each."""


class Work(Protocol):
    """A graph, wherever it is stored, and what the stages of a purification ask of it.

    Where planted edges determine how much the others are doubted, they are part of the graph that is read, but not
    among the edges that are scored.
    """

    @property
    def shape(self) -> Shape:
        """What decides the settings."""

    def stage(self, name: str, compute: Callable[[], T]) -> T:
        """The result of a stage, timed and reported; or its earlier result, if a run is resumed."""

    def spectrum(self, settings: Settings) -> Spectrum:
        """The leading eigenpairs of the normalised adjacency; their vectors form a block."""

    def features(self, settings: Settings) -> Block | None:
        """Coordinates of the nodes' features; see `garnet.purify.features.feature_block`."""

    def map(self, work: Callable[..., Tensor], *blocks: Block, name: str | None = None) -> Block:
        """`work` applied to the rows of some blocks, row by row; a named result survives an interrupted run."""

    def take(self, block: Block, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""

    def edge_likeness(self, block: Block) -> tuple[Tensor, Tensor]:
        """Edges of the input, (2, s), a sample if very many; and the inner product of each edge's rows, (s,)."""

    def base_graph(self, points: Block, settings: Settings) -> Base:
        """Each node joined to its k nearest."""

    def base_embedding(self, base: Base, rank: int, settings: Settings) -> Tensor:
        """U of section 3.3: this many weighted eigenvectors of the base graph's Laplacian."""

    def seen(self, embedding: Embedding) -> Seen:
        """What is observed about planted edges and others."""

    def score(
        self, embedding: Embedding, base: Base, settings: Settings, critical: Critical, suspicion: Suspicion | None
    ) -> Scored:
        """All edges of the base graph and of the input, with what speaks for and against them.

        With a suspicion, the support of an edge is the log-odds that it is true.
        """

    def at_nodes(self, scored: Scored, of: Counted, *, largest: bool = False) -> Tensor:
        """The sums over the edges at each node, (n, q) in float64; or the largest value, at least zero."""

    def revise(self, name: str, scored: Scored, of: Revised, nodes: Tensor) -> Scored:
        """All edges, revised by the values of their endpoints, (n, q), under a new name."""

    def quantile(self, scored: Scored, column: Literal["score", "support"], share: float) -> float:
        """The score below which a share of the base edges lies, or the support, for edges of the input."""

    def tally(self, scored: Scored, choice: Choice) -> Tally:
        """The counts that a choice would give."""

    def gather(self, scored: Scored, choice: Choice, tally: Tally) -> Any:
        """The graph of the edges that stay."""

    def result(self, settings: Settings, embedding: Embedding, base: Base, pruned: Pruned) -> Purification:
        """The result for the user."""


@runtime_checkable
class Place(Protocol):
    """Where a purification runs: `garnet.InMemory`, `garnet.OnDisk` or `garnet.OnCluster`."""

    def open(
        self, method: Any, graph: Any, *, symmetrize: bool, progress: Progress | None
    ) -> AbstractContextManager[Work | Purification]:
        """The graph, ready for work; or the result, if the very same call has been made before."""
