"""The folder of a result: whether it is ours, and which run made it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from garnet.errors import GarnetError, GraphError
from garnet.io.checked import checksum, read_note, write_note
from garnet.io.removal import remove
from garnet.io.targets import strangers
from garnet.places.edge_table import TABLE_MANIFEST, is_table
from garnet.places.tiles import MANIFEST, VERSION

_OURS = re.compile(
    r"((tile|ledger)-\d+-\d+|degrees-\d+|counts-\d+|node-features-\d+)\.bin|node-(labels|train|val|test|names-\d+)\.npy|"
    r"(part|_nodes)-\d{5,}\.(parquet|csv)"
)
_PARTS = re.compile(r"(part|_nodes)-.*")


@dataclass(frozen=True)
class Delivered:
    """A result that a folder holds.

    Attributes:
        files: names of its files, including the manifest; any others in the folder are the user's.
        run: which run made it, 16 hex digits; empty if unknown.
        facts: what that run found, as it recorded it.
        checks: CRC-32 of each file but the manifest.
    """

    files: frozenset[str]
    run: str
    facts: dict[str, Any]
    checks: dict[str, int]


def manifest_name(output: Path) -> str:
    """The name of the manifest in a folder of tiles, or of a table."""
    return TABLE_MANIFEST if is_table(output) else MANIFEST


def delivered(output: Path, name: str = "") -> Delivered | None:
    """The result in a folder; None if there is none, or its manifest is damaged.

    Args:
        output: the folder.
        name: of the manifest; by default that of a graph.
    """
    name = name or manifest_name(output)
    try:
        manifest = read_note(output / name)
        if manifest["version"] != VERSION:
            return None
        result = manifest.get("result") or {"run": "", "facts": {}, "ledger": {}}
        checks = {**manifest["checks"], **result["ledger"]}
        # A foreign manifest could name files that are not ours to replace.
        if not all(_OURS.fullmatch(file) for file in checks):
            return None
        return Delivered(frozenset({name, *checks}), str(result["run"]), dict(result["facts"]), checks)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def made_by(output: Path, run: str, name: str = "") -> Delivered | None:
    """The result in a folder, if it is this run's and every byte is as written; see `delivered`."""
    found = delivered(output, name)
    if found is None or found.run != run:
        return None
    try:
        same = all(checksum(output / name) == check for name, check in found.checks.items())
    except GraphError:  # a file is gone
        return None
    return found if same else None


def describe(staged: Path, output: Path, run: str, facts: dict[str, Any], name: str = "") -> None:
    """Record in a finished folder's manifest which run made it, and what that found; a table's is created here.

    The files of a ledger belong to the result, not to the graph: they go when it is replaced.

    Args:
        staged: the folder, in the directory of the run.
        output: where it will be.
        run: 16 hex digits.
        facts: plain values.
        name: of the manifest; by default that of a graph.
    """
    file = staged / (name or manifest_name(output))
    if file.name == MANIFEST:
        manifest = read_note(file)
    else:
        checks = {part.name: checksum(part) for part in sorted(staged.iterdir()) if _PARTS.fullmatch(part.name)}
        manifest = {"version": VERSION, "checks": checks}
    for strip in staged.glob("strip-*.json"):  # which the manifest now speaks for
        remove(strip)
    ledger = {part.name: checksum(part) for part in sorted(staged.glob("ledger-*.bin"))}
    write_note(file, {**manifest, "result": {"run": run, "facts": facts, "ledger": ledger}})


def require_free(output: Path, *, overwrite: bool, name: str = "", what: str = "a finished graph") -> Delivered | None:
    """Refuse a folder in which a result may not be placed.

    Args:
        output: the folder, which need not exist.
        overwrite: whether an earlier result of ours may be replaced.
        name: of the manifest; by default that of a graph.
        what: the kind of result, in words.

    Returns:
        The earlier result to be replaced; None if there is none.

    Raises:
        GarnetError: it has foreign files, or an earlier result that may not be replaced.
    """
    if not output.is_dir() or not any(output.iterdir()):
        return None
    found = delivered(output, name)
    if found is None:
        raise GarnetError(
            f"Cannot write into {output}: it holds files that are no result of ours ({strangers(output)}); give a "
            "folder that is new or empty."
        )
    if not overwrite:
        raise GarnetError(
            f"{output} holds {what}; choose another folder, or replace it with overwrite=True or --overwrite."
        )
    return found
