"""The judge of later edges, stored with an audit in one .npz file."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.audit.evidence import Places
from garnet.audit.judge import NAMES, AuditJudge
from garnet.graph.graph import Graph
from garnet.io.archive import Archive
from garnet.linalg.device_graph import Resident
from garnet.purify.calibration import Doubt
from garnet.purify.judge_file import PART, described_arrays, floats, read_described, read_rows, require
from garnet.purify.result_file import described_as
from garnet.purify.verdicts import Usual

_KNOTS = "knots "


def judge_arrays(judge: AuditJudge) -> dict[str, NDArray[Any]]:
    """All of a judge except the graph, which the audit has."""
    features, arrays = described_arrays(judge.described)
    facts = {"doubt": asdict(judge.doubt), "blind": judge.blind, "edges": judge.usual.edges, **features}
    places = judge.places
    arrays |= {"eigenvalues": places.values.double().numpy(), "points": places.bare.numpy()}
    arrays |= {_KNOTS + name: np.stack([one.numpy() for one in pair]) for name, pair in places.knots.items()}
    arrays |= {"usual": judge.usual.scores}
    if places.likely is not None:
        arrays["likely"] = places.likely.numpy()
    text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    return {PART: text, **{f"{PART}_{name}": array for name, array in arrays.items()}}


def read_judge(archive: Archive, graph: Graph, weights: dict[str, float]) -> AuditJudge:
    """Read a judge from the file of an audit of this graph with these weights of reasons.

    Raises:
        GraphError: a part is damaged.
    """
    n = graph.num_nodes
    with described_as("what judges new edges"):
        facts = json.loads(archive.read(PART, "u", ndim=1).tobytes())
        doubt = Doubt(**{name: float(facts["doubt"][name]) for name in ("say", "slope", "level", "power")})
        blind, edges, features = bool(facts["blind"]), int(facts["edges"]), facts["features"]
    values, bare = floats(archive, "eigenvalues", 1).double(), read_rows(archive, "points", n)
    require(len(values) == bare.shape[1], "eigenvalues")
    knots = {}
    for name in NAMES:
        if f"{PART}_{_KNOTS}{name}" in archive:
            found = floats(archive, _KNOTS + name, 2).double()
            require(len(found) == 2 and found.shape[1] > 1, _KNOTS + name)
            knots[name] = (found[0].contiguous(), found[1].contiguous())
    likely = read_rows(archive, "likely", n) if f"{PART}_likely" in archive else None
    return AuditJudge(
        given=Resident.of(graph),
        names=graph.names,
        places=Places(values, bare, likely, knots),
        described=read_described(archive, features, n),
        weights=weights,
        doubt=doubt,
        blind=blind,
        usual=Usual(floats(archive, "usual", 1).numpy(), edges),
    )
