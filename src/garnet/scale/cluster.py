"""Work on a Dask cluster instead of in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from garnet.errors import GarnetError, MissingExtra, ParameterError


class OnCluster:
    """Sends every task to a worker and waits for all of them: see `garnet.scale.parts.Run`.

    A task that was on a worker when it was lost is done again by another.

    Args:
        client: a `distributed.Client`, or the address of a scheduler, such as tcp://10.0.0.1:8786.
    """

    def __init__(self, client: Any) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingExtra("distributed", "A cluster", "pygarnet[cluster]") from error
        if isinstance(client, str):
            try:
                client = Client(client, timeout="10s")  # type: ignore[no-untyped-call]
            except (OSError, ValueError) as error:
                raise ParameterError(f"There is no Dask scheduler at {client!r} ({error}).") from error
        if not isinstance(client, Client):
            raise ParameterError(
                f"The 'cluster' parameter of GARNET must be a distributed.Client or an address. Got {client!r} instead."
            )
        self._client = client

    @property
    def workers(self) -> int:
        """Workers that are there now."""
        return len(self._client.scheduler_info()["workers"])

    def __call__(self, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        """What the function gives for the arguments of each task, in their order."""
        from distributed.scheduler import KilledWorker

        futures = [self._client.submit(work, *task, pure=False) for task in tasks]
        try:
            return list(self._client.gather(futures))  # type: ignore[no-untyped-call]
        except KilledWorker as error:
            raise GarnetError(
                f"A task was lost with its worker again and again ({error}); give the workers more memory, or say how "
                "much they have with memory=."
            ) from error
