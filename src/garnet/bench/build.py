"""From a cell to the graph and the defence that it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from garnet.bench.cell import Cell, is_own_attack, threat
from garnet.bench.paper import published_model
from garnet.bench.schema import TRAINED
from garnet.datasets import load, poisoned
from garnet.datasets.splits import aimed_at
from garnet.defenses.lookup import is_purifier, named_defense, named_purifier
from garnet.graph.graph import Graph, as_graph
from garnet.graph.perturbation import Perturbation
from garnet.purify.garnet import GARNET
from garnet.registry import DEFENSES, PURIFIERS, field_types

AUTHORS = "garnet-paper"
"""A defence that studies alone have: GARNET as its authors set it for the cell's graph, backbone and attack."""

# Decided by the backbone, the study or the command line, or not something that a file could name.
_NOT_PARAMETERS = ("backbone", "training", "device", "solver", "neighbors")


def registered(defense: str) -> str:
    """The name that the registry has for the defence of a cell."""
    return "garnet" if defense == AUTHORS else defense


def parameter_types(defense: str) -> dict[str, Any]:
    """The parameters of a defence and their types."""
    if defense == "none":
        return {}
    name = registered(defense)
    kind = PURIFIERS.get(name) if is_purifier(name) else DEFENSES.get(name)
    return {name: type_ for name, type_ in field_types(kind).items() if name not in _NOT_PARAMETERS}


def build_graphs(cell: Cell) -> tuple[Graph, Graph]:
    """The graph of a cell, attacked if the cell says so, and the clean graph."""
    clean = load(cell.graph, split=cell.split)
    if cell.attack == "none":
        return clean, clean
    if is_own_attack(cell.attack):
        made = Perturbation.load(cell.attack)
        parts = aimed_at(clean.split, made.targets) if len(made.targets) else clean.split
        return as_graph(made.apply(clean), split=parts), clean
    return poisoned(cell.graph, attack=cell.attack, budget=cell.budget or 0.0, split=cell.split), clean


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
    return named_purifier(cell.defense, parameters)


def _defense(cell: Cell, device: str) -> Any:
    backbone: Any = cell.backbone if cell.model else None
    training: Any = dict(cell.training)
    if cell.model == "paper":
        # The baselines of the paper use DeepRobust's plain model.
        defended = cell.defense == "tsvd" or (is_purifier(registered(cell.defense)) and cell.defense != "jaccard")
        backbone, published = published_model(cell.graph, str(cell.backbone), *_as_published(cell), defended=defended)
        training = replace(published, **training)
    if cell.defense == AUTHORS:
        defense: Any = named_defense("none", backbone=backbone, training=training, device=device)
        return replace(defense, purifier=_purifier(cell))
    return named_defense(
        cell.defense, backbone=backbone, training=training, device=device, parameters=dict(cell.parameters)
    )


def _as_published(cell: Cell) -> tuple[str, float]:
    """The attack and budget whose published parameters apply to a cell: Nettack has its own, all others Metattack's."""
    attack, budget = threat(cell.facts())
    return "nettack" if attack == "nettack" else "metattack", budget
