"""Figures, which are rendered only where a test looks at them: that is more than half the time of a small report."""

from pathlib import Path
from unittest import mock

from matplotlib.figure import Figure

SAVEFIG = Figure.savefig


def drawn():
    """Figures are rendered."""
    return mock.patch.object(Figure, "savefig", SAVEFIG)


def not_drawn():
    """Figures are made, but not rendered."""
    return mock.patch.object(Figure, "savefig", write_empty_svg)


def write_empty_svg(figure, target, **options):
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'
    target.write(svg) if hasattr(target, "write") else Path(target).write_text(svg)
