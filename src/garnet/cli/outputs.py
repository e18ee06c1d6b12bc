"""The files that a command writes: checked before the work, staged during it, moved into place at the end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from garnet.cli.console import err, named_graph, printable, say_json

if TYPE_CHECKING:
    from garnet.io.scratch import Scratch

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]

# What a command may be given without changing its result.
_ASIDE = ("overwrite", "resume", "scratch", "dry_run", "as_json", "top")


class Outputs:
    """The output files of one command. As a context manager it makes them appear together when the block succeeds.

    Args:
        context: the command's context.
        written: names of the parameters that are files to write; those that are None are skipped.
        read: names of the parameters that are files, folders or names to read.
        also: other files to read.
        replaceable: files that may be replaced without `--overwrite`.

    Raises:
        GarnetError: a file cannot be written, is written twice, or would replace one that may not be replaced.
    """

    def __init__(
        self,
        context: typer.Context,
        *,
        written: Sequence[str],
        read: Sequence[str] = (),
        also: Iterable[Path] = (),
        replaceable: Iterable[Path] = (),
    ) -> None:
        from garnet.io.stamp import stamp_of
        from garnet.io.targets import require_apart, require_file

        asked = dict(context.params)
        self._paths: dict[str, Path] = {name: asked[name] for name in written if asked[name] is not None}
        read = [*read, "node_table"]
        inputs = [*(Path(asked[name]) for name in read if asked.get(name) is not None), *also]
        self._as_json = bool(asked.get("as_json"))
        overwrite, free = bool(asked.get("overwrite")), set(replaceable)
        self._scratch: Scratch | None = None
        self._staged: dict[str, tuple[Path, bool]] = {}
        require_apart(*self._paths.values())
        for path in self._paths.values():
            require_file(path, inputs=inputs)
        others = {name: value for name, value in asked.items() if name not in (*written, *read, *_ASIDE)}
        self._runs = _runs(str(context.info_name), others, inputs, self._paths)
        mine = {name for name, path in self._paths.items() if stamp_of(path.resolve()) == self._runs[name]}
        self._replace = {name for name, path in self._paths.items() if overwrite or path in free}
        for name in self._paths.keys() - self._replace - mine:
            require_file(self._paths[name], inputs=inputs, overwrite=False)
        self._finished = bool(mine) and mine == self._paths.keys()

    @property
    def done(self) -> bool:
        """Whether this very command has written all of them before; if so, prints that."""
        from garnet.io.scratch import forget

        if self._finished:
            forget(next(iter(self._paths.values())).resolve())
            say_done(*self._paths.values(), as_json=self._as_json)
        return self._finished

    def staged(self, path: Path, *, complete: bool = True) -> Path:
        """Where to write a file now for it to end up at `path`.

        Args:
            path: one of the files.
            complete: whether repeating the command would have nothing more to do.
        """
        from garnet.io.failures import writing

        if self._scratch is None:
            raise RuntimeError("outputs are staged in a with block")
        name = next(name for name, other in self._paths.items() if other is path or other == path)
        folder = self._scratch.folder / name
        with writing(path):
            folder.mkdir(exist_ok=True)
        self._staged[name] = folder / path.name, complete
        return folder / path.name

    def __enter__(self) -> Outputs:
        from garnet.io.scratch import Scratch

        first = next(iter(self._paths.values()), None)
        if first is not None:
            self._scratch = Scratch.claim(first.resolve())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from garnet.errors import GarnetError

        if self._scratch is None:
            return
        with self._scratch:
            if kind is None:
                self._publish()
            elif isinstance(error, GarnetError) and (said := self._by_their_own_names(str(error))) != str(error):
                raise GarnetError(said) from error

    def _publish(self) -> None:
        from garnet.io.failures import writing
        from garnet.io.publish import publish
        from garnet.io.stamp import stamp, stamp_of

        for name, (staged, complete) in self._staged.items():
            with writing(self._paths[name]):
                if complete:
                    stamp(staged, self._runs[name])
                target = self._paths[name].resolve()
                ours = stamp_of(target) == self._runs[name]  # now, not when the work began
                publish(staged, target, replace=ours or name in self._replace)

    def _by_their_own_names(self, text: str) -> str:
        for name, (staged, _) in self._staged.items():
            text = text.replace(str(staged), str(self._paths[name]))
        return text


def say_done(*paths: Path, as_json: bool) -> None:
    """Say that there is nothing to do."""
    if as_json:
        say_json({"done_already": [str(path) for path in paths]})
    names = " and ".join(printable(path) for path in paths)
    err.print(f"done already: this very command has written {names}", soft_wrap=True)


def _runs(command: str, asked: dict[str, Any], inputs: Sequence[Path], paths: dict[str, Path]) -> dict[str, str]:
    """What distinguishes this command's result from all others, for each file that it writes."""
    from garnet.io.identity import digest_of
    from garnet.machine import __version__

    facts = {
        "version": __version__,
        "command": command,
        "asked": asked,
        "inputs": [[path.name, _identity(path, paths.values())] for path in inputs],
    }
    return {name: digest_of({**facts, "file": name, "format": path.suffixes[-2:]}) for name, path in paths.items()}


def _identity(path: Path, written: Iterable[Path]) -> list[Any]:
    """What distinguishes one input from another: the bytes of files or, for a graph known by name, its contents."""
    from garnet.io.identity import file_identity
    from garnet.places.tiled_place import identity

    graph = None if os.path.lexists(path) else named_graph(path)
    return file_identity(path, without=written) if graph is None else identity(graph, path)
