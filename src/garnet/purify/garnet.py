"""GARNET: embed the nodes, join near ones, keep the edges that the graphical model finds critical."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from garnet.errors import ParameterError
from garnet.graph.edges import among, pairs
from garnet.graph.graph import Graph, as_graph
from garnet.linalg.common_neighbors import shared_neighbors
from garnet.linalg.device_graph import Resident, joined, restricted
from garnet.neighbors.search import Search, choose_neighbors, named_search, union
from garnet.parameters import (
    AnyNumber,
    Count,
    Device,
    GammaUnit,
    NonNegative,
    PositiveOrInfinite,
    Rule,
    Score,
    Seed,
    Share,
    Weight,
    require_valid,
)
from garnet.places.plan import Memory
from garnet.progress import Clock, Progress
from garnet.purify.base import Purifier
from garnet.purify.features import Features, Scaling, alikeness, feature_block, require_features, scale
from garnet.purify.result import Ledger, Purification
from garnet.purify.scores import (
    base_embedding,
    believed_if_unknown,
    distortion,
    inner_products,
    quantile,
    squared_distances,
)
from garnet.spectral import Chebyshev, choose_solver
from garnet.spectral.spectrum import End, Solver, Spectrum, choose_rank, eigengap, spread_components

# What the default was found to need on the graphs of the paper, clean and attacked; it is the same for all of them.
_ENOUGH_NEIGHBORS, _FEWEST_NEIGHBORS, _MANY_EDGES = 15, 10, 24
_DOUBTED, _DOUBTED_ALONE = 0.3, 0.2
_FEATURE_WEIGHT, _ALIKE, _LEAST_SAY = 1.5, 0.4, 0.1


def _cluster(value: Any) -> str | None:
    """Dask is not imported for the question, so whatever takes tasks counts as a client until it is asked to."""
    fine = issubclass(type(value), str) or callable(getattr(type(value), "submit", None))
    return None if fine else "a distributed.Client or the address of a scheduler"


Cluster = Annotated[Any, Rule(_cluster)]


@dataclass(frozen=True, kw_only=True)
class GARNET(Purifier):
    """The purifier of Deng, Li, Feng and Zhang (LoG 2022), with one default that knows nothing of the attack.

    Nodes become rows of V, the leading eigenvectors of the normalised adjacency weighted by the roots of their
    eigenvalues (definition 3.1), beside their features. Each node is joined to its k nearest in V: G_base. Base edges
    that score below gamma are pruned. Beyond the paper, the default scales both blocks to unit rows, counts the
    neighbours that two nodes share, and keeps the better supported edges of the input, so that a dense graph keeps what
    is true of it.

    A purifier is also a PyTorch Geometric transform: `GARNET()(data)` gives a `Data` back.

    Attributes:
        rank: eigenpairs r. None is 70, or half the nodes if fewer; `auto` is ten a class, or by eigengap if unlabelled.
        end: `algebraic`, the smallest Laplacian eigenvalues (the paper's text), or `magnitude` (the authors' code).
        normalize: D^(-1/2) A D^(-1/2) if true, A itself if not.
        tau: degree regularisation, D + tau I for D; `mean` is the mean degree.
        features: what of the nodes' features joins the embedding; see `garnet.purify.features.feature_block`.
        feature_rank: singular directions kept of low-rank and propagated features; None keeps all.
        feature_weight: scale of the feature block beside the spectral one. `auto` is 1.5 where edges join nodes of
            alike features, less where they do so less, down to 0.15 where edges tell nothing of features.
        scaling: of each block: `unit` rows, `standardize` or `minmax` columns, or `none`.
        k: neighbours of each node. None is 15 less the mean degree, but at least 10; or none at all where the mean
            degree is above 24: a graph that has edges enough is given none that nobody wrote.
        support: share of the input's edges, the least supported, that stay only if they join near neighbours; the
            others stay anyway. What supports an edge is that its ends are alike in V and share neighbours. `auto` is
            0.3, or 0.2 where k is 0 and nothing makes up for a true edge that is lost. None is the paper's: no edge
            stays for having been there.
        overlap: what sharing all neighbours counts in support, beside twice the inner product of the two points.
        score: `distance`, -||V_i - V_j||^2, and `signed`, the entry of U L U^T, are the simplified metrics of appendix
            S; `distortion` is ||U^T e||^2 / ||V^T e||^2 of section 3.3.
        sigma2: prior variance of the graphical model, for `distortion`.
        gamma: base edges that score below it are pruned.
        gamma_unit: `quantile` of the base edges' scores, which has no scale, or `absolute`.
        weight: of the edges kept: `similarity`, the cosine of the two points; `score`; or `one`. `auto` is similarity,
            or where k is 0, and all edges were there before, the weight that they had.
        solver: eigensolver; None chooses by size.
        neighbors: nearest-neighbour search: `exact`, `cells`, `ivf` or one of your own; None chooses by size.
        memory: bytes that this process, or each of a cluster, may hold, such as `8GB`; the graph is then worked on in
            tiles on disk.
        cluster: a Dask `Client`, or the address of a scheduler, whose workers do the work; all must see the same files.
        device: `cpu`, `cuda`, or any that torch knows.
        seed: of everything random; the same seed gives the same bytes on a CPU.

    Example:
        >>> from garnet.datasets import cora
        >>> GARNET(rank=20, k=5).purify(cora()).graph.num_nodes
        2485
    """

    rank: Count | Literal["auto"] | None = None
    end: End = "algebraic"
    normalize: bool = True
    tau: NonNegative | Literal["mean"] = 0.0
    features: Features = "auto"
    feature_rank: Count | None = 64
    feature_weight: NonNegative | Literal["auto"] = "auto"
    scaling: Scaling = "unit"
    k: Count | None = None
    support: Share | Literal["auto"] | None = "auto"
    overlap: NonNegative = 4.0
    score: Score = "distance"
    sigma2: PositiveOrInfinite = math.inf
    gamma: AnyNumber = 0.1
    gamma_unit: GammaUnit = "quantile"
    weight: Weight = "auto"
    solver: Solver | None = None
    neighbors: Search | None = None
    memory: Memory | None = None
    cluster: Cluster | None = None
    device: Device = "cpu"
    seed: Seed = 0

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        quantile = self.gamma_unit == "absolute" or 0 <= self.gamma <= 1
        yield "gamma", quantile, "between 0 and 1 as a quantile"
        weighed = (self.weight, self.score) != ("score", "distance")
        yield "weight", weighed, "'similarity' or 'one' with score 'distance'"

    @classmethod
    def paper(
        cls, dataset: str, backbone: str = "gcn", *, attack: str = "metattack", budget: float | None = None
    ) -> GARNET:
        """The authors' own choices for a graph, a model and an attack; see `garnet.purify.paper.published`."""
        from garnet.purify.paper import published

        return cls(**published(dataset, backbone, attack, budget))

    def purify(
        self,
        graph: Graph | str | Path,
        *,
        output: str | Path | None = None,
        scratch: str | Path | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Purification:
        """Purify a graph, or anything that `as_graph` reads.

        With `memory` or `cluster`, what comes back is a `garnet.places.result.TiledPurification`: the same figures, but
        of single edges no more than the purified graph.

        Args:
            graph: the graph that is not to be trusted; with `memory` or `cluster`, best the path of its file.
            output: with `memory` or `cluster`, a folder for the tiles of the purified graph or, if its name ends in
                .parquet, for a table of its edges; new, empty, or an earlier result. None to hold it in memory.
            scratch: with `memory` or `cluster`, a folder for intermediate files; None for that of the output.
            overwrite: replace an earlier result in the output.
            progress: called with the name of each stage as it begins.
        """
        if self.memory is not None or self.cluster is not None:
            from garnet.places.disk import purify_tiled

            source = graph if isinstance(graph, str | Path) else as_graph(graph)
            place, aside = (None if one is None else Path(one) for one in (output, scratch))
            return purify_tiled(  # type: ignore[return-value]
                self, source, place, scratch=aside, overwrite=overwrite, progress=progress
            )
        for name, path in (("output", output), ("scratch", scratch)):
            if path is not None:
                raise ParameterError(
                    f"A purification in memory has no '{name}'; save its graph, or give a memory limit."
                )
        return self._purify(as_graph(graph), progress=progress)

    def _purify(self, graph: Graph, *, progress: Progress | None) -> Purification:
        require_valid(self, graph.num_nodes, graph.num_edges)
        require_features(graph, self.features)
        clock = Clock(progress)
        with clock("embed"):
            here = Resident.of(graph, self.device)
            spectrum = self._embed(graph, here)
            points = self._points(graph, here, spectrum)
        with clock("neighbours"):
            base = self._base(graph, points)
        with clock("prune"):
            first, second = torch.cat([base, here.edges], dim=1)
            edges = pairs(first, second, graph.num_nodes)
            near, given = (among(some, edges, graph.num_nodes) for some in (base, here.edges))
            scores = self._score(graph, spectrum, points, base)(edges)
            threshold = self._threshold(scores[near])
            stays = near & (scores >= threshold)
            stays[given] |= self._supported(graph, here, points)
            kept = edges[:, stays]
            weights = self._weights(graph, here, points, kept, scores[stays])
            purified = replace(graph, adjacency=joined(kept, weights, graph.num_nodes))
        ledger = Ledger(edges, scores, given, stays, graph.num_nodes)
        return Purification(purified, spectrum, near, threshold, ledger, tuple(clock.stages), self)

    def embed(self, graph: Any) -> Spectrum:
        """The leading eigenpairs that a purification begins with, and no more; in memory."""
        graph = as_graph(graph)
        require_valid(self, graph.num_nodes, graph.num_edges)
        return self._embed(graph, Resident.of(graph, self.device))

    def _embed(self, graph: Graph, here: Resident) -> Spectrum:
        """The leading eigenpairs of the normalised adjacency."""
        tau = float(here.degrees.mean()) if self.tau == "mean" else self.tau
        matrix = here.normalized(tau) if self.normalize else here.matrix()
        rank = choose_rank(self.rank, graph.num_nodes, graph.labels)
        nodes = spread_components(here.components(), rank)
        if len(nodes) < graph.num_nodes:
            matrix = restricted(matrix, nodes)
        solver = self._solver(graph)
        on_device = isinstance(solver, Chebyshev) and self.device != "cpu" and not solver.fills(len(nodes), rank)
        spectrum = solver(
            matrix if on_device else matrix.to_scipy(), rank, end=self.end, seed=self.seed, device=self.device
        )
        spectrum = spectrum.scatter(nodes, graph.num_nodes)
        by_gap = self.rank == "auto" and graph.labels is None
        return spectrum.truncate(eigengap(spectrum.values)) if by_gap else spectrum

    def _points(self, graph: Graph, here: Resident, spectrum: Spectrum) -> Tensor:
        """V beside the features, each block on its own scale; shape (n, r + d)."""
        blocks = [scale(spectrum.embedding.float(), self.scaling)]
        features = feature_block(graph, self.features, self.feature_rank, seed=self.seed, device=self.device)
        if features is not None:
            block = scale(features, self.scaling)
            weight = self.feature_weight
            if weight == "auto":
                weight = self.say_of_features(alikeness(block, _inner(here, blocks[0])))
            blocks.append(weight * block)
        return torch.cat(blocks, dim=1)

    def _base(self, graph: Graph, points: Tensor) -> Tensor:
        """G_base, (2, m). A node of which neither spectrum nor features tell anything has no neighbours but its own."""
        known = points.abs().amax(dim=1).nonzero()[:, 0]
        k = min(self._neighbors_of(graph), len(known) - 1)
        if k < 1:
            return known.new_zeros(2, 0)
        search = self.neighbors or choose_neighbors(len(known), self.device)
        if isinstance(search, str):
            search = named_search(search)
        return union(search(points[known], k, seed=self.seed), known)

    def _supported(self, graph: Graph, here: Resident, points: Tensor) -> Tensor:
        """Which edges of the input stay for having been there."""
        doubted = self.doubted(self._neighbors_of(graph))
        if doubted is None:
            return torch.zeros(graph.num_edges, dtype=torch.bool, device=points.device)
        support = self._support(here, points)
        return support >= quantile(support, doubted)

    def neighbors_of(self, nodes: int, edges: int) -> int:
        """k, or what a sparse graph lacks."""
        if self.k is not None:
            return int(self.k)
        mean_degree = 2 * edges / nodes
        return 0 if mean_degree > _MANY_EDGES else max(_FEWEST_NEIGHBORS, round(_ENOUGH_NEIGHBORS - mean_degree))

    def doubted(self, k: int) -> float | None:
        """The share of the input's edges that is doubted, where k neighbours are added to each node."""
        if self.support == "auto":
            return _DOUBTED if k else _DOUBTED_ALONE
        return self.support

    def say_of_features(self, alike: float) -> float:
        """The weight of features where edges join nodes whose features are so alike."""
        return _FEATURE_WEIGHT * min(1.0, max(_LEAST_SAY, alike / _ALIKE))

    def _neighbors_of(self, graph: Graph) -> int:
        return self.neighbors_of(graph.num_nodes, graph.num_edges)

    def _support(self, here: Resident, points: Tensor) -> Tensor:
        """What speaks for each edge of the input: alike ends, and neighbours that they share.

        Twice the inner product is minus the squared distance, up to a constant, where all rows have one length; but a
        node without features is not near to all for that.
        """
        alike = believed_if_unknown(2 * inner_products(points, points, here.edges), points, here.edges)
        return alike + self.overlap * shared_neighbors(here, here.edges) if self.overlap else alike

    def _score(self, graph: Graph, spectrum: Spectrum, points: Tensor, base: Tensor) -> Callable[[Tensor], Tensor]:
        """The function that says how critical each of some edges is; infinitely, where nothing is known of an end."""
        if self.score == "distance":
            return lambda edges: believed_if_unknown(-squared_distances(points, edges), points, edges)
        if self.score == "signed":
            mirrored = points.clone()
            mirrored[:, : spectrum.rank] *= spectrum.values.sign().float()
            return lambda edges: believed_if_unknown(inner_products(points, mirrored, edges), points, edges)
        # Where nothing is new, the input itself is what it is compared with.
        compared = graph.with_edges(base.cpu().numpy()) if base.shape[1] else graph
        embedding = base_embedding(
            compared, spectrum.rank, self.sigma2, self._solver(graph), seed=self.seed, device=self.device
        )
        return lambda edges: believed_if_unknown(distortion(embedding, points, edges), points, edges)

    def _threshold(self, scores: Tensor) -> float:
        """Gamma in the units of the scores."""
        return quantile(scores, self.gamma) if self.gamma_unit == "quantile" else self.gamma

    def _weights(self, graph: Graph, here: Resident, points: Tensor, edges: Tensor, scores: Tensor) -> Tensor:
        """Positive weights; an edge that was kept though its weight would vanish has a thousandth of the largest."""
        if self.weight == "one" or not len(scores):
            return torch.ones_like(scores)
        if self.weight == "auto" and not self._neighbors_of(graph):
            return here.edge_weights[among(edges, here.edges, graph.num_nodes)]
        weights = scores
        if self.weight != "score":
            directions = scale(points, "unit")
            weights = inner_products(directions, directions, edges)
        weights = torch.where(scores.isinf(), 1.0, weights)
        return weights.clamp_min(max(1e-3 * float(weights.max()), torch.finfo(torch.float32).tiny))

    def _solver(self, graph: Graph) -> Solver:
        return self.solver or choose_solver(graph.num_nodes)


def _inner(here: Resident, spectral: Tensor) -> Tensor:
    """The half of the input's edges that the spectrum supports best: few of an attack's are among them."""
    alike = inner_products(spectral, spectral, here.edges)
    return here.edges[:, alike >= quantile(alike, 0.5)]
