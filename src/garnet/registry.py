"""Backbones, purifiers, defences, attacks and graphs by name: the library's own and those of other packages."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_type_hints

from garnet.errors import ParameterError, brief


class Registry:
    """Names of one kind of thing, each imported only when it is asked for.

    A package adds to it with an entry point, in its own `pyproject.toml`:

        [project.entry-points."garnet.defenses"]
        mine = "my_package.defense:Mine"
    """

    def __init__(self, what: str, group: str, builtin: Mapping[str, str]) -> None:
        self._what, self._group, self._builtin = what, group, builtin

    def names(self) -> tuple[str, ...]:
        """All names, the library's own first."""
        others = sorted(point.name for point in _brought(self._group, tuple(sys.path)))
        return tuple(dict.fromkeys([*self._builtin, *others]))

    def get(self, name: str) -> Any:
        """The class, or function, of this name."""
        name = known_name(name, self.names(), self._what)
        if name in self._builtin:
            module, _, attribute = self._builtin[name].partition(":")
            return getattr(import_module(module), attribute)
        point = next(point for point in _brought(self._group, tuple(sys.path)) if point.name == name)
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise ParameterError(f"The {self._what} {name!r}, {point.value}, cannot be imported ({error}).") from error

    def build(self, name: str, parameters: Mapping[str, Any]) -> Any:
        """An object of this name with these parameters."""
        return built(self.get(name), f"{self._what} {name!r}", parameters)

    def name_of(self, kind: type) -> str | None:
        """The library's own name of a class."""
        path = f"{kind.__module__}:{kind.__qualname__}"
        return next((name for name, other in self._builtin.items() if other == path), None)


def built(kind: Any, what: str, parameters: Mapping[str, Any]) -> Any:
    """An object of a class with these parameters; one that the class does not know is refused by name."""
    signature = inspect.signature(kind)
    if not any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values()):
        for parameter in parameters:
            known_name(parameter, signature.parameters, f"parameter of {what}", exact=True)
    try:
        signature.bind(**parameters)
    except TypeError as error:
        raise ParameterError(f"The {what} cannot be built: {error}.") from error
    return kind(**parameters)


@cache
def _brought(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """What packages on this path provide; looking into all of them takes a while, so it is done once."""
    return tuple(entry_points(group=group))


def field_types(kind: Any) -> dict[str, Any]:
    """Names and types of what the constructor of a dataclass takes; nothing for other classes."""
    if not is_dataclass(kind):
        return {}
    try:
        types = get_type_hints(kind)
    except (NameError, AttributeError, TypeError):  # an annotation names what only a type checker imports
        types = {}
    return {field.name: types.get(field.name, Any) for field in fields(kind) if field.init}


def known_name(name: str, known: Iterable[str], what: str, *, exact: bool = False) -> str:
    """The name as the known ones spell it; if there is none, an error that suggests the nearest.

    Args:
        name: as written by the user; capitals and `_` for `-` are fine unless `exact`.
        known: the known names.
        what: the kind of thing they name, in words.
        exact: whether the spelling counts.
    """
    known = tuple(known)
    near: list[str] = []
    if issubclass(type(name), str):
        if name in known:
            return name
        wanted = name if exact else name.lower().replace("_", "-")
        if wanted in known:
            return wanted
        near = difflib.get_close_matches(wanted[:100], known, n=3, cutoff=0.6)
    guess = f"Did you mean {' or '.join(near)}?" if near else f"Choose one of {', '.join(known) or 'none'}."
    raise ParameterError(f"There is no {what} named {brief(name)}. {guess}")


BACKBONES = Registry(
    "backbone",
    "garnet.backbones",
    {
        "gcn": "garnet.backbones.gcn:GCN",
        "gprgnn": "garnet.backbones.gprgnn:GPRGNN",
        "h2gcn": "garnet.backbones.h2gcn:H2GCN",
        "linkx": "garnet.backbones.linkx:LINKX",
        "mlp": "garnet.backbones.mlp:MLP",
        "linear-gcn": "garnet.backbones.linear_gcn:LinearGCN",
        # Defences that are models, so a purifier may come before them.
        "gnnguard": "garnet.defenses.gnnguard:GNNGuard",
        "lfr": "garnet.defenses.lfr:LFR",
        "soft-median-gdc": "garnet.defenses.soft_median_gdc:SoftMedianGDC",
        "rsgnn": "garnet.defenses.rsgnn:RSGNN",
        "elastic-gnn": "garnet.defenses.elastic_gnn:ElasticGNN",
        "rung": "garnet.defenses.rung:RUNG",
        "simp-gcn": "garnet.defenses.simp_gcn:SimPGCN",
        "rgcn": "garnet.defenses.rgcn:RGCN",
        "committee": "garnet.defenses.committee:Committee",
    },
)
PURIFIERS = Registry(
    "purifier",
    "garnet.purifiers",
    {
        "garnet": "garnet.purify.garnet:GARNET",
        "jaccard": "garnet.defenses.jaccard:Jaccard",
        "feature-knn": "garnet.defenses.feature_knn:FeatureKNN",
        "audited": "garnet.defenses.audited:Audited",
    },
)
DEFENSES = Registry(
    "defence",
    "garnet.defenses",
    {
        "committee": "garnet.defenses.committee:Committee",
        "tsvd": "garnet.defenses.tsvd:TSVD",
        "gnnguard": "garnet.defenses.gnnguard:GNNGuard",
        "prognn": "garnet.defenses.prognn:ProGNN",
        "lfr": "garnet.defenses.lfr:LFR",
        "soft-median-gdc": "garnet.defenses.soft_median_gdc:SoftMedianGDC",
        "rsgnn": "garnet.defenses.rsgnn:RSGNN",
        "elastic-gnn": "garnet.defenses.elastic_gnn:ElasticGNN",
        "rung": "garnet.defenses.rung:RUNG",
        "simp-gcn": "garnet.defenses.simp_gcn:SimPGCN",
        "rgcn": "garnet.defenses.rgcn:RGCN",
        "adversarial-training": "garnet.defenses.adversarial_training:AdversarialTraining",
        "linear-floor": "garnet.defenses.linear_floor:LinearFloor",
    },
)
ATTACKS = Registry(
    "attack",
    "garnet.attacks",
    {
        "random": "garnet.attacks.random:Random",
        "dice": "garnet.attacks.dice:DICE",
        "metattack": "garnet.attacks.metattack:Metattack",
        "adaptive-metattack": "garnet.attacks.adaptive_metattack:AdaptiveMetattack",
        "lowblow": "garnet.attacks.lowblow:LowBlow",
        "nettack": "garnet.attacks.nettack:Nettack",
        "prbcd": "garnet.attacks.bcd:PRBCD",
        "grbcd": "garnet.attacks.bcd:GRBCD",
        "pgd": "garnet.attacks.pgd:PGD",
        "min-max": "garnet.attacks.pgd:MinMax",
        "sga": "garnet.attacks.sga:SGA",
        "adaptive-evasion": "garnet.attacks.adaptive_evasion:AdaptiveEvasion",
        "feature-flip": "garnet.attacks.features:FeatureFlip",
        "feature-pgd": "garnet.attacks.features:FeaturePGD",
        "adaptive-features": "garnet.attacks.adaptive_features:AdaptiveFeatures",
        "false-neighbors": "garnet.attacks.false_neighbors:FalseNeighbors",
        "adaptive-search": "garnet.attacks.adaptive_search:AdaptiveSearch",
        "query-search": "garnet.attacks.query_search:QuerySearch",
        "poisoning-search": "garnet.attacks.poisoning_search:PoisoningSearch",
    },
)
DATASETS = Registry("graph", "garnet.datasets", {})
"""Functions that return a graph, from other packages only: the library's own are in `garnet.datasets.catalog`."""


def defense_named(name: str) -> Any:
    """A defence of this name with its own parameters; the defences are imported only when one is asked for."""
    return import_module("garnet.defenses.lookup").named_defense(name)
