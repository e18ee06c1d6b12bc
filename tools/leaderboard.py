"""The leaderboard in Markdown: one row a defence, the accuracy under the worst attack decides.

`tools.tables` puts it into docs/results/leaderboard.md. Records of `garnet stress` are results/stress-*.jsonl;
published poisons, and clean graphs where a defence has not been stressed, come from studies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from garnet.bench.cell import is_own_attack, threat
from garnet.bench.opponents import THREATS, Threat
from garnet.bench.outcomes import Battery, Outcome, batteries, lowest
from garnet.bench.record import Record, latest, read_records
from garnet.bench.verdict import Stress
from garnet.errors import GarnetError
from tools.markdown import NONE, table

LARGEST = 0.1
"""Share of the edges up to which attacks count, so that a row is not the worse for having been tried with more."""

_STUDIES = ("leave-it-on", "citations", "heterophilic", "polblogs")
_GRAPHS = ("cora", "citeseer", "pubmed", "chameleon", "squirrel", "polblogs")
_POISON = "metattack", 0.2  # the published one that every study has
_FOLDER = "../../results"
_GROUPS = {
    "blind": "our blind attacks",
    "evasion": "adaptive evasion",
    "poisoning": "adaptive poisoning",
    "transferred": "made for others",
}


@dataclass(frozen=True)
class Figure:
    """A number of the board and the file that it comes from."""

    value: float
    record: str
    note: str = ""

    def __str__(self) -> str:
        return f"[{self.value:.1f}]({_FOLDER}/{self.record}){f' {self.note}' if self.note else ''}"


@dataclass(frozen=True)
class Row:
    """A defence on one graph.

    Attributes:
        defense: its name, with that of a backbone other than the usual.
        clean: accuracy where nobody attacks.
        published: the lowest under a published poison.
        attacked: the lowest of each group of attacks: `blind`, `evasion` and `poisoning`; `transferred` are those that
            were made for other defences.
        worst: the lowest of all these.
        seconds: that the worst attack took.
        command: that makes the row again.
        failed: whether a check of the stress test failed.
    """

    defense: str
    clean: Figure | None = None
    published: Figure | None = None
    attacked: Mapping[str, Figure] = field(default_factory=dict)
    worst: Figure | None = None
    seconds: float | None = None
    command: str = ""
    failed: bool = False

    def cells(self) -> list[str]:
        """The row as the table has it."""
        worst = NONE if self.worst is None else f"**{self.worst}**" + (" ⚠" if self.failed else "")
        groups = [str(self.attacked.get(group, NONE)) for group in _GROUPS]
        seconds = NONE if self.seconds is None else f"{self.seconds:.0f}"
        return [f"`{self.defense}`", str(self.clean or NONE), str(self.published or NONE), *groups, worst, seconds]


def leaderboard(records: Path) -> str:
    """A table for each graph that something is known of, and the commands that make the rows again."""
    boards = {graph: _rows(graph, records) for graph in _graphs(records)}
    return "\n\n".join(_board(graph, rows) for graph, rows in boards.items() if rows)


def _board(graph: str, rows: Sequence[Row]) -> str:
    heads = ["defence", "clean", "published poison", *_GROUPS.values()]
    parts = [f"## {graph.capitalize()}", table([*heads, "**worst**", "seconds"], [row.cells() for row in rows])]
    commands = [row.command for row in rows if row.command]
    if commands:
        parts.append("\n".join(["<!-- not run: takes hours -->", "```", *commands, "```"]))
    if any(row.failed for row in rows):
        parts.append("⚠ A check of the stress test failed: the true worst case is probably lower.")
    return "\n\n".join(parts)


def _rows(graph: str, records: Path) -> list[Row]:
    """The most robust first.

    Below them stand those that were attacked in one way alone, whose worst is yet to be seen, and then those that
    nobody has stressed.
    """
    found = {row.defense: row for row in _studied(graph, records)}
    for row in _stressed(graph, records):
        before = found.get(row.defense, row)
        found[row.defense] = replace(row, published=before.published, clean=row.clean or before.clean)
    for defense, figure in _transferred(graph, records).items():
        row = found.get(defense, Row(defense))
        harder = row.worst is None or figure.value < row.worst.value
        found[defense] = replace(
            row,
            attacked={**row.attacked, "transferred": figure},
            worst=figure if harder else row.worst,
            seconds=None if harder else row.seconds,
        )
    return sorted(found.values(), key=_robust_first)


def _transferred(graph: str, records: Path) -> dict[str, Figure]:
    """What flips leave of defences that were made for others, by benchmarks/transfer.py, if it was run."""
    path = records / f"transfer-{graph}.json"
    if not path.exists():
        return {}
    found = {}
    for defense, tried in json.loads(path.read_text())["figures"].items():
        lowest_first = sorted(
            (left, kind, made_for)
            for kind in THREATS
            for left, made_for, _ in tried[kind]
            if made_for.removesuffix(", gprgnn") != defense
        )
        if lowest_first:
            left, kind, made_for = lowest_first[0]
            found[defense] = Figure(left, path.name, f"({kind}, for {made_for})")
    return found


def _robust_first(row: Row) -> tuple[bool, float, str]:
    both = "evasion" in row.attacked and "poisoning" in row.attacked
    return not both, -(row.worst.value if row.worst else -1.0), row.defense


def attacker_who_knows(records: Path) -> str:
    """What one who knows a defence leaves of it, budget by budget, on the first graph of the leaderboard."""
    graph = _graphs(records)[0]
    found = {battery: name for name, battery in _batteries(records) if battery.graph == graph}
    if not found:
        return "Nothing has been measured yet."
    budgets = max((battery.budgets for battery in found), key=len)
    order = [row.defense for row in _rows(graph, records)]
    heads = [
        f"{graph.capitalize()}",
        "clean",
        *(f"after: {one}" for one in budgets),
        *(f"before: {one}" for one in budgets),
    ]
    rows = []
    for battery in sorted(found, key=lambda one: order.index(_named(one))):
        figures = [_within(battery, kind, budget) for kind in THREATS for budget in budgets]
        rows.append([f"`{_named(battery)}`", f"{battery.clean.mean:.1f}", *figures])
    return table(heads, rows)


def rounds(records: Path) -> str:
    """What was left of the committee before it was changed in answer to attacks, and after each change."""
    told = {
        "before": "rounds-cora-0.jsonl",
        "first round": "rounds-cora-1.jsonl",
        "second round": "stress-cora-committee.jsonl",
    }
    found = {name: next(iter(batteries(_read(records / file)))) for name, file in told.items()}
    budgets = found["second round"].budgets
    heads = ["Cora", "attacks tried", "clean", *(f"{one}: {budget}" for one in THREATS for budget in budgets)]
    rows = [
        [
            f"[{name}](../../results/{told[name]})",
            str(len({(one.attack, one.budget) for one in battery.outcomes})),
            f"{battery.clean.mean:.1f}",
            *(
                _within(battery, kind, budget) if _whole(battery, kind, budget) else NONE
                for kind in THREATS
                for budget in budgets
            ),
        ]
        for name, battery in found.items()
    ]
    return table(heads, rows)


def _whole(battery: Battery, kind: Threat, budget: str) -> bool:
    """Whether everything that was tried with the smallest budget was tried with another, too."""
    tried = [{one.attack for one in battery.at(kind, some)} for some in (battery.budgets[0], budget)]
    return tried[0] <= tried[1]


def _within(battery: Battery, kind: Threat, budget: str) -> str:
    """The accuracy under the worst attack of a kind within a budget, where it was tried with one."""
    worst = battery.worst(kind, budget) if budget in battery.budgets else None
    return NONE if worst is None else f"{worst.mean:.1f}"


def attacks_that_know(records: Path) -> str:
    """What each attack leaves of each defence after training, and before, at a budget that all were tried with."""
    graph = _graphs(records)[0]
    order = [row.defense for row in _rows(graph, records)]
    found = [battery for _, battery in _batteries(records) if battery.graph == graph]
    if not found:
        return "Nothing has been measured yet."
    found.sort(key=lambda one: order.index(_named(one)))
    shared = [one for one in found[0].budgets if all(one in battery.budgets for battery in found)]
    if not shared:
        return "No budget is common to all."
    budget = shared[len(shared) // 2]
    parts = []
    for kind in THREATS:
        attacks = dict.fromkeys(name for battery in found for name in battery.attacks)
        rows = [[attack, *(_left(battery, kind, budget, attack) for battery in found)] for attack in attacks]
        heads = [f"{kind}, {budget}", *(f"`{_named(one)}`" for one in found)]
        clean = ["clean", *(f"{one.clean.mean:.1f}" for one in found)]
        parts.append(table(heads, [clean, *rows]))
    return "\n\n".join(parts)


def _left(battery: Battery, kind: Threat, budget: str, attack: str) -> str:
    """The accuracy under an attack; the lowest of all is bold."""
    outcome = lowest(battery.at(kind, budget, attack))
    if outcome is None:
        return NONE
    worst = lowest(battery.at(kind, budget))
    return f"**{outcome.mean:.1f}**" if worst is not None and worst.attack == attack else f"{outcome.mean:.1f}"


def _graphs(records: Path) -> list[str]:
    known = {battery.graph for _, battery in _batteries(records)}
    return [*(graph for graph in _GRAPHS if graph in known), *sorted(known - set(_GRAPHS))] or ["cora"]


def _batteries(records: Path) -> Iterable[tuple[str, Battery]]:
    for path in sorted(records.glob("stress-*.jsonl")):
        for battery in batteries(_read(path)):
            yield path.name, battery


def _stressed(graph: str, records: Path) -> Iterable[Row]:
    for name, battery in _batteries(records):
        counted = [one for one in battery.outcomes if one.allowed <= LARGEST * battery.edges + 1e-9]
        worst = lowest(counted)
        if battery.graph != graph or worst is None:
            continue
        groups = {
            "blind": [one for one in counted if not one.adaptive],
            "evasion": [one for one in counted if one.adaptive and one.threat == "evasion"],
            "poisoning": [one for one in counted if one.adaptive and one.threat == "poisoning"],
        }
        yield Row(
            defense=_named(battery),
            clean=Figure(battery.clean.mean, name),
            attacked={group: _figure(found, name) for group, some in groups.items() if (found := lowest(some))},
            worst=_figure(worst, name),
            seconds=worst.seconds,
            command=battery.command,
            failed=bool(Stress(battery).failed),
        )


def _named(battery: Battery) -> str:
    return battery.defense.replace("no defence", "none").removesuffix(", gprgnn")


def _figure(outcome: Outcome, record: str) -> Figure:
    return Figure(outcome.mean, record, f"({outcome.attack})")


def _studied(graph: str, records: Path) -> Iterable[Row]:
    """What studies say of defences with the usual backbone: the clean graph, and the published poison."""
    found: dict[str, dict[bool, Figure]] = {}
    for study in _STUDIES:
        for record in _read(records / f"{study}.jsonl"):
            if _usual(record, graph) and record.mean is not None:
                attack, budget = threat(record.cell)
                if attack == "none" or (attack == _POISON[0] and budget in (0.0, _POISON[1])):
                    attacked = budget > 0
                    found.setdefault(record.cell["defense"], {}).setdefault(
                        attacked, Figure(record.mean, f"{study}.jsonl")
                    )
    for defense, figures in found.items():
        yield Row(defense, clean=figures.get(False), published=figures.get(True))


def _usual(record: Record, graph: str) -> bool:
    """Whether a cell is of a defence as it is, by default, with GPRGNN or a model of its own."""
    cell = record.cell
    return (
        (cell["graph"], cell["measure"], record.status) == (graph, "accuracy", "done")
        and cell["backbone"] in ("gprgnn", None)
        and cell["model"] in ("default", None)
        and not cell["parameters"]
        and not cell["training"]
        and not is_own_attack(cell["attack"])
    )


def _read(path: Path) -> tuple[Record, ...]:
    records, damages = read_records(path)
    if damages:
        raise GarnetError(f"Line {damages[0].line} of the record {path} is damaged: {damages[0].why}.")
    return tuple(latest(records).values())
