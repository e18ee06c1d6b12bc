"""Training a model on a graph, and the trained model."""

from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor
from garnet.training.verdict import NeverFoundWarning, Verdict

__all__ = ["NeverFoundWarning", "Predictor", "Training", "Verdict", "train"]
