"""Put the numbers of the result files into the docs.

    python benchmarks/tables.py          # rewrites the tables of docs/benchmarks.md and docs/results.md

A table stands between `<!-- NAME -->` and `<!-- end -->`; everything else in the pages is left as it is.
"""

import json
import re
from pathlib import Path

import pandas as pd
from common import RESULTS
from what_if import BOTH, CLEAN, CROWD, GATE_START, QUESTIONS

from pidual.paper.summary import TITLES, markdown, paper_table, read_results, summarise, summary_cells

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "benchmarks.md", DOCS / "results.md")
PERCENT = ("selected_accuracy", "last_accuracy")


def load(name):
    """A result file, or None where it is not there yet."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


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


def tables():
    """Every table of the page by name."""
    made = {}
    for file, index in (("methods", "method"), ("ablations", "variant")):
        result = load(file)
        if result is None:
            continue
        summary = pd.DataFrame(result["results"]["summary"])
        clean = pd.DataFrame(result["results"].get("clean_labels", [])).assign(**{index: "ce on clean labels"})
        for value in ("selected_accuracy", "last_accuracy", "selected_auc", "last_auc"):
            shown = pd.concat([summary, clean]) if value in PERCENT else summary
            made[f"{file} {value}"] = over_seeds(shown, index, value)
        if "time_relative_to_ce" in summary:
            ratio = summary.assign(ratio=[f"{value:.1f}" for value in summary["time_relative_to_ce"]])
            made[f"{file} time"] = by_dataset(ratio, index, "ratio")
        about = {key: result[key] for key in ("date", "commit", "hardware", "torch")} | result["settings"]
        made[f"{file} about"] = ", ".join(f"{key} {value}" for key, value in about.items())
    result = load("sample_memory")
    if result is not None:
        rows = [
            {
                "method and store": name,
                "memory (GB)": f"{row['peak_bytes'] / 1e9:.2f}",
                "store (GB)": f"{row['store_bytes'] / 1e9:.2f}",
                "step / ce": f"{result['results']['step_time_relative_to_ce'][name]['median']:.1f}",
            }
            for name, row in result["results"]["alone"].items()
        ]
        made["sample_memory"] = markdown(pd.DataFrame(rows))
    result = load("symmetric_noise")
    if result is not None:
        rows = [
            {
                "method": row["method"],
                "accuracy (%)": f"{100 * row['accuracy']:.1f}",
                "over ce": f"{100 * row['gain_over_ce']:+.1f}",
                "detection AUC": f"{row['auc']:.3f}",
            }
            for row in result["results"]
        ]
        made["symmetric"] = markdown(pd.DataFrame(rows))
    result = load("pi_information")
    if result is not None:
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
            for row in result["results"]
        ]
        made["pi_information"] = markdown(pd.DataFrame(rows))
    return made


def benchmark_tables():
    """The tables that `pidual benchmark` made, one for every dataset, and the paper's numbers beside ours."""
    results = read_results(RESULTS / "benchmark")
    summary = summarise(results)
    if not len(summary):
        return {}
    made = {"paper": paper_table(summary)}
    for dataset, rows in summary[summary["variant"].isin(["", CLEAN])].groupby("dataset"):
        made[f"results {dataset}"] = markdown(summary_cells(rows).drop(columns="seconds"))
    made["what if"] = what_if_table(results)
    made["gate start"] = gate_table([result for result in results if result["method"] == "pi_dual"])
    abouts = [result["about"] for result in results]
    about = {key: sorted({one[key] for one in abouts}) for key in ("date", "commit", "hardware", "torch")}
    made["results about"] = ", ".join(f"{key} {' and '.join(values)}" for key, values in about.items())
    hours = sum(result["seconds"] for result in results) / 3600
    made["results cost"] = f"{len(results)} fits, {hours:.1f} hours of training on one core each, two at a time."
    return made


def what_if_table(results):
    """Cross-entropy and Pi-DUAL on a crowd's data as it is and as it might be, after the last epoch."""
    asked = ["", *(name for name, question in QUESTIONS.items() if set(CROWD) <= set(question.datasets))]
    results = [result for result in results if result["dataset"] in CROWD and result["variant"] in asked]
    results = [result for result in results if result["method"] in BOTH]
    if not results:
        return ""
    summary = summarise(results).sort_values("variant", key=lambda names: names.map(asked.index), kind="stable")
    shown = summary_cells(summary)[["method", *(TITLES[value] for value in ("last_accuracy", "last_auc"))]]
    ends = [result | {key: result["history"][-1].get(key) for key in ("f_wrong", "gate")} for result in results]
    means = pd.DataFrame(ends).groupby(["variant", "method"])[["f_wrong", "gate"]].mean()
    means = means.loc[list(zip(summary["variant"], summary["method"], strict=True))]
    columns = {"f repeats wrong labels": ("f_wrong", "{:.0%}"), "mean gate": ("gate", "{:.2f}")}
    for title, (key, how) in columns.items():
        shown[title] = ["" if pd.isna(value) else how.format(value) for value in means[key]]
    return markdown(shown)


def gate_table(results):
    """How Pi-DUAL does with each initial bias of the gate that was tried: means over seeds."""
    rows = [
        {
            "dataset": result["dataset"],
            "gate_bias": result["resolved"]["method"]["gate_bias"],
            "noisy validation": 100 * result["valid_accuracy"],
            "test accuracy, last epoch": 100 * result["last"]["accuracy"],
            "AUC, last epoch": result["last"]["auc"],
        }
        for result in results
        if result["variant"] == "" or result["variant"].startswith(GATE_START)
    ]
    if not rows:
        return ""
    table = pd.DataFrame(rows).groupby(["dataset", "gate_bias"]).mean().round(4)  # 50.45 is 50.5 here too
    tried = table.groupby("dataset").filter(lambda rows: len(rows) > 1).reset_index()
    digits = dict(zip(tried.columns[2:], (1, 1, 3), strict=True))
    return markdown(tried.assign(**{name: [f"{value:.{n}f}" for value in tried[name]] for name, n in digits.items()}))


def fill(page, made):
    """The page with its tables replaced."""
    for name, table in made.items():
        page = re.sub(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", rf"\g<1>{table}\n\g<2>", page, flags=re.S)
    return page


if __name__ == "__main__":
    made = tables() | benchmark_tables()
    for page in PAGES:
        page.write_text(fill(page.read_text(), made))
        print(f"written: {page}")
