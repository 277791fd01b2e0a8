"""The tables of docs/detection.md, from the rows of benchmarks/detection.py."""

import pandas as pd
from detection_scores import summarise
from detection_sets import DRAWS, STORED, TITLES
from paper_table import markdown

PEERS = ("cleanlab", "crowdlab")
ALIKE = 0.0005  # numbers that are equal to three digits
NEAR, LEAST, POINTS = 0.95, 0.85, 0.03  # goals: share of the best F1, on most sets and on all; noise rate


def tables(rows):
    """Every table of the page by name."""
    lines = {(line["data"], line["method"]): line for line in summarise(rows)}
    sets = list(dict.fromkeys(data for data, _ in lines))
    made = {"detection": compared, "detection counts": counted, "detection methods": by_name}
    shown = {name: [row for each in sets if (row := make(each, lines))] for name, make in made.items()}
    return {name: markdown(pd.DataFrame(found).fillna("")) for name, found in shown.items()} | {
        "detection goals": "\n".join(f"- {sentence}" for sentence in goals(rows, sets, lines))
    }


def title(name, lines=None):
    """What a set is called, with its number of draws where there are several."""
    seeds = lines[name, "auto"]["seeds"] if lines else 1
    return TITLES.get(name, f"`{name}`") + (f", {seeds} draws" if seeds > 1 else "")


def compared(name, lines):
    """Ours and cleanlab on a set: ranking, list, time."""
    auto, peer, crowd = (lines.get((name, method)) for method in ("auto", "cleanlab", "crowdlab"))
    return {
        "set": title(name, lines),
        "AUC: auto": number(auto, "auc"),
        "cleanlab": number(peer, "auc"),
        "CROWDLAB": number(crowd, "auc"),
        "AP: auto": number(auto, "ap"),
        "AP: cleanlab": number(peer, "ap"),
        "F1: auto": number(auto, "f1"),
        "of its best": number(auto, "share", 2),
        "F1: cleanlab": number(peer, "f1"),
        "of cleanlab's best": number(peer, "share", 2),
        "F1: best filter": number(peer, "filter_f1"),
        "seconds: auto": number(auto, "seconds", 1),
        "seconds: cleanlab": number(peer, "seconds", 1),
    }


def counted(name, lines):
    """How many labels are wrong, as auto and cleanlab say, and how good a list auto expects to have."""
    auto, peer = lines[name, "auto"], lines.get((name, "cleanlab"))
    return {
        "set": title(name, lines),
        "wrong": f"{100 * auto['noise']:.1f}%",
        "auto is off by": points(auto, "noise_error"),
        "interval contains the truth": yes_or_no(auto["covered"]),
        "cleanlab is off by": points(peer, "noise_error"),
        "precision": number(auto, "precision"),
        "recall": number(auto, "recall"),
        "expected precision is off by": points(auto, "gap"),
        "its interval contains the truth": yes_or_no(auto.get("gap_covered")),
        "among as many as are wrong": points(auto, "gap_n"),
        "verdict": verdicts(auto),
        "planted annotators on top": auto.get("on_top", ""),
    }


def by_name(name, lines):
    """The methods that judge one label at a time, where they were asked; else nothing."""
    found = {method: lines[name, method] for method in ("pi_dual", "ce") if (name, method) in lines}
    row = {"set": title(name, lines)}
    for method, line in found.items():
        row |= {f"AUC: {method}": number(line, "auc"), f"F1: {method}": number(line, "f1")}
        row |= {f"of the best: {method}": number(line, "share", 2), f"{method} is off by": points(line, "noise_error")}
        row |= {f"verdict: {method}": verdicts(line)}
    return row if found else None


def goals(rows, sets, lines):
    """What was aimed at, and on how many sets it is met."""
    auto = [lines[name, "auto"] for name in sets]
    both = [(line, lines[line["data"], "cleanlab"]) for line in auto if (line["data"], "cleanlab") in lines]
    best = {}
    for (name, tool), line in lines.items():
        if tool in PEERS:
            best[name] = max(line["auc"], best.get(name, 0.0))
    behind = [ours["data"] for ours, _ in both if ours["auc"] < best[ours["data"]] - ALIKE]
    yield met("AUC at or above that of cleanlab's best score, including CROWDLAB's", len(both), behind)
    behind = [ours["data"] for ours, peer in both if ours["f1"] < peer["f1"] - ALIKE]
    yield met("F1 of the automatic list at or above that of cleanlab's default filter", len(both), behind)
    yield met(
        f"F1 of the automatic list at least {NEAR} of the best of any cut",
        len(auto),
        [line["data"] for line in auto if line["share"] < NEAR],
    )
    yield met(f"At least {LEAST} of it", len(auto), [line["data"] for line in auto if line["share"] < LEAST])
    known = [line for line in auto if line["noise_error"] is not None]
    off = [line["data"] for line in known if abs(line["noise_error"]) > POINTS]
    yield met(f"Noise rate within {100 * POINTS:.0f} points", len(known), off)
    for what, column in {"noise rate": "covered", "expected precision": "gap_covered"}.items():
        covered = [row[column] for row in rows if row["method"] == "auto" and row.get(column) is not None]
        if covered:
            share = f"{sum(covered)} of {len(covered)} fits"
            yield f"The interval of the {what} contains the truth in {share}; 90% were intended."
    drawn = [row["recall"] for row in rows if row["data"] in DRAWS and row["method"] == "auto"]
    if drawn:
        yield f"`idle_pi`: the list finds {min(drawn):.0%} of the mistakes or more in {len(drawn)} draws."
    trained = [(ours, peer) for ours, peer in both if ours["data"] not in STORED]
    if trained:
        ratio = sum(ours["seconds"] for ours, _ in trained) / sum(peer["seconds"] for _, peer in trained)
        yield f"Processor time: {ratio:.2f} of that of 5-fold cross-validation, on {len(trained)} sets with training."


def met(what, n, exceptions):
    """A sentence on how many sets do what they should, and which do not."""
    but = f"; not {', '.join(map(title, exceptions))}" if exceptions else ""
    return f"{what}: {n - len(exceptions)} of {n} sets{but}."


def yes_or_no(share):
    """Whether intervals have the truth; the share of them where that differs between fits."""
    return "" if share is None else {0.0: "no", 1.0: "yes"}.get(share, f"{share:.0%}")


def verdicts(line):
    """Verdicts other than ok; how many where there are several fits."""
    counts = {each: line["verdicts"].count(each) for each in dict.fromkeys(line["verdicts"])}
    return ", ".join(f"{n} {each}" if line["seeds"] > 1 else each for each, n in counts.items())


def number(line, key, digits=3):
    """A cell; empty where there is nothing."""
    return "" if line is None or line.get(key) is None else f"{line[key]:.{digits}f}"


def points(line, key):
    """A difference in percentage points, with its sign."""
    return "" if line is None or line.get(key) is None else f"{100 * line[key]:+.1f}"
