"""What a report is made of: sections, tables, and the view of neighbourhoods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from garnet.report.neighbourhood import MOST_NODES, Orders, Ties, around, require_nodes, whole_graph, worth_seeing
from garnet.report.rendering import fragment

_NOTHING = Markup()


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        title: its head; the first section of a report needs none.
        text: one sentence, or a few.
        body: charts and tables, as HTML that is safe.
        wide: whether it takes the whole width of the page.
    """

    title: str
    text: str
    body: Markup = _NOTHING
    wide: bool = False


_MOST_COLUMNS = 11  # as many numbers of a few digits are side by side on paper


def table(heads: Sequence[Any], rows: Iterable[Sequence[Any]], *, labels: int = 1, name: str = "Table") -> Markup:
    """A table whose first columns are labels and whose others are numbers; every cell is text and escaped.

    One with more columns than a page is wide is cut into several, each with the labels.

    Args:
        heads: of the columns.
        rows: as many cells each.
        labels: how many columns are labels.
        name: what the table is called when it is read aloud.
    """
    rows = list(rows)
    step = max(1, _MOST_COLUMNS - labels)
    starts = range(labels, max(len(heads), labels + 1), step)
    parts = ([*range(labels), *range(start, min(start + step, len(heads)))] for start in starts)
    return Markup().join(
        _table([heads[place] for place in part], [[row[place] for place in part] for row in rows], labels, name)
        for part in parts
    )


def _table(heads: Sequence[Any], rows: Sequence[Sequence[Any]], labels: int, name: str) -> Markup:
    top = Markup().join(
        Markup('<th scope="col"{}>{}</th>').format(_aligned(place >= labels), head) for place, head in enumerate(heads)
    )
    lines = Markup().join(
        Markup("<tr>{}</tr>").format(
            Markup().join(
                Markup('<th scope="row">{}</th>').format(cell)
                if place == 0
                else Markup("<td{}>{}</td>").format(_aligned(place >= labels), cell)
                for place, cell in enumerate(row)
            )
        )
        for row in rows
    )
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{}"><table><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(name, top, lines)


def _aligned(number: bool) -> Markup:
    return Markup(' class="n"') if number else Markup()


def facts(pairs: Mapping[str, Any]) -> Markup:
    """Names and values, a line each."""
    lines = (Markup("<dt>{}</dt><dd>{}</dd>").format(name, value) for name, value in pairs.items())
    return Markup("<dl>{}</dl>").format(Markup().join(lines))


def code(text: str) -> Markup:
    """A command or a program."""
    return Markup('<pre tabindex="0"><code>{}</code></pre>').format(text)


def embedded(data: Any) -> Markup:
    """Data as JSON that no text in it can end: HTML knows no escapes there, but JSON has its own for these signs."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def neighbourhoods(
    ties: Ties,
    nodes: Sequence[int] | None,
    *,
    orders: Orders,
    panels: Sequence[tuple[str, int]],
    words: Mapping[str, Any],
    text: str,
) -> list[Section]:
    """The section in which one looks at a node; none where there is nothing to see.

    Args:
        ties: the edges.
        nodes: those to show besides the ones that are worth seeing.
        orders: by which these are found; see `worth_seeing`.
        panels: of each picture its name, and the kind of edges that it lacks.
        words: `kinds`, three names; `marked`, what such an edge is; `score`, what its number is; `single`, whether
            there is one picture.
        text: what is said above.
    """
    found, why = worth_seeing(ties, orders)
    listed = list(dict.fromkeys([*require_nodes(ties, nodes or ()), *found]))
    if not listed:
        return []
    whole = whole_graph(ties)
    words = {**words, "labelled": ties.labels is not None}
    data = {"panels": panels, "words": words, "listed": listed, "most": MOST_NODES, "graph": whole}
    data["parts"] = [around(ties, node) for node in listed] if whole is None else []
    names = [(node, ties.name(node)) for node in listed]
    body = fragment(
        "neighbourhood.html", data=embedded(data), listed=names, panels=panels, words=words, whole=whole is not None
    )
    asked = "those asked for, then with " if nodes else ""
    return [Section("Neighbourhoods", f"{text} The list begins with {asked}the nodes that {why}.", body, wide=True)]


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent, on one line, or a dash."""
    return "–" if share is None else f"{100 * share:.{digits}f}\N{NO-BREAK SPACE}%"


def plural(count: int, one: str, many: str | None = None) -> str:
    """A number of things."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
