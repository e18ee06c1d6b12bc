"""What it costs: run times beside other defences, growth with the graph, and a graph of millions of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tools.figures.canvas import BLUE, GREEN, GREY, ORANGE, VERMILION, drawn_in, legend, sheet
from tools.records import Benchmark

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNTIMES_COMMAND = "python benchmarks/defenses.py cora squirrel --rounds 1"
GROWTH_COMMAND = "python benchmarks/growth.py"
PRODUCTS_COMMAND = "python benchmarks/products.py --repeats 3"

_MOST_IN_PAPER = 14.7  # "up to 14.7x", end to end, over earlier defences; its figure's bars have no numbers in the text
_GRAPHS = ("cora", "squirrel")
_DEFENSES = {"tsvd": "TSVD", "prognn": "Pro-GNN", "gnnguard": "GNNGuard", "lfr": "LFR, beside\nGARNET with GCN"}
_TICKS = (1, 2, 5, 10, 20, 50)
_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
_STAGES = {"embed": (BLUE, "//"), "neighbours": (ORANGE, ".."), "prune": (GREEN, "xx")}


def runtimes(folder: Path) -> Figure:
    """End-to-end time of other defences as multiples of GARNET's, with the same backbone."""
    with Benchmark(folder / "defenses.json", RUNTIMES_COMMAND).figures() as found:
        ratios = {graph: [float(found[graph][name]["times_garnet"]) for name in _DEFENSES] for graph in _GRAPHS}
        seconds = {graph: [float(found[graph][name]["seconds"]) for name in _DEFENSES] for graph in _GRAPHS}
        own = {graph: [float(found[graph][name]["seconds"]) for name in ("garnet", "garnet, gcn")] for graph in _GRAPHS}
    figure, panels = sheet(1, len(_GRAPHS), width=9.4, height=3.4)
    most = max(max(values) for values in ratios.values())
    for axes, graph in zip(panels, _GRAPHS, strict=True):
        places = range(len(_DEFENSES))
        axes.hlines(places, 1, ratios[graph], color=BLUE, linewidth=3)
        axes.plot(ratios[graph], places, color=BLUE, marker="o", linestyle="none", label="measured")
        for place, ratio, took in zip(places, ratios[graph], seconds[graph], strict=True):
            # At the edge, where neither the points nor the paper's line are.
            at_edge = axes.get_yaxis_transform()
            axes.text(
                0.99, place, f"{ratio:.1f}×  ({took:.1f} s)", transform=at_edge, fontsize=8, va="center", ha="right"
            )
        axes.axvline(_MOST_IN_PAPER, color=VERMILION, linestyle="--", linewidth=1, label="the paper: up to 14.7×")
        axes.set_xscale("log")
        axes.set_xlim(1, 5 * most)
        axes.set_xticks(_TICKS, labels=[str(tick) for tick in _TICKS])
        axes.minorticks_off()
        axes.set_yticks(places, labels=list(_DEFENSES.values()))
        axes.set_ylim(len(_DEFENSES) - 0.5, -0.7)
        axes.set_xlabel("times GARNET's (logarithmic)")
        both = "{:.1f} s with GPRGNN, {:.1f} s with GCN".format(*own[graph])
        axes.set_title(f"{graph.capitalize()}: GARNET {both}", loc="left", fontsize=9)
    legend(figure, drawn_in(panels), 2)
    return figure


def growth(folder: Path) -> Figure:
    """Seconds of a purification on a CPU against the nodes of a synthetic graph."""
    record = Benchmark(folder / "growth.json", GROWTH_COMMAND)
    with record.figures() as found:
        nodes = [int(row["nodes"]) for row in found["growth"]]
        stages = {name: [float(row[name]) for row in found["growth"]] for name in _STAGES}
        total = [float(row["seconds"]) for row in found["growth"]]
        slope = float(found["slope"])
    figure, (axes,) = sheet(width=6.0, height=4.0)
    axes.plot(nodes, total, color="black", marker="o", linewidth=2, label=f"all stages: slope {slope:.2f}")
    for (name, seconds), marker in zip(stages.items(), "sD^", strict=True):
        axes.plot(nodes, seconds, color=_STAGES[name][0], marker=marker, label=name)
    straight = [total[-1] * count / nodes[-1] for count in nodes]
    axes.plot(nodes, straight, color=GREY, linestyle=":", label="as the nodes: slope 1")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(nodes, labels=[f"{count:,}" for count in nodes])
    axes.set_yticks(_SECONDS, labels=[f"{tick:g}" for tick in _SECONDS])
    axes.minorticks_off()
    axes.set_xlabel("nodes of a block model (logarithmic)")
    axes.set_ylabel(f"seconds, {record.machine} (logarithmic)")
    axes.legend(loc="lower right")
    return figure


def products(folder: Path) -> Figure:
    """Where the seconds go on a GPU, for a graph of the size of ogbn-products and for ogbn-arxiv."""
    record = Benchmark(folder / "products.json", PRODUCTS_COMMAND)
    with record.figures() as found:
        rank, k = int(found["rank"]), int(found["k"])
        rows = {f"products size, run {number}": run for number, run in enumerate(found["runs"], start=1)}
        rows["products size, default"] = found["default"][-1]
        rows["ogbn-arxiv"] = found["arxiv"]
        seconds = {stage: [float(row[stage]) for row in rows.values()] for stage in _STAGES}
        totals = [float(row["seconds"]) for row in rows.values()]
    figure, (axes,) = sheet(width=7.4, height=3.5)
    starts = [0.0] * len(rows)
    for stage, (colour, hatch) in _STAGES.items():
        axes.barh(
            range(len(rows)), seconds[stage], left=starts, color=colour, hatch=hatch, edgecolor="white", height=0.6,
            label=stage, linewidth=0,
        )  # fmt: skip
        starts = [start + length for start, length in zip(starts, seconds[stage], strict=True)]
    for place, total in enumerate(totals):
        axes.annotate(f"{total:.1f} s", (total, place), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(rows)), labels=list(rows))
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.1 * max(totals))
    axes.set_xlabel(f"seconds, {record.machine}")
    axes.set_title(
        f"a drawn graph of the size of ogbn-products; last bar: ogbn-arxiv\nrank {rank}, k {k} but for the default",
        loc="left", fontsize=9,
    )  # fmt: skip
    legend(figure, drawn_in([axes]), 3)
    return figure
