"""Tables of the documentation, by page and by name, made of the result files; `tables.py` writes them."""

import json
from pathlib import Path

import embedded_table
import methods
import pandas as pd
from common import RESULTS, read_rows
from paper_table import markdown

DOCS = Path(__file__).parents[1] / "docs"
CROWDS = {
    "labelme": "LabelMe",
    "cifar10s": "CIFAR-10S",
    "cifar100_sm500": "CIFAR-100 SM500",
    "medical_treat": "Medical relations",
    "llm_emotion": "Language models",
}
GOLD_CROWDS = {"labelme": "LabelMe, with x", "labelme_no_x": "LabelMe"}
METHODS = ["auto", "pi_dual", "ce", "vote", "dawid_skene", "glad", "mace", "crowd_layer", "crowdlab", "filter_retrain"]
PEERS = {  # columns of the comparison, by who they are
    "auto": "pidual",
    "vote": "majority vote",
    "dawid_skene": "Dawid-Skene",
    "glad": "GLAD",
    "mace": "MACE",
    "crowd_layer": "CrowdLayer",
    "crowdlab": "cleanlab (CROWDLAB)",
    "filter_retrain": "cleanlab, then retrain",
}
DATASETS = {
    "digits_pi_low": "Digits-PI low",
    "digits_pi_high": "Digits-PI high",
    "labelme": "LabelMe",
    "cifar10s": "CIFAR-10S",
}


def pages(detection):
    """Tables by page and name; `detection` has those of docs/detection.md."""
    crowds = load("crowds")
    return {
        "for/own_model.md": {"judge detect": judge_table(load("judge")["detect"], detection["detection counts"])},
        "pairs.md": {"pairs": pairs_table(load("pairs"))},
        "multi_label.md": sets_tables(load("sets")),
        "compared.md": {"overhead": overhead_table(load("overhead"))},
        "evidence.md": {
            "evidence crowds": accuracy_table(crowds),
            "compared crowds": compared_crowds(crowds),
            **embedded_table.tables(CROWDS, crowds + load("crowds_embedded"), read_rows(RESULTS / "embedded.jsonl")),
            "gold stated": gold_table(read_rows(RESULTS / "gold.jsonl")),
            "gold cover": cover_table(read_rows(RESULTS / "gold.jsonl")),
        },
        "settings.md": {"random pi": settings_table(load("random_pi"))},
        "for/llm_judges.md": {
            "language models": judges_table(load("real_crowds")),
            "panels of judges": panels_table(read_rows(RESULTS / "judges.jsonl")),
        },
        **method_results(crowds),
    }


def sets_tables(rows):
    """Lists of wrong labels of sets, on planted tables and a real crowd: a row for each method."""
    planted, real = ([row for row in rows if row["part"] == part] for part in ("planted", "crowd"))
    found = [
        {
            "": row["method"],
            "precision": f"{100 * row['precision']:.0f}",
            "recall": f"{100 * row['recall']:.0f}",
            "rare tags": f"{100 * row['rare_precision']:.0f} / {100 * row['rare_recall']:.0f}",
            "AUC": f"{row['auc']:.3f}",
            "noise by class, off by": f"{row['class_noise_error']:.1f}",
            "ticks everything: place": f"{row['all_place']:.1f}",
            "never ticked, of 2": "" if row["never_found"] is None else f"{row['never_found']:.1f}",
            "processor seconds": f"{row['processor_seconds']:.0f}",
        }
        for row in planted
    ]
    crowd = [
        {"": row["method"], "mean AUC": f"{row['mean_auc']:.3f}"}
        | {name: f"{auc:.2f}" for name, auc in row["by_class"].items()}
        | {"processor seconds": f"{row['processor_seconds']:.0f}"}
        for row in real
    ]
    return {"sets planted": markdown(pd.DataFrame(found)), "sets crowd": markdown(pd.DataFrame(crowd))}


def pairs_table(rows):
    """Rank correlation, AUC and cover of scores by comparisons: a row for each setting, a column for each method."""
    found = {}
    for row in rows:
        cover = "" if row["cover"] is None else f" ({100 * row['cover']:.0f}%)"
        cells = found.setdefault(row["setting"], {"comparisons": row["setting"]})
        cells[row["method"]] = f"{row['rank_correlation']:.2f} / {row['auc']:.2f}{cover}"
    return markdown(pd.DataFrame(found.values()))


def long_tables():
    """Those of results/tables.md that are of crowds and settings."""
    crowds = load("crowds")
    settings = settings_table(load("settings"))
    return {"crowds": crowds_table(crowds), "crowds made up": made_up_table(crowds), "settings": settings}


def gold_table(rows):
    """What is right, stated, and its log-loss, without gold and with items of known class drawn at random."""
    found = {(row["crowd"], row["gold"]): row for row in rows if (row["way"], row["refit"]) == ("random", "no")}
    lines = []
    for crowd in dict.fromkeys(name for name, _ in found):
        of_crowd = {gold: row for (name, gold), row in found.items() if name == crowd}
        cells = {"crowd": GOLD_CROWDS.get(crowd, CROWDS.get(crowd, crowd))}
        cells |= {title: right_and_stated(of_crowd[50][key]) for key, title in (("q", "all votes"), ("p0", "no gold"))}
        cells |= {f"{gold} gold": right_and_stated(row["p"]) for gold, row in of_crowd.items()}
        lines.append(cells)
    return markdown(pd.DataFrame(lines))


def right_and_stated(scores):
    """Share right / share stated, in %, / negative log-likelihood."""
    return f"{100 * scores[0]:.1f} / {100 * scores[1]:.1f} / {scores[2]:.2f}"


def cover_table(rows):
    """How often 95% intervals hold, over crowds, and how wide they are, by how gold was chosen."""
    kinds = {"noise": "noise", "shares": "class shares", "accuracy": "consensus right", "annotators": "annotators"}
    of = pd.DataFrame([{"chosen": row["way"], "gold": row["gold"]} | {k: row[k][:2] for k in kinds} for row in rows])
    lines = []
    for (way, gold), part in of.groupby(["chosen", "gold"], sort=False):
        mean = {kind: [sum(column) / len(part) for column in zip(*part[kind], strict=True)] for kind in kinds}
        cells = {title: f"{100 * mean[kind][0]:.0f}% ({100 * mean[kind][1]:.0f})" for kind, title in kinds.items()}
        lines.append({"gold items": gold, "chosen": way} | cells)
    return markdown(pd.DataFrame(lines).sort_values(["gold items", "chosen"]))


def load(name):
    """The results of a file."""
    return json.loads((RESULTS / f"{name}.json").read_text())["results"]


def mean(row, name, digits, scale=1):
    """The mean of a column, as text; empty where there is none."""
    value = row.get(name)
    return "" if value is None or value["mean"] is None else f"{scale * value['mean']:.{digits}f}"


def by_crowd(crowds):
    """The rows of every crowd, by method."""
    return {data: {row["method"]: row for row in crowds if row["data"] == data} for data in CROWDS}


# --- crowds ---


def crowds_table(crowds):
    """Every method on every real crowd."""
    rows = [
        {
            "crowd": CROWDS[data],
            "method": f"**{method}**" if method == "auto" else method,
            "seeds": found[method]["seeds"],
            "accuracy": mean(found[method], "test_accuracy", 1, 100),
            "AUC": mean(found[method], "auc", 3),
            "consensus": mean(found[method], "consensus", 1, 100),
            "stated": mean(found[method], "stated", 1, 100),
            "Spearman of annotators": mean(found[method], "spearman", 3),
            "seconds": mean(found[method], "seconds", 1),
        }
        for data, found in by_crowd(crowds).items()
        for method in METHODS
        if method in found
    ]
    return markdown(pd.DataFrame(rows))


def made_up_table(crowds):
    """The default and the best of its peers on crowds made by a formula."""
    rows = []
    for data in sorted({row["data"] for row in crowds} - {*CROWDS, "large_1"}):
        found = {row["method"]: row for row in crowds if row["data"] == data}
        row = {"crowd": data, "seeds": found["auto"]["seeds"]}
        for title, name, digits, scale in (
            ("accuracy", "test_accuracy", 1, 100),
            ("AUC", "auc", 3, 1),
            ("consensus", "consensus", 1, 100),
        ):
            row[f"{title}: auto"] = mean(found["auto"], name, digits, scale)
            peers = {other: found[other][name]["mean"] for other in METHODS[1:] if other in found}
            best = max((value, other) for other, value in peers.items() if value is not None)[1]
            row[f"{title}: best peer"] = f"{mean(found[best], name, digits, scale)} {best}"
        row["seconds: auto"] = mean(found["auto"], "seconds", 1)
        row["filter_retrain"] = mean(found["filter_retrain"], "seconds", 1)
        rows.append(row)
    return markdown(pd.DataFrame(rows))


def compared_crowds(crowds):
    """Consensus of items and AUC of wrong answers on the real crowds; the best of each row in bold."""
    rows = []
    for data, found in by_crowd(crowds).items():
        for title, name, digits, scale in (
            ("consensus right, %", "consensus", 1, 100),
            ("AUC of wrong answers", "auc", 3, 1),
        ):
            cells = {title: mean(found[peer], name, digits, scale) for peer, title in PEERS.items() if peer in found}
            rows.append({"crowd": CROWDS[data], "": title} | bold_best(cells))
    return markdown(pd.DataFrame(rows).fillna(""))


def accuracy_table(crowds):
    """Accuracy of the classifiers on clean test inputs; the best of each crowd in bold."""
    peers = {"auto": "pidual", "ce": "cross-entropy"} | PEERS
    rows = [
        {"crowd": CROWDS[data]}
        | bold_best(
            {title: mean(found[peer], "test_accuracy", 1, 100) for peer, title in peers.items() if peer in found}
        )
        for data, found in by_crowd(crowds).items()
    ]
    return markdown(pd.DataFrame(rows)[["crowd", *peers.values()]].fillna(""))


def bold_best(cells):
    """The same cells with the largest in bold."""
    best = max(float(cell) for cell in cells.values() if cell)
    return {title: f"**{cell}**" if cell and float(cell) == best else cell for title, cell in cells.items()}


# --- lists of wrong labels ---


def rows_of(table):
    """The rows of a table in Markdown."""
    head, _, *lines = table.splitlines()
    return [dict(zip(cells(head), cells(line), strict=True)) for line in lines]


def cells(line):
    """The cells of a line of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def judge_table(results, counts):
    """Labels found by stored probabilities: ours, and the best of cleanlab's scores and filters."""
    sets = {"cifar-10n-aggregate": "CIFAR-10N aggregate", "cifar-10n-worst": "CIFAR-10N worst"}
    sets["roman-numeral"] = "Roman numerals"
    found = {data: {row["by"]: row for row in results if row["data"] == data} for data in sets}
    truth = {row["set"]: row["wrong"] for row in rows_of(counts)}
    ours = {data: found[data]["find_label_issues"] for data in sets}
    lines = {
        "labels that are wrong": {data: truth[f"{title} (given p)"] for data, title in sets.items()},
        "estimate, `find_label_issues`": {data: f"{row['noise_rate']:.1%}" for data, row in ours.items()},
        "AUC, `find_label_issues`": {data: f"{row['auc']:.3f}" for data, row in ours.items()},
        "AUC, cleanlab's best score of five": {data: f"{best(found[data], 'auc'):.3f}" for data in sets},
        "F1, `find_label_issues`": {data: f"{row['f1']:.3f} ({row['best_f1']:.3f})" for data, row in ours.items()},
        "F1, cleanlab's default filter": {
            data: f"{found[data]['cleanlab, prune_by_noise_rate']['f1']:.3f}" for data in sets
        },
        "F1, cleanlab's best filter of seven": {data: f"{best(found[data], 'f1'):.3f}" for data in sets},
    }
    return markdown(
        pd.DataFrame([{"": name} | {sets[data]: row[data] for data in sets} for name, row in lines.items()])
    )


def best(rows, name):
    """The best that cleanlab has."""
    return max(row.get(name, 0) for by, row in rows.items() if by.startswith("cleanlab"))


def judges_table(results):
    """Texts that language models have labelled: the vote, and fits with different options."""
    titles = {
        ("llm_answers", "vote"): "majority vote",
        ("llm_answers", "auto"): "`--no-x --pi model`",
        ("llm_text", "auto"): "`--x-text text --pi model`",
        ("llm_text_length", "auto"): "`--x-text text --pi model,length`",
    }
    columns = {
        "consensus right": ("consensus_accuracy", ".1%"),
        "AUC of wrong answers": ("detection_auc", ".3f"),
        "precision of the list": ("issue_precision", ".1%"),
        "recall of the list": ("issue_recall", ".1%"),
    }
    found = {(row["dataset"], row["method"]): row for row in results}
    rows = [
        {"": title} | {name: shown(found[key][f"{value}_mean"], form) for name, (value, form) in columns.items()}
        for key, title in titles.items()
    ]
    return markdown(pd.DataFrame(rows))


def panels_table(rows):
    """How far what a run states of a panel is from what is true, without gold and with."""
    titles = {"accuracy": "consensus right", "noise": "wrong verdicts", "passing": "answers that pass"}
    lines = []
    for name, title in titles.items():
        before, now, low, high, true = pd.DataFrame([row[name] for row in rows]).to_numpy().T
        off = abs(now - true)
        then = pd.Series([row["true_before"] for row in rows]).to_numpy() if name == "accuracy" else true
        lines.append(
            {
                "": title,
                "without gold, off by": f"{100 * abs(before - then).mean():.1f}",
                "with gold": f"{100 * off.mean():.1f}",
                "within 3 points": f"{(off <= 0.03).mean():.0%}",
                "mean of stated - true": f"{100 * (now - true).mean():+.1f}",
                "95% intervals hold": f"{((low <= true) & (true <= high)).mean():.0%}",
                "half their width": f"{50 * (high - low).mean():.1f}",
            }
        )
    return markdown(pd.DataFrame(lines))


def shown(value, form):
    """A number in a form; empty where there is none."""
    return "" if value is None else format(value, form)


# --- methods ---


def method_summary():
    """Every method with searched settings, by method and dataset."""
    table, _ = methods.summaries(read_rows(RESULTS / "methods.jsonl"))["methods"]
    return table.set_index(["method", "dataset"])


def over_seeds(row, name, digits=1, scale=100):
    """Mean and standard deviation."""
    return f"{scale * row[name]:.{digits}f} ± {scale * row[f'{name}_std']:.{digits}f}"


def method_results(crowds):
    """The table of results on the page of every method."""
    table = method_summary()
    made = {}
    for name in dict.fromkeys(table.index.get_level_values("method")):
        rows = [
            {
                "dataset": title,
                "accuracy": over_seeds(table.loc[(name, data)], "last_accuracy"),
                "AUC": f"{table.loc[(name, data), 'last_auc']:.3f}",
                "time / ce": f"{table.loc[(name, data), 'time_relative_to_ce']:.1f}",
            }
            for data, title in DATASETS.items()
        ]
        shown = pd.DataFrame(rows)
        pages = (DOCS / "methods").glob("*.md")
        (page,) = (path.name for path in pages if f"<!-- result {name} -->" in path.read_text())
        made.setdefault(f"methods/{page}", {})[f"result {name}"] = markdown(shown)
    found = by_crowd(crowds)
    rows = [
        {
            "crowd": title,
            "accuracy": mean(found[data]["auto"], "test_accuracy", 1, 100),
            "AUC": mean(found[data]["auto"], "auc", 3),
            "consensus right": mean(found[data]["auto"], "consensus", 1, 100),
            "by majority": mean(found[data]["vote"], "consensus", 1, 100),
        }
        for data, title in CROWDS.items()
    ]
    made["methods/latent_truth.md"] = {"result latent_truth": markdown(pd.DataFrame(rows))}
    return made


def overhead_table(results):
    """Time of our loop as a multiple of that of a loop written by hand."""
    rows = [
        {
            "what": row["what"].rstrip("."),
            "median": f"{row['ratio_median']:.2f}",
            "least to most": f"{row['ratio_min']:.2f} to {row['ratio_max']:.2f}",
        }
        for row in results.values()
        if "ratio_median" in row and "hand-written" in row["what"]
    ]
    return markdown(pd.DataFrame(rows))


def settings_table(results):
    """Accuracy with every choice of the default setting undone in turn."""
    table = 100 * pd.DataFrame(results).pivot_table("accuracy", "variant", "dataset")
    names = {"digits_pi high": "Digits-PI high", "digits_pi low": "Digits-PI low", "labelme valid": "LabelMe valid"}
    table = table.rename(columns=names, index={"ce": "cross-entropy"}).assign(mean=table.mean(axis=1).to_numpy())
    order = sorted(table.index, key=lambda name: (name != "default", name != "cross-entropy", name))
    cells = table.loc[order].map("{:.1f}".format)
    return markdown(cells.rename_axis(index="change", columns=None).reset_index())
