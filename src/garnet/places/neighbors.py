"""The neighbours of points that lie in parts: one quantizer for all of them, and each cell searched on its own."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GraphError, RecallWarning
from garnet.io.atomic import atomic_path
from garnet.io.removal import remove
from garnet.neighbors.cell_index import probes_needed
from garnet.neighbors.distances import nearest_in_pool
from garnet.neighbors.quantizer import Quantizer, fit_quantizer
from garnet.neighbors.search import EXACT_UP_TO
from garnet.places.plan import TRAINING, most_cells
from garnet.places.row_store import Parts, Tall, read, truncated, write, write_array
from garnet.places.tiles import checksum

_LARGEST = 4
_EFFORT = "effort.json"
_GROUPS_A_PART = 4


@dataclass(frozen=True)
class Shelf:
    """Points sorted by cell, part by part, as the tasks of a search read them.

    Attributes:
        points: for each part, a file of its points, cell after cell, less their mean.
        nodes: for each part, a file of their numbers, counted from the first of the part.
        starts: (parts, cells + 1) where each cell begins in the files of each part.
        bounds: of the parts.
        width: coordinates of a point.
    """

    points: tuple[Path, ...]
    nodes: tuple[Path, ...]
    starts: NDArray[np.int64]
    bounds: tuple[int, ...]
    width: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Points in each cell, (cells,)."""
        sizes: NDArray[np.int64] = np.diff(self.starts.sum(axis=0))
        return sizes

    def cell(self, number: int, at_most: int) -> tuple[Tensor, Tensor]:
        """The points of a cell, and the nodes that they are."""
        found, nodes = [], []
        for i, (first, second) in enumerate(zip(self.points, self.nodes, strict=True)):
            start, end = self.starts[i, number : number + 2].tolist()
            count = end - start
            if not count:
                continue
            rows = np.fromfile(first, np.float32, count * self.width, offset=4 * start * self.width)
            here = np.fromfile(second, np.int32, count, offset=4 * start)
            if len(rows) < count * self.width or len(here) < count:
                raise truncated(first)
            found.append(rows.reshape(count, self.width))
            nodes.append(here.astype(np.int64) + self.bounds[i])
        if not found:
            return torch.zeros(0, self.width), torch.zeros(0, dtype=torch.int64)
        return torch.from_numpy(np.concatenate(found)[:at_most]), torch.from_numpy(np.concatenate(nodes)[:at_most])


@dataclass(frozen=True)
class Effort:
    """How hard a search looks.

    Attributes:
        probes: cells that are searched for the neighbours of a cell, at least.
        recall: share of the true neighbours that it expects to find.
    """

    probes: int
    recall: float

    @staticmethod
    def noted(folder: Path) -> Effort | None:
        """That of the search that was made in a folder; None if there were no two points."""
        file = folder / _EFFORT
        return Effort(**json.loads(file.read_text())) if file.exists() else None


def neighbor_pairs(
    parts: Parts,
    points: Tall,
    k: int,
    *,
    recall: float = 0.95,
    max_probes: int = 256,
    sample: int = 400,
    memory: int = 4 << 30,
    seed: int,
) -> dict[tuple[int, int], list[Path]]:
    """Pairs of points of which one is among the k nearest of the other, in files for each pair of parts.

    Few points are searched exactly, as in memory. `Effort.noted` says how hard it looked.

    Args:
        parts: where the points live.
        points: (n, d); a row of zeros is no point.
        k: neighbours of each.
        recall: share of the true neighbours to find.
        max_probes: cells to search for the neighbours of a cell, at most.
        sample: points whose true neighbours are looked up to tell how many it must be.
        memory: bytes that this process may hold, which trains the quantizer: less of it means fewer, larger cells.
        seed: of the sample and the quantizer.

    Returns:
        For i <= j the files of pairs (u, v) in int32, counted from the first node of part i and of part j.
    """
    known, sums = zip(*parts.each(_known, points.files, repeat(points.width)), strict=True)
    total = sum(known)
    if total < 2:
        return {}
    k = min(k, total - 1)
    mean = torch.stack(sums).sum(dim=0) / total
    size = max(64, round(total**0.5 / 5))
    cells = min(max(total // size, 1), most_cells(memory, points.width, max_probes))
    rows = _sample(parts, points, min(TRAINING * cells, total), known, seed) - mean.float()
    reach = total if total <= EXACT_UP_TO else max_probes
    quantizer = _trained(parts.folder / "quantizer.npz", rows, cells, seed, reach)
    count = parts.count
    shelved = [[parts.folder / f"{kind}-{i}.bin" for i in range(count)] for kind in ("shelf", "nodes")]
    columns = points.files, repeat(points.width), repeat(mean), repeat(quantizer), *shelved
    counts = parts.do("sort into cells", _shelve, zip(*columns, strict=False))
    starts = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0)))
    shelf = Shelf(tuple(shelved[0]), tuple(shelved[1]), starts, parts.bounds, points.width)
    if total <= EXACT_UP_TO:
        effort, most = Effort(quantizer.ranked.shape[1], 1.0), total
    else:
        most = _LARGEST * max(size, total // cells)
        effort = _effort(parts, shelf, quantizer, rows[:sample], k, most, recall)
    _note(parts.folder / _EFFORT, asdict(effort))
    groups = _groups(shelf.sizes, _GROUPS_A_PART * count)
    tasks = [
        (shelf, quantizer, group, k, effort.probes, most, number, parts.folder) for number, group in enumerate(groups)
    ]
    found: dict[tuple[int, int], list[Path]] = {}
    for files in parts.do("search", _search, tasks):
        for i, j, name in files:
            found.setdefault((i, j), []).append(parts.folder / name)
    for file in (*shelf.points, *shelf.nodes):
        remove(file)
    return found


def _trained(file: Path, rows: Tensor, cells: int, seed: int, reach: int) -> Quantizer:
    """The quantizer, trained once: a run that goes on must not have another, as it would on other processors."""
    if not file.exists():
        trained = fit_quantizer(rows, cells, seed=seed, reach=reach)
        arrays: dict[str, Any] = {
            name: np.asarray(getattr(trained, name)) for name in ("groups", "centres", "counts", "ranked")
        }
        with atomic_path(file) as unfinished, unfinished.open("wb") as stream:
            np.savez(stream, **arrays)
    with np.load(file) as found:
        groups, centres, ranked = (torch.from_numpy(found[name]) for name in ("groups", "centres", "ranked"))
        return Quantizer(groups, centres, tuple(found["counts"].tolist()), ranked)


def _known(file: Path, width: int) -> tuple[int, Tensor]:
    rows = read(file, width)
    return int((rows.abs().amax(dim=1) > 0).sum()), rows.sum(dim=0, dtype=torch.float64)


def _sample(parts: Parts, points: Tall, wanted: int, known: Sequence[int], seed: int) -> Tensor:
    """Some points, in random order."""
    rng = np.random.default_rng(seed)
    shares = rng.multivariate_hypergeometric(known, wanted, method="marginals")
    rows = torch.cat(
        parts.each(
            _rows, points.files, [points.width] * parts.count, shares.tolist(), rng.integers(2**32, size=parts.count)
        )
    )
    return rows[torch.from_numpy(rng.permutation(len(rows)))]


def _rows(file: Path, width: int, count: int, seed: int) -> Tensor:
    rows = read(file, width)
    here = (rows.abs().amax(dim=1) > 0).nonzero()[:, 0]
    return rows[here[torch.from_numpy(np.random.default_rng(seed).choice(len(here), count, replace=False))]]


def _shelve(file: Path, width: int, mean: Tensor, quantizer: Quantizer, points: Path, nodes: Path) -> NDArray[np.int64]:
    """Sort the points of a part by their cells."""
    rows = read(file, width)
    here = (rows.abs().amax(dim=1) > 0).nonzero()[:, 0]
    rows = rows[here] - mean.float()
    owner = quantizer.assign(rows)
    order = owner.argsort(stable=True)
    write(points, rows[order])
    write_array(nodes, here[order].int().numpy())
    return torch.bincount(owner, minlength=len(quantizer.centres)).numpy()


def _effort(
    parts: Parts, shelf: Shelf, quantizer: Quantizer, queries: Tensor, k: int, most: int, recall: float
) -> Effort:
    """How many cells to search, by the true neighbours of a sample; a run that goes on must not search others."""
    if (before := Effort.noted(parts.folder)) is not None:
        return before
    # A query is itself among the points, so that one more is asked for and the nearest left out.
    columns = repeat(shelf), range(parts.count), repeat(queries), repeat(k + 1)
    found = parts.do("try a sample", _truth, zip(*columns, strict=False))
    away, owner, place = (torch.cat(every, dim=1) for every in zip(*found, strict=True))
    nearest = away.topk(k + 1, dim=1, largest=False).indices
    owner, place, own = owner.gather(1, nearest), place.gather(1, nearest), quantizer.assign(queries)
    # Of a crowded cell, a query sees the piece that it is in, or the first if it is in another cell.
    seen = torch.where(owner == own[:, None], place[:, :1] // most, 0)
    truth = owner.masked_fill(place // most != seen, -1)[:, 1:]
    probes, reached = probes_needed(quantizer.ranked[own], truth, recall)
    if reached < recall - 1e-6:
        warnings.warn(
            f"The search finds about {reached:.3f} of the neighbours with {probes} probes, less than the {recall} it "
            "was asked for.",
            RecallWarning,
            stacklevel=3,
        )
    return Effort(probes, reached)


def _truth(shelf: Shelf, i: int, queries: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Squared distances to the k nearest of a part, their cells and places in these; infinite if it has too few."""
    pool = read(shelf.points[i], shelf.width)
    owner = np.repeat(np.arange(shelf.starts.shape[1] - 1), np.diff(shelf.starts[i]))
    before = np.diff(shelf.starts[:i].sum(axis=0)) if i else np.zeros(shelf.starts.shape[1] - 1, np.int64)
    place = np.arange(len(pool)) + (before - shelf.starts[i, :-1])[owner]
    nobody = torch.full((len(queries),), -2)
    away, at = nearest_in_pool(queries, nobody, pool, torch.arange(len(pool)), k)
    cells, places = (torch.from_numpy(np.append(numbers, -1))[at] for numbers in (owner, place))
    return away, cells, places


def _groups(sizes: NDArray[np.int64], count: int) -> list[list[int]]:
    """Cells in groups of about equally many points."""
    ends = np.cumsum(sizes)
    number = np.minimum((ends - 1) * count // max(int(ends[-1]), 1), count - 1)
    return [np.flatnonzero(number == group).tolist() for group in range(count)]


def _search(
    shelf: Shelf, quantizer: Quantizer, cells: list[int], k: int, probes: int, most: int, number: int, folder: Path
) -> list[tuple[int, int, str]]:
    """Find the neighbours of the points of some cells, and write the pairs; a list of the files is written last."""
    done = folder / f"pairs-{number}.json"
    if (before := _found_before(done)) is not None:
        return before
    sizes = shelf.sizes
    pairs = []
    for cell in cells:
        queries, names = shelf.cell(cell, int(sizes[cell]))
        around = quantizer.ranked[cell].tolist()
        enough = int(np.searchsorted(np.cumsum(np.minimum(sizes[around], most)), k + 1)) + 1
        others = [shelf.cell(near, most) for near in around[1 : max(probes, enough)]]
        for some, mine in zip(torch.split(queries, most), torch.split(names, most), strict=True):
            pool, ids = (torch.cat(every) for every in zip((some, mine), *others, strict=True))
            found = nearest_in_pool(some, mine, pool, ids, k)[1]
            pair = torch.stack([mine.repeat_interleave(k), found.reshape(-1)])
            pairs.append(pair[:, pair[1] >= 0])
    written = _write_pairs(
        torch.cat(pairs, dim=1).numpy() if pairs else np.zeros((2, 0), np.int64), shelf, number, folder
    )
    _note(done, [(i, j, name, checksum(folder / name)) for i, j, name in written])
    return written


def _found_before(done: Path) -> list[tuple[int, int, str]] | None:
    """The files of pairs that a run which was stopped has listed, if they are what it wrote."""
    with suppress(OSError, ValueError, GraphError):
        before = json.loads(done.read_text())
        if all(checksum(done.parent / name) == check for *_, name, check in before):
            return [(i, j, name) for i, j, name, _ in before]
    return None


def _note(file: Path, facts: Any) -> None:
    """Write down what has been found, whole or not at all."""
    with atomic_path(file) as unfinished:
        unfinished.write_text(json.dumps(facts))


def _write_pairs(pairs: NDArray[np.int64], shelf: Shelf, number: int, folder: Path) -> list[tuple[int, int, str]]:
    """Sort pairs into files by the parts of both ends."""
    low, high = pairs.min(axis=0), pairs.max(axis=0)
    bounds = np.asarray(shelf.bounds)
    first, second = (np.searchsorted(bounds, ends, side="right") - 1 for ends in (low, high))
    local = np.stack([low - bounds[first], high - bounds[second]], axis=1).astype(np.int32)
    count = len(bounds) - 1
    bucket = first * count + second
    order = np.argsort(bucket, kind="stable")
    written = []
    buckets, starts = np.unique(bucket[order], return_index=True)
    for which, rows in zip(buckets, np.split(order, starts[1:]), strict=False):
        i, j = divmod(int(which), count)
        name = f"pairs-{number}-{i}-{j}.bin"
        write_array(folder / name, np.unique(local[rows], axis=0))
        written.append((i, j, name))
    return written
