"""Commands with a limit on memory or on a cluster, and their dry runs."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rich.table import Table

from garnet.cli.console import err, named_graph, out, printable, read_graph, say_json, stages

if TYPE_CHECKING:
    from garnet.places.estimate import Estimate, Workers
    from garnet.places.graph_size import Extent
    from garnet.places.on_disk import OnCluster, OnDisk
    from garnet.places.tiled_place import TiledPlace
    from garnet.progress import Progress
    from garnet.purify.garnet import GARNET
    from garnet.purify.place import Place

_INTERRUPTED = 130
_MMAP_THRESHOLD = -3  # as glibc numbers its settings


def names_a_file(output: Path) -> bool:
    """Whether a path has the suffix of a graph format; if not, it is a folder for tiles or a table."""
    from garnet.errors import GraphError
    from garnet.io.formats import format_of
    from garnet.places.edge_table import is_table

    try:
        # Path's own method fails on a name that is too long, which is reported later.
        return bool(format_of(output, "write")) and not os.path.isdir(output) and not is_table(output)  # noqa: PTH112
    except GraphError:
        return False


def purify_on_disk(
    purifier: GARNET, source: Path, place: OnDisk | OnCluster, *, symmetrize: bool
) -> dict[str, Any] | None:
    """Purify a graph in tiles, or continue; returns the figures, or None if it was done already."""
    from garnet.graph.files import left_out
    from garnet.graph.graph import Graph
    from garnet.places.edge_table import EdgeTable
    from garnet.places.to_file import purify_to_file

    output, graph = Path(str(place.output)), named_graph(source) or source
    with going_on(place) as progress:
        if names_a_file(output):
            result = purify_to_file(purifier, graph, place=place, symmetrize=symmetrize, progress=progress)
        else:
            result = purifier.purify(graph, place=place, symmetrize=symmetrize, progress=progress)
    if result is None or result.done_before:
        return None
    if isinstance(result.graph, EdgeTable):
        _say_left_out(output, result.graph.left_out, "tiles")
    elif isinstance(result.graph, Graph):
        _say_left_out(output, left_out(result.graph, output), ".npz")
    return result.summary()


def place_of(memory: str | None, cluster: str | None, **options: Any) -> OnDisk | OnCluster:
    """The place that --memory or --cluster asks for; one of them is given."""
    from garnet.places.on_disk import OnCluster, OnDisk

    if cluster is not None:
        return OnCluster(cluster=cluster, memory=memory, **options)
    return OnDisk(memory=str(memory), **options)


@contextmanager
def going_on(place: TiledPlace) -> Iterator[Progress]:
    """Long work outside memory, which reports what was done before and can be stopped."""
    from garnet.io.journal import stages_done
    from garnet.io.targets import require_scratch
    from garnet.places.on_disk import OnCluster

    aside = None if place.scratch is None else require_scratch(Path(place.scratch))
    done = [] if place.output is None else stages_done(Path(os.path.realpath(place.output)), aside)
    if done:
        err.print(f"going on after {', '.join(done)}, done before", soft_wrap=True)
    _give_back_large_blocks()
    if isinstance(place, OnCluster):
        _hush_dask()
    with _stoppable(resumes=place.output is not None), stages(lasting=True) as progress:
        yield progress


def say_estimate(
    reckon: Callable[[Extent], Estimate],
    source: Path,
    output: Path | None,
    place: Place | None,
    *,
    symmetrize: bool,
    as_json: bool,
    settings: bool = True,
) -> None:
    """Print an estimate of what a purification or an audit would take.

    Args:
        reckon: makes the estimate for a graph of some size.
        source: the graph.
        output: where the result would be.
        place: where the work would be done; None means in memory.
        symmetrize: accept a directed graph.
        as_json: print one JSON object.
        settings: also print the settings that the graph would get.
    """
    _hush_dask()
    found = reckon(_extent(source, place, symmetrize))
    nearest = Path() if output is None else output
    disk = next(folder for folder in (nearest, *nearest.absolute().parents) if os.path.isdir(folder))  # noqa: PTH112
    free = shutil.disk_usage(disk).free
    if as_json:
        totals = ("seconds", "memory", "disk", "read", "written")
        figures = {name: getattr(found, name) for name in totals} | {"free_disk": free}
        facts = {**asdict(found), "settings": found.settings.plain()}
        facts["extent"] |= facts["extent"].pop("shape")
        say_json({"input": str(source), "output": None if output is None else str(output), **figures, **facts})
        return
    shape, about = found.extent.shape, "" if found.extent.exact else "about "
    out.print(
        f"{printable(source)}: {about}{shape.nodes:,} nodes, {about}{shape.edges:,} edges; "
        f"{f'{found.settings}; ' if settings else ''}{found.parts} part{'s' if found.parts > 1 else ''}",
        soft_wrap=True,
    )
    if found.workers is not None:
        out.print(_said_of(found.workers), soft_wrap=True)
    sizes = ("memory", "disk", "read", "written") if found.read else ("memory", "disk")
    table = Table("stage")
    for column in ("time", *sizes):
        table.add_column(column, justify="right")
    for cost in found.costs:
        table.add_row(cost.name, duration(cost.seconds), *(amount(getattr(cost, name)) for name in sizes))
    table.add_section()
    table.add_row("all", duration(found.seconds), *(amount(getattr(found, name)) for name in sizes))
    out.print(table)
    cores = "one core" if found.workers is None else "cores"
    waits = " What workers wait for storage is not in them: all of them together read and write so many bytes."
    out.print(
        f"Times are those of {cores} of an AMD EPYC; yours may take a third or three times as long, and longer if the "
        f"spectrum is crowded.{waits if found.workers is not None else ''} Nothing was written.",
        soft_wrap=True,
    )
    if found.disk > free:
        err.print(f"note: {printable(disk)} has only {amount(free)} free", soft_wrap=True)


def _said_of(workers: Workers) -> str:
    """A cluster in one line."""
    each = f"{amount(workers.memory)} for each process"
    if workers.at_once > 1:
        each += f", which does {workers.at_once} tasks at once"
    return f"cluster: {workers.count:,} workers, {workers.threads:,} threads; {each}"


def duration(seconds: float) -> str:
    """Seconds in words that read at a glance, with no false precision."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else "< 1 s"


def amount(size: int) -> str:
    """Bytes in words."""
    if not size:
        return "-"
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{max(1, size / 1e6):,.0f} MB"


def _give_back_large_blocks() -> None:
    """Make malloc ask the system for every block above a megabyte, and return it once freed.

    By default it learns to keep blocks of up to 32 MB in its heap, and a process that allocates and frees thousands of
    them holds more than it uses. The setting affects the whole process, so it is for a command to make, never for the
    library. Where malloc has no such setting, nothing is done.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)


def _hush_dask() -> None:
    """Keep Dask's client from printing the traceback of a lost connection: the command reports it in a sentence."""
    with suppress(ImportError):
        import distributed  # noqa: F401 - which sets its levels when it is first imported

        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _stoppable(*, resumes: bool) -> Iterator[None]:
    """Let Ctrl-C end the process at once; the intermediate files survive that like any other end."""
    if not resumes:
        yield
        return

    def stop(*_: object) -> NoReturn:
        # An exception raised while Python finalises a forgotten object and removes its file would be lost.
        err.show_cursor(True)
        os.write(2, b"\nstopped; the same command goes on where it was\n")
        os._exit(_INTERRUPTED)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _extent(source: Path, place: Place | None, symmetrize: bool) -> Extent:
    from garnet.errors import GraphError
    from garnet.places.graph_size import extent_of

    try:
        return extent_of(named_graph(source) or source, symmetrize=symmetrize)
    except GraphError:
        if place is not None:
            raise
        # Some files can only be read whole.
        return extent_of(read_graph(source, symmetrize))


def _say_left_out(output: Path, missing: Sequence[str], instead: str) -> None:
    if missing:
        err.print(f"note: {printable(output.name)} cannot hold {' and '.join(missing)}; {instead} can", soft_wrap=True)
