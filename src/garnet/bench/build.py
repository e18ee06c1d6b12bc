"""From a cell to the graph and the defence that it names."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from garnet.datasets import load, poisoned
from garnet.datasets.splits import aimed_at
from garnet.errors import ParameterError
from garnet.graph import Graph, as_graph
from garnet.perturbation import Perturbation
from garnet.registry import BACKBONES, DEFENSES, PURIFIERS

if TYPE_CHECKING:
    from garnet.bench.study import Cell

# What the backbone, the study and the command line decide, and what has no name in a file.
_NOT_PARAMETERS = ("backbone", "training", "device", "solver", "neighbors")


def defense_names() -> tuple[str, ...]:
    """All that a cell may name as its defence."""
    return ("none", "garnet-paper", *PURIFIERS.names(), *DEFENSES.names())


def is_purifier(defense: str) -> bool:
    """Whether the defence is a purifier before a model."""
    return defense == "garnet-paper" or defense in PURIFIERS.names()


def takes_backbone(defense: str) -> bool:
    """Whether the defence trains a backbone of one's choice."""
    return defense == "none" or is_purifier(defense) or "backbone" in _fields(DEFENSES.get(defense))


def parameter_fields(defense: str) -> dict[str, str]:
    """The parameters of a defence and their types."""
    if defense == "none":
        return {}
    kind = PURIFIERS.get(_purifier_name(defense)) if is_purifier(defense) else DEFENSES.get(defense)
    return {name: type_ for name, type_ in _fields(kind).items() if name not in _NOT_PARAMETERS}


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
        from garnet.purify import GARNET

        attack, budget = _as_published(cell)
        authors = GARNET.paper(cell.graph, str(cell.backbone), attack=attack, budget=budget)
        return replace(authors, device=device, **parameters)
    kind = PURIFIERS.get(cell.defense)
    return PURIFIERS.build(cell.defense, parameters | ({"device": device} if "device" in _fields(kind) else {}))


def build_defense(cell: Cell, device: str) -> Any:
    """The defence of a cell, ready to be fitted."""
    from garnet.defenses import Purified

    if cell.defense == "none" or is_purifier(cell.defense):
        backbone, training = _model(cell)
        return Purified(build_purifier(cell, device), backbone, training, device)
    surroundings: dict[str, Any] = {"device": device}
    if cell.backbone is not None:
        backbone, training = _model(cell)
        surroundings |= {"backbone": backbone, "training": training}
    known = _fields(DEFENSES.get(cell.defense))
    given = {name: value for name, value in surroundings.items() if name in known}
    return DEFENSES.build(cell.defense, dict(cell.parameters) | given)


def _model(cell: Cell) -> tuple[Any, Any]:
    """The backbone and its training."""
    from garnet.training import Training

    if cell.backbone is None:
        raise ParameterError(f"The defence {cell.defense!r} needs a backbone, and the cell has none.")
    if cell.model == "paper":
        from garnet.presets import published_model

        defended = cell.defense != "none"
        backbone, training = published_model(cell.graph, cell.backbone, *_as_published(cell), defended=defended)
    else:
        backbone = BACKBONES.build(cell.backbone, {})
        training = getattr(backbone, "training", Training())
    return backbone, replace(training, **dict(cell.training))


def _as_published(cell: Cell) -> tuple[str, float]:
    """The attack and budget whose published parameters a cell takes: those of Metattack, but for Nettack."""
    from garnet.bench.study import threat

    attack, budget = threat(cell.facts())
    return "nettack" if attack == "nettack" else "metattack", budget


def _budget(cell: Cell) -> float:
    return 0.0 if cell.budget is None else cell.budget


def _purifier_name(defense: str) -> str:
    return "garnet" if defense == "garnet-paper" else defense


def _fields(kind: Any) -> dict[str, str]:
    return {field.name: str(field.type) for field in fields(kind) if field.init} if is_dataclass(kind) else {}
