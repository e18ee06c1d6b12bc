"""Training a model on a graph, and what comes of it."""

from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor

__all__ = ["Predictor", "Training", "train"]
