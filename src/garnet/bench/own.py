"""Graphs, attacks and defences of one's own that a study names: files, and classes as `module:Class`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from inspect import isclass
from pathlib import Path
from types import ModuleType

from garnet.errors import ParameterError, brief
from garnet.io.identity import digest_of, file_identity

_SHOWN = 5


def located(name: str, folder: str) -> Path:
    """A file that a study names: beside the study if it is there, and from the current folder otherwise."""
    beside = Path(folder) / name
    return beside if os.path.exists(beside) else Path(name)  # noqa: PTH110 - Path.exists fails on a long name


def content_of(graph: str, folder: str) -> str:
    """Sixteen hex digits of what is in the file of a graph.

    Raises:
        ParameterError: there is no such file.
    """
    path = located(graph, folder)
    if not os.path.isfile(path):  # noqa: PTH113 - as above
        raise ParameterError(
            f"There is no file {brief(graph)} to read a graph from, neither beside the study nor in the current folder."
        )
    return digest_of({"graph": file_identity(path)})


def own_class(name: str, kinds: tuple[type, ...], what: str, folder: str) -> type:
    """The class that `module:Class` names; its module is imported, and so everything in it is run.

    Args:
        name: of module and class.
        kinds: base classes, of which it must have one.
        what: what it must be, in words.
        folder: of the study, where modules are looked for if none is installed by that name.

    Raises:
        ParameterError: it cannot be imported, or is something else.
    """
    path, _, attribute = name.partition(":")
    module = _imported(path, name, what, folder)
    found = getattr(module, attribute, None)
    wanted = f"a class that inherits from {' or '.join(kind.__name__ for kind in kinds)}"
    if found is None:
        there = [one for one, value in vars(module).items() if _is(value, kinds) and value.__module__ == path]
        has = f"it has {', '.join(there[:_SHOWN])}" if there else f"it has none that is {wanted}"
        raise ParameterError(f"The module {path} has no class {attribute}; {has}.")
    if not _is(found, kinds):
        raise ParameterError(f"The {what} of a study must be {wanted}, and {name} is none.")
    kind: type = found
    return kind


def _is(value: object, kinds: tuple[type, ...]) -> bool:
    return isclass(value) and issubclass(value, kinds) and value not in kinds


def _imported(path: str, name: str, what: str, folder: str) -> ModuleType:
    try:
        with _also_from(folder, "."):
            return import_module(path)
    except ModuleNotFoundError as error:
        reason = f"there is no module {error.name} beside the study, in the current folder or installed"
    except Exception as error:  # the module is not ours, and may do anything while it is imported
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    raise ParameterError(f"The {what} {name} cannot be imported: {reason}.") from None


@contextmanager
def _also_from(*folders: str) -> Iterator[None]:
    """Look for modules in these folders too, after all others, so that no file there hides an installed package."""
    before = list(sys.path)
    sys.path.extend(os.path.abspath(folder) for folder in folders if folder)  # noqa: PTH100 - links stay as they are
    invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
