"""The numbers of the paper's main tables, ours beside them."""

import pandas as pd

from pidual.learn.methods import METHODS
from pidual.paper.published import (
    BACKBONE,
    COLUMNS,
    CORRUPTED_PI,
    DEPTH,
    LEAVE_OUT,
    NOISE_INPUT,
    PAPER_ABLATIONS,
    PAPER_DATASETS,
    SELECTED_ACCURACY,
    TRAM_LOSS,
    WIDTH,
    paper_number,
)
from pidual.paper.summary import MAIN_VALUES, TITLES, show

GATE_VALUES = {TITLES["selected_auc"]: "selected_gate_auc", TITLES["last_auc"]: "last_gate_auc"}
OURS = {  # where a dataset has another name here, or is not available: what stands in for it
    "cifar10n": ("cifar10n:worst",),
    "cifar100n": ("cifar100n:fine",),
    "imagenet_pi:low": ("imagenet_pi:low", "cifar10_pi:low"),
    "imagenet_pi:high": ("imagenet_pi:high", "cifar10_pi:high"),
}


def markdown(cells):
    """Return a frame of text as a table in Markdown."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in cells.itertuples(index=False)]
    return "\n".join(["| " + " | ".join(cells.columns) + " |", "|---" * cells.shape[1] + "|", *lines])


def paper_table(summary):
    """Return every number of the paper's main tables, ours beside it at the scale we ran, as a table in Markdown.

    Where a dataset is not available, ours is of the one that stands in for it, and named.
    """
    rows = []
    for dataset in PAPER_DATASETS:
        ours, source = our_rows(summary, dataset)
        for method, variant, values in paper_rows():
            numbers = {title: paper_number(dataset, variant or method, name) for title, name in values.items()}
            found = ours[(ours["method"] == method) & (ours["variant"] == variant)].to_dict("records")
            if not any(numbers.values()):
                continue
            words = ", ".join([method, *filter(None, [variant]), *(["gate"] if values == GATE_VALUES else [])])
            row = {"dataset": dataset, "method": words, "ours on": source if found else "not run"}
            for title in map(TITLES.__getitem__, MAIN_VALUES):
                name = values.get(title, "")
                mean, std = numbers.get(title) or (None, None)
                row[f"paper: {title}"] = show(mean, std, name)
                row[f"ours: {title}"] = show(found[0][name], found[0][f"{name}_std"], name) if found and name else ""
            rows.append(row)
    return markdown(pd.DataFrame(rows))


def paper_rows():
    """Return the rows of the paper's main tables: method, variant, and the value that stands in each column."""
    values = {TITLES[name]: name for name in MAIN_VALUES}
    known = {method for name in MAIN_VALUES for method in COLUMNS[name]}
    return [
        *((method, "", values) for method in METHODS if method in known),
        ("pi_dual", "", GATE_VALUES),
        *(("pi_dual", variant, values) for variant in PAPER_ABLATIONS),
    ]


def our_rows(summary, dataset):
    """Return our rows for a dataset of the paper and what they are of: the paper's scale before the smaller one."""
    for name in OURS.get(dataset, (dataset,)):
        for scale in ("paper", "cpu"):
            rows = summary[(summary["dataset"] == name) & (summary["scale"] == scale)]
            if len(rows):
                part = scale == "paper" and not rows["whole"].all()
                return rows, f"{name}, {scale} scale" + (", part of the data" if part else "")
    return summary.iloc[:0], ""


# --- docs/paper/tables.md: every table of the paper, as it is printed there, ours beside it ---

NAMES = {
    "cifar10h": "CIFAR-10H",
    "cifar10n": "CIFAR-10N",
    "cifar100n": "CIFAR-100N",
    "imagenet_pi:low": "ImageNet-PI low",
    "imagenet_pi:high": "ImageNet-PI high",
}
VARIANT_TABLES = {
    "ablations": {"pi_dual": SELECTED_ACCURACY["pi_dual"], **PAPER_ABLATIONS},
    "backbone": BACKBONE,
    "width": WIDTH,
    "depth": DEPTH,
    "noise input": NOISE_INPUT,
    "tram loss": TRAM_LOSS,
    "corrupted": CORRUPTED_PI,
    "left out": LEAVE_OUT,
}
AS_IT_IS = ("eps(a)", "Pi-DUAL", "all PI", "corrupted PI 0%")  # Pi-DUAL itself


def every_paper_table(summary):
    """Return all tables of the paper with numbers by name: its own, and ours of the same name behind a bar."""
    made = {f"paper {name}": _beside(summary, rows, name) for name, rows in COLUMNS.items()}
    return made | {
        f"paper {name}": _beside(summary, rows, "selected_accuracy") for name, rows in VARIANT_TABLES.items()
    }


def _beside(summary, rows, column):
    """Return a table of the paper: a row per method or variant, a column per dataset."""
    datasets = [
        name for place, name in enumerate(NAMES) if any(len(row) > place and row[place] for row in rows.values())
    ]
    cells = [{"": name} | {NAMES[data]: _cell(summary, data, name, column) for data in datasets} for name in rows]
    return markdown(pd.DataFrame(cells))


def _cell(summary, dataset, name, column):
    """Return the paper's number, and ours of the same method and variant where there is one on the same labels."""
    number, (ours, source) = paper_number(dataset, name, column), our_rows(summary, dataset)
    method, variant = ("pi_dual", "") if name in AS_IT_IS else (name, "") if name in METHODS else ("pi_dual", name)
    found = ours[(ours["method"] == method) & (ours["variant"] == variant)].to_dict("records")
    text = show(*number, column) if number else ""
    if not found or not source.startswith(dataset) or pd.isna(found[0][column]):
        return text
    return f"{text} \\| {show(found[0][column], found[0][f'{column}_std'], column)}"
