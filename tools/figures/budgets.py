"""Accuracy against the budget of the attack: tables 7 and 8 of the paper as curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from garnet.bench.record import Record
from tools.figures.canvas import LOOKS, PAPERS, drawn_in, legend, sheet
from tools.records import Cells, in_paper, mean_sd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOOP = "for g in cora citeseer pubmed chameleon squirrel; do garnet bench run table-{}-$g; done"
NETTACK_COMMAND, METATTACK_COMMAND = _LOOP.format(7), _LOOP.format(8)
_CITATIONS, _WIKIPEDIA = ("cora", "citeseer", "pubmed"), ("chameleon", "squirrel")
_PANELS = tuple(("gcn", graph) for graph in _CITATIONS) + tuple(("gprgnn", graph) for graph in _CITATIONS + _WIKIPEDIA)
_IN_PAPER = ("cora", "pubmed", *_WIKIPEDIA)
# Of a defence that is in the records with several models, the one that the study of the table has.
_MODELS = {"none": "paper", "tsvd": "paper", "prognn": None, "garnet-paper": "paper", "garnet": "default"}


def nettack(folder: Path) -> Figure:
    """Table 7: accuracy on the targets of Nettack against the edges that it changes for each."""
    return _figure(folder, "nettack", 1, "edges changed a target", NETTACK_COMMAND)


def metattack(folder: Path) -> Figure:
    """Table 8: accuracy against the share of the edges that Metattack changes."""
    return _figure(folder, "metattack", 100, "edges changed (%)", METATTACK_COMMAND)


def _figure(folder: Path, attack: str, unit: float, label: str, command: str) -> Figure:
    citations, wikipedia = (Cells(folder / f"{name}.jsonl", command) for name in ("citations", "heterophilic"))
    figure, panels = sheet(2, 4, width=11.5, height=6.6)
    for axes, (backbone, graph) in zip(panels, _PANELS, strict=True):
        cells = citations if graph in _CITATIONS else wikipedia
        for defense, model in _MODELS.items():
            wanted = {"graph": graph, "attack": attack, "backbone": backbone, "defense": defense}
            named = wanted if model is None else {**wanted, "model": model, "parameters": {}}
            # Pro-GNN was not run on every graph; of the others, a figure must have all.
            found = cells.where(**named) if defense == "prognn" else cells.some(**named)
            if found:
                _curves(axes, found, defense, unit)
        absent = "" if graph in _IN_PAPER else " (not in the paper)"
        axes.set_title(f"{graph.capitalize()}, {backbone.upper()}{absent}", loc="left")
        axes.set_xlabel(label)
    for row in (panels[0], panels[4]):
        row.set_ylabel("accuracy (%), mean ± sd")
    legend(figure, drawn_in(panels), 5)
    return figure


def _curves(axes: Axes, records: Sequence[Record], defense: str, unit: float) -> None:
    """Ours with error bars, and the paper's where it has the defence."""
    look = LOOKS[defense]
    by_budget = {
        unit * record.cell["budget"]: record for record in sorted(records, key=lambda one: float(one.cell["budget"]))
    }
    mean, sd = zip(*map(mean_sd, by_budget.values()), strict=True)
    style: dict[str, Any] = {"color": look.colour, "marker": look.marker, "markersize": 4}
    axes.errorbar(list(by_budget), mean, yerr=sd, label=look.label, **style)
    told = {place: known.mean for place, record in by_budget.items() if (known := in_paper(record))}
    if told and look.papers:
        # An error bar without errors: a legend has these in the order in which they were drawn.
        axes.errorbar(list(told), list(told.values()), label=f"the paper, {look.papers}", **style, **PAPERS)
