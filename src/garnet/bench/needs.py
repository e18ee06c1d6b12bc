"""Which cells cannot be measured because the files of their graphs are not here: asked once, before any work."""

from __future__ import annotations

from collections.abc import Iterable

from garnet.bench.build import require_graphs
from garnet.bench.cell import Cell
from garnet.errors import GraphError


def lacking(cells: Iterable[Cell]) -> dict[Cell, str]:
    """The cells whose graph, or its attacked version, is nowhere to be found, each with the sentence that says so.

    Nothing is read that is large; a graph that PyTorch Geometric can download is downloaded now, once.
    """
    asked: dict[tuple[object, ...], str] = {}
    found: dict[Cell, str] = {}
    for cell in cells:
        wanted = (cell.graph, cell.attack, cell.budget, cell.made, cell.split)
        if wanted not in asked:
            asked[wanted] = _why(cell)
        if asked[wanted]:
            found[cell] = asked[wanted]
    return found


def require_here(cells: Iterable[Cell]) -> None:
    """Refuse to begin where files are missing.

    Raises:
        GraphError: the first that is missing, and how many cells there are that lack a file.
    """
    cells = list(cells)
    missing = lacking(cells)
    if not missing:
        return
    reasons = list(dict.fromkeys(missing.values()))
    first = reasons[0].rstrip(".")
    which = "the first of them: " if len(reasons) > 1 else ""
    others = "; --skip-missing measures the other cells" if len(missing) < len(cells) else ""
    raise GraphError(
        f"Nothing was measured, because {len(missing):,} of {len(cells):,} cells lack a file, {which}"
        f"{first[:1].lower()}{first[1:]}{others}."
    )


def _why(cell: Cell) -> str:
    try:
        require_graphs(cell)
    except GraphError as error:
        return str(error)
    return ""
