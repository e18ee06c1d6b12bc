"""GARNET as a PyTorch Geometric transform: the Data that comes out trains like any other."""

from torch_geometric.transforms import Compose, NormalizeFeatures

from garnet import GARNET
from garnet.datasets import cora

data = cora().to_pyg()
clean = Compose([NormalizeFeatures(), GARNET()])(data)
print(f"before: {data}")
print(f"after:  {clean}")
