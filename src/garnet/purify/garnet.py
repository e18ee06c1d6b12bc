"""GARNET, the method of the paper, on one page: embed the nodes, join near ones, keep the critical edges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from garnet.errors import ParameterError
from garnet.graph.graph import Graph, as_graph
from garnet.parameters import (
    AnyNumber,
    Count,
    Natural,
    NonNegative,
    Positive,
    PositiveOrInfinite,
    Seed,
    Share,
)
from garnet.progress import Progress
from garnet.purify.base import Purifier
from garnet.purify.features import alikeness, scale
from garnet.purify.graphical_model import distortion
from garnet.purify.memory import InMemory
from garnet.purify.paper import published
from garnet.purify.place import Base, Block, Embedding, Place, Pruned, Work
from garnet.purify.quantile import quantile_of
from garnet.purify.relaxed import Way
from garnet.purify.relaxed_garnet import RelaxedGarnet
from garnet.purify.result import Purification
from garnet.purify.scores import Choice, Critical, distance, least_weight, signed
from garnet.purify.settings import (
    CAUTION,
    Features,
    GammaUnit,
    Scaling,
    Score,
    Settings,
    Shape,
    Weight,
    settle,
    weight_of_features,
)
from garnet.purify.suspicion import LEAST_TRUST
from garnet.purify.trust import learn, refilled, trusted
from garnet.spectral.spectrum import End, Spectrum


@dataclass(frozen=True, kw_only=True)
class GARNET(Purifier):
    """The purifier of Deng, Li, Feng and Zhang (LoG 2022), with one default that assumes nothing about the attack.

    Nodes become rows of V, the leading eigenvectors of the normalised adjacency weighted by the roots of their
    eigenvalues (definition 3.1), beside their features. Each node is joined to its k nearest neighbours in V, which
    gives G_base. Base edges that score below gamma are pruned.

    Beyond the paper, the default estimates from the graph itself how much of it to doubt. Made-up edges, a tenth as
    many as its own, are planted in the graph; the more an edge looks like these, and the more the other edges of its
    endpoints do, the less it is trusted (`garnet.purify.suspicion`). Edges weigh as much as they are trusted, the least
    trusted are dropped, and the weight a node has lost is shared among its near neighbours. So a graph that raises no
    suspicion comes back almost unchanged.

    A purifier is also a PyTorch Geometric transform: `GARNET()(data)` returns a `Data`.

    Attributes:
        rank: number of eigenpairs r. None is 70, or half the nodes if fewer; `auto` is ten per class, or by eigengap if
            unlabelled; `low` is two per class, or 16.
        end: `algebraic`, the smallest Laplacian eigenvalues (the paper's text), or `magnitude` (the authors' code).
        normalize: D^(-1/2) A D^(-1/2) if true, A itself if not.
        tau: degree regularisation, D + tau I for D; `mean` is the mean degree.
        features: how the nodes' features enter the embedding; see `garnet.purify.features.feature_block`.
        feature_rank: singular directions kept of low-rank and propagated features; None keeps all.
        feature_weight: scale of the feature block relative to the spectral one. `auto` is 1.5 where edges join nodes
            with similar features, less where they do so less, down to 0.15 where edges say nothing about features.
        scaling: of each block: `unit` rows, `standardize` or `minmax` columns, or `none`.
        k: neighbours of each node. None is 10 where planted edges determine the doubt, and otherwise 15 less the mean
            degree. With 0, edges are only dropped, never added.
        support: how much of the input is doubted. `auto` lets planted edges determine it. A share doubts that share of
            the edges, the least supported, which stay only if they join near neighbours; the others stay in any case.
            An edge is supported if its endpoints are similar in V and share neighbours. None is the paper's choice: no
            edge stays merely because it was there.
        caution: how many times worse it is to keep a made-up edge than to drop a true one; an edge that is made up with
            probability s is trusted (1 - s) / (1 - s + caution s), and dropped below a quarter. Used where planted
            edges determine the doubt.
        refill: weight of new edges at a node for each unit of weight it has lost. `auto` is 2 where joined nodes have
            similar features or `k` is given, less the less similar they are, and zero without features. Used where
            planted edges determine the doubt.
        overlap: how much sharing all neighbours counts in support, beside twice the inner product of the two points.
        score: `distance`, -||V_i - V_j||^2, and `signed`, the entry of U L U^T, are the simplified metrics of appendix
            S; `distortion` is ||U^T e||^2 / ||V^T e||^2 of section 3.3.
        sigma2: prior variance of the graphical model, for `distortion`.
        gamma: base edges that score below it are pruned.
        gamma_unit: `quantile` of the base edges' scores, which has no scale, or `absolute`.
        only_drop: add nothing, and keep the weights of kept edges. With `k`, a doubted edge stays if it joins near
            neighbours, and the quantile gamma is taken over the base edges that are in the input.
        weight: weight of the edges kept: `trust`, their old weight times their trust, and for new edges a part of what
            their endpoints have lost; `similarity`, the cosine of the two points; `score`; or `one`. `auto` is trust
            where planted edges determine it, and otherwise similarity, or their old weight where nothing is added.
        seed: for all random draws; the same seed gives the same bytes on a CPU.

    Example:
        >>> from garnet.datasets import cora
        >>> GARNET(rank=20, k=5).purify(cora()).graph.num_nodes
        2485
    """

    rank: Count | Literal["auto", "low"] | None = None
    end: End = "algebraic"
    normalize: bool = True
    tau: NonNegative | Literal["mean"] = 0.0
    features: Features = "auto"
    feature_rank: Count | None = 64
    feature_weight: NonNegative | Literal["auto"] = "auto"
    scaling: Scaling = "unit"
    k: Natural | None = None
    support: Share | Literal["auto"] | None = "auto"
    caution: Positive = CAUTION
    refill: NonNegative | Literal["auto"] = "auto"
    overlap: NonNegative = 4.0
    score: Score = "distance"
    sigma2: PositiveOrInfinite = math.inf
    gamma: AnyNumber = 0.1
    gamma_unit: GammaUnit = "quantile"
    only_drop: bool = False
    weight: Weight = "auto"
    seed: Seed = 0

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        quantile = self.gamma_unit == "absolute" or 0 <= self.gamma <= 1
        yield "gamma", quantile, "between 0 and 1 as a quantile"
        weighed = (self.weight, self.score) != ("score", "distance")
        stays = self.k != 0 or self.support is not None
        yield "k", stays, "at least 1 where 'support' is None, or no edge would stay"
        yield "weight", weighed, "'similarity' or 'one' with score 'distance'"
        kept = not self.only_drop or self.weight == "auto"
        yield "weight", kept, "'auto' with only_drop: kept edges keep their weights"
        told = self.weight != "trust" or self.support == "auto"
        yield "weight", told, "'auto', 'similarity', 'score' or 'one' where 'support' is not 'auto'"

    @classmethod
    def paper(
        cls, dataset: str, backbone: str = "gcn", *, attack: str = "metattack", budget: float | None = None
    ) -> GARNET:
        """The authors' own settings for a graph, a model and an attack; see `garnet.purify.paper.published`."""
        return cls(**published(dataset, backbone, attack, budget))

    def on(self, graph: Any) -> Settings:
        """Resolve the parameters for a graph, or for one of which only the `Shape` is known.

        Raises:
            GraphError: there is nothing to purify.
            ParameterError: the graph does not allow a parameter.
        """
        return settle(self, graph if isinstance(graph, Shape) else Shape.of(as_graph(graph)))

    def purify(
        self,
        graph: Any,
        *,
        place: Place | None = None,
        device: str = "cpu",
        symmetrize: bool = False,
        progress: Progress | None = None,
    ) -> Purification:
        """Purify a graph, or anything that `as_graph` reads.

        Args:
            graph: the untrusted graph; for a place other than memory, preferably the path of its file.
            place: where to run: `InMemory`, `OnDisk` or `OnCluster`. None is in memory.
            device: `cpu`, `cuda`, or any that torch knows, unless a place is given.
            symmetrize: accept a directed graph, and keep each edge in both directions.
            progress: called as each stage begins, and with the progress of long ones.
        """
        if place is not None and device != "cpu":
            raise ParameterError(f"The device {device!r} is said beside a place; say it there: InMemory(device=...).")
        with (place or InMemory(device=device)).open(self, graph, symmetrize=symmetrize, progress=progress) as work:
            if isinstance(work, Purification):
                return work
            settings, embedding, base, pruned = self.stages(work)
            return work.result(replace(settings, doubted=pruned.share, power=pruned.power), embedding, base, pruned)

    def stages(self, work: Work) -> tuple[Settings, Embedding, Base, Pruned]:
        """The method itself, wherever the graph is stored."""
        settings = self.on(work.shape)
        embedding = work.stage("embed", lambda: embed(work, settings))
        settings = settings.told(embedding.feature_weight)
        base = work.stage("neighbours", lambda: work.base_graph(embedding.points, settings))
        return settings, embedding, base, work.stage("prune", lambda: prune(work, embedding, base, settings))

    def relaxed(self, graph: Any, *, device: str = "cpu", way: Way = "still") -> RelaxedGarnet:
        """See `Purifier.relaxed`: gradients flow through weights, support and, if asked for, the eigenvectors."""
        with InMemory(device=device).open(self, graph) as work:
            settings, embedding, _, pruned = self.stages(work)
            return RelaxedGarnet.of(work, settings, embedding, pruned, way=way)

    def embed(self, graph: Any, *, device: str = "cpu") -> Spectrum:
        """The leading eigenpairs of the graph itself, without planted edges; in memory."""
        bare = replace(self, support=1.0, weight="auto" if self.weight == "trust" else self.weight)
        with InMemory(device=device).open(bare, graph) as work:
            return work.spectrum(bare.on(work.shape))

    def _purify(self, graph: Graph, *, progress: Progress | None) -> Purification:
        return self.purify(graph, progress=progress)


def embed(work: Work, settings: Settings) -> Embedding:
    """Rows of V (definition 3.1) beside the features (appendix L), each block on its own scale; shape (n, r + d)."""
    spectrum = work.spectrum(settings)
    roots, scaling = spectrum.values.abs().sqrt(), settings.scaling
    # V = U |L|^(1/2)
    spectral = work.map(lambda vectors: scale((vectors * roots).float(), scaling), spectrum.vectors)
    features = work.features(settings)
    if features is None:
        return Embedding(work.map(lambda rows: rows, spectral, name="points"), spectrum, None)
    block = work.map(lambda rows: scale(rows, scaling), features)
    weight = settings.feature_weight
    if weight is None:
        weight = weight_of_features(alikeness(lambda nodes: work.take(block, nodes), supported_half(work, spectral)))
    points = work.map(lambda v, x: torch.cat([v, weight * x], dim=1), spectral, block, name="points")
    return Embedding(points, spectrum, weight)


def supported_half(work: Work, spectral: Block) -> Tensor:
    """The half of the input's edges that the spectrum supports best, (2, m): few of them are from an attack."""
    edges, alike = work.edge_likeness(spectral)
    return edges[:, alike >= quantile_of(alike, 0.5)]


def prune(work: Work, embedding: Embedding, base: Base, settings: Settings) -> Pruned:
    """Keep the base edges that the graphical model finds critical (section 3.3), and the trusted edges of the input."""
    learnt = learn(work, embedding, settings) if settings.support == "planted" else None
    around = None
    suspicion = None if learnt is None else learnt.suspicion
    critical = criterion(work, embedding.spectrum, base, settings)
    scored = work.score(embedding, base, settings, critical, suspicion)
    quantile = settings.gamma_unit == "quantile"
    threshold = work.quantile(scored, "score", settings.gamma) if quantile else settings.gamma
    if learnt is not None:
        scored, around = trusted(work, scored, learnt, settings)
        if settings.weight == "trust":
            scored = refilled(work, scored, threshold, settings.refill or 0.0)
        doubt: float | None = LEAST_TRUST
    else:
        doubt = None if settings.support is None else work.quantile(scored, "support", float(settings.support))
    choice = Choice(threshold=threshold, doubt=doubt)
    tally = work.tally(scored, choice)
    choice = replace(choice, floor=least_weight(settings, tally.heaviest))
    share, power = (None, None) if learnt is None else (learnt.share, learnt.suspicion.power)
    return Pruned(choice, tally, scored, work.gather(scored, choice, tally), share, power, learnt, around)


def criterion(work: Work, spectrum: Spectrum, base: Base, settings: Settings) -> Critical:
    """The function that scores how critical an edge is."""
    if settings.score == "distance":
        return distance
    if settings.score == "signed":
        return signed(spectrum.values)
    embedding = work.base_embedding(base, spectrum.rank, settings)
    return lambda left, _, edges: distortion(embedding, left, edges)
