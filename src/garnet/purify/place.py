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
"""A tall matrix, one row a node: a tensor in memory, or a handle to what a disk or a cluster holds."""
Base = Any
"""The edges of the base graph, as a place keeps them."""
Scored = Any
"""Edges with all that decides which of them stay, as a place keeps them."""

T = TypeVar("T")


class Embedding(NamedTuple):
    """The points of all nodes, V beside the features, and the spectrum that they were made of."""

    points: Block
    spectrum: Spectrum
    feature_weight: float | None


class Pruned(NamedTuple):
    """The choice that was made between the edges, what it came to, and the graph of those that stay.

    Where nothing was planted, all that planted edges tell is None: the share of the edges that is taken for made up,
    the power to tell, what they look like, and what the edges of a node say of one another. The last two are None, too,
    where the choice was made in an earlier run.
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
    """What planted edges told of a graph.

    Attributes:
        suspicion: what made-up edges look like.
        edges: (2, g) some edges of the graph.
        log_odds: (g,) of their being made up.
    """

    suspicion: Suspicion
    edges: Tensor
    log_odds: Tensor

    @property
    def share(self) -> float:
        """About which share of the edges is made up."""
        return float(self.log_odds.sigmoid().mean()) if len(self.log_odds) else 0.0


class Neighborhoods(NamedTuple):
    """What the edges of a node say of one another.

    Attributes:
        concentration: how the doubt in the other edges of its ends counts for an edge; None where nothing is doubted.
        sums: (n, 2) the sum of the chances of all edges at each node to be made up, and the number of these.
        best: (n, 1) how far each node trusts the edge that it trusts most, before its neighbourhood is upheld.
    """

    concentration: Concentration | None
    sums: Tensor
    best: Tensor


Counted = Callable[[TileEdges, Measured], Tensor]
"""Of the edges of a tile, numbers that are added up at both of their ends, (m, q)."""
Revised = Callable[[TileEdges, Measured, Tensor, Tensor], tuple[TileEdges, Measured]]
"""The edges of a tile as they become when the numbers of the nodes at either side are known, (rows, q) each."""


class Work(Protocol):
    """A graph that lies somewhere, and what the stages of a purification ask of it.

    Where planted edges are to tell how much the others are doubted, they are part of the graph that is read, but not of
    its edges that are scored.
    """

    @property
    def shape(self) -> Shape:
        """What decides the settings."""

    def stage(self, name: str, compute: Callable[[], T]) -> T:
        """What a stage computes, timed and told of; or what it computed before, where a run goes on."""

    def spectrum(self, settings: Settings) -> Spectrum:
        """The leading eigenpairs of the normalised adjacency; their vectors are a block."""

    def features(self, settings: Settings) -> Block | None:
        """Coordinates of the nodes' features; see `garnet.purify.features.feature_block`."""

    def map(self, work: Callable[..., Tensor], *blocks: Block, name: str | None = None) -> Block:
        """What `work` makes of the rows of some blocks, row by row; what has a name outlives a run that is stopped."""

    def take(self, block: Block, nodes: Tensor) -> Tensor:
        """The rows of some nodes."""

    def edge_likeness(self, block: Block) -> tuple[Tensor, Tensor]:
        """Edges of the input, (2, s), all or of very many some; and the inner product of the rows of each, (s,)."""

    def base_graph(self, points: Block, settings: Settings) -> Base:
        """Each node joined to its k nearest."""

    def base_embedding(self, base: Base, rank: int, settings: Settings) -> Tensor:
        """U of section 3.3: so many eigenvectors of the base graph's Laplacian, weighted."""

    def seen(self, embedding: Embedding) -> Seen:
        """What is seen of planted edges and of others."""

    def score(
        self, embedding: Embedding, base: Base, settings: Settings, critical: Critical, suspicion: Suspicion | None
    ) -> Scored:
        """All edges of the base graph and of the input, with what speaks for and against them.

        With a suspicion, the support of an edge is the log-odds of its being true.
        """

    def at_nodes(self, scored: Scored, of: Counted, *, largest: bool = False) -> Tensor:
        """The sums at each node, (n, q) in float64, of what is counted of its edges; or the largest, at least zero."""

    def revise(self, name: str, scored: Scored, of: Revised, nodes: Tensor) -> Scored:
        """All edges once more, revised by the numbers of their ends, (n, q); under another name."""

    def quantile(self, scored: Scored, column: Literal["score", "support"], share: float) -> float:
        """The score of base edges, or the support of the input's, that a share of them lies below."""

    def tally(self, scored: Scored, choice: Choice) -> Tally:
        """What a choice would come to."""

    def gather(self, scored: Scored, choice: Choice, tally: Tally) -> Any:
        """The graph of the edges that stay."""

    def result(self, settings: Settings, embedding: Embedding, base: Base, pruned: Pruned) -> Purification:
        """What the user is given."""


@runtime_checkable
class Place(Protocol):
    """Where a purification runs: `garnet.InMemory`, `garnet.OnDisk` or `garnet.OnCluster`."""

    def open(
        self, method: Any, graph: Any, *, symmetrize: bool, progress: Progress | None
    ) -> AbstractContextManager[Work | Purification]:
        """The graph, ready to be worked on; or the result, if the very same call has been made before."""
