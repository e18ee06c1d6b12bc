"""The last stage of an audit in tiles: every edge is judged, and the tables are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.audit.blocks import Blocks
from garnet.audit.doubts import Learnt, judged_by, labels_in_words, learnt_from, stability
from garnet.audit.tiled_digest import TOP, Cuts, Digest, digest_row, sums_at_nodes
from garnet.audit.tiled_doubts import Judged, joined, judge_tile, layout_of
from garnet.audit.tiled_ground import GroundInTiles, PartBlocks, Sample
from garnet.audit.tiled_table import Columns, edge_file, ending_of, shown, write_edges, write_nodes
from garnet.io.failures import writing
from garnet.places.column_file import Layout, is_unchanged
from garnet.places.row_files import write_array
from garnet.places.tiled_embedding import released
from garnet.places.tiled_work import STAGED, GraphOnDisk
from garnet.places.tiles import TiledGraph
from garnet.purify.calibration import Evidence

_SHOWN_PLANTED = 10_000  # planted edges whose suspicion is noted
_NODES = "nodes.bin"
"""File in the directory of a run: stability, doubted edges and score of every node."""

Tiles = dict[tuple[int, int], Path]
"""The file of judged edges of each tile (i, j), i <= j."""


@dataclass(frozen=True, eq=False)
class Looked:
    """What is needed to judge a graph.

    Attributes:
        blocks: what its edges are compared by.
        sample: a sample of them.
        weights: what each reason counts.
    """

    blocks: Blocks
    sample: Sample
    weights: dict[str, float]


def doubt(work: GraphOnDisk, looked: Looked, false: Evidence) -> dict[str, Any]:
    """Judge every edge, and write the tables.

    Args:
        work: the graph.
        looked: what is needed to judge it.
        false: evidence on planted edges.

    Returns:
        What is noted of the audit, as plain values.
    """
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
    with released(store):
        store.do("judge", judge_tile, ((task,) for task in tasks))
    sums = store.files("sums")
    rows = [(given, i, [tiles[i, j] for j in range(i, given.parts)], layout, cuts, file) for i, file in enumerate(sums)]
    digests = store.do("sum up", digest_row, rows)
    nodes = _nodes(given, sums_at_nodes(given, sums))
    write_array(store.folder / _NODES, np.stack([nodes["stability"], nodes["doubted"], nodes["score"]]))
    if work.place.output is not None:
        _write(work, tiles, digests, layout, reasons.counting)
        write_nodes(given, nodes, store.folder / STAGED, ending_of(Path(work.place.output)))
    top = [(i, j, columns) for i, digest in enumerate(digests) for j, columns in enumerate(digest.top, start=i)]
    worst = {name: column[:TOP] for name, column in joined(top, given.bounds, layout).items()}
    unstable = int((nodes["stability"] < 0.5).sum())
    return _facts(work, learnt, digests, shown(given, worst, reasons.counting), unstable)


def _nodes(graph: TiledGraph, sums: NDArray[np.float64]) -> Columns:
    """All nodes as columns, in the order of their numbers."""
    counts = _counts(graph)
    score, doubted = sums
    return {
        "stability": stability(counts - score, counts),
        "neighbors": counts,
        "doubted": doubted.astype(np.int64),
        "score": score,
    }


def read_nodes(folder: Path, graph: TiledGraph) -> Columns:
    """The same, read from the directory of a run."""
    stable, doubted, score = np.fromfile(folder / _NODES).reshape(3, -1)
    return {"stability": stable, "neighbors": _counts(graph), "doubted": doubted.astype(np.int64), "score": score}


def _counts(graph: TiledGraph) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.concatenate([graph.counts(i) for i in range(graph.parts)])
    return counts


def _write(work: GraphOnDisk, tiles: Tiles, digests: Sequence[Digest], layout: Layout, counting: Sequence[str]) -> None:
    """Write the table of the edges, except pieces that were written before."""
    given, staged, ending = work.given, work.store.folder / STAGED, ending_of(Path(work.place.output))
    with writing(staged):
        staged.mkdir(exist_ok=True)
    tasks = []
    for piece in range(given.parts):
        rows = [(i, j, file, *digests[i].places[j - i][piece : piece + 2].tolist()) for (i, j), file in tiles.items()]
        target = edge_file(staged, piece, ending)
        if not target.exists():
            tasks.append((given, rows, layout, counting, target))
    work.store.do("write", write_edges, tasks)


def _facts(
    work: GraphOnDisk, learnt: Learnt, digests: Sequence[Digest], top: Columns, unstable_nodes: int
) -> dict[str, Any]:
    """What is noted of an audit, as plain values."""
    given, ground = work.given, GroundInTiles(work)
    doubted, suspicion = sum(one.doubted for one in digests), sum(one.suspicion for one in digests)
    wrong = 1 - sum(one.suspicion_of_doubted for one in digests) / doubted if doubted else 0.0
    figures = {"nodes": given.num_nodes, "edges": given.num_edges, "doubted": doubted, "false_alarms": wrong}
    return {
        "figures": {**figures, "unstable_nodes": unstable_nodes},
        "share": suspicion / given.num_edges,
        "power": learnt.doubt.power,
        "weights": dict(learnt.weights),
        "planted": learnt.planted[:: -(-len(learnt.planted) // _SHOWN_PLANTED) or 1].tolist(),
        "labels": labels_in_words(ground.labels, ground.split, given.feature_width or 0, learnt.weights),
        "top": {name: [column.dtype.str, column.tolist()] for name, column in top.items()},
        "parts": given.parts,
        "ending": "" if work.place.output is None else ending_of(Path(work.place.output)),
    }
