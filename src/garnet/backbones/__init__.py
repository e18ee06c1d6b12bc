"""Models to train: GCN, GPRGNN, H2GCN, LINKX, MLP, a linear GCN, and any module of PyTorch Geometric."""

from garnet.backbones.gcn import GCN
from garnet.backbones.gprgnn import GPRGNN
from garnet.backbones.h2gcn import H2GCN
from garnet.backbones.linear_gcn import LinearGCN
from garnet.backbones.linkx import LINKX
from garnet.backbones.mlp import MLP
from garnet.backbones.torch_module import TorchModule

__all__ = ["GCN", "GPRGNN", "H2GCN", "LINKX", "MLP", "LinearGCN", "TorchModule"]
