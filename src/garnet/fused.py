"""Neighbours within cells, and scores of edges, by kernels for a GPU that write no more than is wanted of them.

A matrix of distances between a cell and the cells around it is a hundred times larger than what is wanted of it. Here a
row has a bound first, the k-th distance of the few hundred points that are met first; then products in half precision
are compared with it in registers, and only points that may be within go out, to be measured exactly. The slack of the
comparison is what half precision can be wrong by, so that nothing is lost by it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from torch import Tensor

_QUERIES, _POOL, _DEPTH = 128, 128, 64  # rows, columns and coordinates of a product in registers
_WARPS, _STAGES = 8, 3  # groups of threads that share it, and tiles on their way from memory
_CAPACITY = 512  # points that a row may collect in a round
_ROWS = 1 << 18  # points that are searched for at a time
_EDGES = 16  # that are compared side by side
_FIRST, _EARLY = 4, 16  # parts of which a first bound, and then a better one, is taken


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


class _Near:
    """The points as the kernels want them, and the rounds in which they run."""

    def __init__(self, points: Tensor, sizes: Tensor, ranked: Tensor, k: int, probes: int) -> None:
        self._points, self._k, self._probes = points.contiguous(), k, min(probes, ranked.shape[1])
        self._squares = points.square().sum(dim=1)
        self._longest = max(float(self._squares.max()) ** 0.5, torch.finfo(torch.float32).tiny)
        n, d = points.shape
        self._half = points.new_zeros(n, -(-d // _DEPTH) * _DEPTH, dtype=torch.float16)
        for some, half in zip(torch.split(points, _ROWS), torch.split(self._half, _ROWS), strict=True):
            half[:, :d] = some / self._longest
        self._ranked = ranked.int().contiguous()
        self._sizes = sizes.int()
        self._starts = (sizes.cumsum(0) - sizes).int()
        # Rounding to half precision, and the sum in single: of |x| |y|; then what is too small for half precision.
        relative = 2 * (2**-10 + 2**-21 + d * 2**-23)
        self._slack = relative, 4 * 2**-25 * d**0.5 * self._longest**2
        parts = torch.arange(len(sizes), device=points.device)
        tiles = (sizes + _QUERIES - 1) // _QUERIES
        self._tile_part = parts.repeat_interleave(tiles).int()
        first = (tiles.cumsum(0) - tiles)[self._tile_part]
        number = torch.arange(len(self._tile_part), device=points.device) - first
        self._tile_start = (self._starts[self._tile_part] + number * _QUERIES).int()
        self._tiles = tiles.tolist()

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
        far = self._points.new_full((last - row, self._k), torch.inf)
        nobody = torch.full((last - row, self._k), -1, dtype=torch.int32, device=far.device)
        best, lost = (far, nobody), torch.zeros(last - row, dtype=torch.bool, device=far.device)
        met = self._collected(far[:, -1], row, tile, last_tile, 0, _FIRST)[:2]
        bound = self._merged(best, met)[0][:, -1]
        for first, end in ((0, _EARLY), (_EARLY, self._probes)):
            if first >= min(end, self._probes):
                continue
            away, found, counts = self._collected(bound, row, tile, last_tile, first, end)
            best = self._merged(best, (away, found))
            bound = torch.minimum(bound, best[0][:, -1])
            lost |= counts >= _CAPACITY  # a tile whose rows are all full stops looking
        return best[0], best[1].long(), best[0][:, -1].isfinite() & ~lost

    def _collected(
        self, bound: Tensor, row: int, tile: int, last_tile: int, first: int, end: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Squared distances, places and number of the points that may lie within a bound."""
        from garnet.kernels import emit, measure

        counts = torch.zeros(len(bound), dtype=torch.int32, device=bound.device)
        found = torch.full((len(bound), _CAPACITY), -1, dtype=torch.int32, device=bound.device)
        away = bound.new_full((len(bound), _CAPACITY), torch.inf)
        some = slice(tile, last_tile)
        emit[(last_tile - tile,)](
            self._half, self._squares, bound.contiguous(), self._tile_start[some], self._tile_part[some],
            self._starts, self._sizes, self._ranked, found, counts,
            row, first, min(end, self._probes), self._longest**2, *self._slack,
            REACH=self._ranked.shape[1], WIDTH=self._half.shape[1], CAPACITY=_CAPACITY, QUERIES=_QUERIES, POOL=_POOL,
            DEPTH=_DEPTH, num_warps=_WARPS, num_stages=_STAGES,
        )  # fmt: skip
        measure[(len(bound),)](
            self._points, found, counts, away, row, self._points.shape[1], CAPACITY=_CAPACITY, SOME=16, DEPTH=128,
            num_warps=4,
        )  # fmt: skip
        return away, found, counts

    def _merged(self, best: tuple[Tensor, Tensor], more: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        away, found = (torch.cat(both, dim=1) for both in zip(best, more, strict=True))
        away, at = away.topk(self._k, dim=1, largest=False)
        return away, found.gather(1, at)
