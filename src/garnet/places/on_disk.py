"""The places of large graphs: on this machine's disk, and on a cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from garnet.parameters import Rule
from garnet.places.cluster import ClusterRun, client_or_address
from garnet.places.plan import Memory
from garnet.places.row_store import Run
from garnet.places.tiled_place import TiledPlace
from garnet.spectral import Chebyshev

_GROWTH = 3000.0
"""How far the filter of a wide block lifts: a higher degree costs no more rounds, and fewer blocks make the basis."""


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

    has_workers: ClassVar[bool] = True

    def usual_solver(self, nodes: int, rank: int) -> Chebyshev:
        """See `TiledPlace`: with blocks as wide as the rank, up to 64 columns.

        So wide a block takes up to twice as many columns through the matrix, but a fraction of the rounds. It is as
        wide however many workers there are, so that all find the same.
        """
        usual = TiledPlace.usual_solver(self, nodes, rank)
        block = min(16 * math.ceil(rank / 16), 64)
        return usual if block <= usual.width(rank) else replace(usual, block=block, growth=_GROWTH)

    def run(self) -> Run:
        """Who does the work: whichever worker is free."""
        return ClusterRun(self.cluster)
