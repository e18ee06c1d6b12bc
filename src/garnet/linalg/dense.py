"""Products of dense matrices and eigenpairs of small ones, to the same bits whatever the number of threads.

MKL divides a product among its threads, and the division affects rounding, on some processors in every entry. So a
product is cut here into pieces that depend on its shape alone. One thread of MKL computes each piece, and as many are
computed at a time as torch has threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from garnet.linalg.fixed_point import fixed
from garnet.linalg.threads import crew, has_mkl, one_thread, share

T = TypeVar("T")

_PIECE = 1 << 26
"""Multiplications per piece: a millisecond's work."""

_NARROW = 32
"""Columns of a product up to which its transpose is faster."""

_FEWEST = 64
"""Least rows of a piece: a product with few is slow."""


def product(
    left: Tensor, right: Tensor, *, onto: Tensor | None = None, factor: float = 1.0, rows: int | None = None
) -> Tensor:
    """A B times a factor, where A has many rows; added to `onto`, if given.

    Args:
        left: A.
        right: B.
        onto: what it is added to in place.
        factor: what A B is multiplied by.
        rows: rows of a piece; None chooses a good size.
    """
    image = left.new_empty(len(left), right.shape[1]) if onto is None else onto
    beta = 0.0 if onto is None else 1.0

    def multiply(some: slice) -> None:
        image[some].addmm_(left[some], right, beta=beta, alpha=factor)

    _each(multiply, left, rows or _rows(right.numel()))
    return image


def inner(left: Tensor, right: Tensor) -> Tensor:
    """A^T B, where both have many rows, in float64."""
    parts = _each(lambda some: left[some].T @ right[some], left, _rows(left.shape[1] * right.shape[1]))
    total = left.new_zeros(left.shape[1], right.shape[1], dtype=torch.float64)
    for part in parts:
        total += part
    return total


def fixed_inner(left: Tensor, right: Tensor, rows: int) -> Tensor:
    """A^T B by pieces of this many rows, which sum to the same in any order; see `fixed`."""
    return fixed(_each(lambda some: left[some].T @ right[some], left, rows) or [left.T @ right])


def stacked(left: Tensor, right: Tensor) -> Tensor:
    """(S, n, c), the products of S pairs of matrices, (S, n, f) and (S, f, c); gradients flow to both."""
    return _stacked(left, right) if left.device.type == "cpu" else torch.bmm(left, right)


class _Stacked(torch.autograd.Function):
    """As `torch.bmm`, where matrices on the left have many rows."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        if _is_one_piece(left, right):
            with one_thread():
                # For a few columns a CPU's library is twice as fast this way round.
                return torch.bmm(right.mT, left.mT).mT if right.shape[2] <= _NARROW else torch.bmm(left, right)
        return torch.stack([product(one, other) for one, other in zip(left, right, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        left, right = ctx.saved_tensors
        to_left, to_right = ctx.needs_input_grad
        return _stacked(gradient, right.mT) if to_left else None, _inners(left, gradient) if to_right else None


class _Inners(torch.autograd.Function):
    """A^T B of S pairs of matrices, (S, n, f) and (S, n, c), in their own precision."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        if _is_one_piece(left, right.mT):
            with one_thread():
                return torch.bmm(right.mT, left).mT
        return torch.stack([inner(one, other).to(one) for one, other in zip(left, right, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        left, right = ctx.saved_tensors
        to_left, to_right = ctx.needs_input_grad
        return _stacked(right, gradient.mT) if to_left else None, _stacked(left, gradient) if to_right else None


# Torch does not type `apply`.
_stacked: Callable[[Tensor, Tensor], Tensor] = _Stacked.apply
_inners: Callable[[Tensor, Tensor], Tensor] = _Inners.apply


def _is_one_piece(left: Tensor, right: Tensor) -> bool:
    """Whether there is so little to multiply that one thread does it all."""
    return left.numel() * right.shape[2] <= _PIECE


def eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues of a symmetric matrix, the smallest first, and its eigenvectors."""
    with one_thread():
        values, vectors = torch.linalg.eigh(matrix)
    return values, vectors


def eigvalsh(matrix: Tensor) -> Tensor:
    """Eigenvalues of a symmetric matrix, the smallest first."""
    with one_thread():
        values: Tensor = torch.linalg.eigvalsh(matrix)
    return values


def _rows(width: int) -> int | None:
    """Rows of a piece, given the multiplications per row; None if pieces gain nothing."""
    return max(_FEWEST, _PIECE // max(1, width)) if has_mkl() else None


def _each(work: Callable[[slice], T], left: Tensor, rows: int | None) -> list[T]:
    """The results of `work` on the rows of each piece, in order."""
    share()
    if left.is_cuda or rows is None:
        return [work(slice(0, len(left)))]
    pieces = [slice(start, start + rows) for start in range(0, len(left), rows)]

    workers = min(len(pieces), torch.get_num_threads())
    if workers <= 1:
        with one_thread():
            return [work(some) for some in pieces]
    with crew(workers) as pool:
        return list(pool.map(work, pieces))
