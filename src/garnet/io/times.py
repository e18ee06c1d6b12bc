"""The times of a table's rows: those from some time on can be left out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, ParameterError, brief

_EXAMPLES = "a number, or a date such as 2024-05-31 or 2024-05-31T18:00"


class Before:
    """Separates the rows before some time from the others, and counts the others.

    Times are numbers, or ISO 8601 dates; those without a time zone are in UTC.

    Attributes:
        said: the time, as the user wrote it.
        left_out: number of rows so far that were not before it.

    Raises:
        ParameterError: it is neither.

    Example:
        >>> Before("2024-03-01").mask(["2024-02-29T23:59", "2024-03-01"]).tolist()
        [True, False]
    """

    def __init__(self, time: Any) -> None:
        self.said, self.left_out = str(time), 0
        try:
            self._number: float | None = float(time)
        except (TypeError, ValueError):
            self._number = None
        try:
            self._limit = self._moment(time)
        except ValueError:
            raise ParameterError(f"The 'before' of a table must be {_EXAMPLES}. Got {brief(time)} instead.") from None

    def mask(self, times: Iterable[Any]) -> NDArray[np.bool_]:
        """Which of some times are before it.

        Raises:
            ValueError: one is not a time of that kind; `wrong` says why.
        """
        if isinstance(times, np.ndarray) and times.dtype.kind == "M" and self._number is None:
            if np.isnat(times).any():
                raise ValueError("a time is missing")
            limit = datetime.fromtimestamp(self._limit, UTC).replace(tzinfo=None)
            found = np.asarray(times < np.datetime64(limit))
        else:
            values = times.tolist() if isinstance(times, np.ndarray) and times.dtype.kind in "biuf" else times
            found = np.fromiter((self._moment(one) < self._limit for one in values), np.bool_)
        self.left_out += int((~found).sum())
        return found

    def wrong(self, time: Any) -> str | None:
        """What is wrong with a time, in words that follow its row; None if nothing is."""
        try:
            self._moment(time)
        except ValueError:
            kind = "a number" if self._number is not None else "a date, written as 2024-05-31 or 2024-05-31T18:00"
            return f"the time {brief(time)}, which is not {kind}, as {self.said} is"
        return None

    def column(self, times: NDArray[Any], called: str) -> NDArray[np.bool_]:
        """Which rows of a column are before it.

        Raises:
            GraphError: one is not a time of that kind; its row is named.
        """
        try:
            return self.mask(times)
        except ValueError:
            for place, time in enumerate(times.astype(np.object_).tolist()):
                if (wrong := self.wrong(time)) is not None:
                    raise GraphError(
                        f"The column {called!r} has {wrong}, in row {place}, counted from 0; mend it or drop it."
                    ) from None
            raise

    def _moment(self, time: Any) -> float:
        """Seconds of a date, or the number; raises ValueError for what is neither, or of another kind."""
        if self._number is not None:
            if isinstance(time, bool | date | np.datetime64) or time is None or (number := float(time)) != number:
                raise ValueError("it is no number")
            return number
        if isinstance(time, str):
            moment = datetime.fromisoformat(time)
        elif isinstance(time, np.datetime64):
            moment = time.astype("datetime64[us]").item()
        elif isinstance(time, datetime):
            moment = time
        elif isinstance(time, date):
            moment = datetime(time.year, time.month, time.day)
        else:
            raise ValueError("it is no date")
        if moment is None or moment != moment:  # missing values: NaT of NumPy and of pandas
            raise ValueError("it is missing")
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
