"""Work on a Dask cluster instead of in this process.

A task is a function and the names of files. Large values shared by many tasks, such as the quantizer or the list of
tiles, are scattered once, and workers get them from one another; the scheduler sees none of them.
"""

from __future__ import annotations

import io
import os
import pickle
import secrets
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from garnet.errors import GarnetError, MissingExtra, ParameterError
from garnet.io.removal import remove
from garnet.places.row_store import Done
from garnet.places.tiles import TiledGraph

_LARGE = 1 << 18  # bytes from which an array is scattered
_ATTEMPTS = 5
_AT_ONCE = 256  # tasks per message to the scheduler
_WAIT = 5  # seconds to wait for a scheduler, and for a first worker
_LOOK, _LOOKS = 5, 12  # seconds between two checks for workers, and how many in a row may find none
_GLANCE, _GLANCES = 0.05, 20  # seconds between two checks for the scheduler, and how many
_SPILL = 0.7  # share of its limit at which a worker spills values to disk
_PROCESS = secrets.token_hex(8)  # processes on different machines may have the same number


def client_or_address(value: Any) -> str | None:
    """Dask is not imported to check this, so anything that takes tasks counts as a client until it is used."""
    fine = issubclass(type(value), str) or callable(getattr(type(value), "submit", None))
    return None if fine else "a distributed.Client or the address of a scheduler"


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What the workers of a cluster can do.

    Attributes:
        threads: tasks that all workers together run at the same time.
        at_once: most tasks that one process runs at the same time; several workers may share a process.
        memory: bytes that every process may hold before its workers exceed their limits; None if there are none.
    """

    threads: int
    at_once: int
    memory: int | None


class ClusterRun:
    """Sends every task to a worker and waits for all of them; see `garnet.places.row_store.Run`.

    If a worker is lost, another repeats its task.

    Args:
        client: a `distributed.Client`, or the address of a scheduler, such as tcp://10.0.0.1:8786.

    Raises:
        MissingExtra: Dask is not installed.
        ParameterError: it is neither, or nothing answers at the address.
        GarnetError: the cluster has no workers.
    """

    def __init__(self, client: Any) -> None:
        try:
            from distributed import Client
            from distributed.comm.addressing import get_address_host_port
        except ImportError as error:
            raise MissingExtra("distributed", "A cluster", "pygarnet[cluster]") from error
        if isinstance(client, str):
            try:
                if not client.startswith("inproc://"):
                    # A client given something other than an address would be left half built.
                    get_address_host_port(client)
                client = Client(client, timeout=_WAIT, set_as_default=False)  # type: ignore[no-untyped-call]
            except (OSError, ValueError) as error:
                raise ParameterError(
                    f"The 'cluster' parameter of OnCluster is {client!r}, but no Dask scheduler answers there; start "
                    "one, or correct the address."
                ) from error
            weakref.finalize(self, client.close)
        if not isinstance(client, Client):
            raise ParameterError(
                "The 'cluster' parameter of OnCluster must be a distributed.Client or the address of a scheduler. Got "
                f"{client!r} instead."
            )
        self._client = client
        self._address = getattr(client.scheduler, "address", "an unknown address")
        self._graphs: dict[int, tuple[TiledGraph, Any]] = {}
        try:
            client.wait_for_workers(1, timeout=_WAIT)
        except TimeoutError as error:
            raise self._alone() from error

    @property
    def workers(self) -> int:
        """Number of workers at present."""
        return len(self._client.ncores())  # type: ignore[no-untyped-call]

    def seats(self) -> list[str]:
        """The present workers, each as often as it has threads, in a fixed order.

        Raises:
            GarnetError: there are none.
        """
        threads = self._client.ncores()  # type: ignore[no-untyped-call]
        if not threads:
            raise self._alone()
        return [worker for worker in sorted(threads) for _ in range(threads[worker])]

    def capacity(self) -> Capacity:
        """What the present workers can do.

        Raises:
            GarnetError: there are none.
        """
        # The scheduler also knows threads and limits, but not which workers share a process.
        found = self._client.run(_described).values()
        if not found:
            raise self._alone()
        threads: Counter[str] = Counter()
        for process, count, _ in found:
            threads[process] += count
        # Each worker compares the memory of the whole process with its own limit.
        limits = [limit for *_, limit in found if limit]
        return Capacity(
            threads=threads.total(),
            at_once=max(threads.values()),
            memory=int(_SPILL * min(limits)) if limits else None,
        )

    def require_package(self, package: str, purpose: str, cure: str) -> None:
        """Refuse workers that lack a package.

        Raises:
            MissingExtra: one does.
        """
        lacking = sorted(worker for worker, found in self._client.run(_has, package).items() if not found)
        if lacking:
            raise MissingExtra(package, f"{purpose} that the worker {lacking[0]} writes", cure)

    def require_folder(self, folder: Path) -> None:
        """Refuse a folder that not all workers see.

        Raises:
            GarnetError: a worker does not find in it a file written here.
        """
        token = folder / f"tmp-{secrets.token_hex(8)}"
        token.touch()
        try:
            sees = self._client.run(Path.exists, token)
        finally:
            remove(token)
        blind = sorted(worker for worker, found in sees.items() if not found)
        if blind:
            raise GarnetError(
                f"The worker {blind[0]} does not see the folder {folder}; all workers must, under the same path: give "
                "an 'output' on a disk that they share."
            )

    def everywhere(self, work: Callable[[], None]) -> None:
        """Call a function in the process of every worker; one lost meanwhile no longer needs it."""
        with suppress(OSError, RuntimeError):
            self._client.run(work, on_error="ignore")

    def __call__(
        self,
        work: Callable[..., Any],
        tasks: Iterable[tuple[Any, ...]],
        *,
        done: Done | None = None,
        where: Sequence[str] | None = None,
    ) -> list[Any]:
        """The results of the function for the arguments of each task, in order.

        Args:
            work: the function.
            tasks: the arguments of each task.
            done: see `Run`.
            where: the worker for each task, as long as it exists; None where any will do.

        Raises:
            GarnetError: the scheduler or all workers are lost.
        """
        try:
            return self._done(work, tasks, done, where)
        except GarnetError:
            raise
        except (OSError, RuntimeError) as error:  # which the client, or a task, may raise
            if self._answers():
                raise
            raise self._lost() from error

    def _done(
        self,
        work: Callable[..., Any],
        tasks: Iterable[tuple[Any, ...]],
        done: Done | None,
        where: Sequence[str] | None,
    ) -> list[Any]:
        from distributed import CancelledError, KilledWorker

        packed, large = _packed(work, tasks)
        for _ in range(_ATTEMPTS):
            try:
                values = self._scattered(large)
            except TimeoutError as error:
                raise self._alone() from error
            except OSError:  # a worker was lost while data was sent to it
                continue
            try:
                futures = self._sent(work.__name__, packed, values, where)
                self._await(futures, done)
                return list(self._client.gather(futures))  # type: ignore[no-untyped-call]
            except CancelledError as error:
                if not self._answers():
                    raise self._lost() from error
                # The scattered values went with the last worker that held them.
                self._graphs.clear()
            except KilledWorker as error:
                raise GarnetError(
                    f"A task was lost with its worker again and again ({error}); give the workers more memory, or say "
                    "how much they have with memory=."
                ) from error
        raise GarnetError(f"The Dask cluster cancelled the same tasks {_ATTEMPTS} times; look at the scheduler's log.")

    def _sent(
        self, name: str, packed: Sequence[bytes], values: Sequence[Any], where: Sequence[str] | None
    ) -> list[Any]:
        """Futures of tasks."""
        if where is None:
            found: list[Any] = self._client.map(_do, packed, values=values, key=name, pure=False, batch_size=_AT_ONCE)
            return found
        keys = (f"{name}-{secrets.token_hex(8)}" for _ in packed)
        return [
            self._client.submit(_do, task, values=values, key=key, workers=[worker], allow_other_workers=True)
            for task, key, worker in zip(packed, keys, where, strict=True)
        ]

    def _scattered(self, large: Sequence[Any]) -> list[Any]:
        """Futures of large values held by a worker; graphs stay there, because they never change."""
        new = [value for value in large if id(value) not in self._graphs]
        found = {}
        if new:
            # Not to all at once: that waits for ever if a worker is lost meanwhile. The others fetch it.
            sent = self._client.scatter(new, hash=False, timeout=_LOOK * _LOOKS)  # type: ignore[no-untyped-call]
            found = {id(value): future for value, future in zip(new, sent, strict=True)}
        self._graphs |= {id(value): (value, found[id(value)]) for value in new if isinstance(value, TiledGraph)}
        known = found | {number: future for number, (_, future) in self._graphs.items()}
        return [known[id(value)] for value in large]

    def _await(self, futures: Sequence[Any], done: Done | None) -> None:
        """Wait for all, or for the first failure, as long as there are workers."""
        from distributed import as_completed

        # The loop of this client: otherwise that of the default client is used.
        left, looks, loop = set(futures), 0, self._client.loop
        if done is not None:
            done(0, len(futures))
        while left:
            try:
                for future in as_completed(list(left), loop=loop, timeout=_LOOK):  # type: ignore[no-untyped-call]
                    if future.status != "finished":
                        return
                    left.discard(future)
                    if done is not None:
                        done(len(futures) - len(left), len(futures))
            except TimeoutError:
                looks = 0 if self.workers else looks + 1
                if looks >= _LOOKS:
                    raise self._alone() from None

    def _answers(self) -> bool:
        """Whether the scheduler is still there; the client may take a moment to notice if it is not."""
        for _ in range(_GLANCES):
            if self._client.status != "running":
                return False
            time.sleep(_GLANCE)
        return True

    def _lost(self) -> GarnetError:
        return GarnetError(
            f"The Dask scheduler at {self._address} was lost; start it again and repeat this, which goes on from the "
            "stages that are done."
        )

    def _alone(self) -> GarnetError:
        return GarnetError(f"The Dask cluster at {self._address} has no workers; start some, and then repeat this.")


def _packed(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> tuple[list[bytes], list[Any]]:
    """Each task as bytes, and the large values of all tasks, which the bytes refer to."""
    import cloudpickle

    places: dict[int, int] = {}
    large: list[Any] = []

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, value: Any) -> int | None:
            if not isinstance(value, TiledGraph) and _bytes(value) < _LARGE:
                return None
            if id(value) not in places:
                places[id(value)] = len(large)
                large.append(value)
            return places[id(value)]

    packed = []
    for task in tasks:
        stream = io.BytesIO()
        Packer(stream).dump((work, task))
        packed.append(stream.getvalue())
    return packed, large


def _bytes(value: Any) -> int:
    """The pickled size of an array: a tensor takes its whole storage, however little of it is visible."""
    if isinstance(value, torch.Tensor):
        return value.untyped_storage().nbytes()
    return value.nbytes if isinstance(value, np.ndarray) else 0


class _Unpacker(pickle.Unpickler):
    def __init__(self, packed: bytes, large: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(packed))
        self._large = large

    def persistent_load(self, place: Any) -> Any:
        return self._large[place]


def _described(dask_worker: Any) -> tuple[str, int, int | None]:
    """The process of a worker, its threads, and its memory limit in bytes, if there is one."""
    return f"{_PROCESS}-{os.getpid()}", dask_worker.state.nthreads, dask_worker.memory_manager.memory_limit


def _has(package: str) -> bool:
    return find_spec(package) is not None


def _do(packed: bytes, values: Sequence[Any]) -> Any:
    """Run a task on a worker."""
    work, task = _Unpacker(packed, values).load()
    return work(*task)
