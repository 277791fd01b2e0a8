"""Samples of lm-evaluation-harness: `samples_*.jsonl`, written with `--log_samples`.

A judgement is the score of one metric, after one filter, for one document.
"""

from collections.abc import Iterator
from typing import Any

from .judgements import Row, as_label, judge, read_objects, text
from .records import Json


def is_log(record: Json) -> bool:
    """Return whether a record looks like a sample of lm-evaluation-harness."""
    return "doc_id" in record and "filtered_resps" in record


def read_lm_eval(path: str) -> list[Row]:
    """Read the judgements in samples of lm-evaluation-harness."""
    return [row for sample in read_objects(path) for row in _judgements(sample)]


def _judgements(sample: Json) -> Iterator[Row]:
    likelihoods = sorted(_likelihoods(sample.get("resps")))
    used = text(sample, "filter")
    metrics = sample.get("metrics")
    for metric in map(str, metrics) if isinstance(metrics, list) else ():
        yield {
            "item": str(sample.get("doc_id")),
            "annotator": judge(metric, None if used == "none" else used),
            "label": as_label(sample.get(metric)),
            "metric": metric,
            "margin": likelihoods[-1] - likelihoods[-2] if len(likelihoods) > 1 else None,
            "input": _first(sample.get("arguments")),
            "output": None if likelihoods else _first(sample.get("resps")),
        }


def _likelihoods(responses: Any) -> list[float]:
    """Return the log-likelihood of each choice, which stands beside whether it is the likeliest answer of all."""
    try:
        return [float(found) for ((found, _),) in responses]
    except (TypeError, ValueError):  # texts
        return []


def _first(value: Any) -> str | None:
    """Return the text that stands first in lists and objects within each other."""
    while isinstance(value, list | dict) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value if isinstance(value, str) else None
