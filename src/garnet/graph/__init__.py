"""Graphs and changes to them: what is proven of a graph once, and how it comes in and goes out."""

from garnet.graph.budget import Budget
from garnet.graph.graph import Edges as Edges
from garnet.graph.graph import Graph, Split, as_graph
from garnet.graph.perturbation import Entries, Perturbation

__all__ = ["Budget", "Entries", "Graph", "Perturbation", "Split", "as_graph"]
