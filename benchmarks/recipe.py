"""Purification against the usual recipe, side by side in one run.

The usual recipe is SciPy's `svds` on the normalised adjacency and hnswlib (M 48, ef 100), as in the paper's code; ours
is `Chebyshev` on the same matrix and `Cells`. Both then score the edges of their base graph. Printed are seconds, their
ratio, the recall of both searches, and the error of both sets of scores against a tight eigensolver.

    python benchmarks/recipe.py [--rank 50] [--k 50] [--rounds 3] [--tau 0|mean] [--reference FILE]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import hnswlib
import numpy as np
import scipy.sparse as sp
import torch
from record import data_folder, save

from garnet import load_graph
from garnet.linalg.edge_products import inner_products
from garnet.neighbors.search import Cells, recall, union
from garnet.spectral import Chebyshev
from garnet.spectral.spectrum import normalized_adjacency


def main() -> None:
    """Run the comparison and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rank", type=int, default=50)
    options.add_argument("--k", type=int, default=50)
    options.add_argument("--rounds", type=int, default=3, help="timed runs of ours; the recipe runs once")
    options.add_argument("--tau", default="0", help="degree regularisation of ours, or 'mean'; the recipe has none")
    options.add_argument("--reference", help="npz with tight eigenpairs w, U; computed when absent")
    chosen = options.parse_args()

    graph = load_graph(data_folder() / "ogbn_arxiv" / "ogbn_arxiv.npz", symmetrize=True)
    plain = normalized_adjacency(graph)
    tau = float(graph.degrees.mean()) if chosen.tau == "mean" else float(chosen.tau)
    matrix = normalized_adjacency(graph, tau)

    recipe, recipe_seconds = timed(lambda: usual(plain, chosen.rank, chosen.k))
    runs = [timed(lambda: ours(matrix, chosen.rank, chosen.k)) for _ in range(chosen.rounds)]
    mine, seconds = sorted(runs, key=lambda run: run[1])[len(runs) // 2]
    figures: dict[str, Any] = {
        "graph": repr(graph), "rank": chosen.rank, "k": chosen.k, "tau": tau,
        "usual": {"seconds": recipe_seconds, **recipe["seconds"], "recall": quality(recipe)},
        "garnet": {"seconds": seconds, **mine["seconds"], "recall": quality(mine), "products": mine["products"]},
        "ratio": recipe_seconds / seconds,
    }  # fmt: skip
    if tau == 0:
        values, vectors = reference(matrix, chosen.rank, chosen.reference)
        for name, result in (("usual", recipe), ("garnet", mine)):
            figures[name]["score_error"] = score_error(result, values, vectors)
    for name in ("usual", "garnet"):
        print(name, {key: round(value, 5) for key, value in figures[name].items()})
    print(f"ratio {figures['ratio']:.1f}")
    save(f"recipe-r{chosen.rank}" + ("-regularised" if tau else ""), figures)


def usual(matrix: sp.csr_array, rank: int, k: int) -> dict[str, Any]:
    """`svds`, hnswlib, and the product of left and right singular vectors."""
    (left, values, right), embed = timed(lambda: sp.linalg.svds(matrix.astype(np.float32), rank))
    points = np.ascontiguousarray(left * np.sqrt(values))
    partner = np.ascontiguousarray(right.T * np.sqrt(values))

    def search() -> np.ndarray:
        index = hnswlib.Index(space="l2", dim=rank)
        index.init_index(max_elements=len(points), ef_construction=100, M=48)
        index.add_items(points, np.arange(len(points)))
        index.set_ef(100)
        return index.knn_query(points, k + 1)[0][:, 1:].astype(np.int64)

    found, neighbours = timed(search)
    return finish(torch.from_numpy(points), torch.from_numpy(partner), torch.from_numpy(found), embed, neighbours)


def ours(matrix: sp.csr_array, rank: int, k: int) -> dict[str, Any]:
    """The filtered block solver, the search by cells, and entries of U L U^T."""
    spectrum, embed = timed(lambda: Chebyshev()(matrix, rank, end="magnitude", seed=0, device="cpu"))
    points = spectrum.embedding
    found, neighbours = timed(lambda: Cells()(points, k, seed=0))
    result = finish(points, points * spectrum.values.sign(), found, embed, neighbours)
    return result | {"products": spectrum.products}


def finish(
    points: torch.Tensor, partner: torch.Tensor, found: torch.Tensor, embed: float, search: float
) -> dict[str, Any]:
    """Score the union of the neighbours."""
    start = time.perf_counter()
    edges = union(found).cpu().numpy()
    scores = inner_products(points, partner, edges)
    prune = time.perf_counter() - start
    times = {"embed": embed, "neighbours": search, "prune": prune}
    return {"points": points, "found": found, "edges": edges, "scores": scores, "seconds": times}


def quality(result: dict[str, Any]) -> float:
    """Recall on a thousand points."""
    return recall(result["points"], result["found"], sample=1000)


def reference(matrix: sp.csr_array, rank: int, path: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Leading eigenpairs by ARPACK at a tolerance of 1e-9."""
    if path:
        with np.load(path) as stored:
            values, vectors = stored["w"], stored["U"]
    else:
        start = np.random.default_rng(0).standard_normal(matrix.shape[0])
        values, vectors = sp.linalg.eigsh(matrix, k=rank, which="LM", tol=1e-9, v0=start)
    order = np.argsort(-np.abs(values))[:rank]
    return values[order], vectors[:, order]


def score_error(result: dict[str, Any], values: np.ndarray, vectors: np.ndarray, sample: int = 500_000) -> float:
    """Relative error, in the 2-norm over a sample of base edges, of the scores against exact ones."""
    chosen = np.random.default_rng(0).choice(result["edges"].shape[1], sample, replace=False)
    first, second = result["edges"][:, chosen]
    exact = np.concatenate([
        (vectors[u] * values * vectors[v]).sum(axis=1)
        for u, v in zip(np.array_split(first, 20), np.array_split(second, 20), strict=True)
    ])  # fmt: skip
    return float(np.linalg.norm(result["scores"].numpy()[chosen] - exact) / np.linalg.norm(exact))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work gives, and the seconds it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    main()
