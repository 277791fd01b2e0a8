"""Results of promptfoo: `promptfoo eval -o results.json`, or `.jsonl`.

A judgement is the result of one assertion on one output; the output of a prompt and provider for a test is an item.
"""

import collections
import json
from collections.abc import Iterator

from .judgements import Row, as_label, judge, number, objects, part, read_objects, text
from .records import Json


def is_log(record: Json) -> bool:
    """Return whether a record looks like all results of promptfoo, or like one."""
    return ("testIdx" in record and "gradingResult" in record) or bool(objects(record, "results", "results"))


def read_promptfoo(path: str) -> list[Row]:
    """Read the judgements in results of promptfoo."""
    results = (each for record in read_objects(path) for each in objects(record, "results", "results") or [record])
    return [row for result in results for row in _judgements(result)]


def _judgements(result: Json) -> Iterator[Row]:
    output = part(result, "response", "output")
    about = {
        "item": f"test {result.get('testIdx')}, column {result.get('promptIdx')}",
        "model": text(result, "provider", "label") or text(result, "provider", "id"),
        "prompt": text(result, "prompt", "label"),
        "input": text(result, "prompt", "raw"),
        "output": output if output is None or isinstance(output, str) else json.dumps(output, ensure_ascii=False),
    }
    seen: collections.Counter[str] = collections.Counter()
    for found in objects(result, "gradingResult", "componentResults"):
        metric = text(found, "assertion", "metric") or text(found, "assertion", "type")
        if metric is None:  # a set of assertions, which follow
            continue
        grader = part(found, "assertion", "provider")
        name = judge(metric, text(grader, "label") or text(grader, "id") or text(grader))
        seen[name] += 1
        yield {
            **about,
            "annotator": name if seen[name] == 1 else f"{name} {seen[name]}",
            "label": None if part(found, "metadata", "graderError") else as_label(found.get("pass")),
            "metric": metric,
            "score": number(found, "score"),
            "tokens": number(found, "tokensUsed", "completion") or None,
            "explanation": text(found, "reason"),
        }
