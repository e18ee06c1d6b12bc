"""What Metattack, truncation and purification do to the spectrum of Cora (the paper's opening figure).

Needs the published poisons of the data folder. For each budget: the numerical rank of the adjacency as attacked, of its
best approximation of rank 50 (TSVD) and of the purified graph, with the default and with the authors' parameters. For
a budget of 20 %: all singular values of the four normalised adjacencies, and of the clean one.

    python benchmarks/spectra.py
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import scipy.linalg
from record import save

from garnet import GARNET, Graph
from garnet.datasets import poisoned
from garnet.spectral.spectrum import normalized_adjacency

BUDGETS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)
SHOWN = 0.2
TRUNCATED = 50
SMALLEST_RATIO = 1e-6  # of the largest, for a singular value to count in the rank


def main() -> None:
    """Decompose every graph at every budget and write the record."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    ranks: list[dict[str, Any]] = []
    values: dict[str, list[float]] = {}
    for budget in BUDGETS:
        attacked = poisoned("cora", attack="metattack", budget=budget)
        purified = {
            "garnet": GARNET().purify(attacked).graph,
            "garnet-paper": GARNET.paper("cora", "gcn", attack="metattack", budget=budget).purify(attacked).graph,
        }
        matrices = {"none": attacked.adjacency, **{name: graph.adjacency for name, graph in purified.items()}}
        spectra = {name: singular_values(matrix.toarray()) for name, matrix in matrices.items()}
        spectra["tsvd"] = singular_values(truncated(attacked))
        ranks.append({"budget": budget, **{name: rank(spectrum) for name, spectrum in spectra.items()}})
        print(ranks[-1], flush=True)
        if budget == 0:
            values["clean"] = rounded(singular_values(normalized_adjacency(attacked).toarray()))
        if budget == SHOWN:
            values["none"] = rounded(singular_values(normalized_adjacency(attacked).toarray()))
            # The nearest matrix of rank r has the r largest singular values, and no others.
            values["tsvd"] = values["none"][:TRUNCATED]
            for name, graph in purified.items():
                values[name] = rounded(singular_values(normalized_adjacency(graph).toarray()))
    save(
        "spectra",
        {
            "graph": "cora",
            "attack": "metattack",
            "truncated": TRUNCATED,
            "smallest_ratio": SMALLEST_RATIO,
            "ranks": ranks,
            "normalised": {"budget": SHOWN, "singular_values": values},
        },
    )


def singular_values(matrix: np.ndarray) -> np.ndarray:
    """The singular values of a symmetric matrix, largest first: the sizes of its eigenvalues."""
    return np.sort(np.abs(scipy.linalg.eigvalsh(matrix.astype(np.float64))))[::-1]


def rank(values: np.ndarray) -> int:
    """How many singular values exceed a millionth of the largest."""
    return int((values > SMALLEST_RATIO * values[0]).sum())


def truncated(graph: Graph) -> np.ndarray:
    """The matrix of rank 50 nearest to the adjacency."""
    values, vectors = scipy.linalg.eigh(graph.adjacency.astype(np.float64).toarray())
    largest = np.argsort(-np.abs(values))[:TRUNCATED]
    return (vectors[:, largest] * values[largest]) @ vectors[:, largest].T


def rounded(values: np.ndarray) -> list[float]:
    """Four decimals: more than a figure shows."""
    return np.round(values, 4).tolist()


if __name__ == "__main__":
    main()
