"""Pruning a graph larger than memory: tile by tile, with the result that `GARNET.purify` has in memory.

Every edge of a tile, of the base graph or of the input, is scored once and written down with what speaks for it. Exact
quantiles over all tiles then say which edges stay, and these are gathered into the strips of the purified graph.

Beside 50 MB, a task holds at most one of

* the points of two parts, and 30 bytes for each edge of its tile, of the base graph as often as it is given;
* 25 bytes for each edge of its tile, 65 more if it is the input's, and 4 for each entry of the input in one tile of
  each of two parts, while shared neighbours are counted and points are no longer held;
* 50 bytes for each entry of a strip of the purified graph, and 30 for each edge of a tile; of a table of edges, the
  tile alone.

On disk it takes 21 bytes for each edge of the base graph or the input, until the folder of the parts is removed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from garnet.errors import ParameterError
from garnet.io.failures import writing
from garnet.places.edge_table import EdgeTable, table_of, write_table
from garnet.places.row_store import Parts, Tall
from garnet.places.score_file import GIVEN, NEAR, is_unchanged, read_columns
from garnet.places.score_tile import Rule, TileTask, score_tile
from garnet.places.tile_writer import finish_like, has_strip, write_strip
from garnet.places.tiles import TiledGraph
from garnet.purify.quantile import digit_counts, quantile

__all__ = ["Pruned", "Rule", "prune"]

Tiles = dict[tuple[int, int], Path]
"""The file of scored edges of each tile (i, j), i <= j."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pruned:
    """What pruning gave.

    Attributes:
        graph: the purified graph; nodes, features, labels, split and names are those of the input.
        threshold: the score below which base edges were pruned.
        kept: edges of the input that stay.
        dropped: edges of the input that do not.
        added: edges that the input did not have.
        base_edges: edges of the base graph.
    """

    graph: TiledGraph | EdgeTable
    threshold: float
    kept: int
    dropped: int
    added: int
    base_edges: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Which of the scored edges stay.

    Attributes:
        threshold: base edges that score below it go.
        doubt: edges of the input with less support are not kept for having been there; None if none is.
        floor: the least weight.
    """

    threshold: float
    doubt: float | None
    floor: float = 0.0

    def stays(self, file: Path) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
        """Which edges of a tile stay, and the flags of all."""
        flags, score = read_columns(file, "flags", "score")
        stays: NDArray[np.bool_] = (flags & NEAR > 0) & (score >= self.threshold)
        if self.doubt is not None:
            # Where an edge is not the input's, its support is not a number, and so not above anything.
            stays |= read_columns(file, "support")[0] >= self.doubt
        return stays, flags

    def kept(self, file: Path) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
        """Both ends, counted from the first nodes of their parts, and the weight of the edges of a tile that stay."""
        stays, _ = self.stays(file)
        first, second, weight = (column[stays] for column in read_columns(file, "first", "second", "weight"))
        return first, second, np.maximum(weight, np.float32(self.floor))


def prune(
    graph: TiledGraph,
    parts: Parts,
    points: Tall,
    base: Mapping[tuple[int, int], Sequence[Path]],
    rule: Rule,
    output: Path,
    *,
    as_table: bool = False,
) -> Pruned:
    """Prune the base graph, add what is supported of the input, and write the purified graph.

    What is done stays done: a task whose file is in the folder of the parts is not run again.

    Args:
        graph: the input.
        parts: where to work, with the bounds of the graph; its folder belongs to this input and this rule.
        points: (n, d) embedding.
        base: for a tile (i, j), i <= j, the files of its pairs of near neighbours: raw int32 (pairs, 2), counted from
            the first node of part i and of part j, in any order, and as often as one likes; without one, no base edges.
        rule: which edges stay.
        output: folder of the purified graph, made if it is not there; what is in it belongs to this input and rule.
        as_table: write a Parquet table of edges, not tiles.

    Raises:
        GarnetError: a file is missing, truncated, or cannot be written.
    """
    if rule.weight == "given" and any(base.values()):
        raise ParameterError("The weight 'given' needs a base graph without edges, because new ones have no weight.")
    with writing(output):
        output.mkdir(exist_ok=True)
    tiles = {
        (i, j): parts.folder / f"scored-{i}-{j}.bin"
        for i, j in itertools.combinations_with_replacement(range(graph.parts), 2)
    }
    _score(graph, parts, points, base, rule, tiles)
    rows = [[tiles[i, j] for j in range(i, graph.parts)] for i in range(graph.parts)]
    threshold, doubt = rule.gamma, None
    if rule.gamma_unit == "quantile":
        threshold = _quantile(parts, rows, "score", rule.gamma)
    if rule.support is not None:
        doubt = _quantile(parts, rows, "support", rule.support)
    verdict = Verdict(threshold=threshold, doubt=doubt)
    tallies = parts.each(_tally, rows, [verdict] * len(rows))
    kept, dropped, added, base_edges = (sum(tally[place] for tally in tallies) for place in range(4))
    if rule.weight in ("similarity", "score"):
        heaviest = max(tally[4] for tally in tallies)
        verdict = replace(verdict, floor=max(1e-3 * heaviest, float(np.finfo(np.float32).tiny)))
    purified: TiledGraph | EdgeTable
    if as_table:
        write_table(graph, parts, rows, verdict.kept, output)
        purified = table_of(graph, output, kept + added)
    else:
        _gather(graph, parts, tiles, verdict, output)
        purified = finish_like(output, graph)
    return Pruned(
        graph=purified,
        threshold=threshold,
        kept=kept,
        dropped=dropped,
        added=added,
        base_edges=base_edges,
    )


def _score(
    graph: TiledGraph,
    parts: Parts,
    points: Tall,
    base: Mapping[tuple[int, int], Sequence[Path]],
    rule: Rule,
    tiles: Tiles,
) -> None:
    tasks = (
        TileTask(
            graph=graph,
            i=i,
            j=j,
            points=(points.files[i], points.files[j]),
            width=points.width,
            base=tuple(base.get((i, j), ())),
            rule=rule,
            target=file,
        )
        for (i, j), file in tiles.items()
        if not is_unchanged(file)
    )
    parts.do("score", score_tile, ((task,) for task in tasks))


def _quantile(parts: Parts, rows: Sequence[Sequence[Path]], column: str, share: float) -> float:
    """The quantile over all base edges of their score, or over all edges of the input of their support."""

    def count(place: int, beginnings: Sequence[int]) -> NDArray[np.int64]:
        question = column, place, tuple(beginnings)
        counts: NDArray[np.int64] = sum(parts.each(_count, rows, [question] * len(rows)))
        return counts

    return quantile(count, share)


def _count(files: Sequence[Path], question: tuple[str, int, Sequence[int]]) -> NDArray[np.int64]:
    column, place, beginnings = question
    counts = digit_counts(np.zeros(0, np.float32), place, beginnings)
    for file in files:
        flags, numbers = read_columns(file, "flags", column)
        counts += digit_counts(numbers[flags & (NEAR if column == "score" else GIVEN) > 0], place, beginnings)
    return counts


def _tally(files: Sequence[Path], verdict: Verdict) -> tuple[int, int, int, int, float]:
    """Edges kept, dropped and added, base edges, and the largest weight of those that stay, if any is positive."""
    counts, largest = np.zeros(4, np.int64), 0.0
    for file in files:
        stays, flags = verdict.stays(file)
        given = flags & GIVEN > 0
        fates = given & stays, given & ~stays, stays & ~given, flags & NEAR > 0
        counts += [np.count_nonzero(fate) for fate in fates]
        largest = max(largest, float(read_columns(file, "weight")[0][stays].max(initial=0.0)))
    kept, dropped, added, near = counts.tolist()
    return kept, dropped, added, near, largest


def _gather(graph: TiledGraph, parts: Parts, tiles: Tiles, verdict: Verdict, output: Path) -> None:
    """Write every strip of the purified graph that is not yet in its folder."""
    tasks = []
    for i in range(graph.parts):
        if not has_strip(output, i):
            files = [tiles[min(i, j), max(i, j)] for j in range(graph.parts)]
            tasks.append((i, graph.bounds, files, verdict, output))
    parts.do("write", _strip, tasks)


def _strip(i: int, bounds: Sequence[int], files: Sequence[Path], verdict: Verdict, output: Path) -> None:
    """Gather the edges that stay, in both directions, into the rows of part i."""
    n, pieces, weights = bounds[-1], [], []
    for j, file in enumerate(files):
        first, second, weight = verdict.kept(file)
        if j >= i:
            pieces.append(first.astype(np.int64) * n + (second + np.int64(bounds[j])))
            weights.append(weight)
        if j <= i:
            pieces.append(second.astype(np.int64) * n + (first + np.int64(bounds[j])))
            weights.append(weight)
    entries, values = np.concatenate(pieces), np.concatenate(weights)
    pieces.clear()
    weights.clear()
    order = np.argsort(entries)
    values, entries = values[order], entries[order]
    del order
    starts = np.searchsorted(entries, np.arange(bounds[i + 1] - bounds[i] + 1) * n)
    columns = np.remainder(entries, max(n, 1), out=entries).astype(np.int32)
    del entries
    write_strip(output, i, bounds, starts, columns, values)
