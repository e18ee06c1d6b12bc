"""An audit of a graph that need not fit in memory: the stages of `garnet.audit.audit`, tile by tile.

The same edges are planted as in memory, and up to 260,000 edges the numbers are those of memory, but for the solver of
the eigenvectors, and rounding. Of more edges, an edge is ranked among so many of them, evenly chosen, instead of all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.audit.doubts import (
    Learnt,
    joined_evidence,
    judged_by,
    labels_in_words,
    learnt_from,
    nothing_to_audit,
    stability,
)
from garnet.audit.evidence import Blocks, blocks_of, features_of, purifier
from garnet.audit.planted import COPIES
from garnet.audit.tiled_audit import TiledAudit
from garnet.audit.tiled_doubts import TOP, Cuts, Digest, Judged, digest_row, joined, judge_tile, layout_of
from garnet.audit.tiled_ground import GroundInTiles, PartBlocks, Sample, sample_of
from garnet.audit.tiled_planted import pairs_to_plant, usual_weight
from garnet.audit.tiled_table import Columns, edge_file, ending_of, ranked_nodes, shown, write_edges, write_nodes
from garnet.errors import GarnetError, ParameterError
from garnet.io.failures import writing
from garnet.io.journal import Journal, Resumable
from garnet.io.removal import remove
from garnet.io.scratch import Scratch
from garnet.linalg.threads import sharing
from garnet.places.column_file import Layout, is_unchanged
from garnet.places.edge_table import TABLE_MANIFEST
from garnet.places.planted_tiles import add_edges
from garnet.places.row_store import RowMatrix, write_array
from garnet.places.tiled_place import Task, TiledPlace, source_of
from garnet.places.tiled_work import STAGED, GraphOnDisk
from garnet.progress import Progress, Stage
from garnet.purify.calibration import Evidence
from garnet.purify.garnet import GARNET

_SHOWN_PLANTED = 10_000  # of the planted edges, whose suspicion is noted


def audit_in_tiles(
    graph: Any, place: TiledPlace, *, seed: int, symmetrize: bool = False, progress: Progress | None = None
) -> TiledAudit:
    """Audit a graph on disk or on a cluster; see `garnet.audit.audit`.

    Args:
        graph: what `as_graph` reads, best the path of a file.
        place: an `OnDisk` or `OnCluster`; its output is a folder of tables, as .csv if its name ends so, and otherwise
            as .parquet: of the edges `part-...`, the most suspicious first, and of the nodes `_nodes-...`.
        seed: of everything random.
        symmetrize: accept a directed graph.
        progress: told of stages.
    """
    if place.ledger:
        raise ParameterError("The 'ledger' of a place is what purifying keeps of edges; for an audit, leave it out.")
    method, source = purifier(seed), source_of(graph, symmetrize=symmetrize)
    task = AuditTask(place=place, method=method, source=source, symmetrize=symmetrize, progress=progress)
    with sharing(), task.open() as work:
        return work if isinstance(work, TiledAudit) else _audited(work, method)


class AuditTask(Task):
    """An audit on disk or on a cluster, and how it is to be done."""

    what = "a finished audit"

    def key(self, output: Path) -> dict[str, Any]:
        """See `Task`."""
        return {**super().key(output), "what": "audit"}

    def manifest(self, output: Path) -> str:
        """See `Task`."""
        return TABLE_MANIFEST

    @property
    def as_table(self) -> bool:
        """See `Task`."""
        return self.place.output is not None and ending_of(Path(self.place.output)) == ".parquet"

    def found(self, facts: dict[str, Any], output: Path | None, *, done_before: bool = False) -> TiledAudit:
        """See `Task`."""
        try:
            return TiledAudit(
                **{name: facts[name] for name in ("figures", "share", "power", "weights", "labels", "parts", "ending")},
                planted=np.array(facts["planted"], dtype=np.float64),
                top={name: np.array(values, dtype=kind) for name, (kind, values) in facts["top"].items()},
                folder=output,
                place=repr(self.place),
                stages=tuple(Stage(**stage) for stage in facts["stages"]),
                done_before=done_before,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise GarnetError(f"The manifest in {output} is damaged; remove that folder and audit again.") from error

    def held(self, facts: dict[str, Any], made: Scratch) -> TiledAudit:
        """See `Task`."""
        return self.found(facts, None)


@dataclass(frozen=True, eq=False)
class _Looked:
    """What the stage `reasons` left: what edges are looked at by, some of them, and what each reason counts."""

    blocks: Blocks
    sample: Sample
    weights: dict[str, float]


def _audited(work: GraphOnDisk, method: GARNET) -> TiledAudit:
    given, clock = work.given, work.clock
    if not given.num_edges:
        raise nothing_to_audit(given.num_nodes)
    looked = _reasons(work, method)
    false = [_planted(work, method, looked, number) for number in range(COPIES)]
    nodes: list[Columns] = []

    def doubt() -> dict[str, Any]:
        return _doubt(work, looked, joined_evidence(false), nodes)

    facts = clock.stage("doubt", doubt, lambda facts: facts, lambda _: ())
    found: TiledAudit = work.deliver({**facts, "stages": [asdict(stage) for stage in clock.stages]})
    return replace(found, nodes=nodes[0]) if found.folder is None else found


def _reasons(work: GraphOnDisk, method: GARNET) -> _Looked:
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
    return _Looked(blocks, Sample(table[:2].long(), seen, {}, mean_degree), facts["weights"])


def _matrices(blocks: Blocks) -> dict[str, RowMatrix]:
    found = {"spectral": blocks.points}
    if blocks.profiles is not None:
        found |= dict(zip(("features", "around"), blocks.profiles, strict=True))
    return found if blocks.likely is None else found | {"likely": blocks.likely}


def _planted(work: GraphOnDisk, method: GARNET, looked: _Looked, number: int) -> Evidence:
    """The stage in which a copy of the graph is audited into which edges were planted; or what was noted of it."""
    folder, file = f"planted-{number}", work.store.folder / f"false-{number}.bin"

    def plant() -> dict[str, Any]:
        inner = _within(work, folder)
        new = pairs_to_plant(work, (method.seed, number))
        graph = add_edges(work.given, inner.store.folder / "tiles", new, usual_weight(work))
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


def _doubt(work: GraphOnDisk, looked: _Looked, false: Evidence, nodes: list[Columns]) -> dict[str, Any]:
    """Judge every edge, and write the tables; gives the facts of the audit, and puts the nodes into a list."""
    given, store, sample = work.given, work.store, looked.sample
    ranks = sample.ranks
    reasons = ranks.reasons(sample.seen, looked.weights)
    learnt = learnt_from(reasons, false)
    reasons, suspicion = judged_by(reasons, learnt)
    keys = (sample.edges[0] * given.num_nodes + sample.edges[1]).numpy()
    cuts, layout = Cuts.of(suspicion, keys, given.parts), layout_of(list(sample.seen))
    tiles = {(i, j): store.folder / f"judged-{i}-{j}.bin" for i in range(given.parts) for j in range(i, given.parts)}
    parts = [PartBlocks.of(looked.blocks, i) for i in range(given.parts)]
    tasks = (
        Judged(
            graph=given, i=i, j=j, places=(parts[i], parts[j]), ranks=ranks, learnt=learnt, layout=layout, target=file
        )
        for (i, j), file in tiles.items()
        if not is_unchanged(file, layout)
    )
    store.do("judge", judge_tile, ((task,) for task in tasks))
    rows = [(given, i, [tiles[i, j] for j in range(i, given.parts)], layout, cuts) for i in range(given.parts)]
    digests = store.do("sum up", digest_row, rows)
    nodes.append(_nodes(work, digests))
    if work.place.output is not None:
        _write(work, tiles, digests, layout, reasons.counting, nodes[0])
    else:
        nodes[0] = ranked_nodes(given, nodes[0], np.argsort(nodes[0]["stability"], kind="stable"))
    top = [(i, j, columns) for i, digest in enumerate(digests) for j, columns in enumerate(digest.top, start=i)]
    worst = {name: column[:TOP] for name, column in joined(top, given.bounds, layout).items()}
    return _facts(work, learnt, digests, shown(given, worst, reasons.counting), nodes[0])


def _nodes(work: GraphOnDisk, digests: Sequence[Digest]) -> Columns:
    """All nodes as columns, in the order of their numbers."""
    bounds = work.given.bounds
    total = np.zeros((bounds[-1], 2))
    for i, digest in enumerate(digests):
        total[bounds[i] : bounds[i + 1]] += digest.at_rows
        total[bounds[i] :] += digest.at_columns
    counts: NDArray[np.int64] = np.concatenate([work.given.counts(i) for i in range(work.given.parts)])
    return {
        "stability": stability(counts - total[:, 0], counts),
        "neighbors": counts,
        "doubted": total[:, 1].astype(np.int64),
        "score": total[:, 0],
    }


def _write(
    work: GraphOnDisk,
    tiles: dict[tuple[int, int], Path],
    digests: Sequence[Digest],
    layout: Layout,
    counting: Sequence[str],
    nodes: Columns,
) -> None:
    """Write the tables; a piece of the edges that was written before is not written again."""
    given, staged, ending = work.given, work.store.folder / STAGED, ending_of(Path(work.place.output))
    with writing(staged):
        staged.mkdir(exist_ok=True)
    places = {(i, j): digests[i].places[j - i] for i, j in tiles}
    tasks = []
    for piece in range(given.parts):
        target = edge_file(staged, piece, ending)
        rows = [(i, j, file, int(places[i, j][piece]), int(places[i, j][piece + 1])) for (i, j), file in tiles.items()]
        if not target.exists():
            tasks.append((given, rows, layout, counting, target))
    work.store.do("write", write_edges, tasks)
    write_nodes(given, nodes, staged, ending)


def _facts(
    work: GraphOnDisk, learnt: Learnt, digests: Sequence[Digest], top: Columns, nodes: Columns
) -> dict[str, Any]:
    """What is noted of an audit, as plain values."""
    given, ground = work.given, GroundInTiles(work)
    doubted, suspicion = sum(one.doubted for one in digests), sum(one.suspicion for one in digests)
    wrong = 1 - sum(one.suspicion_of_doubted for one in digests) / doubted if doubted else 0.0
    planted = learnt.planted[:: -(-len(learnt.planted) // _SHOWN_PLANTED) or 1]
    figures = {"nodes": given.num_nodes, "edges": given.num_edges, "doubted": doubted, "false_alarms": wrong}
    return {
        "figures": {**figures, "unstable_nodes": int((nodes["stability"] < 0.5).sum())},
        "share": suspicion / given.num_edges,
        "power": learnt.doubt.power,
        "weights": dict(learnt.weights),
        "planted": planted.tolist(),
        "labels": labels_in_words(ground.labels, ground.split, given.feature_width or 0, learnt.weights),
        "top": {name: [column.dtype.str, column.tolist()] for name, column in top.items()},
        "parts": given.parts,
        "ending": "" if work.place.output is None else ending_of(Path(work.place.output)),
    }


def _within(work: GraphOnDisk, name: str) -> GraphOnDisk:
    """The same work in a folder of its own, whose stages nobody is told of."""
    folder = work.store.folder / name
    with writing(folder):
        folder.mkdir(exist_ok=True)
    store = copy.copy(work.store)
    store.folder = folder
    return replace(work, store=store, clock=Resumable(Journal(folder), None), as_table=False)
