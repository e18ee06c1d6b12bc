"""The folders in which the field's files are looked for."""

from __future__ import annotations

import os
from pathlib import Path


def roots() -> dict[str, Path]:
    """The folders to search, in order: the data folder, if one is named, and the cache."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    given, cache = os.environ.get("GARNET_DATA"), os.environ.get("GARNET_CACHE") or Path(caches) / "garnet"
    data = {"GARNET_DATA": Path(given).expanduser()} if given else {}
    return data | {"cache": Path(cache).expanduser()}


def find(file: str) -> Path | None:
    """The first file of this name in the folders, such as `cora/cora_prognn_splits.json`; None if there is none."""
    return next((path for root in roots().values() if (path := root / file).is_file()), None)


def sought(file: str) -> str:
    """Where a file was looked for, as part of a sentence."""
    places = " and ".join(f"in {root} ({what})" for what, root in roots().items())
    unset = "" if "GARNET_DATA" in roots() else "; GARNET_DATA is not set"
    return f"looked for {file} {places}{unset}"
