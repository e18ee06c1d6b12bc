"""How well the audit finds made-up edges, beside single scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tools.figures.canvas import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, drawn_in, legend, sheet
from tools.records import Benchmark

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMMAND = "python benchmarks/audit.py"

_SCORES = {
    "audit": ("the audit", BLUE, "o"),
    "audit without labels": ("the same, without labels", SKY, "o"),
    "spectral distance": ("spectral distance", ORANGE, "s"),
    "shared neighbours": ("shared neighbours", GREEN, "D"),
    "cosine of features": ("cosine of features", PURPLE, "^"),
    "degree product, small": ("degree product, small", VERMILION, "<"),
    "degree product, large": ("degree product, large", VERMILION, ">"),
    "gradient of a GCN": ("gradient of a GCN", GREY, "x"),
}


_KINDS = {
    "clean": ("edges of the clean graph", BLUE, "-"),
    "planted": ("edges that the audit planted", VERMILION, "-"),
    "made up": ("edges of Metattack, 20 %", BLACK, "--"),
    "rewired": ("all edges rewired", GREY, ":"),
}


def found_by_audit(folder: Path) -> Figure:
    """The area under the ROC curve of each score on each attacked graph."""
    with Benchmark(folder / "audit.json", COMMAND).figures() as found:
        attacked = {name: entry["scores"] for name, entry in found.items() if "scores" in entry}
        areas = {score: [float(entry[score]["auc"]) for entry in attacked.values()] for score in _SCORES}
    figure, (axes,) = sheet(width=8.2, height=0.33 * len(attacked) + 1.6)
    places = range(len(attacked))
    axes.axvline(0.5, color=BLACK, linestyle=":", linewidth=1)
    for depth, (score, (label, colour, marker)) in enumerate(_SCORES.items()):
        # The first are told first in the legend, and lie on top.
        axes.plot(
            areas[score], places, color=colour, marker=marker, linestyle="none", label=label, zorder=9 - depth / 9
        )
    axes.set_yticks(places, labels=list(attacked))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("area under the ROC curve; 0.5 is chance")
    legend(figure, drawn_in([axes]), 4)
    return figure


def false_alarms(folder: Path) -> Figure:
    """How suspicious the edges of clean graphs are, beside planted ones, an attack's, and those of a rewired graph."""
    with Benchmark(folder / "audit.json", COMMAND).figures() as found:
        names = [name.removesuffix(" clean") for name in found if name.endswith(" clean")]
        counts = {}
        for name in names:
            untouched, attacked = found[f"{name} clean"], found[f"{name} metattack 0.2"]
            shown = untouched["histogram"] | {"made up": attacked["histogram"]["made up"]}
            shown |= {"rewired": untouched["null histogram"]["rewired"]}
            counts[name] = {kind: [float(one) for one in shown[kind]] for kind in _KINDS}
    figure, panels = sheet(1, len(names), width=2.4 * len(names), height=3.2)
    for axes, name in zip(panels, names, strict=True):
        for kind, (label, colour, style) in _KINDS.items():
            values = counts[name][kind]
            bounds = [place - len(values) / 2 for place in range(len(values) + 1)]
            percent = [100 * value / max(sum(values), 1) for value in values]
            axes.stairs(percent, bounds, color=colour, linestyle=style, linewidth=1.6, label=label)
        axes.axvline(0, color=BLACK, linestyle=":", linewidth=1)
        axes.set_title(name, loc="left")
        axes.set_xlabel("log-odds of suspicion")
    panels[0].set_ylabel("percent of each")
    legend(figure, drawn_in([panels[0]]), 4)
    return figure
