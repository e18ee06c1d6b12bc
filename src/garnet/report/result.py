"""A purification on disk: what a report needs of it, in one .npz file."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from garnet.errors import GraphError
from garnet.graph.graph import Edges, Graph
from garnet.io.archive import Archive, described
from garnet.io.limits import require_plausible
from garnet.io.text import reading
from garnet.purify.result import Purification
from garnet.purify.result_file import described_as, read_edges, read_made, read_nodes, read_stages, write_described
from garnet.report.purification_record import Accuracy, Result, make_result, require_accuracy

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
        GraphError: the path does not end in .npz or has no folder, or the purification is of another graph.
        GarnetError: the file cannot be written.
    """
    made = make_result(before, result, truth=truth, accuracy=accuracy, command=command)
    facts: dict[str, Any] = {"summary": made.summary, "num_nodes": made.num_nodes, **asdict(made.made)}
    facts |= {"threshold": repr(made.threshold), "accuracy": accuracy and asdict(accuracy)}
    arrays = {one.name: value for one in fields(made) if isinstance(value := getattr(made, one.name), np.ndarray)}
    write_described(path, "result", facts, arrays)


def load_result(path: str | Path) -> Result:
    """Read what `save_result` wrote; nothing in the file is unpickled.

    Raises:
        GraphError: there is no such file, or it holds no result; the message says why.
    """
    path, otherwise = Path(path), "it holds no result of a purification; garnet purify --result writes one."
    with reading(path), described(path, "result", otherwise) as (archive, text):
        return _read(archive, _facts(text))


def _read(archive: Archive, facts: dict[str, Any]) -> Result:
    n, m = facts["num_nodes"], archive.header("edges", "i", ndim=2).shape[1]
    require_plausible(n, m, "nodes")
    edges = read_edges(archive, "edges", n)
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
    nodes = read_nodes(archive, n)
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
        truth=read_edges(archive, "truth", n) if "truth" in archive else None,
        **facts,
    )


def _facts(text: bytes) -> dict[str, Any]:
    with described_as("the purification"):
        found = json.loads(text)
        summary, accuracy = found["summary"], None
        if type(found["num_nodes"]) is not int or found["num_nodes"] < 0 or not isinstance(summary["parameters"], dict):
            raise TypeError
        read_stages(summary["stages"])
        if (given := found["accuracy"]) is not None:
            shares = {name: tuple(float(one) for one in given[name]) for name in ("before", "after")}
            accuracy = Accuracy(**shares, model=str(given["model"]))
            require_accuracy(accuracy)
        return {
            "num_nodes": found["num_nodes"],
            "threshold": float(found["threshold"]),
            "summary": summary,
            "made": read_made(found),
            "accuracy": accuracy,
        }
