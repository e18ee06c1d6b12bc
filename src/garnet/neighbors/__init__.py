"""Nearest neighbours, of which the base graph is made: exact, by cells, or by faiss."""

from garnet.neighbors.search import Cells, Exact, Ivf, Neighbors, choose_neighbors, recall

__all__ = ["Cells", "Exact", "Ivf", "Neighbors", "choose_neighbors", "recall"]
