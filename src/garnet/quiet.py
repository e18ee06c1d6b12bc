"""Warnings that are silenced or raised for a while, by one thread at a time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

_LOCK = threading.RLock()


@contextmanager
def warnings_are(action: Literal["ignore", "error"], *categories: type[Warning]) -> Iterator[None]:
    """Treat warnings of some categories this way, and then all as before.

    The filters are those of the process. Two threads that save and restore them in turn could leave those of one behind
    for good, so they wait for each other.
    """
    with _LOCK, warnings.catch_warnings():
        for category in categories:
            warnings.simplefilter(action, category)
        yield
