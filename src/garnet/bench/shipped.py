"""The studies that come with the library, by name, and where the records of a study are kept."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

from garnet.bench.study import Study
from garnet.errors import ParameterError, brief

STUDIES = Path(__file__).with_name("studies")
PACKAGE = Path(__file__).parents[1]

_ENDING = ".toml"
_NUMBERS = re.compile(r"(\d+)")


def shipped() -> tuple[str, ...]:
    """The names of all studies that come with the library, numbers in their order.

    Example:
        >>> [name for name in shipped() if name.startswith("table-1")]
        ['table-10', 'table-11', 'table-12']
    """
    names = [path.stem for path in STUDIES.glob(f"*{_ENDING}")]
    return tuple(sorted(names, key=_in_order))


def is_study(name: str | Path) -> bool:
    """Whether it is the file of a study, which its ending says, or the name of one that comes with the library."""
    return Path(name).suffix.lower() == _ENDING or str(name) in shipped()


def study_file(name: str | Path) -> Path:
    """The file of a study: itself, where the name ends in `.toml`, or else the one of that name in the library.

    Raises:
        ParameterError: the library has no study of that name.
    """
    if Path(name).suffix.lower() == _ENDING:
        return Path(name)
    known = shipped()
    if str(name) in known:
        return STUDIES / f"{name}{_ENDING}"
    near = difflib.get_close_matches(str(name)[:100], known, n=3, cutoff=0.6)
    guess = f"Did you mean {' or '.join(near)}?" if near else "'garnet bench list' names those there are."
    raise ParameterError(f"There is no study named {brief(str(name))}, and a file of your own ends in .toml. {guess}")


def records_of(path: Path, study: Study) -> Path:
    """Where the records of a study are kept unless another file is named: in the current folder.

    They are in its folder `results` if it has one, as a checkout of the library does, and beside it otherwise.

    Args:
        path: the study's file.
        study: what is in it.
    """
    return records_file(study.record or path.stem)


def records_file(name: str) -> Path:
    """Where records of this name are kept unless another file is named; see `records_of`."""
    name = f"{name}.jsonl"
    return Path("results") / name if Path("results").is_dir() else Path(name)


def require_outside(path: Path) -> None:
    """Refuse to keep records in the library's own folder, which an update replaces.

    Raises:
        ParameterError: the path leads there.
    """
    if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(PACKAGE)):
        raise ParameterError(
            f"Records are not kept inside the library, where {path} is; go to another folder, or name a file with -o."
        )


def _in_order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in _NUMBERS.split(name)]
