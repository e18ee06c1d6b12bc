"""An audit on disk: what a report needs of it, in one .npz file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.audit.audit import Audit
from garnet.audit.judge_file import judge_arrays, read_judge
from garnet.audit.words import WORDINGS
from garnet.errors import GraphError
from garnet.graph.provenance import Provenance
from garnet.io.archive import Archive, described
from garnet.io.limits import require_plausible
from garnet.io.text import reading
from garnet.purify.judge_file import PART
from garnet.purify.result_file import described_as, read_edges, read_made, read_nodes, read_stages, write_described

_REASON = "reason "
_NUMBERS = ("share", "power")
"""Facts of an audit that are one number each, from 0 to 1."""

_MAYBE = ("against", "profiles", "judged")
"""Optional facts."""

_WORDS = 3

_SHARES = ("suspicion", "nodes", "planted")
"""Facts of each edge, node and planted edge, from 0 to 1."""


def save_audit(audit: Audit, path: str | Path, *, command: str = "") -> None:
    """Write an audit, without the features of its graph, to one .npz file, whole or not at all.

    Args:
        audit: the audit.
        path: the file; its folder must exist.
        command: the command that made the audit, if any.

    Raises:
        GraphError: the path does not end in .npz, or has no folder.
        GarnetError: the file cannot be written.
    """
    facts: dict[str, Any] = {name: getattr(audit, name) for name in _NUMBERS}
    facts |= {"num_nodes": audit.graph.num_nodes, "weights": dict(audit.weights)}
    facts |= {"wordings": list(WORDINGS), "told": audit.labels, "stages": [asdict(stage) for stage in audit.stages]}
    facts |= {"made": asdict(audit.made or Provenance.here(command, graph=audit.graph))}
    arrays: dict[str, NDArray[Any]] = {name: getattr(audit, name) for name in _SHARES}
    arrays |= {"edges": audit.edges, "weights": audit.graph.weights}
    arrays |= {_REASON + name: column for name, column in audit.reasons.items()}
    arrays |= {name: part for name in _MAYBE if (part := getattr(audit, name)) is not None}
    arrays |= {name: part for name in ("labels", "names") if (part := getattr(audit.graph, name)) is not None}
    arrays |= {} if audit.later is None else judge_arrays(audit.later())
    write_described(path, "audit", facts, arrays)


def load_audit(path: str | Path) -> Audit:
    """Read what `save_audit` wrote; nothing in the file is unpickled.

    Raises:
        GraphError: there is no such file, or it does not hold an audit; the message says why.
    """
    path, otherwise = Path(path), "it holds no audit; garnet audit --result writes one."
    with reading(path), described(path, "audit", otherwise) as (archive, text):
        return _read(archive, text)


def _read(archive: Archive, text: bytes) -> Audit:
    with described_as("the audit"):
        facts = json.loads(text)
        n, stages = int(facts["num_nodes"]), read_stages(facts.get("stages", []))
        made = read_made(facts["made"]) if "made" in facts else None
        weights = {str(name): float(weight) for name, weight in facts["weights"].items()}
        numbers: dict[str, Any] = {name: float(facts[name]) for name in _NUMBERS}
        labels, wordings = str(facts.get("told", "")), [str(text) for text in facts.get("wordings", ())]
    require_plausible(n, archive.header("edges", "i", ndim=2).shape[-1], "nodes")
    edges = read_edges(archive, "edges", n)
    graph = read_nodes(archive, n).with_edges(edges, archive.read("weights", "f", ndim=1))
    shares: dict[str, Any] = {name: archive.read(name, "f", ndim=1).astype(np.float64) for name in _SHARES}
    for name, found in (shares | numbers).items():
        # A comparison with NaN is false, too.
        if not np.all((np.asarray(found) >= 0) & (np.asarray(found) <= 1)):
            raise GraphError(f"its {name} has numbers that are not from 0 to 1.")
    reasons = {name[len(_REASON) :]: archive.read(name, "fiuU", ndim=1) for name in archive if name.startswith(_REASON)}
    lengths = {len(shares["suspicion"]), *(len(column) for column in reasons.values())}
    if lengths != {graph.num_edges} or len(shares["nodes"]) != n:
        raise GraphError("its edges, nodes and what is said of them do not fit together.")
    told = {"labels": labels} | _told(archive, wordings, graph.num_edges)
    judge = read_judge(archive, graph, weights) if PART in archive else None
    return Audit(
        graph=graph,
        edges=edges,
        reasons=reasons,
        weights=weights,
        stages=stages,
        made=made,
        later=None if judge is None else lambda: judge,
        **shares,
        **numbers,
        **told,
    )


def _told(archive: Archive, wordings: list[str], m: int) -> dict[str, Any]:
    """What files of earlier versions do not hold."""
    found: dict[str, Any] = {}
    if "against" in archive:
        # Wordings are stored by name, so that a later version may have others.
        place = {text: number for number, text in enumerate(WORDINGS)}
        known = np.array([*(place.get(text, -1) for text in wordings), -1], dtype=np.int8)
        words = archive.read("against", "i", ndim=2)
        if words.shape != (_WORDS, m) or not ((words >= -1) & (words < len(known) - 1)).all():
            raise GraphError("its wordings of reasons do not fit its edges.")
        found["against"] = known[words]
    if "profiles" in archive:
        profiles = archive.read("profiles", "f", ndim=1).astype(np.float64)
        if len(profiles) != m or not ((profiles >= 0) & (profiles <= 1)).all():
            raise GraphError("its profiles are not one number from 0 to 1 for each edge.")
        found["profiles"] = profiles
    if "judged" in archive:
        judged = archive.read("judged", "i", ndim=1)
        if len(judged) != m or not (np.abs(judged) <= 1).all():
            raise GraphError("what it says was judged does not fit its edges.")
        found["judged"] = judged.astype(np.int8)
    return found
