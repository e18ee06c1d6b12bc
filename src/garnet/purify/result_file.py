"""What results on disk have in common: nodes, edges, the cost of each stage, and provenance."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.edges import canonical
from garnet.graph.files import require_archive
from garnet.graph.graph import Edges, Graph, as_graph
from garnet.graph.provenance import Provenance
from garnet.io.archive import Archive
from garnet.io.atomic import atomic_path
from garnet.progress import Stage


def write_described(path: str | Path, name: str, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to one .npz file, whole or not at all, with an array `name` that describes them.

    Raises:
        GraphError: the path does not end in .npz, or has no folder.
        GarnetError: the file cannot be written.
    """
    require_archive(path)
    text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    with atomic_path(path) as unfinished, unfinished.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **{name: text}, **arrays)


def read_nodes(archive: Archive, n: int) -> Graph:
    """A graph of n nodes without edges, with the labels and names in the file."""
    labels = archive.read("labels", "iu", ndim=1) if "labels" in archive else None
    names = archive.read("names", "iuU", ndim=1) if "names" in archive else None
    return as_graph((np.zeros((2, 0), dtype=np.int64), n), labels=labels, names=names)


def read_edges(archive: Archive, name: str, n: int) -> Edges:
    """The edges in an array, each once, the smaller node first, in order."""
    edges = archive.read(name, "i", ndim=2).astype(np.int64)
    if edges.shape[0] != 2:
        raise GraphError(f"its array '{name}' has shape {edges.shape} but must have two rows.")
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        raise GraphError(f"its array '{name}' names nodes outside of 0 to {n - 1}.")
    if not np.array_equal(edges, canonical(edges[0], edges[1], n)) or (edges[0] == edges[1]).any():
        raise GraphError(f"its array '{name}' does not hold each edge once, in order.")
    return edges


def read_made(found: Mapping[str, Any]) -> Provenance:
    """The provenance of a result, from its fields; for use inside `described_as`."""
    kinds = {"command": str, "fingerprints": dict, "versions": dict, "machine": dict}
    if not all(isinstance(found[name], kind) for name, kind in kinds.items()):
        raise TypeError
    return Provenance(**{name: found[name] for name in kinds})


def read_stages(found: Any) -> tuple[Stage, ...]:
    """The cost of each stage, from a list of fields; for use inside `described_as`."""
    stages = tuple(Stage(**{one.name: stage[one.name] for one in fields(Stage)}) for stage in found)
    for stage in stages:
        costs = (stage.seconds, stage.peak_bytes)
        if not isinstance(stage.name, str) or not all(isinstance(one, int | float) for one in costs):
            raise TypeError
        if not all(math.isfinite(one) and one >= 0 for one in costs):
            raise ValueError
    return stages


@contextmanager
def described_as(what: str) -> Iterator[None]:
    """Turn the many ways in which a description can be wrong into one sentence."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise GraphError(f"its description of {what} is damaged.") from None
