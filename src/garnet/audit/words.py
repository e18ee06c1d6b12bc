"""What speaks against an edge, in words that need no glossary; each is explained once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

WORDINGS: Mapping[str, str] = {
    "no shared partners": "No node is joined to both ends. Where nodes have many neighbours, two that belong together "
    "usually share some.",
    "few shared partners": "Fewer nodes are joined to both ends than is usual in this graph for ends with that many "
    "neighbours.",
    "many shared partners": "More nodes are joined to both ends than is usual. It speaks against an edge only after "
    "similar edges were refuted.",
    "far apart in the graph": "Without counting this edge much, few short paths join its ends: they lie far apart in "
    "the embedding (spectral_distance), all the more if they have few other edges. This is the reason called "
    "gradient, as the model of the graph would gain most by losing such an edge.",
    "close together in the graph": "Many short paths join its ends. It speaks against an edge only after similar "
    "edges were refuted.",
    "profiles differ": "The features of its ends have less in common than those of most joined nodes "
    "(feature_similarity).",
    "profiles alike": "The features of its ends have more in common than is usual. It speaks against an edge only "
    "after similar edges were refuted.",
    "unlike each other's partners": "Each end has features unlike those of the other's neighbours "
    "(neighborhood_similarity).",
    "like each other's partners": "Each end has features like those of the other's neighbours. It speaks against an "
    "edge only after similar edges were refuted.",
    "probably of two classes": "By the labels of the training nodes, its ends are unlikely to be of one class "
    "(same_class).",
    "probably of one class": "By the labels, its ends are of one class. It speaks against an edge only after similar "
    "edges were refuted.",
    "between nodes of few edges": "In this graph, edges that look made up join nodes with few neighbours, and so does "
    "this one (the reason called degrees).",
    "between nodes of many edges": "In this graph, edges that look made up join hubs, and so does this one (the "
    "reason called degrees).",
    "beside refuted edges": "Other edges of its ends were refuted.",
}
"""What each wording means. A file of an audit knows them by name."""

SENTENCES: Mapping[str, str] = {
    "nothing speaks against it": "No reason counts much against the edge: it is not among the worse edges of this "
    "graph in any respect that matters here.",
    "(not enough to doubt it)": "The reasons given speak against the edge, but all in all it is more likely true than "
    "made up.",
    "it looks like edges that were made up": "It is doubted, though no single reason stands out.",
    "you confirmed it": "It was among the edges given as true.",
    "you refuted it": "It was among the edges given as made up.",
}
"""Other remarks on edges, and what they mean."""

_MOST = 3
_PLACE = {text: place for place, text in enumerate(WORDINGS)}
_LOW_AND_HIGH = {
    "gradient": ("far apart in the graph", "close together in the graph"),
    "shared_neighbors": ("few shared partners", "many shared partners"),
    "feature_similarity": ("profiles differ", "profiles alike"),
    "neighborhood_similarity": ("unlike each other's partners", "like each other's partners"),
    "same_class": ("probably of two classes", "probably of one class"),
    "degrees": ("between nodes of few edges", "between nodes of many edges"),
}
"""The wording against an edge if a reason's value is low, and if it is high."""

_SPEAKS = math.log(2)
"""A reason speaks against an edge from this weight on: that of two edges in three being closer together."""

Words = NDArray[np.int8]
"""(3, m) what speaks against each edge, strongest first: indices into `WORDINGS`, and -1 for no more."""


def against(
    said: Mapping[str, Tensor],
    weights: Mapping[str, float],
    *,
    sharing: NDArray[np.bool_],
    doubted: NDArray[np.bool_],
    beside: Tensor | None = None,
) -> Words:
    """The wordings of what speaks most against each edge.

    A reason is worded if it weighs as much as two edges in three being closer together in the graph; for a doubted
    edge, the strongest is always worded.

    Args:
        said: for each reason, (m,) the log-odds of an edge's rank, as in `garnet.audit.evidence.Reasons`.
        weights: weight of each reason.
        sharing: (m,) whether the ends have a neighbour in common.
        doubted: (m,) whether an edge is more likely made up than not.
        beside: (m,) how much the refuted edges at its ends speak against each, in the units of the sum of reasons.
    """
    counting = [name for name, weight in weights.items() if weight]
    rows = [weights[name] * said[name].double().cpu() for name in counting]
    places = [_PLACE[_LOW_AND_HIGH[name][int(weights[name] < 0)]] for name in counting]
    if beside is not None:
        rows.append(-beside.double().cpu())
        places.append(_PLACE["beside refuted edges"])
    weighed = torch.stack(rows)
    strongest = torch.zeros_like(weighed, dtype=torch.bool).scatter_(0, weighed.argmin(dim=0, keepdim=True), True)
    spoken = (weighed < -_SPEAKS) | (strongest & (weighed < 0) & torch.from_numpy(doubted))
    least, order = weighed.masked_fill(~spoken, math.inf).sort(dim=0, stable=True)
    words = torch.tensor(places, dtype=torch.int8)[order[:_MOST]].masked_fill(torch.isinf(least[:_MOST]), -1).numpy()
    found = np.full((_MOST, words.shape[1]), -1, dtype=np.int8)
    found[: len(words)] = words
    found[(found == _PLACE["few shared partners"]) & ~sharing] = _PLACE["no shared partners"]
    return found


def sentences(words: Words, doubted: NDArray[np.bool_], judged: NDArray[np.int8]) -> NDArray[Any]:
    """What speaks against each edge, (m,) texts: up to three wordings, strongest first.

    Args:
        words: wordings of each edge.
        doubted: which edges are more likely made up than not.
        judged: negative for a confirmed edge, positive for a refuted one.
    """
    base = len(WORDINGS) + 1
    codes = np.where(judged != 0, np.where(judged < 0, 2, 3), doubted).astype(np.int64)
    for row in words:
        codes = codes * base + row + 1
    different, place = np.unique(codes, return_inverse=True)
    # As objects, a few of which all edges share: fixed-width strings would take hundreds of bytes each.
    return np.array([_sentence(int(code), base, len(words)) for code in different], dtype=object)[place]


def _sentence(code: int, base: int, count: int) -> str:
    texts = list(WORDINGS)
    places = []
    for _ in range(count):
        code, place = divmod(code, base)
        places.append(place - 1)
    said = "; ".join(texts[place] for place in reversed(places) if place >= 0)
    if code >= 2:
        return "you confirmed it" if code == 2 else "you refuted it"
    if code:
        return said or "it looks like edges that were made up"
    return f"{said} (not enough to doubt it)" if said else "nothing speaks against it"


def plain(because: NDArray[Any], doubted: NDArray[np.bool_]) -> NDArray[Any]:
    """The words if only the strongest reason of each edge is known, as in files of older versions."""
    names, place = np.unique(because, return_inverse=True)
    said = [_LOW_AND_HIGH.get(name, (name,))[0] for name in names.tolist()]
    both = [f"{text} (not enough to doubt it)" for text in said] + said
    return np.array(both, dtype=object)[place + len(said) * doubted]
