"""The outcomes of a battery: the accuracy under every attack, and under the worst one at each budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from garnet.bench.opponents import CONTROL, THREATS, Threat, kind_of
from garnet.bench.record import Record, spread
from garnet.bench.schema import STRESS
from garnet.errors import GarnetError, ParameterError
from garnet.registry import ATTACKS, known_name


@dataclass(frozen=True)
class Outcome:
    """What an attack leaves of a defence at one budget, over the seeds.

    Attributes:
        attack: name of the attack.
        threat: whether the graph was changed after training or before.
        budget: the budget as text, such as `5%`.
        allowed: flips that the budget allows.
        accuracies: accuracies in percent, one per seed.
        seconds: mean time that the attack took to find its changes.
        flips: mean number of flips that it made.
        adaptive: whether it knew the defence.
        transferred: whether it was made for the other threat.
        black_box: whether it queried the defence without looking into it.
        asks: whether it used the defence's answers and not just gradients; a black box does.
    """

    attack: str
    threat: Threat
    budget: str
    allowed: int
    accuracies: tuple[float, ...]
    seconds: float = 0.0
    flips: float = 0.0
    adaptive: bool = False
    transferred: bool = False
    black_box: bool = False
    asks: bool = False

    @property
    def mean(self) -> float:
        """Over the seeds, in percent."""
        return spread(list(self.accuracies))[0] or 0.0

    @property
    def sd(self) -> float | None:
        """Standard deviation over the seeds, in points; None for one seed."""
        return spread(list(self.accuracies))[1]

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + ("" if self.sd is None else f" ± {self.sd:.1f}")


@dataclass(frozen=True, eq=False)
class Battery:
    """The records of one defence on one graph, and what they show.

    Attributes:
        records: records of the model without an attack and of every attempt, from which any verdict can be checked.
        missing: attempts that were not made because the run was stopped.
    """

    records: tuple[Record, ...]
    missing: int = 0

    def __post_init__(self) -> None:
        own = tuple(one for one in self.records if one.cell["measure"] == STRESS and one.cell["role"] != "verdict")
        clean = [one for one in own if one.cell["role"] == "clean" and one.status == "done"]
        if not clean or len({one.cell["battery"] for one in own}) > 1:
            raise GarnetError(
                f"The records are of {len({one.cell['battery'] for one in own})} batteries, or the accuracy without an "
                "attack is missing; give those of one defence on one graph, as garnet stress writes them."
            )
        object.__setattr__(self, "records", own)

    @property
    def graph(self) -> str:
        """Name of the graph."""
        return str(self._first.cell["graph"])

    @property
    def defense(self) -> str:
        """Name of the defence, and of its backbone if one was chosen."""
        name, backbone = self._first.cell["defense"], self._first.cell["backbone"]
        return ("no defence" if name == "none" else str(name)) + (f", {backbone}" if backbone else "")

    @property
    def command(self) -> str:
        """The latest command that asked for it; empty if it was asked for in Python."""
        return next((said for one in reversed(self.records) if (said := one.parameters.get("command"))), "")

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of attacks and models."""
        return tuple(sorted({seed for one in self.records for seed in one.seeds}))

    @property
    def test_nodes(self) -> int:
        """Number of nodes behind the accuracy."""
        return int(self._first.values["test_nodes"])

    @property
    def edges(self) -> int:
        """Number of edges of the clean graph."""
        return int(self._first.values["edges"])

    @property
    def failures(self) -> tuple[Record, ...]:
        """Attempts that failed."""
        return tuple(one for one in self.records if one.status == "failed")

    @property
    def clean(self) -> Outcome:
        """The defence without an attack."""
        return self._baseline("poisoning")

    @property
    def clean_evasion(self) -> Outcome:
        """The same model queried again, as for an evaded graph; without accuracies if that is impossible."""
        return self._baseline("evasion")

    @property
    def asked_again(self) -> tuple[tuple[float, float], ...]:
        """Both accuracies of each seed whose model could be asked once more, first that when it was trained."""
        pairs = ((one.values["poisoning"], one.values["evasion"]) for one in self._clean)
        return tuple((first, again) for first, again in pairs if None not in (first, again))

    @property
    def floor(self) -> float:
        """Accuracy without edges, in percent: of a model that ignores them, or of naming the largest class."""
        found = [float(one.values[name] or 0.0) for one in self._clean for name in ("features", "largest_class")]
        return max(found)

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Every attack at every budget under both threats, the smallest budget first."""
        return self._grouped("attack")

    @cached_property
    def unbounded(self) -> tuple[Outcome, ...]:
        """Attacks that know the defence, with as many flips as there are edges."""
        return self._grouped("unbounded")

    @property
    def budgets(self) -> tuple[str, ...]:
        """In words, the smallest first."""
        return tuple(dict.fromkeys(one.budget for one in self.outcomes))

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks with a result, random flips first and those that know the defence last."""
        found = dict.fromkeys((one.adaptive, one.attack != CONTROL, one.attack) for one in self.outcomes)
        return tuple(name for *_, name in sorted(found, key=lambda one: one[:2]))

    @property
    def tried(self) -> tuple[str, ...]:
        """The attacks with a result, each once whatever its variants, without random flips."""
        return tried(self.outcomes)

    def at(self, threat: Threat, budget: str, attack: str | None = None) -> tuple[Outcome, ...]:
        """What was measured at exactly this budget."""
        return tuple(
            one
            for one in self.outcomes
            if (one.threat, one.budget) == (threat, budget) and attack in (None, one.attack)
        )

    def worst(self, threat: Threat, budget: str) -> Outcome | None:
        """The lowest accuracy at a budget or any smaller one, whose changes are allowed there, too; None without any.

        Raises:
            ParameterError: there is no such threat, or nothing was measured at such a budget.
        """
        known_name(threat, THREATS, "threat", exact=True)
        if budget not in self.budgets:
            raise ParameterError(f"The battery has the budgets {', '.join(self.budgets)}. Got {budget!r} instead.")
        allowed = next(one.allowed for one in self.outcomes if one.budget == budget)
        return lowest(one for one in self.outcomes if one.threat == threat and one.allowed <= allowed)

    @property
    def _clean(self) -> list[Record]:
        return self._done("clean")

    def _done(self, role: str) -> list[Record]:
        """In the order of their seeds, whichever ended first."""
        found = [one for one in self.records if one.cell["role"] == role and one.status == "done"]
        return sorted(found, key=lambda one: one.seeds)

    @property
    def _first(self) -> Record:
        return self._clean[0]

    def _baseline(self, threat: Threat) -> Outcome:
        found = tuple(one.values[threat] for one in self._clean if one.values[threat] is not None)
        return Outcome("none", threat, "0", 0, found)

    def _grouped(self, role: str) -> tuple[Outcome, ...]:
        groups: dict[tuple[str, str, str], list[Record]] = {}
        for one in self._done(role):
            groups.setdefault((one.cell["attack"], one.cell["settings"], one.cell["allowed"]), []).append(one)
        made = [_outcome(group, threat) for group in groups.values() for threat in THREATS]
        return tuple(sorted((one for one in made if one.accuracies), key=lambda one: one.allowed))


def lowest(outcomes: Iterable[Outcome]) -> Outcome | None:
    """The one with the lowest mean; of equals, the one that needed fewer flips."""
    return min(outcomes, key=lambda one: (one.mean, one.allowed), default=None)


def tried(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """The attacks behind some outcomes, each once whatever its variants, without random flips."""
    # What tells variants of an attack apart stands behind its name.
    names = dict.fromkeys(one.attack.split()[0] for one in outcomes)
    return tuple(name for name in names if name != CONTROL)


def as_facts(outcome: Outcome | None) -> dict[str, Any] | None:
    """An outcome in plain values, ready for JSON."""
    return None if outcome is None else {"accuracy": outcome.mean, "sd": outcome.sd, **asdict(outcome)}


def batteries(records: Iterable[Record]) -> tuple[Battery, ...]:
    """The batteries among some records; one whose model was never trained on the clean graph is left out."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.cell["measure"] == STRESS and record.cell["role"] != "verdict":
            found.setdefault(record.cell["battery"], []).append(record)
    whole = (group for group in found.values() if any(one.cell["role"] == "clean" for one in group))
    return tuple(Battery(tuple(group)) for group in whole)


def _outcome(group: Sequence[Record], threat: Threat) -> Outcome:
    cell, values = group[0].cell, [one.values for one in group]
    return Outcome(
        attack=cell["attack"],
        threat=threat,
        budget=cell["allowed"],
        allowed=values[0]["allowed"],
        accuracies=tuple(one[threat] for one in values if one[threat] is not None),
        seconds=sum(one.seconds.get("attack", 0.0) for one in group) / len(group),
        flips=sum(one["flips"] for one in values) / len(values),
        adaptive=cell["adaptive"],
        transferred=cell["threat"] not in (threat, "both"),
        **_kind(group[0]),
    )


def _kind(record: Record) -> dict[str, bool]:
    """What kind of attack made a record; older ones do not say, and their attack is looked up by its name."""
    known = record.parameters.get("kind")
    if isinstance(known, dict):
        return {name: known.get(name) is True for name in ("black_box", "asks")}
    name = record.cell["attack"].split()[0]
    return kind_of(ATTACKS.get(name) if name in ATTACKS.names() else object)
