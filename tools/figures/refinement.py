"""The ablation of refinement: GARNET with and without pruning, and without what the default adds to the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.figures.canvas import BLUE, PAPERS, VERMILION, drawn_in, legend, sheet
from tools.records import Cells, in_paper, mean_sd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMMAND = "garnet bench run ablation-refinement"
# (defence, backbone, parameters, label); the study prunes nothing by a threshold below all scores.
_Row = tuple[str, str, dict[str, Any], str]
_AUTHORS_GCN: tuple[_Row, ...] = (
    ("garnet-paper", "gcn", {}, "authors', GCN"),
    ("garnet-paper", "gcn", {"gamma": -1e9}, "… base graph, not pruned"),
)
_AUTHORS_GPRGNN: tuple[_Row, ...] = (
    ("garnet-paper", "gprgnn", {}, "authors', GPRGNN"),
    ("garnet-paper", "gprgnn", {"gamma": -1e9}, "… base graph, not pruned"),
)


def _doubting(share: float) -> tuple[_Row, ...]:
    """One setting for all graphs but for the share of edges that is doubted, and what it would be without its parts."""
    return (
        ("garnet", "gprgnn", {"support": share}, f"{share:.0%} doubted, GPRGNN"),
        ("garnet", "gprgnn", {"gamma": 0.0, "support": share}, "… base graph, not pruned"),
        ("garnet", "gprgnn", {"overlap": 0.0, "support": share}, "… shared neighbours not counted"),
    )


_ALONE: tuple[_Row, ...] = (("garnet", "gprgnn", {"support": None}, "… new neighbours alone"),)
# Nodes of Chameleon have neighbours enough: new ones alone would be a graph without edges.
_FIFTEEN: tuple[_Row, ...] = (
    ("garnet", "gprgnn", {"k": 15, "support": 0.3}, "… with 15 neighbours a node"),
    ("garnet", "gprgnn", {"k": 15, "support": None}, "… these neighbours alone"),
)
_ROWS = {
    "cora": _AUTHORS_GCN + _AUTHORS_GPRGNN + _doubting(0.3) + _ALONE,
    "chameleon": _AUTHORS_GPRGNN + _doubting(0.2) + _FIFTEEN,
}
_BUDGETS = ((0.0, "clean", BLUE, "o", -0.13), (0.2, "Metattack 20 %", VERMILION, "s", 0.13))


def refinement(folder: Path) -> Figure:
    """Accuracy of each variant, clean and attacked, on Cora and on Chameleon."""
    cells = Cells(folder / "ablation-refinement.jsonl", COMMAND)
    figure, panels = sheet(1, 2, width=9.4, height=4.3)
    for axes, (graph, rows) in zip(panels, _ROWS.items(), strict=True):
        for budget, label, colour, marker, shift in _BUDGETS:
            found = [
                cells.some(graph=graph, budget=budget, defense=defense, backbone=backbone, parameters=parameters)[0]
                for defense, backbone, parameters, _ in rows
            ]
            means, sds = zip(*map(mean_sd, found), strict=True)
            places = [place + shift for place in range(len(rows))]
            axes.errorbar(means, places, xerr=sds, color=colour, marker=marker, linestyle="none", label=label)
            told = {
                place: known.mean
                for record, place in zip(found, places, strict=True)
                if record.cell["defense"] == "garnet-paper" and not record.cell["parameters"]
                if (known := in_paper(record)) is not None
            }
            star = {**PAPERS, "color": colour, "marker": "*", "markersize": 11, "linestyle": "none"}
            axes.errorbar(list(told.values()), list(told), label=f"the paper, {label}", **star)
        axes.set_yticks(range(len(rows)), labels=[label for *_, label in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("accuracy (%), mean ± sd")
        axes.set_title(graph.capitalize(), loc="left")
    legend(figure, drawn_in(panels), 4)
    return figure
