"""The points of a tiled graph, V beside the features, each block on its own scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from garnet.errors import ParameterError
from garnet.places.embed import ends_of_some_edges, feature_coordinates, scaled, spectrum
from garnet.places.row_store import Parts
from garnet.places.tiles import TiledGraph
from garnet.purify.features import alikeness_of_ends
from garnet.purify.scores import quantile
from garnet.spectral.chebyshev import Chebyshev
from garnet.spectral.spectrum import choose_rank, eigengap

if TYPE_CHECKING:
    from garnet.purify.garnet import GARNET

_SOME_EDGES = 50_000


def embedded_points(purifier: GARNET, graph: TiledGraph, parts: Parts) -> dict[str, Any]:
    """Write the points, V beside the features, and say of what they are made."""
    labels = graph.labels()
    rank = choose_rank(purifier.rank, graph.num_nodes, labels)
    solver = purifier.solver or Chebyshev(tol=1e-5 if graph.num_nodes <= 50_000 else 1e-4)
    if not isinstance(solver, Chebyshev):
        raise ParameterError("With a memory limit or a cluster the 'solver' parameter of GARNET must be a Chebyshev.")
    total = sum(float(graph.degrees(i).sum()) for i in range(graph.parts))
    tau = total / graph.num_nodes if purifier.tau == "mean" else purifier.tau
    found = spectrum(
        graph, parts, rank, tau=tau if purifier.normalize else None, solver=solver, end=purifier.end, seed=purifier.seed
    )
    kept = eigengap(found.values) if purifier.rank == "auto" and labels is None else rank
    roots = found.values[:kept].abs().sqrt()
    spectral = parts.map(_embedded(roots, purifier.scaling), found.vectors)
    features = feature_coordinates(graph, parts, purifier.features, purifier.feature_rank)
    if features is None:
        points = parts.map(lambda rows: rows, spectral, name="points")
    else:
        block = parts.map(scaled(purifier.scaling), features)
        weight = purifier.feature_weight
        if weight == "auto":
            alike, first, second = ends_of_some_edges(
                graph, parts, spectral, block, most=_SOME_EDGES, seed=purifier.seed
            )
            inner = alike >= quantile(alike, 0.5)
            weight = purifier.say_of_features(alikeness_of_ends(first[inner], second[inner]))
        points = parts.map(_beside(float(weight)), spectral, block, name="points")
    return {
        "width": points.width,
        "values": found.values[:kept].tolist(),
        "residuals": found.residuals[:kept].tolist(),
        "products": found.products,
    }


def _embedded(roots: torch.Tensor, scaling: Any) -> Any:
    work = scaled(scaling)
    return lambda vectors: work(vectors[:, : len(roots)] * roots)


def _beside(weight: float) -> Any:
    return lambda spectral, block: torch.cat([spectral, weight * block], dim=1)
