"""Tasks for Label Studio: every item with the consensus as a prediction, doubtful ones first.

They are imported as they are. Nobody's id is in them: answers are given as labels, not as annotations.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..data import keys
from ..data.people import names_people
from ..data.roles import Roles
from ..data.sources import Source
from ..data.sources.in_arrow import Long
from ..files import replacing
from ..run.files import RunFiles


def write_tasks(run: RunFiles, source: Source, roles: Roles, out: Path, *, only: Sequence[str] | None = None) -> None:
    """Write a task for each item of a run.

    Parameters
    ----------
    run : RunFiles
        A finished run.
    source, roles : Source, Roles
        Its table.
    out : Path
        The JSON file.
    only : sequence of str, optional
        The items to write, in this order, instead of all.
    """
    rows = run.predictions.frame[["row", "item", "given_label", "label_quality"]].sort_values("row")
    each = rows.groupby(rows["item"].astype(str), sort=False)
    about = each.agg(row=("row", "first"), quality=("label_quality", "min"))
    about["given"] = each["given_label"].agg(lambda labels: ", ".join(map(str, labels)))
    items = run.items.set_index(run.items["item"].astype(str))
    about = about.join(items[["consensus_label", "consensus_quality"]]).sort_values("quality", kind="stable")
    if only is not None:
        about = about.loc[list(only)]
    fields = _fields(source, roles, about["row"].to_numpy())
    control, shown = _names(source, list(fields))
    version = f"pidual {run.config['method']} {run.summary.get('run_id', '')}".strip()
    with replacing(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, (item, task) in enumerate(zip(about.index, about.to_dict("records"), strict=True)):
            data = {name: values[number] for name, values in fields.items()}
            data |= {
                "pidual_item": item,
                "label_quality": round(float(task["quality"]), 4),
                "given_labels": task["given"],
            }
            result: dict[str, Any] = {"id": "consensus", "from_name": control, "to_name": shown, "type": "choices"}
            result["value"] = {"choices": [str(task["consensus_label"])]}
            score = round(float(task["consensus_quality"]), 4)
            prediction = {"model_version": version, "score": score, "result": [result]}
            file.write(",\n " if number else "\n ")
            json.dump({"data": data, "predictions": [prediction]}, file, ensure_ascii=False, allow_nan=False)
        file.write("\n]\n")


def _fields(source: Source, roles: Roles, rows: Any) -> dict[str, list[Any]]:
    """What is known about the items: columns that are the same in all rows of an item, without people.

    Parameters
    ----------
    rows : array of int
        A row of every item.
    """
    if isinstance(source, Long):
        named = {name: called for name, called in source.fields.items() if not names_people(called)}
    else:
        named = {name: name for name in source.columns if name not in roles[:5] and not names_people(name)}
    item = keys(source, roles.item, source.read([roles.item])[roles.item]).codes if roles.item else None
    first = np.unique(item, return_index=True)[1] if item is not None else None
    found = {}
    for name, called in named.items():
        column = source.read([name])[name]
        if item is not None and first is not None and not isinstance(source, Long):
            codes = keys(source, name, column).codes
            if (codes != codes[first[item]]).any():
                continue
        values = pd.Series(column.to_pandas()).astype(object).iloc[rows]
        found[called] = [_plain(value) for value in values]
    return found


def _plain(value: Any) -> Any:
    """A value as JSON has it; what is missing, or no number, is null."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value is pd.NaT or (isinstance(value, float) and not np.isfinite(value)):
        return None
    return value if isinstance(value, str | int | float | bool) else str(value)


def _names(source: Source, fields: list[str]) -> tuple[str, str]:
    """The control that the labels belong to, and what it is about."""
    control = next((name for name, column in source.aliases.items() if column == "label"), "label")
    guess = source.guess
    shown = next((name for name in (guess and guess.text, guess and guess.image, *fields) if name), "text")
    return control, shown.removeprefix("data_")
