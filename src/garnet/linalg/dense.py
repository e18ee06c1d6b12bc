"""Eigenpairs of small dense matrices, to the same bits whatever the number of threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

import torch
from torch import Tensor


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


@contextmanager
def _one_thread() -> Iterator[None]:
    """Have MKL decompose with one thread: how it divides the work among several decides how it rounds.

    The setting is one of the calling thread alone, and is put back; `torch.set_num_threads` would also reach threads
    that start meanwhile. Without MKL nothing is done, and eigenvectors may differ in their last bits.
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
