"""Work in several processes side by side, of which one may die without taking the others' work along."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import TypeVar

import torch

from garnet.errors import GarnetError

DIED = "its process died, which is what happens when memory runs out"

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    tasks: Sequence[T],
    work: Callable[[T], R],
    *,
    jobs: int,
    begins: Callable[[T], None],
    died: Callable[[T, float], R],
) -> Generator[R, None, None]:
    """What comes of each task, as it comes.

    Args:
        tasks: what is to be done, in this order; they are pickled, and so are the results.
        work: does one of them.
        jobs: how many at once.
        begins: told of each as it begins.
        died: what comes of a task whose process died after so many seconds.

    Raises:
        GarnetError: the processes cannot be started.
    """
    waiting, suspects = deque(tasks), deque[T]()
    while waiting or suspects:
        # When a worker dies, all running tasks are lost, and nothing says which one killed it. Each runs again alone,
        # and the one whose worker dies again has failed.
        source, width = (suspects, 1) if suspects else (waiting, jobs)
        running: dict[Future[R], T] = {}
        start = time.perf_counter()
        try:
            with _pool(width, max(1, torch.get_num_threads() // jobs)) as pool:
                while source or running:
                    while source and len(running) < width:
                        running[pool.submit(work, source[0])] = source[0]
                        begins(source.popleft())
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        result = future.result()
                        del running[future]
                        yield result
        except BrokenProcessPool:
            lost = list(running.values()) or [source.popleft()]
            if len(lost) > 1:
                suspects.extend(lost)
            else:
                yield died(lost[0], time.perf_counter() - start)


@contextmanager
def _pool(workers: int, threads: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes that end with the block, however it ends."""
    others = set(active_children())
    context = get_context("spawn")
    try:
        with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(threads,)) as pool:
            try:
                yield pool
            except BaseException:
                # Without this an interrupt would wait for the tasks that run.
                for worker in set(active_children()) - others:
                    worker.terminate()
                raise
    except OSError as error:
        raise GarnetError(f"Cannot start {workers} processes: {str(error.strerror).lower()}.") from error


def _begin(threads: int) -> None:
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End when the parent does, even if it was killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
