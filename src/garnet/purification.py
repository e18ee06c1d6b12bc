"""What a purifier gives back: the graph, how it came about, what became of every edge, and what it cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from garnet.edges import contains
from garnet.graph import Edges, Graph
from garnet.memory import peak_memory
from garnet.spectral import Spectrum

if TYPE_CHECKING:
    from garnet.purify import GARNET

Progress = Callable[[str], None]
"""Called with the name of each stage as it begins.

One that has a method `step` as well, a `Step`, is told by long stages how far they are.
"""

Step = Callable[[str, int, int], None]
"""Called with the name of a step of a stage, how many of its tasks are done, and how many there are."""


@dataclass(frozen=True, eq=False)
class Ledger:
    """What became of every edge: each array of edges is (2, m), each array of scores (m,).

    Attributes:
        kept: input edges that the purified graph still has.
        dropped: input edges that it has no more.
        added: edges that the input did not have.
        kept_scores: how critical each kept edge is.
        dropped_scores: how critical each dropped edge would have been.
        added_scores: how critical each added edge is.
        num_nodes: number of nodes of both graphs.
    """

    kept: Edges
    dropped: Edges
    added: Edges
    kept_scores: NDArray[np.float32]
    dropped_scores: NDArray[np.float32]
    added_scores: NDArray[np.float32]
    num_nodes: int

    @classmethod
    def of(cls, edges: Tensor, scores: Tensor, given: Tensor, stays: Tensor, num_nodes: int) -> Ledger:
        """Take apart edges of the input and of the purified graph: (2, m), scores (m,), and of which graph each is."""
        fates = given & stays, given & ~stays, stays & ~given
        kept, dropped, added = (edges[:, fate].cpu().numpy() for fate in fates)
        of_kept, of_dropped, of_added = (scores[fate].cpu().numpy() for fate in fates)
        return cls(kept, dropped, added, of_kept, of_dropped, of_added, num_nodes)

    def share_dropped(self, edges: Edges) -> float:
        """Share of the given edges (2, m), canonical and all of the input, that were dropped."""
        return float(contains(self.dropped, edges, self.num_nodes).mean()) if edges.shape[1] else 0.0


@dataclass(frozen=True)
class Stage:
    """What a stage cost: its seconds, and the largest resident memory of the process by its end, in bytes."""

    name: str
    seconds: float
    peak_bytes: int


@dataclass(frozen=True, eq=False)
class Purification:
    """What purifying a graph gave.

    Attributes:
        graph: the purified graph; nodes, features, labels, split and names are those of the input.
        spectrum: leading eigenpairs of the input's adjacency.
        base: (2, m) edges of the base graph.
        scores: (m,) score of each base edge; the larger, the more critical.
        threshold: the score below which edges were pruned: gamma in the units of `scores`.
        ledger: what became of each input edge, and which edges are new.
        stages: cost of each stage.
        parameters: the purifier that made it.
    """

    graph: Graph
    spectrum: Spectrum
    base: Edges
    scores: NDArray[np.float32]
    threshold: float
    ledger: Ledger
    stages: tuple[Stage, ...]
    parameters: GARNET

    @property
    def seconds(self) -> float:
        """Wall time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    def summary(self) -> dict[str, Any]:
        """The figures of this purification as plain values, ready for JSON."""
        ledger = self.ledger
        parameters = {field.name: getattr(self.parameters, field.name) for field in fields(self.parameters)}
        return {
            "nodes": self.graph.num_nodes,
            "edges_before": ledger.kept.shape[1] + ledger.dropped.shape[1],
            "edges_after": self.graph.num_edges,
            "kept": ledger.kept.shape[1],
            "dropped": ledger.dropped.shape[1],
            "added": ledger.added.shape[1],
            "base_edges": self.base.shape[1],
            "rank": self.spectrum.rank,
            "largest_residual": float(self.spectrum.residuals.max()),
            "threshold": plain(self.threshold),
            "seconds": self.seconds,
            "stages": [asdict(stage) for stage in self.stages],
            "parameters": {name: plain(value) for name, value in parameters.items()},
        }


def plain(value: Any) -> Any:
    """A value that JSON has: it knows no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | str | None) else repr(value)


class Clock:
    """Times stages, tells a listener when one begins, and keeps what each cost."""

    def __init__(self, progress: Progress | None) -> None:
        self.stages: list[Stage] = []
        self._progress = progress

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Run one stage."""
        if self._progress is not None:
            self._progress(name)
        start = time.perf_counter()
        yield
        self.stages.append(Stage(name, time.perf_counter() - start, peak_memory()))
