"""Adam (Kingma and Ba, ICLR 2015), reduced to what is needed here.

Torch's own loads the torch compiler on first use, which takes longer than training a small model.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

_FIRST, _SECOND, _LEAST = 0.9, 0.999, 1e-8


class Adam:
    """Gradient descent on some parameters.

    Args:
        parameters: the parameters to learn.
        rate: learning rate.
        weight_decay: multiple of a parameter that is added to its gradient.
    """

    def __init__(self, parameters: Iterable[Tensor], rate: float, weight_decay: float = 0.0) -> None:
        self._parameters = list(parameters)
        self._rate, self._weight_decay, self._steps = rate, weight_decay, 0
        self._means = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self._parameters]

    def forget(self) -> None:
        """Clear the gradients before the next step accumulates its own."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take a step; a parameter without a gradient stays as it is."""
        self._steps += 1
        size = self._rate / (1 - _FIRST**self._steps)
        root = (1 - _SECOND**self._steps) ** 0.5
        for parameter, mean, square in zip(self._parameters, self._means, self._squares, strict=True):
            gradient = parameter.grad
            if gradient is None:
                continue
            if self._weight_decay:
                gradient = gradient.add(parameter, alpha=self._weight_decay)
            mean.lerp_(gradient, 1 - _FIRST)
            square.mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
            parameter.addcdiv_(mean, (square.sqrt() / root).add_(_LEAST), value=-size)
