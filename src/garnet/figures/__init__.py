"""The paper's figures and ours, drawn from committed records: `garnet figures`."""

from garnet.figures.gallery import draw, write
from garnet.figures.table import FIGURES, Drawing

__all__ = ["FIGURES", "Drawing", "draw", "write"]
