"""A model of your own behind the purifier: any PyTorch Geometric module, trained, saved, loaded."""

import tempfile
from pathlib import Path

from torch_geometric.nn.models import GraphSAGE

from garnet import GARNET
from garnet.backbones import TorchModule
from garnet.datasets import load
from garnet.defenses import Purified
from garnet.training import Training
from garnet.training.predictor import Predictor

graph = load("cora", split="random", seed=0)
mine = TorchModule(lambda features, classes: GraphSAGE(features, 32, num_layers=2, out_channels=classes, dropout=0.5))
defense = Purified(GARNET(), mine, Training(epochs=30, lr=0.01))
predictor = defense.fit(graph, seed=0)
print(f"GraphSAGE on purified Cora: {predictor.accuracy():.1%} of the test papers")

path = Path(tempfile.mkdtemp()) / "model.npz"
predictor.save(path)
again = Predictor.load(path, backbone=mine)
print(f"read again from {path.name}: {again.accuracy():.1%}")
