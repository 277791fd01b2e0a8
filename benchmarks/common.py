"""What the benchmarks share: result files, a log that a later run continues, datasets, and one fit scored twice."""

import json
import os
import platform
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pidual.batch import Rows
from pidual.datasets.digits import load_digits_pi
from pidual.datasets.synthetic import make_crowd
from pidual.engine import make_fabric
from pidual.engine.predict import predict_probabilities
from pidual.files import write_json
from pidual.inputs import load_inputs
from pidual.run import assess, prepare, train
from pidual.table import AnnotationTable

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


@dataclass(frozen=True)
class Data:
    """A noisy training set with its clean test set."""

    frame: pd.DataFrame
    pi: list
    x: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def data_folder():
    """Where real datasets lie in their authors' formats."""
    return Path(os.environ.get("PIDUAL_DATA", "data"))


def labelme(part="test"):
    """LabelMe: 2,547 answers of 59 workers on pooled VGG features; scored on its `test` or `valid` part."""
    folder = data_folder() / "labelme"
    answers = np.loadtxt(folder / "answers.txt", dtype=int)
    item, worker = np.nonzero(answers >= 0)
    x = {name: np.load(folder / f"LabelMe_VGG_avg_{name}.npy").astype(np.float32) for name in ("train", part)}
    x = {name: value.reshape(len(value), -1) for name, value in x.items()}
    y = {name: np.loadtxt(folder / f"LabelMe_Z_{name}.txt", dtype=int) for name in ("train", part)}
    frame = pd.DataFrame({"item": item, "annotator": worker, "label": answers[item, worker], "y": y["train"][item]})
    return Data(frame, ["annotator"], x["train"], x[part], y[part])


def cifar10s(n_test=4000):
    """CIFAR-10S: 6,723 answers on 1,000 CIFAR-10 test images; scored on test images its annotators did not see."""
    records = np.fromfile(data_folder() / "cifar-10-batches-bin" / "test_batch.bin", np.uint8).reshape(-1, 3073)
    images, y = records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].astype(int)
    frame = pd.read_csv(data_folder() / "cifar-10s" / "annotations.csv")
    seen, item = np.unique(frame["cifar10_test_index"], return_inverse=True)
    unseen = np.setdiff1d(np.arange(len(records)), seen)[:n_test]
    frame = frame.assign(item=item, y=frame["gold"])
    pi = ["annotator", "confidence", "rt_ms", "trial_index"]
    return Data(frame[["item", "label", "y", *pi]], pi, images[seen], images[unseen], y[unseen])


def digits_pi(noise, seed=0):
    """Digits-PI at its low or high noise."""
    digits = load_digits_pi(noise, seed=seed)
    return Data(digits.frame, list(digits.pi), digits.x, digits.x_test, digits.y_test)


def crowd(**shape):
    """A synthetic crowd."""
    made = make_crowd(**shape)
    return Data(made.frame, ["annotator", "seconds"], made.x, made.x_test, made.y_test)


def training_seconds(data: Data, options):
    """Processor time of training alone, which other work on the machine does not stretch."""
    table = AnnotationTable.from_frame(data.frame, pi=data.pi, keep_ids=True)
    job = prepare(table, load_inputs(data.x), options)
    fabric = make_fabric("cpu")
    started = time.process_time()
    train(job, fabric=fabric)
    return time.process_time() - started


def fit_and_score(data: Data, options):
    """One fit: clean test accuracy and detection AUC at the selected and at the last epoch, and how long it took."""
    started = time.perf_counter()
    table = AnnotationTable.from_frame(data.frame, pi=data.pi, keep_ids=True)
    job = prepare(table, load_inputs(data.x), options)
    fabric = make_fabric("cpu")
    fitted = train(job, fabric=fabric)
    seconds = time.perf_counter() - started
    test = Rows.build(data.x_test, np.arange(len(data.x_test)), np.zeros(len(data.x_test), int))

    def score():
        evaluation = assess(job, fitted, fabric).summary["evaluation"]
        predicted = np.concatenate([p.argmax(1) for p in predict_probabilities(fitted.method, test, fabric)])
        names = np.asarray(table.classes)
        accuracy = float((names[predicted] == data.y_test.astype(names.dtype)).mean())
        return {"accuracy": accuracy, "auc": evaluation["detection_auc"], "score_auc": evaluation["score_auc"]}

    selected = score()
    record = next(r for r in reversed(fitted.history) if r["epoch"] == fitted.selected_epoch)
    fitted.method.load_state_dict(fitted.last)
    return {
        "selected": selected,
        "last": score(),
        "valid_accuracy": record.get("valid_accuracy"),
        "recoveries": len(fitted.events),
        "seconds": round(seconds, 2),
    }
