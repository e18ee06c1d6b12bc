"""Communities within communities."""

import numpy as np
import pytest

from garnet.datasets import block_model, nested_block_model
from garnet.errors import ParameterError
from garnet.spectral.spectrum import normalized_adjacency


def test_size_classes_and_seed():
    graph = nested_block_model(5000, classes=6, branching=4, depth=2, mean_degree=12, seed=3)
    assert graph.num_nodes == 5000
    assert 8 < 2 * graph.num_edges / 5000 <= 12
    assert set(graph.labels) == set(range(6))
    assert graph.homophily > 0.6
    assert graph == nested_block_model(5000, classes=6, branching=4, depth=2, mean_degree=12, seed=3)
    assert graph != nested_block_model(5000, classes=6, branching=4, depth=2, mean_degree=12, seed=4)
    # Nodes come in random order, not class after class.
    assert np.abs(np.diff(graph.labels)).astype(bool).mean() > 0.5


def test_its_leading_eigenvalues_crowd_where_those_of_few_blocks_end():
    nested = nested_block_model(2000, classes=4, branching=5, depth=2, mean_degree=20, seed=0)
    blocks = block_model(2000, classes=4, mean_degree=20, homophily=0.8, seed=0)
    of_nested, of_blocks = (
        np.linalg.eigvalsh(normalized_adjacency(graph).toarray())[::-1] for graph in (nested, blocks)
    )
    assert of_nested[20] > 0.6
    assert of_blocks[20] < 0.5


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n": 3, "classes": 4}, "The 'n' parameter of nested_block_model must be an integer >= 4. Got 3"),
        ({"n": 100, "depth": 0}, "'depth' parameter of nested_block_model must be an integer >= 1"),
        ({"n": 100, "exponent": 2.0}, "'exponent' parameter of nested_block_model must be above 2"),
    ],
)
def test_wrong_parameters_get_one_sentence(parameters, sentence):
    with pytest.raises(ParameterError, match=sentence):
        nested_block_model(**({"classes": 2} | parameters))
