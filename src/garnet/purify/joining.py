"""What is observed about pairs of nodes, as they are and as if they were joined."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from garnet.graph.edges import numbers
from garnet.linalg.common_neighbors import shared_neighbors
from garnet.linalg.device_graph import Resident
from garnet.purify.features import scale
from garnet.purify.settings import Scaling
from garnet.purify.suspicion import looks

LEAST_VALUE = 1e-3
"""Eigenvalues closer to zero would move endpoints farther than a first-order expansion holds."""


@dataclass(frozen=True, eq=False)
class Joining:
    r"""Pairs of nodes of an embedded graph.

    Writing an edge moves its own endpoints. By :math:`\lambda_k u_k = \hat A u_k`, joining i to s nodes j by edges of
    weight w turns row i, to first order, into

    .. math:: u_k(i) \sqrt{\frac{d_i}{d_i + s w}} + \sum_j \frac{w \, u_k(j)}{\lambda_k \sqrt{(d_i + s w) (d_j + w)}},

    so a made-up edge vouches for itself, the more so the fewer edges its endpoints have.

    Attributes:
        graph: the graph that was embedded.
        points: (n, r + d) the embedding: scaled V, beside the features.
        bare: (n, r) unscaled V.
        values: (r,) eigenvalues.
        scaling: how V was scaled.
        tau: degree regularisation.
        weight: weight of a new edge.
    """

    graph: Resident
    points: Tensor
    bare: Tensor
    values: Tensor
    scaling: Scaling
    tau: float = 0.0
    weight: float = 1.0

    @property
    def rank(self) -> int:
        """Number of spectral coordinates, r."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Mean number of neighbours."""
        return len(self.graph.columns) / self.graph.num_nodes

    @cached_property
    def degrees(self) -> Tensor:
        """(n,) weighted degrees, regularised."""
        return self.graph.degrees.float() + self.tau

    @cached_property
    def pulls(self) -> Tensor:
        """(r,) one over each eigenvalue, with none too close to zero."""
        values = self.values.float()
        return 1 / torch.where(values < 0, values.clamp_max(-LEAST_VALUE), values.clamp_min(LEAST_VALUE))

    @cached_property
    def placed(self) -> Tensor:
        """(n,) which nodes the spectrum says something about."""
        return self.bare.abs().amax(dim=1) > 0

    @cached_property
    def described(self) -> Tensor:
        """(n,) which nodes have features."""
        return self.points[:, self.rank :].abs().sum(dim=1) > 0

    def looks_now(self, pairs: Tensor) -> Tensor:
        """(4, q) what is observed about pairs (2, q) as they are; see `garnet.purify.suspicion.looks`."""
        counts, points = self.graph.counts, self.points
        return looks(pairs, (points, points), (counts, counts), self.shared(pairs), self.rank, self.mean)

    def looks_joined(self, pairs: Tensor) -> Tensor:
        """(4, q) what would be observed about each of the pairs (2, q) if it were joined."""
        counts = self.graph.counts + 1
        rows = torch.arange(pairs.shape[1], device=pairs.device).expand(2, -1)
        of_ends = counts[pairs[0]], counts[pairs[1]]
        return looks(rows, self.joined(pairs), of_ends, self.shared(pairs), self.rank, self.mean)

    def looks(self, pairs: Tensor, there: Tensor) -> Tensor:
        """(4, q) what is observed about pairs (2, q): as they are if `there`, and otherwise as if joined."""
        seen = torch.empty(4, pairs.shape[1])
        for which, look in ((there, self.looks_now), (~there, self.looks_joined)):
            if which.any():
                seen[:, which] = look(pairs[:, which])
        return seen

    def shared(self, pairs: Tensor) -> Tensor:
        """Common neighbours, for pairs in any order."""
        order = numbers(pairs[0], pairs[1], self.graph.num_nodes).argsort()
        shared = torch.empty(pairs.shape[1], device=pairs.device)
        shared[order] = shared_neighbors(self.graph, pairs[:, order])
        return shared

    def joined(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """(q, r + d) the points of both endpoints, moved towards each other by the edge between them."""
        return self.moved(pairs[0], pairs[1, :, None]), self.moved(pairs[1], pairs[0, :, None])

    def moved(self, nodes: Tensor, others: Tensor) -> Tensor:
        """(q, r + d) where nodes (q,) end up when joined to others (q, s); -1 stands for no node."""
        there, others = (others >= 0).float() * self.weight, others.clamp_min(0)
        before = self.degrees[nodes]
        now = before + there.sum(dim=1)
        pull = there * (now[:, None] * (self.degrees[others] + self.weight)).rsqrt()
        rows = self.bare[nodes] * (before / now).sqrt()[:, None]
        rows = rows + (pull[..., None] * self.pulls * self.bare[others]).sum(dim=1)
        return torch.cat([scale(rows, self.scaling), self.points[nodes, self.rank :]], dim=1)
