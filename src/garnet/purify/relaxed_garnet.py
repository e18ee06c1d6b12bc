"""GARNET as an adaptive attacker sees it: a differentiable function of edge weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from garnet.graph.edges import numbers
from garnet.linalg.edge_products import inner_products
from garnet.purify.features import scale
from garnet.purify.memory import GraphInMemory
from garnet.purify.pair_judge import PairJudge
from garnet.purify.place import Embedding, Pruned
from garnet.purify.relaxed import Frozen, Way, kept_whole
from garnet.purify.settings import Settings
from garnet.purify.suspicion import LEAST_TRUST, looks
from garnet.purify.trust import trust_of, uphold
from garnet.spectral.perturbation import resolvent

_NEXT_TO_NOTHING = 1e-9
_SOFT = 0.05
"""Of trust, and of support over its spread: within so much of a threshold, an edge is half kept on the way back."""
_LEAST_GAP = 1e-2
"""Between eigenvalues: the smaller the gap, the farther two vectors turn into each other, and the less it says."""
_SOLVED, _SOLVER_STEPS = 1e-2, 30
"""Where the resolvent solver stops; few steps keep a narrow gap at the end of the spectrum from dominating."""


@dataclass(frozen=True, eq=False)
class RelaxedGarnet:
    """See `garnet.purify.relaxed.Relaxed`.

    In the forward pass everything is as the purification of one graph left it. In the backward pass edges matter twice:
    for themselves, as far as they are kept, and for the eigenvectors, which turn as perturbation theory says and change
    the trust in other edges and the weights of added ones. Thresholds use a straight-through estimator: steps in the
    forward pass, slopes in the backward pass.

    Attributes:
        judge: what pairs that are not edges would weigh, given all that is known about the graph.
        edges: (2, m0) edges of the graph.
        trust: (m0,) how far each is trusted; None where nothing was planted.
        still: everything, with the eigenvectors held fixed.
        way: how gradients flow.
    """

    judge: PairJudge
    edges: Tensor
    trust: Tensor | None
    still: Frozen
    way: Way = "still"

    @classmethod
    def of(
        cls, work: GraphInMemory, settings: Settings, embedding: Embedding, pruned: Pruned, *, way: Way
    ) -> RelaxedGarnet:
        """From the results of a purification's stages."""
        (ends, near, given), measured = pruned.scored.edges, pruned.scored.measured
        own = torch.zeros_like(measured.weight)
        own[given] = work.given.edge_weights
        stays = pruned.choice.stays(near, measured)
        weight = torch.where(stays, measured.weight.clamp_min(pruned.choice.floor), 0.0)
        if pruned.learnt is not None:
            left = torch.where(given & (measured.support >= LEAST_TRUST), measured.support, 0.0)
            kept = own * (left if settings.weight == "trust" else (left > 0).float())
        else:
            # Near pairs stay near, whether or not they are edges.
            kept = torch.where(given & ~(near & (measured.score >= pruned.choice.threshold)), weight, 0.0)
        more = weight - kept
        there, n = more > _NEXT_TO_NOTHING, work.graph.num_nodes
        judge = PairJudge(work, settings, embedding, pruned)
        keys = numbers(ends[0][given], ends[1][given], n)
        still = Frozen(
            n, keys, (kept / own)[given], ends[:, there], more[there], kept_whole if way == "open" else judge
        )
        trust = measured.support[given] if pruned.learnt is not None else None
        return cls(judge, ends[:, given], trust, still, way)

    def __call__(self, edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """See `Relaxed`."""
        if not (self.way == "turning" and weights.requires_grad):
            return self.still(edges, weights)
        judge, rank = self.judge, self.judge.embedding.spectrum.rank
        spectral = turned(self, edges, weights)
        block = scale(spectral, judge.settings.scaling)
        points = torch.cat([block, judge.embedding.points[:, rank:]], dim=1)
        factors = self.still.factors + _slope(self._factors(points))
        near = _slope(_cosines(points, self.still.added))
        added = self.still.added_weights * (1 + near / _cosines(points.detach(), self.still.added).clamp_min(_SOFT))
        return replace(self.still, factors=factors, added_weights=added)(edges, weights)

    def _factors(self, points: Tensor) -> Tensor:
        """(m0,) a smooth approximation, in the points, of the factor on each edge's weight."""
        judge, edges = self.judge, self.edges
        choice, learnt, around = judge.pruned.choice, judge.pruned.learnt, judge.pruned.around
        if learnt is not None:
            if around is None or around.concentration is None:
                return torch.zeros(edges.shape[1], device=points.device)
            graph, rank = judge.work.on_device, judge.embedding.spectrum.rank
            mean = len(graph.columns) / graph.num_nodes
            seen = looks(edges, (points, points), (graph.counts, graph.counts), judge.shared(edges), rank, mean)
            sums, best = around.sums.to(points), around.best.to(points)[:, 0]
            first, second = sums[edges]
            trust = trust_of(
                around.concentration, judge.settings.caution, learnt.suspicion.log_odds(seen), first, second
            )
            trust = uphold(trust, *best[edges])
            return trust * ((trust - LEAST_TRUST) / _SOFT).sigmoid()
        if choice.doubt is None:
            return torch.zeros(edges.shape[1], device=points.device)
        alike = 2 * (points[edges[0]] * points[edges[1]]).sum(dim=1)
        support = alike + judge.settings.overlap * judge.shared(edges)
        kept = ((support - choice.doubt) / (_SOFT * support.detach().std()).clamp_min(_NEXT_TO_NOTHING)).sigmoid()
        return kept * _cosines(points, edges) if judge.settings.weight == "similarity" else kept


def _slope(value: Tensor) -> Tensor:
    """Zero, with the gradient of a value."""
    return value - value.detach()


def _cosines(points: Tensor, edges: Tensor) -> Tensor:
    unit = scale(points, "unit")
    return (unit[edges[0]] * unit[edges[1]]).sum(dim=1)


class _Turned(torch.autograd.Function):
    r"""V in the forward pass; in the backward pass, how it turns with the weight of each edge.

    With :math:`x_k` the derivative of the loss by :math:`u_k`, taken through the reduced resolvent, and within the
    space of U through the gaps, the loss changes by :math:`\sum_k x_k^\top dA u_k`, and by
    :math:`S_{ij} = s_i s_j M_{ij} + t_i + t_j` with the weight of an edge, where
    :math:`M_{ij} = \sum_k (x_k(i) u_k(j) + x_k(j) u_k(i))`, :math:`s = d^{-1/2}` and
    :math:`t_i = -\frac{1}{2 d_i} \sum_j M_{ij} \hat A_{ij}`.
    """

    @staticmethod
    def forward(ctx: Any, relaxed: RelaxedGarnet, edges: Tensor, weights: Tensor) -> Tensor:
        ctx.relaxed, ctx.edges = relaxed, edges
        return relaxed.judge.embedding.spectrum.embedding.float()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        judge, edges = ctx.relaxed.judge, ctx.edges
        spectrum, graph, settings = judge.embedding.spectrum, judge.work.on_device, judge.settings
        values, vectors = spectrum.values.double(), spectrum.vectors.double()
        # In double precision, as the spectrum is.
        bare = replace(graph, weights=graph.weights.double())
        product = (graph.normalized(settings.tau) if settings.normalize else bare.matrix()).product
        slope = gradient.double() * values.abs().sqrt()
        moved = resolvent(product, values, vectors, slope, tol=_SOLVED, steps=_SOLVER_STEPS)
        gaps = values - values[:, None]
        turns = gaps / (gaps.square() + _LEAST_GAP**2)
        moved = moved + vectors @ (turns * (vectors.T @ slope))
        pairs = inner_products(moved, vectors, edges) + inner_products(vectors, moved, edges)
        if not settings.normalize:
            return None, None, pairs.float()
        root = (graph.degrees + settings.tau).clamp_min(_NEXT_TO_NOTHING).rsqrt()
        sums = (moved * (values * vectors)).sum(dim=1) + (vectors * product(moved)).sum(dim=1)
        drop = -0.5 * root.square() * sums
        first, second = edges
        return None, None, (root[first] * root[second] * pairs + drop[first] + drop[second]).float()


# Torch does not type `apply`.
turned: Callable[[RelaxedGarnet, Tensor, Tensor], Tensor] = _Turned.apply
