"""From a cell to the graph and the defence that it names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from garnet.datasets import load, poisoned
from garnet.datasets.splits import aimed_at
from garnet.defenses import lookup
from garnet.graph.graph import Graph, as_graph
from garnet.graph.perturbation import Perturbation
from garnet.registry import DEFENSES, PURIFIERS, field_types

if TYPE_CHECKING:
    from garnet.bench.study import Cell

# What the backbone, the study and the command line decide, and what has no name in a file.
_NOT_PARAMETERS = ("backbone", "training", "device", "solver", "neighbors")


def defense_names() -> tuple[str, ...]:
    """All that a cell may name as its defence."""
    return (*lookup.defense_names(), "garnet-paper")


def is_purifier(defense: str) -> bool:
    """Whether the defence is a purifier before a model."""
    return lookup.is_purifier(_own_name(defense))


def takes_backbone(defense: str) -> bool:
    """Whether the defence trains a backbone of one's choice."""
    return lookup.takes_backbone(_own_name(defense))


def takes_training(defense: str) -> bool:
    """Whether a cell may say how the defence trains."""
    return lookup.takes_training(_own_name(defense))


def parameter_fields(defense: str) -> dict[str, str]:
    """The parameters of a defence and their types."""
    if defense == "none":
        return {}
    kind = PURIFIERS.get(_own_name(defense)) if is_purifier(defense) else DEFENSES.get(defense)
    return {name: type_ for name, type_ in field_types(kind).items() if name not in _NOT_PARAMETERS}


def build_graphs(cell: Cell) -> tuple[Graph, Graph]:
    """The graph of a cell, and the same one clean."""
    clean = load(cell.graph, split=cell.split)
    if cell.attack == "none":
        return clean, clean
    if cell.attack.endswith(".npz"):
        made = Perturbation.load(cell.attack)
        parts = aimed_at(clean.split, made.targets) if len(made.targets) else clean.split
        return as_graph(made.apply(clean), split=parts), clean
    return poisoned(cell.graph, attack=cell.attack, budget=_budget(cell), split=cell.split), clean


def build_purifier(cell: Cell, device: str) -> Any:
    """The purifier of a cell; None if its defence is `none`."""
    parameters: dict[str, Any] = dict(cell.parameters)
    if cell.defense == "none":
        return None
    if cell.defense == "garnet-paper":
        from garnet.purify.garnet import GARNET

        attack, budget = _as_published(cell)
        authors = GARNET.paper(cell.graph, str(cell.backbone), attack=attack, budget=budget)
        return replace(authors, device=device, **parameters)
    return lookup.named_purifier(cell.defense, parameters, device)


def build_defense(cell: Cell, device: str) -> Any:
    """The defence of a cell, ready to be fitted."""
    backbone: Any = cell.backbone if cell.model else None
    training: Any = dict(cell.training)
    if cell.model == "paper":
        backbone, published = _published_model(cell)
        training = replace(published, **training)
    if cell.defense == "garnet-paper":
        defense: Any = lookup.named_defense("none", backbone=backbone, training=training, device=device)
        return replace(defense, purifier=build_purifier(cell, device))
    return lookup.named_defense(
        cell.defense, backbone=backbone, training=training, device=device, parameters=dict(cell.parameters)
    )


def _published_model(cell: Cell) -> tuple[Any, Any]:
    """The authors' backbone and its training. What they compare with has the plain model of DeepRobust."""
    from garnet.purify.paper import published_model

    defended = cell.defense == "tsvd" or (is_purifier(cell.defense) and cell.defense != "jaccard")
    return published_model(cell.graph, str(cell.backbone), *_as_published(cell), defended=defended)


def _as_published(cell: Cell) -> tuple[str, float]:
    """The attack and budget whose published parameters a cell takes: those of Metattack, but for Nettack."""
    from garnet.bench.study import threat

    attack, budget = threat(cell.facts())
    return "nettack" if attack == "nettack" else "metattack", budget


def _budget(cell: Cell) -> float:
    return 0.0 if cell.budget is None else cell.budget


def _own_name(defense: str) -> str:
    return "garnet" if defense == "garnet-paper" else defense
