"""Belief propagation: messages between neighbours about their classes, and how far these are believed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

ROUNDS = 3
_AT_ONCE = 1 << 24  # numbers of messages in memory at a time
_LEAST = 1e-6


def believed(own: Tensor, edges: Tensor, trust: Tensor, ratio: Tensor, strength: Tensor) -> Tensor:
    r"""(S, n, classes) log-probabilities, after some rounds of messages along the edges.

    The message of node i to its neighbour j is :math:`\alpha \log(t b R + 1 - t)`, where b is what i believes without
    the message from j. If all edges are trusted, :math:`\alpha` is one and there are no cycles, these are the marginals
    of the Markov random field with R at its edges, after as many rounds as the longest path has edges.

    Args:
        own: (S, n, classes) log-probabilities of each node on its own.
        edges: (2, m) undirected edges.
        trust: (m,) the probability t that an edge carries information.
        ratio: (S, classes, classes) R, how much more often than by chance an edge joins two classes; symmetric.
        strength: (S,) weight :math:`\alpha` of a message; less than one, as neighbours repeat each other.
    """
    rounds = [own]
    for _ in range(ROUNDS):
        total = own
        for ends, chance in _parts(edges, trust, own.shape[0] * own.shape[2]):
            for way in (ends, ends.flip(0)):
                total = total.index_add(1, way[1], _told(rounds, way, chance, ratio, strength))
        rounds.append(total)
    return rounds[-1].log_softmax(dim=2)


def compatibility(edges: Tensor, trust: Tensor, said: Tensor) -> Tensor:
    """(classes, classes) how much more often than by chance trusted edges join two classes, given (n, classes) `said`.

    One pair of each two classes is added to the observed ones.
    """
    joint = torch.ones(said.shape[1], said.shape[1]).to(said)
    for (first, second), chance in _parts(edges, trust, said.shape[1]):
        seen = (said[first] * chance[:, None]).T @ said[second]
        joint = joint + seen + seen.T
    joint = joint / joint.sum()
    return joint / (joint.sum(dim=1, keepdim=True) * joint.sum(dim=0, keepdim=True))


def message(belief: Tensor, trust: Tensor, ratio: Tensor, strength: Tensor) -> Tensor:
    """(S, m, classes) messages along m edges from nodes with beliefs (m, classes) or (S, m, classes).

    The other arguments are as in `believed`.
    """
    return strength[:, None, None] * (1 + trust[:, None] * (belief @ ratio - 1)).clamp_min(_LEAST).log()


def _told(rounds: Sequence[Tensor], ends: Tensor, trust: Tensor, ratio: Tensor, strength: Tensor) -> Tensor:
    """(S, m, classes) messages from first ends to second ends, after these rounds.

    Messages are not stored: each is recomputed from what both ends believed in the rounds before, so memory grows with
    the nodes and not with the edges.
    """
    told = torch.zeros((), device=trust.device)
    speaker, listener = ends if len(rounds) % 2 else ends.flip(0)
    for total in rounds:
        belief = (total.index_select(1, speaker) - told).softmax(dim=2)
        told = message(belief, trust, ratio, strength)
        speaker, listener = listener, speaker
    return told


def _parts(edges: Tensor, trust: Tensor, width: int) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(_AT_ONCE // max(width, 1), 1)
    return zip(torch.split(edges, size, dim=1), torch.split(trust, size), strict=True)
