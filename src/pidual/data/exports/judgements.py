"""Judgements by language models, as logs of evaluations have them.

inspect       `.eval`, a zip with a JSON file for each sample, or all of it as one JSON object. A judgement is the score
              of one sample in one epoch by one scorer; each vote of a panel of graders is one. An epoch has its own
              output, so it is its own item.
promptfoo     `promptfoo eval -o results.json`, or `.jsonl`: the result of one assertion on one output; the output of a
              prompt and provider for a test is an item.
deepeval      Test runs as saved, and the result of `evaluate` as JSON: whether a metric passed for a test case.
lm-eval       `samples_*.jsonl` of lm-evaluation-harness, written with `--log_samples`: the score of one metric, after
              one filter, for one document.

A reader is a function from a path to rows. A row is a judgement: item, annotator (who judged), label, metric (what was
asked), what the log says about how the judgement came to be (`PI`), and the texts input, output and explanation. A
judgement that failed has no label.
"""

import collections
import gzip
import json
import math
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
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


LARGEST = 4 << 30  # bytes that all files together may have
_ZSTD = 93  # which Python's zipfile reads from 3.14 on


def is_inspect(record: Json) -> bool:
    """Return whether a record looks like a log of Inspect."""
    return isinstance(record.get("eval"), dict) and "status" in record and "version" in record


def read_inspect(path: str) -> list[Row]:
    """Read the judgements in a log of Inspect."""
    zipped = zipfile.is_zipfile(path)
    samples = json_members(path, "samples/") if zipped else objects(next(read_objects(path), None), "samples")
    rows = [row for sample in samples for row in _of_sample(sample)]
    if any(row["epoch"] != 1 for row in rows):
        rows = [row | {"item": f"{row['item']}, epoch {row['epoch']:g}"} for row in rows]
    return rows


def _of_sample(sample: Any) -> Iterator[Row]:
    events = objects(sample, "events")
    scorers = {str(event.get("id")): event.get("name") for event in events if event.get("type") == "scorer"}
    asked = {str(event.get("scorer")): event for event in events if event.get("event") == "score"}
    calls = [event for event in events if event.get("event") == "model"]
    scores = part(sample, "scores")
    about = {
        "item": str(part(sample, "id")),
        "epoch": number(sample, "epoch") or 1,
        "model": text(sample, "output", "model"),
        "input": _shown_text(part(sample, "input"), sample),
        "output": text(sample, "output", "completion"),
    }
    for name, score in scores.items() if isinstance(scores, dict) else ():
        first = re.sub(r"\d+$", "", name)  # a scorer that is used twice is called NAME and NAME1
        metric = first if first in scores else name
        own = [call for call in calls if scorers.get(str(call.get("span_id"))) == name]
        for model, value, made in _votes(score, own, part(asked.get(name), "scorer_args", "model")):
            how = {
                "seconds": _sum(number(call, "working_time") for call in made),
                "tokens": _sum(number(call, "output", "usage", "output_tokens") for call in made),
                "explanation": text(score, "explanation"),
            }
            for key, each in value.items() if isinstance(value, dict) else [("", value)]:
                end = f"/{key}" if key else ""
                found = {"annotator": judge(name + end, model), "label": as_label(each), "metric": metric + end}
                yield {**about, **found, **how}


def _votes(score: Any, calls: list[Any], panel: Any) -> Iterator[tuple[str, Any, list[Any]]]:
    """Yield model, value and calls of each member of a panel, or of the one judge."""
    votes = part(score, "metadata", "panel", "votes")
    if not isinstance(votes, list):
        yield " + ".join(dict.fromkeys(text(call, "model") or "" for call in calls)), part(score, "value"), calls
        return
    models = [text(each, "model") or str(each) for each in panel] if isinstance(panel, list) else []
    for place, vote in enumerate(votes):
        model = models[place] if len(models) == len(votes) else f"grader {place + 1}"
        yield model, vote, [call for call in calls if call.get("model") == model]


def _sum(numbers: Iterator[float | None]) -> float | None:
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def _shown_text(content: Any, sample: Any) -> str | None:
    """Return the text of an input, which may be messages of several parts; long texts stand among the attachments."""
    if isinstance(content, list):
        parts = [_shown_text(part(each, "content") or part(each, "text"), sample) for each in content]
        return "\n".join(filter(None, parts))
    if not isinstance(content, str):
        return None
    return text(sample, "attachments", content.removeprefix("attachment://")) or content


def json_members(path: str, folder: str) -> Iterator[Any]:
    """Yield what each JSON file in a folder of a .zip holds; of several of one name, the last."""
    try:
        with open(path, "rb") as stream, zipfile.ZipFile(stream) as archive:
            members = {each.filename: each for each in archive.infolist() if each.filename.startswith(folder)}
            if sum(each.file_size for each in members.values()) > LARGEST:
                raise DataError(f"{path} is larger than {LARGEST >> 30} GB when unpacked; log fewer samples at once.")
            for name, member in members.items():
                if name.endswith(".json"):
                    yield json.loads(_content(archive, member, stream))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({first_line(error)}); write it again.") from None


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, stream: IO[bytes]) -> bytes:
    if member.compress_type != _ZSTD:
        return archive.read(member)
    stream.seek(member.header_offset + 26)  # the lengths of the name and of a field that stand before what is packed
    stream.seek(sum(struct.unpack("<HH", stream.read(4))), 1)
    packed = pa.py_buffer(stream.read(member.compress_size))
    content: bytes = pa.input_stream(packed, compression="zstd").read(member.file_size)
    if zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile("a file in it is damaged")
    return content


def is_promptfoo(record: Json) -> bool:
    """Return whether a record looks like all results of promptfoo, or like one."""
    return ("testIdx" in record and "gradingResult" in record) or bool(objects(record, "results", "results"))


def read_promptfoo(path: str) -> list[Row]:
    """Read the judgements in results of promptfoo."""
    results = (each for record in read_objects(path) for each in objects(record, "results", "results") or [record])
    return [row for result in results for row in _of_result(result)]


def _of_result(result: Json) -> Iterator[Row]:
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


_CASES = ("testCases", "conversationalTestCases", "test_results")


def is_deepeval(record: Json) -> bool:
    """Return whether a record looks like a test run of DeepEval, or the result of `evaluate`."""
    return bool(_cases(record))


def read_deepeval(path: str) -> list[Row]:
    """Read the judgements in a file of DeepEval."""
    cases = [case for record in read_objects(path) for case in _cases(record)]
    named = len({text(case, "name") for case in cases}) == len(cases)
    return [row for n, case in enumerate(cases, 1) for row in _of_case(case, "" if named else f", {n}")]


def _cases(record: Json) -> list[Json]:
    """Return the test cases, whose fields `evaluate` writes in small letters and files of test runs in camel case."""
    found = [case for key in _CASES for case in objects(record.get("testRunData", record), key)]
    return [case for case in found if "metricsData" in case or "metrics_data" in case]


def _of_case(case: Json, number_of_case: str) -> Iterator[Row]:
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


def is_lm_eval(record: Json) -> bool:
    """Return whether a record looks like a sample of lm-evaluation-harness."""
    return "doc_id" in record and "filtered_resps" in record


def read_lm_eval(path: str) -> list[Row]:
    """Read the judgements in samples of lm-evaluation-harness."""
    return [row for sample in read_objects(path) for row in _of_document(sample)]


def _of_document(sample: Json) -> Iterator[Row]:
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
