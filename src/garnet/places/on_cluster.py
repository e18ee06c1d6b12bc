"""GARNET on the workers of a Dask cluster, which all see the same files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from garnet.parameters import Count, Rule, require_parameters
from garnet.places.cluster import ClusterRun
from garnet.places.on_disk import Task, source_of
from garnet.places.plan import Memory
from garnet.places.tiled_work import GraphOnDisk
from garnet.progress import Progress
from garnet.purify.result import Purification
from garnet.spectral import Chebyshev


def _client(value: Any) -> str | None:
    """Dask is not imported for the question, so whatever takes tasks counts as a client until it is asked to."""
    fine = issubclass(type(value), str) or callable(getattr(type(value), "submit", None))
    return None if fine else "a distributed.Client or the address of a scheduler"


@dataclass(frozen=True, kw_only=True)
class OnCluster:
    """Purify on a Dask cluster; see `OnDisk` for what is not said here.

    Attributes:
        cluster: a Dask `Client`, or the address of a scheduler, whose workers do the work; all must see the same files.
        memory: bytes that each worker may hold; None for what the workers say themselves.
        output: a folder for the tiles of the purified graph, or for a table of its edges; None to hold it in memory.
        scratch: a folder for intermediate files, which all workers must see.
        overwrite: replace an earlier result in the output.
        ledger: keep what became of every edge beside the tiles.
        parts: cut the nodes into so many parts at least; there is one for each thread of the cluster.
        solver: the block solver; None chooses its tolerance by size.
    """

    cluster: Annotated[Any, Rule(_client)] = field(repr=False)
    memory: Memory | None = None
    output: str | Path | None = None
    scratch: str | Path | None = None
    overwrite: bool = False
    ledger: bool = False
    parts: Count = 1
    solver: Chebyshev | None = None

    def __post_init__(self) -> None:
        require_parameters(self)

    @contextmanager
    def open(
        self, method: Any, graph: Any, *, symmetrize: bool = False, progress: Progress | None = None
    ) -> Iterator[GraphOnDisk | Purification]:
        """See `Place`."""
        source = source_of(graph, symmetrize=symmetrize)
        task = Task(place=self, method=method, source=source, symmetrize=symmetrize, progress=progress)
        with task.open() as work:
            yield work

    def run(self) -> ClusterRun:
        """Who does the work."""
        return ClusterRun(self.cluster)
