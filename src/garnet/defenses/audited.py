"""Trust every edge as far as an audit does."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from garnet.audit import Audit, audit
from garnet.graph.graph import Graph
from garnet.parameters import Seed
from garnet.progress import Clock, Progress
from garnet.purify.base import CleanedGraph, Purifier
from garnet.purify.result import Ledger


@dataclass(frozen=True, kw_only=True)
class Audited(Purifier):
    """Drops the edges that are more likely made up than not, and weights the others by how likely they are true.

    Nothing is added. Where the audit finds no reason for doubt, the graph stays almost the same. Labels of validation
    and test nodes are hidden from the audit. The score of an edge is the probability that it is true.

    Attributes:
        seed: seed of the audit.

    Example:
        >>> from garnet.datasets import cora
        >>> Audited().purify(cora()).graph.num_edges < cora().num_edges
        True
    """

    seed: Seed = 0

    def _purify(self, graph: Graph, *, progress: Progress | None) -> CleanedGraph:
        clock = Clock(progress)
        with clock("audit"):
            found = audited(graph, seed=self.seed)
        ledger = Ledger(
            torch.from_numpy(found.edges),
            torch.from_numpy(1 - found.suspicion),
            torch.ones(found.edges.shape[1], dtype=torch.bool),
            torch.from_numpy(~found.doubted),
            graph.num_nodes,
            names=graph.names,
        )
        return CleanedGraph(believed(graph, found), ledger, tuple(clock.stages))


def audited(graph: Graph, *, seed: int = 0, device: str = "cpu") -> Audit:
    """The audit of a graph to train on: it sees only the labels of training nodes."""
    if graph.labels is not None and graph.split is not None:
        labels = np.full(graph.num_nodes, -1)
        labels[graph.split.train] = graph.labels[graph.split.train]
        graph = replace(graph, labels=labels)
    return audit(graph, seed=seed, device=device)


def believed(graph: Graph, found: Audit) -> Graph:
    """The graph without the doubted edges, the others weighted by how likely they are true."""
    true = ~found.doubted
    return graph.with_edges(found.edges[:, true], graph.weights[true] * (1 - found.suspicion[true]))
