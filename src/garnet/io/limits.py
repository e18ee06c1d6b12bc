"""How much a file, or an object, may claim before it is believed."""

from __future__ import annotations

import math
import os

from garnet import machine
from garnet.errors import GraphError, ParameterError

UNFOLD = "GARNET_UNFOLD"
"""The environment variable that multiplies the limits of unpacking."""

_UNFOLDED, _RATIO = 256_000_000, 50
"""What small files may unpack to, and the factor for larger ones; real .npz files have up to 15 times."""

_TEXT_UNFOLDED, _TEXT_RATIO = 16_000_000, 20
"""The same for compressed text, whose rows take several times its bytes; real edge lists have 3 to 12 times."""

_NODES, _NODES_AN_ENTRY = 200_000, 100
"""How many nodes, or columns of features, are believed without any entry, and for each entry."""


def require_memory(needed: int, what: str) -> None:
    """Refuse what this machine cannot hold, before anything is allocated for it."""
    if needed > machine.physical_memory():
        raise GraphError(f"{what} needs {needed / 1e9:.3g} GB, more than this machine's memory.")


def require_plausible(size: int, entries: int, what: str, of: str = "entries") -> None:
    """Refuse a matrix so much larger than its number of entries that only a faulty or hostile file would declare it.

    Args:
        size: length of one side of the matrix.
        entries: number of its entries, or if not counted, the bytes in which they are packed.
        what: what is along that side.
        of: what `entries` counts.
    """
    most = (_NODES + _NODES_AN_ENTRY * entries) * unfold_factor()
    if size > most:
        raise GraphError(
            f"it declares {size} {what} for {entries} {of}, which no real graph has; {_raised(size / most)} to "
            "read it nevertheless."
        )


def require_unfolding(unfolded: int, packed: int, what: str) -> None:
    """Refuse what would take far more bytes unpacked than packed, before unpacking it."""
    most = max(_UNFOLDED, _RATIO * packed) * unfold_factor()
    if unfolded > most:
        raise GraphError(
            f"{what} unfolds from {_size(packed)} to {_size(unfolded)}, above the limit of {_size(most)}; "
            f"{_raised(unfolded / most)} to read it nevertheless."
        )


def require_text(unfolded: int, packed: int) -> None:
    """Refuse compressed text as soon as it turns out to be far longer than real text."""
    most = max(_TEXT_UNFOLDED, _TEXT_RATIO * packed) * unfold_factor()
    if unfolded > most:
        raise GraphError(
            f"its {_size(packed)} unfold to a text of more than the limit of {_size(most)}; unpack it yourself, or "
            f"{_raised(2)} to read it nevertheless."
        )


def unfold_factor() -> float:
    """The factor on the limits of unpacking, from the environment; 1 if not set."""
    said = os.environ.get(UNFOLD, "1")
    try:
        factor = float(said)
    except ValueError:
        factor = math.nan
    if not factor > 0:
        raise ParameterError(f"The environment variable {UNFOLD} must be a positive number. Got {said!r} instead.")
    return factor


def _raised(times: float) -> str:
    # Doubled until it is enough, to give a round number.
    factor = 2 ** math.ceil(math.log2(max(times, 2) * unfold_factor()))
    return f"set the environment variable {UNFOLD}={factor:g}"


def _size(size: float) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB" if size >= 1e6 else f"{size / 1e3:.3g} kB"
