"""Charts as inline SVG that takes its colours and its font from the page, in light and in dark.

matplotlib draws with marker colours; `_inline` puts the page's CSS variables in their place.
"""

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

INK, MUTED, LINE, CALM, ALERT = "#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05"
VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line", CALM: "--calm", ALERT: "--alert"}
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pidual",
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.labelcolor": INK,
}
N_BINS = 40
MAX_POINTS = 400  # of a training curve; more cannot be seen

Counts = npt.NDArray[np.int64]


def histogram_svg(name: str, label: str, x_label: str, groups: Mapping[str, tuple[Counts, bool]]) -> str:
    """Histograms of scores in [0, 1], each group as shares of itself so that a small one can be seen.

    `name`: prefix for the ids in the SVG, unique in the page.
    `label`: what the chart shows, for those who cannot see it.
    `groups`: group name -> (counts in equal bins over [0, 1], whether the group is the alarming one).
    """

    def draw(axes: Any) -> None:
        for group, (counts, alarming) in groups.items():
            total = int(counts.sum())
            edges = np.linspace(0, 1, len(counts) + 1)
            share = 100 * counts / max(total, 1)
            colour = ALERT if alarming else CALM
            axes.stairs(share, edges, fill=True, color=colour, alpha=0.3, linewidth=0)
            line = (0, (3, 1.5)) if alarming else "-"
            axes.stairs(share, edges, color=colour, linewidth=1.3, linestyle=line, label=f"{group} ({total:,})")
        axes.set_xlim(0, 1)
        axes.set_xlabel(x_label)
        axes.set_ylabel("% of the group")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, handlelength=1.4, borderaxespad=0.2)

    return _svg(name, label, draw, size=(4.4, 2.6))


def curve_svg(
    name: str, label: str, y_label: str, attempts: Sequence[Sequence[tuple[int, float]]], *, selected: int | None = None
) -> str:
    """One training curve over epochs; earlier attempts dashed and pale, the last one solid.

    `name`, `label`: as for `histogram_svg`.
    `attempts` (epoch, value): in order; values that are not finite are gaps.
    `selected`: epoch whose model was kept.
    """

    def draw(axes: Any) -> None:
        for number, points in enumerate(attempts, start=1):
            last = number == len(attempts)
            epochs, values = zip(*points[:: -(-len(points) // MAX_POINTS)], strict=True)
            finite = [value if math.isfinite(value) else math.nan for value in values]
            look: dict[str, Any] = {"color": CALM, "linewidth": 1.5} if last else {"color": MUTED, "linewidth": 1}
            marker = "o" if len(epochs) < 3 else None
            axes.plot(epochs, finite, linestyle="-" if last else (0, (3, 2)), marker=marker, markersize=4, **look)
        if selected is not None:
            axes.axvline(selected, color=ALERT, linewidth=1, linestyle=(0, (1, 1.5)))
        axes.margins(x=0.02)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("epoch")
        axes.set_title(y_label, loc="left", fontsize=9, color=INK)

    return _svg(name, label, draw, size=(3.5, 2.2))


def found_svg(name: str, label: str, points: Sequence[tuple[float, float]], *, flagged: int) -> str:
    """Wrong labels that should be found against labels looked at, most suspicious first.

    `name`, `label`: as for `histogram_svg`.
    `points`: in order, from (0, 0).
    `flagged`: how many labels are flagged; marked where the curve gets there.
    """

    def draw(axes: Any) -> None:
        x, y = zip(*points[:: -(-len(points) // MAX_POINTS)], points[-1], strict=True)
        top = 1.06 * max(y[-1], 1e-9)
        axes.plot([0, x[-1]], [0, x[-1]], color=MUTED, linewidth=1, linestyle=(0, (3, 2)), label="if all were wrong")
        axes.plot(x, y, color=CALM, linewidth=1.8, label="expected")
        if 0 < flagged <= x[-1]:
            axes.axvline(flagged, color=ALERT, linewidth=1, linestyle=(0, (1, 1.5)), label="flagged")
        axes.set_xlim(0, x[-1])
        axes.set_ylim(0, top)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.get_major_locator().set_params(nbins=6)
        axes.set_xlabel("labels looked at")
        axes.set_ylabel("wrong labels found")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, handlelength=1.4, borderaxespad=0.2)

    return _svg(name, label, draw, size=(4.4, 2.7))


def _svg(name: str, label: str, draw: Callable[[Any], None], *, size: tuple[float, float]) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return _inline(drawn.getvalue(), name, label)


def _inline(svg: str, name: str, label: str) -> str:
    """Make a stand-alone SVG part of a page: own ids, the page's colours and font, a text for screen readers."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(
        r"<svg [^>]*?viewBox=\"([^\"]*)\"[^>]*>", rf'<svg viewBox="\1" role="img" aria-label="{escape(label)}">', svg
    )
    svg = re.sub(r'id="([^"]*)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(href="|url\()#', rf"\1#{name}-", svg)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font: \1px var(--sans)", svg).replace("xlink:href", "href")
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return re.sub(r">\s+<", "><", svg)
