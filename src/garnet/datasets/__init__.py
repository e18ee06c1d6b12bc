"""The embedded graph, readers and writers of the field's file formats, and synthetic graphs."""

from garnet.datasets.embedded import cora
from garnet.datasets.files import load_graph, save_graph
from garnet.datasets.synthetic import block_model, inter_class_edges

__all__ = ["block_model", "cora", "inter_class_edges", "load_graph", "save_graph"]
