"""Our Adam against torch's."""

import pytest
import torch

from garnet.training.adam import Adam


@pytest.mark.parametrize("weight_decay", [0.0, 5e-4])
def test_it_takes_the_steps_of_torch_to_the_last_bit(weight_decay):
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in ((40, 7), (7,))]
    slopes = [[torch.randn(one.shape, generator=generator) for one in start] for _ in range(50)]
    ours, theirs = ([one.clone().requires_grad_() for one in start] for _ in range(2))
    steps = Adam(ours, 0.01, weight_decay), torch.optim.Adam(theirs, lr=0.01, weight_decay=weight_decay)
    for slope in slopes:
        for learnt, optimizer in zip((ours, theirs), steps, strict=True):
            for parameter, gradient in zip(learnt, slope, strict=True):
                parameter.grad = gradient.clone()
            optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_what_has_no_gradient_stays_and_gradients_are_forgotten():
    idle, moved = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    steps = Adam([idle, moved], 0.1)
    moved.square().sum().backward()
    steps.step()
    assert torch.equal(idle, torch.ones(3))
    assert (moved < 1).all()
    steps.forget()
    assert moved.grad is None
