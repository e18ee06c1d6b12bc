"""Tables of records, with the paper's numbers beside ours."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from garnet.bench import published
from garnet.bench.cell import EVASION, Facts, attack_name, attack_words, describe, key_of, threat
from garnet.bench.entry import MISSING, Entry, Row
from garnet.bench.record import Record, spread
from garnet.bench.schema import TRAINED
from garnet.bench.unit_test_layout import UnitTestLayout, is_of_unit_test
from garnet.errors import GarnetError

_MOST_ENTRIES = 100_000


@dataclass(frozen=True)
class Table:
    """A table as plain text.

    Attributes:
        title: what stands above it.
        columns: heads, of the labels first.
        labels: how many columns are labels.
        rows: from top to bottom.
        below: lines that stand below it.
    """

    title: str
    columns: tuple[str, ...]
    labels: int
    rows: tuple[Row, ...]
    below: tuple[str, ...]


def make_tables(
    title: str, records: Iterable[Record], *, cells: Sequence[Facts] | None = None, note: str = ""
) -> tuple[Table, ...]:
    """A table for each measure, and for each graph of the unit test.

    Args:
        title: of all of them.
        records: one a cell.
        cells: facts of the cells that the tables should have; None takes those of the records.
        note: shown below.

    Raises:
        GarnetError: a table would be too large to show.
    """
    found = {record.key: record for record in records}
    wanted = [record.cell for record in found.values()] if cells is None else list(cells)
    kinds: dict[tuple[str, str], list[Facts]] = {}
    for facts in wanted:
        kinds.setdefault((facts["measure"], facts["graph"] if is_of_unit_test(facts) else ""), []).append(facts)
    return tuple(_table(title, note, some, found) for some in kinds.values())


def as_markdown(table: Table) -> str:
    """The table in Markdown, with its title and the lines below it."""
    lines = [_line(table.columns), _line("---" if n < table.labels else "---:" for n in range(len(table.columns)))]
    lines += [_line([*row.labels, *map(str, row.entries)]) for row in table.rows]
    return "\n".join([f"**{table.title}**", "", *lines, "", *(f"{line}\n" for line in table.below)])


def _line(parts: Iterable[str]) -> str:
    return f"| {' | '.join(part.replace('|', chr(92) + '|') for part in parts)} |"


def _table(title: str, note: str, cells: Sequence[Facts], found: Mapping[str, Record]) -> Table:
    layout = _layout(cells)
    places: dict[tuple[tuple[str, ...], str], list[Facts]] = {}
    for facts in cells:
        for row, column in product(layout.rows_of(facts), layout.columns_of(facts)):
            places.setdefault((row, column), []).append(facts)
    labels = sorted(dict.fromkeys(row for row, _ in places), key=layout.order)
    columns = dict.fromkeys(column for _, column in places)
    if len(labels) * len(columns) > _MOST_ENTRIES:
        raise GarnetError(f"A table of {len(labels):,} rows and {len(columns):,} columns is too large to show.")
    rows = [
        Row(row, tuple(layout.entry(row, column, places.get((row, column), []), found) for column in columns))
        for row in labels
    ]
    heads: tuple[str, ...] = layout.heads
    # A label that all rows leave empty says nothing.
    shown = [n for n in range(len(heads)) if any(row.labels[n] for row in rows)]
    rows = [Row(tuple(row.labels[n] for n in shown), row.entries) for row in rows]
    heads = tuple(heads[n] for n in shown)
    measured = [found[key] for facts in cells if (key := key_of(facts)) in found]
    below = (*([note] if note else []), *layout.legend(rows), *_provenance(measured), *_failures(measured))
    return Table(layout.title(title), (*heads, *columns), len(heads), tuple(rows), below)


def _layout(cells: Sequence[Facts]) -> _Accuracy | _Plain | UnitTestLayout:
    if is_of_unit_test(cells[0]):
        return UnitTestLayout(cells)
    return _Accuracy(cells) if cells[0]["measure"] in TRAINED else _Plain(cells)


class _InOrder:
    """A layout that has the title of the study, and rows in the order of its cells."""

    def title(self, study: str) -> str:
        return study

    def order(self, row: tuple[str, ...]) -> float:
        return 0.0


class _Accuracy(_InOrder):
    """Rows of models and defences, columns of graphs and attacks."""

    heads = ("backbone", "defence", "parameters", "model")

    def __init__(self, cells: Sequence[Facts]) -> None:
        self._swept = _varying(cells, "parameters")
        self._trained = _varying(cells, "training")
        self._evasion = cells[0]["measure"] == EVASION
        self._seeds = len({tuple(facts["seeds"]) for facts in cells}) > 1
        self._models = len({facts["model"] for facts in cells if facts["model"]}) > 1
        splits: dict[str, set[str]] = {}
        for facts in cells:
            splits.setdefault(facts["graph"], set()).add(_family(facts["split"]))
        self._split_counts = {graph: len(found) for graph, found in splits.items()}
        self._settings = self._unseen(cells)

    def rows_of(self, facts: Facts) -> tuple[tuple[str, ...], ...]:
        given = {name: value for name, value in facts["parameters"].items() if name in self._swept_of(facts)}
        trained = self._trained.get(facts["defense"], set())
        given |= {name: value for name, value in facts["training"].items() if name in trained}
        if self._seeds:
            given["seeds"] = _seeds(facts["seeds"])
        return ((facts["backbone"] or "", facts["defense"], _assigned(given), (facts["model"] or "") * self._models),)

    def columns_of(self, facts: Facts) -> tuple[str, ...]:
        split = _family(facts["split"]) if self._split_counts[facts["graph"]] > 1 else ""
        return (" ".join(part for part in (facts["graph"], split, _attack(facts)) if part),)

    def entry(self, row: tuple[str, ...], column: str, cells: Sequence[Facts], found: Mapping[str, Record]) -> Entry:
        """The mean over seeds, and over numbered splits where there are several."""
        if not cells:
            return Entry()
        # Beside a sweep the paper's number, which has one setting, would mislead; features are rows of its table 10.
        swept = self._swept_of(cells[0]) - {"features"}
        paper = None if swept & cells[0]["parameters"].keys() else published.accuracy(cells[0])
        beside = "" if paper is None else f"{paper.mean:.2f} ± {paper.sd:.2f}"
        records = [found[key] for facts in cells if (key := key_of(facts)) in found]
        done = [record for record in records if record.status == "done"]
        if not done:
            return Entry("failed" if records else MISSING, beside)
        mean, sd = spread([one for record in done for one in record.values["accuracy"]])
        if mean is None:
            return Entry(MISSING, beside)
        part = "" if len(done) == len(cells) else f" [{len(done)} of {len(cells)} splits]"
        text = f"{mean:.1f}" + ("" if sd is None else f" ± {sd:.1f}") + part
        mark = "" if paper is None else _mark(mean - paper.mean, sd or 0.0, paper.sd)
        return Entry(text, beside, mark, tuple(one for record in done for one in _drawn(record)))

    def legend(self, rows: Sequence[Row]) -> list[str]:
        entries = [entry for row in rows for entry in row.entries]
        text = "Accuracy in percent, mean ± standard deviation over the seeds"
        if self._evasion:
            text += ", of models that were trained on the clean graph and are attacked afterwards"
        if any(entry.paper for entry in entries):
            text += "; in brackets, the paper's"
        if any(entry.mark for entry in entries):
            text += "; ▲ above, ▼ below it by more than two standard deviations of the difference"
        return [f"{text}.", *self._settings]

    def _unseen(self, cells: Sequence[Facts]) -> list[str]:
        """Settings that no row shows, because a defence has the same ones in all cells of a graph."""
        unseen: dict[str, dict[str, None]] = {}
        for facts in cells:
            shown = {"parameters": self._swept_of(facts), "training": self._trained.get(facts["defense"], set())}
            given = {k: v for part, names in shown.items() for k, v in facts[part].items() if k not in names}
            if given:
                unseen.setdefault(f"{facts['defense']}, {_assigned(given)}", {})[facts["graph"]] = None
        told = "; ".join(f"{one} on {', '.join(graphs)}" for one, graphs in unseen.items())
        return [f"Settings: {told}."] if told else []

    def _swept_of(self, facts: Facts) -> set[str]:
        return self._swept.get(facts["defense"], set())


_LEGENDS = {
    "homophily": "Share of edges between nodes of one class, each edge once; in brackets, the paper's.",
    "recovery": "Two-hop neighbourhoods of the clean graph: mean over all nodes; in brackets, the paper's over five.",
    "rank": "Singular values of the adjacency above a millionth of the largest, by budget.",
}
_COLUMNS = {"homophily": ("clean", "input", "after"), "recovery": ("recall", "precision")}


class _Plain(_InOrder):
    """Rows of cells, columns of what was measured of each; ranks have a column a budget."""

    heads = ("graph", "attack", "backbone", "defence", "parameters")

    def __init__(self, cells: Sequence[Facts]) -> None:
        self._measure = cells[0]["measure"]

    def rows_of(self, facts: Facts) -> tuple[tuple[str, ...], ...]:
        if self._measure == "rank":
            return ((facts["graph"], "" if facts["attack"] == "none" else facts["attack"], "", "", ""),)
        given = _assigned(facts["parameters"])
        return ((facts["graph"], _attack(facts), facts["backbone"] or "", facts["defense"], given),)

    def columns_of(self, facts: Facts) -> tuple[str, ...]:
        return _COLUMNS.get(self._measure) or (f"{facts['budget']:g}" if facts["budget"] else "clean",)

    def entry(self, row: tuple[str, ...], column: str, cells: Sequence[Facts], found: Mapping[str, Record]) -> Entry:
        if not cells:
            return Entry()
        paper = published.other(cells[0], column)
        beside = "" if paper is None else f"{paper:.2f}"
        record = found.get(key_of(cells[0]))
        if record is None or record.status == "failed":
            return Entry("failed" if record else MISSING, beside)
        if self._measure == "rank":
            return Entry(str(record.values["rank"]), beside)
        value = record.values.get(column)
        return Entry(MISSING if value is None else f"{value:.2f}", beside)

    def legend(self, rows: Sequence[Row]) -> list[str]:
        return [_LEGENDS[self._measure]]


def _drawn(record: Record) -> Iterator[tuple[str, float]]:
    """The accuracy of each model, with what was drawn for it."""
    for number, accuracy in enumerate(record.values["accuracy"]):
        seed = record.seeds[number] if number < len(record.seeds) else number
        yield f"{record.cell['split'] or ''} {seed}", float(accuracy)


def _varying(cells: Sequence[Facts], part: str) -> dict[str, set[str]]:
    """The parameters of each defence, or its training, that differ between cells of one graph; features always count.

    What differs from graph to graph alone makes no row of its own; a line below the table says it.
    """
    seen: dict[tuple[str, str], list[Facts]] = {}
    for facts in cells:
        seen.setdefault((facts["defense"], facts["graph"]), []).append(facts[part])
    varying: dict[str, set[str]] = {}
    for (defense, _), given in seen.items():
        names = {name for one in given for name in one}
        varying.setdefault(defense, set()).update(
            name for name in names if name == "features" or len({str(one.get(name, ...)) for one in given}) > 1
        )
    return varying


def _attack(facts: Facts) -> str:
    attack, budget = threat(facts)
    return f"{attack_name(facts)} clean" if attack != "none" and not budget else attack_words(facts)


def _family(split: str | None) -> str:
    """The split without its number: numbered splits are repetitions of one experiment."""
    return re.sub(r"^(geom-gcn|unit-test)-\d$", r"\1", split or "")


def _assigned(parameters: Facts) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in parameters.items())


def _value(value: Any) -> str:
    """A value as a study has it: `none` and `-1e9`, where Python writes None and -1000000000.0."""
    if isinstance(value, float) and float(short := f"{value:g}".replace("e+0", "e")) == value:
        return short
    return "none" if value is None else str(value)


def _mark(difference: float, ours: float, theirs: float) -> str:
    if abs(difference) <= 2 * math.hypot(ours, theirs):
        return ""
    return "▲" if difference > 0 else "▼"


def _failures(records: Sequence[Record]) -> list[str]:
    return [f"Failed: {describe(record.cell)}: {record.reason}" for record in records if record.status == "failed"]


def _provenance(records: Sequence[Record]) -> list[str]:
    """Seeds, machines and versions of all records."""
    if not records:
        return ["Nothing has been measured yet."]
    told = {
        "Seeds": _distinct(_seeds(record.seeds) for record in records),
        "Measured on": _distinct(_machine(record.machine) for record in records),
        "Versions:": _distinct(_versions(record.versions) for record in records),
    }
    return [" ".join(f"{what} {'; and '.join(texts)}." for what, texts in told.items() if texts)]


def _distinct(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]


def _seeds(seeds: Sequence[int]) -> str:
    run = list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))) if seeds else False
    return f"{seeds[0]} to {seeds[-1]}" if run and len(seeds) > 2 else ", ".join(map(str, seeds))


def _machine(facts: Mapping[str, Any]) -> str:
    gpu = f" with one {facts['gpu']}" if facts.get("gpu") else ""
    cores = "1 core" if facts.get("cores") == 1 else f"{facts.get('cores')} cores"
    return f"{facts.get('processor')}, {cores}, {facts.get('memory_gb')} GB{gpu}"


def _versions(found: Mapping[str, Any]) -> str:
    """What was installed; a package that was not has no version."""
    return ", ".join(f"{name} {version}" for name, version in found.items() if version is not None)
