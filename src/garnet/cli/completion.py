"""`garnet completion`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from garnet.errors import ParameterError

_VARIABLE = "_GARNET_COMPLETE"
_SHELLS = ("bash", "zsh", "fish", "powershell")


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=f"{', '.join(_SHELLS[:-1])} or {_SHELLS[-1]}.")],
) -> None:
    """Print a script that has a shell complete commands and options; no file of yours is changed.

    In bash: garnet completion bash > ~/.local/share/bash-completion/completions/garnet
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if shell not in _SHELLS:
        raise ParameterError(f"There is no completion for the shell {shell!r}; name one of {', '.join(_SHELLS)}.")
    typer.echo(get_completion_script(prog_name="garnet", complete_var=_VARIABLE, shell=shell))


def prepare() -> None:
    """Answer the shell, where it is the one that asks."""
    if _VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
