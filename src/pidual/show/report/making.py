"""How the result was made: privileged information, training, the choice among settings, and all settings."""

import math
from collections.abc import Iterator
from typing import Any

from ...detect.sentences import count
from ...run.files import RunFiles
from . import figures
from .words import Context, clean, number, records, score, section, setting

MAX_SETTINGS = 60
MAX_EFFECTS = 50
MAX_DRAWN = 1e100  # beyond this a curve has a gap, as no axis can hold it


def pi_health(summary: Context) -> list[Context]:
    """Columns of privileged information that something is wrong with, as found before training."""
    found = records(summary.get("pi_health"))
    return [
        {
            "column": clean(str(entry.get("column"))),
            "problem": clean(str(entry.get("problem", ""))),
            "text": clean(str(entry.get("text", ""))),
        }
        for entry in found[:MAX_EFFECTS]
    ]


def pi_effects(summary: Context) -> list[Context]:
    """What PI says about answers, the strongest effect first; those that may be chance last."""
    shown = [
        {
            "column": clean(record["column"]),
            "low": setting(record["low"]),
            "high": setting(record["high"]),
            "right_at_low": number(record["right_at_low"]) or 0.0,
            "right_at_high": number(record["right_at_high"]) or 0.0,
            "difference": _difference(record),
            "interval": _interval(record),
            "tells": record.get("tells"),
        }
        for record in records(summary.get("pi_effects"))
    ]
    ordered = sorted(shown, key=lambda row: (row["tells"] is False, -abs(row["difference"])))
    return ordered[:MAX_EFFECTS]


def _difference(record: Context) -> float:
    difference = number(record.get("difference"))
    if difference is not None:
        return difference
    return (number(record["right_at_high"]) or 0.0) - (number(record["right_at_low"]) or 0.0)


def _interval(record: Context) -> str:
    low, high = number(record.get("difference_low")), number(record.get("difference_high"))
    return "" if low is None or high is None else f"{100 * low:+.1f} to {100 * high:+.1f} points"


def curves(run: RunFiles) -> list[Context]:
    """Loss, validation accuracy and mean gate over epochs, counted from 1, where a network was trained."""
    if not run.trains:
        return []
    selected = run.summary["selected_epoch"] + 1
    found = []
    for key, title in (("loss", "Training loss"), ("valid_accuracy", "Validation agreement"), ("gate", "Mean gate")):
        attempts: dict[Any, list[tuple[int, float]]] = {}
        for epoch in run.history:
            value = number(epoch.get(key))
            if isinstance(epoch.get(key), (int, float)):
                line = (str(epoch.get("stage", "")).startswith("first stage"), epoch.get("attempt", 0))
                drawn = value if value is not None and abs(value) < MAX_DRAWN else math.nan
                attempts.setdefault(line, []).append((int(epoch["epoch"]) + 1, drawn))
        if not any(math.isfinite(value) for points in attempts.values() for _, value in points):
            continue
        last = list(attempts.values())[-1]
        label = f"{title} over {len(last)} epochs, from {last[0][1]:.3g} to {last[-1][1]:.3g}."
        found.append(
            {"svg": figures.curve_svg(f"curve-{key}", label, title, list(attempts.values()), selected=selected)}
        )
    return found


def made_by(run: RunFiles) -> str:
    """The command that made the run, or nothing where it was made in Python."""
    return str(section(run.config, "source").get("command") or "")


def settings(config: Context) -> list[tuple[str, list[tuple[str, str]]]]:
    """Everything the run was made with, in groups of name and value."""
    data = section(config, "data")
    groups = {
        "Run": {key: config.get(key) for key in ("pidual", "created", "method", "setting", "seed")},
        "Data": {key.replace("_", " "): value for key, value in data.items() if key != "pi"},
        "Privileged information": {str(pi.get("name")): _describe_pi(pi) for pi in records(data.get("pi"))},
        "Method": config.get("method_options") or {},
        "Training": config.get("training") or {},
        "Network": config.get("network") or {},
        "Versions": config.get("versions") or {},
        "Hardware": config.get("hardware") or {},
    }
    return [(name, list(_flat(values))[:MAX_SETTINGS]) for name, values in groups.items() if values]


def _describe_pi(pi: Context) -> str:
    parts = ["moment" if "first" in pi else str(pi.get("kind", ""))]
    if "n_categories" in pi:
        parts.append(f"{count(pi['n_categories'])} values")
    if "first" in pi and "last" in pi:
        parts.append(f"from {pi['first']} to {pi['last']}")
    if "median" in pi:
        parts.append(f"median {score(number(pi['median']))}")
    if "mean" in pi and "std" in pi:
        parts.append(f"mean {score(number(pi['mean']))}, standard deviation {score(number(pi['std']))}")
    if pi.get("n_missing"):
        parts.append(f"{count(pi['n_missing'])} missing")
    return ", ".join(part for part in parts if part)


def _flat(values: Context, prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key} ")
        elif value is not None:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield clean(f"{prefix}{key}"), clean(text)
