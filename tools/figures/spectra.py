"""The paper's opening figure, (a) and (b): what attack, truncation and purification do to the spectrum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tools.figures.canvas import GREY, LOOKS, drawn_in, legend, sheet
from tools.records import Benchmark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COMMAND = "python benchmarks/spectra.py"
_LABELS = {"none": "as attacked", "tsvd": "TSVD, 50 values kept"}
_ORDER = ("none", "tsvd", "garnet-paper", "garnet")


def rank_against_budget(folder: Path) -> Figure:
    """Numerical rank of Cora's adjacency against the budget of Metattack: from zero, and near the top."""
    with Benchmark(folder / "spectra.json", COMMAND).figures() as found:
        budgets = [100 * float(row["budget"]) for row in found["ranks"]]
        ranks = {name: [int(row[name]) for row in found["ranks"]] for name in _ORDER}
        nodes = len(found["normalised"]["singular_values"]["clean"])
        clean = ranks["none"][budgets.index(0.0)]
    figure, (whole, top) = sheet(1, 2, width=8.2, height=3.6)
    for axes in (whole, top):
        for name, values in ranks.items():
            if name != "tsvd" or axes is whole:
                _line(axes, name, budgets, values)
        axes.axhline(clean, color=GREY, linewidth=1, linestyle=":", label=f"clean graph: {clean}")
        axes.set_xlabel("edges changed by Metattack (%)")
    whole.set_ylim(0, 1.04 * nodes)
    whole.set_ylabel("numerical rank of the adjacency")
    whole.set_title(f"all of it: {nodes} nodes", loc="left")
    top.set_title("the top alone: the axis does not start at zero", loc="left")
    legend(figure, drawn_in([whole]), 3)
    return figure


def singular_values(folder: Path) -> Figure:
    """Singular values of the normalised adjacency of Cora: clean, attacked, truncated, purified."""
    with Benchmark(folder / "spectra.json", COMMAND).figures() as found:
        budget = 100 * float(found["normalised"]["budget"])
        lists = found["normalised"]["singular_values"]
        values = {name: [float(value) for value in lists[name]] for name in ("clean", *_ORDER)}
        # A truncated matrix has no others.
        values["tsvd"] += [0.0] * (len(values["clean"]) - len(values["tsvd"]))
    figure, (axes,) = sheet(width=6.6, height=4.0)
    axes.plot(range(1, len(values["clean"]) + 1), values["clean"], color=GREY, linewidth=3.5, alpha=0.5, label="clean")
    for name in _ORDER:
        look = LOOKS[name]
        label = f"attacked: Metattack {budget:.0f} %" if name == "none" else _LABELS.get(name, look.label)
        every = max(1, len(values[name]) // 8)
        axes.plot(
            range(1, len(values[name]) + 1), values[name], color=look.colour, label=label,
            linewidth=1.4, marker=look.marker, markersize=4, markevery=every,
        )  # fmt: skip
    axes.set_xlabel("index, largest first")
    axes.set_ylabel("singular value of the normalised adjacency")
    axes.set_xlim(0, 1.01 * len(values["clean"]))
    axes.set_ylim(0, 1.02)
    axes.legend(loc="upper right")
    return figure


def _line(axes: Axes, name: str, budgets: list[float], ranks: list[int]) -> None:
    look = LOOKS[name]
    axes.plot(budgets, ranks, color=look.colour, marker=look.marker, label=_LABELS.get(name, look.label))
