"""Figures of benchmarks and analyses as SVG files of their own: the look of the report's charts, on white."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..files import replacing
from ..show.report.figures import ALERT, CALM, INK, LINE, MUTED, STYLE

COLOURS = {INK: "#1d2327", MUTED: "#5c6770", LINE: "#d5dadd", CALM: "#2a6f97", ALERT: "#c1440e"}


def write_svg(
    path: Path, draw: Callable[[Sequence[Any]], None], *, panels: tuple[int, int] = (1, 1), size: tuple[float, float]
) -> None:
    """Draw into a grid of axes, and write the figure atomically.

    `draw`: gets the axes, row by row.
    `panels` (int, int): rows and columns of the grid.
    `size` (float, float): width and height in inches.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE | {"figure.facecolor": "white"}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(list(figure.subplots(*panels, squeeze=False).flat))
        with replacing(path) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None, "Title": path.stem})
            svg = temporary.read_text(encoding="utf-8")
            for marker, colour in COLOURS.items():
                svg = svg.replace(marker, colour)
            temporary.write_text(svg, encoding="utf-8")


def panel(axes: Any, title: str, *, x_label: str = "", y_label: str = "") -> None:
    """Title and labels of one panel."""
    axes.set_title(title, loc="left", fontsize=9, color=INK)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
