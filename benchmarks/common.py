"""What the benchmarks share: result files, a log that a later run continues, datasets, and one fit with its scores."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import torch

from pidual.data.datasets import load_dataset
from pidual.data.datasets.base import NoisyDataset
from pidual.data.datasets.synthetic import make_crowd
from pidual.files import write_text
from pidual.fit.fit import train
from pidual.learn.engine import Session, make_fabric
from pidual.paper import score
from pidual.paper.runs import about
from pidual.paper.score import prepare_data

RESULTS = Path(__file__).parent / "results"
FITS = RESULTS / "benchmark"  # of `pidual benchmark`, as pack.py keeps them


def write_result(path: Path, results, **settings):
    """Write results with the command's settings, and where and when they were made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = {"benchmark": path.stem, "settings": settings, **about(), "threads": torch.get_num_threads()}
    write_text(path, in_lines({**made, "results": results}))
    print(f"written: {path}")


def in_lines(values):
    """A mapping as JSON with a line for each part, and a line for each row of its results."""
    dumps = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    parts = {name: dumps(value) for name, value in values.items()}
    if isinstance(values["results"], list):
        parts["results"] = "[\n    " + ",\n    ".join(map(dumps, values["results"])) + "\n  ]"
    return "{\n" + ",\n".join(f"  {dumps(name)}: {text}" for name, text in parts.items()) + "\n}\n"


def peak_memory(status="/proc/self/status"):
    """Megabytes of memory that a process has had at most; what `resource` says begins with that of its parent."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", Path(status).read_text())[1]) / 1024


NOTING = """
import atexit, os, pathlib, runpy, sys
to = pathlib.Path(os.environ["STATUS_TO"])
atexit.register(lambda: to.write_text(pathlib.Path("/proc/self/status").read_text()))
_, how, what, *sys.argv[1:] = sys.argv
runpy.run_module(what, run_name="__main__", alter_sys=True) if how == "-m" else exec(what)
"""


def run_apart(words, cwd=None, **changes):
    """Seconds of processor time and on the clock, and megabytes at most, of `python WORDS`."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as said, tempfile.NamedTemporaryFile("r") as status:
        process = subprocess.Popen(
            [sys.executable, "-c", NOTING, *words],
            env=os.environ | {"OMP_NUM_THREADS": "1", "STATUS_TO": status.name} | changes,
            cwd=cwd,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        _, ended, used = os.wait4(process.pid, 0)
        said.seek(0)
        if ended:
            text = said.read().decode(errors="replace")
            raise SystemExit(f"python {' '.join(map(str, words))} failed:\n{text[-3000:]}")
        megabytes = peak_memory(status.name)
    seconds, clock = used.ru_utime + used.ru_stime, time.monotonic() - started
    return {"seconds": round(seconds, 1), "clock": round(clock, 1), "megabytes": round(megabytes)}


def read_rows(path: Path):
    """The rows of a JSON Lines file; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def replace_parts(path: Path, rows):
    """Write rows in place of those of the same parts; rows of other parts stay."""
    parts = {row["part"] for row in rows}
    kept = [row for row in read_rows(path) if row["part"] not in parts]
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in [*kept, *rows]))


def read_fits(folder: Path = FITS):
    """The fits of `pidual benchmark` that are kept, all datasets."""
    return [row for path in sorted(folder.glob("*.jsonl")) for row in read_rows(path)]


class Log:
    """Rows of a benchmark beside its result file, one JSON line each; a later run finds them there.

    `out` is the result file, `keys` the columns that tell one row from another.
    """

    def __init__(self, out: Path, *keys: str):
        self.path, self.keys = out.with_suffix(".jsonl"), keys
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rows = read_rows(self.path)

    def find(self, **wanted):
        """The row with these values, or None."""
        return next((row for row in self.rows if all(row[key] == wanted[key] for key in self.keys)), None)

    def add(self, row):
        """Keep a row, and show it."""
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
        print(json.dumps(row), flush=True)
        return row


def data_folder():
    """Where real datasets lie in their authors' formats."""
    return Path(os.environ.get("PIDUAL_DATA", "data"))


def load(name, n_test=None, seed=0, **options):
    """A dataset of the package, scored on the first `n_test` test inputs."""
    data = load_dataset(name, data_folder(), seed=seed, **options)
    return dataclasses.replace(data, x_test=data.x_test[:n_test], y_test=data.y_test[:n_test])


def crowd(**shape):
    """A synthetic crowd."""
    made = make_crowd(**shape)
    pi = {"annotator": "category", "seconds": "duration"}
    return NoisyDataset("crowd", made.frame, pi, made.x, made.x_test, made.y_test, [])


def training_seconds(data: NoisyDataset, options):
    """Processor time of training alone, which other work on the machine does not stretch."""
    job = prepare_data(data, options)
    fabric = make_fabric("cpu")
    started = time.process_time()
    train(job, Session(fabric))
    return time.process_time() - started


def fit_and_score(data: NoisyDataset, options, ablation=None):
    """One fit: clean test accuracy and detection AUC at the selected and at the last epoch, and how long it took."""
    result = score.fit_and_score(data, dataclasses.replace(options, accelerator="cpu"), ablation=ablation)
    return {name: result[name] for name in ("selected", "last", "valid_accuracy", "recoveries", "seconds")}
