from itertools import product

import numpy as np
import pytest
import torch

from garnet.defenses.messages import believed, compatibility


@pytest.fixture
def field():
    """What six nodes think of themselves, and how much more often two of three classes are joined than chance."""
    generator = torch.Generator().manual_seed(2)
    own = torch.randn(6, 3, generator=generator, dtype=torch.float64).log_softmax(dim=1)
    ratio = torch.rand(3, 3, generator=generator, dtype=torch.float64) + 0.2
    return own, ratio + ratio.T


def marginals(own, edges, trust, ratio):
    """Of the Markov field whose edges say nothing with probability 1 - trust, by going through all that may be."""
    found = np.zeros(own.shape)
    for classes in product(range(own.shape[1]), repeat=len(own)):
        weight = np.exp(sum(own[i, c].item() for i, c in enumerate(classes)))
        for (i, j), t in zip(edges.T.tolist(), trust.tolist(), strict=True):
            weight *= t * ratio[classes[i], classes[j]].item() + 1 - t
        found[range(len(own)), classes] += weight
    return found / found.sum(axis=1, keepdims=True)


# A path of as many edges as there are rounds, with a branch, and a node that nobody knows.
TREE = torch.tensor([[0, 1, 2, 1], [1, 2, 3, 4]])


@pytest.mark.parametrize("trusted", [1.0, 0.4])
def test_on_a_tree_they_are_the_marginals(field, trusted):
    own, ratio = field
    trust = torch.tensor([trusted, 0.9, 1.0, trusted], dtype=torch.float64)
    found = believed(own[None], TREE, trust, ratio[None], torch.ones(1, dtype=torch.float64))[0].exp()
    assert found.numpy() == pytest.approx(marginals(own, TREE, trust, ratio), abs=1e-10)


def test_an_edge_that_nobody_trusts_says_nothing(field):
    own, ratio = field
    found = believed(own[None], TREE, torch.zeros(4).double(), ratio[None], torch.ones(1).double())[0]
    torch.testing.assert_close(found, own)


def test_one_edge_changes_no_odds_by_more_than_its_ratios_allow(field):
    own, ratio = field
    sure = torch.tensor([[30.0, 0, 0], [0, 30.0, 0], [0, 0, 30.0]], dtype=torch.float64).log_softmax(dim=1)
    one, trust, strength = torch.tensor([[0], [1]]), torch.tensor([0.7], dtype=torch.float64), 0.5
    widest = strength * np.log((0.7 * ratio.max().item() + 0.3) / (0.7 * ratio.min().item() + 0.3))
    for says in sure:
        before = torch.stack([own[0], says])
        after = believed(before[None], one, trust, ratio[None], torch.tensor([strength], dtype=torch.float64))[0]
        moved = (after - before)[0]
        assert moved.max() - moved.min() <= widest + 1e-9
        assert moved.max() - moved.min() > 0


def test_models_are_apart_and_parts_make_no_difference(field):
    own, ratio = field
    both = torch.stack([own, own.flip(0)]), torch.stack([ratio, ratio.T + torch.eye(3)])
    strength, trust = (
        torch.tensor([0.3, 1.0]).double(),
        torch.rand(4, generator=torch.Generator().manual_seed(0)).double(),
    )
    together = believed(both[0], TREE, trust, both[1], strength)
    for i in range(2):
        alone = believed(both[0][i : i + 1], TREE, trust, both[1][i : i + 1], strength[i : i + 1])
        torch.testing.assert_close(together[i], alone[0])
    order = [2, 0, 3, 1]
    torch.testing.assert_close(believed(both[0], TREE[:, order].flip(0), trust[order], both[1], strength), together)


def test_ratios_are_those_of_the_pairs_that_edges_join():
    labels = torch.tensor([0, 0, 1, 1])
    edges = torch.tensor([[0, 0, 1, 2], [1, 2, 3, 3]])
    said = torch.nn.functional.one_hot(labels).double()
    pairs = torch.tensor([[1.0 + 2, 1 + 2], [1 + 2, 1.0 + 2]], dtype=torch.float64)  # one of each beside those seen
    pairs = pairs / pairs.sum()
    expected = pairs / torch.outer(pairs.sum(1), pairs.sum(0))
    torch.testing.assert_close(compatibility(edges, torch.ones(4).double(), said), expected)
    inside = torch.tensor([1.0, 0, 0, 1.0], dtype=torch.float64)
    assert compatibility(edges, inside, said)[0, 0] > 1 > compatibility(edges, inside, said)[0, 1]
