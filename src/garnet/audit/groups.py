"""Groups: sets of nodes with more suspicious edges among them than chance would explain."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from garnet.graph.graph import Edges

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]

_LEAST_DENSITY = 1.25
"""Least number of suspicious edges per member. A tree has less than one, and a single cycle is not yet a ring."""
_LEAST_MEMBERS = 4
_MOST_GROUPS = 100
_SHUFFLES, _EDGES_SHUFFLED = 12, 6_000_000
"""Shuffles of suspicion; in graphs of more than half a million edges fewer, but at least four. Of clean block models,
those with heavy tails (exponent 2.2) had a group of some hubs in one of five, others none."""
_LEAST_SHUFFLES = 4
_AHEAD = 1.1
"""A group must be denser than all of these by this factor, as effects of degrees alone may still show in it."""
_STRATA = 10
"""Strata of edges between ends of similar degrees, in which it is shuffled: hubs form dense sets of all that is
common."""
_IN_TAIL = 300
"""Least number of edges in a stratum; the last tenth, where degrees differ most, is halved until there are fewer."""
_KEEPS = 0.75
"""Two halves that each reach this share of the density of the whole are two groups."""
_LARGEST_SPLIT = 1_000
"""Most members of a group that may be split in two: that takes dense matrices."""
_PEELED_ONE_BY_ONE = 50_000
"""With more edges than this, all nodes of less than mean degree are removed at once."""


@dataclass(frozen=True, eq=False)
class Group:
    """A set of nodes with many suspicious edges among them.

    Attributes:
        members: (k,) the numbers of its nodes, sorted.
        names: (k,) their names in the graph.
        edges: (e,) indices of the audit's edges between members, the most suspicious first.
        score: suspicious edges per member: the summed excess of suspicion over the usual, of the edges among members,
        divided by the number of members.
    """

    members: Places
    names: NDArray[Any]
    edges: Places
    score: float


def found_groups(edges: Edges, suspicion: Numbers, names: NDArray[Any]) -> tuple[Group, ...]:
    """The groups of `dense_groups`, the densest first, relative to the mean suspicion.

    Args:
        edges: (2, m) of the graph.
        suspicion: (m,) of each.
        names: (n,) of the nodes.
    """
    found = dense_groups(edges, suspicion, len(names), usual=float(suspicion.mean()))
    number = np.full(len(names), -1)
    for place, (members, _) in enumerate(found):
        number[members] = place
    ends = number[edges]
    inside = np.flatnonzero((ends[0] >= 0) & (ends[0] == ends[1]))
    inside = inside[np.lexsort((-suspicion[inside], ends[0, inside]))]
    starts = np.searchsorted(ends[0, inside], np.arange(len(found) + 1))
    return tuple(
        Group(members=members, names=names[members], edges=inside[starts[place] : starts[place + 1]], score=score)
        for place, (members, score) in enumerate(found)
    )


def dense_groups(
    edges: Edges, suspicion: Numbers, num_nodes: int, *, usual: float, seed: int = 0
) -> list[tuple[Places, float]]:
    """Members and density of disjoint groups, the densest first.

    The densest set of nodes is peeled out (Charikar 2000: the node with the least total suspicion is removed again and
    again, and the densest set on the way is kept, which is at least half as dense as any), its nodes leave the graph,
    and so on, as long as the sets are denser than those found in a dozen random shuffles of the same suspicion among
    edges between ends of similar degrees. A set of two parts, each nearly as dense as the whole, is split. The density
    is the summed excess of suspicion over the usual, divided by the number of nodes.

    Args:
        edges: (2, m) of the graph.
        suspicion: (m,) of each.
        num_nodes: n.
        usual: the suspicion that is no sign of anything.
        seed: seed of the shuffles.
    """
    weights = np.clip((suspicion - usual) / max(1 - usual, 1e-12), 0, None)
    found: list[tuple[Places, float]] = []
    floor, known = max(_LEAST_DENSITY, _AHEAD * _by_chance(edges, weights, num_nodes, seed)), 0
    while len(found) < _MOST_GROUPS:
        members, density = _densest(edges, weights, num_nodes, floor)
        if density > floor:
            found += [
                (part, held)
                for part in _parts(members, edges, weights, num_nodes)
                if len(part) >= _LEAST_MEMBERS and (held := _density(part, edges, weights, num_nodes)) > floor
            ]
            inside = np.zeros(num_nodes, dtype=bool)
            inside[members] = True
            weights[inside[edges].any(axis=0)] = 0.0
        elif len(found) > known:
            # The suspicion in found groups is no longer shuffled, so that a small group beside a large one is found.
            known, floor = len(found), max(_LEAST_DENSITY, _AHEAD * _by_chance(edges, weights, num_nodes, seed))
        else:
            break
    return sorted(found, key=lambda one: (-one[1], int(one[0][0])))


def _by_chance(edges: Edges, weights: Numbers, n: int, seed: int) -> float:
    """The density of the densest set when the weights are shuffled at random."""
    degrees = np.bincount(edges.ravel(), minlength=n)
    product = degrees[edges[0]].astype(np.float64) * degrees[edges[1]]
    tail = max(0, int(np.log2(max(len(product) / _STRATA / _IN_TAIL, 1))))
    bounds = [*np.arange(1, _STRATA) / _STRATA, *(1 - 0.5 ** np.arange(1, tail + 1) / _STRATA)]
    cuts = np.unique(np.quantile(product, bounds))
    stratum = np.searchsorted(cuts, product, "right")
    order = np.argsort(stratum, kind="stable")
    most = 0.0
    for number in range(max(_LEAST_SHUFFLES, min(_SHUFFLES, _EDGES_SHUFFLED // len(weights)))):
        chance = np.random.default_rng((seed, number)).random(len(weights))
        dealt = np.empty_like(weights)
        dealt[order] = weights[np.argsort(stratum + chance)]
        most = max(most, _densest(edges, dealt, n, max(_LEAST_DENSITY, most))[1])
    return most


def _densest(edges: Edges, weights: Numbers, n: int, floor: float) -> tuple[Places, float]:
    """Approximately the densest set of nodes, and its density; an empty one if none is denser than `floor`."""
    there = weights > 0
    edges, weights = edges[:, there], weights[there]
    best, most = np.zeros(0, dtype=np.int64), floor
    while len(weights):
        degrees = _sums(edges, weights, n)
        alive = np.flatnonzero(degrees)
        density = float(weights.sum()) / len(alive)
        if density > most:
            best, most = alive, density
        # Each node of a denser set adds more than that to it.
        least = most if len(weights) <= _PEELED_ONE_BY_ONE else max(most, density)
        kept = (degrees > least)[edges].all(axis=0)
        if kept.all():
            if len(weights) <= _PEELED_ONE_BY_ONE:
                break
            # All exceed the number of edges per node, but not all can reach twice that, which is the mean.
            kept = (degrees > 2 * density)[edges].all(axis=0)
        edges, weights = edges[:, kept], weights[kept]
    if len(weights):
        members, density = _peeled(edges, weights, n)
        if density > most:
            best, most = members, density
    return best, most if len(best) else 0.0


def _peeled(edges: Edges, weights: Numbers, n: int) -> tuple[Places, float]:
    """The densest of the sets left as the node with the least weight is removed, one by one."""
    degrees = _sums(edges, weights, n)
    alive = np.flatnonzero(degrees)
    ends = edges.ravel()
    order = np.argsort(ends, kind="stable")
    starts = np.searchsorted(ends[order], np.arange(n + 1)).tolist()
    others, beside = edges[::-1].ravel()[order].tolist(), np.tile(weights, 2)[order].tolist()
    left = {int(node): float(degrees[node]) for node in alive}
    heap = [(degree, node) for node, degree in left.items()]
    heapq.heapify(heap)
    total, taken = float(weights.sum()), []
    most, at = total / len(left), 0
    while len(left) > 1:
        degree, node = heapq.heappop(heap)
        if left.get(node) != degree:
            continue
        del left[node]
        taken.append(node)
        total -= degree
        for place in range(starts[node], starts[node + 1]):
            other = others[place]
            if other in left:
                left[other] -= beside[place]
                heapq.heappush(heap, (left[other], other))
        if total / len(left) > most:
            most, at = total / len(left), len(taken)
    return np.setdiff1d(alive, np.array(taken[:at], dtype=np.int64)), most


def _parts(members: Places, edges: Edges, weights: Numbers, n: int) -> list[Places]:
    """The set itself, or the parts that it falls into."""
    if not 2 * _LEAST_MEMBERS <= len(members) <= _LARGEST_SPLIT:
        return [members]
    matrix = _matrix(members, edges, weights, n)
    degrees = matrix.sum(axis=1)
    # The vector that cuts the fewest edges (Fiedler 1973), with the constant one shifted away.
    laplacian = np.diag(degrees) - matrix + 2 * degrees.max() / len(members)
    _, vectors = eigh(laplacian, subset_by_index=[0, 0])
    side = _fewest_cut(matrix, vectors[:, 0])
    density = matrix.sum() / 2 / len(members)
    halves = [members[side], members[~side]]
    held = [matrix[np.ix_(one, one)].sum() / 2 / max(int(one.sum()), 1) for one in (side, ~side)]
    if min(map(len, halves)) < _LEAST_MEMBERS or min(held) < _KEEPS * density:
        return [members]
    return [part for half in halves for part in _parts(half, edges, weights, n)]


def _fewest_cut(matrix: Numbers, values: Numbers) -> NDArray[np.bool_]:
    """One side of the best cut along the order of the values: the least cut for the size of its smaller side."""
    order = np.argsort(values, kind="stable")
    ranked = matrix[np.ix_(order, order)]
    cut = np.cumsum(ranked.sum(axis=1) - 2 * np.tril(ranked, -1).sum(axis=1))[:-1]
    sizes = np.arange(1, len(order))
    side = np.zeros(len(order), dtype=bool)
    side[order[: 1 + int(np.argmin(cut / np.minimum(sizes, sizes[::-1])))]] = True
    return side


def _matrix(members: Places, edges: Edges, weights: Numbers, n: int) -> Numbers:
    place = np.full(n, -1)
    place[members] = np.arange(len(members))
    ends = place[edges]
    inside = (ends >= 0).all(axis=0)
    matrix = np.zeros((len(members), len(members)))
    matrix[ends[0, inside], ends[1, inside]] = weights[inside]
    return matrix + matrix.T


def _density(members: Places, edges: Edges, weights: Numbers, n: int) -> float:
    inside = np.zeros(n, dtype=bool)
    inside[members] = True
    return float(weights[inside[edges].all(axis=0)].sum()) / len(members)


def _sums(edges: Edges, weights: Numbers, n: int) -> Numbers:
    return np.asarray(np.bincount(edges.ravel(), np.tile(weights, 2), n), dtype=np.float64)
