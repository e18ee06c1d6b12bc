"""The sections of a report on a study: curves, sweeps, runtimes, and the tables with the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from garnet.bench.cell import Facts, attack_name, attack_words, threat
from garnet.bench.record import Record
from garnet.bench.schema import TRAINED
from garnet.bench.table import Table, make_tables
from garnet.parameters import is_number
from garnet.report.charts import Bar, Line, bars, lines
from garnet.report.sections import Section, plural, table
from garnet.report.statistics import mean_interval


def study_sections(records: Sequence[Record], title: str, cells: int | None = None) -> list[Section]:
    """Verdict, accuracy against budget, sweeps of parameters, ranks, runtimes and tables.

    Args:
        records: of the cells that were run.
        title: of the tables.
        cells: how many cells the study has; None if all were run.
    """
    records = list({record.key: record for record in records}.values())
    done = [record for record in records if record.status == "done"]
    return [
        Section("", _verdict(records, done, cells or len(records))),
        *_charts("Accuracy against budget", "Mean over the seeds; bands are intervals at 95 %.", _by_budget(done)),
        *_charts("Sweeps", "Accuracy as one parameter changes; bands are intervals at 95 %.", _by_parameter(done)),
        *_charts("Rank", "What an attack does to the spectrum of the adjacency.", _ranks(done)),
        *_charts("Runtimes", _about_runtimes(done), _runtimes(done)),
        *(_table(one) for one in make_tables(title, records)),
    ]


def _verdict(records: Sequence[Record], done: Sequence[Record], cells: int) -> str:
    graphs = sorted({str(record.cell["graph"]) for record in records})
    text = f"{plural(len(done), 'cell')} of {cells:,} measured on {', '.join(graphs)}"
    best = max((record for record in done if record.mean is not None), key=lambda one: one.mean or 0.0, default=None)
    if best is not None and best.mean is not None:
        text += f"; the highest accuracy is {best.mean:.1f} % ({best})"
    failed = len(records) - len(done)
    return text + (f"; {failed:,} failed." if failed else ".")


def _charts(title: str, text: str, drawn: Iterable[Markup]) -> list[Section]:
    body = Markup().join(drawn)
    return [Section(title, text, Markup('<div class="pair">{}</div>').format(body), wide=True)] if body else []


def _by_budget(records: Sequence[Record]) -> Iterator[Markup]:
    """A chart for each graph, attack and backbone, a curve for each defence; what is alone shares a last chart."""
    for (graph, attack), group in _grouped(_accuracies(records), lambda cell: (cell["graph"], attack_name(cell))):
        others: list[Line] = []
        for (backbone,), part in _grouped(group, lambda cell: (cell["backbone"],)):
            series = _curves(part, lambda record: threat(record.cell)[1], partial(_defence, shown=_varying(part)))
            if backbone is None:
                others += series
            elif len(series) == 1:
                others.append(replace(series[0], name=f"{backbone} {series[0].name}"))
            elif series:
                yield lines(series, title=f"{graph}, {attack}, {backbone}", x="budget", y="accuracy, percent")
        if others:
            yield lines(others, title=f"{graph}, {attack}", x="budget", y="accuracy, percent")


def _varying(records: Sequence[Record]) -> set[str]:
    """The parameters that some defence has several values of, or not always; others say no more than its name."""
    varying: set[str] = set()
    for _, group in _grouped(records, lambda cell: (cell["defense"],)):
        given = [record.cell["parameters"] for record in group]
        names = {name for one in given for name in one}
        varying |= {name for name in names if len({json.dumps(one.get(name, "…")) for one in given}) > 1}
    return varying


def _by_parameter(records: Sequence[Record]) -> Iterator[Markup]:
    """A chart for each graph, attack and parameter that has several numbers where all else is equal."""
    for (graph, attack), group in _grouped(_accuracies(records), lambda cell: (cell["graph"], attack_words(cell))):
        for name in dict.fromkeys(name for record in group for name in record.cell["parameters"]):
            swept = [record for record in group if is_number(record.cell["parameters"].get(name))]

            def value(record: Record, name: str = name) -> float:
                return float(record.cell["parameters"][name])

            def label(cell: Facts, name: str = name) -> str:
                return _defence(cell, set(cell["parameters"]) - {name}, cell["backbone"])

            # Two defences may mean different things by one parameter: gamma is a score in one, a share in another.
            for (defense,), part in _grouped(swept, lambda cell: (cell["defense"],)):
                series = _curves(part, value, label)
                if series:
                    yield lines(
                        series, title=f"{graph}, {attack}, {defense}: {name}", x=name, y="accuracy, percent", wide=True
                    )


def _ranks(records: Sequence[Record]) -> Iterator[Markup]:
    ranked = [record for record in records if record.cell["measure"] == "rank"]
    for (graph, attack), group in _grouped(ranked, lambda cell: (cell["graph"], attack_name(cell))):
        group = sorted(group, key=lambda one: threat(one.cell)[1])
        budgets = [threat(record.cell)[1] for record in group]
        if len(group) > 1:
            counts = Line(name=graph, x=budgets, y=[record.values["rank"] for record in group])
            yield lines([counts], title=f"{graph}, {attack}: rank", x="budget", y="rank")
        spectra = [
            Line(name=f"budget {budget:g}", x=np.arange(1, len(values) + 1), y=values)
            for budget, record in zip(budgets, group, strict=True)
            if (values := record.values.get("singular_values"))
        ]
        if spectra:
            yield lines(spectra, title=f"{graph}, {attack}: singular values", x="number", y="value", points=False)


def _runtimes(records: Sequence[Record]) -> Iterator[Markup]:
    for (graph,), group in _grouped(records, lambda cell: (cell["graph"],)):
        entries = []
        for (name,), part in _grouped(group, lambda cell: (_defence(cell, set(), cell["backbone"]),)):
            seconds = [record.seconds["total"] for record in part if "total" in record.seconds]
            if seconds:
                mean = float(np.mean(seconds))
                ends = (min(seconds), max(seconds)) if len(seconds) > 1 else (None, None)
                entries.append(Bar(name=name, value=mean, low=ends[0], high=ends[1], note=f"{mean:.3g} s"))
        if entries:
            entries.sort(key=lambda one: one.value)
            yield bars(entries, title=f"{graph}: runtime", x="seconds")


def _about_runtimes(records: Sequence[Record]) -> str:
    text = "Seconds of a cell, all seeds together; whiskers are the least and the most."
    machines = {json.dumps(dict(record.machine), sort_keys=True) for record in records}
    return f"{text} They come from {len(machines)} machines, so compare with care." if len(machines) > 1 else text


def _table(one: Table) -> Section:
    rows = [[*row.labels, *map(str, row.entries)] for row in one.rows]
    return Section(one.title, " ".join(one.below), table(one.columns, rows, labels=one.labels), wide=True)


def _curves(records: Sequence[Record], place: Callable[[Record], float], label: Callable[[Facts], str]) -> list[Line]:
    """A curve for each label that has several places; accuracies at one place are pooled."""
    series = []
    for (name,), group in _grouped(records, lambda cell: (label(cell),)):
        pooled: dict[float, list[float]] = {}
        for record in sorted(group, key=place):
            pooled.setdefault(place(record), []).extend(record.values["accuracy"])
        if len(pooled) < 2:
            continue
        mean, low, high = zip(*(mean_interval(values) for values in pooled.values()), strict=True)
        sure = None not in low
        series.append(Line(name=name, x=list(pooled), y=mean, low=low if sure else None, high=high if sure else None))
    return series


def _grouped(records: Iterable[Record], key: Callable[[Facts], tuple[Any, ...]]) -> Iterator[tuple[Any, list[Record]]]:
    """Records with equal keys, in the order in which these are first seen."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(key(record.cell), []).append(record)
    yield from groups.items()


def _accuracies(records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.cell["measure"] in TRAINED]


def _defence(cell: Facts, shown: set[str], backbone: str | None = None) -> str:
    """A defence in a few words, with those of its parameters that are to be shown."""
    usual = "paper" if cell["defense"].endswith("-paper") else "default"
    model = f" ({cell['model']})" if cell["model"] not in (usual, None) else ""
    given = [f"{name}={value}" for name, value in cell["parameters"].items() if name in shown]
    given += [f"{name}={json.dumps(value)}" for name, value in cell["training"].items()]
    return " ".join([*([backbone] if backbone else []), f"{cell['defense']}{model}", *given])
