"""From a cell to the graph, the attack and the defence that it names."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from garnet.attacks.base import Attack
from garnet.bench.cell import Cell, is_own_attack, is_own_class, is_own_file, threat
from garnet.bench.own import located, own_class
from garnet.bench.paper import published_model
from garnet.bench.schema import TRAINED
from garnet.datasets import load, poisoned
from garnet.datasets.catalog import require_files, with_split
from garnet.datasets.splits import aimed_at
from garnet.defenses.base import Defense
from garnet.defenses.lookup import equipped, is_purifier, named_defense, named_purifier
from garnet.defenses.purified import Purified
from garnet.errors import GraphError, ParameterError
from garnet.graph.files import load_graph
from garnet.graph.graph import Graph, as_graph
from garnet.graph.perturbation import Perturbation
from garnet.progress import Progress
from garnet.purify.base import Purifier
from garnet.purify.garnet import GARNET
from garnet.registry import ATTACKS, DEFENSES, PURIFIERS, built, field_types

AUTHORS = "garnet-paper"
"""A defence that studies alone have: GARNET as its authors set it for the cell's graph, backbone and attack."""

# Decided by the backbone, the study or the command line, or not something that a file could name.
_NOT_PARAMETERS = ("backbone", "training", "device", "solver", "neighbors")


@dataclass(frozen=True)
class Kind:
    """What a study may say of a defence.

    Attributes:
        purifies: whether it is a purifier, which comes before a backbone.
        takes_backbone: whether it trains a backbone of one's choice.
        takes_training: whether it may be said how it trains.
        parameters: its parameters and their types.
    """

    purifies: bool
    takes_backbone: bool
    takes_training: bool
    parameters: dict[str, Any]


def kind_of(defense: str, folder: str = "") -> Kind:
    """What a study may say of the defence of this name; a class of one's own is looked for in the folder, too."""
    own = _kind(defense, folder)
    purifies = own is not None and issubclass(own, Purifier)
    fitted = field_types(Purified if purifies or own is None else own)
    types = {} if own is None else field_types(own)
    parameters = {name: type_ for name, type_ in types.items() if name not in _NOT_PARAMETERS}
    return Kind(purifies, "backbone" in fitted, "training" in fitted, parameters)


def _kind(defense: str, folder: str) -> type | None:
    """The class of a defence or a purifier; None for no defence."""
    if is_own_class(defense):
        return own_class(defense, (Defense, Purifier), "defence", folder)
    name = "garnet" if defense == AUTHORS else defense
    if name == "none":
        return None
    kind: type = PURIFIERS.get(name) if is_purifier(name) else DEFENSES.get(name)
    return kind


def attack_kind(attack: str, folder: str = "") -> type[Attack]:
    """The class of an attack that a study has made, by its name or as `module:Class`.

    Raises:
        ParameterError: there is none, or it aims at single nodes, which a study does not name.
    """
    kind = own_class(attack, (Attack,), "attack", folder) if is_own_class(attack) else ATTACKS.get(attack)
    if getattr(kind, "scope", "") == "local":
        raise ParameterError(
            f"The attack {attack} aims at single nodes, which a study does not name; make it with 'garnet attack', and "
            "give the study its file."
        )
    found: type[Attack] = kind
    return found


def require_graphs(cell: Cell) -> None:
    """Refuse a cell whose graph, or what an attack made of it, is not here; nothing large is read.

    Raises:
        GraphError: a file is nowhere to be found.
    """
    if is_own_attack(cell.attack) and not os.path.exists(located(cell.attack, cell.folder)):  # noqa: PTH110 - long names
        raise GraphError(
            f"There is no perturbation {cell.attack}, neither beside the study nor in the current folder; "
            "'garnet attack' makes some."
        )
    if not is_own_file(cell.graph):
        made = cell.made or is_own_attack(cell.attack)
        require_files(cell.graph, attack="none" if made else cell.attack, budget=cell.budget or 0.0, split=cell.split)
    elif not os.path.exists(located(cell.graph, cell.folder)):  # noqa: PTH110 - as above
        raise GraphError(f"There is no graph {cell.graph}, neither beside the study nor in the current folder.")


def build_graphs(
    cell: Cell, defense: Any = None, device: str = "cpu", progress: Progress | None = None
) -> tuple[Graph, Graph]:
    """The graph of a cell, attacked if the cell says so, and the clean graph.

    Args:
        cell: the cell.
        defense: of the cell, for an attack that knows it.
        device: where an attack that is made here computes.
        progress: told how far such an attack is.
    """
    clean = _clean(cell)
    if cell.attack == "none":
        return clean, clean
    if is_own_attack(cell.attack):
        changes = Perturbation.load(located(cell.attack, cell.folder))
        parts = aimed_at(clean.split, changes.targets) if len(changes.targets) else clean.split
        return as_graph(changes.apply(clean), split=parts), clean
    if cell.made:
        attack = build_attack(cell, defense, device)
        split = None if clean.split is None else clean.split.fingerprint
        known = json.dumps(attack.parameters)
        return _made(_Attacked(cell.attack, cell.made, known, clean.fingerprint, split, attack, clean, progress)), clean
    return poisoned(cell.graph, attack=cell.attack, budget=cell.budget or 0.0, split=cell.split), clean


def _clean(cell: Cell) -> Graph:
    if not is_own_file(cell.graph):
        return load(cell.graph, split=cell.split)
    graph = load_graph(located(cell.graph, cell.folder))
    if cell.split is None and graph.split is None and cell.measure in TRAINED:
        raise GraphError(f"The graph {cell.graph} has no split; draw one with split = 'random-0.1-0.1' in the study.")
    return with_split(graph, cell.graph, cell.split)


def build_attack(cell: Cell, defense: Any, device: str) -> Attack:
    """The attack that is made for a cell; one that knows the defence is given that of the cell."""
    kind = attack_kind(cell.attack, cell.folder)
    known = field_types(kind)
    if "defense" in known and not isinstance(defense, Defense):
        raise ParameterError(f"The attack {cell.attack} knows the defence, and the measure {cell.measure} trains none.")
    given = {"defense": defense} if "defense" in known else {}
    given |= {"device": device} if "device" in known else {}
    attack: Attack = built(kind, f"attack {cell.attack!r}", given)
    return attack


@dataclass(frozen=True)
class _Attacked:
    """An attack on a graph; equal where what it makes would be."""

    attack: str
    budget: str
    parameters: str
    graph: str
    split: str | None
    made_by: Attack = field(compare=False)
    clean: Graph = field(compare=False)
    progress: Progress | None = field(compare=False)


@lru_cache(maxsize=2)
def _made(wanted: _Attacked) -> Graph:
    """The attacked graph; cells that come one after another and differ in the defence alone share it."""
    changes = wanted.made_by(wanted.clean, budget=wanted.budget, progress=wanted.progress)
    return as_graph(changes.apply(wanted.clean), split=wanted.clean.split)


def build(cell: Cell, device: str) -> Any:
    """What a cell measures: its defence, ready to be fitted, or its purifier, None if it has none."""
    return _defense(cell, device) if cell.measure in TRAINED else _purifier(cell)


def _purifier(cell: Cell) -> Any:
    parameters: dict[str, Any] = dict(cell.parameters)
    if cell.defense == "none":
        return None
    if cell.defense == AUTHORS:
        attack, budget = _as_published(cell)
        authors = GARNET.paper(cell.graph, str(cell.backbone), attack=attack, budget=budget)
        return replace(authors, **parameters)
    if is_own_class(cell.defense):
        return built(_kind(cell.defense, cell.folder), f"defence {cell.defense!r}", parameters)
    return named_purifier(cell.defense, parameters)


def _defense(cell: Cell, device: str) -> Any:
    backbone: Any = cell.backbone if cell.model else None
    training: Any = dict(cell.training)
    if cell.model == "paper":
        # The baselines of the paper use DeepRobust's plain model.
        defended = cell.defense == "tsvd" or (kind_of(cell.defense, cell.folder).purifies and cell.defense != "jaccard")
        backbone, published = published_model(cell.graph, str(cell.backbone), *_as_published(cell), defended=defended)
        training = replace(published, **training)
    if cell.defense == AUTHORS:
        defense: Any = named_defense("none", backbone=backbone, training=training, device=device)
        return replace(defense, purifier=_purifier(cell))
    if is_own_class(cell.defense):
        own = _purifier(cell)
        fitted: Any = Purified(own) if isinstance(own, Purifier) else own
        return equipped(fitted, backbone=backbone, training=training, device=device)
    return named_defense(
        cell.defense, backbone=backbone, training=training, device=device, parameters=dict(cell.parameters)
    )


def _as_published(cell: Cell) -> tuple[str, float]:
    """The attack and budget whose published parameters apply to a cell: Nettack has its own, all others Metattack's."""
    attack, budget = threat(cell.facts())
    return "nettack" if attack == "nettack" else "metattack", budget
