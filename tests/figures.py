"""Figures, which are drawn only where a test looks at them: that is more than half the time of a small report."""

import contextlib
from pathlib import Path
from unittest import mock

from matplotlib.figure import Figure

from pidual.show.report import figures

SAVEFIG, SVG = Figure.savefig, figures._svg
EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'


def drawn():
    """Figures are drawn."""
    return _with(SAVEFIG, SVG)


def not_drawn():
    """Figures are empty: those of a report are not even made."""
    return _with(write_empty_svg, empty_svg)


@contextlib.contextmanager
def _with(savefig, svg):
    with mock.patch.object(Figure, "savefig", savefig), mock.patch.object(figures, "_svg", svg):
        yield


def write_empty_svg(figure, target, **options):
    target.write(EMPTY) if hasattr(target, "write") else Path(target).write_text(EMPTY)


def empty_svg(name, label, draw, *, size):
    return figures._inline(EMPTY, name, label)
