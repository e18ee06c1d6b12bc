"""A model that reads no edges, and learns from one that does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.backbones.base import Features, Parameters, propagate, require_features
from garnet.backbones.matrices import gcn_matrix
from garnet.graph.graph import Graph
from garnet.linalg.linear_map import ScaledRows
from garnet.linalg.sparse import SparseMatrix
from garnet.purify.features import row_lengths, unit_rows

FOLDS = 5
"""Number of students; each node is judged by the one that was not taught the teacher's view of it."""
_RANK = 512
_POWERS = 2
_RIDGE = 1.0


@dataclass(frozen=True, eq=False)
class Reading:
    """What a student reads of a graph's nodes: nothing that an edge could change.

    Attributes:
        features: (n, d), rows of length one.
        lengths: (n,) original lengths of the rows.
        near: (n, n) normalised adjacency of the graph of most similar features.
    """

    features: Features
    lengths: Tensor
    near: SparseMatrix

    @classmethod
    def of(cls, graph: Graph, near: Graph, device: str) -> Self:
        """From the nodes of a graph, and the graph that joins those with similar features."""
        given = require_features(graph, "a student reads nothing else")
        rows, lengths = unit_rows(given).astype(np.float32), row_lengths(given).astype(np.float32)
        matrix = SparseMatrix(rows, device) if sp.issparse(rows) else torch.from_numpy(rows).to(device)
        return cls(Features(matrix), torch.from_numpy(lengths).to(device), gcn_matrix(near, device))

    def with_features(self, features: Features) -> Self:
        """The same for other features, divided by the lengths of these rows."""
        unit = 1 / torch.where(self.lengths > 0, self.lengths, 1.0)
        return replace(self, features=Features(ScaledRows(features.matrix, unit)))

    def answers(self, learnt: Parameters) -> Tensor:
        """(S, n, classes) answers of the students; each node's is from the student that was not taught it."""
        said = [self._answers(learnt, fold)[:, fold::FOLDS] for fold in range(FOLDS)]
        answers = said[0].new_empty(len(said[0]), self.near.shape[0], said[0].shape[2])
        for fold, one in enumerate(said):
            answers[:, fold::FOLDS] = one
        return answers

    def _answers(self, learnt: Parameters, fold: int) -> Tensor:
        own, around = (self.features.linear(learnt[name][:, fold], 0, None) for name in ("own", "around"))
        return own + propagate(self.near, propagate(self.near, around)) + learnt["mean"][:, fold, None]


class Students:
    r"""Ridge regressions on a student's reading, solved for any number of teachers after one factorisation.

    With the unit rows X of the features and the normalised graph A of the nearest ones, a student answers
    :math:`X B + A^2 X B' + \mu`. B and B' lie in the span of the leading singular directions of X, where they minimise
    :math:`\|T - D W - \mu\|^2 + \|W\|^2`, with T the teacher's answers, :math:`\mu` their mean, and D the coordinates
    in these directions next to the same averaged over two steps, on one scale.

    Attributes:
        reading: their input.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading, matrix = reading, reading.features.stored()
        self._basis = _directions(matrix) if matrix.shape[1] > _RANK else None
        own = matrix @ self._basis if self._basis is not None else _dense(matrix)
        around = reading.near @ (reading.near @ own)
        self._unit = around.square().sum(dim=1).mean().sqrt().clamp_min(1e-9)
        self._design = torch.cat([own, around / self._unit], dim=1)
        parts = [self._design[fold::FOLDS].double() for fold in range(FOLDS)]
        squares = [part.T @ part for part in parts]
        every = torch.stack(squares).sum(dim=0) + _RIDGE * torch.eye(self._design.shape[1]).to(squares[0])
        self._factors = [torch.linalg.cholesky(every - one) for one in squares]
        self._sums = torch.stack([part.sum(dim=0) for part in parts])

    def learnt(self, taught: Tensor) -> Parameters:
        """What students learn from (n, classes) probabilities: `own` and `around`, (folds, d, classes), and `mean`."""
        taught = taught.to(self._design).double()
        products = torch.stack([self._design[fold::FOLDS].double().T @ taught[fold::FOLDS] for fold in range(FOLDS)])
        found, means = [], []
        for fold in range(FOLDS):
            others = [one for one in range(FOLDS) if one != fold]
            mean = torch.cat([taught[one::FOLDS] for one in others]).mean(dim=0)
            right = products[others].sum(dim=0) - self._sums[others].sum(dim=0)[:, None] * mean
            found.append(torch.cholesky_solve(right, self._factors[fold]).float())
            means.append(mean.float())
        own, around = torch.stack(found).chunk(2, dim=1)
        if self._basis is not None:
            own, around = self._basis @ own, self._basis @ around
        return {"own": own, "around": around / self._unit, "mean": torch.stack(means)}


def _directions(matrix: Tensor | SparseMatrix) -> Tensor:
    """(d, r) orthonormal, close to the leading right singular vectors, by randomised subspace iteration."""
    rows, columns = matrix.shape
    transposed = matrix.transposed() if isinstance(matrix, SparseMatrix) else matrix.T
    device = matrix.values.device if isinstance(matrix, SparseMatrix) else matrix.device
    draw = torch.randn(columns, min(_RANK, rows), generator=torch.Generator().manual_seed(0)).to(device)
    for _ in range(_POWERS):
        draw = torch.linalg.qr(transposed @ (matrix @ draw)).Q
    return draw


def _dense(matrix: Tensor | SparseMatrix) -> Tensor:
    return matrix.dense() if isinstance(matrix, SparseMatrix) else matrix
