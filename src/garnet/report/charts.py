"""The few charts of a report, as SVG that takes its colours from the page and its width from the screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike, NDArray

from garnet.report.axes import Axis, short, span

WIDTH, HEIGHT = 440.0, 270.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 14.0, 16.0, 46.0
_LETTER = 7.8
_ROW = 34.0
_COLOURS = 8
BLUE, RED, GREEN, GREY = 0, 1, 2, 6
"""Colours that mean something; curves without one take them all in turn."""
_DASHES = ("", "7 4", "2 3")
# Beyond this ratio the small numbers of a plain scale would all be in one corner.
_WIDE = 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Points joined in order, with a band around them if both of its ends are given; a bold one is what counts."""

    name: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    colour: int | None = None
    bold: bool = False


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A value with its name, an interval if both ends are given, and what is written beside it."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    colour: int = BLUE


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Counts, one a bin or group, under one name."""

    name: str
    counts: ArrayLike
    colour: int | None = None


def lines(series: Sequence[Line], *, title: str, x: str, y: str, points: bool = True, wide: bool = False) -> Markup:
    """Curves over one axis; with `wide`, it is logarithmic where the numbers span orders of magnitude."""
    places = np.concatenate([np.asarray(one.x, dtype=np.float64) for one in series])
    low, high = span([places])
    log = bool(wide and places.min() > 0 and places.max() / places.min() > _WIDE)
    bands = [band for one in series for band in (one.low, one.high) if band is not None]
    bottom, top = span([*(one.y for one in series), *bands])
    margin = 0.06 * (top - bottom)
    across = Axis(low, high, _LEFT + 6, WIDTH - _RIGHT - 6, log=log)
    up = Axis(bottom - margin, top + margin, HEIGHT - _BOTTOM, _TOP)
    drawn = [_frame(across, up, x, y)]
    for number, one in enumerate(series):
        if one.low is not None and one.high is not None:
            there, back = _points(across, up, one.x, one.low), _points(across, up, one.x, one.high)[::-1]
            drawn.append(f'<polygon class="band {_colour(one, number)}" points="{_path([*there, *back])}"/>')
    for number, one in enumerate(series):
        colour, dash = _colour(one, number), _DASHES[number // _COLOURS % len(_DASHES)]
        spots = _points(across, up, one.x, one.y)
        drawn.append(f'<polyline class="line {colour}" stroke-dasharray="{dash}" points="{_path(spots)}"/>')
        if points:
            drawn += [f'<circle class="dot {colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in spots]
    said = f"{y} against {x}: " + "; ".join(_told(one) for one in series) + "."
    return _figure(drawn, title, said, series, HEIGHT)


def histogram(
    parts: Sequence[Part],
    bounds: ArrayLike,
    *,
    title: str,
    x: str,
    y: str,
    mark: tuple[float, str] | None = None,
) -> Markup:
    """Counts in bins, drawn over each other, with one place of the axis marked."""
    limits = np.asarray(bounds, dtype=np.float64)
    marked = [mark[0]] if mark is not None and np.isfinite(mark[0]) else []
    across = Axis(*span([limits, marked]), _LEFT, WIDTH - _RIGHT)
    low, high = span([one.counts for one in parts], zero=True)
    up = Axis(low, 1.1 * high, HEIGHT - _BOTTOM, _TOP)
    drawn = [_frame(across, up, x, y)]
    for number, one in enumerate(parts):
        edge, counts = np.repeat(limits, 2), np.asarray(one.counts, dtype=np.float64)
        outline = _points(across, up, edge, np.concatenate([[0.0], np.repeat(counts, 2), [0.0]]))
        drawn.append(f'<polygon class="area {_colour(one, number)}" points="{_path(outline)}"/>')
    said = f"{y} by {x}, from {short(float(limits[0]))} to {short(float(limits[-1]))}."
    if mark is not None and marked:
        place = float(across(mark[0]))
        side = ("end", -5) if place > (_LEFT + WIDTH) / 2 else ("start", 5)
        drawn.append(f'<line class="mark" x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP - 6}" y2="{HEIGHT - _BOTTOM}"/>')
        drawn.append(_text(place + side[1], _TOP + 2, mark[1], "mark-name", side[0]))
        said += f" {mark[1]} is marked."
    return _figure(drawn, title, said, parts, HEIGHT)


def columns(groups: Sequence[str], parts: Sequence[Part], *, title: str, x: str, y: str) -> Markup:
    """Vertical bars side by side, a cluster for each group."""
    up = Axis(*span([one.counts for one in parts], zero=True), HEIGHT - _BOTTOM, _TOP)
    across = Axis(0.0, float(len(groups)), _LEFT, WIDTH - _RIGHT)
    drawn = [_frame(None, up, x, y)]
    wide = 0.8 * (WIDTH - _RIGHT - _LEFT) / len(groups) / len(parts)
    # Names of groups that would run into each other are left out, evenly.
    step = 1 + int(_LETTER * max(map(len, groups)) * len(groups) / (WIDTH - _RIGHT - _LEFT))
    for place, name in list(enumerate(groups))[::step]:
        drawn.append(_text(float(across(place + 0.5)), HEIGHT - _BOTTOM + 16, name, "tick", "middle"))
    for number, one in enumerate(parts):
        for place, count in enumerate(np.asarray(one.counts, dtype=np.float64)):
            left = float(across(place + 0.1)) + number * wide
            foot, top = map(float, up([0.0, count]))
            drawn.append(_box(left, wide, top, foot, _colour(one, number)))
    said = f"{y} by {x}: " + "; ".join(
        f"{one.name}: " + ", ".join(f"{name} {short(float(count))}" for name, count in _pairs(groups, one.counts))
        for one in parts
    )
    return _figure(drawn, title, f"{said}.", parts, HEIGHT)


def bars(entries: Sequence[Bar], *, title: str, x: str) -> Markup:
    """Horizontal bars, each under its own name, with whiskers for intervals."""
    height = _ROW * len(entries) + _TOP + _BOTTOM
    ends = [end for one in entries for end in (one.value, one.low, one.high) if end is not None]
    low, high = span([ends], zero=True)
    room = _LETTER * max((len(one.note) for one in entries), default=0) + 8
    across = Axis(low, high, _RIGHT, WIDTH - _RIGHT - room)
    drawn = [_frame(across, None, x, "", height)]
    for row, one in enumerate(entries):
        top = _TOP + _ROW * row
        left, right = sorted(float(across(value)) for value in (max(across.low, min(0.0, across.high)), one.value))
        drawn.append(_text(_RIGHT, top + 8, one.name, "name", "start"))
        drawn.append(_box(left, max(right - left, 1.0), top + 13, top + 25, f"c{one.colour}"))
        if one.low is not None and one.high is not None:
            a, b = (float(across(end)) for end in (one.low, one.high))
            middle = top + 19
            drawn.append(
                f'<path class="whisker" d="M{a:.1f} {middle}H{b:.1f}M{a:.1f} {middle - 4}v8M{b:.1f} {middle - 4}v8"/>'
            )
            right = max(right, b)
        drawn.append(_text(right + 5, top + 23, one.note, "value", "start"))
    said = f"{x}: " + "; ".join(f"{one.name} {one.note or short(one.value)}" for one in entries) + "."
    return _figure(drawn, title, said, [], height)


def _figure(drawn: Iterable[str], title: str, said: str, named: Sequence[Line | Part], height: float) -> Markup:
    """The drawing with its description, and below it what the colours mean where there are several."""
    svg = (
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH:g} {height:g}">'
        f"<title>{escape(title)}</title><desc>{escape(said)}</desc>{''.join(drawn)}</svg>"
    )
    keys = "".join(f"<li>{_key(one, number)}{escape(one.name)}</li>" for number, one in enumerate(named))
    legend = f'<ul class="keys">{keys}</ul>' if len(named) > 1 else ""
    return Markup(f"<figure><figcaption>{escape(title)}</figcaption>{svg}{legend}</figure>")


def _colour(one: Line | Part, number: int) -> str:
    if isinstance(one, Line) and one.bold:
        return "bold"
    return f"c{number % _COLOURS if one.colour is None else one.colour}"


def _key(one: Line | Part, number: int) -> str:
    dash = _DASHES[number // _COLOURS % len(_DASHES)]
    return (
        '<svg class="key" viewBox="0 0 22 10" aria-hidden="true">'
        f'<line class="line {_colour(one, number)}" stroke-dasharray="{dash}" x1="1" x2="21" y1="5" y2="5"/></svg>'
    )


def _frame(across: Axis | None, up: Axis | None, x: str, y: str, height: float = HEIGHT) -> str:
    """Grid, ticks and the names of the axes."""
    foot = height - _BOTTOM
    drawn: list[str] = []
    for tick, place in _ticks(up):
        drawn.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{place:.1f}" y2="{place:.1f}"/>')
        drawn.append(_text(_LEFT - 6, place + 4, short(tick), "tick", "end"))
    for tick, place in _ticks(across):
        drawn.append(f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{foot}"/>')
        drawn.append(_text(place, foot + 16, short(tick), "tick", "middle"))
    left = _LEFT if up is not None else _RIGHT
    drawn.append(f'<line class="axis" x1="{left}" x2="{WIDTH - _RIGHT}" y1="{foot}" y2="{foot}"/>')
    drawn.append(_text((left + WIDTH - _RIGHT) / 2, height - 10, x, "axis-name", "middle"))
    if y:
        drawn.append(
            f'<text class="axis-name" text-anchor="middle" transform="translate(12 {(_TOP + foot) / 2:.0f}) '
            f'rotate(-90)">{escape(y)}</text>'
        )
    return "".join(drawn)


def _ticks(axis: Axis | None) -> list[tuple[float, float]]:
    """The ticks of an axis and their places; none where there is no axis."""
    return [] if axis is None else [(tick, float(axis(tick))) for tick in axis.ticks()]


def _text(x: float, y: float, words: str, kind: str, anchor: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _box(left: float, wide: float, top: float, foot: float, colour: str) -> str:
    tall = max(foot - top, 0.0)
    return f'<rect class="area {colour}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'


def _points(across: Axis, up: Axis, x: ArrayLike, y: ArrayLike) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in zip(across(x), up(y), strict=True)]


def _path(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in points)


def _pairs(groups: Sequence[str], counts: ArrayLike) -> Iterator[tuple[str, float]]:
    numbers: NDArray[np.float64] = np.asarray(counts, dtype=np.float64)
    yield from zip(groups, numbers.tolist(), strict=True)


def _told(line: Line) -> str:
    """A curve in words: where it begins and ends."""
    x, y = (np.asarray(part, dtype=np.float64) for part in (line.x, line.y))
    return f"{line.name} {short(float(y[0]))} at {short(float(x[0]))} to {short(float(y[-1]))} at {short(float(x[-1]))}"
