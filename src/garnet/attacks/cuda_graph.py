"""Thousands of small steps on a GPU, started with one command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Replay:
    """A function of CUDA tensors whose kernels are recorded at its first call and replayed at every later one.

    Training a small model is a chain of kernels that take less time than starting them does. All calls must have
    tensors of the same shapes, and what one call returns is overwritten by the next.

    Args:
        function: of tensors alone, with the same steps whatever their values.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, *tensors: Tensor) -> Any:
        """The function's result."""
        graph = self._graph or self._record(tensors)
        for held, new in zip(self._inputs, tensors, strict=True):
            held.copy_(new)
        graph.replay()
        return self._outputs

    def _record(self, tensors: tuple[Tensor, ...]) -> torch.cuda.CUDAGraph:
        self._inputs = [tensor.clone() for tensor in tensors]
        # Libraries set themselves up at their first use, which cannot be recorded.
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._function(*self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = self._function(*self._inputs)
        return self._graph
