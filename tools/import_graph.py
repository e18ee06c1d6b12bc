"""Which room of the package imports from which, read off the code, and drawn into docs/rooms.svg.

A room is a package of `garnet`; the modules at its root are one room together, the ground. Every import counts once for
each module that makes it, wherever it stands: at the top, inside a function, or for the type checker alone.

python -m tools.import_graph           draw the picture
python -m tools.import_graph --check   say whether the picture is not what the code says, and end with status 1 then
"""

from __future__ import annotations

import argparse
import ast
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "garnet"
PICTURE = ROOT / "docs" / "rooms.svg"
GROUND = "ground"

Modules = Mapping[str, Path]
Arrows = Mapping[tuple[str, str], int]
"""How many modules of the first room import one of the second, counted by pairs of modules."""


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(known: Modules) -> dict[str, set[str]]:
    """What each of these modules imports of the others."""
    return {name: set(_imported(path, known)) - {name} for name, path in known.items()}


def _imported(path: Path, known: Modules) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and (module := node.module or "") in known:
            inner = (f"{module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else module for name in inner)


def room_of(module: str, known: Modules) -> str | None:
    """The room of a module; None for the door of the package, which only says where its public names live."""
    _, _, inside = module.partition(".")
    if not inside or inside == "__main__":
        return None
    room, _, rest = inside.partition(".")
    return room if rest or known[module].name == "__init__.py" else GROUND


def arrows(known: Modules) -> Counter[tuple[str, str]]:
    """How many imports lead from each room to each other one."""
    rooms = {module: room_of(module, known) for module in known}
    pairs = ((rooms[one], rooms[other]) for one, others in imports(known).items() for other in others)
    return Counter((one, other) for one, other in pairs if one and other and one != other)


def floors(led: Arrows) -> list[list[str]]:
    """The rooms by floors, the ground first: each as low as it can be above all that it imports from.

    Raises:
        graphlib.CycleError: rooms import from each other in a circle.
    """
    below: dict[str, set[str]] = {}
    for one, other in led:
        below.setdefault(one, set()).add(other)
    height: dict[str, int] = {}
    for room in TopologicalSorter(below).static_order():
        height[room] = 1 + max((height[other] for other in below.get(room, ())), default=-1)
    return [sorted(room for room in height if height[room] == floor) for floor in range(max(height.values()) + 1)]


def needed(led: Arrows) -> set[tuple[str, str]]:
    """The arrows without which the order of the rooms would be another: no way round leads where they lead."""
    below: dict[str, set[str]] = {}
    for one, other in led:
        below.setdefault(one, set()).add(other)

    def reach(room: str) -> set[str]:
        return below.get(room, set()).union(*(reach(other) for other in below.get(room, ())))

    return {(one, other) for one, other in led if not any(other in reach(via) for via in below[one])}


# --- the picture: a column of rooms, the highest floor at the top, and on its right an arc for each pair of rooms

_WIDTH, _MARGIN, _TOP = 400, 12, 52
_BOX, _ROW, _GAP = (122, 34), 42, 10
_STYLE = """
  .sheet { fill: #ffffff }
  .floor { fill: #f1f3f5 }
  .room { fill: #ffffff; stroke: #495057; stroke-width: 1.2 }
  text { font: 14px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #212529 }
  .name { font-weight: 600 }
  .small { font-size: 11px; fill: #5c636a }
  .arrow { fill: none; stroke: #adb5bd; stroke-opacity: 0.55 }
  .head { fill: #adb5bd }
  .arrow.needed { stroke: #9b1c3c; stroke-opacity: 0.9 }
  .head.needed { fill: #9b1c3c }
  @media (prefers-color-scheme: dark) {
    .sheet { fill: #16181b }
    .floor { fill: #212529 }
    .room { fill: #2b3035; stroke: #adb5bd }
    text { fill: #f1f3f5 }
    .small { fill: #adb5bd }
    .arrow { stroke: #6c757d }
    .head { fill: #6c757d }
    .arrow.needed { stroke: #ff8fa3 }
    .head.needed { fill: #ff8fa3 }
  }
"""


class _Row(NamedTuple):
    """Where a room stands: the number of its row from the top, and the top of its box."""

    number: int
    top: float


def draw(known: Modules) -> str:
    """The picture as SVG, which needs nothing from elsewhere and has colours of its own in the dark."""
    led = arrows(known)
    sizes = Counter(room_of(module, known) for module in known)
    rows: dict[str, _Row] = {}
    bands, top = [], float(_TOP)
    for floor in reversed(floors(led)):
        begin = top
        for room in floor:
            rows[room] = _Row(len(rows), top)
            top += _ROW
        height = top - begin - _ROW + _BOX[1]
        bands.append(
            f'<rect class="floor" x="4" y="{begin - 4:g}" width="{_WIDTH - 8}" height="{height + 8:g}" rx="6"/>'
        )
        top += _GAP
    boxes = [
        f'<rect class="room" x="{_MARGIN}" y="{row.top:g}" width="{_BOX[0]}" height="{_BOX[1]}" rx="5"/>'
        f'<text class="name" x="{_MARGIN + 8}" y="{row.top + 15:g}">{escape(room)}</text>'
        f'<text class="small" x="{_MARGIN + 8}" y="{row.top + 28:g}">{sizes[room]} modules</text>'
        for room, row in rows.items()
    ]
    title = "Rooms, and the imports between them"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top:g}" role="img" aria-label="{title}">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="sheet" width="{_WIDTH}" height="{top:g}" rx="8"/>',
        f'<text class="name" x="{_MARGIN}" y="20">{title}</text>',
        f'<text class="small" x="{_MARGIN}" y="37">An arrow leads to what is imported; the thicker, the more.</text>',
        *bands,
        *_arcs(led, rows),
        *boxes,
        "</svg>",
        "",
    ])  # fmt: skip


def _arcs(led: Arrows, rows: Mapping[str, _Row]) -> Iterator[str]:
    """The arrows, those that decide the order last, so that they lie above the others."""
    leaves = {pair: _port(pair[0], pair, led, rows) for pair in led}
    arrives = {pair: _port(pair[1], pair, led, rows) for pair in led}
    decisive, right, most = needed(led), _MARGIN + _BOX[0], len(rows) - 1
    for pair in sorted(led, key=lambda one: (one in decisive, led[one], one)):
        span = abs(rows[pair[1]].number - rows[pair[0]].number) / most
        bulge = right + 24 + (_WIDTH - right - 40) * span**0.7
        begin, end, width = leaves[pair], arrives[pair], 0.5 + 0.75 * math.log2(1 + led[pair])
        kind = " needed" if pair in decisive else ""
        said = f"{pair[0]} imports from {pair[1]}: {led[pair]} times"
        # The control points of a cubic lie a third further out than the curve itself.
        out = right + (bulge - right) * 4 / 3
        yield (
            f'<g><title>{escape(said)}</title><path class="arrow{kind}" stroke-width="{width:.2f}" '
            f'd="M{right} {begin:.1f}C{out:.1f} {begin:.1f} {out:.1f} {end:.1f} {right + 7} {end:.1f}"/>'
            f'<path class="head{kind}" d="M{right + 1} {end:.1f}l7 -3v6z"/></g>'
        )


def _port(room: str, pair: tuple[str, str], led: Arrows, rows: Mapping[str, _Row]) -> float:
    """The height at which an arrow meets the side of a room.

    Those that arrive do so above those that leave. Of both, arrows to and from low rooms are above the others, so that
    no two of one room cross.
    """

    def order(one: tuple[str, str]) -> tuple[bool, int]:
        leaves = one[0] == room
        return leaves, -rows[one[1] if leaves else one[0]].number

    own = sorted((one for one in led if room in one), key=order)
    return rows[room].top + _BOX[1] * (own.index(pair) + 1) / (len(own) + 1)


def main() -> None:
    """Draw the picture, or check it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check, drawn = parser.parse_args().check, draw(modules())
    if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == drawn:
        return
    name = PICTURE.relative_to(ROOT)
    if check:
        sys.exit(f"not what the code says: {name}\nDraw it with: make tables")
    PICTURE.write_text(drawn, encoding="utf-8")
    print(f"wrote {name}")


if __name__ == "__main__":
    main()
