"""Peak memory and time to first progress of `pidual fit` on a long table.

    python benchmarks/memory.py [--rows 5000000] [--annotators 200000] [--out benchmarks/results/memory.json]

Makes a CSV of annotations and an .npy of 32 features an item in a temporary folder, runs the command on them as a
user would (one epoch) and watches the process.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
from common import write_result

N_FEATURES, N_CLASSES = 32, 10


def make_files(folder, n_rows, n_annotators, n_items):
    """labels.csv and x.npy: annotators of different skill, seconds that are short for wrong answers."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, n_items)
    centres = rng.normal(size=(N_CLASSES, N_FEATURES))
    np.save(folder / "x.npy", (centres[y] + rng.normal(size=(n_items, N_FEATURES))).astype(np.float32))
    item = rng.integers(0, n_items, n_rows)
    who = rng.integers(0, n_annotators, n_rows)
    wrong = rng.random(n_rows) < rng.beta(1, 2, n_annotators)[who]
    label = np.where(wrong, rng.integers(0, N_CLASSES, n_rows), y[item])
    table = pa.table(
        {
            "item": item,
            "annotator": pa.array(np.char.add("worker-", np.arange(n_annotators).astype(str))).take(pa.array(who)),
            "seconds": (rng.gamma(2, 4, n_rows) * np.where(wrong, 0.5, 1)).round(2),
            "label": pa.array([f"class-{k}" for k in range(N_CLASSES)]).take(pa.array(label)),
        }
    )
    pyarrow.csv.write_csv(table, folder / "labels.csv")


def watch(command, folder):
    """Run a command: seconds until it showed progress, seconds in all, peak resident memory of the process in bytes."""
    started = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    first, lines, peak = [], [], [0]

    def listen():
        for line in process.stderr:
            if not first and line.startswith(("Training", "epoch")):
                first.append(time.monotonic() - started)
            lines.append((round(time.monotonic() - started, 1), line.strip()))

    thread = threading.Thread(target=listen)
    thread.start()
    one = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            peak[0] = max(peak[0], one.memory_info().rss)
        except psutil.Error:
            break
        time.sleep(0.05)
    thread.join()
    print(*lines[:3], "...", *lines[-3:], sep="\n")
    if process.returncode:
        raise SystemExit(f"failed with {process.returncode}: {lines[-1:]}")
    print(process.stdout.read())
    return {"seconds_to_progress": first[0], "seconds": time.monotonic() - started, "peak_bytes": peak[0]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--annotators", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=1_500_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "memory.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), arguments.rows, arguments.annotators, arguments.items)
        command = [
            sys.executable,
            "-m",
            "pidual",
            "fit",
            "labels.csv",
            "--x",
            "x.npy",
            "--pi",
            "annotator,seconds",
            "--epochs",
            "1",
        ]
        result = watch(command, folder)
        result["csv_bytes"] = (Path(folder) / "labels.csv").stat().st_size
    print(result)
    write_result(arguments.out, result, rows=arguments.rows, annotators=arguments.annotators, items=arguments.items)
