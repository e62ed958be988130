"""Lessons: what a learner reads and runs, and what a new lesson is made of."""

from lensons.lessons.attention import AttentionLesson
from lensons.lessons.base import Lesson, Question, Step, figure_of
from lensons.lessons.evidence import Evidence
from lensons.lessons.induction import InductionLesson
from lensons.lessons.notebooks import copy_notebooks, notebook_files
from lensons.lessons.words import Words, glossary, references_file, sources

__all__ = [
    "AttentionLesson",
    "Evidence",
    "InductionLesson",
    "Lesson",
    "Question",
    "Step",
    "Words",
    "copy_notebooks",
    "figure_of",
    "glossary",
    "notebook_files",
    "references_file",
    "sources",
]
