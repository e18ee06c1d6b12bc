"""A study: one TOML file that says which cells of a table are to be measured."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from garnet.bench.build import AUTHORS, parameter_types, registered
from garnet.bench.cell import Cell, Pairs, Value, is_own_attack, names_its_budget
from garnet.bench.reading import read_small, reason_of
from garnet.bench.schema import LONGEST_NAME, MEASURES, MOST_SEEDS, TRAINED, check_cell
from garnet.datasets import names
from garnet.datasets.unit_test_file import parse_attack
from garnet.defenses.lookup import defense_names, is_purifier, takes_backbone, takes_training
from garnet.errors import ParameterError, brief
from garnet.parameters import is_number, is_whole
from garnet.registry import BACKBONES, field_types, known_name
from garnet.training.loop import Training

Choices = list[list[tuple[str, Value]]]
"""Of each parameter the values to try, each with its name."""

ATTACKS = ("none", "metattack", "nettack")
MODELS = ("default", "paper")

_MOST_BYTES = 256 << 10
_MOST_DOTS = 500  # on a line: the time to read a.a.a.a = 1 grows with the square of its length
_MOST_CELLS = 10_000
_MOST_NAMES = 1_000
_LONGEST_TITLE, _LONGEST_NOTE = 1_000, 10_000
_STUDY_KEYS = ("title", "note", "record", "seeds", "cells")
_CELL_KEYS = tuple(field.name for field in fields(Cell) if field.name != "seeds")


@dataclass(frozen=True)
class Study:
    """What is to be measured: cells, each once, under a title.

    Attributes:
        title: shown above the table.
        note: shown below it.
        cells: in the order of the file.
        record: name of the file of records, without its ending; studies that name the same one share its cells. Empty
            for the name of the study's own file.
    """

    title: str
    note: str
    cells: tuple[Cell, ...]
    record: str = ""


def load_study(path: str | Path) -> Study:
    """Read a study.

    Raises:
        ParameterError: there is no such file, it is no TOML, or something in it is not known; the message names it.
    """
    try:
        text = read_small(path, _MOST_BYTES).decode()
    except OSError as error:
        raise ParameterError(f"Cannot read the study {path}: {reason_of(error)}.") from None
    except UnicodeDecodeError:
        raise ParameterError(f"Cannot read the study {path}: it is not UTF-8 text.") from None
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise ParameterError(f"Cannot read the study {path}: it has a line with more than {_MOST_DOTS} dots.")
    try:
        return parse_study(tomllib.loads(text))
    except ParameterError as error:
        raise ParameterError(f"In the study {path}: {error}") from None
    except (ValueError, RecursionError) as error:
        reason = (
            str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number is too long, or a list too deep"
        )
        raise ParameterError(f"The study {path} is not valid TOML: {reason}.") from None


def parse_study(document: Mapping[str, Any]) -> Study:
    """A study from the contents of its file."""
    _known_keys(document, _STUDY_KEYS, "key of a study")
    title, note, record = document.get("title"), document.get("note", ""), document.get("record", "")
    if not isinstance(title, str) or len(title) > _LONGEST_TITLE or not _is_text(note, _LONGEST_NOTE):
        raise ParameterError(
            f"A study needs a 'title' that is text, of at most {_LONGEST_TITLE:,} characters, and its 'note', if any, "
            f"must be text too, of at most {_LONGEST_NOTE:,}."
        )
    if not _is_text(record, LONGEST_NAME) or Path(record).name != record or not record.isprintable():
        raise ParameterError(
            f"The 'record' of a study must be the name of a file without a folder. Got {brief(record)}."
        )
    groups = document.get("cells", [])
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise ParameterError("The cells of a study are tables; begin each group with a line [[cells]].")
    seeds = _seeds(document.get("seeds", 10))
    cells: dict[Cell, None] = {}
    for number, cell in enumerate(cell for group in groups for cell in _expand(group, seeds)):
        if number >= _MOST_CELLS:
            raise ParameterError(f"The study has more than {_MOST_CELLS:,} cells; shorten its lists, or split it.")
        cells[cell] = None
    if not cells:
        raise ParameterError("The study has no cells; add a group that begins with a line [[cells]].")
    return Study(title, note, tuple(cells), record)


def _is_text(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest


def _expand(group: Mapping[str, Any], seeds: tuple[int, ...]) -> Iterator[Cell]:
    """The product of all lists of a group."""
    _known_keys(group, _CELL_KEYS, "key of a group of cells")
    for name in ("graph", "defense"):
        if name not in group:
            raise ParameterError(f"A group of cells lacks {name!r}; name one or a list of them.")
    graphs = _named(group, "graph", names())
    attacks = [_attack(name) for name in _listed(group, "attack", "none")]
    defenses = _named(group, "defense", (*defense_names(), AUTHORS), "defence")
    measures = _named(group, "measure", MEASURES, default="accuracy")
    models = _named(group, "model", MODELS, default="default")
    backbones: list[str] | list[None] = [None]
    if "backbone" in group:
        backbones = _named(group, "backbone", BACKBONES.names())
    splits = [_split(name) for name in _listed(group, "split", None)]
    budgets = _budgets(group, attacks)
    training = _training(group.get("training", {}))
    sweeps = {defense: _sweep(group.get("parameters", {}), defense) for defense in defenses}
    for graph, split, measure, attack, budget, backbone, defense, model in product(
        graphs, splits, measures, attacks, budgets, backbones, defenses, models
    ):
        trains, needed = _needs(measure, defense)
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
                training=training if measure in TRAINED and takes_training(registered(defense)) else (),
                seeds=seeds if measure in TRAINED else (),
            )
            try:
                check_cell(cell.facts())
            except ValueError as error:
                raise ParameterError(f"A cell is not possible: {error}.") from None
            yield cell


def _needs(measure: str, defense: str) -> tuple[bool, bool]:
    """Whether a cell trains a backbone, and whether it needs the name of one."""
    if measure == "rank" and defense != "none":
        raise ParameterError(f"The measure 'rank' is of the graph itself, with the defence 'none'. Got {defense!r}.")
    if measure in ("homophily", "recovery") and defense != "none" and not is_purifier(registered(defense)):
        raise ParameterError(f"The measure {measure!r} needs a purifier, and the defence {defense!r} is none.")
    trains = measure in TRAINED and takes_backbone(registered(defense))
    return trains, trains or defense == AUTHORS


def _known_keys(table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
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


def _seeds(value: Any) -> tuple[int, ...]:
    chosen = value if isinstance(value, list) else range(value) if is_whole(value) and value <= MOST_SEEDS else []
    if not 0 < len(chosen) <= MOST_SEEDS or not all(is_whole(seed) and 0 <= seed < 2**63 for seed in chosen):
        raise ParameterError(
            f"The 'seeds' of a study must be a number up to {MOST_SEEDS} or a list of as many integers >= 0. "
            f"Got {brief(value)}."
        )
    return tuple(dict.fromkeys(chosen))


def _attack(name: Any) -> str:
    if isinstance(name, str) and is_own_attack(name):
        if len(name) > LONGEST_NAME or not names_its_budget(name):
            raise ParameterError(
                f"A perturbation is named after its graph, attack and budget, as cora-metattack-0.2.npz. "
                f"Got {brief(name)}."
            )
        return name
    return name if parse_attack(name) else known_name(name, ATTACKS, "published attack")


def _split(name: Any) -> str | None:
    if name is not None and not isinstance(name, str):
        raise ParameterError(f"A split is named by text, such as 'geom-gcn-3'. Got {brief(name)} instead.")
    return name and name.lower().replace("_", "-")


def _budgets(group: Mapping[str, Any], attacks: list[str]) -> list[float | None]:
    alone = [attack for attack in attacks if attack == "none" or is_own_attack(attack)]
    if alone:
        if "budget" in group or len(alone) < len(attacks):
            raise ParameterError(f"The attack {alone[0]!r} has no budget and needs a group of cells of its own.")
        return [None]
    budgets = _listed(group, "budget")
    if not budgets or not all(is_number(one) and 0 <= one < math.inf for one in budgets):
        got = f"Got {brief(group['budget'])} instead." if "budget" in group else "There is none."
        raise ParameterError(f"An attack needs a 'budget', a number >= 0 or a list of them. {got}")
    return [float(budget) for budget in budgets]


def _training(table: Any) -> Pairs:
    choices = _choices(table, field_types(Training), "training", "field of Training", lists=False)
    return tuple(choice for (choice,) in choices)


def _sweep(table: Any, defense: str) -> Choices:
    """The choices of each parameter of a defence."""
    known = parameter_types(defense)
    if table and not known:
        raise ParameterError(f"The defence {defense!r} has no parameters; give it a group of cells of its own.")
    return _choices(table, known, "parameters", f"parameter of defence {defense!r}", lists=True)


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
