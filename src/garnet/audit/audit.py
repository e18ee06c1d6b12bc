"""Every edge of a graph with how much it is to be doubted, every node with how much of it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.audit.evidence import Reasons, reasons_of, unit_features
from garnet.audit.judge import AuditJudge
from garnet.audit.planted import planted
from garnet.audit.table import save_table
from garnet.errors import GraphError
from garnet.graph.graph import Edges, Graph, as_graph
from garnet.graph.html import html_table
from garnet.graph.provenance import Provenance
from garnet.parameters import Seed, require_arguments, require_device
from garnet.progress import Clock, Progress, Stage
from garnet.purify.calibration import WEAK, Doubt, Evidence, learn
from garnet.purify.verdicts import Judging, Later, Verdicts

# Into which edges are planted; three times a twentieth of the edges tell well enough what made-up ones look like.
_COPIES = 3


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What an audit found.

    Attributes:
        graph: the graph that was audited.
        edges: (2, m) its edges.
        suspicion: (m,) how likely each edge is to be one that somebody made up, from 0 to 1.
        reasons: plain columns by name, (m,) each: `spectral_distance` in the embedding, from 0 to 4; `gradient`, that
            distance times the root of the edge's resistance; `shared_neighbors`, from 0 to 1; `smaller_degree` and
            `larger_degree`; where there are features, `feature_similarity` and `neighborhood_similarity`; where there
            are labels, `same_class`; and `because`, the column that speaks most against the edge, or `degrees`.
        nodes: (n,) stability from 0 to 1: the share of its edges that a node can rely on; 1 for one without edges.
        weights: what each reason counted, by the names of `because`; that of `degrees` is above 0 where few neighbours
            speak against an edge, below 0 where many do.
        share: about how much of the edges is made up, if made-up edges are as easy to tell as random ones.
        power: how often an edge that the audit itself had planted looked worse than one of the graph.
        planted: (f,) how suspicious the planted edges were: what made-up edges look like in this graph.
        stages: cost of each stage.
        made: command, versions and machine, where it was read from a file.
        later: makes what judges edges that arrive later; None where a file of an earlier version has nothing for it.
    """

    graph: Graph
    edges: Edges
    suspicion: NDArray[np.float64]
    reasons: Mapping[str, NDArray[Any]]
    nodes: NDArray[np.float64]
    weights: Mapping[str, float]
    share: float
    power: float
    planted: NDArray[np.float64]
    stages: tuple[Stage, ...] = ()
    made: Provenance | None = None
    later: Later | None = None

    def judge(self, edges: Any, *, features: Mapping[Any, Any] | None = None, numbers: bool = False) -> Verdicts:
        """What this audit makes of edges that arrive later: `score` is one less suspicion, and `doubt` above a half.

        All else is as for `garnet.Purification.judge`.
        """
        return self.judging(edges, features=features, numbers=numbers)

    @cached_property
    def judging(self) -> Judging:
        """What judges edges that arrive later; see `judge`.

        Raises:
            GraphError: the audit comes from a file of an earlier version.
        """
        if self.later is None:
            raise GraphError("This audit has nothing to judge new edges by; make it again with this version.")
        judging: Judging = self.later()
        return judging

    @property
    def doubted(self) -> NDArray[np.bool_]:
        """Which edges are more likely made up than not, (m,)."""
        return self.suspicion > 0.5

    @property
    def blind(self) -> bool:
        """Whether made-up edges can hardly be told from others here, or none could be planted to compare with."""
        return not len(self.planted) or self.power <= WEAK

    @property
    def false_alarms(self) -> float:
        """About which share of the doubted edges is true after all, if suspicion is right; 0 where none is doubted.

        It cannot know of true edges that are there by mere chance: these look as planted ones do.
        """
        return float(1 - self.suspicion[self.doubted].mean()) if self.doubted.any() else 0.0

    @property
    def order(self) -> NDArray[np.int64]:
        """The edges, by their places, from the most suspicious on."""
        return np.argsort(-self.suspicion, kind="stable")

    def save(self, path: str | Path, *, nodes: bool = False) -> None:
        """Write the edges, the most suspicious first, or the nodes, the least stable first, as .csv or .parquet."""
        save_table(self.node_table() if nodes else self.edge_table(), path)

    def edge_table(self) -> dict[str, NDArray[Any]]:
        """The ranked edges as columns: both ends by their names, suspicion, and the reasons."""
        order, names = self.order, self._names
        first, second = (names[ends[order]] for ends in self.edges)
        reasons = {name: column[order] for name, column in self.reasons.items()}
        return {"source": first, "target": second, "suspicion": self.suspicion[order], **reasons}

    def node_table(self) -> dict[str, NDArray[Any]]:
        """The ranked nodes as columns: name, stability, neighbours, and how many of these are doubted."""
        order = np.argsort(self.nodes, kind="stable")
        counts = np.bincount(self.edges.ravel(), minlength=self.graph.num_nodes)
        doubted = np.bincount(self.edges[:, self.doubted].ravel(), minlength=self.graph.num_nodes)
        columns = {"node": self._names, "stability": self.nodes, "neighbors": counts, "doubted": doubted}
        return {name: column[order] for name, column in columns.items()}

    def summary(self) -> dict[str, Any]:
        """The figures of this audit as plain values, ready for JSON."""
        return {
            "nodes": self.graph.num_nodes,
            "edges": int(self.edges.shape[1]),
            "doubted": int(self.doubted.sum()),
            "false_alarms": self.false_alarms,
            "share": self.share,
            "power": self.power,
            "unstable_nodes": int((self.nodes < 0.5).sum()),
            "weights": dict(self.weights),
        }

    def __repr__(self) -> str:
        doubted = f"{self.doubted.sum():,} of {self.edges.shape[1]:,} edges doubted"
        return f"Audit({self.graph.num_nodes:,} nodes; {doubted}; share {self.share:.3f}; power {self.power:.3f})"

    def _repr_html_(self) -> str:
        rows = {"nodes": f"{self.graph.num_nodes:,}", "edges": f"{self.edges.shape[1]:,}"}
        rows |= {"edges doubted": f"{self.doubted.sum():,}", "share made up": f"{self.share:.1%}"}
        rows |= {"power": f"{self.power:.3f}", "nodes that rely on doubted edges": f"{(self.nodes < 0.5).sum():,}"}
        for edge in self.order[:1]:
            first, second = self._names[self.edges[:, edge]]
            rows["most suspicious edge"] = f"{first} – {second}, because of {self.reasons['because'][edge]}"
        return html_table("Audit", rows)

    @property
    def _names(self) -> NDArray[Any]:
        return np.arange(self.graph.num_nodes) if self.graph.names is None else self.graph.names


def audit(graph: Any, *, seed: int = 0, device: str = "cpu", progress: Progress | None = None) -> Audit:
    """Say which edges of a graph should not be believed. It knows nothing of any attack.

    Reasons of five kinds are weighed by what the graph itself says of them (`garnet.audit.evidence`). What their sum
    means is found out by an experiment: edges between random nodes, each node as often as its degree says, are planted
    into three copies of the graph, a twentieth of its edges in each, and audited along (`garnet.audit.planted`). The
    more an edge looks like these and not like the others, the more suspicious it is; and if edges that look so crowd
    among hubs, or among nodes of few neighbours, others there are doubted more, too (`garnet.purify.calibration`).

    Args:
        graph: anything that `as_graph` reads.
        seed: of everything random; the same seed gives the same bytes on a CPU.
        device: `cpu`, `cuda`, or any that torch knows.
        progress: called with the name of each stage as it begins.

    Example:
        >>> from garnet.datasets import cora
        >>> found = audit(cora())
        >>> found.suspicion.shape == (cora().num_edges,)
        True
    """
    require_arguments("audit", seed=(seed, Seed))
    require_device(device, "audit")
    graph = as_graph(graph)
    if not graph.num_edges:
        raise GraphError(f"The graph has {graph.num_nodes} nodes and no edges between them; there is nothing to audit.")
    clock = Clock(progress)
    with clock("reasons"):
        features = unit_features(graph, seed=seed, device=device)
        reasons = reasons_of(graph, features, seed=seed, device=device, places=True)
    parts = []
    for number in range(_COPIES):
        with clock(f"plant {number + 1} of {_COPIES}"):
            copy, new = planted(graph, seed=(seed, number), device=device)
            parts.append(reasons_of(copy, features, seed=seed, device=device).evidence(new))
    with clock("doubt"):
        false = Evidence(*(np.concatenate([getattr(one, part) for one in parts]) for part in ("belief", "degrees")))
        found = _verdict(graph, reasons, false, seed)
    return replace(found, stages=tuple(clock.stages))


def _verdict(graph: Graph, reasons: Reasons, false: Evidence, seed: int) -> Audit:
    """The audit of a graph by what is known of its edges, and of false ones."""
    power, suspicion, fakes = 0.5, np.zeros(graph.num_edges), np.zeros(0)
    found = Doubt(say=0.0, slope=0.0, level=0.0, power=power)
    if len(false.belief):
        # The more shared neighbours count, the less is left for degrees to tell.
        found = learn(reasons.evidence(), false, most_say=1 / reasons.weights["shared_neighbors"])
        reasons = replace(reasons, weights={**reasons.weights, "degrees": found.say})
        power, suspicion = found.power, found.suspicion(reasons.belief).cpu().numpy()
        fakes = found.suspicion(torch.from_numpy(false.belief + found.say * false.degrees)).numpy()
    later: Later | None = None
    if reasons.places is not None:
        later = partial(AuditJudge.of, graph, reasons.places, reasons.weights, found, suspicion, seed)
    edges = graph.edges
    believed = np.bincount(edges.ravel(), np.tile(1 - suspicion, 2), graph.num_nodes)
    counts = np.bincount(edges.ravel(), minlength=graph.num_nodes)
    return Audit(
        graph=graph,
        edges=edges,
        suspicion=suspicion,
        reasons={**reasons.columns, "because": reasons.because},
        nodes=np.where(counts > 0, believed / np.maximum(counts, 1), 1.0),
        weights=reasons.weights,
        share=float(suspicion.mean()),
        power=power,
        planted=fakes,
        later=later,
    )
