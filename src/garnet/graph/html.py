"""Small tables for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """A table of two columns, for `_repr_html_`; texts are escaped and shown as they are.

    Example:
        >>> html_table("Graph", {"nodes": "<4"})
        '<table><caption>Graph</caption><tr><th>nodes</th><td>&lt;4</td></tr></table>'
    """
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
    return f"<table><caption>{escape(title)}</caption>{cells}</table>"
