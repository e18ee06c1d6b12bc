"""An audit of a graph that need not fit in memory: the stages of `garnet.audit.audit`, tile by tile.

The same edges are planted as in memory, and up to 260,000 edges the numbers are the same too, except for the
eigensolver and rounding. With more edges, an edge is ranked among that many evenly chosen ones instead of all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from garnet.audit.blocks import Blocks, blocks_of, features_of, purifier
from garnet.audit.doubts import joined_evidence, nothing_to_audit
from garnet.audit.planted import COPIES
from garnet.audit.tiled_audit import TiledAudit
from garnet.audit.tiled_ground import GroundInTiles, Sample, sample_of
from garnet.audit.tiled_planted import pairs_to_plant, usual_weight
from garnet.audit.tiled_table import require_folder_of_tables
from garnet.audit.tiled_task import AuditTask
from garnet.audit.tiled_verdict import Looked, doubt
from garnet.errors import ParameterError
from garnet.io.failures import writing
from garnet.io.journal import Journal, Resumable
from garnet.io.removal import remove
from garnet.linalg.threads import sharing
from garnet.places.planted_tiles import add_edges
from garnet.places.row_files import write_array
from garnet.places.row_store import RowMatrix
from garnet.places.tiled_place import TiledPlace, source_of
from garnet.places.tiled_work import GraphOnDisk
from garnet.progress import Progress
from garnet.purify.calibration import Evidence
from garnet.purify.garnet import GARNET


def audit_in_tiles(
    graph: Any, place: TiledPlace, *, seed: int, symmetrize: bool = False, progress: Progress | None = None
) -> TiledAudit:
    """Audit a graph on disk or on a cluster; see `garnet.audit.audit`.

    Args:
        graph: what `as_graph` reads, preferably the path of a file.
        place: an `OnDisk` or `OnCluster`; its output is a folder of tables, .csv if its name ends so and otherwise
        .parquet: `part-...` for the edges, the most suspicious first, and `_nodes-...` for the nodes.
        seed: seed of everything random.
        symmetrize: accept a directed graph.
        progress: called as stages begin.
    """
    if place.ledger:
        raise ParameterError("The 'ledger' of a place is what purifying keeps of edges; for an audit, leave it out.")
    if place.output is not None:
        require_folder_of_tables(Path(place.output))
    method, source = purifier(seed), source_of(graph, symmetrize=symmetrize)
    task = AuditTask(place=place, method=method, source=source, symmetrize=symmetrize, progress=progress)
    with sharing(0 if place.has_workers else None), task.open() as work:
        return work if isinstance(work, TiledAudit) else _audited(work, method)


def _audited(work: GraphOnDisk, method: GARNET) -> TiledAudit:
    given, clock = work.given, work.clock
    if not given.num_edges:
        raise nothing_to_audit(given.num_nodes)
    looked = _reasons(work, method)
    false = joined_evidence([_planted(work, method, looked, number) for number in range(COPIES)])
    facts = clock.stage("doubt", lambda: doubt(work, looked, false), lambda facts: facts, lambda _: ())
    found: TiledAudit = work.deliver({**facts, "stages": [asdict(stage) for stage in clock.stages]})
    return found


def _reasons(work: GraphOnDisk, method: GARNET) -> Looked:
    """The stage `reasons`, or what an earlier run noted of it."""
    inner = _within(work, "reasons")
    rows, store = inner.store.folder / "edges.bin", inner.store

    def look() -> dict[str, Any]:
        blocks = blocks_of(GroundInTiles(inner), method, features_of(inner, method))
        sample = sample_of(inner, blocks)
        write_array(rows, torch.cat([sample.edges.double(), torch.stack(list(sample.seen.values()))]).numpy())
        return {
            "widths": {name: matrix.width for name, matrix in _matrices(blocks).items()},
            "reliable": blocks.reliable,
            "seen": list(sample.seen),
            "weights": sample.weights(inner, blocks, method.seed),
        }

    def files(facts: dict[str, Any]) -> Iterator[Path]:
        yield rows
        for name in facts["widths"]:
            yield from store.files(name)

    facts = work.clock.stage("reasons", look, lambda facts: facts, files)
    kept = set(files(facts))
    for path in store.folder.iterdir():
        if path not in kept:
            remove(path)
    widths: dict[str, int] = facts["widths"]
    matrices = {name: RowMatrix(store.files(name), store.bounds, width, keep=True) for name, width in widths.items()}
    profiles = (matrices["features"], matrices["around"]) if "features" in matrices else None
    blocks = Blocks(matrices["spectral"], profiles, matrices.get("likely"), facts["reliable"])
    table = torch.from_numpy(np.fromfile(rows)).view(2 + len(facts["seen"]), -1)
    seen = dict(zip(facts["seen"], table[2:], strict=True))
    mean_degree = 2 * work.given.num_edges / work.given.num_nodes
    return Looked(blocks, Sample(table[:2].long(), seen, {}, mean_degree), facts["weights"])


def _matrices(blocks: Blocks) -> dict[str, RowMatrix]:
    found = {"spectral": blocks.points}
    if blocks.profiles is not None:
        found |= dict(zip(("features", "around"), blocks.profiles, strict=True))
    return found if blocks.likely is None else found | {"likely": blocks.likely}


def _planted(work: GraphOnDisk, method: GARNET, looked: Looked, number: int) -> Evidence:
    """The stage that audits a copy of the graph with planted edges, or what an earlier run noted of it."""
    folder, file = f"planted-{number}", work.store.folder / f"false-{number}.bin"

    def plant() -> dict[str, Any]:
        inner = _within(work, folder)
        new = pairs_to_plant(work, (method.seed, number))
        graph = add_edges(work.given, inner.store.folder / "tiles", new, usual_weight(work), run=inner.store.run)
        inner = replace(inner, given=graph, graph=graph, planted=new)
        features = None if looked.blocks.profiles is None else looked.blocks.profiles[0]
        blocks = blocks_of(GroundInTiles(inner), method, features)
        sample = sample_of(inner, blocks)
        reasons = sample.ranks.reasons(sample.planted, sample.weights(inner, blocks, method.seed))
        found = reasons.evidence()
        write_array(file, np.stack([found.belief, found.degrees]))
        return {}

    work.clock.stage(f"plant {number + 1} of {COPIES}", plant, lambda facts: facts, lambda _: [file])
    remove(work.store.folder / folder)
    return Evidence(*np.fromfile(file).reshape(2, -1))


def _within(work: GraphOnDisk, name: str) -> GraphOnDisk:
    """The same work in a folder of its own, whose stages are not reported."""
    folder = work.store.folder / name
    with writing(folder):
        folder.mkdir(exist_ok=True)
    store = copy.copy(work.store)
    store.folder = folder
    return replace(work, store=store, clock=Resumable(Journal(folder), None), as_table=False)
