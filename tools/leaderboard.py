"""The leaderboard in Markdown: one row a defence, the accuracy under the worst attack decides.

`tools.tables` puts it into docs/results/leaderboard.md. Records of `garnet stress` are results/stress-*.jsonl;
published poisons, and clean graphs where a defence has not been stressed, come from studies.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from garnet.bench.cell import is_own_attack, threat
from garnet.bench.opponents import THREATS
from garnet.bench.outcomes import Battery, Outcome, lowest, tried
from garnet.bench.record import Record
from garnet.errors import GarnetError
from tools.markdown import NONE, table
from tools.stressed import Stressed, in_order, read, stressed

LARGEST = 0.1
"""Share of the edges up to which attacks count, so that a row is not the worse for having been tried with more."""

WARNING = "⚠"
NOTES = {
    WARNING: "A check of the stress test failed: the true worst case is probably lower.",
    "†": "Not attacked by a search that asks the defence, the strongest attack elsewhere.",
    "‡": "Attempts failed: the true worst case may be lower.",
    "→": "Made for the other threat.",
}
"""What the signs of a board mean."""

_STUDIES = ("leave-it-on", "citations", "heterophilic", "polblogs")
_LISTS = ("--attacks", "--budgets")
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
        attacked: the lowest of each group of attacks: `blind`, `evasion` and `poisoning`, which are those made for the
            defence, by the threat that the figure is for, and `transferred`, those made for other defences.
        worst: the lowest of `attacked`; the published poison, which may change more edges, is not counted.
        seconds: that the worst attack took.
        attacks: how many were tried on it; None if it was not stressed.
        commands: that make the row again, one for each addition to it that no later one repeats.
        marks: what has to be said of the worst case: keys of `NOTES`.
    """

    defense: str
    clean: Figure | None = None
    published: Figure | None = None
    attacked: Mapping[str, Figure] = field(default_factory=dict)
    worst: Figure | None = None
    seconds: float | None = None
    attacks: int | None = None
    commands: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def cells(self) -> list[str]:
        """The row as the table has it."""
        worst = NONE if self.worst is None else " ".join([f"**{self.worst}**", *self.marks])
        groups = [str(self.attacked.get(group, NONE)) for group in _GROUPS]
        seconds = NONE if self.seconds is None else f"{self.seconds:.0f}"
        attacks = NONE if self.attacks is None else str(self.attacks)
        first = [f"`{self.defense}`", str(self.clean or NONE), worst, seconds]
        return [*first, str(self.published or NONE), *groups, attacks]


def leaderboard(records: Path) -> str:
    """A table for each graph that something is known of, and the commands that make the rows again."""
    boards = {graph: ranked(graph, records) for graph in _graphs(records)}
    return "\n\n".join(_board(graph, rows) for graph, rows in boards.items() if rows)


def _board(graph: str, rows: Sequence[Row]) -> str:
    # What decides comes first, so that it is seen where a table is wider than the page.
    heads = ["defence", "clean", "**worst**", "seconds", "published poison", *_GROUPS.values(), "attacks"]
    shown = table(heads, [row.cells() for row in rows])
    parts = [f"## {graph.capitalize()}", shown]
    commands = [command for row in rows for command in row.commands]
    if commands:
        parts.append("\n".join(["<!-- not run: takes hours -->", "```shell", *commands, "```"]))
    if notes := [f"{sign} {note}" for sign, note in NOTES.items() if sign in shown]:
        parts.append("  \n".join(notes))
    return "\n\n".join(parts)


def ranked(graph: str, records: Path) -> list[Row]:
    """The rows of a graph, the most robust first.

    Below them stand those that were attacked in one way alone, whose worst is yet to be seen, and then those that
    nobody has stressed.
    """
    found = {row.defense: row for row in _studied(graph, records)}
    for row in _stressed(graph, records):
        before = found.get(row.defense, row)
        found[row.defense] = replace(row, published=before.published, clean=row.clean or before.clean)
    for defense, (clean, figure) in _transferred(graph, records).items():
        row = found.get(defense, Row(defense))
        row = replace(row, clean=row.clean or clean)
        harder = figure is not None and (row.worst is None or figure.value < row.worst.value)
        found[defense] = (
            row
            if figure is None
            else replace(
                row,
                attacked={**row.attacked, "transferred": figure},
                worst=figure if harder else row.worst,
                seconds=None if harder else row.seconds,
            )
        )
    return sorted(found.values(), key=_robust_first)


def _transferred(graph: str, records: Path) -> dict[str, tuple[Figure, Figure | None]]:
    """Each defence that benchmarks/transfer.py was run on: as it is, and under flips that were made for others."""
    path = records / f"transfer-{graph}.json"
    if not path.exists():
        return {}
    found = {}
    for defense, tried_on in json.loads(path.read_text())["figures"].items():
        # Older records do not say; they have what was the usual.
        if (budget := tried_on.get("budget", LARGEST)) > LARGEST:
            raise GarnetError(
                f"The record {path} has {defense} with {100 * budget:g} % of the edges flipped, more than the "
                f"{100 * LARGEST:g} % of the board; run benchmarks/transfer.py with --budget {LARGEST:g}."
            )
        lowest_first = sorted(
            (left, kind, made_for)
            for kind in THREATS
            for left, made_for, _ in tried_on[kind]
            if made_for.removesuffix(", gprgnn") != defense
        )
        worst = None
        if lowest_first:
            left, kind, made_for = lowest_first[0]
            worst = Figure(left, path.name, f"({kind}, for {made_for})")
        found[defense] = Figure(tried_on["clean"], path.name), worst
    return found


def _robust_first(row: Row) -> tuple[bool, float, str]:
    both = "evasion" in row.attacked and "poisoning" in row.attacked
    return not both, -(row.worst.value if row.worst else -1.0), row.defense


def _graphs(records: Path) -> list[str]:
    others = (path.stem.removeprefix("transfer-") for path in records.glob("transfer-*.json"))
    return in_order([*(one.battery.graph for one in stressed(records)), *others]) or ["cora"]


def _stressed(graph: str, records: Path) -> Iterable[Row]:
    for one in stressed(records):
        battery = one.battery
        if battery.graph != graph:
            continue
        counted = [each for each in battery.outcomes if each.allowed <= _most(battery)]
        worst = lowest(counted)
        groups = {
            "blind": [each for each in counted if not each.adaptive],
            "evasion": [each for each in counted if each.adaptive and each.threat == "evasion"],
            "poisoning": [each for each in counted if each.adaptive and each.threat == "poisoning"],
        }
        yield Row(
            defense=one.name,
            clean=Figure(battery.clean.mean, one.file),
            attacked={group: _figure(found, one.file) for group, some in groups.items() if (found := lowest(some))},
            worst=None if worst is None else _figure(worst, one.file),
            seconds=None if worst is None else worst.seconds,
            attacks=len(tried(counted)),
            commands=tuple(_commands(battery)),
            marks=tuple(_marks(one, counted)),
        )


def _most(battery: Battery) -> float:
    """Flips up to which attacks count."""
    return LARGEST * battery.edges + 1e-9


def _commands(battery: Battery) -> Iterable[str]:
    """The commands by which the attacks were made that count, but for those that a later one repeats.

    Attacks without limit count, too: a check depends on them.
    """
    made = (one for one in battery.records if one.cell["role"] in ("attack", "unbounded") and one.status == "done")
    counted = (one for one in made if one.cell["role"] == "unbounded" or one.values["allowed"] <= _most(battery))
    asked = list(dict.fromkeys(said for one in counted if (said := one.parameters.get("command"))))
    for place, command in enumerate(asked or filter(None, [battery.command])):
        if not any(_repeats(later, command) for later in asked[place + 1 :]):
            yield command


def _repeats(command: str, other: str) -> bool:
    """Whether a command asks for all that another does, whatever file they write to."""
    (rest, lists), (others, wanted) = (_parts(one) for one in (command, other))
    same = others in (rest, [word for word in rest if word != "--unbounded"])
    return same and all(_within(wanted[name], lists[name]) for name in _LISTS)


def _within(some: set[str] | None, others: set[str] | None) -> bool:
    """Whether a list has no more than another; one that a command leaves out has all that fit."""
    return others is None or (some is not None and some <= others)


def _parts(command: str) -> tuple[list[str], dict[str, set[str] | None]]:
    """The words of a command but for its output, and what its lists have; None for a list that it leaves out."""
    rest, lists = [], dict[str, set[str] | None](dict.fromkeys(_LISTS))
    words = iter(shlex.split(command))
    for word in words:
        if word in _LISTS:
            lists[word] = set(next(words, "").split(","))
        elif word in ("-o", "--output"):
            next(words, None)
        else:
            rest.append(word)
    return rest, lists


def _marks(one: Stressed, counted: Sequence[Outcome]) -> Iterable[str]:
    if one.found.failed:
        yield WARNING
    if any(each.threat == "evasion" for each in counted) and not any(each.asks for each in counted):
        yield "†"
    if one.battery.failures:
        yield "‡"


def _figure(outcome: Outcome, record: str) -> Figure:
    return Figure(outcome.mean, record, f"({'→ ' if outcome.transferred else ''}{outcome.attack})")


def _studied(graph: str, records: Path) -> Iterable[Row]:
    """What studies say of defences with the usual backbone: the clean graph, and the published poison."""
    found: dict[str, dict[bool, Figure]] = {}
    for study in _STUDIES:
        for record in read(records / f"{study}.jsonl"):
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
