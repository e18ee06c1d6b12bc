"""Defences: a purifier before any model, and methods of their own."""

from garnet.defenses.base import Defense, Purifier
from garnet.defenses.feature_knn import FeatureKNN
from garnet.defenses.linear_floor import LinearFloor
from garnet.defenses.purified import Purified
from garnet.defenses.tsvd import TSVD

__all__ = ["TSVD", "Defense", "FeatureKNN", "LinearFloor", "Purified", "Purifier"]
