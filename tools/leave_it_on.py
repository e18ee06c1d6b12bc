"""The study leave-it-on in Markdown: what each defence costs where nobody attacks, and gains where somebody does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from garnet.bench.cell import threat
from garnet.bench.record import Record
from garnet.bench.shipped import study_file
from garnet.bench.study import load_study
from tools.markdown import NONE, table
from tools.records import Cells

RECORD = "leave-it-on.jsonl"
_MEMBERS = "leave-it-on-members.jsonl"  # of a committee whose members are the answer, `leeway=None`
COMMAND = "garnet bench run leave-it-on"
CHOSEN_ON = ("cora", "citeseer", "chameleon", "squirrel", "polblogs", "acm", "texas")
"""Graphs on which the defaults were chosen, or that led to one of them; the others of the study confirm them."""

_UNMEASURED = f"Nothing of this has been measured yet; `{COMMAND}` does."
_DEFENSES = {
    "none": "no defence",
    "garnet": "`GARNET()`",
    "audited": "`Audited()`",
    "rung": "RUNG",
    "committee": "**committee**",
}
_SHORTLY = ("none", "garnet", "committee")
_ATTACKS = {"metattack": "Metattack", "nettack": "Nettack", "prbcd": "PR-BCD"}
_USUAL_BUDGETS = {"metattack": 0.2, "nettack": 5.0, "prbcd": 0.1}  # those that all graphs of an attack have
_ABBREVIATIONS = ("acm", "dblp", "uai")


@dataclass(frozen=True, eq=False)
class Row:
    """One graph, as it is or under one attack, and what each defence has there.

    Attributes:
        graph: its name in the catalogue.
        attack: name of the attack; `none` if there is none.
        budget: of the attack; with 0 nobody attacks, but the test nodes are those that the attack aims at.
        found: what was measured, by defence.
    """

    graph: str
    attack: str
    budget: float
    found: Mapping[str, Record]

    @property
    def attacked(self) -> bool:
        """Whether somebody attacks."""
        return self.budget > 0

    @property
    def usual(self) -> bool:
        """Whether the attack has the budget that stands for it where there is no room for all budgets."""
        return self.budget == _USUAL_BUDGETS.get(self.attack)

    @property
    def graph_label(self) -> str:
        """The graph as pages write it."""
        return self.graph.upper() if self.graph in _ABBREVIATIONS else self.graph.capitalize()

    @property
    def attack_label(self) -> str:
        """The attack as pages write it, such as `Metattack 20 %`."""
        if not self.attacked:
            return "clean" if self.attack == "none" else f"clean, {_ATTACKS[self.attack]}'s targets"
        shown = f"{self.budget:g}" if self.attack == "nettack" else f"{100 * self.budget:g} %"
        return f"{_ATTACKS[self.attack]} {shown}"

    @property
    def label(self) -> str:
        """The graph, and the attack if there is one."""
        return f"{self.graph_label} {self.attack_label}" if self.attacked else self.graph_label

    def accuracy(self, defense: str) -> float | None:
        """Mean accuracy with a defence in percent; None where it was not measured."""
        return self.found[defense].mean if defense in self.found else None

    def gain(self, defense: str, over: Sequence[str] = ("none",)) -> float | None:
        """Points that a defence has over the best of some others; None unless all of them were measured."""
        own, others = self.accuracy(defense), [self.accuracy(other) for other in over]
        known = [other for other in others if other is not None]
        return None if own is None or len(known) < len(others) else own - max(known)

    def outcomes(self, defenses: Iterable[str], *, sd: bool = True) -> list[str]:
        """The accuracies with some defences, ready to be shown."""
        return [_accuracy(self.found.get(defense), sd=sd) for defense in defenses]


def measured_rows(cells: Cells, backbone: str = "gprgnn") -> list[Row]:
    """The rows of a backbone, graph by graph as the study names them; defences without one stand by GPRGNN."""
    models = (backbone, None) if backbone == "gprgnn" else (backbone,)
    found: dict[tuple[str, str, float], dict[str, Record]] = {}
    for cell in load_study(study_file("leave-it-on")).cells:
        if cell.backbone in models:
            here = found.setdefault((cell.graph, *threat(cell.facts())), {})
            if (record := cells.at(cell)) is not None:
                here[cell.defense] = record
    graphs = list(dict.fromkeys(graph for graph, *_ in found))
    rows = [Row(*place, records) for place, records in found.items()]
    return sorted(rows, key=lambda row: graphs.index(row.graph))


def clean_row(row: Row, rows: Iterable[Row]) -> Row:
    """The row of the same graph where nobody attacks, tested on the same nodes if it is there."""
    clean = {one.attack: one for one in rows if one.graph == row.graph and not one.attacked}
    return clean[row.attack] if row.attack in clean else clean["none"]


def mean_gain(defense: str, rows: Iterable[Row]) -> float | None:
    """Points that a defence has over none, on the mean of the rows where both were measured; None if none has both."""
    gains = [gain for row in rows if (gain := row.gain(defense)) is not None]
    return fmean(gains) if gains else None


def signed(value: float | None) -> str:
    """Points with their sign, ready to be shown."""
    return NONE if value is None else f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")  # +0.0: no -0.0


def picture(cells: Cells) -> str:
    """The figure and a link to the record, as a page in docs/results shows them."""
    cells.some(defense="committee")
    return (
        "![Cost on clean graphs against gain under attack, one panel a defence](../figures/leave-it-on.svg)\n\n"
        f"All of this page but LINKX is from [`results/{RECORD}`](../../results/{RECORD})."
    )


def in_short(cells: Cells) -> str:
    """Each graph clean and under the attacks, with no defence, `GARNET()` and the committee."""
    rows = measured_rows(cells)
    shown = [
        [
            row.graph_label, row.attack_label,
            *clean_row(row, rows).outcomes(_SHORTLY, sd=False), *row.outcomes(_SHORTLY, sd=False),
        ]
        for row in rows if row.usual
    ]  # fmt: skip
    names = [_DEFENSES[defense] for defense in _SHORTLY]
    heads = ["GPRGNN on", "under", f"clean: {names[0]}", *names[1:], f"attacked: {names[0]}", *names[1:]]
    on_clean = _sentence("clean graphs", [row for row in rows if row.attack == "none"])
    under_attack = _sentence("attacked ones", [row for row in rows if row.attacked])
    return f"{table(heads, shown, labels=2)}\n\n{on_clean} {under_attack}"


def costs(cells: Cells) -> str:
    """What each defence changes on the clean graphs: means of those chosen on, of the others and of all; the worst."""
    shown: list[list[str]] = []
    for backbone in ("gprgnn", "gcn"):
        clean = [row for row in measured_rows(cells, backbone) if row.attack == "none"]
        for defense, label in _DEFENSES.items():
            gains = {row: gain for row in clean if (gain := row.gain(defense)) is not None}
            if defense == "none" or not gains:
                continue
            chosen = [row for row in clean if row.graph in CHOSEN_ON]
            confirming = [row for row in clean if row.graph not in CHOSEN_ON]
            means = [signed(mean_gain(defense, some)) for some in (chosen, confirming, clean)]
            worst = min(gains, key=lambda row: gains[row])
            shown.append([backbone.upper(), label, *means, f"{signed(gains[worst])} ({worst.graph_label})"])
    heads = ["backbone", "defence", "graphs chosen on", "confirming graphs", "all", "at worst"]
    return table(heads, shown, labels=2)


def clean(cells: Cells) -> str:
    """All defences where nobody attacks."""
    return _everything(row for row in measured_rows(cells) if not row.attacked)


def attacked(cells: Cells) -> str:
    """All defences where somebody does."""
    return _everything(row for row in measured_rows(cells) if row.attacked)


def against_the_better(cells: Cells) -> str:
    """The committee beside the better of no defence and `GARNET()`, and beside RUNG, attack by attack."""
    rows = [row for row in measured_rows(cells) if row.attacked]
    over = {row: row.gain("committee", ("none", "garnet")) for row in rows}
    shown = [
        [
            row.label, *row.outcomes(("none", "garnet", "rung", "committee"), sd=False),
            signed(over[row]), signed(row.gain("committee", ("rung",))),
        ]
        for row in rows
    ]  # fmt: skip
    heads = ["GPRGNN on", *(_DEFENSES[defense] for defense in ("none", "garnet", "rung", "committee"))]
    compared = [row for row in rows if over[row] is not None]
    ahead = [row for row in compared if row not in _behind(compared, ("none", "garnet"))]
    return (
        f"{table([*heads, 'over the better of the first two', 'over RUNG'], shown)}\n\n"
        f"The committee is at least as good as the better of no defence and `GARNET()` in {len(ahead)} of "
        f"{len(compared)} rows. {_told_behind(compared, ('none', 'garnet'), 'Behind it in')} "
        f"{_told_behind(rows, ('rung',), 'Behind RUNG in')}"
    )


def with_gcn(cells: Cells) -> str:
    """The same with GCN as the backbone, where it was measured."""
    rows = measured_rows(cells, "gcn")
    shown = [[row.graph_label, row.attack_label, *row.outcomes(_SHORTLY)] for row in rows]
    return table(["GCN on", "", *(_DEFENSES[defense] for defense in _SHORTLY)], shown, labels=2)


def beliefs(records: Path) -> str:
    """The committee beside what it was when its members were the answer."""
    now, before = (records / name for name in (RECORD, _MEMBERS))
    if not now.exists() or not before.exists():
        return _UNMEASURED
    theirs = {(row.graph, row.attack, row.budget): row for row in measured_rows(Cells(before, COMMAND))}
    shown, gains = [], {True: list[float](), False: list[float]()}
    for row in measured_rows(Cells(now, COMMAND)):
        own, other = row.accuracy("committee"), theirs[row.graph, row.attack, row.budget].accuracy("committee")
        if own is not None and other is not None:
            gains[row.attacked].append(own - other)
            shown.append([row.graph_label, row.attack_label, f"{other:.1f}", f"{own:.1f}", signed(own - other)])
    told = ", ".join(
        f"{signed(fmean(some))} points on the mean {where}"
        for where, some in (("where nobody attacks", gains[False]), ("where somebody does", gains[True]))
        if some
    )
    return f"{table(['GPRGNN on', '', 'members alone', 'beliefs', 'points'], shown, labels=2)}\n\nThat is {told}."


def _everything(rows: Iterable[Row]) -> str:
    shown = [
        [f"{row.graph_label}{'' if row.graph in CHOSEN_ON else ' *'}", row.attack_label, *row.outcomes(_DEFENSES)]
        for row in rows
    ]
    return table(["GPRGNN on", "", *_DEFENSES.values()], shown, labels=2)


def _sentence(where: str, rows: Iterable[Row]) -> str:
    """What the committee and `GARNET()` change on some graphs, on the mean and at worst."""
    compared = [row for row in rows if row.found.keys() >= set(_SHORTLY)]
    told = []
    for defense, name in (("committee", "the committee"), ("garnet", "`GARNET()`")):
        gains = {row: row.gain(defense) or 0.0 for row in compared}
        worst = min(gains, key=lambda row: gains[row], default=None)
        if worst is not None:
            mean, least = _changes(fmean(gains.values())), _changes(gains[worst])
            told.append(f"{name} {mean} points on the mean and {least} at worst ({worst.label})")
    return f"On {len(compared)} {where} {'; '.join(told)}." if told else ""


def _behind(rows: Iterable[Row], others: Sequence[str]) -> dict[Row, float]:
    """The rows in which the committee has less than the best of some others by what is shown, the worst first."""
    gains = {row: round(gain, 1) for row in rows if (gain := row.gain("committee", others)) is not None}
    return {row: gains[row] for row in sorted(gains, key=lambda row: gains[row]) if gains[row] < 0}


def _told_behind(rows: Sequence[Row], others: Sequence[str], what: str) -> str:
    behind = _behind(rows, others)
    told = "; ".join(f"{row.label} ({signed(gain)})" for row, gain in behind.items())
    return f"{what}: {told or 'none'}."


def _accuracy(record: Record | None, *, sd: bool) -> str:
    if record is None or record.mean is None:
        return NONE
    return f"{record.mean:.1f} ± {record.sd:.1f}" if sd and record.sd is not None else f"{record.mean:.1f}"


def _changes(gain: float) -> str:
    return f"{'loses' if round(gain, 1) < 0 else 'gains'} {abs(gain):.1f}"


def _of_the_record(write: Callable[[Cells], str]) -> Callable[[Path], str]:
    """A block of the study's record, or a sentence where that is not there."""

    def block(records: Path) -> str:
        path = records / RECORD
        return write(Cells(path, COMMAND)) if path.exists() else _UNMEASURED

    return block


BLOCKS: dict[str, Callable[[Path], str]] = {
    name: _of_the_record(write)
    for name, write in {
        "leave it on": in_short,
        "leave it on: picture": picture,
        "leave it on: costs": costs,
        "leave it on: clean": clean,
        "leave it on: attacked": attacked,
        "leave it on: against the better": against_the_better,
        "leave it on: with GCN": with_gcn,
    }.items()
} | {"leave it on: beliefs": beliefs}
"""By the name that a page says."""
