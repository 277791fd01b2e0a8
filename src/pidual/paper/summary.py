"""Result files as tables and figures, our numbers beside the paper's where the scale is the paper's."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import RunError
from ..files import replacing, write_json
from ..files import write_csv as write_plain_csv
from ..learn.methods import METHODS
from ..show.report.figures import ALERT, CALM, INK, LINE, MUTED, STYLE
from .published import Number, paper_number
from .runs import read_result
from .score import Result

KEYS = ["scale", "dataset", "method", "variant"]
VALUES: Mapping[str, Callable[[Result], float | None]] = {  # of a result: accuracies in %, as the paper gives them
    "selected_accuracy": lambda r: 100 * r["selected"]["accuracy"],
    "last_accuracy": lambda r: 100 * r["last"]["accuracy"],
    "selected_auc": lambda r: r["selected"]["auc"],
    "last_auc": lambda r: r["last"]["auc"],
    "selected_gate_auc": lambda r: r["selected"]["score_auc"].get("gate"),
    "last_gate_auc": lambda r: r["last"]["score_auc"].get("gate"),
}
MAIN_VALUES = ("selected_accuracy", "last_accuracy", "selected_auc", "last_auc")
TITLES = {
    "selected_accuracy": "accuracy, selected epoch",
    "last_accuracy": "accuracy, last epoch",
    "selected_auc": "AUC, selected epoch",
    "last_auc": "AUC, last epoch",
}
COLOURS = {INK: "#1d2327", MUTED: "#5c6770", LINE: "#d5dadd", CALM: "#2a6f97", ALERT: "#c1440e"}


def read_results(out: Path) -> list[Result]:
    """All results below a folder."""
    return [read_result(path) for path in sorted(out.glob("*/*/*.json"))]


def summarise(results: Sequence[Result]) -> pd.DataFrame:
    """Return a row per dataset, method and variant: mean and standard deviation over seeds of every value.

    `tuned` is the number of trials that chose its options. At the paper's scale `paper_VALUE` is the paper's mean and
    `gap_VALUE` ours minus the paper's.
    """
    _check_same_settings(results)
    order = {name: place for place, name in enumerate(METHODS)}
    rows = [
        {key: result[key] for key in KEYS}
        | {name: value(result) for name, value in VALUES.items()}
        | {name: result[name] for name in ("seconds", "parameters", "row_values", "recoveries")}
        | {"whole": result["data"]["whole"], "tuned": result.get("tuned", {}).get("trials", 0)}
        for result in results
    ]
    if not rows:
        return pd.DataFrame(columns=[*KEYS, "seeds", *VALUES])
    frame = pd.DataFrame(rows).astype(dict.fromkeys(VALUES, float))
    groups = frame.groupby(KEYS, sort=False)
    table = groups.size().rename("seeds").to_frame()
    for name in VALUES:
        table[name], table[f"{name}_std"] = groups[name].mean().round(4), groups[name].std().round(4)
    table["seconds"], table["recoveries"] = groups["seconds"].mean().round(1), groups["recoveries"].sum()
    table = table.join(groups[["parameters", "row_values", "whole", "tuned"]].first())
    table = table.reset_index()
    for name in VALUES:
        numbers = [_number_beside(row, name) for row in table.to_dict("records")]
        table[f"paper_{name}"] = pd.Series([number[0] if number else None for number in numbers], dtype=float)
        table[f"gap_{name}"] = (table[name] - table[f"paper_{name}"]).round(4)
    return table.sort_values(
        ["scale", "dataset", "method"],
        key=lambda column: column.map(order) if column.name == "method" else column,
        kind="stable",
    ).reset_index(drop=True)


def _check_same_settings(results: Sequence[Result]) -> None:
    """Refuse to average over fits of different settings, and tables over different data."""
    seen: dict[tuple[str, ...], Any] = {}
    data: dict[tuple[str, ...], str] = {}
    for result in results:
        key = tuple(result[name] for name in KEYS)
        if seen.setdefault(key, result["settings"]) != result["settings"]:
            raise RunError(
                f"The results of {', '.join(filter(None, key))} were made with different settings; "
                "remove the old ones and run the benchmark again."
            )
        table = (result["scale"], result["dataset"], result["variant"])
        if data.setdefault(table, result["data"]["fingerprint"]) != result["data"]["fingerprint"]:
            raise RunError(
                f"The results of {', '.join(filter(None, table))} are from different data; keep them in separate "
                "directories."
            )


def _number_beside(row: Any, column: str) -> Number | None:
    """Return the paper's number for a row of the summary; it is compared only with the paper's scale on all its data.

    The paper's analyses are of Pi-DUAL; where they have another method too, its name stands before the variant's.
    """
    if row["scale"] != "paper" or not row["whole"]:
        return None
    method, variant = row["method"], row["variant"]
    names = [f"{method}, {variant}", *([variant] if method == "pi_dual" else [])] if variant else [method]
    found = [paper_number(row["dataset"], name, column) for name in names]
    return next((number for number in found if number), None)


def write_summary(out: Path, results: Sequence[Result]) -> pd.DataFrame:
    """Write summary.csv, summary.json, and a figure for every dataset and scale.

    Returns
    -------
    DataFrame
        The summary of the results, without variants.
    """
    summary = summarise([result for result in results if not result["variant"]])
    write_csv(out / "summary.csv", summary)
    write_json(out / "summary.json", summary_json(summary, results))
    for (scale, dataset), rows in summary.groupby(["scale", "dataset"]):
        draw_rows(out / f"{scale}-{str(dataset).replace(':', '-')}.svg", rows)
    return summary


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table atomically."""
    with replacing(path) as temporary:
        write_plain_csv(table, temporary)


def summary_json(summary: pd.DataFrame, results: Sequence[Result]) -> Result:
    """Return the summary as JSON values, with where and when its fits were made."""
    made = [result["about"] for result in results]
    about = {name: sorted({str(one[name]) for one in made}) for name in ("commit", "date", "torch", "hardware")}
    rows = summary.astype(object).where(summary.notna(), None).to_dict("records")
    return {"about": about, "unit": "accuracy in %, AUC from 0 to 1, seconds of training", "results": rows}


def labels(rows: pd.DataFrame) -> "pd.Series[str]":
    """Return what a row of the summary is of: the method, the variant if any, and whether options were searched."""
    tuned = rows["tuned"].map(lambda trials: ", tuned" if trials else "")
    return rows["method"] + rows["variant"].map(lambda variant: f", {variant}" if variant else "") + tuned


def draw_rows(path: Path, rows: pd.DataFrame) -> None:
    """Accuracy and detection AUC of every row of a summary, at the selected and at the last epoch."""
    rows = rows.iloc[::-1]
    names = list(labels(rows))

    def draw(axes: Sequence[Any]) -> None:
        for one, value, title in zip(axes, ("accuracy", "auc"), ("test accuracy (%)", "detection AUC"), strict=True):
            looks = {"selected": (0.14, CALM, "o"), "last": (-0.14, ALERT, "s")}
            for epoch, (shift, colour, marker) in looks.items():
                mean, std = rows[f"{epoch}_{value}"], rows[f"{epoch}_{value}_std"]
                places = [place + shift for place in range(len(names))]
                one.errorbar(mean, places, xerr=std, fmt=marker, color=colour, markersize=4, label=epoch)
            one.set_yticks(range(len(names)), names if one is axes[0] else [""] * len(names))  # the same rows
            one.grid(axis="x")
            panel(one, title)
        axes[1].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=7, title="epoch", title_fontsize=7)

    write_svg(path, draw, panels=(1, 2), size=(7.2, 0.7 + 0.28 * len(names)))


# --- for people ---


def show(value: float | None, std: float | None, column: str) -> str:
    """Return a number with its standard deviation, in the paper's digits; "" where there is none."""
    digits = 3 if "auc" in column else 1
    if value is None or pd.isna(value):
        return ""
    return f"{value:.{digits}f}" + ("" if std is None or pd.isna(std) else f" ± {std:.{digits}f}")


def summary_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of one dataset as text, beside each value the paper's and the gap where there are any."""
    cells = {"method": labels(rows)}
    for name in MAIN_VALUES:
        pairs = zip(rows[name], rows[f"{name}_std"], strict=True)
        cells[TITLES[name]] = pd.Series([show(mean, std, name) for mean, std in pairs], index=rows.index)
        if rows[f"paper_{name}"].notna().any():
            cells[f"paper, {TITLES[name]}"] = rows[f"paper_{name}"].map(lambda mean, name=name: show(mean, None, name))
            cells[f"gap, {TITLES[name]}"] = rows[f"gap_{name}"].map(
                lambda gap, name=name: "" if pd.isna(gap) else f"{gap:+.{3 if 'auc' in name else 1}f}"
            )
    cells["seconds"] = rows["seconds"].map(lambda seconds: f"{seconds:.0f}")
    return pd.DataFrame(cells)


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
