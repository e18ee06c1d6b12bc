"""What a report is made of: sections, tables, and the view of neighbourhoods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from garnet.report.neighbourhood import Ties, make_views, whole_graph
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


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, labels: int = 1, name: str = "Table") -> Markup:
    """A table whose first columns are labels and whose others are numbers; every cell is text and escaped.

    Args:
        heads: of the columns.
        rows: as many cells each.
        labels: how many columns are labels.
        name: what the table is called when it is read aloud.
    """
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
    ties: Ties, nodes: Sequence[int] | None, *, panels: Sequence[tuple[str, int]], words: Mapping[str, Any], text: str
) -> list[Section]:
    """The section in which one looks at a node; none where there is nothing to see.

    Args:
        ties: the edges.
        nodes: those to show besides the most changed.
        panels: of each picture its name, and the kind of edges that it lacks.
        words: `kinds`, three names; `marked` and `unmarked`, what an edge is; `score`, what its number is.
        text: what is said above.
    """
    views = make_views(ties, nodes)
    if not views:
        return []
    words = {**words, "labelled": ties.labels is not None}
    data = {"panels": panels, "words": words, "views": views, "graph": whole_graph(ties)}
    whole = data["graph"] is not None
    body = fragment("neighbourhood.html", data=embedded(data), views=views, panels=panels, words=words, whole=whole)
    return [Section("Neighbourhoods", text, body, wide=True)]


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent, or a dash."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def plural(count: int, one: str, many: str | None = None) -> str:
    """A number of things."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
