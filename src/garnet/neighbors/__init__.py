"""Nearest neighbours, of which the base graph is made: exact, or by cells."""

from garnet.neighbors.search import Cells, Exact, Neighbors, choose_neighbors, recall

__all__ = ["Cells", "Exact", "Neighbors", "choose_neighbors", "recall"]
