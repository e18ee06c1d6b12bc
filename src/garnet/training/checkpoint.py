"""The best of the states that models pass through in training."""

from __future__ import annotations

import torch
from torch import Tensor

from garnet.backbones.base import Parameters
from garnet.training.supervision import Supervision


class BestCheckpoint:
    """The best state so far of each of S models; a model whose patience has run out keeps it, whatever comes.

    Attributes:
        epoch: (S,) epoch in which it was reached.
        accuracy: (S,) on the validation nodes, weighted as the classes are.
        loss: (S,) likewise.
        logits: (S, n, classes).
        parameters: the parameters at that time.
        all_done: whether the patience of all has run out.
    """

    parameters: Parameters
    logits: Tensor

    def __init__(self, seeds: int, patience: int | None, device: str) -> None:
        self.epoch = torch.zeros(seeds, dtype=torch.long, device=device)
        self.accuracy = torch.full((seeds,), -1.0, device=device)
        self.loss = torch.full((seeds,), torch.inf, device=device)
        self.all_done = False
        self._patience = patience

    def update(self, epoch: int, parameters: Parameters, logits: Tensor, supervision: Supervision) -> None:
        """Store the state of the models that did better than ever before on the validation nodes."""
        accuracy, loss = supervision.checks(logits)
        better = _beats(accuracy, loss, self.accuracy, self.loss)
        if not len(supervision.checked):  # nothing to choose by: the last is the best
            better[:] = True
        elif self._patience is not None and not (self.accuracy < 0).all():
            waited = epoch - self.epoch
            better &= waited <= self._patience
            self.all_done = bool(((waited >= self._patience) & ~better).all())
        self._take(better, parameters, logits, accuracy, loss, torch.full_like(self.epoch, epoch))

    def merge(self, other: BestCheckpoint) -> None:
        """Take the other checkpoint's state for each model that did better there."""
        better = _beats(other.accuracy, other.loss, self.accuracy, self.loss)
        self._take(better, other.parameters, other.logits, other.accuracy, other.loss, other.epoch)

    def _take(
        self, chosen: Tensor, parameters: Parameters, logits: Tensor, accuracy: Tensor, loss: Tensor, epoch: Tensor
    ) -> None:
        if not hasattr(self, "logits"):
            self.logits = logits.clone()
            self.parameters = {name: value.detach().clone() for name, value in parameters.items()}
        elif chosen.any():
            self.logits[chosen] = logits[chosen]
            for name, value in parameters.items():
                self.parameters[name][chosen] = value.detach()[chosen]
        self.epoch = torch.where(chosen, epoch, self.epoch)
        self.accuracy = torch.where(chosen, accuracy, self.accuracy)
        self.loss = torch.where(chosen, loss, self.loss)


def _beats(accuracy: Tensor, loss: Tensor, old_accuracy: Tensor, old_loss: Tensor) -> Tensor:
    """Where the accuracy is higher, or the same with a lower loss."""
    return (accuracy > old_accuracy) | ((accuracy == old_accuracy) & (loss < old_loss))
