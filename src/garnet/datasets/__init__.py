"""The field's graphs by name, readers and writers of its file formats, splits, and synthetic graphs."""

from garnet.datasets.catalog import load, names, poisoned
from garnet.datasets.embedded import cora, cora_metattack
from garnet.datasets.splits import random_split
from garnet.datasets.synthetic import (
    block_model,
    class_features,
    contextual_block_model,
    inter_class_edges,
    nested_block_model,
)
from garnet.datasets.unit_test_file import unit_test
from garnet.graph.files import load_graph

__all__ = [
    "block_model",
    "class_features",
    "contextual_block_model",
    "cora",
    "cora_metattack",
    "inter_class_edges",
    "load",
    "load_graph",
    "names",
    "nested_block_model",
    "poisoned",
    "random_split",
    "unit_test",
]
