"""Write what comes out of a run: the table with its labels corrected, soft labels, tasks for a tool, the network.

decide          which labels change, and to what
cells           a text file with single cells changed, every other byte as it was
label_sets      the same of answers that are sets of labels
label_studio    tasks with predictions, doubtful items first; records of Argilla
hugging_face    a dataset of Hugging Face
network         the prediction network as ONNX or as a program of torch; it needs torch
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ...data import keys, long_frame
from ...data.roles import Roles
from ...data.sources import Source
from ...data.sources.csv_file import CsvFile
from ...data.sources.file import ParquetFile
from ...data.sources.in_arrow import Long
from ...data.sources.json_lines import JsonLines
from ...errors import UsageError
from ...errors.messages import quoted
from ...files import replacing, write_csv
from ...run.files import RunFiles
from ..table import open_table
from .cells import Cell, Edit, edit_csv, edit_json_lines
from .decide import decide
from .hugging_face import with_sources, write_dataset
from .label_sets import as_texts, edits_of_sets, long_sets, soft_sets
from .label_studio import push_tasks, tasks_of, write_records, write_tasks

FORMATS = ("csv", "parquet", "jsonl", "label-studio", "argilla", "hf")
_SAME = {"csv": CsvFile, "parquet": ParquetFile, "jsonl": JsonLines}
__all__ = ["FORMATS", "changes_path", "decide", "export_run", "export_soft", "open_table", "push_tasks"]


def export_run(
    run: RunFiles, out: str | Path, to: str, *, sure: float = 0.0, table: str | Path | None = None
) -> pd.DataFrame:
    """Write the table of a run with the labels that look wrong replaced by the consensus, or tasks for Label Studio.

    `run`: a finished run.
    `out`: the file to write. What was changed is written beside it (`changes_path`), but for `label-studio`.
    `to`: one of `FORMATS`. A table in the format it was read from has the same rows, order, columns and ids, and
        differs in the changed labels alone, in text files byte for byte. In another format it is the long table of
        `pidual data import`. `hf` (extra `hf`) is a directory that `datasets.load_from_disk` reads, with the old label
        and the source of each.
    `sure`: labels of items whose consensus is less likely than this stay as they are.
    `table`: where the table is, if not where the run read it.
    Returned: the changes, as `decide` makes them, with the annotators as the table names them and the `place` in the
        file.
    """
    if to not in FORMATS:
        raise UsageError(f"There is no format {quoted(to)} to export to; use one of {', '.join(FORMATS)}.")
    if not 0 <= sure <= 1:
        raise UsageError(f"sure must be between 0 and 1, not {sure}.")
    if (read := run.config.source.read) is not None and read.levels:
        raise UsageError("Ratings cannot be replaced by classes; export --soft has the classes of the items.")
    out = Path(out)
    source, roles = open_table(run, table)
    if out.resolve() == Path(source.name).resolve():
        raise UsageError(f"{out} is the table itself; write to another file.")
    if to == "label-studio":
        write_tasks(tasks_of(run, (source, roles)), out)
        return pd.DataFrame()
    changes = decide(run, sure)
    of_sets = source if isinstance(source, Long) and source.sets is not None else None
    file = source.file if of_sets is None else of_sets.sets.source.file
    in_place = to in _SAME and isinstance(file, _SAME[to]) and file.at.is_here
    if of_sets is not None:
        made = edits_of_sets(of_sets, changes) if in_place else []
    else:
        edits = _edits(source, roles, run, changes)
        changes = changes[np.array([edit is not None for edit in edits], bool)]
        made = [edit for edit in edits if edit is not None]
    listed = changes = _described(source, roles, changes)
    if "table_row" in run.predictions.frame:
        listed = changes.assign(row=run.predictions.frame["table_row"].to_numpy()[changes["row"]])
    with replacing(changes_path(out)) as listing:  # written first, so that both files are there in the end, or neither
        write_csv(listed, listing)
        if in_place:
            with replacing(out) as temporary:
                _write_edited(file, made, temporary)
            return listed
        frame = _long(source, roles, run, changes) if of_sets is None else long_sets(of_sets, roles, changes)
        if to == "hf":
            write_dataset(run, frame if of_sets is not None else with_sources(run, frame, changes), out)
        elif to == "argilla":
            write_records(run, source, roles, frame, out)
        else:
            with replacing(out) as temporary:
                _write_frame(frame, temporary, to, run)
    return listed


def _write_edited(file: Source, edits: list[Edit], out: Path) -> None:
    if isinstance(file, ParquetFile):
        _write_parquet(file, edits, out)
    elif isinstance(file, CsvFile):
        edit_csv(Path(file.name), out, file.columns, file.delimiter, edits)
    else:
        edit_json_lines(Path(file.name), out, edits)


def export_soft(run: RunFiles, out: str | Path, to: str, *, sure: float = 0.0) -> pd.DataFrame:
    """Write the posterior of every item, to train on in place of labels.

    `run`: a finished run.
    `out`: the file to write.
    `to` ("csv", "parquet" or "jsonl").
    `sure`: items whose consensus is less likely than this are left out.
    Returned: `item` and p_<class> for every class, in the order of the run's classes; with more than 20 classes,
        `top_1`, `top_1_probability` and so on of the five most likely ones, as a run keeps no more.
    """
    items = run.items if run.summary.label_sets is None else soft_sets(run)
    soft = items[items["consensus_quality"].to_numpy(np.float64) >= sure]
    if run.summary.label_sets is None:
        soft = soft[["item", *(name for name in items.columns if name.startswith(("p_", "top_")))]]
    with replacing(Path(out)) as temporary:
        _write_frame(soft, temporary, to, run)
    return soft


def changes_path(out: Path) -> Path:
    """Return the file beside an exported table that lists what was changed."""
    return out.with_name(f"{out.stem}.changes.csv")


def _edits(source: Source, roles: Roles, run: RunFiles, changes: pd.DataFrame) -> list[Edit | None]:
    """Say which cell of the file becomes like which other one; None for a label that has no cell of its own.

    Of several spellings of a class in the file, that of the class itself is written.
    """
    given = run.predictions.frame["given_label"].astype(str).to_numpy()
    held = keys(source, roles.label, source.read([roles.label])[roles.label])
    written = np.array([str(name) for name in held.names.to_pylist()], dtype=object)[held.codes]
    like: dict[str, tuple[Cell, str]] = {}
    for label in changes["new_label"].astype(str).unique():
        rows = np.flatnonzero(given == label)
        for row in rows[np.argsort(written[rows] != label, kind="stable")].tolist():
            if (cell := source.cell(row, roles.label)) is not None:
                like[label] = cell, written[row]
                break
    found: list[Edit | None] = []
    for row, new in zip(changes["row"].tolist(), changes["new_label"].astype(str), strict=True):
        cell = source.cell(row, roles.label)
        found.append(Edit(cell, like[new][0], written[row], like[new][1]) if cell and new in like else None)
    return found


def _described(source: Source, roles: Roles, changes: pd.DataFrame) -> pd.DataFrame:
    """Name annotators in the changes as the table does: the export is its owner's."""
    if roles.annotator is None or "annotator" not in changes:
        return changes
    names = source.read([roles.annotator])[roles.annotator].take(pa.array(changes["row"].to_numpy(np.int64)))
    return changes.assign(annotator=names.to_pylist())


def _long(source: Source, roles: Roles, run: RunFiles, changes: pd.DataFrame) -> pd.DataFrame:
    """Make the long table of `pidual data import`, with ids as they are."""
    item, label, annotator, y, split = roles[:5]
    frame = long_frame(source, None, item=item, label=label, annotator=annotator, y=y, split=split)
    labels, given = frame["label"].to_numpy(object), run.predictions.frame["given_label"].astype(str).to_numpy()
    order = np.argsort(labels.astype(str) != given, kind="stable")[::-1]  # last, and so found: spelled as the class is
    first = dict(zip(given[order].tolist(), order.tolist(), strict=True))
    labels[changes["row"]] = [labels[first[label]] for label in changes["new_label"].astype(str)]
    frame["label"] = pd.Series(labels, dtype=frame["label"].dtype)
    return frame


def _write_frame(frame: pd.DataFrame, out: Path, to: str, run: RunFiles) -> None:
    if to == "csv":
        read = run.config.source.read
        write_csv(as_texts(frame, None if read is None else read.label_separator), out)
    elif to == "parquet":
        frame.to_parquet(out, index=False)
    else:
        frame.to_json(out, orient="records", lines=True, force_ascii=False, date_format="iso", double_precision=15)


def _write_parquet(file: ParquetFile, edits: list[Edit], out: Path) -> None:
    """Write the Parquet file with some cells changed; types and metadata stay."""
    before: Any = pq.read_table(file.name)
    table = before
    for column in dict.fromkeys(edit.cell[1] for edit in edits):
        mine = [(edit.cell[0], edit.like) for edit in edits if edit.cell[1] == column and edit.like is not None]
        place = table.schema.get_field_index(column)
        kind = table.schema.field(place).type
        if new := {edit.cell[0]: edit.new for edit in edits if edit.cell[1] == column and edit.like is None}:
            values = [new.get(row, value) for row, value in enumerate(before.column(column).to_pylist())]
            table = table.set_column(place, table.schema.field(place), pa.array(values, kind))
            continue
        likes = list(dict.fromkeys([column, *(like[1] for _, like in mine)]))
        pool = pa.chunked_array([chunk for like in likes for chunk in before.column(like).cast(kind).chunks], kind)
        index = np.arange(len(table))
        index[[row for row, _ in mine]] = [likes.index(like[1]) * len(table) + like[0] for _, like in mine]
        table = table.set_column(place, table.schema.field(place), pool.take(pa.array(index)))
    pq.write_table(table, out)
