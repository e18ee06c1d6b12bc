"""What all audits have in common, wherever the graph is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.progress import Stage
from garnet.purify.calibration import WEAK


class AnyAudit(ABC):
    """What an audit found.

    Attributes:
        weights: weight of each reason, by the names of `because`; that of `degrees` is positive if few neighbours speak
        against an edge, negative if many do.
        share: estimated share of made-up edges, if these are as easy to detect as random ones.
        power: how often an edge planted by the audit itself looked worse than one of the graph.
        planted: (f,) how suspicious the planted edges were: what made-up edges look like in this graph.
        labels: whether labels were used, or why not, in words.
        stages: cost of each stage.
    """

    weights: Mapping[str, float]
    share: float
    power: float
    planted: NDArray[np.float64]
    labels: str
    stages: tuple[Stage, ...]

    @property
    @abstractmethod
    def num_nodes(self) -> int:
        """Nodes of the graph."""

    @property
    @abstractmethod
    def num_edges(self) -> int:
        """Edges of the graph."""

    @property
    @abstractmethod
    def doubted_edges(self) -> int:
        """Number of edges that are more likely made up than not."""

    @property
    @abstractmethod
    def unstable_nodes(self) -> int:
        """Number of nodes that rely more on doubted edges than on others."""

    @property
    @abstractmethod
    def false_alarms(self) -> float:
        """Estimated share of the doubted edges that are true after all, if suspicion is right; 0 if none is doubted.

        It cannot account for true edges that exist by mere chance: they look like planted ones.
        """

    @abstractmethod
    def edge_table(self) -> dict[str, NDArray[Any]]:
        """The ranked edges as columns: the names of both ends, suspicion, and the reasons."""

    @property
    def blind(self) -> bool:
        """Whether made-up edges can hardly be distinguished here, or none could be planted for comparison."""
        return not len(self.planted) or self.power <= WEAK

    @property
    def caveat(self) -> str:
        """The assumption behind `share` and `false_alarms`, in a sentence."""
        return (
            "These counts are estimates, which suppose random made-up edges and no true edge there by chance; the "
            "ranking is more reliable."
        )

    def summary(self) -> dict[str, Any]:
        """The figures of this audit as plain values, ready for JSON."""
        return {
            "nodes": self.num_nodes,
            "edges": self.num_edges,
            "doubted": self.doubted_edges,
            "false_alarms": self.false_alarms,
            "share": self.share,
            "power": self.power,
            "unstable_nodes": self.unstable_nodes,
            "weights": dict(self.weights),
            "caveat": self.caveat,
            "labels": self.labels,
        }

    def __repr__(self) -> str:
        doubted = f"{self.doubted_edges:,} of {self.num_edges:,} edges doubted"
        told = f"{doubted}; share {self.share:.3f}; power {self.power:.3f}"
        return f"{type(self).__name__}({self.num_nodes:,} nodes; {told})"
