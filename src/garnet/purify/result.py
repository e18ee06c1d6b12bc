"""What a purifier gives back: the graph, how it came about, what became of every edge, and what it cost."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from garnet.graph.edges import contains
from garnet.graph.graph import Edges, Graph
from garnet.linalg.sparse import to_host
from garnet.progress import Stage
from garnet.spectral.spectrum import Spectrum

if TYPE_CHECKING:
    from garnet.purify.garnet import GARNET


@dataclass(frozen=True, eq=False)
class Ledger:
    """What became of every edge.

    `kept`, `dropped` and `added` are edges, (2, m) each; `kept_scores`, `dropped_scores` and `added_scores` say how
    critical each is, (m,). They are made when they are first asked for: of a graph with a hundred million edges on a
    GPU they take longer to bring to the host than to find. Until then the tensors they are made of stay where they
    were found, some 24 bytes an edge.

    Attributes:
        edges: (2, m) edges of the input, of the purified graph, or of both, sorted, the smaller node first.
        scores: (m,) how critical each is, or would have been.
        given: (m,) which are of the input.
        stays: (m,) which are of the purified graph.
        num_nodes: number of nodes of both graphs.
    """

    edges: Tensor
    scores: Tensor
    given: Tensor
    stays: Tensor
    num_nodes: int

    @cached_property
    def kept(self) -> Edges:
        """Input edges that the purified graph still has."""
        return _here(self.edges[:, self.given & self.stays])

    @cached_property
    def dropped(self) -> Edges:
        """Input edges that it has no more."""
        return _here(self.edges[:, self.given & ~self.stays])

    @cached_property
    def added(self) -> Edges:
        """Edges that the input did not have."""
        return _here(self.edges[:, self.stays & ~self.given])

    @cached_property
    def kept_scores(self) -> NDArray[np.float32]:
        """How critical each kept edge is."""
        return _here(self.scores[self.given & self.stays])

    @cached_property
    def dropped_scores(self) -> NDArray[np.float32]:
        """How critical each dropped edge would have been."""
        return _here(self.scores[self.given & ~self.stays])

    @cached_property
    def added_scores(self) -> NDArray[np.float32]:
        """How critical each added edge is."""
        return _here(self.scores[self.stays & ~self.given])

    @property
    def counts(self) -> dict[str, int]:
        """How many edges were kept, dropped and added."""
        kept, given, stays = (int(which.sum()) for which in (self.given & self.stays, self.given, self.stays))
        return {"kept": kept, "dropped": given - kept, "added": stays - kept}

    def share_dropped(self, edges: Edges) -> float:
        """Share of the given edges (2, m), canonical and all of the input, that were dropped."""
        return float(contains(self.dropped, edges, self.num_nodes).mean()) if edges.shape[1] else 0.0


@dataclass(frozen=True, eq=False)
class Purification:
    """What purifying a graph gave.

    Attributes:
        graph: the purified graph; nodes, features, labels, split and names are those of the input.
        spectrum: leading eigenpairs of the input's adjacency.
        near: which of the ledger's edges are of the base graph, (m,).
        threshold: the score below which edges were pruned: gamma in the units of `scores`.
        ledger: what became of each input edge, and which edges are new.
        stages: cost of each stage.
        parameters: the purifier that made it.
    """

    graph: Graph
    spectrum: Spectrum
    near: Tensor
    threshold: float
    ledger: Ledger
    stages: tuple[Stage, ...]
    parameters: GARNET

    @cached_property
    def base(self) -> Edges:
        """The edges of the base graph, (2, m)."""
        return _here(self.ledger.edges[:, self.near])

    @cached_property
    def scores(self) -> NDArray[np.float32]:
        """The score of each base edge, (m,); the larger, the more critical."""
        return _here(self.ledger.scores[self.near])

    @property
    def seconds(self) -> float:
        """Wall time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    def summary(self) -> dict[str, Any]:
        """The figures of this purification as plain values, ready for JSON."""
        counts = self.ledger.counts
        parameters = {field.name: getattr(self.parameters, field.name) for field in fields(self.parameters)}
        return {
            "nodes": self.graph.num_nodes,
            "edges_before": counts["kept"] + counts["dropped"],
            "edges_after": self.graph.num_edges,
            **counts,
            "base_edges": int(self.near.sum()),
            "rank": self.spectrum.rank,
            "largest_residual": float(self.spectrum.residuals.max()),
            "threshold": plain(self.threshold),
            "seconds": self.seconds,
            "stages": [asdict(stage) for stage in self.stages],
            "parameters": {name: plain(value) for name, value in parameters.items()},
        }


def _here(part: Tensor) -> NDArray[Any]:
    """A tensor as an array."""
    array: NDArray[Any] = to_host(part).numpy()
    return array


def plain(value: Any) -> Any:
    """A value that JSON has: it knows no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | str | None) else repr(value)
