"""Products of dense matrices and eigenpairs of small ones, to the same bits whatever the number of threads.

MKL divides a product among its threads, and how it divides it decides how it rounds; on some processors that reaches
every entry. So a product is cut here into pieces that depend on its shape alone. Each is made by one thread of MKL, and
as many are made at a time as torch has threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

from garnet.linalg.fixed_point import fixed

T = TypeVar("T")

_PIECE = 1 << 26
"""Multiplications of a piece: a millisecond's work."""

_FEWEST = 64
"""Rows of a piece at least: a product with few is slow."""


def product(
    left: Tensor, right: Tensor, *, onto: Tensor | None = None, factor: float = 1.0, rows: int | None = None
) -> Tensor:
    """A B times a factor, where A has many rows; added to what `onto` holds, if it is given.

    Args:
        left: A.
        right: B.
        onto: what it is added to, and where the sum is then.
        factor: what A B is multiplied with.
        rows: of a piece; None is as many as make a good one.
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
    """A^T B by pieces of so many rows, which adds up to the same in any order: see `fixed`."""
    return fixed(_each(lambda some: left[some].T @ right[some], left, rows) or [left.T @ right])


def eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues of a symmetric matrix, the smallest first, and its eigenvectors."""
    with _one_thread():
        values, vectors = torch.linalg.eigh(matrix)
    return values, vectors


def eigvalsh(matrix: Tensor) -> Tensor:
    """Eigenvalues of a symmetric matrix, the smallest first."""
    with _one_thread():
        values: Tensor = torch.linalg.eigvalsh(matrix)
    return values


def _rows(width: int) -> int | None:
    """Rows of a piece, each of which costs so many multiplications; None where nothing is gained by pieces."""
    return None if _thread_limit() is None else max(_FEWEST, _PIECE // max(1, width))


def _each(work: Callable[[slice], T], left: Tensor, rows: int | None) -> list[T]:
    """What `work` makes of the rows of each piece, in order."""
    if left.is_cuda or rows is None:
        return [work(slice(0, len(left)))]
    pieces = [slice(start, start + rows) for start in range(0, len(left), rows)]

    def alone(some: slice) -> T:
        with _one_thread():
            return work(some)

    workers = min(len(pieces), torch.get_num_threads())
    if workers <= 1:
        with _one_thread():
            return [work(some) for some in pieces]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(alone, pieces))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Have MKL work with one thread.

    The setting is one of the calling thread alone, and is put back; `torch.set_num_threads` would also reach threads
    that start meanwhile. Without MKL nothing is done, and last bits may differ.
    """
    limit = _thread_limit()
    if limit is None:
        yield
        return
    torch.get_num_threads()  # has torch set up this thread now, or it would do so below and lift the limit
    before = limit(1)
    try:
        yield
    finally:
        limit(before)


@cache
def _thread_limit() -> Callable[[int], int] | None:
    """MKL's function that sets the calling thread's limit and gives the one before; None if torch has no MKL."""
    with suppress(AttributeError, OSError):
        limit: Callable[[int], int] = ctypes.CDLL(torch._C.__file__).MKL_Set_Num_Threads_Local
        return limit
    return None
