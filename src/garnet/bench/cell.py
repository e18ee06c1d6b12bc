"""A cell: one measurement that a study asks for, and what it is called in records, tables and reports."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Value = str | int | float | bool | tuple[float, ...] | None
Pairs = tuple[tuple[str, Value], ...]
Facts = Mapping[str, Any]
"""A cell as plain values, as `Cell.facts` gives it and a record has it."""

EVASION = "evasion"
"""The measure of an attack that comes after training."""

_OWN_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_FEW = ("made", "content")
_OWN_ATTACK = re.compile(r"(?:.*/)?[\w-]+?-(?P<attack>[a-z][a-z-]*)-(?P<budget>\d{1,20}(?:\.\d{1,20})?)\.npz")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One measurement.

    Attributes:
        graph: its name in the catalogue, or a file of one's own, as the study has it.
        attack: whose published poison; or the file of a perturbation, such as `perturbations/cora-metattack-0.2.npz`,
            in whose name the attack and its budget come last; or a source of the unit test, such as
            `unit-test/evasion/jaccard_gcn`; or, where the budget is in words, an attack by name or as `module:Class`;
            `none` is the clean graph.
        budget: of a published poison, or of the unit test; of an attack that is made here, the number in its words;
            None for others.
        defense: its name, or a class of one's own as `module:Class`.
        backbone: name of the model; None where none is trained and none decides on parameters.
        model: whose parameters and training of the backbone, `paper` or `default`; None where none is trained.
        split: as for `garnet.datasets.load`; None is the usual.
        measure: what is measured: `accuracy` of a model that is trained on the attacked graph, a poisoning; `evasion`,
            that of one trained on the clean graph; `homophily`, `recovery` or `rank`, which train none.
        parameters: of the defence, where they differ from its own.
        training: fields of `Training`, where they differ.
        seeds: one model each; none where nothing is trained.
        made: the budget in words, such as `5%`, of an attack that is made when the cell is measured.
        content: sixteen hex digits of what is in the graph's file, if it is one's own.
        folder: where files and modules of one's own are looked for first; no part of what is measured.
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
    made: str = ""
    content: str = ""
    folder: str = field(default="", compare=False)

    def facts(self) -> dict[str, Any]:
        """The cell as plain values, ready for JSON."""
        pairs = {name: {key: plain(value) for key, value in getattr(self, name)} for name in ("parameters", "training")}
        facts = asdict(self) | pairs | {"seeds": list(self.seeds)}
        # The keys of all records are made of these facts, so those that few cells have are left out of the others.
        unsaid = ("folder", *(name for name in _FEW if not facts[name]))
        return {name: value for name, value in facts.items() if name not in unsaid}

    @property
    def key(self) -> str:
        """Sixteen hex digits that stand for the cell in records."""
        return key_of(self.facts())

    def __str__(self) -> str:
        return describe(self.facts())


def key_of(facts: Facts) -> str:
    """The key of the cell with these facts."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(facts: Facts) -> str:
    """A cell in a few words, such as `cora, metattack 0.2, gcn, garnet k=10`."""
    defense = " ".join([facts["defense"], *(f"{name}={value}" for name, value in facts["parameters"].items())])
    parts = (facts["graph"], facts["split"], attack_words(facts), facts["backbone"], defense)
    measure = "" if facts["measure"] in ("accuracy", EVASION) else f": {facts['measure']}"
    return ", ".join(part for part in parts if part) + measure


def threat(facts: Facts) -> tuple[str, float]:
    """Name and budget of the attack of a cell, from the name of its file if it has one."""
    own = _OWN_ATTACK.fullmatch(facts["attack"])
    return (own["attack"], float(own["budget"])) if own else (facts["attack"], float(facts["budget"] or 0))


def attack_name(facts: Facts) -> str:
    """The attack without its budget; one from a file is marked as ours, to tell it from the published one."""
    return threat(facts)[0] + _marks(facts)


def attack_words(facts: Facts) -> str:
    """The attack of a cell in words, such as `metattack 0.2`.

    It is `metattack 0.2, ours` if it came from a file, `metattack 20%, ours` if it was made for the cell, and
    `metattack 0.2, evasion` if it comes after training.
    """
    attack, budget = threat(facts)
    return ("clean" if attack == "none" else f"{attack} {facts.get('made') or f'{budget:g}'}") + _marks(facts)


def _marks(facts: Facts) -> str:
    ours = ", ours" if is_own_attack(facts["attack"]) or facts.get("made") else ""
    return ours + (f", {EVASION}" if facts["measure"] == EVASION else "")


def is_own_attack(attack: str) -> bool:
    """Whether the attack of a cell is the file of a perturbation."""
    return attack.endswith(".npz")


def is_own_file(graph: str) -> bool:
    """Whether the graph of a cell is a file of one's own: names in the catalogue have no dots and no slashes."""
    return "." in graph or "/" in graph


def is_own_class(name: str) -> bool:
    """Whether an attack or a defence is a class of one's own, as `module:Class`."""
    return _OWN_CLASS.fullmatch(name) is not None


def is_unit_test(attack: str) -> bool:
    """Whether the attack of a cell is a source of the unit test."""
    return attack.startswith("unit-test/")


def names_its_budget(attack: str) -> bool:
    """Whether the file of a perturbation has its attack and budget in its name, where `threat` looks for them."""
    return _OWN_ATTACK.fullmatch(attack) is not None


def plain(value: Any) -> Any:
    """The value as JSON can hold it: infinity and NaN become text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
