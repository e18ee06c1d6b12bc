"""The three operations a GPU spends its time on, by kernels that read and write no more than needed.

Neighbours: a distance matrix between a cell and the cells around it is a hundred times larger than what is needed of
it. Here distances are compared in registers with a bound, the k-th distance of the first few hundred points, and only
points within it are written. A number is the sum of two in half precision, so three products on tensor cores come as
close as one in single precision; the remaining points are measured again.

Products of a sparse matrix: most of the traffic is the gathered rows of the block, not the matrix. A warp has a row of
the matrix to itself, and requests its next entries before it has processed the last.

Scores of edges: two rows of the embedding are read, and one number is written.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from torch import Tensor

_QUERIES, _POOL, _DEPTH = 64, 128, 64  # rows, columns and coordinates of a product in registers
_WARPS, _STAGES = 4, 4  # groups of threads that share it, and tiles on their way from memory
_CAPACITY = 512  # points that a row may collect in a round
_SPARE, _SPARE_ROUGH = 14, 46  # points beyond the k-th that are measured again
_ROUGH = 6 * 2.0**-11 * (2 / 3) ** 0.5  # three times the half-precision error of a squared distance, by fourth powers
_NEAREST = 12  # parts in which the neighbours are that half precision cannot tell apart
_FAR = 4  # at least this many times more must be searched, or all are searched more exactly
_UNSURE = 0.1  # share of rows with neighbours blurred by half precision, above which it is not used
_SCALE = 256  # length of a point in half precision: what is left of small numbers must not vanish
_AGAIN = 4  # how often full rows try again
_ROWS = 1 << 18  # points searched for at a time
_EDGES = 16  # edges compared side by side
_GROWTH = 6  # times as many points as so far are passed through with a bound, before a better one is taken
_GATHERED, _COLUMNS = 512, 128  # numbers of a block gathered at once, and the most columns of these
_LONG = 1024  # entries of a row that several warps share


def usable(points: Tensor) -> bool:
    """Whether these kernels run on such points: in float32, on a CUDA device with Triton or in Triton's interpreter."""
    place = points.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return place and points.dtype == torch.float32 and _compiles(points.device)


@cache
def _compiles(device: torch.device) -> bool:
    """Whether Triton is installed and can compile for the device: it may lack a compiler, or not know the card."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        two = torch.eye(2, device=device)
        apart = compared(two, two, torch.tensor([[0], [1]], device=device), distance=True)
        return float(apart) == 2.0
    except Exception:
        return False


def launched_on(device: torch.device) -> AbstractContextManager[object]:
    """Sets the device for kernel launches: Triton takes the current one, wherever its arguments are."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def nearest(points: Tensor, sizes: Tensor, ranked: Tensor, k: int, probes: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k other points nearest to each within `probes` parts around its own.

    Args:
        points: (n, d) float32, part by part.
        sizes: (parts,) how many points each part has.
        ranked: (parts, m) the parts to search for the neighbours of each part's points, itself first.
        k: neighbours of each.
        probes: parts to search, at most m.

    Returns:
        Squared distances and places among the points, (n, k) each, nearest first; and which rows, (n,), can be relied
        on: one whose parts have fewer points than k, or far more near ones than there was room for, can not.
    """
    near = _Near(points, sizes, ranked, k, probes)
    with launched_on(points.device):
        away, found, sure = zip(*(near.rows(*bounds) for bounds in near.pieces()), strict=True)
    return torch.cat(away), torch.cat(found), torch.cat(sure)


def compared(left: Tensor, right: Tensor, edges: Tensor, *, distance: bool) -> Tensor:
    """The squared distance or inner product of row i of one matrix and row j of another, for each edge (i, j).

    Args:
        left: (n, d) float32.
        right: (n, d) float32.
        edges: (2, m) int64.
        distance: whether to compute the distance.
    """
    from garnet.linalg.triton_kernels import compare

    first, second = edges.contiguous()
    result = left.new_empty(edges.shape[1])
    if not len(result):
        return result
    with launched_on(left.device):
        compare[(-(-len(result) // _EDGES),)](
            left.contiguous(), right.contiguous(), first, second, result, len(result), left.shape[1],
            DISTANCE=distance, SOME=_EDGES, DEPTH=128, num_warps=4,
        )  # fmt: skip
    return result


class Multiplier:
    """A sparse matrix, ready for products with blocks of columns; see `Space.product`.

    Args:
        starts: (m + 1,) where the entries of each row begin, and the end.
        columns: (nnz,) column of each entry.
        values: (nnz,) float32.
    """

    def __init__(self, starts: Tensor, columns: Tensor, values: Tensor) -> None:
        self._starts, self._columns, self._values = starts, columns, values
        # A row with thousands of entries would hold up the others: several warps share it.
        long = starts.diff() > _LONG
        self._shared = tuple((which.nonzero()[:, 0].int(), warps) for which, warps in ((long, 8), (~long, 1)))

    def product(self, block: Tensor, slope: float = 1.0, shift: float = 0.0, minus: Tensor | None = None) -> Tensor:
        """Slope A X - shift X - minus; the latter two only for a square matrix."""
        from garnet.linalg.triton_kernels import multiply

        block, width = block.contiguous(), block.shape[1]
        columns = min(_COLUMNS, max(4, 1 << (width - 1).bit_length()))
        entries = min(_GATHERED // columns, 32)
        result = block.new_empty(len(self._starts) - 1, width)
        with launched_on(block.device):
            for rows, warps in self._shared:
                if not len(rows):
                    continue
                multiply[(len(rows), -(-width // columns))](
                    self._starts, self._columns, self._values, rows, block,
                    block if minus is None else minus.contiguous(), result, width, slope, shift,
                    SHIFT=shift != 0.0, MINUS=minus is not None, SOME=entries * warps, WIDTH=columns, num_warps=warps,
                )  # fmt: skip
        return result


class _Near:
    """The points as the kernels need them, and the rounds in which these run."""

    def __init__(self, points: Tensor, sizes: Tensor, ranked: Tensor, k: int, probes: int) -> None:
        self._points, self._k, self._fine = points.contiguous(), k, False
        self._squares = points.square().sum(dim=1)
        n, d = points.shape
        self._width = -(-d // _DEPTH) * _DEPTH
        # The remainder of the leading half, and that half; a tile may read beyond the last row.
        self._halves = points.new_zeros(n + _POOL, 2, self._width, dtype=torch.float16)
        scales = torch.where(self._squares > 0, _SCALE * self._squares.rsqrt(), 0.0)
        for start in range(0, n, _ROWS):
            some = slice(start, min(start + _ROWS, n))
            scaled = points[some] * scales[some, None]
            self._halves[some, 1, :d] = scaled
            self._halves[some, 0, :d] = scaled - self._halves[some, 1, :d]
        self._sizes, stops = sizes.tolist(), sizes.cumsum(0)
        starts = stops - sizes
        part, self._tile_start = _tiles(sizes, starts, torch.arange(len(sizes), device=points.device), _QUERIES)
        self._tile_part, self._tile_stop = part.int(), stops[part].int()
        self._tiles = torch.bincount(part, minlength=len(sizes)).tolist()
        around = ranked[:, :probes]
        part, self._pool_begin = _tiles(sizes, starts, around.flatten(), _POOL)
        self._pool_stop = stops[part].int()
        pools = ((sizes + _POOL - 1) // _POOL)[around].sum(dim=1)
        self._pool_starts = torch.cat([pools.new_zeros(1), pools.cumsum(0)]).int()
        self._most = int(pools.max())
        self._close = int(((sizes + _POOL - 1) // _POOL)[around[:, :_NEAREST]].sum(dim=1).max())

    def pieces(self) -> Iterator[tuple[int, int, int, int]]:
        """First and last point, first and last tile, of some whole parts at a time."""
        row = tile = 0
        rows = tiles = 0
        for size, count in zip(self._sizes, self._tiles, strict=True):
            if rows and rows + size > _ROWS:
                yield row, row + rows, tile, tile + tiles
                row, tile, rows, tiles = row + rows, tile + tiles, 0, 0
            rows, tiles = rows + size, tiles + count
        if rows:
            yield row, row + rows, tile, tile + tiles

    def rows(self, row: int, last: int, tile: int, last_tile: int) -> tuple[Tensor, Tensor, Tensor]:
        """The nearest to some points: by products in half precision, and then more exactly where these are blurred."""
        span = row, last, tile, last_tile
        if self._fine:
            return self._searched(*span, _SPARE, self._most, fine=True)[:3]
        spare = min(_SPARE_ROUGH, max(_SPARE, (_CAPACITY - self._k) // 4))
        away, found, sure, told = self._searched(*span, spare, self._most, fine=False)
        if float((sure & ~told).float().mean()) <= _UNSURE:
            return away, found, sure
        if _FAR * self._close > self._most:
            self._fine = True
            return self.rows(*span)
        # Where so many are so near, they are not far away.
        nearer, other, certain, _ = self._searched(*span, _SPARE, self._close, fine=True)
        better = certain & (nearer[:, -1] < away[:, -1])
        away, found = (torch.where(better[:, None], *pair) for pair in ((nearer, away), (other, found)))
        return away, found, sure | certain

    def _searched(
        self, row: int, last: int, tile: int, last_tile: int, spare: int, most: int, *, fine: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The same in one precision, among the first tiles to search; and of which rows (n,) the others are farther.

        The half-precision error of a product is random from coordinate to coordinate, so it is no more than a few
        standard deviations, which depend on the fourth powers.
        """
        tiles, points = (torch.arange(*span, device=self._points.device) for span in ((tile, last_tile), (row, last)))
        tile_of = torch.searchsorted(self._tile_start[tiles], points.int(), right=True) - 1
        away = self._points.new_full((last - row, self._k + spare), torch.inf)
        found = torch.full(away.shape, -1, dtype=torch.int32, device=away.device)
        bound, first, end = away[:, 0], 0, _CAPACITY // _POOL
        lost = torch.zeros_like(bound, dtype=torch.bool)
        while first < most:
            before = away, found
            more = self._collected(bound, tiles, row, first, min(end, most), fine)
            away, found, full = self._merged(before, more)
            bound = away.amax(dim=1)
            # A full row may have missed some points, but gets a better bound from those it met.
            for _ in range(_AGAIN if first else 0):
                rows = full.nonzero()[:, 0]
                if not len(rows):
                    break
                more = self._collected(bound, tiles[torch.unique(tile_of[rows])], row, first, min(end, most), fine)
                away[rows], found[rows], full[rows] = self._merged(
                    [part[rows] for part in before], [part[rows] for part in more]
                )
                bound[rows] = away[rows].amax(dim=1)
            if first:  # until now, every point had room
                lost |= full
            first, end = end, _GROWTH * end
        away, found = self._measured(found, row)
        blur = _ROUGH * self._points[row:last].pow(4).sum(dim=1).sqrt()
        told = away[:, -1] <= bound - blur
        return away, found.long(), away[:, -1].isfinite() & ~lost, told

    def _collected(
        self, bound: Tensor, tiles: Tensor, row: int, first: int, end: int, fine: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Squared distances, positions and number of the points within a bound, for the rows of some tiles."""
        from garnet.linalg.triton_kernels import emit

        away = bound.new_full((len(bound), _CAPACITY), torch.inf)
        found = torch.full_like(away, -1, dtype=torch.int32)
        counts = torch.zeros_like(bound, dtype=torch.int32)
        emit[(len(tiles),)](
            self._halves, self._squares, bound.contiguous(), self._tile_start[tiles], self._tile_stop[tiles],
            self._tile_part[tiles], self._pool_starts, self._pool_begin, self._pool_stop, found, away, counts, row,
            first, end, SCALE=_SCALE, WIDTH=self._width, CAPACITY=_CAPACITY, QUERIES=_QUERIES, POOL=_POOL,
            DEPTH=_DEPTH, BEGIN=0 if fine else 2 * self._width, num_warps=_WARPS, num_stages=_STAGES,
        )  # fmt: skip
        return away, found, counts

    def _merged(self, best: Sequence[Tensor], more: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The nearest so far, including those just met, and which rows are full."""
        away, found = torch.cat([best[0], more[0]], dim=1), torch.cat([best[1], more[1]], dim=1)
        away, at = away.topk(best[0].shape[1], dim=1, largest=False, sorted=False)
        return away, found.gather(1, at), more[2] >= _CAPACITY

    def _measured(self, found: Tensor, row: int) -> tuple[Tensor, Tensor]:
        """The k nearest to some points, by distances in single precision."""
        from garnet.linalg.triton_kernels import measure

        away = self._points.new_empty(found.shape)
        measure[(len(found),)](
            self._points, found, away, row, self._points.shape[1], COUNT=found.shape[1], SOME=16, DEPTH=128,
            num_warps=4,
        )  # fmt: skip
        away, at = away.topk(self._k, dim=1, largest=False)
        return away, found.gather(1, at)


def _tiles(sizes: Tensor, starts: Tensor, parts: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The tiles of some parts, part by part: the part of each, and where it begins."""
    counts = (sizes[parts] + width - 1) // width
    part, first = (each.repeat_interleave(counts) for each in (parts, counts.cumsum(0) - counts))
    ordinal = torch.arange(len(part), device=sizes.device) - first
    return part, (starts[part] + ordinal * width).int()
