"""The three things that a GPU spends its time with, by kernels that read and write no more than is wanted of them.

Neighbours: a matrix of distances between a cell and the cells around it is a hundred times larger than what is wanted
of it. Here distances are compared in registers with a bound, the k-th distance of the few hundred points that are met
first, and only points within go out. A number is the sum of two in half precision, so that three products on tensor
cores come as near as one in single precision; what is left of them in the end is measured again.

Products of a sparse matrix: the rows of the block that are gathered, not the matrix, are most of the traffic. For a
filter, which is only to turn columns towards the leading vectors, they are gathered in 16 bits, with a scale a row.

Scores of edges: two rows of the embedding are read, and one number is written.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from torch import Tensor

from garnet.sparse import Rows

_QUERIES, _POOL, _DEPTH = 128, 128, 64  # rows, columns and coordinates of a product in registers
_WARPS, _STAGES = 8, 3  # groups of threads that share it, and tiles on their way from memory
_CAPACITY = 512  # points that a row may collect in a round
_SPARE = 14  # points beyond the k-th that are measured again
_SCALE = 256  # length of a point in half precision: what is left of small numbers must not vanish
_ROWS = 1 << 18  # points that are searched for at a time
_EDGES = 16  # that are compared side by side
_GROWTH = 6  # times as many points as so far are passed through with a bound, before a better one is taken
_GATHERED, _COLUMNS = 1024, 128  # numbers of a block that are gathered at once, and columns of these at most
_SHARED = 1
_LONG = 1024  # entries of a row with which to begin


def usable(points: Tensor) -> bool:
    """Whether these kernels run on such points: in float32, on a CUDA device with Triton or in Triton's interpreter."""
    place = points.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return place and points.dtype == torch.float32 and _compiles(points.device)


@cache
def _compiles(device: torch.device) -> bool:
    """Whether Triton is there and makes a kernel for the device: it may lack a compiler, or know no such card."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        two = torch.eye(2, device=device)
        apart = compared(two, two, torch.tensor([[0], [1]], device=device), distance=True)
        return float(apart) == 2.0
    except Exception:
        return False


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Where kernels are launched: Triton takes the current device, wherever its arguments are."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def nearest(points: Tensor, sizes: Tensor, ranked: Tensor, k: int, probes: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k nearest other points of each within `probes` parts around its own.

    Args:
        points: (n, d) float32, part after part.
        sizes: (parts,) how many points each part has.
        ranked: (parts, m) the parts to search for the neighbours of each, itself leading.
        k: neighbours of each.
        probes: parts to search, at most m.

    Returns:
        Squared distances and places among the points, (n, k) each, nearest first; and which rows, (n,), can be relied
        on: one whose parts have fewer points than k, or far more near ones than there was room for, can not.
    """
    near = _Near(points, sizes, ranked, k, probes)
    with _on(points.device):
        away, found, sure = zip(*(near.rows(*bounds) for bounds in near.pieces()), strict=True)
    return torch.cat(away), torch.cat(found), torch.cat(sure)


def compared(left: Tensor, right: Tensor, edges: Tensor, *, distance: bool) -> Tensor:
    """Of row i of one matrix and row j of another, for each edge (i, j), the squared distance or the inner product.

    Args:
        left: (n, d) float32.
        right: (n, d) float32.
        edges: (2, m) int64.
        distance: which of both.
    """
    from garnet.kernels import compare

    first, second = edges.contiguous()
    result = left.new_empty(edges.shape[1])
    if not len(result):
        return result
    with _on(left.device):
        compare[(-(-len(result) // _EDGES),)](
            left.contiguous(), right.contiguous(), first, second, result, len(result), left.shape[1],
            DISTANCE=distance, SOME=_EDGES, DEPTH=128, num_warps=4,
        )  # fmt: skip
    return result


class Multiplier:
    """A sparse matrix, ready for products with blocks of columns; see `Space.product`.

    Args:
        rows: the matrix, in float32.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        # The longest rows are begun with: at the end, one alone would be waited for.
        self._order = (rows.starts.diff() <= _LONG).to(torch.uint8).argsort(stable=True).int()

    def product(self, block: Tensor, slope: float, shift: float, minus: Tensor | None, *, rough: bool) -> Tensor:
        """Slope A X - shift X - minus, with X rounded to 16 bits for A X if it may be rough."""
        from garnet.kernels import multiply

        block, n, width = block.contiguous(), len(self._order), block.shape[1]
        result, columns = torch.empty_like(block), min(_COLUMNS, max(4, 1 << (width - 1).bit_length()))
        rough = rough and width <= columns
        with _on(block.device):
            gathered, scales = _rough(block, columns) if rough else (block, block)
            multiply[(n, -(-width // columns))](
                self._rows.starts, self._rows.columns, self._rows.values, self._order, gathered, scales, block,
                block if minus is None else minus.contiguous(), result, width, slope, shift,
                ROUGH=rough, SHIFT=shift != 0.0, MINUS=minus is not None, SOME=min(_GATHERED // columns, 32) * _SHARED,
                WIDTH=columns, num_warps=_SHARED,
            )  # fmt: skip
        return result


def _rough(block: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Each row as integers of 16 bits, and its scale."""
    from garnet.kernels import roughen

    n, width = block.shape
    rough, scales = torch.empty_like(block, dtype=torch.int16), block.new_empty(n)
    roughen[(-(-n // 32),)](block, rough, scales, n, width, SOME=32, WIDTH=columns, num_warps=4)
    return rough, scales


class _Near:
    """The points as the kernels want them, and the rounds in which they run."""

    def __init__(self, points: Tensor, sizes: Tensor, ranked: Tensor, k: int, probes: int) -> None:
        self._points, self._k, self._probes = points.contiguous(), k, min(probes, ranked.shape[1])
        self._squares = points.square().sum(dim=1)
        n, d = points.shape
        self._width = -(-d // _DEPTH) * _DEPTH
        self._halves = points.new_zeros(n, 2, self._width, dtype=torch.float16)  # what the leading half leaves, and it
        scales = _SCALE / self._squares.sqrt().clamp_min(torch.finfo(torch.float32).tiny)
        for start in range(0, n, _ROWS):
            some = slice(start, start + _ROWS)
            scaled = points[some] * scales[some, None]
            self._halves[some, 1, :d] = scaled
            self._halves[some, 0, :d] = scaled - self._halves[some, 1, :d]
        self._ranked = ranked.int().contiguous()
        self._sizes = sizes.int()
        self._starts = (sizes.cumsum(0) - sizes).int()
        parts = torch.arange(len(sizes), device=points.device)
        tiles = (sizes + _QUERIES - 1) // _QUERIES
        self._tile_part = parts.repeat_interleave(tiles).int()
        first = (tiles.cumsum(0) - tiles)[self._tile_part]
        number = torch.arange(len(self._tile_part), device=points.device) - first
        self._tile_start = (self._starts[self._tile_part] + number * _QUERIES).int()
        self._tiles = tiles.tolist()
        pools = (sizes + _POOL - 1) // _POOL
        self._most = int(pools[ranked[:, : self._probes]].sum(dim=1).max())  # tiles that are passed through

    def pieces(self) -> Iterator[tuple[int, int, int, int]]:
        """First and last point, first and last tile, of some whole parts at a time."""
        row = tile = 0
        rows = tiles = 0
        for size, count in zip(self._sizes.tolist(), self._tiles, strict=True):
            if rows and rows + size > _ROWS:
                yield row, row + rows, tile, tile + tiles
                row, tile, rows, tiles = row + rows, tile + tiles, 0, 0
            rows, tiles = rows + size, tiles + count
        if rows:
            yield row, row + rows, tile, tile + tiles

    def rows(self, row: int, last: int, tile: int, last_tile: int) -> tuple[Tensor, Tensor, Tensor]:
        """The nearest of some points."""
        kept = self._k + _SPARE
        far = self._points.new_full((last - row, kept), torch.inf)
        nobody = torch.full((last - row, kept), -1, dtype=torch.int32, device=far.device)
        lost = torch.zeros(last - row, dtype=torch.bool, device=far.device)
        # A tile whose rows are all full stops looking, so that a row that is full may have missed some.
        best, bound, first, end = (far, nobody), far[:, -1], 0, _CAPACITY // _POOL
        while first < self._most:
            away, found, counts = self._collected(bound, row, tile, last_tile, first, end)
            best = self._merged(best, (away, found))
            bound = best[0].amax(dim=1)
            if first:  # before, every point had room
                lost |= counts >= _CAPACITY
            first, end = end, _GROWTH * end
        away, found = self._measured(best[1], row)
        return away, found.long(), away[:, -1].isfinite() & ~lost

    def _collected(
        self, bound: Tensor, row: int, tile: int, last_tile: int, first: int, end: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Squared distances, places and number of the points within a bound."""
        from garnet.kernels import emit

        counts = torch.zeros(len(bound), dtype=torch.int32, device=bound.device)
        found = torch.full((len(bound), _CAPACITY), -1, dtype=torch.int32, device=bound.device)
        away = bound.new_full((len(bound), _CAPACITY), torch.inf)
        some = slice(tile, last_tile)
        emit[(last_tile - tile,)](
            self._halves, self._squares, bound.contiguous(), self._tile_start[some], self._tile_part[some],
            self._starts, self._sizes, self._ranked, found, away, counts, row, self._probes, first, end,
            SCALE=_SCALE, REACH=self._ranked.shape[1], WIDTH=self._width, CAPACITY=_CAPACITY, QUERIES=_QUERIES,
            POOL=_POOL, DEPTH=_DEPTH, num_warps=_WARPS, num_stages=_STAGES,
        )  # fmt: skip
        return away, found, counts

    def _measured(self, found: Tensor, row: int) -> tuple[Tensor, Tensor]:
        """The nearest k of some points, by distances in single precision."""
        from garnet.kernels import measure

        away = self._points.new_empty(found.shape)
        measure[(len(found),)](
            self._points, found, away, row, self._points.shape[1], COUNT=found.shape[1], SOME=16, DEPTH=128,
            num_warps=4,
        )  # fmt: skip
        away, at = away.topk(self._k, dim=1, largest=False)
        return away, found.gather(1, at)

    def _merged(self, best: tuple[Tensor, Tensor], more: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        away, found = (torch.cat(both, dim=1) for both in zip(best, more, strict=True))
        away, at = away.topk(self._k + _SPARE, dim=1, largest=False, sorted=False)
        return away, found.gather(1, at)
