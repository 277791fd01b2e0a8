"""Pi-DUAL on real human labels: CIFAR-10N and CIFAR-100N at CPU scale, a row per method and control."""

import pandas as pd
from paper_table import markdown

from pidual.paper.published import paper_number
from pidual.paper.recipes import load_recipe
from pidual.paper.summary import show, summarise

NAMES = {"cifar10n:worst": "CIFAR-10N", "cifar100n:fine": "CIFAR-100N"}
MAIN, SEEDS = load_recipe("cifar10n", "cpu").main, load_recipe("cifar10n", "cpu").seeds
ACCURACIES = ("selected_accuracy", "last_accuracy")
NONE = "No fit of this set is kept yet; the command above makes them."
ENDS = ("f_wrong", "f_correct", "gate")  # after the last epoch, of the watched rows


def tables(fits, controls):
    """Return the tables by name: `human NAME` for each dataset, that of the controls, and how they were made."""
    fits = [fit for fit in fits if fit["scale"] == "cpu" and fit["dataset"] in NAMES and not fit["variant"]]
    by_set = {name: [fit for fit in fits if fit["dataset"] == name] for name in NAMES}
    made = {f"human {name}": markdown(_rows(own)) if own else NONE for name, own in by_set.items()}
    made["human controls"] = _side_by_side(controls)
    made["human about"] = f"{_about(fits)}. Controls: {_about(controls)}"
    made["human gain"] = "\n".join(f"- {_gain(name, own)}" for name, own in by_set.items())
    return made


def readme(fits):
    """Return the table of README.md."""
    return _side_by_side([fit for fit in fits if fit["scale"] == "cpu" and not fit["variant"]])


def _about(fits):
    """Return how fits were made, in words."""
    about = {key: sorted({fit["about"][key] for fit in fits}) for key in ("date", "commit", "hardware", "torch")}
    words = ", ".join(f"{key} {' and '.join(values)}" for key, values in about.items())
    hours = sum(fit["seconds"] for fit in fits) / 3600
    return f"{len(fits)} fits, {hours:.1f} hours on a share of one core beside other work; {words}"


def _side_by_side(fits):
    """Return a row for each method and control, with a group of columns for each dataset."""
    groups = []
    for name in (name for name in NAMES if any(fit["dataset"] == name for fit in fits)):
        rows = _rows([fit for fit in fits if fit["dataset"] == name]).set_index("method")
        mean = {column: [text.partition(" ±")[0] for text in rows[column]] for column in rows}
        both = zip(mean["accuracy, selected"], mean["accuracy, last"], strict=True)
        values = {
            "accuracy": [" / ".join(pair) for pair in both],
            "AUC": mean["AUC, last"],
            "memorised": mean["wrong labels memorised"],
        }
        group = pd.DataFrame(values, index=rows.index)
        groups.append(group.rename(columns={"accuracy": f"{NAMES[name]}: accuracy"}))
    return markdown(pd.concat(groups, axis=1).fillna("").reset_index())


def _gain(name, fits):
    """Return in words what Pi-DUAL has over cross-entropy, and which fits are still missing."""
    fits = [fit for fit in fits if not fit["variant"]]
    ran = {method: sum(fit["method"] == method for fit in fits) for method in MAIN}
    missing = ", ".join(f"{SEEDS - n} of {method}" for method, n in ran.items() if n < SEEDS)
    rest = f" Fits that have not run yet, of {SEEDS} seeds each: {missing}." if missing else ""
    if not (ran["ce"] and ran["pi_dual"]):
        return f"**{NAMES[name]}**: not compared yet.{rest}"
    rows = summarise(fits).set_index("method")
    ours = [rows.loc["pi_dual", value] - rows.loc["ce", value] for value in ACCURACIES]
    numbers = {m: [paper_number(name.split(":")[0], m, value)[0] for value in ACCURACIES] for m in ("ce", "pi_dual")}
    paper = [mine - plain for plain, mine in zip(*numbers.values(), strict=True)]
    wrong = pd.DataFrame([{"method": fit["method"], **fit["end"]} for fit in fits]).groupby("method")["f_wrong"].mean()
    auc = rows["last_auc"]
    return (
        f"**{NAMES[name]}** ({ran['ce']} seeds of cross-entropy, {ran['pi_dual']} of Pi-DUAL, each at its own best "
        f"rate): Pi-DUAL minus cross-entropy is {ours[0]:+.1f} points at the selected epoch and {ours[1]:+.1f} at the "
        f"last (the paper: {paper[0]:+.1f} and {paper[1]:+.1f}). After the last epoch cross-entropy gives "
        f"{wrong['ce']:.0%} of the wrong labels, Pi-DUAL's f {wrong['pi_dual']:.0%}; the AUC of wrong labels is "
        f"{auc['ce']:.3f} and {auc['pi_dual']:.3f}.{rest}"
    )


def _rows(fits):
    """Return what a dataset's fits gave as text: methods, then what was changed of them."""
    summary = summarise(fits)
    ends = [{**fit, **{name: fit["end"].get(name) for name in ENDS}, "lr": fit["settings"]["lr"]} for fit in fits]
    keys = ["method", "variant"]
    means = pd.DataFrame(ends).astype(dict.fromkeys(ENDS, float)).groupby(keys)[[*ENDS, "lr"]].mean()
    rows = summary.join(means, on=keys).sort_values("variant", key=lambda names: names != "", kind="stable")

    def cells(column):
        return [show(mean, std, column) for mean, std in zip(rows[column], rows[f"{column}_std"], strict=True)]

    def shares(column, how):
        return ["" if pd.isna(value) else format(value, how) for value in rows[column]]

    return pd.DataFrame(
        {
            "method": [", ".join(filter(None, pair)) for pair in zip(rows["method"], rows["variant"], strict=True)],
            "rate": shares("lr", "g"),
            "accuracy, selected": cells("selected_accuracy"),
            "accuracy, last": cells("last_accuracy"),
            "AUC, last": cells("last_auc"),
            "AUC of gate": cells("last_gate_auc"),
            "wrong labels memorised": shares("f_wrong", ".0%"),
            "right ones": shares("f_correct", ".0%"),
            "mean gate": shares("gate", ".2f"),
            "seeds": rows["seeds"].astype(str),
        }
    )
