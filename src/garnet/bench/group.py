"""A group of cells of a study: the product of its lists."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import product
from types import NoneType
from typing import Any, get_args, get_origin

from garnet.bench.build import AUTHORS, Kind, attack_kind, kind_of
from garnet.bench.cell import Cell, Pairs, Value, is_own_attack, is_own_class, is_own_file, names_its_budget
from garnet.bench.own import content_of
from garnet.bench.schema import LONGEST_NAME, MEASURES, TRAINED, check_cell
from garnet.datasets import names
from garnet.datasets.unit_test_file import parse_attack
from garnet.defenses.lookup import defense_names
from garnet.errors import ParameterError, brief
from garnet.graph.budget import Budget
from garnet.parameters import is_number
from garnet.registry import ATTACKS, BACKBONES, field_types, known_name
from garnet.training.loop import Training

Choices = list[list[tuple[str, Value]]]
"""Of each parameter the values to try, each with its name."""

PUBLISHED = ("none", "metattack", "nettack")
MODELS = ("default", "paper")

_MOST_NAMES = 1_000
_NOT_KEYS = ("seeds", "made", "content", "folder")
_CELL_KEYS = tuple(field.name for field in fields(Cell) if field.name not in _NOT_KEYS)


def cells_of(group: Mapping[str, Any], seeds: tuple[int, ...], folder: str = "") -> Iterator[Cell]:
    """The cells of a group, one for each choice from all of its lists.

    Args:
        group: from the file of a study.
        seeds: of the study.
        folder: where files and modules of one's own are looked for first.

    Raises:
        ParameterError: something in the group is not known; the message names it.
    """
    known_keys(group, _CELL_KEYS, "key of a group of cells")
    for name in ("graph", "defense"):
        if name not in group:
            raise ParameterError(f"A group of cells lacks {name!r}; name one or a list of them.")
    graphs = dict(_graph(name, folder) for name in _listed(group, "graph"))
    attacks = [_attack(name) for name in _listed(group, "attack", "none")]
    defenses = [_defense(name) for name in _listed(group, "defense")]
    kinds = {defense: kind_of(defense, folder) for defense in defenses}
    measures = _named(group, "measure", MEASURES, default="accuracy")
    models = _named(group, "model", MODELS, default="default")
    backbones: list[str] | list[None] = [None]
    if "backbone" in group:
        backbones = _named(group, "backbone", BACKBONES.names())
    splits = [_split(name) for name in _listed(group, "split", None)]
    budgets = _budgets(group, attacks, graphs, folder)
    training = _training(group.get("training", {}))
    sweeps = {defense: _sweep(group.get("parameters", {}), defense, kinds[defense]) for defense in kinds}
    for graph, split, measure, attack, (budget, made), backbone, defense, model in product(
        graphs, splits, measures, attacks, budgets, backbones, kinds, models
    ):
        trains, needed = _needs(measure, defense, kinds[defense])
        if needed and backbone is None:
            raise ParameterError(f"A group of cells with the defence {defense!r} lacks 'backbone'; name one or more.")
        for parameters in product(*sweeps[defense]):
            cell = Cell(
                graph=graph,
                attack=attack,
                budget=budget,
                defense=defense,
                backbone=backbone if needed else None,
                model=model if trains else None,
                split=split if measure in TRAINED else None,
                measure=measure,
                parameters=parameters,
                training=training if measure in TRAINED and kinds[defense].takes_training else (),
                seeds=seeds if measure in TRAINED else (),
                made=made,
                content=graphs[graph],
                folder=folder,
            )
            try:
                check_cell(cell.facts())
            except ValueError as error:
                raise ParameterError(f"A cell is not possible: {error}.") from None
            yield cell


def _needs(measure: str, defense: str, kind: Kind) -> tuple[bool, bool]:
    """Whether a cell trains a backbone, and whether it needs the name of one."""
    if measure == "rank" and defense != "none":
        raise ParameterError(f"The measure 'rank' is of the graph itself, with the defence 'none'. Got {defense!r}.")
    if measure in ("homophily", "recovery") and defense != "none" and not kind.purifies:
        raise ParameterError(f"The measure {measure!r} needs a purifier, and the defence {defense!r} is none.")
    trains = measure in TRAINED and kind.takes_backbone
    return trains, trains or defense == AUTHORS


def known_keys(table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    """Refuse a table of a study that has a key nobody knows."""
    for key in table:
        known_name(key, known, what, exact=True)


def _listed(group: Mapping[str, Any], name: str, default: Any = ()) -> list[Any]:
    value = group.get(name, default)
    if value == []:
        raise ParameterError(f"The list {name!r} of a group of cells is empty; name at least one, or leave it out.")
    if isinstance(value, list) and len(value) > _MOST_NAMES:
        raise ParameterError(f"The list {name!r} of a group of cells has {len(value):,} entries, over {_MOST_NAMES:,}.")
    return value if isinstance(value, list) else [value]


def _named(
    group: Mapping[str, Any], name: str, known: tuple[str, ...], what: str | None = None, default: Any = ()
) -> list[str]:
    return list(dict.fromkeys(known_name(one, known, what or name) for one in _listed(group, name, default)))


def _graph(name: Any, folder: str) -> tuple[str, str]:
    """A graph by its name or file, and what is in that file."""
    if isinstance(name, str) and is_own_file(name) and len(name) <= LONGEST_NAME:
        return name, content_of(name, folder)
    return known_name(name, names(), "graph"), ""


def _defense(name: Any) -> str:
    if isinstance(name, str) and is_own_class(name):
        return name
    return known_name(name, (*defense_names(), AUTHORS), "defence")


def _attack(name: Any) -> str:
    if isinstance(name, str) and is_own_attack(name):
        if len(name) > LONGEST_NAME or not names_its_budget(name):
            raise ParameterError(
                f"A perturbation is named after its graph, attack and budget, as cora-metattack-0.2.npz. "
                f"Got {brief(name)}."
            )
        return name
    if parse_attack(name) or (isinstance(name, str) and is_own_class(name)):
        return str(name)
    return known_name(name, tuple(dict.fromkeys((*PUBLISHED, *ATTACKS.names()))), "attack")


def _split(name: Any) -> str | None:
    if name is not None and not isinstance(name, str):
        raise ParameterError(f"A split is named by text, such as 'geom-gcn-3'. Got {brief(name)} instead.")
    return name and name.lower().replace("_", "-")


def _budgets(
    group: Mapping[str, Any], attacks: list[str], graphs: Mapping[str, str], folder: str
) -> list[tuple[float | None, str]]:
    """Each budget as a number, and in words where the attack is made when it is measured."""
    alone = [attack for attack in attacks if attack == "none" or is_own_attack(attack)]
    if alone:
        if "budget" in group or len(alone) < len(attacks):
            raise ParameterError(f"The attack {alone[0]!r} has no budget and needs a group of cells of its own.")
        return [(None, "")]
    budgets = _listed(group, "budget")
    if budgets and all(isinstance(one, str) for one in budgets):
        return [(budget.amount, str(budget)) for one in budgets for budget in _in_words(one, attacks, folder)]
    if not budgets or not all(is_number(one) and 0 <= one < math.inf for one in budgets):
        got = f"Got {brief(group['budget'])} instead." if "budget" in group else "There is none."
        raise ParameterError(
            "An attack needs a 'budget', a number >= 0 for a published one, words such as '5%' for one that is made "
            f"here, or a list of either. {got}"
        )
    here = [attack for attack in attacks if attack not in PUBLISHED and parse_attack(attack) is None]
    files = [graph for graph in graphs if is_own_file(graph)]
    if here or files:
        what = f"The attack {here[0]!r} has not been" if here else f"No attack on {files[0]} has been"
        raise ParameterError(f"{what} published; give the budget in words, such as '5%', to have it made here.")
    return [(float(budget), "") for budget in budgets]


def _in_words(text: str, attacks: list[str], folder: str) -> Iterator[Budget]:
    """A budget in words, if all attacks can have it."""
    found: dict[Budget, None] = {}
    for attack in attacks:
        if parse_attack(attack):
            raise ParameterError(f"The attack {attack!r} comes in a file, so its 'budget' is a number. Got {text!r}.")
        budget = Budget.parse(text, attack_kind(attack, folder).changes)
        if budget.kind == "per_target":
            raise ParameterError(f"A study names no targets, so a budget of {text!r} has none; give a share, as '5%'.")
        found[budget] = None
    if len(found) > 1:
        raise ParameterError(f"The budget {text!r} counts edges for one attack and entries for another; say which.")
    yield from found


def _training(table: Any) -> Pairs:
    choices = _choices(table, field_types(Training), "training", "field of Training", lists=False)
    return tuple(choice for (choice,) in choices)


def _sweep(table: Any, defense: str, kind: Kind) -> Choices:
    """The choices of each parameter of a defence."""
    if table and not kind.parameters:
        raise ParameterError(f"The defence {defense!r} has no parameters; give it a group of cells of its own.")
    return _choices(table, kind.parameters, "parameters", f"parameter of defence {defense!r}", lists=True)


def _choices(table: Any, known: Mapping[str, Any], name: str, what: str, *, lists: bool) -> Choices:
    if not isinstance(table, dict):
        raise ParameterError(f"The {name!r} of a group of cells must be a table, [cells.{name}]. Got {brief(table)}.")
    choices: Choices = []
    for key in sorted(table):
        known_name(key, known, what, exact=True)
        values = _listed(table, key) if lists else [table[key]]
        if _is_tuple(known[key]) and isinstance(table[key], list):  # such a list is one value, not several
            choices.append([(key, tuple(table[key]))])
            continue
        if not all(isinstance(value, str | int | float | bool) for value in values):
            raise ParameterError(f"The {what} {key!r} must be text or a number. Got {brief(table[key])} instead.")
        # TOML has no null, so the text stands for it where the field may be None.
        nullable = NoneType in get_args(known[key])
        choices.append([(key, None if value == "none" and nullable else value) for value in values])
    return choices


def _is_tuple(type_: Any) -> bool:
    """Whether a value of this type, or one of its kinds, is a tuple."""
    return any(get_origin(one) is tuple for one in (type_, *get_args(type_)))
