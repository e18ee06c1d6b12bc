"""What surrounds attacked nodes of Cora: clean, attacked, purified, as the paper draws it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.figures.canvas import BLACK, BLUE, GREEN, GREY, ORANGE, SKY, VERMILION, legend, sheet
from tools.records import Benchmark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COMMAND = "python benchmarks/neighbourhoods.py"
_STATES = ("clean", "attacked", "purified")
_DRAWN_BY_PAPER = 1255
# Of edges by where they come from: words, colour, line, width, opacity; what is drawn last lies on top.
_EDGES = {
    "new": ("new edge", SKY, "-", 0.7, 0.55),
    "clean": ("edge of the clean graph", GREY, "-", 0.8, 0.8),
    "attack": ("edge of the attack", VERMILION, "--", 1.6, 1.0),
}
_NODES = {True: ("same label", GREEN, "o"), False: ("other label", ORANGE, "s")}


@dataclass(frozen=True)
class View:
    """One neighbourhood in one graph.

    Attributes:
        target: the node in the middle.
        hops: how many edges each node is away from it.
        alike: whether each has its label.
        edges: (u, v, origin).
    """

    target: int
    hops: dict[int, int]
    alike: dict[int, bool]
    edges: tuple[tuple[int, int, str], ...]

    @property
    def around(self) -> list[int]:
        """The target's neighbours, those of its label first."""
        return sorted(
            (node for node, hop in self.hops.items() if hop == 1), key=lambda node: (not self.alike[node], node)
        )


def neighbourhoods(folder: Path) -> Figure:
    """Three targets of Nettack, each clean, attacked and purified."""
    with Benchmark(folder / "neighbourhoods.json", COMMAND).figures() as found:
        shown = [[_view(int(one["node"]), one["views"][state]) for state in _STATES] for one in found["neighbourhoods"]]
    figure, panels = sheet(len(shown), len(_STATES), width=8.6, height=2.9 * len(shown) + 0.8)
    for row, views in enumerate(shown):
        for column, (state, view) in enumerate(zip(_STATES, views, strict=True)):
            axes = panels[row * len(_STATES) + column]
            _draw(axes, view)
            alike = sum(view.alike[node] for node in view.around)
            who = f"node {view.target}" + (", the paper's" if view.target == _DRAWN_BY_PAPER else "")
            head = f"{who}: {state}" if column == 0 else state
            axes.set_title(f"{head}\n{alike} of {len(view.around)} neighbours have its label", loc="left", fontsize=9)
    legend(figure, _legend(), 3)
    return figure


def places(view: View) -> dict[int, tuple[float, float]]:
    """Where each node is drawn: the target in the middle, each neighbour on a ring with its own further out.

    A neighbour has the more of the circle, the more nodes are reached through it; a node that several reach is with the
    first of them.
    """
    reached = _reached_through(view)
    shares = {node: 2 + len(reached[node]) for node in view.around}
    whole = sum(shares.values())
    found, begin = {view.target: (0.0, 0.0)}, 0.0
    for node in view.around:
        width = 2 * math.pi * shares[node] / whole
        found[node] = _polar(begin + width / 2, 1.0)
        for number, far in enumerate(reached[node]):
            # In zigzag, so that many nodes have room.
            found[far] = _polar(begin + width * (number + 0.5) / len(reached[node]), (1.8, 2.15)[number % 2])
        begin += width
    return found


def _reached_through(view: View) -> dict[int, list[int]]:
    """The nodes two edges away, by the first neighbour that reaches each."""
    beside: dict[int, set[int]] = {node: set() for node in view.hops}
    for first, second, _ in view.edges:
        beside[first].add(second)
        beside[second].add(first)
    found: dict[int, list[int]] = {}
    left = {node for node, hop in view.hops.items() if hop == 2}
    for node in view.around:
        found[node] = sorted(left & beside[node])
        left -= beside[node]
    return found


def _draw(axes: Axes, view: View) -> None:
    from matplotlib.collections import LineCollection

    where = places(view)
    for origin, (_, colour, line, width, opacity) in _EDGES.items():
        of_target = [[where[u], where[v]] for u, v, how in view.edges if how == origin and view.target in (u, v)]
        others = [[where[u], where[v]] for u, v, how in view.edges if how == origin and view.target not in (u, v)]
        axes.add_collection(
            LineCollection(others, colors=colour, linestyles=line, linewidths=0.7 * width, alpha=opacity)
        )
        axes.add_collection(LineCollection(of_target, colors=colour, linestyles=line, linewidths=1.4 * width))
    for alike, (_, colour, marker) in _NODES.items():
        for hop, size in ((1, 26), (2, 9)):
            points = [where[node] for node, far in view.hops.items() if far == hop and view.alike[node] is alike]
            x, y = zip(*points, strict=True) if points else ((), ())
            axes.scatter(x, y, s=size, c=colour, marker=marker, edgecolors=BLACK, linewidths=0.4, zorder=3)
    axes.scatter([0], [0], s=130, c=BLUE, marker="*", edgecolors=BLACK, linewidths=0.5, zorder=4)
    axes.set(xlim=(-2.3, 2.3), ylim=(-2.3, 2.3), aspect="equal")
    axes.set_axis_off()


def _legend() -> list[Line2D]:
    from matplotlib.lines import Line2D

    nodes = [Line2D([], [], color=BLUE, marker="*", markersize=10, linestyle="none", label="the target")]
    nodes += [
        Line2D([], [], color=colour, marker=marker, markeredgecolor=BLACK, linestyle="none", label=label)
        for label, colour, marker in _NODES.values()
    ]
    lines = [
        Line2D([], [], color=colour, linestyle=line, linewidth=width + 0.4, label=label)
        for label, colour, line, width, _ in _EDGES.values()
    ]
    return [part for pair in zip(nodes, lines, strict=True) for part in pair]


def _view(target: int, written: dict[str, Any]) -> View:
    hops = {int(node): int(hop) for node, hop, _ in written["nodes"]}
    edges = tuple((int(u), int(v), str(origin)) for u, v, origin in written["edges"])
    view = View(target, hops, {int(node): bool(alike) for node, _, alike in written["nodes"]}, edges)
    if hops[target] or places(view).keys() != hops.keys() or not {origin for *_, origin in edges} <= _EDGES.keys():
        raise ValueError(f"the edges around {target} do not reach its nodes")
    return view


def _polar(angle: float, radius: float) -> tuple[float, float]:
    return radius * math.cos(angle), radius * math.sin(angle)
