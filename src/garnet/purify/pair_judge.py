"""How GARNET would judge any pair of nodes if it were an edge."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from garnet.purify.features import scale
from garnet.purify.joining import Joining
from garnet.purify.memory import GraphInMemory
from garnet.purify.place import Embedding, Pruned
from garnet.purify.settings import Settings
from garnet.purify.suspicion import LEAST_TRUST
from garnet.purify.trust import trust_of, uphold

_AT_ONCE = 1 << 16
"""Pairs judged together: few enough for their points to fit in memory."""
_REMEMBERED = 4
"""Questions whose answers are kept: an attack asks the same of its pairs at every step, and of its flips in between."""


@dataclass(frozen=True, eq=False)
class PairJudge:
    """How GARNET would judge a pair of nodes that is not an edge, all else being equal.

    Writing an edge moves its own endpoints, as in `Joining`. What was learnt from planted edges, and the doubt in other
    edges of its endpoints, stay as they are.

    Attributes:
        work: the graph.
        settings: of the purification.
        embedding: of its nodes.
        pruned: the decisions.
    """

    work: GraphInMemory
    settings: Settings
    embedding: Embedding
    pruned: Pruned
    _known: deque[tuple[str, Tensor, Tensor]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def __call__(self, pairs: Tensor) -> Tensor:
        """(q,) the weights that the model would see if the pairs (2, q) were edges of weight one."""
        if self.pruned.learnt is None:
            return self._remembered("weights", self._weights, pairs)
        trust = self.trust(pairs)
        stays = trust >= LEAST_TRUST
        return torch.where(stays, trust, 0.0) if self.settings.weight == "trust" else stays.float()

    def trust(self, pairs: Tensor) -> Tensor:
        """(q,) how far pairs would be trusted, where planted edges determine it."""
        return self._remembered("trust", self._trust, pairs)

    @torch.no_grad()
    def _remembered(self, name: str, of: Callable[[Tensor], Tensor], pairs: Tensor) -> Tensor:
        """What is found about pairs; remembered if the same pairs come again."""
        for what, asked, found in self._known:
            if what == name and torch.equal(asked, pairs):
                return found
        parts = [of(some) for some in torch.split(pairs, _AT_ONCE, dim=1)]
        found = torch.cat(parts) if parts else torch.zeros(0, device=pairs.device)
        self._known.append((name, pairs, found))
        return found

    def _weights(self, pairs: Tensor) -> Tensor:
        left, right = self.joining.joined(pairs)
        choice = self.pruned.choice
        if choice.doubt is None:
            return torch.zeros(pairs.shape[1], device=pairs.device)
        stays = 2 * (left * right).sum(dim=1) + self.settings.overlap * self.shared(pairs) >= choice.doubt
        if self.settings.weight != "similarity":
            return stays.float()
        alike = (scale(left, "unit") * scale(right, "unit")).sum(dim=1)
        return torch.where(stays, alike.clamp_min(choice.floor), 0.0)

    def _trust(self, pairs: Tensor) -> Tensor:
        learnt, around = self.pruned.learnt, self.pruned.around
        if learnt is None or around is None or around.concentration is None:
            return torch.ones(pairs.shape[1], device=pairs.device)
        odds = learnt.suspicion.log_odds(self.joining.looks_joined(pairs))
        own = torch.stack([odds.sigmoid(), torch.ones_like(odds)], dim=1)
        first, second = (around.sums.to(odds)[ends] + own for ends in pairs)
        trust = trust_of(around.concentration, self.settings.caution, odds, first, second)
        best = around.best.to(trust)[:, 0]
        return uphold(trust, torch.maximum(best[pairs[0]], trust), torch.maximum(best[pairs[1]], trust))

    def shared(self, pairs: Tensor) -> Tensor:
        """Common neighbours, for pairs in any order."""
        return self.joining.shared(pairs)

    @cached_property
    def joining(self) -> Joining:
        """What is observed about pairs."""
        spectrum, settings = self.embedding.spectrum, self.settings
        bare = spectrum.embedding.float()
        return Joining(
            self.work.on_device, self.embedding.points, bare, spectrum.values, settings.scaling, settings.tau
        )
