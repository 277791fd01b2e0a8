"""What the benchmarks share: result files, a log that a later run continues, datasets, and one fit scored twice."""

import dataclasses
import json
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from pidual.benchmark.score import prepare_data, score, score_last
from pidual.datasets import load_dataset
from pidual.datasets.base import NoisyDataset
from pidual.datasets.synthetic import make_crowd
from pidual.engine import make_fabric
from pidual.files import write_json
from pidual.paper.ablations import ablate
from pidual.run import train

RESULTS = Path(__file__).parent / "results"


def write_result(path: Path, results, **settings):
    """Write results with the command's settings, commit, date, versions and hardware."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "benchmark": path.stem,
        "settings": settings,
        "commit": commit.stdout.strip() or None,
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores, no GPU" if not torch.cuda.is_available() else "GPU",
        "threads": torch.get_num_threads(),
    }
    write_json(path, {**about, "results": results})
    print(f"written: {path}")


class Log:
    """Rows of a benchmark beside its result file, one JSON line each; a later run finds them there.

    `out` is the result file, `keys` the columns that tell one row from another.
    """

    def __init__(self, out: Path, *keys: str):
        self.path, self.keys = out.with_suffix(".jsonl"), keys
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.rows = [json.loads(line) for line in lines]

    def find(self, **wanted):
        """The row with these values, or None."""
        return next((row for row in self.rows if all(row[key] == wanted[key] for key in self.keys)), None)

    def add(self, row):
        """Keep a row, and show it."""
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
        return row


def data_folder():
    """Where real datasets lie in their authors' formats."""
    return Path(os.environ.get("PIDUAL_DATA", "data"))


def load(name, n_test=None, seed=0):
    """A dataset of the package, scored on the first `n_test` test inputs."""
    data = load_dataset(name, data_folder(), seed=seed)
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
    train(job, fabric=fabric)
    return time.process_time() - started


def fit_and_score(data: NoisyDataset, options, ablation=None):
    """One fit: clean test accuracy and detection AUC at the selected and at the last epoch, and how long it took."""
    started = time.perf_counter()
    job = prepare_data(data, options)
    job = ablate(job, ablation) if ablation else job
    fabric = make_fabric("cpu")
    fitted = train(job, fabric=fabric)
    seconds = time.perf_counter() - started
    selected, _ = score(job, fitted, data, fabric)
    record = next(r for r in reversed(fitted.history) if r["epoch"] == fitted.selected_epoch)
    return {
        "selected": selected,
        "last": score_last(job, fitted, data, fabric),
        "valid_accuracy": record.get("valid_accuracy"),
        "recoveries": len(fitted.events),
        "seconds": round(seconds, 2),
    }
