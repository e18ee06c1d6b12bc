"""Graphs and changes to them: how they are checked once, read and written."""

from garnet.graph.budget import Budget
from garnet.graph.graph import Edges as Edges
from garnet.graph.graph import Graph, Split, as_graph
from garnet.graph.perturbation import Entries, Perturbation

__all__ = ["Budget", "Entries", "Graph", "Perturbation", "Split", "as_graph"]
