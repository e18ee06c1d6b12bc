"""Tables of records in LaTeX, which needs no package."""

from __future__ import annotations

from collections.abc import Iterable

from garnet.bench.entry import MISSING, Entry
from garnet.bench.significance import best_and_ties
from garnet.bench.table import Table

_TIE = r"$^{\ast}$"
_ESCAPED = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "–": "--",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
}


def as_latex(table: Table) -> str:
    r"""The table as a plain `tabular`, in a `table` with its title as caption; the lines below it are comments.

    Of each column the best mean is bold, and a star is on those that a t-test cannot tell from it at 5 %; see
    `garnet.bench.significance.best_and_ties`. The paper's numbers are left out: they are not of the same models.
    """
    columns = [best_and_ties([row.entries[n] for row in table.rows]) for n in range(len(table.columns) - table.labels)]
    body = [
        _line([*map(_escaped, row.labels), *(_entry(entry, place, *columns[n]) for n, entry in enumerate(row.entries))])
        for place, row in enumerate(table.rows)
    ]
    caption = _escaped(table.title)
    if any(best for best, _ in columns):
        caption += ". Bold: the best of a column"
        caption += f"; {_TIE}: not told from it by a t-test at 5\\,\\%." if any(ties for _, ties in columns) else "."
    return "\n".join(
        [
            *(f"% {line}" for text in table.below for line in text.splitlines()),
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{{'l' * table.labels}{'r' * len(columns)}}}",
            r"\hline",
            _line(map(_escaped, table.columns)),
            r"\hline",
            *body,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _entry(entry: Entry, place: int, best: frozenset[int], ties: frozenset[int]) -> str:
    text = "--" if entry.text == MISSING else _escaped(entry.text)
    if place in best:
        mean, sign, spread = text.partition(r" $\pm$")
        return rf"\textbf{{{mean}}}{sign}{spread}"
    return text + _TIE if place in ties else text


def _line(parts: Iterable[str]) -> str:
    return " & ".join(parts) + r" \\"


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in text)
