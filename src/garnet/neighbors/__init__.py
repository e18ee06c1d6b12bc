"""Nearest-neighbour search for the base graph: exact, or by cells."""

from garnet.neighbors.search import Cells, Exact, Neighbors, choose_neighbors, recall

__all__ = ["Cells", "Exact", "Neighbors", "choose_neighbors", "recall"]
