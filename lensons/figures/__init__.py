"""Figures: numbers with a title, a caption and a text form; pictures that need no script and no network."""

from lensons.figures.circuitsvis import bring_circuitsvis
from lensons.figures.figure import Figure, Scale, Table, in_a_frame, script, style_sheet
from lensons.figures.make import (
    all_heads_figure,
    difference_figure,
    head_scores_figure,
    line_figure,
    row_figure,
    table_figure,
    token_values_figure,
)
from lensons.figures.markup import three_digits
from lensons.figures.page import document
from lensons.figures.patterns import all_patterns_figure, pattern_figure

__all__ = [
    "Figure",
    "Scale",
    "Table",
    "all_heads_figure",
    "all_patterns_figure",
    "bring_circuitsvis",
    "difference_figure",
    "document",
    "head_scores_figure",
    "in_a_frame",
    "line_figure",
    "pattern_figure",
    "row_figure",
    "script",
    "style_sheet",
    "table_figure",
    "three_digits",
    "token_values_figure",
]
