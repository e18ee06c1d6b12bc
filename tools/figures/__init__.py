"""The paper's figures and ours, drawn from committed records: `python -m tools.figures`."""

from tools.figures.catalogue import FIGURES, Drawing
from tools.figures.gallery import draw, measured, write

__all__ = ["FIGURES", "Drawing", "draw", "measured", "write"]
