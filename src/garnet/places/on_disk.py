"""Places for large graphs: this machine's disk, and a cluster."""

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
    """Purify on the workers of a Dask cluster; see `TiledPlace` for the other attributes.

    Attributes:
        cluster: a Dask `Client`, or the address of a scheduler, whose workers do the work; all must see the same files.
        memory: bytes that each worker may hold; None for the workers' own limits.
    """

    cluster: Annotated[Any, Rule(client_or_address)] = field(repr=False)
    memory: Memory | None = None

    has_workers: ClassVar[bool] = True

    def usual_solver(self, nodes: int, rank: int) -> Chebyshev:
        """See `TiledPlace`: with blocks as wide as the rank, up to 64 columns.

        A block this wide takes up to twice as many matrix-vector products, but a fraction of the rounds. Its width does
        not depend on the number of workers, so the result does not either.
        """
        usual = TiledPlace.usual_solver(self, nodes, rank)
        block = min(16 * math.ceil(rank / 16), 64)
        return usual if block <= usual.width(rank) else replace(usual, block=block, growth=_GROWTH)

    def run(self) -> Run:
        """What does the work: whichever worker is free."""
        return ClusterRun(self.cluster)
