"""Put the numbers of the result files into the pages of docs/, and all of them into results/tables.md.

    python benchmarks/tables.py

A table stands between `<!-- NAME -->` and `<!-- end -->`; everything else in a page is left as it is.
"""

import json
import re
from pathlib import Path

import choices_table
import cutoffs_table
import detection_table
import human_table
import loop_table
import make_results
import memory
import methods
import pandas as pd
import site_tables
import symmetric_noise
from common import RESULTS, read_fits, read_rows
from paper_table import every_paper_table, markdown, paper_table
from what_if import BOTH, CLEAN, CROWD, GATE_START, QUESTIONS

from pidual.learn.methods import METHODS
from pidual.paper.summary import TITLES, summarise, summary_cells

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "paper" / "results.md"
PAPER_PAGE = DOCS / "paper" / "tables.md"
DETECTION_PAGE = DOCS / "detection.md"
LOOP_PAGE = DOCS / "loop.md"
EVERY_TABLE = RESULTS / "tables.md"
SHORT = {  # datasets of the recipes, as in the columns of a table
    "cifar10_pi:high": "CIFAR-10-PI high",
    "cifar10_pi:low": "CIFAR-10-PI low",
    "digits_pi:high": "Digits-PI high",
    "digits_pi:low": "Digits-PI low",
    "cifar10s": "CIFAR-10S",
    "labelme:test": "LabelMe",
}
MOVED = ("scores", "lists", "methods", "counts", "rules")  # from docs/detection.md to results/tables.md
PERCENT = ("selected_accuracy", "last_accuracy")
MADE = ("date", "commit", "hardware", "torch")


def short_tables(every):
    """Those of docs/paper/results.md by name: of human labels, one for the other recipes, and a few as they are."""
    fits = read_fits()
    kept = ("pi_information", "results about", "results cost", "methods about")
    return (
        human_table.tables(fits, read_fits(RESULTS / "controls"))
        | {"recipes": overview(summarise(fits))}
        | {name: every[name] for name in kept}
    )


def overview(summary):
    """Accuracy and AUC of every method on every dataset, after the last epoch."""
    rows = summary[summary["variant"].isin(["", CLEAN])]
    values = zip(rows["last_accuracy"], rows["last_auc"], strict=True)
    cells = [f"{right:.1f}" + ("" if pd.isna(auc) else f" / {auc:.2f}".replace("0.", ".")) for right, auc in values]
    names = [", ".join(filter(None, pair)) for pair in zip(rows["method"], rows["variant"], strict=True)]
    wide = rows.assign(cell=cells, name=names).pivot_table(
        index="name", columns="dataset", values="cell", aggfunc="first", sort=False
    )
    ordered = wide.reindex(sorted(wide.index, key=lambda name: [*METHODS].index(name.split(",")[0]))).fillna("")
    return markdown(ordered[list(SHORT)].rename(columns=SHORT).rename_axis("method", columns=None).reset_index())


def tables():
    """Every table of results/tables.md by name."""
    return (
        recipe_tables(read_fits())
        | method_tables(read_rows(RESULTS / "methods.jsonl"))
        | {
            "symmetric": symmetric_table(read_rows(RESULTS / "symmetric_noise.jsonl")),
            "sample_memory": memory_table(load("sample_memory")["results"]),
            "pi_information": information_table(load("pi_information")["results"]),
        }
    )


def load(name):
    """A result file."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def percent(value):
    """A share in % with one digit."""
    return f"{100 * value:.1f}"


# --- the recipes, by `pidual benchmark` ---


def recipe_tables(fits):
    """A table for every dataset, the paper's numbers beside ours, what-if questions, and what the fits cost."""
    summary = summarise(fits)
    made = {"paper": paper_table(summary), "what if": what_if_table(fits)}
    shown = summary["variant"].isin(["", CLEAN]) & summary["dataset"].isin(SHORT)
    for dataset, rows in summary[shown].groupby("dataset"):
        made[f"results {dataset}"] = markdown(summary_cells(rows).drop(columns="seconds"))
    made["gate start"] = gate_table([fit for fit in fits if fit["method"] == "pi_dual"])
    fits = [fit for fit in fits if fit["dataset"] in SHORT]
    about = {key: sorted({fit["about"][key] for fit in fits}) for key in MADE}
    made["results about"] = ", ".join(f"{key} {' and '.join(values)}" for key, values in about.items())
    hours = sum(fit["seconds"] for fit in fits) / 3600
    made["results cost"] = f"{len(fits)} fits, {hours:.1f} hours of training on one core each, two at a time."
    return made


def what_if_table(fits):
    """Cross-entropy and Pi-DUAL on a crowd's data as it is and as it might be, after the last epoch."""
    asked = ["", *(name for name, question in QUESTIONS.items() if set(CROWD) <= set(question.datasets))]
    fits = [fit for fit in fits if fit["dataset"] in CROWD and fit["variant"] in asked and fit["method"] in BOTH]
    summary = summarise(fits).sort_values("variant", key=lambda names: names.map(asked.index), kind="stable")
    shown = summary_cells(summary)[["method", *(TITLES[value] for value in ("last_accuracy", "last_auc"))]]
    ends = [fit | {key: fit["end"].get(key) for key in ("f_wrong", "gate")} for fit in fits]
    means = pd.DataFrame(ends).groupby(["variant", "method"])[["f_wrong", "gate"]].mean()
    means = means.loc[list(zip(summary["variant"], summary["method"], strict=True))]
    columns = {"f repeats wrong labels": ("f_wrong", "{:.0%}"), "mean gate": ("gate", "{:.2f}")}
    for title, (key, how) in columns.items():
        shown[title] = ["" if pd.isna(value) else how.format(value) for value in means[key]]
    return markdown(shown)


def gate_table(fits):
    """How Pi-DUAL does with each initial bias of the gate that was tried: means over seeds."""
    rows = [
        {
            "dataset": fit["dataset"],
            "gate_bias": fit["settings"]["gate_bias"],
            "noisy validation": 100 * fit["valid_accuracy"],
            "test accuracy, last epoch": 100 * fit["last"]["accuracy"],
            "AUC, last epoch": fit["last"]["auc"],
        }
        for fit in fits
        if "gate_bias" in fit["settings"] and (fit["variant"] == "" or fit["variant"].startswith(GATE_START))
    ]
    table = pd.DataFrame(rows).groupby(["dataset", "gate_bias"]).mean().round(4)  # 50.45 is 50.5 here too
    tried = table.groupby("dataset").filter(lambda rows: len(rows) > 1).reset_index()
    digits = dict(zip(tried.columns[2:], (1, 1, 3), strict=True))
    return markdown(tried.assign(**{name: [f"{value:.{n}f}" for value in tried[name]] for name, n in digits.items()}))


# --- other protocols ---


def method_tables(rows):
    """All methods with searched settings, and the ablations of Pi-DUAL: a table for every value."""
    made, summaries = {}, methods.summaries(rows)
    clean = summaries["clean labels"][0].dropna(axis=1, how="all").assign(method="ce on clean labels")
    shown_values = {"methods": (*PERCENT, "selected_auc", "last_auc"), "ablations": (*PERCENT, "last_auc")}
    for name, values in shown_values.items():
        table, by = summaries[name]
        for value in values:
            shown = pd.concat([table, clean]) if name == "methods" and value in PERCENT else table
            made[f"{name} {value}"] = over_seeds(shown, by, value)
    table, by = summaries["methods"]
    ratio = table.assign(ratio=[f"{value:.1f}" for value in table["time_relative_to_ce"]])
    made["methods time"] = by_dataset(ratio, by, "ratio")
    result = load("methods")
    about = {key: result[key] for key in MADE} | result["settings"]
    made["methods about"] = ", ".join(f"{key} {value}" for key, value in about.items())
    return made


def over_seeds(table, index, value):
    """A row for every `index`, a column for every dataset, mean and standard deviation over seeds."""
    scale, digits = (100, 1) if value in PERCENT else (1, 3)
    cells = [
        f"{scale * mean:.{digits}f} ± {scale * std:.{digits}f}"
        for mean, std in zip(table[value], table[f"{value}_std"], strict=True)
    ]
    return by_dataset(table.assign(cell=cells), index, "cell")


def by_dataset(table, index, value):
    """A row for every `index`, a column for every dataset."""
    wide = table.pivot_table(index=index, columns="dataset", values=value, aggfunc="first", sort=False).fillna("")
    return markdown(wide.rename_axis(columns=None).reset_index())


def symmetric_table(rows):
    """Symmetric noise and no PI: every method after its last epoch, and what it has over cross-entropy."""
    lines = [
        {
            "method": row["method"],
            "accuracy (%)": percent(row["accuracy"]),
            "over ce": f"{100 * row['gain_over_ce']:+.1f}",
            "detection AUC": f"{row['auc']:.3f}",
        }
        for row in symmetric_noise.summarise(rows).to_dict("records")
    ]
    return markdown(pd.DataFrame(lines))


def memory_table(results):
    """Memory and time of a store of a value per row and class."""
    rows = [
        {
            "method and store": name,
            "memory (GB)": f"{row['peak_bytes'] / 1e9:.2f}",
            "store (GB)": f"{row['store_bytes'] / 1e9:.2f}",
            "step / ce": f"{results['step_time_relative_to_ce'][name]['median']:.1f}",
        }
        for name, row in results["alone"].items()
    ]
    return markdown(pd.DataFrame(rows))


def information_table(results):
    """What PI, and what the input, says about the wrong labels of every dataset."""
    rows = [
        {
            "dataset": row["dataset"],
            "PI": ", ".join(row["pi"]),
            "wrong labels": f"{100 * row['noise_rate']:.0f}%",
            "AUC of PI alone": f"{row['auc']:.3f}",
            "same mistake": "" if row["same_mistake"] is None else f"{row['same_mistake']:.0%}",
            "by class alone": "" if row["same_mistake"] is None else f"{row['same_mistake_by_class']:.0%}",
            "vote": "" if row["vote"] is None else f"{row['vote']:.1%}",
            "vote by PI": "" if row["vote"] is None else f"{row['weighted_vote']:.1%}",
        }
        for row in results
    ]
    return markdown(pd.DataFrame(rows))


# --- the page ---


def detection_tables():
    """Those of docs/detection.md."""
    return detection_table.tables(read_rows(RESULTS / "detection.jsonl")) | cutoffs_table.tables(
        load("cutoffs")["results"]
    )


def loop_tables():
    """Those of docs/loop.md."""
    return loop_table.tables(read_rows(RESULTS / "simulate_review.jsonl"))


def long_tables():
    """Those of results/tables.md that are not of the paper's comparisons."""
    detection = detection_tables()
    moved = {f"detection {name}": detection[f"detection {name}"] for name in MOVED}
    choices = choices_table.tables(read_rows(RESULTS / "closed_form_choices.jsonl"))
    reviews = loop_table.long_tables(read_rows(RESULTS / "simulate_review.jsonl"))
    return moved | site_tables.long_tables() | choices | reviews


def fill(page, made):
    """The page with its tables replaced."""
    for name, table in made.items():
        page = re.sub(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", rf"\g<1>{table}\n\g<2>", page, flags=re.S)
    return page


def all_pages():
    """Tables by page and name."""
    detection = detection_tables()
    others = {DOCS / name: made for name, made in site_tables.pages(detection).items()}
    every = tables() | long_tables()
    detection = {name: made for name, made in detection.items() if name not in every}
    ours = {PAGE: short_tables(every), EVERY_TABLE: every, DETECTION_PAGE: detection, LOOP_PAGE: loop_tables()}
    ours[PAPER_PAGE] = every_paper_table(summarise(read_fits()))
    ours[DOCS.parent / "README.md"] = {"human readme": human_table.readme(read_fits())}
    ours[DOCS / "for" / "scale.md"] = memory.tables()
    ours[DOCS / "paper" / "reproduce.md"] = {"make results": make_results.table()}
    return ours | others


if __name__ == "__main__":
    for path, made in all_pages().items():
        path.write_text(fill(path.read_text(), made))
        print(f"written: {path}")
