"""A study: one TOML file that says which cells of a table are to be measured."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from garnet.bench.cell import Cell
from garnet.bench.group import cells_of, known_keys
from garnet.bench.reading import read_small, reason_of
from garnet.bench.schema import LONGEST_NAME, MOST_SEEDS
from garnet.errors import GarnetError, ParameterError, brief
from garnet.parameters import is_whole

_MOST_BYTES = 256 << 10
_MOST_DOTS = 500  # on a line: the time to read a.a.a.a = 1 grows with the square of its length
_MOST_CELLS = 10_000
_LONGEST_TITLE, _LONGEST_NOTE = 1_000, 10_000
_STUDY_KEYS = ("title", "note", "record", "seeds", "cells")


@dataclass(frozen=True)
class Study:
    """What is to be measured: cells, each once, under a title.

    Attributes:
        title: shown above the table.
        note: shown below it.
        cells: cells in the order of the file.
        record: name of the file of records, without its ending; studies that name the same one share its cells. Empty
            for the name of the study's own file.
    """

    title: str
    note: str
    cells: tuple[Cell, ...]
    record: str = ""


def load_study(path: str | Path) -> Study:
    """Read a study.

    Raises:
        ParameterError: there is no such file, it is not TOML, or something in it is not known; the message names it.
    """
    try:
        text = read_small(path, _MOST_BYTES).decode()
    except OSError as error:
        raise ParameterError(f"Cannot read the study {path}: {reason_of(error)}.") from None
    except UnicodeDecodeError:
        raise ParameterError(f"Cannot read the study {path}: it is not UTF-8 text.") from None
    if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
        raise ParameterError(f"Cannot read the study {path}: it has a line with more than {_MOST_DOTS} dots.")
    try:
        return parse_study(tomllib.loads(text), str(Path(path).absolute().parent))
    except GarnetError as error:
        raise ParameterError(f"In the study {path}: {error}") from None
    except (ValueError, RecursionError) as error:
        reason = (
            str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number is too long, or a list too deep"
        )
        raise ParameterError(f"The study {path} is not valid TOML: {reason}.") from None


def parse_study(document: Mapping[str, Any], folder: str = "") -> Study:
    """A study from the contents of its file.

    Args:
        document: what the file holds.
        folder: where files and modules that it names are looked for first; they are then in the current one.

    Raises:
        ParameterError: something in it is not known; the message names it.
    """
    known_keys(document, _STUDY_KEYS, "key of a study")
    title, note, record = document.get("title"), document.get("note", ""), document.get("record", "")
    if not isinstance(title, str) or len(title) > _LONGEST_TITLE or not _is_text(note, _LONGEST_NOTE):
        raise ParameterError(
            f"A study needs a 'title' that is text, of at most {_LONGEST_TITLE:,} characters, and its 'note', if any, "
            f"must be text too, of at most {_LONGEST_NOTE:,}."
        )
    if not _is_text(record, LONGEST_NAME) or Path(record).name != record or not record.isprintable():
        raise ParameterError(
            f"The 'record' of a study must be the name of a file without a folder. Got {brief(record)}."
        )
    groups = document.get("cells", [])
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        raise ParameterError("The cells of a study are tables; begin each group with a line [[cells]].")
    seeds = _seeds(document.get("seeds", 10))
    cells: dict[Cell, None] = {}
    for number, cell in enumerate(cell for group in groups for cell in cells_of(group, seeds, folder)):
        if number >= _MOST_CELLS:
            raise ParameterError(f"The study has more than {_MOST_CELLS:,} cells; shorten its lists, or split it.")
        cells[cell] = None
    if not cells:
        raise ParameterError("The study has no cells; add a group that begins with a line [[cells]].")
    return Study(title, note, tuple(cells), record)


def _is_text(value: Any, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest


def _seeds(value: Any) -> tuple[int, ...]:
    chosen = value if isinstance(value, list) else range(value) if is_whole(value) and value <= MOST_SEEDS else []
    if not 0 < len(chosen) <= MOST_SEEDS or not all(is_whole(seed) and 0 <= seed < 2**63 for seed in chosen):
        raise ParameterError(
            f"The 'seeds' of a study must be a number up to {MOST_SEEDS} or a list of as many integers >= 0. "
            f"Got {brief(value)}."
        )
    return tuple(dict.fromkeys(chosen))
