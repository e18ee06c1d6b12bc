"""A study: one TOML file that says which cells of a table are to be measured."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

from garnet.bench.build import defense_names, is_purifier, parameter_fields, takes_backbone, takes_training
from garnet.bench.reading import read_small
from garnet.bench.schema import LONGEST_NAME, MEASURES, MOST_SEEDS, check_cell
from garnet.datasets import names
from garnet.errors import ParameterError, brief
from garnet.registry import BACKBONES, known_name

Value = str | int | float | bool | tuple[float, ...] | None
Pairs = tuple[tuple[str, Value], ...]
Choices = list[list[tuple[str, Value]]]

ATTACKS = ("none", "metattack", "nettack")
_OWN = re.compile(r"(?:.*/)?[\w-]+?-(?P<attack>[a-z][a-z-]*)-(?P<budget>\d{1,20}(?:\.\d{1,20})?)\.npz")
MODELS = ("default", "paper")

_MOST_BYTES = 256 << 10
_MOST_DOTS = 500  # on a line: the time to read a.a.a.a = 1 grows with the square of its length
_MOST_CELLS = 10_000
_MOST_NAMES = 1_000
_LONGEST_TITLE, _LONGEST_NOTE = 1_000, 10_000
_STUDY_KEYS = ("title", "note", "record", "seeds", "cells")
_CELL_KEYS = (
    "graph", "attack", "budget", "defense", "backbone", "model", "split", "measure", "parameters", "training",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One measurement.

    Attributes:
        graph: its name in the catalogue.
        attack: whose published poison; or the file of a perturbation, such as `perturbations/cora-metattack-0.2.npz`,
            in whose name the attack and its budget come last; `none` is the clean graph.
        budget: of a published poison; None for others.
        defense: its name.
        backbone: name of the model; None where none is trained and none decides on parameters.
        model: whose parameters and training of the backbone, `paper` or `default`; None where none is trained.
        split: as for `garnet.datasets.load`; None is the usual.
        measure: what is measured.
        parameters: of the defence, where they differ from its own.
        training: fields of `Training`, where they differ.
        seeds: one model each; none where nothing is trained.
    """

    graph: str
    attack: str = "none"
    budget: float | None = None
    defense: str = "none"
    backbone: str | None = None
    model: str | None = None
    split: str | None = None
    measure: str = "accuracy"
    parameters: Pairs = ()
    training: Pairs = ()
    seeds: tuple[int, ...] = ()

    def facts(self) -> dict[str, Any]:
        """The cell as plain values, ready for JSON."""
        pairs = {name: {key: plain(value) for key, value in getattr(self, name)} for name in ("parameters", "training")}
        return asdict(self) | pairs | {"seeds": list(self.seeds)}

    @property
    def key(self) -> str:
        """Sixteen hex digits that stand for the cell in records."""
        return key_of(self.facts())

    def __str__(self) -> str:
        return describe(self.facts())


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


def key_of(facts: Mapping[str, Any]) -> str:
    """The key of the cell with these facts."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(facts: Mapping[str, Any]) -> str:
    """A cell in a few words, such as `cora, metattack 0.2, gcn, garnet k=10`."""
    attack = attack_words(facts)
    defense = " ".join([facts["defense"], *(f"{name}={value}" for name, value in facts["parameters"].items())])
    parts = (facts["graph"], facts["split"], attack, facts["backbone"], defense)
    measure = "" if facts["measure"] == "accuracy" else f": {facts['measure']}"
    return ", ".join(part for part in parts if part) + measure


def attack_words(facts: Mapping[str, Any]) -> str:
    """The attack of a cell in words, such as `metattack 0.2`, or `metattack 0.2, ours` if it came from a file."""
    attack, budget = threat(facts)
    if attack == "none":
        return "clean"
    return f"{attack} {budget:g}" + (", ours" if facts["attack"].endswith(".npz") else "")


def threat(facts: Mapping[str, Any]) -> tuple[str, float]:
    """Name and budget of the attack of a cell, from the name of its file if it has one."""
    own = _OWN.fullmatch(facts["attack"])
    return (own["attack"], float(own["budget"])) if own else (facts["attack"], float(facts["budget"] or 0))


def plain(value: Any) -> Any:
    """A value that JSON has: it knows no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def load_study(path: str | Path) -> Study:
    """Read a study.

    Raises:
        ParameterError: there is no such file, it is no TOML, or something in it is not known; the message names it.
    """
    try:
        text = read_small(path, _MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ParameterError(f"Cannot read the study {path}: {reason[:1].lower()}{reason[1:]}.") from None
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
    defenses = _named(group, "defense", defense_names(), "defence")
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
                split=split if measure == "accuracy" else None,
                measure=measure,
                parameters=parameters,
                training=training if measure == "accuracy" and takes_training(defense) else (),
                seeds=seeds if measure == "accuracy" else (),
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
    if measure in ("homophily", "recovery") and defense != "none" and not is_purifier(defense):
        raise ParameterError(f"The measure {measure!r} needs a purifier, and the defence {defense!r} is none.")
    trains = measure == "accuracy" and takes_backbone(defense)
    return trains, trains or defense == "garnet-paper"


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
    chosen = value if isinstance(value, list) else range(value) if _whole(value) and value <= MOST_SEEDS else []
    if not 0 < len(chosen) <= MOST_SEEDS or not all(_whole(seed) and 0 <= seed < 2**63 for seed in chosen):
        raise ParameterError(
            f"The 'seeds' of a study must be a number up to {MOST_SEEDS} or a list of as many integers >= 0. "
            f"Got {brief(value)}."
        )
    return tuple(dict.fromkeys(chosen))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _attack(name: Any) -> str:
    if isinstance(name, str) and name.endswith(".npz"):
        if len(name) > LONGEST_NAME or not _OWN.fullmatch(name):
            raise ParameterError(
                f"A perturbation is named after its graph, attack and budget, as cora-metattack-0.2.npz. "
                f"Got {brief(name)}."
            )
        return name
    return known_name(name, ATTACKS, "published attack")


def _split(name: Any) -> str | None:
    if name is not None and not isinstance(name, str):
        raise ParameterError(f"A split is named by text, such as 'geom-gcn-3'. Got {brief(name)} instead.")
    return name and name.lower().replace("_", "-")


def _budgets(group: Mapping[str, Any], attacks: list[str]) -> list[float | None]:
    alone = [attack for attack in attacks if attack not in ATTACKS[1:]]
    if alone:
        if "budget" in group or len(alone) < len(attacks):
            raise ParameterError(f"The attack {alone[0]!r} has no budget and needs a group of cells of its own.")
        return [None]
    budgets = _listed(group, "budget")
    if not budgets or not all(_is_budget(one) for one in budgets):
        got = f"Got {brief(group['budget'])} instead." if "budget" in group else "There is none."
        raise ParameterError(f"An attack needs a 'budget', a number >= 0 or a list of them. {got}")
    return [float(budget) for budget in budgets]


def _is_budget(value: Any) -> bool:
    # An integer may be beyond what a float can be.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _training(table: Any) -> Pairs:
    from garnet.training.loop import Training

    known = {field.name: str(field.type) for field in fields(Training)}
    choices = _choices(table, known, "training", "field of Training", lists=False)
    return tuple(choice for (choice,) in choices)


def _sweep(table: Any, defense: str) -> Choices:
    """The choices of each parameter of a defence."""
    known = parameter_fields(defense)
    if table and not known:
        raise ParameterError(f"The defence {defense!r} has no parameters; give it a group of cells of its own.")
    return _choices(table, known, "parameters", f"parameter of defence {defense!r}", lists=True)


def _choices(table: Any, known: Mapping[str, str], name: str, what: str, *, lists: bool) -> Choices:
    if not isinstance(table, dict):
        raise ParameterError(f"The {name!r} of a group of cells must be a table, [cells.{name}]. Got {brief(table)}.")
    choices: Choices = []
    for key in sorted(table):
        known_name(key, known, what, exact=True)
        values = _listed(table, key) if lists else [table[key]]
        if "tuple" in known[key] and isinstance(table[key], list):  # such a list is one value, not several
            choices.append([(key, tuple(table[key]))])
            continue
        if not all(isinstance(value, str | int | float | bool) for value in values):
            raise ParameterError(f"The {what} {key!r} must be text or a number. Got {brief(table[key])} instead.")
        # TOML has no null, so the text stands for it where the field may be None.
        nullable = "None" in known[key]
        choices.append([(key, None if value == "none" and nullable else value) for value in values])
    return choices
