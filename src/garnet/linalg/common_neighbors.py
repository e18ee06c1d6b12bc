"""How many neighbours two nodes have in common: evidence for an edge that no low-rank spectrum has."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from garnet.graph.edges import among
from garnet.linalg.device_graph import Resident
from garnet.linalg.triton_ops import launched_on, usable

# Neighbours looked up at once, and rows they are looked up in: few enough to stay in a processor's cache.
_LOOKUPS, _ROWS = 1 << 18, 1 << 11
_LOOKUPS_ON_GPU, _ROWS_ON_GPU = 1 << 27, 1 << 17
_HUB, _MARKS = 1 << 10, 1 << 30  # entries of a row for which a GPU has a bit a column, and bytes of these at a time
_BITS = 12  # of a column, which give its position among the marks of its row


class NeighborLists(NamedTuple):
    """Where the entries of some rows are: (rows + 1,) where each row begins, and (nnz,) columns, sorted in each row."""

    starts: Tensor
    columns: Tensor


def shared_neighbors(graph: Resident, edges: Tensor, *, joined: bool = False) -> Tensor:
    """Common neighbours of each pair, over the most it could have: the smaller degree, not counting the other endpoint.

    Args:
        graph: the graph; weights are ignored.
        edges: (2, m) pairs of nodes, as `pairs` returns them, joined or not.
        joined: whether all of them are known to be edges of the graph.

    Returns:
        (m,) shares from 0 to 1.
    """
    whole = NeighborLists(graph.starts.long(), graph.columns)
    first, second = edges
    fewest = torch.minimum(graph.counts[first], graph.counts[second])
    one = 1 if joined else among(graph.edges, edges, graph.num_nodes).long()
    return share_of_most(count_common(whole, first, whole, second), fewest - one)


def share_of_most(common: Tensor, most: Tensor) -> Tensor:
    """Common neighbours over the maximum possible, in float32; 0 where none are possible."""
    return common.float() / most.clamp_min(1).float()


def count_common(left: NeighborLists, first: Tensor, right: NeighborLists, second: Tensor) -> Tensor:
    """How many columns a row of one matrix shares with a row of another, for each of some pairs of rows.

    The entries of the shorter row are looked up in the longer one, so a hub costs no more than its neighbours: the time
    grows with the sum of the smaller degrees.

    Args:
        left: the entries of the first matrix.
        first: (m,) its rows, in ascending order.
        right: the entries of the second matrix, with the same columns.
        second: (m,) its rows.

    Returns:
        (m,) int64.
    """
    few = left.starts.diff()[first] <= right.starts.diff()[second]
    # Pairs in the order of the rows they are looked up in, which then stay in the cache.
    these = few.nonzero()[:, 0]
    these = these[second[these].argsort(stable=True)]
    others = (~few).nonzero()[:, 0]
    common = torch.zeros(len(first), dtype=torch.int64, device=first.device)
    look_up = _counted if usable(torch.zeros(0, device=first.device)) else _looked_up
    common[these] = look_up(left, first[these], right, second[these])
    common[others] = look_up(right, second[others], left, first[others])
    return common


def _counted(few: NeighborLists, rows: Tensor, many: NeighborLists, others: Tensor) -> Tensor:
    """As `_looked_up`, by kernels: a bit for every column of a hub, and a binary search in any other row."""
    from garnet.linalg.triton_kernels import count_found, count_marked

    counts = many.starts.diff()
    common = torch.zeros(len(rows), dtype=torch.int32, device=rows.device)
    hub = counts[others] > _HUB
    plain, marked = (~hub).nonzero()[:, 0], hub.nonzero()[:, 0]
    with launched_on(rows.device):
        if len(plain):
            found = common.new_empty(len(plain))
            count_found[(len(plain),)](
                few.starts, few.columns, rows[plain], many.starts, many.columns, others[plain], found,
                SOME=64, num_warps=2,
            )  # fmt: skip
            common[plain] = found
        if len(marked):
            width = 1 + max(int(part.columns.max()) for part in (few, many))
            words = (width + 31) // 32
            hubs, which = torch.unique_consecutive(others[marked], return_inverse=True)
            together = max(1, _MARKS // (4 * words))
            for low in range(0, len(hubs), together):
                some = hubs[low : low + together]
                marks = _marks(many, some, words)
                begin, end = torch.searchsorted(which, torch.tensor([low, low + together], device=which.device))
                pairs = marked[begin:end]
                found = common.new_empty(len(pairs))
                count_marked[(len(pairs),)](
                    few.starts, few.columns, rows[pairs], which[begin:end] - low, marks, words, found,
                    SOME=256, num_warps=4,
                )  # fmt: skip
                common[pairs] = found
    return common.long()


def _marks(many: NeighborLists, rows: Tensor, words: int) -> Tensor:
    """(rows * words,) a bit for every column, set where a row has an entry."""
    counts = many.starts.diff()[rows]
    ends = counts.cumsum(0)
    row = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
    shift = many.starts[:-1][rows] - (ends - counts)
    columns = many.columns[torch.arange(len(row), device=rows.device) + shift[row]].long()
    marks = torch.zeros(len(rows) * words, dtype=torch.int32, device=rows.device)
    # Each bit is set once, so a sum is as good as a bitwise or.
    return marks.index_add_(0, row * words + (columns >> 5), (1 << (columns & 31)).int())


def _looked_up(few: NeighborLists, rows: Tensor, many: NeighborLists, others: Tensor) -> Tensor:
    """How many entries of each of some rows are also in another row, for pairs sorted by the other.

    Most have last bits that no entry of the other row has marked; only the rest need a search.
    """
    on_gpu = rows.is_cuda
    lookups, height = (_LOOKUPS_ON_GPU, _ROWS_ON_GPU) if on_gpu else (_LOOKUPS, _ROWS)
    counts = few.starts.diff()[rows]
    ends = counts.cumsum(0)
    height = min(height, int(others[-1] - others[0]) + 1) if len(others) else 0
    marks = torch.zeros(height << _BITS, dtype=torch.bool, device=rows.device)
    common = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    low = done = 0
    while low < len(rows):
        least = int(others[low])
        far = int(torch.searchsorted(ends, done + lookups, right=True)), int(torch.searchsorted(others, least + height))
        high = max(min(far), low + 1)
        some = slice(low, high)
        held = many.starts[least : int(others[high - 1]) + 2]
        columns = many.columns[int(held[0]) : int(held[-1])]
        lines = torch.arange(len(held) - 1, device=rows.device).repeat_interleave(held.diff())
        marked = _mark(lines, columns)
        marks[marked] = True
        pair = torch.arange(high - low, device=rows.device).repeat_interleave(counts[some])
        begins = few.starts[rows[some]] - (ends[some] - counts[some] - done)
        sought = few.columns[torch.arange(len(pair), device=rows.device) + begins[pair]]
        line = (others[some] - least)[pair]
        likely = marks[_mark(line, sought)].nonzero()[:, 0]
        marks[marked] = False
        there = _among(_key(lines, columns), _key(line[likely], sought[likely]))
        common[some] = torch.bincount(pair[likely[there]], minlength=high - low)
        low, done = high, int(ends[high - 1])
    return common


def _mark(line: Tensor, columns: Tensor) -> Tensor:
    """The position of an entry among the marks."""
    return (line << _BITS) | (columns & ((1 << _BITS) - 1))


def _key(line: Tensor, columns: Tensor) -> Tensor:
    """Entries as numbers, ordered by row and then by column."""
    return (line << 32) | columns


def _among(keys: Tensor, sought: Tensor) -> Tensor:
    """Which of some numbers are among sorted others."""
    if not len(keys):
        return torch.zeros_like(sought, dtype=torch.bool)
    return keys[torch.searchsorted(keys, sought).clamp_max(len(keys) - 1)] == sought
