"""How many threads a call uses: as many as there are free processors, and one where there is little to do.

Torch cuts a loop into as many equal parts as it has threads, and waits for the last. If another program also wants a
processor, that is the part whose thread was preempted: a loop of fifty microseconds takes milliseconds, and there are
thousands of loops. One thread fewer is then several times faster. On a small graph this is so even on an idle machine:
the threads take longer to wake up than the loop takes.

The numbers are the calling thread's own and are restored: other threads of the process keep theirs. Torch's libraries
are called by name, since `torch.set_num_threads` would affect all threads. Only OpenBLAS, which comes with NumPy and
SciPy, has a single setting for the process: during a call it has fewer threads for everybody, and then as many as
before. Results do not depend on any of it: `garnet.linalg.dense` divides its work by shape alone, and of MKL and
OpenBLAS only what a small graph is given changes.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache

import numpy.linalg._umath_linalg
import scipy.linalg._fblas
import torch

from garnet.graph.graph import Graph
from garnet.processors import Load

SMALL = 50_000
"""Nodes and adjacency entries up to which one thread is about the fastest, even on an idle machine."""

_LOOK = 0.25  # seconds between two checks on other programs

Limit = Callable[[int], int]


class _Call(threading.local):
    """The outermost call of a thread that shares processors: when it last checked, and how many threads it may have."""

    most = 0
    looked = 0.0
    load: Load | None = None
    crew: ThreadPoolExecutor | None = None


_call = _Call()


@contextmanager
def sharing(work: Graph | int | None = None) -> Iterator[None]:
    """Work with as many threads as there are free processors.

    Nothing changes within another such call, or if the user has set OMP_NUM_THREADS.

    Args:
        work: the graph to process, or how many nodes and entries it has together: 0 if other processes do the work.
            None if they are many, or not known yet.
    """
    openmp = _openmp()
    if openmp is None or _call.most or "OMP_NUM_THREADS" in os.environ:
        yield
        return
    most = torch.get_num_threads()  # also makes torch set up this thread now, or it would do so below
    size = work.num_nodes + work.adjacency.nnz if isinstance(work, Graph) else work
    small = size is not None and size <= SMALL
    _call.most, _call.load = most, None if small or most == 1 else Load()
    before = _mkl(1 if small else most)
    _openblas.enter()
    try:
        if small:
            openmp(1)
            _openblas.limit(1)
        else:
            _look()
        yield
    finally:
        _openblas.leave()
        if _call.crew is not None:
            _call.crew.shutdown()
        _call.most, _call.crew = 0, None
        openmp(most)
        _mkl(before)


def share() -> None:
    """Check whether other programs have come or gone, if not done recently; called before every larger product."""
    if _call.most and _call.load is not None and time.monotonic() - _call.looked > _LOOK:
        _look()


def _look() -> None:
    openmp = _openmp()
    if openmp is not None and _call.load is not None:
        threads = min(_call.most, _call.load.left())
        openmp(threads)
        _openblas.limit(threads)
        _call.looked = time.monotonic()


@contextmanager
def one_thread() -> Iterator[None]:
    """Have MKL work with one thread.

    Without MKL nothing is done, and the last bits may differ.
    """
    torch.get_num_threads()  # has torch set up this thread now, or it would do so below and lift the limit
    before = _mkl(1)
    try:
        yield
    finally:
        _mkl(before)


@contextmanager
def crew(size: int) -> Iterator[ThreadPoolExecutor]:
    """Some threads that take pieces of work as they come, each working alone.

    While processors are shared they stay for the next call.
    """
    if _call.most:
        if _call.crew is None:
            _call.crew = ThreadPoolExecutor(_call.most, "garnet", _alone)
        yield _call.crew
        return
    with ThreadPoolExecutor(size, "garnet", _alone) as own:
        yield own


def _alone() -> None:
    """Have the calling thread start no others, and record no gradients: the caller does that."""
    torch.set_grad_enabled(False)
    torch.get_num_threads()
    openmp = _openmp()
    if openmp is not None:
        openmp(1)
    _mkl(1)


def has_mkl() -> bool:
    """Whether torch comes with MKL."""
    return _function("MKL_Set_Num_Threads_Local") is not None


class _OpenBLAS:
    """The copies of OpenBLAS in this process, while calls limit their threads; the last call restores them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        self._before: list[tuple[Limit, int]] = []

    def enter(self) -> None:
        """Record their numbers of threads, if no call has yet."""
        with self._lock:
            self._calls += 1
            if self._calls == 1:
                self._before = [(limit, count()) for count, limit in _openblas_functions()]

    def limit(self, threads: int) -> None:
        """Limit them to this many."""
        with self._lock:
            for limit, before in self._before:
                limit(min(threads, before))

    def leave(self) -> None:
        """Restore their numbers, if no other call is left."""
        with self._lock:
            self._calls -= 1
            if not self._calls:
                for limit, before in self._before:
                    limit(before)


_openblas = _OpenBLAS()


@cache
def _openblas_functions() -> tuple[tuple[Callable[[], int], Limit], ...]:
    """The functions that get and set each copy's number of threads."""
    found = []
    for module in (numpy.linalg._umath_linalg, scipy.linalg._fblas):
        for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
            with suppress(AttributeError, OSError):
                library = ctypes.CDLL(module.__file__)
                names = (f"{prefix}openblas_{what}_num_threads{suffix}" for what in ("get", "set"))
                count, limit = (getattr(library, name) for name in names)
                found.append((count, limit))
                break
    return tuple(found)


def _mkl(threads: int) -> int:
    """Set MKL's number of threads in this thread, and return the previous one; 0 means the process's number."""
    limit = _function("MKL_Set_Num_Threads_Local")
    return 0 if limit is None else limit(threads)


def _openmp() -> Limit | None:
    """The function that sets how many threads this thread's loops have."""
    return _function("omp_set_num_threads")


@cache
def _function(name: str) -> Limit | None:
    """A function of a library that torch is linked with; None if there is none with this name."""
    try:
        function: Limit = getattr(ctypes.CDLL(torch._C.__file__), name)
    except (AttributeError, OSError):
        return None
    return function
