"""The places of large graphs: on this machine's disk, and on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from garnet.parameters import Rule
from garnet.places.cluster import ClusterRun, client_or_address
from garnet.places.plan import Memory
from garnet.places.row_store import Run
from garnet.places.tiled_place import TiledPlace


@dataclass(frozen=True, kw_only=True)
class OnDisk(TiledPlace):
    """Purify within a limit on the memory of this process; see `TiledPlace`."""

    memory: Memory


@dataclass(frozen=True, kw_only=True)
class OnCluster(TiledPlace):
    """Purify on the workers of a Dask cluster; see `TiledPlace` for what is not said here.

    Attributes:
        cluster: a Dask `Client`, or the address of a scheduler, whose workers do the work; all must see the same files.
        memory: bytes that each worker may hold; None for what the workers say themselves.
    """

    cluster: Annotated[Any, Rule(client_or_address)] = field(repr=False)
    memory: Memory | None = None

    def run(self) -> Run:
        """Who does the work: whichever worker is free."""
        return ClusterRun(self.cluster)
