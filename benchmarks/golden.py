"""Show what a change of the code changes: run small commands and calls, and keep a digest of all that they give.

    python benchmarks/golden.py before.json                      the cases of golden_cases.py, in about a minute
    python benchmarks/golden.py after.json                       after the change
    python benchmarks/golden.py compare before.json after.json   what differs, by case; exits with 1 if anything does

It runs the pidual that Python imports, such as that of PYTHONPATH. --only WORD,... runs the cases whose names hold one
of the words. With compare, --within 1e-6 leaves out numbers that differ by less, relative to the larger one, and --all
shows every difference. Seeds are fixed and there is one thread: on one machine, the same code gives the same digests.
Times, versions, temporary folders, ids of runs and digests of files are left out.
"""

import argparse
import contextlib
import difflib
import hashlib
import io
import json
import os
import random
import re
import shlex
import shutil
import sqlite3
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

os.environ.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", COLUMNS="120", NO_COLOR="1", MPLBACKEND="Agg")
os.environ.pop("PIDUAL_DATA", None)

import numpy as np
import pandas as pd
import torch
from golden_cases import CASES, inner, write_data
from msgspec import Struct

import pidual

DATES = {f"{datetime.now(zone):%Y-%m-%d}" for zone in (UTC, None)}
LEFT_OUT = {"created", "commit", "digest", "digests", "hardware", "pidual", "run_id", "versions", "_fingerprint"}
TIMES = {"seconds", "seconds_total"}
TIMED = {"trials.csv", "summary.csv"}  # tables with a column of seconds that the fits took
UNREAD = {"study.sqlite"}
SAMPLE = 300  # numbers of an array that are kept beside its digest
LINES = 12  # differences of a case that are shown


def short(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=6).hexdigest()


def stable(text: str, folder: Path) -> str:
    """Text without what is different in every run; long lines are cut and end in a digest."""
    text = text.replace(str(folder), "FOLDER").replace(pidual.__version__, "VERSION")
    for date in DATES:
        text = re.sub(date + r"([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?)?", "TIME", text)
    text = re.sub(r"<style>.*?</style>", lambda found: f"<style>{short(found[0].encode())}", text, flags=re.DOTALL)
    text = re.sub(r"(base64,)([\w+/=]{80,})", lambda found: found[1] + short(found[2].encode()), text)
    lines = [line for line in text.replace("><", ">\n<").splitlines() if not re.match(r"epoch \d+/\d+[:,] ", line)]
    return "\n".join(line if len(line) <= 500 else f"{line[:400]} ... {short(line.encode())}" for line in lines)


def rounded(values: np.ndarray) -> np.ndarray:
    """Numbers to nine digits."""
    size = np.where((values == 0) | ~np.isfinite(values), 1, np.abs(values))
    unit = 10.0 ** (np.floor(np.log10(size)) - 8)
    return np.where(np.isfinite(values), np.round(values / unit) * unit, values)


def array(values, sample: int = SAMPLE) -> dict:
    """Digest of an array: of every bit, of nine digits, and some of its values."""
    values = np.asarray(values)
    about = {"type": str(values.dtype), "shape": list(values.shape)}
    flat = values.ravel()
    places = np.unique(np.linspace(0, flat.size - 1, min(flat.size, sample)).astype(int))
    if values.dtype.kind not in "fiub":
        texts = [f"bytes {short(each)}" if isinstance(each, bytes) else str(each) for each in flat.tolist()]
        return about | {"bits": short("\0".join(texts).encode()), "sample": [texts[place] for place in places]}
    about["bits"] = short(np.ascontiguousarray(values).tobytes())
    if values.dtype.kind == "f":
        flat = rounded(flat.astype(np.float64))
        about["digits"] = short(np.char.mod("%.9g", flat).astype("S").tobytes())
    return about | {
        "sample": [float(f"{each:.9g}") if isinstance(each, float) else each for each in flat[places].tolist()]
    }


def frame_parts(frame: pd.DataFrame) -> dict:
    """The columns of a frame, and its index."""
    parts = {f"column {name}": array(frame[name]) for name in frame}
    types = {f"type of {name}": str(kind) for name, kind in frame.dtypes.items()}
    return {"columns": ", ".join(map(str, frame)), **types, **parts, "index": array(frame.index)}


def json_parts(value, folder: Path, path: str = "") -> dict:
    """The numbers and texts in JSON by their paths."""
    key = path.rpartition(".")[2]
    timed = (key in TIMES and isinstance(value, float)) or (key == "format" and isinstance(value, int))
    if key in LEFT_OUT or timed:
        return {path: "LEFT OUT"}
    if isinstance(value, dict | list) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return {name: part for key, each in pairs for name, part in json_parts(each, folder, f"{path}.{key}").items()}
    return {path: stable(value, folder) if isinstance(value, str) else value}


def file_parts(path: Path, folder: Path) -> dict:
    """What is in a file, by its ending."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import safetensors.numpy

    end = path.suffix
    if end in (".parquet", ".arrow"):
        table = pq.read_table(path) if end == ".parquet" else pa.ipc.open_stream(path.read_bytes()).read_all()
        table = table.combine_chunks()
        about = json.loads((table.schema.metadata or {}).get(b"pidual", b"{}"))
        columns = {f"column {name}": array(table[name].to_pandas()) for name in table.column_names}
        types = {
            f"type of {name}": str(kind) for name, kind in zip(table.column_names, table.schema.types, strict=True)
        }
        return {"columns": ", ".join(table.column_names), **types, **columns, **json_parts(about, folder, "metadata")}
    if end == ".csv":
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        frame = frame.drop(columns=TIMES, errors="ignore") if path.name in TIMED else frame
        return {"columns": ", ".join(frame)} | {f"column {name}": array(frame[name]) for name in frame}
    if end in (".json", ".jsonl"):
        lines = [path.read_text()] if end == ".json" else path.read_text().splitlines()
        values = [json.loads(line) for line in lines]
        return json_parts(values[0] if end == ".json" else values, folder)
    if end == ".safetensors":
        content = path.read_bytes()
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
        head = {key: json.loads(text) if text[:1] in "{[" else text for key, text in head.items()}
        tensors = safetensors.numpy.load(content)
        return {name: array(tensors[name], 30) for name in sorted(tensors)} | json_parts(head, folder, "metadata")
    if end in (".pt", ".pth"):
        return {name: array(tensor) for name, tensor in torch.load(path, weights_only=True).items()}
    if end == ".npy":
        return {"array": array(np.load(path))}
    if end == ".sqlite":
        with contextlib.closing(sqlite3.connect(path)) as db:
            names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
            tables = {
                name: pd.read_sql(f"SELECT * FROM {name}", db).drop(columns="at", errors="ignore") for name in names
            }
        return {f"{name} {part}": value for name, each in tables.items() for part, value in frame_parts(each).items()}
    if end == ".onnx":
        import onnx

        graph = onnx.load(path).graph
        tensors = sorted((array(onnx.numpy_helper.to_array(each)) for each in graph.initializer), key=str)  # names vary
        return {"operations": " ".join(node.op_type for node in graph.node)} | {
            f"tensor {number}": each for number, each in enumerate(tensors)
        }
    try:
        return {"text": stable(path.read_text(), folder)}
    except UnicodeDecodeError:
        return {"bytes": short(path.read_bytes())}


class Case:
    """One case in a folder of its own: what it is given to record, and then the files that it made."""

    def __init__(self, folder: Path):
        self.folder, self.outputs = folder, dict[str, dict]()
        self.before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def record(self, name: str, value) -> None:
        """Keep what a call gave."""
        value = value.to_json() if isinstance(value, Struct) else value
        if isinstance(value, pd.DataFrame | pd.Series):
            parts = frame_parts(value.to_frame() if isinstance(value, pd.Series) else value)
        elif isinstance(value, np.ndarray):
            parts = {"array": array(value)}
        elif isinstance(value, dict | list):
            parts = json_parts(json.loads(json.dumps(value, default=str)), self.folder)
        else:
            parts = {"text": stable(str(value), self.folder)}
        assert name not in self.outputs, name
        self.outputs[name] = parts

    def command(self, line: str) -> None:
        """Run a line of the command line, and keep its exit code and what it printed."""
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        code = None
        words = mock.patch.object(sys, "argv", ["pidual", *shlex.split(line)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), words:
            try:
                inner("main")()
            except SystemExit as leaving:
                code = leaving.code
        said, noted = (stream.buffer.getvalue().decode() for stream in (out, err))
        if (
            line.startswith(("sweep", "benchmark")) and "--json" not in line
        ):  # the last column of a table is the time that a fit took
            said = re.sub(r"[ \d.]+(│?)$", r" LEFT OUT\1", said, flags=re.MULTILINE)
        parts = {"stdout": stable(said, self.folder), "stderr": stable(noted, self.folder)}
        with contextlib.suppress(json.JSONDecodeError):
            parts = json_parts(json.loads(said), self.folder, "stdout") | {"stderr": parts["stderr"]}
        self.outputs[f"$ pidual {line}"] = {"exit code": code, **parts}

    def call(self, step: Callable) -> None:
        """Call a function that records, and keep its warnings."""
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("always")
            step(self)
        if caught:
            self.record(f"warnings of {step.__name__}", "\n".join(str(each.message) for each in caught))

    def files(self) -> None:
        """Keep what is in the files that are new or changed."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.name not in UNREAD and self.before.get(path) != path.read_bytes():
                self.outputs[str(path.relative_to(self.folder))] = file_parts(path, self.folder)


# --- running ---


def run(out: Path, words: list[str]) -> None:
    """Run the cases and write what they give."""
    started = time.process_time()
    os.fsync = lambda _: None  # to wait until a file has reached the disk takes longer than many a case
    cases, seconds = {}, {}
    print(f"pidual of {Path(pidual.__file__).parent}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary).resolve() / "data"
        data.mkdir()
        write_data(data)
        for number, (name, steps) in enumerate(CASES.items()):
            if words and not any(word in name for word in words):
                continue
            began = time.process_time()
            folder = data.parent / f"case{number:03}"
            shutil.copytree(data, folder)
            cases[name] = run_case(folder, steps)
            shutil.rmtree(folder)
            seconds[name] = round(time.process_time() - began, 2)
            print(f"{seconds[name]:6.2f} s  {name}", flush=True)
    about = {"pidual": pidual.__version__, "torch": torch.__version__, "numpy": np.__version__, "seconds": seconds}
    out.write_text(json.dumps({"about": about, "cases": cases}, separators=(",", ":")))
    print(f"{len(cases)} cases, {time.process_time() - started:.0f} s of processor time; written: {out}")


def run_case(folder: Path, steps: list) -> dict[str, dict]:
    """What one case gives."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  what others may draw from
    torch.manual_seed(0)
    case = Case(folder)
    with contextlib.chdir(folder):
        for step in steps:
            name = f"$ pidual {step}" if isinstance(step, str) else step.__name__
            try:
                if isinstance(step, str):
                    case.command(step)
                else:
                    case.call(step)
            except Exception:
                print(f"{name}: {traceback.format_exc()}", file=sys.stderr)
                case.outputs[f"{name} failed"] = {"error": stable(traceback.format_exc(limit=0), folder)}
    case.files()
    return case.outputs


# --- comparing ---


def compare(before: Path, after: Path, within: float, every: bool) -> int:
    """Print what differs; 1 if anything does."""
    a, b = (json.loads(path.read_text()) for path in (before, after))
    for name in ("torch", "numpy"):
        if a["about"][name] != b["about"][name]:
            print(f"Note: {name} was {a['about'][name]} and is {b['about'][name]}.")
    differing, often = 0, Counter[str]()
    for case in {**a["cases"], **b["cases"]}:
        found = differences(a["cases"].get(case), b["cases"].get(case), within)
        differing += bool(found)
        often.update({line.partition(": ")[0] for line in found})
        if found:
            print(f"\n{case}: {len(found)} differences")
            shown = found if every else found[:LINES]
            print("\n".join(f"  {line}" for line in shown))
            if len(found) > len(shown):
                print(f"  ... and {len(found) - len(shown)} more (--all)")
    if differing > 1 and often.most_common(1)[0][1] > 1:
        print("\nIn most cases:" + "".join(f"\n  {n} x {place}" for place, n in often.most_common(8) if n > 1))
    n_outputs = sum(map(len, b["cases"].values()))
    print(f"\n{differing} of {len(b['cases'])} cases differ; {n_outputs} outputs were compared.")
    return int(differing > 0)


def differences(a: dict | None, b: dict | None, within: float) -> list[str]:
    """What differs in a case, a line for each part of an output."""
    if a is None or b is None:
        return [f"only {'after' if a is None else 'before'}"]
    found = []
    for output in {**a, **b}:
        if output not in a or output not in b:
            found.append(f"{output}: only {'after' if output not in a else 'before'}")
            continue
        for part in {**a[output], **b[output]}:
            place = f"{output} [{part}]"
            if part not in a[output] or part not in b[output]:
                found.append(f"{place}: only {'after' if part not in a[output] else 'before'}")
            elif said := difference(a[output][part], b[output][part], within):
                found.append(f"{place}: {said}")
    return found


def difference(a, b, within: float) -> str | None:
    """How two values differ; None where they do not."""
    if a == b:
        return None
    if isinstance(a, dict) and isinstance(b, dict) and "bits" in a and "bits" in b:
        return array_difference(a, b, within)
    if isinstance(a, str) and isinstance(b, str) and "\n" in a + b:
        lines = difflib.unified_diff(a.splitlines(), b.splitlines(), n=0, lineterm="")
        return "".join(f"\n      {line[:240]}" for line in list(lines)[2:14] if not line.startswith("@@"))
    if isinstance(a, float) and isinstance(b, float) and abs(a - b) <= within * max(abs(a), abs(b)):
        return None
    return f"{json.dumps(a)[:150]} -> {json.dumps(b)[:150]}"


def array_difference(a: dict, b: dict, within: float) -> str | None:
    """How two arrays differ."""
    for part in ("type", "shape"):
        if a[part] != b[part]:
            return f"{part} {a[part]} -> {b[part]}"
    pairs = [(place, one, other) for place, (one, other) in enumerate(zip(a["sample"], b["sample"], strict=True))]
    pairs = [(place, one, other) for place, one, other in pairs if one != other and not one != one == other != other]
    if not pairs:
        if within and "digits" in a:
            return None
        return (
            "the same in nine digits, not in the last bits"
            if a.get("digits", 0) == b.get("digits", 1)
            else "other values"
        )
    place, one, other = pairs[0]
    said = f"{len(pairs)} of {len(a['sample'])} values differ, first {one!r} -> {other!r} (number {place})"
    if "digits" not in a:
        return said
    sizes = [abs(one - other) / max(abs(one), abs(other)) for _, one, other in pairs]
    return None if within and max(sizes) <= within else f"{said}, by at most {max(sizes):.2g} of it"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="OUT.json, or: compare BEFORE.json AFTER.json")
    parser.add_argument("--only", default="", help="words in the names of cases, with commas between")
    parser.add_argument("--within", type=float, default=0.0, help="relative difference of numbers to leave out")
    parser.add_argument("--all", action="store_true", help="show every difference")
    asked = parser.parse_args()
    if asked.files[0] == "compare":
        sys.exit(compare(Path(asked.files[1]), Path(asked.files[2]), asked.within, asked.all))
    run(Path(asked.files[0]).resolve(), [word for word in asked.only.split(",") if word])
