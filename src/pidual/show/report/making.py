"""How the result was made: privileged information, training, the choice among settings, and all settings."""

import math
from collections.abc import Iterator
from typing import Any

from ...detect.sentences import count
from ...run.files import RunFiles
from ...run.records.config import Config, PIDescription
from ...run.records.summary import PIEffect
from . import figures
from .words import Context, number, score

MAX_SETTINGS = 60
MAX_EFFECTS = 50
MAX_DRAWN = 1e100  # beyond this a curve has a gap, as no axis can hold it


def pi_effects(effects: list[PIEffect]) -> list[PIEffect]:
    """Return what PI says about answers, the strongest effect first; those that may be chance last."""
    return sorted(effects, key=lambda effect: (not effect.tells, -abs(effect.difference)))[:MAX_EFFECTS]


def curves(run: RunFiles) -> list[Context]:
    """Loss, validation accuracy and mean gate over epochs, counted from 1, where a network was trained."""
    if not run.trains:
        return []
    selected = run.summary.selected_epoch + 1
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


def settings(config: Config) -> list[tuple[str, list[tuple[str, str]]]]:
    """Everything the run was made with, in groups of name and value."""
    data = config.data.to_json().items()
    groups: dict[str, Context] = {
        "Run": {key: getattr(config, key) for key in ("pidual", "created", "method", "setting", "seed")},
        "Data": {key.replace("_", " "): value for key, value in data if key != "pi"},
        "Privileged information": {pi.name: _describe_pi(pi) for pi in config.data.pi},
        "Method": config.method_options,
        "Training": config.training,
        "Network": config.network.to_json(),
        "Versions": config.versions,
        "Hardware": config.hardware.to_json(),
    }
    return [(name, list(_flat(values))[:MAX_SETTINGS]) for name, values in groups.items() if values]


def _describe_pi(pi: PIDescription) -> str:
    parts = ["moment" if pi.first is not None else pi.kind]
    if pi.n_categories is not None:
        parts.append(f"{count(pi.n_categories)} values")
    if pi.first is not None:
        parts.append(f"from {pi.first} to {pi.last}")
    if pi.median is not None:
        parts.append(f"median {score(pi.median)}")
    if pi.mean is not None:
        parts.append(f"mean {score(pi.mean)}, standard deviation {score(pi.std)}")
    if pi.n_missing:
        parts.append(f"{count(pi.n_missing)} missing")
    return ", ".join(part for part in parts if part)


def _flat(values: Context, prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key} ")
        elif value is not None:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            yield f"{prefix}{key}", text
