"""Turns a stream of edges into a tiled graph, through files on disk, within a memory limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GarnetError, GraphError, ParameterError
from garnet.graph.files import open_source
from garnet.graph.graph import Graph, Split
from garnet.io.checks import checked_names, proper_pairs, require_undirected
from garnet.io.edge_source import EdgeSource, FeatureBlock, FeatureRows
from garnet.io.failures import writing
from garnet.io.removal import remove
from garnet.places.edge_sort import Counter, Spool
from garnet.places.row_store import Run, grain_of, run_locally
from garnet.places.strips import Records, distribute, sort_strip
from garnet.places.tile_writer import finish, write_features, write_strip
from garnet.places.tiles import TiledGraph
from garnet.progress import Progress, Step

_UNFINISHED = "unfinished"
# Bytes that NumPy, SciPy and torch take before any graph is loaded, and bytes per node and per pair of a chunk.
_BASELINE = 300 << 20
_BYTES_A_NODE = 80
_BYTES_A_PAIR = 200
# Bytes per pair of a strip while it is sorted, without and with weights.
_BYTES_A_RECORD, _BYTES_A_WEIGHTED_RECORD = 28, 44
_STRIP_SHARE = 4
# Parts are cut between grains if they have this many of them.
_GRAINS_A_PART = 4
_LARGEST_CHUNK = 1 << 20
_MOST = 2**31 - 1


def build_tiles(
    source: str | Path | Graph,
    folder: Path,
    *,
    memory: int,
    parts: int | Callable[[int, int], int] | None = None,
    symmetrize: bool = False,
    progress: Progress | None = None,
    run: Run = run_locally,
    at_once: int = 1,
) -> TiledGraph:
    """Cut a graph that need not fit in memory into tiles on disk, by the rules of `as_graph`.

    The pairs are copied to disk once, then distributed in both directions to their strips of rows, then each strip is
    sorted separately. Besides the tiles this temporarily takes up to 44 bytes of disk per pair. The rows of a graph in
    memory are cut as they are.

    Args:
        source: what `open_source` reads.
        folder: the folder for the tiles, in the directory of a run; what an earlier run left of it is removed.
        memory: bytes that this process may hold at most, libraries included. A few numbers per node must fit in it.
        parts: minimum number of parts to cut the nodes into, or a function of the numbers of nodes and edges; more are
            made where a strip would not fit in a quarter of the memory.
        symmetrize: accept a directed graph and make each of its edges undirected.
        progress: called with its steps.
        run: what does the sorting; all its processes must see the folder.
        at_once: number of strips that one process sorts at the same time.

    Raises:
        GraphError: the source does not hold a graph; the message says why, as in `load_graph`.
        GarnetError: the memory is too small for this graph, or the disk is full.
    """
    if isinstance(parts, int) and parts < 1:
        raise ParameterError(f"The 'parts' parameter of build_tiles must be an integer >= 1. Got {parts} instead.")
    opened = open_source(source)

    def say(detail: str) -> None:
        if progress is not None:
            progress(Step("tile", detail))

    with writing(folder):
        remove(folder)
        folder.mkdir()
    if isinstance(source, Graph):
        _require_room(source.num_nodes, memory)
        degrees = source.adjacency.indptr[1:] - source.adjacency.indptr[:-1]
        weighted = bool((source.adjacency.data != 1).any())
        bounds = _bounds(degrees.astype(np.int64), weighted, memory // at_once, parts, opened.features)
        say("cut strips")
        _cut_strips(source, folder, bounds)
        return _with_nodes(opened, folder, bounds, None, _chunk(memory))
    with writing(folder):
        spool = Spool(folder / _UNFINISHED, chunk=_chunk(memory))
    try:
        say("read edges")
        names, counts = _read(opened, spool, memory)
        bounds = _bounds(counts, spool.weighted, memory // at_once, parts, opened.features)
        say("distribute edges")
        strips = _distributed(spool, names, bounds, run)
        say("sort strips")
        tasks = ((i, bounds, pieces, spool.weighted, folder) for i, pieces in enumerate(strips))
        pairs, one_way, differ = (sum(column) for column in zip(*run(sort_strip, tasks), strict=True))
        with opened.reading():
            require_undirected(pairs, one_way, bool(differ), "edge" if symmetrize else opened.row_is)
        say("copy nodes")
        return _with_nodes(opened, folder, bounds, names, spool.chunk)
    finally:
        spool.remove()


def _chunk(memory: int) -> int:
    """Number of pairs processed at a time."""
    return max(1, min(_LARGEST_CHUNK, memory >> 11))


def _cut_strips(graph: Graph, folder: Path, bounds: Sequence[int]) -> None:
    """The strips of a graph whose rows are already in their final form."""
    matrix = graph.adjacency
    for i, (first, last) in enumerate(pairwise(bounds)):
        starts = matrix.indptr[first : last + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        write_strip(folder, i, bounds, starts - starts[0], matrix.indices[entries], matrix.data[entries])


def _distributed(spool: Spool, names: NDArray[Any] | None, bounds: tuple[int, ...], run: Run) -> list[list[Records]]:
    """The pairs in both directions, by the strips of their rows."""
    files = [spool.folder / f"records-{number}" for number in range(len(spool.pieces))]
    repeated = map(repeat, (names, bounds, spool.weighted))
    counts = run(distribute, zip(spool.pieces, *repeated, files, strict=False))
    spool.drop()
    ends = [np.cumsum(count).tolist() for count in counts]
    return [
        [
            Records(file, end[-1], end[i] - int(count[i]), int(count[i]))
            for file, count, end in zip(files, counts, ends, strict=True)
            if count[i]
        ]
        for i in range(len(bounds) - 1)
    ]


def _with_nodes(
    source: EdgeSource, folder: Path, bounds: tuple[int, ...], names: NDArray[Any] | None, chunk: int
) -> TiledGraph:
    """Complete the tiles with the data of the nodes: features, labels, split and names."""
    features = source.features
    return finish(
        folder,
        bounds,
        feature_width=None if features is None else features.width,
        sparse_features=features is not None and features.sparse,
        feature_checks=() if features is None else _copy_features(features, folder, bounds, chunk),
        labels=source.labels,
        split=None if source.split is None else Split(*source.split),
        names=source.names if names is None else names,
    )


def _read(source: EdgeSource, spool: Spool, memory: int) -> tuple[NDArray[Any] | None, NDArray[np.int64]]:
    """Copy all pairs to disk, except loops and those of weight zero.

    Returns:
        The sorted names of the nodes, if pairs are given by names other than node numbers; and in how many pairs each
        node occurs.
    """
    counter = Counter(source.num_nodes)
    _require_room(counter.num_nodes, memory)
    for heads, tails, weights in source.edges(spool.chunk):
        proper = proper_pairs(heads, tails, weights)
        counter.add(heads, tails, proper)
        _require_room(counter.num_nodes, memory)
        spool.add(heads[proper], tails[proper], None if weights is None else weights[proper])
    names, counts = counter.result()
    with source.reading():
        return None if names is None else checked_names(names, len(counts)), counts


def _require_room(n: int, memory: int) -> None:
    if n > _MOST:
        raise GraphError(f"A graph of {n} nodes is too large: tiles number them in 32 bits, up to {_MOST}.")
    fixed = _BASELINE + n * _BYTES_A_NODE
    free = 1 - 1 / _STRIP_SHARE - _BYTES_A_PAIR / 2048
    if fixed > memory * free:
        least = fixed / free / 1e9
        raise GarnetError(
            f"A memory of {memory / 1e9:.3g} GB is too small for a graph of {n} nodes; give {least:.2f} GB at least."
        )


def _bounds(
    counts: NDArray[np.int64],
    weighted: bool,
    memory: int,
    parts: int | Callable[[int, int], int] | None,
    features: FeatureRows | None,
) -> tuple[int, ...]:
    """Cut the nodes into parts, none with over twice an equal share of nodes or of pairs, give or take a few nodes.

    Where that is balanced enough, a part consists of whole grains; see `grain_of`.
    """
    n, total, share = len(counts), int(counts.sum()), memory // _STRIP_SHARE
    if not n:
        return (0, 0)
    if callable(parts):
        parts = parts(n, total // 2)
    most = min(_MOST, share // (_BYTES_A_WEIGHTED_RECORD if weighted else _BYTES_A_RECORD))
    if counts.max() > most:
        raise GarnetError(
            f"A memory of {memory / 1e9:.3g} GB is too small: node {counts.argmax()} has {counts.max()} pairs, and "
            f"it can sort {most} at a time."
        )
    rows = 2 * features.nbytes / share if features is not None else 0
    wanted = min(n, max(parts or 1, math.ceil(total / most), math.ceil(rows)))
    pairs = np.concatenate([[0], np.cumsum(counts)])
    cost = pairs / max(1, total) + np.arange(n + 1) / n
    while True:
        steps = np.arange(wanted + 1)
        cuts = np.searchsorted(cost, cost[-1] * steps / wanted)
        grain = grain_of(n) if _GRAINS_A_PART * grain_of(n) * wanted <= n else 1
        units, cuts = -(-n // grain), (cuts + grain // 2) // grain
        # No part is empty, whatever the shares.
        cuts = np.minimum(np.maximum.accumulate(cuts - steps) + steps, units - steps[::-1])
        cuts[0], cuts[-1] = 0, units
        cuts = np.minimum(cuts * grain, n)
        if wanted == n or np.diff(pairs[cuts]).max() <= most:
            return tuple(cuts.tolist())
        wanted = min(n, wanted + max(1, wanted // 4))


def _copy_features(features: FeatureRows, folder: Path, bounds: tuple[int, ...], at_once: int) -> list[int]:
    """Write the features of every part; returns the checksums of their files."""
    if not bounds[-1]:
        empty = np.zeros((0, features.width), np.float32)
        return [write_features(folder, 0, [sp.csr_array(empty) if features.sparse else empty])]
    groups = groupby(_cut(features.rows(at_once), bounds), key=lambda piece: piece[0])
    return [write_features(folder, i, (rows for _, rows in group)) for i, group in groups]


def _cut(pieces: Iterator[FeatureBlock], bounds: tuple[int, ...]) -> Iterator[tuple[int, FeatureBlock]]:
    """The pieces, split where parts end, each with the number of its part."""
    part = begin = 0
    for piece in pieces:
        end = begin + piece.shape[0]
        here = begin
        while here < end:
            stop = min(end, bounds[part + 1])
            yield part, piece[here - begin : stop - begin]
            here = stop
            part += here == bounds[part + 1]
        begin = end
