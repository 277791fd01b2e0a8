"""Logs of Inspect: `.eval`, a zip with a JSON file for each sample, or all of it as one JSON object.

A judgement is the score of one sample in one epoch by one scorer; each vote of a panel of graders is one. An epoch
has an output of its own, so it is an item of its own.
"""

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa

from ...errors import DataError
from ...errors.messages import first_line
from .judgements import Row, as_label, judge, number, objects, part, read_objects, text
from .records import Json

LARGEST = 4 << 30  # bytes that all files together may have
_ZSTD = 93  # which Python's zipfile reads from 3.14 on


def is_log(record: Json) -> bool:
    """Return whether a record looks like a log of Inspect."""
    return isinstance(record.get("eval"), dict) and "status" in record and "version" in record


def read_inspect(path: str) -> list[Row]:
    """Read the judgements in a log of Inspect."""
    zipped = zipfile.is_zipfile(path)
    samples = json_members(path, "samples/") if zipped else objects(next(read_objects(path), None), "samples")
    rows = [row for sample in samples for row in _judgements(sample)]
    if any(row["epoch"] != 1 for row in rows):
        rows = [row | {"item": f"{row['item']}, epoch {row['epoch']:g}"} for row in rows]
    return rows


def _judgements(sample: Any) -> Iterator[Row]:
    events = objects(sample, "events")
    scorers = {str(event.get("id")): event.get("name") for event in events if event.get("type") == "scorer"}
    asked = {str(event.get("scorer")): event for event in events if event.get("event") == "score"}
    calls = [event for event in events if event.get("event") == "model"]
    scores = part(sample, "scores")
    about = {
        "item": str(part(sample, "id")),
        "epoch": number(sample, "epoch") or 1,
        "model": text(sample, "output", "model"),
        "input": _text(part(sample, "input"), sample),
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


def _text(content: Any, sample: Any) -> str | None:
    """Return the text of an input, which may be messages of several parts; long texts stand among the attachments."""
    if isinstance(content, list):
        parts = [_text(part(each, "content") or part(each, "text"), sample) for each in content]
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
