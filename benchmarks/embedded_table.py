"""Pretrained features beside those of crowd_data.py: crowds, CIFAR-10N, and what embedding costs."""

import pandas as pd
from paper_table import markdown

FEATURES = {"": "made here", ":embedded": "pretrained"}
CELLS = {"accuracy": ("test_accuracy", 1, 100), "consensus": ("consensus", 1, 100), "AUC": ("auc", 3, 1)}
BY = {"auto": "pidual", "crowdlab": "CROWDLAB"}
METHODS = {"auto": "`auto`, the default", "pi_dual": "`pi_dual`"}


def tables(names, crowds, rows):
    """Tables by name: of crowds' `names` and summaries with both features, and of the rows of embedded.py."""
    parts = {name: [row for row in rows if row["part"] == name] for name in ("cifar10n", "speed", "memory")}
    return {
        "embedded crowds": crowds_table(names, crowds),
        "embedded cifar10n": cifar10n_table(parts["cifar10n"]),
        "embedded cost": cost_table(parts["speed"], parts["memory"]),
    }


def crowds_table(names, crowds):
    """Ours and CROWDLAB on the same features, a row for each crowd and kind of features."""
    found = {(row["data"], row["method"]): row for row in crowds}
    lines = []
    for data, name in names.items():
        for ending, features in FEATURES.items():
            made = {method: found.get((data + ending, method)) for method in BY}
            if (data + ":embedded", "auto") in found:
                seeds = " and ".join(str(row["seeds"] if row else 0) for row in made.values())
                cells = {BY[method]: scores(row) for method, row in made.items()}
                lines.append({"crowd": name, "features": features} | cells | {"seeds": seeds})
    return markdown(pd.DataFrame(lines))


def scores(row):
    """Accuracy / consensus / AUC."""
    return "" if row is None else " / ".join(f"{times * row[at]['mean']:.{n}f}" for at, n, times in CELLS.values())


def cifar10n_table(rows):
    """Accuracy on clean test images, AUC of wrong labels, minutes."""
    lines = [
        {
            "method": METHODS[row["method"]],
            "accuracy (%)": f"{100 * row['last']['accuracy']:.1f}",
            "AUC of wrong labels": f"{row['last']['auc']:.3f}",
            "minutes of one core": f"{row['processor_minutes']:.1f}",
        }
        for row in rows
    ]
    return markdown(pd.DataFrame(lines))


def cost_table(speed, memory):
    """Items per second of one core beside the bare library, peak memory on the way, and what a kill leaves."""
    lines = []
    for ours, bare in ((row, other) for row in speed for other in speed if row["way"] == "embed" != other["way"]):
        if ours["kind"] == bare["kind"]:
            rates = (f"{row['n'] / row['processor']:.0f}" for row in (ours, bare))
            cells = dict(zip(("pidual, items per second", "bare library"), rates, strict=True))
            cells["ratio of processor time"] = f"{ours['ratio']:.3f}"
            for row in (row for row in memory if row["kind"] == ours["kind"]):
                at = ", ".join(f"{int(n):,}" for n in row["peak_mb"])
                cells[f"peak MB after {at}"] = ", ".join(f"{peak:,}" for peak in row["peak_mb"].values())
                cells |= {"killed after": f"{row['reported']:,}", "kept": f"{row['kept']:,}"}
            lines.append({f"{ours['n']:,}": ours["kind"]} | cells)
    return markdown(pd.DataFrame(lines).fillna(""))
