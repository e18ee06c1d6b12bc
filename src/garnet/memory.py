"""How much memory there is, and how much this process has used at its worst."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

_MMAP_THRESHOLD = -3  # as glibc numbers its settings


def physical_memory() -> int:
    """Bytes of memory in this machine; 64 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 64 << 30


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes; 0 where the system does not say."""
    # On Linux a process inherits the other figure from the one that started it.
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@cache
def give_back_large_blocks() -> None:
    """Have malloc ask the system for every block above a megabyte, and give it back when it is freed.

    By default it learns to keep blocks of up to 32 MB in its heap. A process that allocates and frees thousands of
    them then holds up to twice what it uses, as blocks that begin at a multiple of 64 bytes do not fit into the holes
    that others left. It is a setting of the whole process; where malloc has none such, nothing is done.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)
