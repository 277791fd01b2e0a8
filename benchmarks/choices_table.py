"""The tables of docs/settings.md on the choices of the closed form."""

from closed_form_choices import CHOICES, LARGE, MANY, RARE, SMALL, TEXTS, USUAL


def tables(rows):
    """For docs/settings.md: accuracy, AUC and consensus of every choice, a table for each set of groups."""
    made, titles = {}, {"usual": USUAL, "large": LARGE, "losses": SMALL, "texts": TEXTS, "rare": RARE, "many": MANY}
    rows = sorted({row["choice"]: row for row in rows}.values(), key=lambda row: [*CHOICES].index(row["choice"]))
    for title, groups in titles.items():
        mine = [row for row in rows if CHOICES[row["choice"]][0] is groups]
        lines = {row["choice"]: [cell(values) for values in row["groups"].values()] for row in mine}
        names = list(mine[0]["groups"]) if mine else []
        head = ["choice", *names], ["---"] * (len(names) + 1)
        made[f"choices {title}"] = "\n".join(
            f"| {' | '.join(line)} |" for line in (*head, *([name, *cells] for name, cells in lines.items()))
        )
    return made


def cell(values):
    """Accuracy, AUC, consensus, what it states minus that, error of the noise, seconds."""
    accuracy, auc, consensus, stated, noise, seconds = values
    return f"{accuracy:.1f} / {auc:.3f} / {consensus:.1f} / {stated:+.1f} / {noise:.1f} / {seconds:.1f}"
