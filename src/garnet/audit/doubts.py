"""From the evidence on edges, and on planted ones, to how suspicious each is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.audit.blocks import why_no_classes
from garnet.audit.evidence import Reasons
from garnet.errors import GraphError
from garnet.graph.graph import Split
from garnet.purify.calibration import Doubt, Evidence, learn


class Learnt(NamedTuple):
    """What was learnt from planted edges.

    Attributes:
        doubt: what the sum of all reasons means.
        weights: weight of each reason, degrees included.
        planted: (f,) how suspicious the planted edges are.
    """

    doubt: Doubt
    weights: Mapping[str, float]
    planted: NDArray[np.float64]

    def suspicion(self, belief: Tensor) -> NDArray[np.float64]:
        """How suspicious edges are, (m,), by the sum of their reasons; not at all if nothing was planted."""
        if not len(self.planted):
            return np.zeros(len(belief))
        found: NDArray[np.float64] = self.doubt.suspicion(belief).cpu().numpy()
        return found


def joined_evidence(parts: Sequence[Evidence]) -> Evidence:
    """The evidence on edges planted into several copies, joined."""
    none = np.zeros(0)
    return Evidence(*(np.concatenate([none, *(getattr(one, part) for one in parts)]) for part in ("belief", "degrees")))


def learnt_from(reasons: Reasons, false: Evidence) -> Learnt:
    """What planted edges teach about a graph.

    Args:
        reasons: those for its edges, or for a sample if there are very many.
        false: evidence on the planted ones.
    """
    if not len(false.belief):
        return Learnt(Doubt(say=0.0, slope=0.0, level=0.0, power=0.5), reasons.weights, np.zeros(0))
    # The more shared neighbours count, the less is left for degrees to explain.
    found = learn(reasons.evidence(), false, most_say=1 / reasons.weights["shared_neighbors"])
    planted = found.suspicion(torch.from_numpy(false.belief + found.say * false.degrees)).numpy()
    return Learnt(found, {**reasons.weights, "degrees": found.say}, planted)


def judged_by(reasons: Reasons, learnt: Learnt) -> tuple[Reasons, NDArray[np.float64]]:
    """The reasons with their new weights, and how suspicious these make the edges, (m,)."""
    weighed = replace(reasons, weights=learnt.weights)
    return weighed, learnt.suspicion(weighed.belief)


def stability(believed: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """The share of its edges that each node can rely on, (n,).

    Args:
        believed: (n,) summed probability that a node's edges are true.
        counts: (n,) number of its edges.
    """
    return np.where(counts > 0, believed / np.maximum(counts, 1), 1.0)


def labels_in_words(
    labels: NDArray[np.int64] | None, split: Split | None, features: int, weights: Mapping[str, float]
) -> str:
    """Whether labels were used, or why not."""
    if why := why_no_classes(labels, split, features):
        return f"Labels were not used: {why}."
    if not weights["same_class"]:
        return "Labels were not used: a linear model of them is no better than chance on the validation nodes."
    train = split.train if split is not None else np.zeros(0, np.int64)
    known = int((labels[train] >= 0).sum()) if labels is not None else 0
    return f"Labels of {known:,} training {'node was' if known == 1 else 'nodes were'} used."


def nothing_to_audit(nodes: int) -> GraphError:
    """The error for a graph without edges."""
    return GraphError(f"The graph has {nodes} nodes and no edges between them; there is nothing to audit.")
