"""Accuracy on Cora against one parameter: the rank of TSVD, the neighbours k, the threshold gamma."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from garnet.bench.record import Record
from tools.figures.canvas import BLUE, GREEN, PAPERS, SKY, VERMILION, drawn_in, legend, sheet
from tools.records import Cells, in_paper, mean_sd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TSVD_COMMAND = "garnet bench run figure-1-tsvd"
K_COMMAND = "garnet bench run ablation-k"
GAMMA_COMMAND = "garnet bench run ablation-gamma"

_ACCURACY = "accuracy (%), mean ± sd"
# What the authors chose for Cora; their text has the range of k that they recommend.
_PAPERS_RANK, _PAPERS_K, _PAPERS_GAMMA = 50, 30, 3e-4
_RECOMMENDED_K, _LARGEST_K = (30, 80), 65
_AUTHORS = (("gcn", "GCN", SKY, "s"), ("gprgnn", "GPRGNN", GREEN, "D"))


def tsvd_rank(folder: Path) -> Figure:
    """GCN on the rank-r approximation of Cora, clean and under Metattack."""
    cells = Cells(folder / "figure-1-tsvd.jsonl", TSVD_COMMAND)
    figure, (axes,) = sheet(width=6.4, height=3.9)
    axes.set_xscale("log")
    for budget, label, colour, marker in ((0.0, "clean", BLUE, "o"), (0.2, "Metattack 20 %", VERMILION, "s")):
        found = cells.along("rank", defense="tsvd", backbone="gcn", budget=budget)
        _curve(axes, found, label, colour, marker)
        _star(axes, found, _PAPERS_RANK, colour, f"the paper, {label}")
        axes.set_xticks(list(found), labels=[f"{rank:g}" for rank in found])
    axes.minorticks_off()
    axes.set_xlabel("rank r kept by TSVD (logarithmic)")
    axes.set_ylabel(_ACCURACY)
    legend(figure, drawn_in([axes]), 2)
    return figure


def k_sweep(folder: Path) -> Figure:
    """Accuracy under Metattack 20 % against the neighbours of each node in the base graph."""
    cells = Cells(folder / "ablation-k.jsonl", K_COMMAND)
    figure, (axes,) = sheet(width=6.4, height=4.1)
    _authors(axes, cells, "k", _PAPERS_K)
    _curve(axes, cells.along("k", defense="garnet", backbone="gprgnn"), "GPRGNN, 30 % doubted", BLUE, "o")
    left, right = _RECOMMENDED_K
    axes.axvspan(left, right, color="#eeeeee", zorder=0)
    axes.set_xlim(0, _LARGEST_K)
    axes.text(
        left + 0.7, 0.02, f"the paper recommends {left} to {right}:\nthe band is cut at {_LARGEST_K}",
        transform=axes.get_xaxis_transform(), fontsize=8, color="#555555",
    )  # fmt: skip
    axes.set_xlabel("neighbours k of each node")
    axes.set_ylabel(_ACCURACY)
    legend(figure, drawn_in([axes]), 3)
    return figure


def gamma_sweep(folder: Path) -> Figure:
    """Accuracy under Metattack 20 % against the threshold of pruning, in the units of each setting."""
    cells = Cells(folder / "ablation-gamma.jsonl", GAMMA_COMMAND)
    figure, (absolute, quantile) = sheet(1, 2, width=8.2, height=4.0)
    absolute.set_xscale("log")
    _authors(absolute, cells, "gamma", _PAPERS_GAMMA)
    absolute.set_title("authors' parameters", loc="left")
    scores = list(cells.along("gamma", defense="garnet-paper"))
    absolute.set_xticks(scores, labels=[f"{score:g}" for score in scores], fontsize=7.5)
    absolute.minorticks_off()
    absolute.set_xlabel("γ, a score (logarithmic)")
    _curve(quantile, cells.along("gamma", defense="garnet", backbone="gprgnn"), "GPRGNN, 30 % doubted", BLUE, "o")
    quantile.set_title("30 % of the edges doubted", loc="left")
    quantile.set_xlabel("γ, share of the base graph's edges pruned")
    quantile.sharey(absolute)
    absolute.set_ylabel(_ACCURACY)
    legend(figure, drawn_in([absolute, quantile]), 3)
    return figure


def _authors(axes: Axes, cells: Cells, parameter: str, papers: float) -> None:
    """The two models with the authors' parameters, and what the paper has where the authors' choice lies."""
    for backbone, model, colour, marker in _AUTHORS:
        found = cells.along(parameter, defense="garnet-paper", backbone=backbone)
        _curve(axes, found, f"{model}, authors' parameters", colour, marker)
        _star(axes, found, papers, colour, f"the paper, {model}")


def _curve(axes: Axes, records: Mapping[float, Record], label: str, colour: str, marker: str) -> None:
    mean, sd = zip(*map(mean_sd, records.values()), strict=True)
    axes.errorbar(list(records), mean, yerr=sd, color=colour, marker=marker, label=label)


def _star(axes: Axes, records: Mapping[float, Record], x: float, colour: str, label: str) -> None:
    """The paper's figure, if it has one."""
    known = in_paper(next(iter(records.values())))
    if known is not None:
        star = {**PAPERS, "color": colour, "marker": "*", "markersize": 12, "linestyle": "none"}
        axes.errorbar([x], [known.mean], yerr=[known.sd], label=label, zorder=4, **star)
