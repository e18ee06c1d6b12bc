"""What purifying a graph will cost, estimated beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from garnet.places.cluster import Capacity, ClusterRun
from garnet.places.costs import Cost, Sizes
from garnet.places.graph_size import Extent
from garnet.places.tiled_place import TiledPlace, require_tileable
from garnet.purify.place import Place
from garnet.purify.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Workers:
    """The present workers of a cluster.

    Attributes:
        count: number of workers.
        threads: tasks that all workers together run at the same time.
        at_once: tasks that one process runs at the same time.
        memory: bytes that each process may hold.
    """

    count: int
    threads: int
    at_once: int
    memory: int


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a purification or an audit will cost.

    Seconds are for cores of an AMD EPYC, on which the rates of `garnet.places.costs` were measured; another machine may
    need a third or three times as long. The number of products that the solver needs depends on the spectrum, which is
    not known beforehand, and so does the number of cells to search. On a cluster, the work is divided among the
    workers' threads, as far as there are parts for all; sending tasks is counted, waiting for storage is not: the bytes
    read and written show how fast storage must be.

    Attributes:
        extent: size of the graph.
        parts: number of parts the nodes will be cut into; 1 in memory.
        settings: the parameters as resolved for it.
        costs: of the stages.
        workers: of the cluster; None without a cluster.
    """

    extent: Extent
    parts: int
    settings: Settings
    costs: tuple[Cost, ...]
    workers: Workers | None = None

    @property
    def seconds(self) -> float:
        """Seconds of all stages."""
        return sum(cost.seconds for cost in self.costs)

    @property
    def memory(self) -> int:
        """Bytes of a process in the most demanding stage."""
        return max(cost.memory for cost in self.costs)

    @property
    def disk(self) -> int:
        """Peak bytes on disk, including the result."""
        return max(cost.disk for cost in self.costs)

    @property
    def read(self) -> int:
        """Total bytes read from files."""
        return sum(cost.read for cost in self.costs)

    @property
    def written(self) -> int:
        """Total bytes written to files."""
        return sum(cost.written for cost in self.costs)


def estimate(method: Any, extent: Extent, place: Place | None = None) -> Estimate:
    """Estimate the cost of purifying a graph of this size.

    For a cluster, its scheduler is asked for its workers, and nothing else is done.

    Args:
        method: the purifier.
        extent: the size of the graph.
        place: where to run; None is in memory.

    Raises:
        GarnetError: the cluster has no workers.
    """
    if isinstance(place, TiledPlace):
        require_tileable(method)
    sizes, workers = sizes_of(method, extent, place)
    return Estimate(extent=extent, parts=sizes.parts, settings=sizes.settings, costs=sizes.costs(), workers=workers)


def sizes_of(method: Any, extent: Extent, place: Place | None) -> tuple[Sizes, Workers | None]:
    """The numbers that all costs are computed from, and the workers of a cluster."""
    settings = method.on(extent.shape)
    if not isinstance(place, TiledPlace):
        return Sizes(settings, extent, None), None
    run = place.run()
    cut = place.cut(method, extent.shape.features, run)
    if not isinstance(run, ClusterRun):
        return Sizes(settings, extent, cut), None
    there: Capacity = run.capacity()
    workers = Workers(count=run.workers, threads=there.threads, at_once=there.at_once, memory=cut.memory)
    return Sizes(settings, extent, cut, there), workers
