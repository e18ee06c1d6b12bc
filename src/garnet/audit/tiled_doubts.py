"""How suspicious the edges of a graph in tiles are, one file per tile.

Besides 100 MB, a task holds at most the data on the nodes of two parts, and 70 bytes for each edge of its tile; or,
while common neighbours are counted, what `garnet.places.tiled_scores` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.audit.doubts import Learnt, judged_by
from garnet.audit.looks import seen_of
from garnet.audit.tiled_ground import PartBlocks, Ranks, sides_of
from garnet.audit.words import against
from garnet.places.column_file import Layout, write_columns
from garnet.places.tiled_scores import tile_shared_neighbors
from garnet.places.tiles import TiledGraph

_WORDS = ("word_1", "word_2", "word_3")
_AT_ONCE = 1 << 18  # edges weighted at a time
_INTEGERS = ("smaller_degree", "larger_degree")


def layout_of(seen: Sequence[str]) -> Layout:
    """The columns of a file of judged edges, given what is seen of them."""
    shown = {name: np.int32 if name in _INTEGERS else np.float32 for name in seen}
    words = dict.fromkeys(("because", *_WORDS), np.int8)
    return {"first": np.int32, "second": np.int32, "suspicion": np.float64, **shown, **words}


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """What is needed to judge a tile.

    Attributes:
        graph: the graph.
        i: part of the rows.
        j: part of the columns, not before i.
        places: where the data on the nodes of both parts is stored.
        ranks: values against which edges are ranked.
        learnt: what was learnt from planted edges.
        layout: layout of the file.
        target: the file to write: the edges of the tile, the most suspicious first.
    """

    graph: TiledGraph
    i: int
    j: int
    places: tuple[PartBlocks, PartBlocks]
    ranks: Ranks
    learnt: Learnt
    layout: Layout
    target: Path


def judge_tile(task: Judged) -> None:
    """Write all edges of a tile, with how suspicious each is and why."""
    graph, i, j = task.graph, task.i, task.j
    ends = torch.from_numpy(graph.edges(i, j) - np.array([[graph.bounds[i]], [graph.bounds[j]]]))
    shared, sides = tile_shared_neighbors(graph, i, j, ends), sides_of(graph, i, j, task.places)
    pieces: list[list[NDArray[Any]]] = []
    for some in torch.split(torch.arange(ends.shape[1]), _AT_ONCE):
        seen = seen_of(ends[:, some], *sides, shared[some])
        reasons, suspicion = judged_by(task.ranks.reasons(seen, task.learnt.weights), task.learnt)
        words = against(
            reasons.said,
            reasons.weights,
            sharing=(shared[some] > 0).numpy(),
            doubted=suspicion > 0.5,
        )
        columns = [*ends[:, some].numpy(), suspicion, *(column.numpy() for column in seen.values())]
        pieces.append([*columns, reasons.strongest.numpy(), *words])
    found = [np.concatenate(every) for every in zip(*pieces, strict=True)]
    order = np.argsort(-found[2], kind="stable")
    write_columns(task.target, task.layout, [column[order] for column in found])


def joined(
    pieces: Sequence[tuple[int, int, Sequence[NDArray[Any]]]], bounds: Sequence[int], layout: Layout
) -> dict[str, NDArray[Any]]:
    """The edges of some tiles joined, the most suspicious first, with the numbers of their ends in the graph."""
    columns: list[list[NDArray[Any]]] = []
    for i, j, (first, second, *others) in pieces:
        columns.append([first + np.int64(bounds[i]), second + np.int64(bounds[j]), *others])
    found = dict(zip(layout, (np.concatenate(every) for every in zip(*columns, strict=True)), strict=True))
    order = np.lexsort((found["second"], found["first"], -found["suspicion"]))
    return {name: column[order] for name, column in found.items()}


def words_of(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int8]:
    """(3, m) what speaks against each edge; see `garnet.audit.words.Words`."""
    return np.stack([columns[name] for name in _WORDS])
