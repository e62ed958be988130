"""Lessons: what a learner reads and runs."""

from lensons.lessons.attention import AttentionLesson
from lensons.lessons.base import Lesson, Question, Step
from lensons.lessons.notebooks import copy_notebooks

__all__ = ["AttentionLesson", "Lesson", "Question", "Step", "copy_notebooks"]
