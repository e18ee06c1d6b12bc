"""Gradients through the training of any backbone, by the convolution it uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from garnet.attacks.meta_gradient import Aim, Descent
from garnet.attacks.mutable_graph import MutableGraph
from garnet.attacks.pair_scores import PairGradient
from garnet.backbones.base import BUFFER, Backbone
from garnet.backbones.gcn import GCNInputs
from garnet.errors import ParameterError
from garnet.linalg.sparse import SparseMatrix


def unrolled_meta_gradient(
    graph: MutableGraph, aim: Aim, descent: Descent, generator: torch.Generator, backbone: Backbone[Any]
) -> PairGradient:
    """The gradient of the attacker's loss after training, followed by automatic differentiation.

    Every product with the convolution, in training and in its gradient, is a product of a constant matrix as far as
    the models are concerned. On the way back each hands over its two sides, whose outer product is its share of the
    gradient by the matrix; only these tall sides are kept.

    Raises:
        ParameterError: the backbone is not one that averages over neighbours by that matrix alone.
    """
    tape = _Tape(SparseMatrix(graph.normalized(), aim.device, symmetric=True))
    inputs = GCNInputs(aim.features, tape)
    width = aim.features.matrix.shape[1]
    parameters = {name: value[None] for name, value in backbone.initial(width, aim.classes, generator).items()}
    learnt = {name: value.requires_grad_() for name, value in parameters.items() if not name.startswith(BUFFER)}
    speed = {name: torch.zeros_like(value) for name, value in learnt.items()}
    try:
        for _ in range(descent.steps):
            loss = cross_entropy(backbone.logits(parameters | learnt, inputs, None)[0][aim.train], aim.target)
            slopes = torch.autograd.grad(loss, list(learnt.values()), create_graph=True)
            for (name, value), slope in zip(learnt.items(), slopes, strict=True):
                speed[name] = descent.momentum * speed[name] + slope
                learnt[name] = value - descent.lr * speed[name]
        logits = backbone.logits(parameters | learnt, inputs, None)[0]
    except (AttributeError, TypeError) as error:
        raise ParameterError(
            f"Metattack cannot train through {type(backbone).__name__}; choose 'linear-gcn', 'gcn' or 'gprgnn'."
        ) from error
    if not logits.requires_grad or not tape.used:
        raise ParameterError(
            f"No gradient of {type(backbone).__name__} reaches the edges here; choose 'linear-gcn', 'gcn' or 'gprgnn'."
        )
    tape.pairs = []
    torch.autograd.backward(logits, aim.loss_slope(logits.detach()))
    left, right = (torch.cat(side, dim=1) for side in zip(*tape.pairs, strict=True))
    return PairGradient(left, right, aim.train[:0], left.new_zeros(0, graph.n))


class _Tape:
    """A symmetric matrix that keeps both sides of each of its products when told to.

    Attributes:
        pairs: gradient and block of every product; None while nothing is kept.
        used: whether there was any product.
    """

    def __init__(self, matrix: SparseMatrix) -> None:
        self.matrix, self.shape, self.used = matrix, matrix.shape, False
        self.pairs: list[tuple[Tensor, Tensor]] | None = None

    def __matmul__(self, block: Tensor) -> Tensor:
        self.used = True
        return _taped_product(self, block)


class _Taped(torch.autograd.Function):
    """A product whose gradient is a product of the same kind, and so can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, tape: _Tape, block: Tensor) -> Tensor:
        ctx.tape = tape
        ctx.save_for_backward(block)
        return tape.matrix @ block

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        (block,) = ctx.saved_tensors
        if ctx.tape.pairs is not None:
            ctx.tape.pairs.append((gradient.detach(), block.detach()))
        return None, ctx.tape @ gradient


# Torch leaves `apply` without types.
_taped_product: Callable[[_Tape, Tensor], Tensor] = _Taped.apply
