"""Which member decided, if several models give one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from garnet.backbones.base import Parameters


@dataclass(frozen=True, eq=False)
class Votes:
    """How several models, the members of a committee, came to one answer.

    It is small enough for a predictor to keep: some ten bytes per member and node.

    Attributes:
        members: their names.
        weights: (members,) weight of each where no edge is doubted.
        say: (members, n) weight of each at a node; these add up to one.
        doubt: (members, n) share of a member's input at a node that is probably made up.
        predictions: (members, n) the class each would have chosen.
        decided: (n,) index of the member that contributed most to the chosen class.
        strength: weight of the edges, from 0 to 1, if beliefs taught by the members gave the answer
        (`garnet.defenses.beliefs`); None if the members themselves did.
    """

    members: tuple[str, ...]
    weights: NDArray[np.float64]
    say: NDArray[np.float32]
    doubt: NDArray[np.float32]
    predictions: NDArray[np.int16]
    decided: NDArray[np.int16]
    strength: float | None = None

    @classmethod
    def of(
        cls, members: Sequence[str], weights: Tensor, *, said: Tensor, say: Tensor, doubt: Tensor, chosen: Tensor
    ) -> Self:
        """The votes behind an answer.

        Args:
            members: their names.
            weights: (members,) logarithms, up to a constant.
            said: (members, n, classes) log-probabilities.
            say: (members, n) logarithms.
            doubt: (members, n) shares.
            chosen: (n,) the classes that they chose together.
        """
        spoke = say + said.gather(2, chosen.expand(len(said), -1)[..., None])[..., 0]
        return cls(
            members=tuple(members),
            weights=weights.double().softmax(dim=0).cpu().numpy(),
            say=say.exp().cpu().numpy(),
            doubt=doubt.cpu().numpy(),
            predictions=said.argmax(dim=2).short().cpu().numpy(),
            decided=spoke.argmax(dim=0).short().cpu().numpy(),
        )

    @property
    def decided_shares(self) -> NDArray[np.float64]:
        """(members,) share of the nodes at which each decided."""
        return np.bincount(self.decided, minlength=len(self.members)) / max(len(self.decided), 1)

    def disagreement(self, chosen: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """(n,) total weight of the members that would have chosen another class than `chosen`, (n,)."""
        return np.asarray(np.where(self.predictions == chosen, 0, self.say).sum(axis=0), dtype=np.float32)


@runtime_checkable
class Voting(Protocol):
    """A backbone of several models, which can say which of them decided."""

    def decide(self, parameters: Parameters, inputs: Any) -> tuple[Tensor, Votes]:
        """(n, classes) logits of one such backbone, S = 1, in evaluation, and how its members arrived at them."""
        ...
