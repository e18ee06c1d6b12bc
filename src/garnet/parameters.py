"""What the parameters of GARNET may be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch

from garnet.errors import GraphError, ParameterError
from garnet.features import Features, Scaling
from garnet.spectral import End

if TYPE_CHECKING:
    from garnet.purify import GARNET

Score = Literal["distance", "signed", "distortion"]
GammaUnit = Literal["quantile", "absolute"]
Weight = Literal["auto", "similarity", "score", "one"]

_SEARCHES = ("exact", "cells", "ivf")

_CHOICES: dict[str, tuple[str, ...]] = {
    "end": get_args(End),
    "features": get_args(Features),
    "scaling": get_args(Scaling),
    "score": get_args(Score),
    "gamma_unit": get_args(GammaUnit),
    "weight": get_args(Weight),
}


def require_valid(purifier: GARNET, nodes: int, edges: int) -> None:
    """Refuse, in one sentence, parameters that no graph or not one so large allows; `choose_rank` sees to the rank.

    Raises:
        ParameterError: a parameter lies outside what is allowed.
        GraphError: there is nothing to purify.
    """
    if edges == 0:
        raise GraphError(f"The graph has {nodes} nodes and no edges between them; there is nothing to purify.")
    for name, fine, wanted in _rules(purifier, nodes):
        if not fine:
            got = getattr(purifier, name)
            raise ParameterError(f"The '{name}' parameter of GARNET must be {wanted}. Got {got!r} instead.")


def _rules(p: GARNET, n: int) -> Iterator[tuple[str, bool, str]]:
    """Name, whether it is fine, and what it must be; one at a time, so that a rule may count on those before it."""
    for name, allowed in _CHOICES.items():
        yield name, getattr(p, name) in allowed, "one of " + ", ".join(map(repr, allowed))
    yield "k", p.k is None or (is_whole(p.k) and p.k >= 1), "an integer >= 1"
    yield "k", p.k is None or p.k < n, f"below the number of nodes, {n}"
    yield "gamma", is_number(p.gamma), "a number"
    yield "gamma", p.gamma_unit == "absolute" or 0 <= p.gamma <= 1, "between 0 and 1 as a quantile"
    yield "support", p.support in (None, "auto") or _share(p.support), "between 0 and 1, 'auto' or None"
    yield "overlap", is_number(p.overlap) and 0 <= p.overlap < math.inf, "a number >= 0"
    yield "tau", p.tau == "mean" or (is_number(p.tau) and 0 <= p.tau < math.inf), "a number >= 0 or 'mean'"
    yield "sigma2", is_number(p.sigma2) and p.sigma2 > 0, "positive"
    rank = p.feature_rank
    yield "feature_rank", rank is None or (is_whole(rank) and rank >= 1), "an integer >= 1 or None"
    scale = p.feature_weight
    yield "feature_weight", scale == "auto" or (is_number(scale) and 0 <= scale < math.inf), "a number >= 0 or 'auto'"
    yield "weight", (p.weight, p.score) != ("score", "distance"), "'similarity' or 'one' with score 'distance'"
    yield "solver", p.solver is None or callable(p.solver), "a solver or None"
    search = p.neighbors is None or p.neighbors in _SEARCHES or callable(p.neighbors)
    yield "neighbors", search, f"one of {', '.join(map(repr, _SEARCHES))}, a search or None"
    yield "device", _has_device(p.device), "a device that torch has here"
    yield "seed", is_whole(p.seed) and 0 <= p.seed < 2**63, "an integer from 0 to 2^63 - 1"


def is_whole(value: Any) -> bool:
    """Whether it is an integer, and not a truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a number, and not NaN or a truth value."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and not math.isnan(value)


def _share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def require_rules(owner: Any, rules: Iterable[tuple[str, bool, str]]) -> None:
    """Refuse, in one sentence, the first parameter of an object that breaks its rule.

    Args:
        owner: whose parameters they are.
        rules: name, whether it is fine, and what it must be; one at a time, so that a rule may count on those before.

    Raises:
        ParameterError: a rule is broken.
    """
    for name, fine, wanted in rules:
        if not fine:
            kind, got = type(owner).__name__, getattr(owner, name)
            raise ParameterError(f"The '{name}' parameter of {kind} must be {wanted}. Got {got!r} instead.")


def require_device(name: str, owner: str) -> None:
    """Refuse, in one sentence, a device that torch does not have here.

    Raises:
        ParameterError: there is no such device.
    """
    if not _has_device(name):
        raise ParameterError(
            f"The 'device' parameter of {owner} must be a device that torch has here. Got {name!r} instead."
        )


def require_seeds(seeds: Sequence[int]) -> None:
    """Refuse, in one sentence, what are no seeds.

    Raises:
        ParameterError: there are none, or one is not an integer that torch takes as a seed.
    """
    if not isinstance(seeds, Sequence | range) or not len(seeds):
        raise ParameterError(f"Training needs a list of seeds, at least one, such as (0,). Got {seeds!r} instead.")
    for seed in seeds:
        if not is_whole(seed) or not 0 <= seed < 2**63:
            raise ParameterError(f"A seed must be an integer from 0 to 2^63 - 1. Got {seed!r} instead.")


def _has_device(name: str) -> bool:
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError):
        return False
    return True
