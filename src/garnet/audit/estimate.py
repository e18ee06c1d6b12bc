"""An estimate of what auditing a graph will take."""

from __future__ import annotations

from garnet.audit.blocks import purifier
from garnet.audit.planted import COPIES
from garnet.places.costs import SECONDS_A_PAIR, Cost, Sizes
from garnet.places.estimate import Estimate, sizes_of
from garnet.places.graph_size import Extent
from garnet.purify.place import Place

SECONDS_A_LOOK = 1.0
"""To sample the edges among which others are ranked, and to plant edges."""
SECONDS_AN_EDGE = 5.5e-6
"""To rank the reasons for an edge, to weight them, and to write it to a tile and to a table: measured on random
graphs of up to 4.7 M edges."""
_HELD_IN_MEMORY, _HELD_IN_TILES, _AT_LEAST = 500, 250, 128 << 20
"""Bytes of an edge, of one that is written to a table, and of the edges that are weighted together."""
_JUDGED, _IN_A_TABLE = 64, 100
"""Bytes of an edge in a tile's file, and in a table, where each reason is a number and a few words."""


def estimate_audit(extent: Extent, place: Place | None = None, *, seed: int = 0) -> Estimate:
    """Estimate what auditing a graph of this size will take; see `garnet.places.estimate.estimate`.

    Args:
        extent: the size of the graph.
        place: where; None means in memory.
        seed: seed of the audit.

    Raises:
        GarnetError: the cluster has no workers.
    """
    sizes, workers = sizes_of(purifier(seed), extent, place)
    looks = [_look(sizes, "reasons"), *(_look(sizes, f"plant {n + 1} of {COPIES}") for n in range(COPIES))]
    costs = (*looks, _doubt(sizes)) if sizes.cut is None else (sizes.tile(), *looks, _doubt(sizes))
    return Estimate(extent=extent, parts=sizes.parts, settings=sizes.settings, costs=costs, workers=workers)


def _look(sizes: Sizes, name: str) -> Cost:
    """To find what edges are compared by; if labels count, that takes a whole purification."""
    plants = name != "reasons"
    every = [sizes.embed()]
    if sizes.extent.teaches and sizes.extent.shape.features:
        every += [sizes.neighbours(), sizes.prune()]
    around = sizes.parts * _rows(sizes)
    every.append(
        sizes.cost(
            name,
            alone=SECONDS_A_LOOK + SECONDS_A_PAIR * sizes.m * plants,
            memory=_HELD_IN_MEMORY * sizes.m if sizes.cut is None else sizes.rows,
            disk=(1 + plants) * sizes.tiles + 2 * _rows(sizes),
            read=(2 + 2 * plants) * sizes.tiles + around + (sizes.parts + 1) * (sizes.tiles + _rows(sizes)),
            written=plants * sizes.tiles + _rows(sizes),
        )
    )
    return Cost(
        name=name,
        seconds=sum(cost.seconds for cost in every),
        memory=max(cost.memory for cost in every),
        disk=max(cost.disk for cost in every) + (sizes.tiles + _rows(sizes) if plants and sizes.cut is not None else 0),
        read=sum(cost.read for cost in every),
        written=sum(cost.written for cost in every),
    )


def _doubt(sizes: Sizes) -> Cost:
    """To judge every edge, and to write the tables."""
    m, rows = sizes.m, _rows(sizes)
    memory = max(2 * rows // sizes.parts, _HELD_IN_TILES * m // sizes.parts, _AT_LEAST)
    return sizes.cost(
        "doubt",
        alone=SECONDS_A_LOOK,
        shared=SECONDS_AN_EDGE * m + sizes.shared_neighbors,
        calls=3,
        tasks=sizes.parts * (sizes.parts + 1) / 2,
        memory=_HELD_IN_MEMORY * m if sizes.cut is None else memory,
        disk=sizes.tiles + rows + (_JUDGED + _IN_A_TABLE) * m,
        read=(sizes.parts + 1) * (sizes.tiles + rows) + sizes.tiles + (16 + _JUDGED) * m,
        written=(_JUDGED + _IN_A_TABLE) * m,
    )


def _rows(sizes: Sizes) -> int:
    """Bytes of the rows of all nodes: points, features, and the features of neighbours."""
    return 4 * sizes.n * (2 * sizes.width - sizes.settings.rank)
