"""Run a notebook's cells in one process, in a folder of their own, and store in it what they show.

python -m tools.notebook examples/first-steps.ipynb
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Cell = dict[str, Any]


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with new outputs; what its code raises is raised here."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = iter(range(1, len(notebook["cells"]) + 1))
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        cells = [_run(cell, names, next(count)) if cell["cell_type"] == "code" else cell for cell in notebook["cells"]]
    return notebook | {"cells": cells}


def _run(cell: Cell, names: dict[str, Any], count: int) -> Cell:
    """A cell of code with what it prints and what its last expression is."""
    body = ast.parse("".join(cell["source"])).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), f"cell {count}", "exec"), names)
        shown = None
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
    outputs = [*_stream(printed.getvalue()), *_result(shown, count)]
    return cell | {"execution_count": count, "outputs": outputs}


def _stream(text: str) -> Iterator[dict[str, Any]]:
    if text:
        yield {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}


def _result(shown: Any, count: int) -> Iterator[dict[str, Any]]:
    if shown is None:
        return
    data = {"text/plain": repr(shown).splitlines(keepends=True)}
    if hasattr(shown, "_repr_html_"):
        data["text/html"] = shown._repr_html_().splitlines(keepends=True)
    yield {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}


def main(paths: list[str]) -> None:
    """Run the notebooks and write them anew."""
    for path in map(Path, paths):
        done = executed(json.loads(path.read_text(encoding="utf-8")))
        unfinished = path.with_name(f".{path.name}.unfinished")
        unfinished.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        unfinished.replace(path)
        print(f"wrote {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
