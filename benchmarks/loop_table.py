"""The tables of docs/loop.md, from the rows of benchmarks/simulate_review.py."""

import pandas as pd
from paper_table import markdown

DATA = {"labelme": "LabelMe", "cifar10s": "CIFAR-10S", "cifar100_sm500": "CIFAR-100 SM500"}
SHOWN = (100, 500, 1000)  # labels looked at: columns on the page
NAMES = {"ours": "ours", "cleanlab": "cleanlab", "crowdlab": "CROWDLAB", "activelab": "ActiveLab", "random": "random"}


def order_table(rows, shown=None):
    """Wrong labels among the first so many looked at, for all such numbers or for those in `shown`."""
    lines = []
    for row in rows:
        if row["part"] == "order":
            ahead = "" if row["order"] == "ours" else behind(row)
            found = {
                f"{n:,}": f"{value:.0f}"
                for n, value in zip(row["looked_at"], row["found"], strict=True)
                if shown is None or n in shown
            }
            lines.append({"set": DATA[row["data"]], "order": NAMES[row["order"]], **found, "ours is behind": ahead})
    return markdown(pd.DataFrame(lines))


def behind(row):
    """Where our order has found fewer, at most."""
    if row["least_ahead"] >= 0:
        return "nowhere"
    return f"by at most {-row['least_ahead']} (at {row['least_ahead_at']:,})"


def retrain_table(rows, only=None):
    """Accuracy with decisions and without, for every number of decisions or for `only` this one."""
    lines = []
    for row in rows:
        if row["part"] != "retrain":
            continue
        for at, n in enumerate(row["step"]):
            if only not in (None, n):
                continue
            lines.append(
                {
                    "set": DATA[row["data"]],
                    "labels looked at": n,
                    "fitted again with": row["order"],
                    **{title: f"{100 * row[name][at]:.1f}" for name, title in ACCURACIES.items()},
                    "seeds": row["seeds"],
                }
            )
    lines.sort(key=lambda line: (list(DATA.values()).index(line["set"]), line["labels looked at"]))
    return markdown(pd.DataFrame(lines))


ACCURACIES = {"consensus": "consensus", "others": "consensus of items nobody looked at", "test": "test inputs"}


def ask_table(rows):
    """Accuracy of the consensus against answers asked for."""
    asked = {row["order"]: row for row in rows if row["part"] == "ask"}
    lines = {}
    for order, row in asked.items():
        for n, value in zip(row["answers"], row["consensus"], strict=True):
            lines.setdefault(int(n - row["answers"][0]), {})[order] = f"{100 * value:.1f}"
    made = [{"answers asked for": n, **{order: cells.get(order, "") for order in asked}} for n, cells in lines.items()]
    return markdown(pd.DataFrame(sorted(made, key=lambda line: line["answers asked for"])))


def tables(rows):
    """Every table of the page by name."""
    return {
        "review retraining": retrain_table(rows, 400),
    }


def long_tables(rows):
    """Those of results/tables.md."""
    return {
        "every review order": order_table(rows),
        "every review retraining": retrain_table(rows),
        "review asking": ask_table(rows),
    }
