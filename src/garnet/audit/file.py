"""An audit on disk: what a report needs of it, in one .npz file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.atomic import atomic_path
from garnet.audit.audit import Audit
from garnet.datasets.archive import Archive, described
from garnet.datasets.files import require_place
from garnet.datasets.limits import require_plausible
from garnet.datasets.text import reading
from garnet.errors import GraphError
from garnet.graph import as_graph

_REASON = "reason "


def save_audit(audit: Audit, path: str | Path) -> None:
    """Write an audit, but for the features of its graph, to one .npz file, whole or not at all.

    Raises:
        GraphError: the path does not end in .npz, or has no folder.
        GarnetError: the file cannot be written.
    """
    require_archive(path)
    facts = {"num_nodes": audit.graph.num_nodes, "weights": dict(audit.weights)}
    facts |= {"share": audit.share, "power": audit.power}
    arrays: dict[str, NDArray[Any]] = {
        "edges": audit.edges,
        "weights": audit.graph.weights,
        "suspicion": audit.suspicion,
    }
    arrays |= {"nodes": audit.nodes, "planted": audit.planted}
    arrays |= {_REASON + name: column for name, column in audit.reasons.items()}
    arrays |= {name: part for name in ("labels", "names") if (part := getattr(audit.graph, name)) is not None}
    arrays["audit"] = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    with atomic_path(path) as unfinished, unfinished.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def require_archive(path: str | Path) -> None:
    """Refuse, before any work is done, a file that does not end in .npz or has no folder."""
    if Path(path).suffix.lower() != ".npz":
        raise GraphError(f"An audit is saved to a file that ends in .npz. Got {path} instead.")
    require_place(path)


def load_audit(path: str | Path) -> Audit:
    """Read what `save_audit` wrote; nothing in the file is unpickled.

    Raises:
        GraphError: there is no such file, or it holds no audit; the message says why.
    """
    path, otherwise = Path(path), "it holds no audit; garnet audit --result writes one."
    with reading(path), described(path, "audit", otherwise) as (archive, text):
        return _read(archive, text)


def _read(archive: Archive, text: bytes) -> Audit:
    try:
        facts = json.loads(text)
        n, share, power = int(facts["num_nodes"]), float(facts["share"]), float(facts["power"])
        weights = {str(name): float(weight) for name, weight in facts["weights"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GraphError("its description is damaged.") from error
    edges = archive.read("edges", "i", ndim=2).astype(np.int64)
    require_plausible(n, edges.shape[-1], "nodes")
    labels = archive.read("labels", "iu", ndim=1) if "labels" in archive else None
    names = archive.read("names", "iuU", ndim=1) if "names" in archive else None
    bare = as_graph((np.zeros((2, 0), dtype=np.int64), n), labels=labels, names=names)
    if edges.shape[0] != 2 or (edges.size and (edges.min() < 0 or edges.max() >= n)):
        raise GraphError(f"its edges are no pairs of nodes from 0 to {n - 1}.")
    graph = bare.with_edges(edges, archive.read("weights", "f", ndim=1))
    suspicion, nodes, planted = (
        archive.read(name, "f", ndim=1).astype(np.float64) for name in ("suspicion", "nodes", "planted")
    )
    reasons = {name[len(_REASON) :]: archive.read(name, "fiuU", ndim=1) for name in archive if name.startswith(_REASON)}
    lengths = {len(suspicion), *(len(column) for column in reasons.values())}
    if not np.array_equal(graph.edges, edges) or lengths != {edges.shape[1]} or len(nodes) != n:
        raise GraphError("its edges, nodes and what is said of them do not fit together.")
    return Audit(graph, edges, suspicion, reasons, nodes, weights, share, power, planted)
