"""Test runs of DeepEval, as it saves them, and the result of `evaluate` as JSON.

A judgement is whether a metric passed for a test case.
"""

from collections.abc import Iterator

from .judgements import Row, as_label, judge, number, objects, read_objects, text
from .records import Json

_CASES = ("testCases", "conversationalTestCases", "test_results")


def is_log(record: Json) -> bool:
    """Return whether a record looks like a test run of DeepEval, or the result of `evaluate`."""
    return bool(_cases(record))


def read_deepeval(path: str) -> list[Row]:
    """Read the judgements in a file of DeepEval."""
    cases = [case for record in read_objects(path) for case in _cases(record)]
    named = len({text(case, "name") for case in cases}) == len(cases)
    return [row for n, case in enumerate(cases, 1) for row in _judgements(case, "" if named else f", {n}")]


def _cases(record: Json) -> list[Json]:
    """Return the test cases, whose fields `evaluate` writes in small letters and files of test runs in camel case."""
    found = [case for key in _CASES for case in objects(record.get("testRunData", record), key)]
    return [case for case in found if "metricsData" in case or "metrics_data" in case]


def _judgements(case: Json, number_of_case: str) -> Iterator[Row]:
    for metric in objects(case, "metricsData") or objects(case, "metrics_data"):
        name = text(metric, "name") or "metric"
        yield {
            "item": f"{case.get('name')}{number_of_case}",
            "annotator": judge(name, text(metric, "evaluationModel") or text(metric, "evaluation_model")),
            "label": None if metric.get("error") else as_label(metric.get("success")),
            "metric": name,
            "score": number(metric, "score"),
            "tokens": number(metric, "outputTokenCount") or number(metric, "output_tokens"),
            "input": text(case, "input"),
            "output": text(case, "actualOutput") or text(case, "actual_output"),
            "explanation": text(metric, "reason"),
        }
