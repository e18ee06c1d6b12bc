"""One attack on one defence: what it finds, and what the defence is worth then, after training and before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from garnet.backbones import MLP
from garnet.bench.cell import key_of
from garnet.bench.measure import effective_parameters, of_the_method, why_failed
from garnet.bench.opponents import THREATS, Opponent, Threat, kind_of
from garnet.bench.record import Record
from garnet.bench.schema import LONGEST_NAME, LONGEST_REASON, STRESS
from garnet.defenses.base import Defense
from garnet.defenses.purified import Purified
from garnet.errors import AttackError, GraphError
from garnet.graph.budget import Budget
from garnet.graph.graph import Graph
from garnet.graph.perturbation import Perturbation
from garnet.io.identity import digest_of
from garnet.machine import machine, peak_memory, versions
from garnet.places.tiled_place import identity
from garnet.progress import Progress, Step
from garnet.training.predictor import Predictor
from garnet.training.supervision import require_trainable

MOST_KEPT = 30_000
"""Flips that a record keeps, which is a line of half a megabyte; more are made again from their seed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A defence on a graph, which all attempts of a battery are about.

    Attributes:
        graph: clean, with labels and a split.
        defense: the defence.
        graph_name: what the graph is called in records.
        defense_name: what the defence is called there.
        backbone: name of its model, if one was chosen.
        device: where the model is trained that ignores the edges.
        command: that asked for it, if one did.
    """

    graph: Graph
    defense: Defense
    graph_name: str = "graph"
    defense_name: str = "defence"
    backbone: str | None = None
    device: str = "cpu"
    command: str = ""

    @cached_property
    def battery(self) -> str:
        """Sixteen hex digits of all that the graph and the defence are."""
        return digest_of({"graph": identity(self.graph, Path()), "defense": self._method})

    @property
    def _method(self) -> str:
        return repr(of_the_method(effective_parameters(self.defense)))

    def facts(self, role: str, seeds: tuple[int, ...], **own: Any) -> dict[str, Any]:
        """The cell of a record about this case, as plain values."""
        usual = {"attack": "none", "budget": None, "allowed": None, "threat": "both", "adaptive": False, "settings": ""}
        return {
            "graph": _printable(self.graph_name),
            "defense": _printable(self.defense_name),
            "backbone": self.backbone,
            "model": None,
            "split": None,
            "measure": STRESS,
            "parameters": {},
            "training": {},
            "seeds": list(seeds),
            "role": role,
            "battery": self.battery,
            **usual,
            **own,
        }

    def record(self, facts: dict[str, Any], seconds: dict[str, float], attack: Any = None, **known: Any) -> Record:
        """A record with these facts, and all that is known of the case and the machine."""
        parts = require_trainable(self.graph)[0]
        return Record(
            key=key_of(facts),
            cell=facts,
            seeds=tuple(facts["seeds"]),
            seconds=seconds,
            peak_bytes=peak_memory(),
            parameters={
                "defense": effective_parameters(self.defense),
                "attack": effective_parameters(attack),
                "command": self.command,
                # Not in the cell: a new fact there would change the keys of all records.
                **({} if attack is None else {"kind": kind_of(type(attack))}),
            },
            fingerprints={"graph": self.graph.fingerprint, "split": parts.fingerprint},
            versions=versions(),
            machine=machine(),
            **known,
        )


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attack with one budget and one seed, which is that of the attack and of the model alike.

    Attributes:
        opponent: the attack.
        budget: how much it may change.
        seed: of everything random.
        unbounded: whether it is a check on the attack, with more than any attacker would have.
        victim: the model of this seed that was trained on the clean graph; it is there when the attempt is made.
    """

    opponent: Opponent
    budget: Budget
    seed: int
    unbounded: bool = False
    victim: Predictor | None = None

    def __str__(self) -> str:
        return f"{self.opponent.name} {'unbounded' if self.unbounded else self.budget}, seed {self.seed}"

    @property
    def threats(self) -> tuple[Threat, ...]:
        """Where what it finds is tried: as what it was made for and, since transfer is an attack, as the other."""
        own = self.opponent.threat
        return (own,) if self.unbounded and own is not None else THREATS

    def facts(self, case: Case) -> dict[str, Any]:
        """Its cell, as plain values."""
        return case.facts(
            "unbounded" if self.unbounded else "attack",
            (self.seed,),
            attack=_printable(self.opponent.name),
            budget=self.budget.amount,
            allowed=str(self.budget),
            threat=self.opponent.threat or "both",
            adaptive=self.opponent.adaptive,
            settings=self.opponent.settings,
        )

    def failed(self, case: Case, reason: str, seconds: float) -> Record:
        """The record of an attempt that came to nothing."""
        attack, reason = self.opponent.attack, reason[:LONGEST_REASON]
        return case.record(self.facts(case), {"total": seconds}, attack, status="failed", reason=reason)


def clean_facts(case: Case, seed: int) -> dict[str, Any]:
    """The cell of the defence of a seed where nobody attacks."""
    return case.facts("clean", (seed,))


def measure_clean(seed: int, case: Case, progress: Progress | None = None) -> tuple[Record, Predictor | None]:
    """What the defence is worth where nobody attacks, beside a model that ignores edges; and the model it trained.

    The model is None for a defence that works on its training graph only and so cannot be evaded.

    Raises:
        GarnetError: the defence cannot be trained on the graph, or says nothing of it although it could.
    """
    start = time.perf_counter()
    split, labels, _ = require_trainable(case.graph)
    model = case.defense.fit_seeds(case.graph, [seed], progress=progress)[0]
    seconds = {"train": time.perf_counter() - start}
    blind = None
    if case.graph.num_features:
        blind = 100 * Purified(None, MLP(), device=case.device).fit_seeds(case.graph, [seed])[0].accuracy()
    known = labels[split.test][labels[split.test] >= 0]
    victim: Predictor | None = model
    try:
        evasion = _evaded(case.defense, model, case.graph)
    except GraphError:
        if not (case.defense.learns_one_graph or model.backbone is None):
            raise
        victim, evasion = None, None
    values = {
        "poisoning": 100 * model.accuracy(),
        "evasion": evasion,
        "features": blind,
        "largest_class": 100 * float(np.bincount(known).max() / len(known)),
        "test_nodes": len(known),
        "edges": case.graph.num_edges,
    }
    seconds["total"] = time.perf_counter() - start
    return case.record(clean_facts(case, seed), seconds, status="done", values=values), victim


def measure_attempt(attempt: Attempt, case: Case, progress: Progress | None = None) -> Record:
    """Make an attempt; an error of any kind makes a failed record with its reason."""
    start = time.perf_counter()
    try:
        values, seconds = _made(attempt, case, progress)
    except Exception as error:  # an attack must not end the battery, whatever is wrong with it
        return attempt.failed(case, why_failed(error), time.perf_counter() - start)
    seconds["total"] = time.perf_counter() - start
    return case.record(attempt.facts(case), seconds, attempt.opponent.attack, status="done", values=values)


def _made(attempt: Attempt, case: Case, progress: Progress | None) -> tuple[dict[str, Any], dict[str, float]]:
    """What the attack found and what the defence is worth then, and the seconds of each."""
    clock, seconds = time.perf_counter, {}
    allowed = attempt.budget.changes(case.graph, 0, "edges")
    victim = attempt.victim if attempt.opponent.threat == "evasion" else None
    start = clock()
    made = attempt.opponent.attack(
        case.graph, budget=attempt.budget, victim=victim, seed=attempt.seed, progress=progress
    )
    seconds["attack"] = clock() - start
    if not made.complete:
        raise AttackError("it was stopped before it had spent its budget")
    attacked = made.apply(case.graph)
    evaluate: dict[Threat, Callable[[], float | None]] = {
        "evasion": lambda: _evaded(case.defense, attempt.victim, attacked),
        "poisoning": lambda: 100 * case.defense.fit_seeds(attacked, [attempt.seed], progress=progress)[0].accuracy(),
    }
    values: dict[str, Any] = dict.fromkeys(THREATS)
    for threat in attempt.threats:
        if progress is not None:
            progress(Step(threat))
        start = clock()
        values[threat] = evaluate[threat]()
        seconds[threat] = clock() - start
    kept = made.edges.tolist() if made.num_changes <= MOST_KEPT else None
    return values | {"allowed": allowed, "flips": made.num_changes, "changed": kept, "result": made.result}, seconds


def replay(record: Record, graph: Graph) -> Perturbation:
    """The changes that an attempt had found, from its record, for the graph that was attacked.

    Raises:
        GraphError: the record keeps none, or it is another graph.
    """
    changed, cell = record.values.get("changed"), record.cell
    if changed is None:
        raise GraphError(
            f"The record of {record} keeps no changes; the same attack with the same seed makes them again."
        )
    if graph.fingerprint != record.fingerprints.get("graph"):
        raise GraphError(f"The changes of {record} were made for another graph; give it the one that was attacked.")
    edges = np.asarray(changed, dtype=np.int64).reshape(2, -1)
    made = Perturbation.of(graph, edges, attack=cell["attack"], budget=str(cell["allowed"]), seed=cell["seeds"][0])
    if made.result != record.values["result"]:
        raise GraphError(f"The changes in the record of {record} are not those that were measured; it is damaged.")
    return made


def _evaded(defense: Defense, model: Predictor | None, graph: Graph) -> float | None:
    """Accuracy in percent of a model that its defence trained on another graph; None without one."""
    return None if model is None else 100 * defense.predict(model, graph).accuracy()


def _printable(name: str) -> str:
    """A name as a record can have it."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in name.strip())
    return (shown if len(shown) <= LONGEST_NAME else f"...{shown[3 - LONGEST_NAME :]}") or "graph"
