"""A purification on disk: what a report needs of it, in one .npz file."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from garnet.atomic import atomic_path
from garnet.datasets.archive import Archive, described
from garnet.datasets.limits import require_plausible
from garnet.datasets.text import reading
from garnet.edges import canonical
from garnet.errors import GraphError
from garnet.graph import Edges, Graph, as_graph
from garnet.purification import Purification
from garnet.report.outcome import Accuracy, Result, make_result, require_accuracy

__all__ = ["Accuracy", "Result", "load_result", "make_result", "save_result"]


def save_result(
    path: str | Path,
    before: Graph,
    result: Purification,
    *,
    truth: Edges | None = None,
    accuracy: Accuracy | None = None,
    command: str = "",
) -> None:
    """Write a purification to one .npz file, whole or not at all; see `make_result`.

    Raises:
        GraphError: the path does not end in .npz, or the purification is of another graph.
        GarnetError: the file cannot be written.
    """
    if Path(path).suffix.lower() != ".npz":
        raise GraphError(f"A result is saved to a file that ends in .npz. Got {path} instead.")
    made = make_result(before, result, truth=truth, accuracy=accuracy, command=command)
    named = ("summary", "fingerprints", "versions", "machine", "command", "num_nodes")
    facts: dict[str, Any] = {name: getattr(made, name) for name in named}
    facts |= {"threshold": repr(made.threshold), "accuracy": accuracy and asdict(accuracy)}
    arrays = {one.name: value for one in fields(made) if isinstance(value := getattr(made, one.name), np.ndarray)}
    arrays["result"] = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    with atomic_path(path) as unfinished, unfinished.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def load_result(path: str | Path) -> Result:
    """Read what `save_result` wrote; nothing in the file is unpickled.

    Raises:
        GraphError: there is no such file, or it holds no result; the message says why.
    """
    path, otherwise = Path(path), "it holds no result of a purification; garnet purify --result writes one."
    with reading(path), described(path, "result", otherwise) as (archive, text):
        return _read(archive, _facts(text))


def _read(archive: Archive, facts: dict[str, Any]) -> Result:
    m = archive.header("edges", "i", ndim=2).shape[1]
    require_plausible(facts["num_nodes"], m, "nodes")
    edges = _edges(archive, "edges", facts["num_nodes"])
    scores, before, after = (archive.read(name, "f", ndim=1) for name in ("scores", "weights_before", "weights_after"))
    if not len(scores) == len(before) == len(after) == m:
        raise GraphError(
            f"its edges are {m}, but it has {len(scores)}, {len(before)} and {len(after)} numbers of them."
        )
    if np.isnan(scores).any() or not all(np.isfinite(one).all() and (one >= 0).all() for one in (before, after)):
        raise GraphError("its scores or weights are no numbers.")
    counts, bounds = archive.read("base_counts", "iu", ndim=1), archive.read("base_bounds", "f", ndim=1)
    values = archive.read("values", "f", ndim=1)
    if len(bounds) != len(counts) + 1 or not (np.isfinite(bounds).all() and np.isfinite(values).all()):
        raise GraphError("its histogram or spectrum is damaged.")
    labels = archive.read("labels", "iu", ndim=1) if "labels" in archive else None
    names = archive.read("names", "iuU", ndim=1) if "names" in archive else None
    nodes = as_graph((np.zeros((2, 0), dtype=np.int64), facts["num_nodes"]), labels=labels, names=names)
    return Result(
        edges=edges,
        scores=scores.astype(np.float32),
        weights_before=before.astype(np.float32),
        weights_after=after.astype(np.float32),
        labels=nodes.labels,
        names=nodes.names,
        base_counts=counts.astype(np.int64),
        base_bounds=bounds.astype(np.float64),
        values=values.astype(np.float64),
        truth=_edges(archive, "truth", facts["num_nodes"]) if "truth" in archive else None,
        **facts,
    )


def _edges(archive: Archive, name: str, n: int) -> Edges:
    edges = archive.read(name, "i", ndim=2).astype(np.int64)
    if edges.shape[0] != 2:
        raise GraphError(f"its array '{name}' has shape {edges.shape} but must have two rows.")
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        raise GraphError(f"its array '{name}' names nodes outside of 0 to {n - 1}.")
    if not np.array_equal(edges, canonical(edges[0], edges[1], n)) or (edges[0] == edges[1]).any():
        raise GraphError(f"its array '{name}' does not hold each edge once, in order.")
    return edges


_EXPECTED: dict[str, type | tuple[type, ...]] = {
    "num_nodes": int, "threshold": str, "summary": dict, "fingerprints": dict, "versions": dict, "machine": dict,
    "command": str, "accuracy": (dict, type(None)),
}  # fmt: skip

_STAGE: dict[str, type | tuple[type, ...]] = {"name": str, "seconds": (int, float), "peak_bytes": int}


def _facts(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
        facts = {name: found[name] for name in _EXPECTED}
        if not all(isinstance(facts[name], kind) for name, kind in _EXPECTED.items()) or facts["num_nodes"] < 0:
            raise TypeError
        facts["threshold"] = float(facts["threshold"])
        if (given := facts["accuracy"]) is not None:
            shares = {name: tuple(float(one) for one in given[name]) for name in ("before", "after")}
            facts["accuracy"] = Accuracy(**shares, model=str(given["model"]))
            require_accuracy(facts["accuracy"])
        for stage in facts["summary"]["stages"]:
            if not all(isinstance(stage[name], kind) for name, kind in _STAGE.items()):
                raise TypeError
        if not isinstance(facts["summary"]["parameters"], dict):
            raise TypeError
        return facts
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        raise GraphError("its description of the purification is damaged.") from None
