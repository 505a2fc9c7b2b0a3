"""Troubleshooting: one service on paper, seventeen ways to break it, and the way from readings back to the cause.

    row = ROWS[4]
    readings = read(row.broken())
    diagnose(readings, normal_of(row.healthy()))  # the row

Nothing is drawn: each symptom comes out of a changed setting or another workload, run through
the engine's own scheduler and block pool on a clock of ``costs``, or through the engine itself.
"""

from .normal import SEEDS, Normal, Range, normal_of, range_of
from .readings import READINGS, Reading, Readings, read
from .rows import ROWS, Row
from .service import Run, serve
from .setup import Clock, Setup
from .tree import TREE, Question, diagnose, questions
from .words import show_changes, show_normal, show_range, show_row, show_value

__all__ = [
    "READINGS", "ROWS", "SEEDS", "TREE", "Clock", "Normal", "Question", "Range", "Reading", "Readings", "Row", "Run", "Setup",
    "diagnose", "normal_of", "questions", "range_of", "read", "show_changes", "show_normal", "serve", "show_range", "show_row", "show_value",
]
