import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from garnet import as_graph
from garnet.graph.pieces import Pieces, fell_apart


@given(n=st.integers(1, 20), pairs=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=25))
def test_pieces_are_what_networkx_counts(n, pairs):
    edges = np.array([pair for pair in pairs if max(pair) < n and pair[0] != pair[1]], dtype=np.int64).reshape(-1, 2).T
    graph = as_graph((edges, n), symmetrize=True)
    other = graph.to_networkx()
    assert Pieces.of(graph) == Pieces(networkx.number_connected_components(other), networkx.number_of_isolates(other))


def test_a_graph_without_nodes_is_in_no_piece():
    assert Pieces.of(as_graph((np.zeros((2, 0), np.int64), 0))) == Pieces(0, 0)


@pytest.mark.parametrize(
    ("after", "said"), [(Pieces(3, 1), False), (Pieces(2, 0), False), (Pieces(4, 1), True), (Pieces(3, 2), True)]
)
def test_it_is_said_only_where_there_are_more(after, said):
    assert bool(fell_apart(Pieces(3, 1), after)) == said
