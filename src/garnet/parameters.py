"""What the parameters of GARNET may be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch

from garnet.errors import GraphError, ParameterError
from garnet.features import Features, Scaling
from garnet.graph import Graph
from garnet.spectral import End

if TYPE_CHECKING:
    from garnet.purify import GARNET

Score = Literal["distance", "signed", "distortion"]
GammaUnit = Literal["quantile", "absolute"]
Weight = Literal["auto", "similarity", "score", "one"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "end": get_args(End),
    "features": get_args(Features),
    "scaling": get_args(Scaling),
    "score": get_args(Score),
    "gamma_unit": get_args(GammaUnit),
    "weight": get_args(Weight),
}


def require_valid(purifier: GARNET, graph: Graph) -> None:
    """Refuse, in one sentence, parameters that no graph or not this one allows; `choose_rank` sees to the rank.

    Raises:
        ParameterError: a parameter lies outside what is allowed.
        GraphError: there is nothing to purify.
    """
    if graph.num_edges == 0:
        raise GraphError(
            f"The graph has {graph.num_nodes} nodes and no edges between them; there is nothing to purify."
        )
    for name, fine, wanted in _rules(purifier, graph.num_nodes):
        if not fine:
            got = getattr(purifier, name)
            raise ParameterError(f"The '{name}' parameter of GARNET must be {wanted}. Got {got!r} instead.")


def _rules(p: GARNET, n: int) -> Iterator[tuple[str, bool, str]]:
    """Name, whether it is fine, and what it must be; one at a time, so that a rule may count on those before it."""
    for name, allowed in _CHOICES.items():
        yield name, getattr(p, name) in allowed, "one of " + ", ".join(map(repr, allowed))
    yield "k", p.k is None or (_whole(p.k) and p.k >= 1), "an integer >= 1"
    yield "k", p.k is None or p.k < n, f"below the number of nodes, {n}"
    yield "gamma", _number(p.gamma), "a number"
    yield "gamma", p.gamma_unit == "absolute" or 0 <= p.gamma <= 1, "between 0 and 1 as a quantile"
    yield "support", p.support in (None, "auto") or _share(p.support), "between 0 and 1, 'auto' or None"
    yield "overlap", _number(p.overlap) and 0 <= p.overlap < math.inf, "a number >= 0"
    yield "tau", p.tau == "mean" or (_number(p.tau) and 0 <= p.tau < math.inf), "a number >= 0 or 'mean'"
    yield "sigma2", _number(p.sigma2) and p.sigma2 > 0, "positive"
    rank = p.feature_rank
    yield "feature_rank", rank is None or (_whole(rank) and rank >= 1), "an integer >= 1 or None"
    scale = p.feature_weight
    yield "feature_weight", scale == "auto" or (_number(scale) and 0 <= scale < math.inf), "a number >= 0 or 'auto'"
    yield "weight", (p.weight, p.score) != ("score", "distance"), "'similarity' or 'one' with score 'distance'"
    yield "solver", p.solver is None or callable(p.solver), "a solver or None"
    yield "neighbors", p.neighbors is None or callable(p.neighbors), "a search or None"
    yield "device", _has_device(p.device), "a device that torch has here"
    yield "seed", _whole(p.seed) and 0 <= p.seed < 2**63, "an integer from 0 to 2^63 - 1"


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and not math.isnan(value)


def _share(value: Any) -> bool:
    return _number(value) and 0 <= value <= 1


def _has_device(name: str) -> bool:
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError):
        return False
    return True
