"""Graphs drawn at random, of any size."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from garnet.datasets.splits import one_label_a_node
from garnet.errors import GraphError
from garnet.graph.edges import pairs
from garnet.graph.graph import Edges, Graph, as_graph
from garnet.linalg.device_graph import joined
from garnet.parameters import Count, Natural, NonNegative, Seed, Share, number, require_arguments, whole

_ROWS_AT_ONCE = 1 << 16


def block_model(
    n: int,
    *,
    classes: int = 5,
    mean_degree: float = 10.0,
    homophily: float = 0.8,
    exponent: float = 2.5,
    seed: int = 0,
) -> Graph:
    r"""A degree-corrected stochastic block model, drawn edge by edge in the manner of Chung and Lu.

    Every node has a propensity :math:`\theta \ge 1` with density :math:`\propto \theta^{-\text{exponent}}`. One
    endpoint of an edge is drawn in proportion to the propensities; the other likewise, among the nodes of the same
    class with probability `homophily` and among all others otherwise. Loops and repeated edges are dropped, so the mean
    degree comes out a little below `mean_degree`. Sorting the edges takes most of the time: a million nodes take
    seconds.

    Args:
        n: number of nodes.
        classes: number of classes, of equal size; with one, every edge is inside it.
        mean_degree: number of edges drawn, twice over, for each node.
        homophily: share of the edges that join nodes of the same class, between 0 and 1.
        exponent: of the power law of degrees, above 2; the larger, the more similar the degrees.
        seed: the same seed gives the same graph.

    Returns:
        The graph, with `labels` from 0 to `classes` - 1.

    Raises:
        ParameterError: a parameter lies outside what is allowed.

    Example:
        >>> block_model(1000, classes=3, mean_degree=4.0, seed=7).labels.max()
        np.int64(2)
    """
    require_arguments("block_model", n=(n, Natural), classes=(classes, Count), homophily=(homophily, Share))
    _require_degrees("block_model", n, mean_degree, exponent, seed)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % classes)
    by_class = np.argsort(labels, kind="stable")
    reach = _reach(n, mean_degree, exponent, rng)
    edge_of_class = reach[np.searchsorted(labels[by_class], np.arange(classes + 1))]

    draws = round(n * mean_degree / 2)
    first = _locate(reach, rng.random(draws) * reach[-1])
    own = labels[by_class[first]]
    low, high = edge_of_class[own], edge_of_class[own + 1]
    elsewhere = reach[-1] - (high - low)
    inside = (rng.random(draws) < homophily) | (elsewhere <= 0)
    ticket = rng.random(draws)
    # The other classes' stretch of the line is the whole line with the node's own class cut out.
    outside = ticket * elsewhere
    place = np.where(inside, low + ticket * (high - low), outside + np.where(outside >= low, high - low, 0.0))
    ends = torch.from_numpy(by_class[np.stack([first, _locate(reach, place)])])
    return as_graph(_joined_once(ends, n), labels=labels)


def nested_block_model(
    n: int,
    *,
    classes: int = 47,
    branching: int = 8,
    depth: int = 3,
    mean_degree: float = 10.0,
    exponent: float = 2.5,
    seed: int = 0,
) -> Graph:
    r"""Communities within communities, some tight and some loose: a graph with a spectrum as crowded as a real one's.

    Classes of random sizes are split `depth` times into `branching` smaller communities of random sizes. Each smallest
    community has a tightness t, drawn from Beta(2, 2). One endpoint of an edge is drawn in proportion to the
    propensities, which follow a power law; the other likewise, from the smallest community around it with probability
    t, else with probability t from the next larger one, and so on; the rest go anywhere. A community of tightness t
    gives the normalised adjacency an eigenvalue of about t, so its leading eigenvalues come close to 1, and to each
    other. A `block_model` has only as many large eigenvalues as classes, and a bulk of noise behind them.

    Args:
        n: number of nodes.
        classes: number of classes.
        branching: number of communities that each community is split into.
        depth: how many times.
        mean_degree: number of edges drawn, twice over, for each node.
        exponent: of the power law of degrees, above 2.
        seed: the same seed gives the same graph.

    Returns:
        The graph, with `labels` from 0 to `classes` - 1; nodes are in random order.

    Raises:
        ParameterError: a parameter lies outside what is allowed.

    Example:
        >>> nested_block_model(2000, classes=4, branching=3, depth=2, seed=1).num_nodes
        2000
    """
    require_arguments(
        "nested_block_model", classes=(classes, Count), branching=(branching, Count), depth=(depth, Count)
    )
    require_arguments("nested_block_model", n=(n, Annotated[int, whole(classes)]))
    _require_degrees("nested_block_model", n, mean_degree, exponent, seed)
    rng = np.random.default_rng(seed)
    # Ends of each level's communities on the line of nodes, the smallest last.
    levels = [np.array([0, n])]
    for children in (classes, *[branching] * depth):
        levels.append(_split_again(levels[-1], children, rng))
    reach = _reach(n, mean_degree, exponent, rng)
    tightness = rng.beta(2, 2, len(levels[-1]) - 1)

    first = _locate(reach, rng.random(round(n * mean_degree / 2)) * reach[-1])
    second = _locate(reach, _places_nearby(first, tightness, levels, reach, rng))
    order = rng.permutation(n)
    ends = torch.from_numpy(order[np.stack([first, second])])
    labels = np.empty(n, np.int64)
    labels[order] = np.searchsorted(levels[1], np.arange(n), side="right") - 1
    return as_graph(_joined_once(ends, n), labels=labels)


def contextual_block_model(
    n: int,
    *,
    classes: int = 5,
    mean_degree: float = 10.0,
    homophily: float = 0.8,
    exponent: float = 2.5,
    features: int = 64,
    signal: float = 1.0,
    seed: int = 0,
) -> Graph:
    """The graph of `block_model` with the features of `class_features`: both carry information about a node's class.

    Args:
        n: number of nodes.
        classes: number of classes, of equal size.
        mean_degree: as for `block_model`.
        homophily: as for `block_model`.
        exponent: as for `block_model`.
        features: number of features.
        signal: how far apart the classes' features are, as for `class_features`; 0 for features of noise alone.
        seed: the same seed gives the same graph, and the same edges as `block_model`.

    Returns:
        The graph, with `labels` and dense `features`.

    Raises:
        ParameterError: a parameter lies outside what is allowed.

    Example:
        >>> contextual_block_model(1000, classes=3, features=16, seed=7).features.shape
        (1000, 16)
    """
    require_arguments("contextual_block_model", features=(features, Count), signal=(signal, NonNegative))
    graph = block_model(n, classes=classes, mean_degree=mean_degree, homophily=homophily, exponent=exponent, seed=seed)
    return as_graph(graph, features=class_features(graph.labels, dim=features, signal=signal, seed=seed))


def class_features(labels: ArrayLike | None, *, dim: int, signal: float, seed: int = 0) -> NDArray[np.float32]:
    r"""Gaussian features that reveal a node's class, the more so the larger `signal` is.

    The features of a node of class c are :math:`x = s\,\mu_c + \varepsilon`, with s the `signal`, :math:`\mu_c` a
    uniformly drawn unit vector, and :math:`\varepsilon` of independent standard normal entries. The best rule for two
    classes of equal size, which takes the nearer mean, is right with probability
    :math:`\Phi(s\,\lVert\mu_1 - \mu_2\rVert / 2)`, about :math:`\Phi(s / \sqrt 2)` in many dimensions, where two
    directions are close to orthogonal; :math:`\Phi` is the standard normal distribution.

    Args:
        labels: (n,) classes from 0, negative if unknown; nodes without a label get noise alone.
        dim: number of features.
        signal: length of the means of the classes, in standard deviations of the noise.
        seed: the same seed gives the same features; their stream is not that of `block_model`.

    Returns:
        (n, dim) features.

    Raises:
        ParameterError: `dim`, `signal` or `seed` lies outside what is allowed.
        GraphError: the labels are not one integer per node.

    Example:
        >>> class_features([0, 1, -1], dim=8, signal=3.0).shape
        (3, 8)
    """
    require_arguments("class_features", dim=(dim, Count), signal=(signal, NonNegative), seed=(seed, Seed))
    classes = one_label_a_node(labels)
    # A second number in the seed; otherwise the noise would repeat the draws that placed the labels and edges.
    rng = np.random.default_rng([seed, 1])
    rows = np.maximum(classes, -1)
    means = rng.standard_normal((rows.max(initial=-1) + 1, dim))
    means *= signal / np.linalg.norm(means, axis=1, keepdims=True)
    # An unknown label, -1, selects the last row.
    table = np.vstack([means, np.zeros((1, dim))]).astype(np.float32)
    features = rng.standard_normal((len(rows), dim), dtype=np.float32)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        features[part] += table[rows[part]]
    return features


def inter_class_edges(graph: Graph, count: int, *, seed: int) -> Edges:
    """Random pairs of unconnected nodes with different known labels, such as an attack would add.

    Args:
        graph: a graph with labels.
        count: how many pairs.
        seed: the same seed gives the same pairs.

    Returns:
        (2, count) distinct pairs, the smaller node first, in lexicographic order.

    Raises:
        GraphError: the graph has no labels, or fewer such pairs than `count`.

    Example:
        >>> inter_class_edges(as_graph(([[0, 1], [1, 0]], 3), labels=[0, 1, 0]), 1, seed=0)
        array([[1],
               [2]])
    """
    require_arguments("inter_class_edges", count=(count, Natural), seed=(seed, Seed))
    if graph.labels is None:
        raise GraphError("The graph has no labels, so no edge can be told to join two classes.")
    n, labels = graph.num_nodes, graph.labels
    nodes = np.argsort(labels, kind="stable")
    nodes = nodes[labels[nodes] >= 0]
    # Sorted by class, a node's partners are all nodes after its class, so the pairs can be numbered.
    after = np.searchsorted(labels[nodes], labels[nodes], side="right")
    offsets = np.concatenate([[0], np.cumsum(len(nodes) - after)])
    pairs = int(offsets[-1])

    first, second = graph.edges
    joins = (labels[first] != labels[second]) & (labels[first] >= 0) & (labels[second] >= 0)
    taken = first[joins] * n + second[joins]
    if count > pairs - len(taken):
        raise GraphError(
            f"The graph has {pairs - len(taken)} pairs of unjoined nodes of different classes, fewer than {count}."
        )

    def keys(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        position = np.searchsorted(offsets, numbers, side="right") - 1
        one, other = nodes[position], nodes[after[position] + numbers - offsets[position]]
        return np.setdiff1d(np.minimum(one, other) * n + np.maximum(one, other), taken)

    rng = np.random.default_rng(seed)
    found = np.zeros(0, dtype=np.int64)
    if pairs <= 4 * (count + len(taken)):
        found = keys(np.arange(pairs))
    while len(found) < count:
        # At least three draws in four are new pairs without an edge, so a few rounds suffice.
        found = np.union1d(found, keys(rng.integers(pairs, size=count)))
    chosen = np.sort(rng.choice(found, count, replace=False))
    return np.stack([chosen // max(n, 1), chosen % max(n, 1)])


def _split_again(bounds: NDArray[np.int64], children: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Each stretch of the line cut into this many of random lengths; those of length zero vanish."""
    shares = rng.dirichlet(np.full(children, 2.0), len(bounds) - 1).cumsum(axis=1)[:, :-1]
    cuts = bounds[:-1, None] + np.rint(shares * np.diff(bounds)[:, None]).astype(np.int64)
    return np.unique(np.concatenate([bounds, cuts.ravel()]))


def _places_nearby(
    nodes: NDArray[np.int64],
    tightness: NDArray[np.float64],
    levels: list[NDArray[np.int64]],
    reach: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """A place on the line for each node: in its smallest community, as often as this is tight, or in a larger one."""
    tight = tightness[np.searchsorted(levels[-1], nodes, side="right") - 1]
    steps = np.minimum(rng.geometric(np.clip(tight, 1e-3, 1)) - 1, len(levels) - 1)
    place = rng.random(len(nodes))
    for step, bounds in enumerate(reversed(levels)):
        here = np.flatnonzero(steps == step)
        community = np.searchsorted(bounds, nodes[here], side="right") - 1
        low, high = reach[bounds[community]], reach[bounds[community + 1]]
        place[here] = low + place[here] * (high - low)
    return place


def _joined_once(ends: torch.Tensor, n: int) -> Graph:
    """The graph of pairs (2, m), without loops and repeats."""
    first, second = ends[:, ends[0] != ends[1]]
    edges = pairs(first, second, n)
    return Graph(joined(edges, torch.ones(edges.shape[1]), n))


def _reach(n: int, mean_degree: float, exponent: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """A line on which every node has a stretch as long as its propensity: the start of each, and the end; (n + 1,)."""
    # Above this bound two hubs would be joined several times, and repeated edges are dropped.
    theta = np.minimum(rng.pareto(exponent - 1, n) + 1, np.sqrt(max(n, 1) * max(mean_degree, 1)))
    return np.concatenate([[0.0], np.cumsum(theta)])


def _locate(reach: NDArray[np.float64], place: NDArray[np.float64]) -> NDArray[np.int64]:
    """The node whose stretch of the line covers each place; rounding may put a place just past the end."""
    found = np.searchsorted(reach, place, side="right") - 1
    return np.minimum(found, max(len(reach) - 2, 0)).astype(np.int64)


def _require_degrees(function: str, n: int, mean_degree: Any, exponent: Any, seed: Any) -> None:
    """Refuse degrees that no graph of n nodes can have."""
    below = number(f"in [0, n), with n = {n}", lambda degree: 0 <= degree < max(n, 1))
    steep = number("above 2", lambda power: power > 2, infinite=True)
    require_arguments(
        function,
        mean_degree=(mean_degree, Annotated[float, below]),
        exponent=(exponent, Annotated[float, steep]),
        seed=(seed, Seed),
    )
