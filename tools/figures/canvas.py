"""What all figures share: an empty sheet, the colours, and files whose bytes depend on nothing but the figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from garnet.errors import MissingExtra
from garnet.io.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which all kinds of colour vision tell apart; with markers, so that grey print does too.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # which comes with matplotlib
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "errorbar.capsize": 2.0,
    "figure.facecolor": "white",
    "figure.dpi": 130.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "garnet",
}
_CAPTION_INCHES = 0.3

# What colours become on a screen that is dark; those of the lines stay as far apart as they are on white.
_IN_THE_DARK = {
    "#ffffff": "#16181b",
    "#000000": "#f1f3f5",
    "#555555": "#adb5bd",
    "#777777": "#a3a9b0",
    "#d5d5d5": "#495057",
    "#dddddd": "#343a40",
    "#eeeeee": "#2b3035",
    BLUE.lower(): "#4a90ff",
}
_DARK_STYLE = "".join(
    f'[style*="{part}: {light}"]{{{part}: {dark} !important}}'
    for light, dark in _IN_THE_DARK.items()
    for part in ("fill", "stroke")
)
_STYLE_END = "</style>"


# The paper's points are hollow and its lines dashed, so that nobody takes them for ours.
PAPERS: dict[str, Any] = {"markerfacecolor": "white", "linestyle": "--", "linewidth": 0.9}


@dataclass(frozen=True)
class Look:
    """How one defence is drawn in all figures.

    Attributes:
        label: its name.
        colour: of its line.
        marker: of its points.
        papers: what the paper calls it, if it has it.
    """

    label: str
    colour: str
    marker: str
    papers: str = ""


LOOKS = {
    "none": Look("no defence", BLACK, "o", "no defence"),
    "tsvd": Look("TSVD", ORANGE, "s", "TSVD"),
    "prognn": Look("Pro-GNN", PURPLE, "^", "Pro-GNN"),
    "garnet-paper": Look("GARNET, authors' parameters", GREEN, "D", "GARNET"),
    "garnet": Look("GARNET, default", BLUE, "o"),
}


@contextmanager
def style() -> Iterator[None]:
    """The settings under which figures are made and saved; those of the caller come back afterwards.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtra("matplotlib", "Drawing figures", "pygarnet[figures]") from error
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def sheet(rows: int = 1, columns: int = 1, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """An empty figure of so many inches and its axes, row by row; space is left for the caption."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=_above_caption(height))  # type: ignore[call-arg]
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.ravel())


def legend(figure: Figure, handles: Iterable[Any], columns: int) -> None:
    """One legend for all axes, between them and the caption."""
    figure.legend(handles=list(handles), ncols=columns, loc="outside lower center")


def drawn_in(panels: Iterable[Axes]) -> list[Any]:
    """What a legend is to have of some axes, each label once."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values())


def finish(figure: Figure, title: str, text: str) -> None:
    """Give a figure its heading and the line at its foot, and fix where everything is."""
    figure.suptitle(title, x=0.008, ha="left", fontsize=11, fontweight="bold")
    figure.text(0.008, 0.06 / figure.get_figheight(), text, fontsize=6.5, color="#555555", ha="left", va="bottom")
    # The layout is found once, and not again for each file.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    # Its solver differs in the last digits from run to run, and SVG makes names of all digits.
    for axes in figure.axes:
        left, bottom, width, height = (round(value, 5) for value in axes.get_position(original=True).bounds)
        axes.set_position((left, bottom, width, height))
    # Space was left for the legend, but at the foot of the sheet, where the caption is.
    for one in figure.legends:
        one.set_bbox_to_anchor(_above_caption(figure.get_figheight()), transform=figure.transFigure)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG or PNG, by its suffix, without the date and the version of what drew it."""
    # By the canvases themselves: savefig() draws everything once more, for a layout that is already found.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with atomic_path(path, durable=False) as unfinished:
        if path.suffix == ".svg":
            dpi = figure.dpi
            FigureCanvasSVG(figure).print_svg(str(unfinished), metadata={"Date": None, "Creator": None})
            figure.dpi = dpi  # which SVG sets to 72, for good
            unfinished.write_text(following_the_screen(unfinished.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            FigureCanvasAgg(figure).print_png(str(unfinished), metadata={"Software": None})


def following_the_screen(drawing: str) -> str:
    """A drawing of matplotlib's that is dark where the screen is, as it has colours in the style of each element."""
    ink = _IN_THE_DARK["#000000"]
    # Letters and black markers have no fill of their own.
    unfilled = f'[id^="text_"], use[style*="stroke: #000000"]:not([style*="fill"]){{fill: {ink}}}'
    dark = f"@media (prefers-color-scheme: dark){{{unfilled}{_DARK_STYLE}}}"
    return drawing.replace(_STYLE_END, dark + _STYLE_END, 1)


def _above_caption(height: float) -> tuple[float, float, float, float]:
    """Left, bottom, width and height of all but the caption, as shares of a figure of so many inches.

    The margins are for SVG, in which words are a little wider than where the layout is found.
    """
    foot = _CAPTION_INCHES / height
    return 0.012, foot, 0.976, 1 - foot
