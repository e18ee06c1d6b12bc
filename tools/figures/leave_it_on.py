"""Cost on clean graphs against gain under attack, a cloud of points for each defence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tools.figures.canvas import BLUE, GREEN, GREY, PURPLE, VERMILION, legend, sheet
from tools.figures.labels import place
from tools.leave_it_on import COMMAND, RECORD, Row, clean_row, mean_gain, measured_rows, signed
from tools.records import Cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DEFENSES = {
    "garnet": ("GARNET()", BLUE),
    "audited": ("Audited()", PURPLE),
    "rung": ("RUNG", VERMILION),
    "committee": ("committee", GREEN),
}
_OTHERS = "#d5d5d5"
_MARKERS = {"metattack": "o", "prbcd": "^", "nettack": "s"}
_MARGIN = 0.08  # of the range of the points, on each side
# In points, for the names: what a panel of this sheet measures, and a letter of theirs on the mean.
_PANEL, _FONT, _LETTER = (290.0, 205.0), 6.5, 4.1
_NEAR = 7.0  # a name further from its point than this has a line that leads there

_Cloud = dict[Row, tuple[float, float]]
"""Cost and gain at each row."""


def cost_and_gain(folder: Path) -> Figure:
    """A panel a defence, its points in colour and those of the others in grey; one point a graph and attack."""
    cells = Cells(folder / RECORD, COMMAND)
    cells.some(defense="committee")
    rows = measured_rows(cells)
    clouds = {defense: _cloud(defense, rows) for defense in _DEFENSES}
    figure, panels = sheet(2, 2, width=9.4, height=8.0)
    for axes, (defense, (label, colour)) in zip(panels, _DEFENSES.items(), strict=True):
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.axvline(0, color=GREY, linewidth=0.8)
        _limit(axes, clouds.values())
        for other, cloud in clouds.items():
            if other != defense:
                _scatter(axes, cloud, _OTHERS)
        _scatter(axes, clouds[defense], colour)
        _write_names(axes, clouds[defense])
        axes.set_title(label, loc="left", color=colour, fontweight="bold")
        clean = mean_gain(defense, [row for row in rows if row.attack == "none"])
        attacked = mean_gain(defense, [row for row in rows if row.attacked])
        axes.set_title(f"on the mean {signed(clean)} clean, {signed(attacked)} attacked", loc="right", fontsize=8.5)
    for axes in panels[2:]:
        axes.set_xlabel("cost on the clean graph (points)")
    for axes in panels[::2]:
        axes.set_ylabel("gain under attack (points)")
    _explain_markers(figure, rows)
    return figure


def _cloud(defense: str, rows: list[Row]) -> _Cloud:
    """Under the usual budget of each attack, where cost and gain were both measured."""
    cloud = {}
    for row in rows:
        clean, gain = clean_row(row, rows).gain(defense), row.gain(defense)
        if row.usual and clean is not None and gain is not None:
            cloud[row] = (-clean, gain)
    return cloud


def _limit(axes: Axes, clouds: Iterable[_Cloud]) -> None:
    """The same axes for all panels, with zero in view."""
    costs, gains = zip((0.0, 0.0), *(point for cloud in clouds for point in cloud.values()), strict=True)
    for values, set_limits in ((costs, axes.set_xlim), (gains, axes.set_ylim)):
        room = _MARGIN * (max(values) - min(values) or 1.0)
        set_limits(min(values) - room, max(values) + room)


def _scatter(axes: Axes, cloud: _Cloud, colour: str) -> None:
    for row, (cost, gain) in cloud.items():
        axes.plot(cost, gain, color=colour, marker=_MARKERS[row.attack], linestyle="none")


def _write_names(axes: Axes, cloud: _Cloud) -> None:
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    points = [
        (_PANEL[0] * (cost - left) / (right - left), _PANEL[1] * (gain - bottom) / (top - bottom))
        for cost, gain in cloud.values()
    ]
    sizes = [(_LETTER * len(row.graph_label), 1.2 * _FONT) for row in cloud]
    for (row, where), point, box in zip(cloud.items(), points, place(points, sizes, _PANEL), strict=True):
        shift = (box[0] + box[2]) / 2 - point[0], (box[1] + box[3]) / 2 - point[1]
        gap = math.hypot(max(0.0, abs(shift[0]) - (box[2] - box[0]) / 2), max(0.0, abs(shift[1]) - _FONT / 2))
        line = {"arrowstyle": "-", "linewidth": 0.5, "color": GREY, "shrinkA": 0, "shrinkB": 2} if gap > _NEAR else None
        axes.annotate(
            row.graph_label, where, xytext=shift, textcoords="offset points", fontsize=_FONT, ha="center", va="center",
            arrowprops=line,
        )  # fmt: skip


def _explain_markers(figure: Figure, rows: list[Row]) -> None:
    from matplotlib.lines import Line2D

    attacks = {row.attack: row.attack_label for row in rows if row.usual}
    handles = [
        Line2D([], [], color=GREY, marker=_MARKERS[attack], linestyle="none", label=label)
        for attack, label in attacks.items()
    ]
    legend(figure, handles, len(handles))
