"""What a multilevel start would save (appendix N of the paper): coarsen, solve, prolong, polish.

Three ways to the same eigenpairs at the same tolerance, in one run. `plain` is the library's solver, which starts from
random numbers. `start` is the same solver with random combinations of the prolonged coarse eigenvectors as its first
block. `polish` filters all of the prolonged vectors, with a quarter more than are asked for, round after round, until
their residuals are small. Coarse levels join every node to its strongest neighbour; the prolongation has orthonormal
columns. `ideal` is `start` with the exact eigenvectors blurred by 1 %: no coarse graph can do better.

    python benchmarks/multilevel.py arxiv [--rank 50] [--shrink 4 16]
    python benchmarks/multilevel.py products --rank 500 --device cuda
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from record import data_folder, save
from scipy.sparse.csgraph import connected_components

from garnet.datasets import load_graph, nested_block_model
from garnet.spectral.block_space import lifting
from garnet.spectral.chebyshev import Chebyshev
from garnet.spectral.density import largest, level
from garnet.spectral.operator import Operator
from garnet.spectral.spectrum import Spectrum

MORE = 1.25
PATIENCE = 3  # times the columns of `plain` after which `polish` gives up


class StartedOperator(Operator):
    """An operator whose first random block is made of given vectors."""

    def __init__(self, matrix: sp.csr_array, device: str, start: torch.Tensor, width: int) -> None:
        super().__init__(matrix, device)
        self._start: torch.Tensor | None = start if self._order is None else start[self._order]
        self._width = width

    def random(self, columns: int) -> torch.Tensor:
        """See `Space`."""
        numbers = super().random(columns)
        if self._start is None or columns != self._width:
            return numbers
        start, self._start = self._start, None
        return start @ numbers[: start.shape[1]]


def main() -> None:
    """Compare the ways and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("graph", choices=["arxiv", "products"])
    options.add_argument("--rank", type=int, default=50)
    options.add_argument(
        "--shrink", type=int, nargs="*", default=[4, 16], help="nodes over nodes of the coarsest graph"
    )
    options.add_argument("--nodes", type=int, default=2_449_029)
    options.add_argument("--device", default="cpu")
    chosen = options.parse_args()
    device = chosen.device
    if chosen.graph == "arxiv":
        graph = load_graph(data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz", symmetrize=True)
    else:
        graph = nested_block_model(chosen.nodes, mean_degree=70.0, seed=0)
    figures: dict[str, Any] = {"graph": repr(graph), "rank": chosen.rank}
    adjacency = graph.adjacency.astype(np.float32)
    matrix, roots = normalised(adjacency)
    solver = Chebyshev()

    def note(name: str, work: Callable[[], Spectrum]) -> Spectrum:
        start = time.perf_counter()
        found = work()
        seconds = time.perf_counter() - start
        residual = float(found.residuals.max() / found.values[0])
        figures[name] = {"columns": found.products, "seconds": seconds, "residual": residual}
        print(name, figures[name], flush=True)
        return found

    plain = note("plain", lambda: solver(matrix, chosen.rank, end="algebraic", seed=0, device=device))
    blur = torch.randn(plain.vectors.shape, generator=torch.Generator().manual_seed(1)) / graph.num_nodes**0.5
    note("ideal", lambda: started(solver, matrix, device, plain.vectors + 0.01 * blur.to(device), chosen.rank))
    for shrink in chosen.shrink:
        begun = time.perf_counter()
        coarse, place, sizes = coarsened(adjacency, graph.num_nodes // shrink)
        small, small_roots = normalised(coarse)
        wanted = round(MORE * chosen.rank)
        found = solver(small, wanted, end="algebraic", seed=0, device=device)
        prolonged = column(small_roots, device) * found.vectors
        prolonged = prolonged[torch.from_numpy(place).to(device)] / column(np.maximum(roots, 1e-30), device)
        seconds = time.perf_counter() - begun
        angles = torch.linalg.svdvals(torch.linalg.qr(prolonged)[0].T @ plain.vectors)
        levels = {"sizes": sizes, "entries": coarse.nnz / adjacency.nnz, "columns": found.products, "seconds": seconds}
        cosines = {"cosine_median": float(angles.median()), "cosine_least": float(angles.min())}
        figures[f"coarse {shrink}"] = levels | cosines
        print(figures[f"coarse {shrink}"], flush=True)
        note(f"start {shrink}", lambda vectors=prolonged: started(solver, matrix, device, vectors, chosen.rank))
        most = PATIENCE * plain.products
        note(
            f"polish {shrink}",
            lambda vectors=prolonged, most=most: polished(matrix, device, vectors, chosen.rank, most),
        )
    save(f"multilevel-{chosen.graph}-r{chosen.rank}", figures)


def normalised(adjacency: sp.csr_array) -> tuple[sp.csr_array, NDArray[np.float64]]:
    """D^(-1/2) A D^(-1/2), and the diagonal of D^(-1/2)."""
    degrees = np.asarray(adjacency.sum(axis=1)).ravel().astype(np.float64)
    roots = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1e-30)), 0.0)
    matrix = adjacency.copy()
    matrix.data = (matrix.data * np.repeat(roots, np.diff(matrix.indptr)) * roots[matrix.indices]).astype(np.float32)
    return matrix, roots


def column(numbers: NDArray[np.float64], device: str) -> torch.Tensor:
    """Numbers as a column on a device."""
    return torch.from_numpy(numbers[:, None]).float().to(device)


def coarsened(adjacency: sp.csr_array, target: int) -> tuple[sp.csr_array, NDArray[np.int64], list[int]]:
    """A graph of at most so many nodes, the node of it that each node went to, and the sizes of all levels."""
    place, sizes = np.arange(adjacency.shape[0]), [adjacency.shape[0]]
    while sizes[-1] > target:
        joined = strongest(adjacency)
        count, n = int(joined.max()) + 1, adjacency.shape[0]
        join = sp.csr_array((np.ones(n, np.float32), joined, np.arange(n + 1)), shape=(n, count))
        adjacency = (join.T @ adjacency @ join).tocsr()
        place = joined[place]
        sizes.append(count)
        if sizes[-1] > 0.95 * sizes[-2]:
            break
    return adjacency, place, sizes


def strongest(adjacency: sp.csr_array) -> NDArray[np.int64]:
    """The cluster of each node: nodes hang together that are the strongest neighbour of one another, or of one."""
    n, rows = adjacency.shape[0], np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    roots = normalised(adjacency)[1].astype(np.float32)
    # Among equals the same one must be the strongest for both ends, or chains grow long.
    lot = np.random.default_rng(0).random(n, dtype=np.float32)
    columns = adjacency.indices
    scores = adjacency.data * roots[rows] * roots[columns] * (1 + 1e-3 * (lot[rows] + lot[columns]))
    scores[rows == columns] = 0
    filled = np.flatnonzero(np.diff(adjacency.indptr))
    best = np.zeros(n, np.float32)
    best[filled] = np.maximum.reduceat(scores, adjacency.indptr[filled]) if len(filled) else 0
    chosen = (scores == best[rows]) & (scores > 0)
    forest = sp.coo_array((np.ones(int(chosen.sum()), bool), (rows[chosen], columns[chosen])), shape=(n, n))
    return connected_components(forest, directed=False)[1].astype(np.int64)


def started(solver: Chebyshev, matrix: sp.csr_array, device: str, start: torch.Tensor, rank: int) -> Spectrum:
    """The library's solver with its first block made of given vectors."""
    return solver.solve(StartedOperator(matrix, device, start, solver.width(rank)), rank, "algebraic")


def polished(matrix: sp.csr_array, device: str, vectors: torch.Tensor, rank: int, most: int) -> Spectrum:
    """Filtered subspace iteration from given vectors to the solver's tolerance, or to so many columns."""
    space = Operator(matrix, device)
    if space._order is not None:
        vectors = vectors[space._order]
    top, error = largest(space)
    begins = level(space, space.random(8), vectors.shape[1], 1.01 * (top + error), "algebraic")
    cutoff = max(top - 1.2 * (top - begins), 0.05 * top)
    while True:
        vectors = torch.linalg.qr(space.filtered(vectors, lifting(cutoff, top, 300.0, "algebraic")))[0]
        image = space.product(vectors)
        values, rotation = torch.linalg.eigh((vectors.T @ image).double())
        order = values.argsort(descending=True)
        values, rotation = values[order].float(), rotation[:, order].float()
        vectors = vectors @ rotation
        residuals = (image @ rotation - vectors * values)[:, :rank].norm(dim=0)
        if residuals.max() <= 1e-4 * top or space.products > most:
            return Spectrum(values[:rank], vectors[:, :rank], residuals, space.products)


if __name__ == "__main__":
    main()
