"""What happened in training: a list of dicts, one per epoch, also one JSON line each in metrics.jsonl."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...files import write_text
from ...run.records.reading import FORMAT

Record = dict[str, Any]


def write_history(path: Path, history: Iterable[Record]) -> None:
    """Replace the file by these records."""
    write_text(path, "".join(line(record) for record in history))


def append_record(path: Path, record: Record) -> None:
    """Add one record at the end of the file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line(record))


def line(record: Record) -> str:
    """Return a record as a line of JSON for `run.files.read_history`; what is not finite becomes null."""
    finite = {key: None if isinstance(value, float) and value - value != 0 else value for key, value in record.items()}
    return json.dumps({**finite, "format": FORMAT}) + "\n"
