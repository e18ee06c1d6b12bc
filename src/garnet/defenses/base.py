"""What a defence is: a graph in, predictions out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from garnet.graph import Graph
from garnet.predictor import Predictor
from garnet.purification import Progress, Stage


class Cleaned(Protocol):
    """A purified graph and what it cost; GARNET's `Purification` is one."""

    @property
    def graph(self) -> Graph:
        """The same nodes, joined by other edges."""
        ...

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Cost of each stage."""
        ...


class Purifier(Protocol):
    """A graph in, a graph with other edges out."""

    def purify(self, graph: Graph, *, progress: Progress | None = None) -> Cleaned:
        """Purify a graph; `progress` is called with the name of each stage as it begins."""
        ...


class Defense(Protocol):
    """Trains on a graph that is not to be trusted."""

    def fit(self, graph: Graph, *, seed: int = 0) -> Predictor:
        """One trained model."""
        ...

    def fit_seeds(
        self, graph: Graph, seeds: Sequence[int], *, progress: Progress | None = None
    ) -> tuple[Predictor, ...]:
        """A trained model for each seed, together where that is faster."""
        ...
