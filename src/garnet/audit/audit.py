"""How suspicious every edge of a graph is, and how stable every node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.audit.any_audit import AnyAudit
from garnet.audit.doubts import (
    joined_evidence,
    judged_by,
    labels_in_words,
    learnt_from,
    nothing_to_audit,
    stability,
)
from garnet.audit.evidence import Reasons, reasons_of, unit_features
from garnet.audit.feedback import revise
from garnet.audit.groups import Group, found_groups
from garnet.audit.in_tiles import audit_in_tiles
from garnet.audit.judge import AuditJudge
from garnet.audit.judged import CONFIRMED, REFUTED, Judged, judgement
from garnet.audit.planted import COPIES, planted
from garnet.audit.tiled_audit import TiledAudit
from garnet.audit.words import Words, against, plain, sentences
from garnet.errors import GraphError, ParameterError, brief
from garnet.graph.graph import Edges, Graph, as_graph
from garnet.graph.html import html_table
from garnet.graph.provenance import Provenance
from garnet.io.frames import data_frame
from garnet.io.table_file import save_table
from garnet.linalg.threads import sharing
from garnet.parameters import Seed, require_arguments, require_device
from garnet.places.tiled_place import TiledPlace
from garnet.progress import Clock, Progress, Stage
from garnet.purify.calibration import Evidence, learn
from garnet.purify.memory import InMemory
from garnet.purify.verdicts import Judging, Later, Verdicts


@dataclass(frozen=True, eq=False, repr=False)
class Audit(AnyAudit):
    """What an audit of a graph in memory found.

    Attributes:
        graph: the graph that was audited.
        edges: (2, m) its edges.
        suspicion: (m,) how likely it is that somebody made up each edge, from 0 to 1.
        reasons: plain columns by name, (m,) each: `spectral_distance` in the embedding, from 0 to 4; `gradient`, that
            distance times the root of the edge's resistance; `shared_neighbors`, from 0 to 1; `smaller_degree` and
            `larger_degree`; where there are features, `feature_similarity` and `neighborhood_similarity`; where there
            are labels, `same_class`; and `because`, the column that speaks most against the edge, or `degrees`.
        nodes: (n,) stability from 0 to 1: the share of its edges that a node can rely on; 1 for a node without edges.
        weights: weight of each reason, by the names of `because`; that of `degrees` is positive if few neighbours speak
        against an edge, negative if many do.
        share: estimated share of made-up edges, if these are as easy to detect as random ones.
        power: how often an edge planted by the audit itself looked worse than one of the graph.
        planted: (f,) how suspicious the planted edges were: what made-up edges look like in this graph.
        against: (3, m) what speaks against each edge, strongest first, as indices into `garnet.audit.words.WORDINGS`.
        profiles: (m,) how suspicious each edge is by features and labels of its ends alone; None without these.
        judged: (m,) 1 for refuted edges, -1 for confirmed ones, 0 for others; None if no edges were judged.
        labels: whether labels were used, or why not, in words.
        stages: cost of each stage.
        made: command, versions and machine, if it was read from a file.
        later: makes the judge of edges that arrive later; None if a file of an earlier version lacks the data.
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
    against: Words | None = None
    profiles: NDArray[np.float64] | None = None
    judged: Judged | None = None
    labels: str = ""
    stages: tuple[Stage, ...] = ()
    made: Provenance | None = None
    later: Later | None = None

    def judge(self, edges: Any, *, features: Mapping[Any, Any] | None = None, numbers: bool = False) -> Verdicts:
        """Judge edges that arrive later: `score` is one minus suspicion, and `doubt` means suspicion above a half.

        Everything else is as for `garnet.Purification.judge`.
        """
        return self.judging(edges, features=features, numbers=numbers)

    @cached_property
    def judging(self) -> Judging:
        """The judge of edges that arrive later; see `judge`.

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
    def num_nodes(self) -> int:
        """See `AnyAudit`."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """See `AnyAudit`."""
        return int(self.edges.shape[1])

    @property
    def doubted_edges(self) -> int:
        """See `AnyAudit`."""
        return int(self.doubted.sum())

    @property
    def unstable_nodes(self) -> int:
        """See `AnyAudit`."""
        return int((self.nodes < 0.5).sum())

    @property
    def false_alarms(self) -> float:
        """See `AnyAudit`."""
        return float(1 - self.suspicion[self.doubted].mean()) if self.doubted.any() else 0.0

    @property
    def reason(self) -> NDArray[Any]:
        """What speaks against each edge, (m,) in words, strongest first; `garnet.audit.words` explains them."""
        if self.against is None:
            return plain(self.reasons["because"], self.doubted)
        judged = np.zeros(len(self.suspicion), dtype=np.int8) if self.judged is None else self.judged
        return sentences(self.against, self.doubted, judged)

    @property
    def order(self) -> NDArray[np.int64]:
        """Indices of the edges, the most suspicious first."""
        return np.argsort(-self.suspicion, kind="stable")

    def groups(self) -> tuple[Group, ...]:
        """Sets of nodes with more suspicious edges among them than chance would explain, the densest first.

        Rings of accounts that were made up together look like this. If nodes have features, their edges are also judged
        by these alone, as the members of a ring make each other's edges look true in all other respects; without
        features a ring can hardly be distinguished from any other community. `garnet.audit.groups.dense_groups` has the
        method.
        """
        return self._groups

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        return () if self.blind else found_groups(self.edges, self.group_suspicion, self._names)

    @property
    def group_suspicion(self) -> NDArray[np.float64]:
        """How suspicious each edge is as one of a group, (m,): the larger of `suspicion` and `profiles`."""
        if self.profiles is None:
            return self.suspicion
        free = True if self.judged is None else self.judged == 0
        return np.where(free, np.maximum(self.suspicion, self.profiles), self.suspicion)

    def _numbered(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The group of each edge and of each node, numbered from 1; 0 for none."""
        edges, nodes = np.zeros(len(self.suspicion), np.int64), np.zeros(self.graph.num_nodes, np.int64)
        for number, one in enumerate(self.groups(), start=1):
            edges[one.edges], nodes[one.members] = number, number
        return edges, nodes

    def save(self, path: str | Path, *, nodes: bool = False) -> None:
        """Write the edges, the most suspicious first, or the nodes, the least stable first, as .csv or .parquet."""
        save_table(self.node_table() if nodes else self.edge_table(), path)

    def to_pandas(self, *, nodes: bool = False) -> Any:
        """The table of edges or nodes that `save` writes, as a pandas data frame.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return data_frame(self.node_table() if nodes else self.edge_table())

    def edge_table(self) -> dict[str, NDArray[Any]]:
        """See `AnyAudit`; also with the group of each edge, 0 for none."""
        order, names = self.order, self._names
        first, second = (names[ends[order]] for ends in self.edges)
        reasons = {name: column[order] for name, column in self.reasons.items()}
        named = {"source": first, "target": second, "suspicion": self.suspicion[order]}
        return {**named, **reasons, "reason": self.reason[order], "group": self._numbered()[0][order]}

    def group_table(self) -> dict[str, NDArray[Any]]:
        """The members of all groups as columns: group, its score, member, and the member's edges within the group."""
        found = self.groups()
        sizes = [len(one.members) for one in found]
        ends = [self.edges[:, one.edges].ravel() for one in found]
        counts = [(mine[:, None] == one.members).sum(axis=0) for mine, one in zip(ends, found, strict=True)]
        empty = np.zeros(0, dtype=np.int64)
        return {
            "group": np.repeat(np.arange(1, len(found) + 1), sizes),
            "score": np.repeat([one.score for one in found], sizes),
            "node": np.concatenate([self._names[:0], *(one.names for one in found)]),
            "edges": np.concatenate([empty, *counts]),
        }

    def node_table(self) -> dict[str, NDArray[Any]]:
        """The ranked nodes as columns: name, stability, neighbours, doubted edges, score and group.

        The score is the summed suspicion of a node's edges: about how many of them are made up.
        """
        score = np.bincount(self.edges.ravel(), np.tile(self.suspicion, 2), self.graph.num_nodes)
        order = np.argsort(self.nodes, kind="stable")
        counts = np.bincount(self.edges.ravel(), minlength=self.graph.num_nodes)
        doubted = np.bincount(self.edges[:, self.doubted].ravel(), minlength=self.graph.num_nodes)
        columns = {"node": self._names, "stability": self.nodes, "neighbors": counts, "doubted": doubted}
        columns |= {"score": score, "group": self._numbered()[1]}
        return {name: column[order] for name, column in columns.items()}

    def summary(self) -> dict[str, Any]:
        """See `AnyAudit`."""
        return super().summary() | {"groups": len(self.groups())} | self._told()

    def _told(self) -> dict[str, int]:
        """Numbers of judged edges, if there are any."""
        if self.judged is None:
            return {}
        return {"confirmed": int((self.judged == CONFIRMED).sum()), "refuted": int((self.judged == REFUTED).sum())}

    def _repr_html_(self) -> str:
        rows = {"nodes": f"{self.graph.num_nodes:,}", "edges": f"{self.edges.shape[1]:,}"}
        rows |= {"edges doubted": f"{self.doubted.sum():,}", "share made up": f"{self.share:.1%}"}
        rows |= {"power": f"{self.power:.3f}", "nodes that rely on doubted edges": f"{(self.nodes < 0.5).sum():,}"}
        for edge in self.order[:1]:
            first, second = self._names[self.edges[:, edge]]
            rows["most suspicious edge"] = f"{first} – {second}, {self.reason[edge]}"
        return html_table("Audit", rows)

    @property
    def _names(self) -> NDArray[Any]:
        return np.arange(self.graph.num_nodes) if self.graph.names is None else self.graph.names


@overload
def audit(
    graph: Any,
    *,
    place: TiledPlace,
    confirmed: Iterable[Any] | None = None,
    refuted: Iterable[Any] | None = None,
    seed: int = 0,
    device: str = "cpu",
    symmetrize: bool = False,
    progress: Progress | None = None,
) -> TiledAudit: ...


@overload
def audit(
    graph: Any,
    *,
    place: InMemory | None = None,
    confirmed: Iterable[Any] | None = None,
    refuted: Iterable[Any] | None = None,
    seed: int = 0,
    device: str = "cpu",
    symmetrize: bool = False,
    progress: Progress | None = None,
) -> Audit: ...


def audit(
    graph: Any,
    *,
    place: InMemory | TiledPlace | None = None,
    confirmed: Iterable[Any] | None = None,
    refuted: Iterable[Any] | None = None,
    seed: int = 0,
    device: str = "cpu",
    symmetrize: bool = False,
    progress: Progress | None = None,
) -> Audit | TiledAudit:
    """Find the edges of a graph that should not be believed, without knowing anything about an attack.

    Five kinds of reasons are weighted by what the graph itself says about them (`garnet.audit.evidence`). An experiment
    shows what their sum means: edges between random nodes, drawn in proportion to degree, are planted into three copies
    of the graph, a twentieth of its edges in each, and audited with the rest (`garnet.audit.planted`). The more an edge
    looks like these and unlike the others, the more suspicious it is; and if such edges gather at hubs, or at nodes
    with few neighbours, other edges there are doubted more, too (`garnet.purify.calibration`).

    Labels are used if the graph has a split, which says for which nodes they may be known. A person's verdict on some
    edges changes the rest (`garnet.audit.feedback`).

    Args:
        graph: anything that `as_graph` reads; for a place other than memory, preferably the path of a file.
        place: where to work: `InMemory`, `OnDisk` or `OnCluster`; see `garnet.audit.in_tiles` for the latter two. None
        means in memory.
        confirmed: edges known to be true, as pairs of node names, or of numbers if the nodes have no names.
        refuted: edges known to be made up.
        seed: seed of everything random; the same seed gives the same bytes on a CPU.
        device: `cpu`, `cuda`, or any other that torch knows, if no place is given.
        symmetrize: accept a directed graph, and audit its edges as undirected ones.
        progress: called with the name of each stage as it begins.

    Example:
        >>> from garnet.datasets import cora
        >>> found = audit(cora())
        >>> found.suspicion.shape == (cora().num_edges,)
        True
    """
    require_arguments("audit", seed=(seed, Seed))
    if place is not None and device != "cpu":
        raise ParameterError(f"The device {device!r} is said beside a place; say it there: InMemory(device=...).")
    require_device(device, "audit")
    told = confirmed is not None or refuted is not None
    if isinstance(place, TiledPlace):
        if told:
            raise ParameterError("Edges that a person judged can only be learnt from in memory; audit with InMemory().")
        return audit_in_tiles(graph, place, seed=seed, symmetrize=symmetrize, progress=progress)
    place = InMemory(device=device) if place is None else place
    if not isinstance(place, InMemory):
        raise ParameterError(
            f"The 'place' parameter of audit must be InMemory, OnDisk or OnCluster. Got {brief(place)}."
        )
    if place.spectrum is not None:
        raise ParameterError("The 'spectrum' of InMemory is of one graph, but an audit looks at four; leave it out.")
    require_device(place.device, "InMemory")
    graph = as_graph(graph, symmetrize=symmetrize)
    if not graph.num_edges:
        raise nothing_to_audit(graph.num_nodes)
    judged = judgement(graph, confirmed, refuted) if told else None
    with sharing(graph):
        return _audited(graph, judged, seed, place, Clock(progress))


def _audited(graph: Graph, judged: Judged | None, seed: int, place: InMemory, clock: Clock) -> Audit:
    """What `audit` does once its arguments are checked."""
    with clock("reasons"):
        features = unit_features(graph, seed=seed, place=place)
        reasons = reasons_of(graph, features, seed=seed, place=place, places=True)
    parts, own = [], []
    for number in range(COPIES):
        with clock(f"plant {number + 1} of {COPIES}"):
            copy, new = planted(graph, seed=(seed, number), device=place.device)
            there = reasons_of(copy, features, seed=seed, place=place)
            parts.append(there.evidence(new))
            own += [profile] if (profile := there.profiles(new)) is not None else []
    with clock("doubt"):
        found = _verdict(graph, reasons, joined_evidence(parts), joined_evidence(own), judged, seed)
    return replace(found, stages=tuple(clock.stages))


def _verdict(graph: Graph, reasons: Reasons, false: Evidence, own: Evidence, judged: Judged | None, seed: int) -> Audit:
    """The audit of a graph from the evidence on its edges, on false ones, and what a person said about some."""
    edges, profiles, beside = graph.edges, _by_profiles(reasons, own), None
    learnt = learnt_from(reasons, false)
    reasons, suspicion = judged_by(reasons, learnt)
    if judged is not None and judged.any() and len(learnt.planted):
        revised = revise(edges, graph.num_nodes, reasons, learnt.doubt, judged)
        suspicion, beside = revised.suspicion, revised.beside
        reasons = replace(reasons, weights=revised.weights)
    elif judged is not None:
        suspicion[judged == REFUTED] = 1.0
    later: Later | None = None
    if reasons.places is not None:
        later = partial(AuditJudge.of, graph, reasons.places, learnt.weights, learnt.doubt, suspicion, seed)
    believed = np.bincount(edges.ravel(), np.tile(1 - suspicion, 2), graph.num_nodes)
    counts = np.bincount(edges.ravel(), minlength=graph.num_nodes)
    shared = reasons.columns["shared_neighbors"] > 0
    words = against(reasons.said, reasons.weights, sharing=shared, doubted=suspicion > 0.5, beside=beside)
    return Audit(
        graph=graph,
        edges=edges,
        suspicion=suspicion,
        reasons={**reasons.columns, "because": reasons.because},
        nodes=stability(believed, counts),
        weights=reasons.weights,
        share=float(suspicion.mean()),
        power=learnt.doubt.power,
        planted=learnt.planted,
        against=words,
        profiles=profiles,
        judged=judged,
        labels=labels_in_words(graph.labels, graph.split, graph.num_features, reasons.weights),
        later=later,
    )


def _by_profiles(reasons: Reasons, own: Evidence) -> NDArray[np.float64] | None:
    """How suspicious edges are by the features and labels of their ends alone."""
    mine = reasons.profiles()
    if mine is None or not len(own.belief):
        return None
    return learn(mine, own, most_say=0.0).suspicion(torch.from_numpy(mine.belief)).numpy()
