"""What the parameters of GARNET may be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from garnet.errors import GraphError, ParameterError
from garnet.features import Features, Scaling
from garnet.graph import Graph
from garnet.spectral import End

if TYPE_CHECKING:
    from garnet.purify import GARNET

Score = Literal["distance", "signed", "distortion"]
GammaUnit = Literal["quantile", "absolute"]
Weight = Literal["similarity", "score", "one"]

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
    p, n = purifier, graph.num_nodes
    for name, fine, wanted in (
        ("k", p.k is None or (_whole(p.k) and p.k >= 1), "an integer >= 1"),
        ("k", p.k is None or p.k < n, f"below the number of nodes, {n}"),
        ("gamma", _number(p.gamma), "a number"),
        ("gamma", p.gamma_unit == "absolute" or 0 <= p.gamma <= 1, "between 0 and 1 as a quantile"),
        ("support", p.support is None or (_number(p.support) and 0 <= p.support <= 1), "between 0 and 1, or None"),
        ("tau", p.tau == "mean" or (_number(p.tau) and 0 <= p.tau < math.inf), "a number >= 0 or 'mean'"),
        ("sigma2", _number(p.sigma2) and p.sigma2 > 0, "positive"),
        (
            "feature_rank",
            p.feature_rank is None or (_whole(p.feature_rank) and p.feature_rank >= 1),
            "an integer >= 1 or None",
        ),
        ("feature_weight", _number(p.feature_weight) and 0 <= p.feature_weight < math.inf, "a number >= 0"),
        ("weight", (p.weight, p.score) != ("score", "distance"), "'similarity' or 'one' with score 'distance'"),
        *((name, getattr(p, name) in allowed, _one_of(allowed)) for name, allowed in _CHOICES.items()),
        ("device", _has_device(p.device), "a device that torch has here"),
        ("seed", _whole(p.seed), "an integer"),
    ):
        if not fine:
            raise ParameterError(
                f"The '{name}' parameter of GARNET must be {wanted}. Got {getattr(p, name)!r} instead."
            )
    if graph.num_edges == 0:
        raise GraphError(f"The graph has {n} nodes and no edges between them; there is nothing to purify.")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _one_of(names: tuple[str, ...]) -> str:
    return "one of " + ", ".join(map(repr, names))


def _has_device(name: str) -> bool:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError, TypeError):
        return False
    return True
