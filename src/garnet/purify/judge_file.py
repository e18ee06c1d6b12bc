"""Saves the judge of later edges with the record of a purification, in one .npz file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GraphError
from garnet.graph.graph import Graph
from garnet.io.archive import Archive, described
from garnet.io.limits import require_plausible
from garnet.io.text import reading
from garnet.linalg.device_graph import Resident
from garnet.purify.features import Described
from garnet.purify.judge import Judge
from garnet.purify.place import Neighborhoods
from garnet.purify.result_file import described_as, read_edges, read_nodes
from garnet.purify.settings import Settings
from garnet.purify.suspicion import Concentration, Suspicion
from garnet.purify.verdicts import Usual

PART = "judge"
"""The array that describes the others, whose names begin with this."""
AGAIN = "it has nothing to judge new edges by; make it again with this version, by {}."
"""Why a file of an earlier version is refused."""


def described_arrays(described: Described | None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Facts and arrays that say how features become coordinates."""
    if described is None:
        return {"features": None}, {}
    facts = {name: getattr(described, name) for name in ("kind", "scaling", "weight", "width")}
    arrays = {"features": described.block.numpy()}
    if described.directions is not None:
        arrays["directions"] = described.directions.numpy()
    return {"features": facts}, arrays


def read_described(archive: Archive, facts: Mapping[str, Any] | None, n: int) -> Described | None:
    """The same from a file."""
    if facts is None:
        return None
    with described_as("what judges new edges"):
        found = {"kind": str(facts["kind"]), "scaling": str(facts["scaling"]), "weight": float(facts["weight"])}
        width = int(facts["width"])
    block, directions = read_rows(archive, "features", n), None
    if f"{PART}_directions" in archive:
        directions = floats(archive, "directions", 2).double()
        require(directions.shape == (width, block.shape[1]), "directions")
    kinds: Any = found
    return Described(block=block, directions=directions, width=width, **kinds)


def judge_arrays(judge: Judge) -> dict[str, NDArray[Any]]:
    """All of a judge except the graph itself, which the record has."""
    suspicion, concentration = judge.suspicion, judge.around.concentration
    numbers = {name: getattr(suspicion, name) for name in ("slope", "level", "power", "blind", "credit")}
    features, arrays = described_arrays(judge.described)
    facts = {
        "settings": judge.settings.plain(),
        "suspicion": numbers,
        "concentration": concentration and asdict(concentration),
        "edges": judge.usual.edges,
        **features,
    }
    arrays |= {
        "planted": judge.planted.numpy(),
        "eigenvalues": judge.values.double().numpy(),
        "points": judge.bare.numpy(),
        "knots": suspicion.knots.cpu().numpy(),
        "ranks": suspicion.ranks.cpu().numpy(),
        "counted": suspicion.weights.cpu().numpy(),
        "sums": judge.around.sums.numpy(),
        "best": judge.around.best.numpy(),
        "usual": judge.usual.scores,
    }
    text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    return {PART: text, **{f"{PART}_{name}": array for name, array in arrays.items()}}


def load_judge(path: str | Path) -> Judge:
    """Load the judge of later edges from a saved purification; nothing in the file is unpickled.

    Raises:
        GraphError: there is no such file, or it holds no purification, or one of an earlier version.
    """
    path, otherwise = Path(path), "it holds no result of a purification; garnet purify --result writes one."
    with reading(path), described(path, "result", otherwise) as (archive, text):
        if PART not in archive:
            raise GraphError(AGAIN.format("garnet purify --result"))
        return _read(archive, text)


def _read(archive: Archive, text: bytes) -> Judge:
    with described_as("what judges new edges"):
        n = json.loads(text)["num_nodes"]
        facts = json.loads(archive.read(PART, "u", ndim=1).tobytes())
        settings = Settings.of_plain(facts["settings"])
        found = facts["suspicion"]
        numbers: dict[str, Any] = {name: float(found[name]) for name in ("slope", "level", "power", "credit")}
        numbers["blind"] = bool(found["blind"])
        told = facts["concentration"]
        concentration = told and Concentration(float(told["usual"]), float(told["shift"]))
        edges, features = int(facts["edges"]), facts["features"]
        if type(n) is not int or n < 0:
            raise TypeError
    require_plausible(n, archive.header("edges", "i", ndim=2).shape[-1], "nodes")
    graph = read_given(archive, n)
    values, bare = floats(archive, "eigenvalues", 1).double(), read_rows(archive, "points", n)
    require(len(values) == bare.shape[1], "eigenvalues")
    knots, ranks = (floats(archive, name, 2).double() for name in ("knots", "ranks"))
    weights = floats(archive, "counted", 1).double()
    require(knots.shape == ranks.shape and len(knots) == len(weights) == 4 and knots.shape[1] > 1, "knots")
    sums, best = read_rows(archive, "sums", n), read_rows(archive, "best", n).double()
    require(sums.shape[1] == 2 and best.shape[1] == 1, "sums")
    return Judge(
        given=Resident.of(graph),
        names=graph.names,
        planted=torch.from_numpy(read_edges(archive, f"{PART}_planted", n)),
        settings=settings,
        values=values,
        bare=bare,
        described=read_described(archive, features, n),
        suspicion=Suspicion(knots, ranks, weights, **numbers),
        around=Neighborhoods(concentration, sums, best),
        usual=Usual(floats(archive, "usual", 1).numpy(), edges),
    )


def read_given(archive: Archive, n: int) -> Graph:
    """The graph that was purified, from its record."""
    edges, weights = read_edges(archive, "edges", n), archive.read("weights_before", "f", ndim=1)
    if len(weights) != edges.shape[1] or not (np.isfinite(weights) & (weights >= 0)).all():
        raise GraphError("its weights are damaged.")
    return read_nodes(archive, n).with_edges(edges[:, weights > 0], weights[weights > 0])


def read_rows(archive: Archive, name: str, n: int) -> Tensor:
    """(n, d) float32 numbers, finite."""
    found = floats(archive, name, 2)
    require(len(found) == n, name)
    return found


def floats(archive: Archive, name: str, ndim: int) -> Tensor:
    """Finite numbers, in the file's precision."""
    found = archive.read(f"{PART}_{name}", "f", ndim=ndim)
    require(bool(np.isfinite(found).all()), name)
    return torch.from_numpy(np.ascontiguousarray(found))


def require(holds: bool, name: str) -> None:
    """Refuse an array that fails a condition."""
    if not holds:
        raise GraphError(f"its array '{PART}_{name}' is damaged.")
