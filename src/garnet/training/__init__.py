"""Training a model on a graph, and what comes of it."""

from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor
from garnet.training.verdict import NeverFoundWarning, Verdict

__all__ = ["NeverFoundWarning", "Predictor", "Training", "Verdict", "train"]
