"""An order of the nodes in which neighbours lie close, found on a GPU in a few products."""

from __future__ import annotations

import torch
from torch import Tensor

from garnet.linalg.sparse import SparseRows
from garnet.linalg.triton_ops import Multiplier, usable

_BITS, _STEPS = 15, 10


def clustered(matrix: SparseRows, generator: torch.Generator) -> Tensor:
    """An order of the rows of a normalised adjacency in which those of a cluster follow each other, (n,) int64.

    Random numbers that are averaged over neighbours a few times are much the same within a cluster, so that nodes
    whose numbers have the same signs are mostly of one.

    Args:
        matrix: the matrix, on the device of the generator, in float32.
        generator: of the random numbers.
    """
    n, device = matrix.width, matrix.values.device
    block = torch.randn(n, _BITS + 1, generator=generator, device=device)
    multiplier = Multiplier(matrix) if usable(matrix.values) else None
    for _ in range(_STEPS):
        block = matrix.product(block) if multiplier is None else multiplier.product(block, 1.0, 0.0, None)
        block /= block.norm(dim=0).clamp_min(torch.finfo(torch.float32).tiny)
    # The leading vector is large where degrees are, and of one sign: it tells nothing, and would hide the others.
    root = matrix.starts.diff().sqrt()[:, None]
    block -= root * ((root * block).sum(dim=0) / root.square().sum())
    bits = (block[:, 1:] > 0).long() << torch.arange(_BITS, device=device)
    return bits.sum(dim=1).argsort(stable=True)


def permuted(matrix: SparseRows, order: Tensor) -> SparseRows:
    """The matrix with its rows and columns in another order; entries of a row stay as they are sorted."""
    counts = matrix.starts.diff()[order].long()
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    shift = matrix.starts[:-1][order].long() - starts[:-1]
    places = torch.arange(len(matrix.columns), device=order.device) + shift.repeat_interleave(counts)
    number = torch.empty_like(order)
    number[order] = torch.arange(len(order), device=order.device)
    columns = number.to(matrix.columns)[matrix.columns[places]]
    return SparseRows(starts.to(matrix.starts), columns, matrix.values[places], matrix.width)
