"""Judgements by language models, as logs of evaluations have them: what the readers of such logs share.

A reader is a function from a path to rows. A row is a judgement: item, annotator (who judged), label, metric (what was
asked), what the log says about how the judgement came to be (`PI`), and the texts input, output and explanation. A
judgement that failed has no label.
"""

import gzip
import json
import math
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc

from ...errors import DataError, DataWarning, UsageError
from ...errors.messages import first_line, listed, quoted
from ..sources.base import BLOCK, Guess, Source
from ..sources.in_arrow import InArrow
from .records import Json, as_columns

PI = ("annotator", "seconds", "tokens", "length", "epoch", "model", "prompt", "margin")
Row = dict[str, Any]
_MARKS = ('"eval"', '"evalId"', '"testCases"', '"testRunData"', '"test_results"')  # one is in any log of one object


def as_table(name: str, rows: list[Row], tool: str, metric: str | None) -> Source:
    """Return the judgements of one metric, or of all, with a guess at the privileged information and the text."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows if row["label"] is not None))
    if not metrics:
        raise DataError(f"{name} holds no judgements of {tool}; give the log of an evaluation that was scored.")
    if metric in metrics:
        rows = [row for row in rows if row["metric"] == metric]
    elif metric not in (None, "label"):
        raise UsageError(f"{name} has no judgements of {quoted(metric)}; it has those of {listed(metrics, 10)}.")
    elif len(metrics) > 1:
        warnings.warn(
            f"{name}: judgements of several metrics ({listed(metrics, 10)}) count as answers to one question; if they "
            "answer different ones, choose one with label= (--label).",
            DataWarning,
            stacklevel=4,
        )
    rows = [{**row, "length": None if row["output"] is None else len(row["output"])} for row in rows]
    data = as_columns(name, rows).flat()
    source = InArrow(name, data, lambda row: f"{name}, judgement {row + 1} (of item {quoted(rows[row]['item'])})")
    source.aliases = {metric: "label"} if metric else {}
    pi = [column for column in PI if column in data and pc.count_distinct(data[column]).as_py() > 1]
    source.guess = Guess(pi, next((column for column in ("output", "input") if column in data), None))
    return source


def read_objects(path: str) -> Iterator[Json]:
    """Yield the object that a file is, or those that stand one after the other."""
    return _objects(_text(path), path)


def first_object(path: str) -> Json:
    """Return the object that a file begins with; an empty one where there is none, or none that can be a log."""
    begin = _text(path, BLOCK)
    try:
        return next(_objects(begin, path), {})
    except DataError:  # also of an object that is longer
        return next(read_objects(path), {}) if any(mark in begin for mark in _MARKS) else {}


def _text(path: str, most: int = -1) -> str:
    opened = gzip.open if path.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", errors="replace") as stream:
        return str(stream.read(most))


def _objects(text: str, path: str) -> Iterator[Json]:
    decode, signs, place = json.JSONDecoder().raw_decode, re.compile(r"\S"), 0
    while (begin := signs.search(text, place)) and begin[0] == "{":
        try:
            value, place = decode(text, begin.start())
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is not JSON ({first_line(error)}); check that it is whole.") from None
        yield value


def as_label(value: Any) -> str | None:
    """Return a score as the name of a class; None where there is none, or where it is a list or an object."""
    if isinstance(value, bool):
        return "pass" if value else "fail"
    if isinstance(value, float):
        return None if math.isnan(value) else f"{value:g}"
    return str(value) if isinstance(value, str | int) else None


def judge(metric: str, model: str | None) -> str:
    """Return what a judge is called: what it was asked, and the model that answered, where it is known."""
    return f"{metric} ({model})" if model else metric


def part(record: Any, *path: str) -> Any:
    """Return what stands at a place within objects in each other; None where there is nothing."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record


def text(record: Any, *path: str) -> str | None:
    """Return the text at a place; None where there is none."""
    found = part(record, *path)
    return found if isinstance(found, str) else None


def number(record: Any, *path: str) -> float | None:
    """Return the number at a place; None where there is none."""
    found = part(record, *path)
    return found if isinstance(found, int | float) else None


def objects(record: Any, *path: str) -> list[Json]:
    """Return the objects in the list at a place."""
    found = part(record, *path)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
