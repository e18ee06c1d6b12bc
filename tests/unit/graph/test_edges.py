import numpy as np
import torch

from garnet import as_graph
from garnet.graph.edges import presence


def test_an_edge_is_there_by_its_weight_over_its_own():
    graph = as_graph((np.zeros((2, 0)), 6)).with_edges(np.array([[3, 0, 2], [1, 5, 4]]), [2.0, 0.5, 1.0])
    edges = torch.tensor([[1, 5, 4, 0, 2], [3, 0, 2, 1, 3]])
    weights = torch.tensor([1.0, 0.75, 0.0, 0.25, 3.0], requires_grad=True)
    found = presence(graph, edges, weights)
    torch.testing.assert_close(found, torch.tensor([0.5, 1.0, 0.0, 0.25, 1.0]))
    (gradient,) = torch.autograd.grad(found.sum(), weights)
    torch.testing.assert_close(gradient, torch.tensor([0.5, 0.0, 1.0, 1.0, 0.0]))
    nothing = as_graph((np.zeros((2, 0)), 6))
    assert torch.equal(presence(nothing, edges, weights.detach()), weights.detach().clamp(0, 1))
