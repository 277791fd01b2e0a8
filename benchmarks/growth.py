"""How the default's processor time and memory grow, beside 0.2.0 and five folds of logistic regression.

    PIDUAL_DATA=DIR python benchmarks/growth.py ratios --before CHECKOUT [--repeats 2]
    python benchmarks/growth.py growth [--only 1000000x256x10x1,...]

Each fit is a process of its own on one thread, and the ways take turns (closed_form.py has them, and what is timed:
preparing, fitting and judging). A row has the median seconds of processor time over the repeats, and the megabytes
that a fit takes beyond those in use before it.

    ratios    the default now, that of CHECKOUT (0.2.0 trained 25 networks), and five folds, on crowds and a drawn table
    growth    the default, and five folds where these take minutes at most, on drawn tables of
              items x features x classes x answers to an item; a million items are read from a memory map
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import closed_form
import numpy as np
from common import RESULTS, write_result

OUT = RESULTS / "growth.json"
CROWDS = ("labelme", "medical_treat", "digits_low_1", "20000x128")
SIZES = (
    *(f"{n}x128x10x2" for n in (5000, 10000, 20000, 40000, 80000)),
    *(f"20000x{d}x10x2" for d in (32, 512)),
    "3000x10000x10x2",
    *(f"20000x128x{k}x2" for k in (40, 100, 1000)),
    *(f"20000x128x10x{answers}" for answers in (1, 4, 8)),
)
FOLDS_NUMBERS = 30_000_000  # items x features x classes up to which five folds are tried
MAPPED = 10**6  # items that are written to a file first


def measure(name, ways, repeats):
    """A row: the median seconds of each way, and the most megabytes of the default."""
    found = {way: [] for way in ways}
    for _ in range(repeats):
        for way, source in ways.items():
            found[way].append(closed_form.in_process("now" if way == "before" else way, name, source))
    row = {"data": name}
    for way, values in found.items():
        row[way] = round(statistics.median(seconds for seconds, _ in values), 2)
    return row | {"megabytes": round(max(megabytes for _, megabytes in found["now"]))}


def mapped(n, d, k):
    """One answer to each of n items, whose features are in a file; made in parts."""
    from pidual.data import Inputs
    from pidual.data.datasets.base import NoisyDataset
    from pidual.data.datasets.synthetic import make_crowd

    folder = tempfile.TemporaryDirectory()
    rng = np.random.default_rng(0)
    y, centres = rng.integers(0, k, n), rng.normal(size=(k, d)).astype(np.float32)
    path = Path(folder.name) / "x.npy"
    x = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for start in range(0, n, 2**16):
        some = y[start : start + 2**16]
        x[start : start + 2**16] = 0.4 * centres[some] + rng.normal(size=(len(some), d))
    x.flush()
    del x
    small = make_crowd(100, 50, 1, n_classes=k, n_features=2, seed=0).frame.iloc[:1]
    wrong = rng.random(n) < 0.3
    columns = {"item": np.arange(n), "annotator": rng.integers(0, 50, n), "seconds": rng.gamma(2, 4, n)}
    frame = type(small)(columns | {"label": np.where(wrong, rng.integers(0, k, n), y), "y": y})
    inputs = Inputs.from_array(np.load(path, mmap_mode="r"), np.arange(n), source="x.npy")
    pi = {"annotator": "category", "seconds": "duration"}
    classes = [str(one) for one in range(k)]
    return NoisyDataset("mapped", frame, pi, inputs, np.zeros((0, d), np.float32), y[:0], classes), folder


def time_mapped(name):
    """Print what closed_form.time_one does, of a table whose x is a memory map."""
    import resource

    import torch

    torch.set_num_threads(1)
    n, d, k, _ = map(int, name.split("x"))
    data, folder = mapped(n, d, k)
    with folder:
        closed_form.ours(closed_form.load("60x5x3x2"))
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        closed_form.ours(data)
        seconds = time.process_time() - started
        print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))


def measure_mapped(name):
    """A row of a table whose x is a memory map, in a process of its own."""
    import subprocess

    done = subprocess.run([sys.executable, __file__, "one", "--only", name], capture_output=True, text=True, check=True)
    seconds, megabytes = json.loads(done.stdout.splitlines()[-1])
    return {"data": name, "now": round(seconds, 2), "megabytes": round(megabytes), "mapped": True}


def keep(rows):
    """Write rows in place of those of the same data and ways; others stay."""
    old = json.loads(OUT.read_text())["results"] if OUT.exists() else []
    there = {(row["data"], "before" in row) for row in rows}
    write_result(OUT, [*(row for row in old if (row["data"], "before" in row) not in there), *rows])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("ratios", "growth", "one"))
    parser.add_argument("--before", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", type=lambda text: text.split(","))
    arguments = parser.parse_args()
    if arguments.part == "one":
        time_mapped(arguments.only[0])
        sys.exit()
    own = Path(__file__).parents[1]
    for name in arguments.only or (CROWDS if arguments.part == "ratios" else SIZES):
        sizes = [int(part) for part in name.split("x")] if name[0].isdigit() else []
        ways = {"now": own}
        if arguments.part == "ratios":
            ways |= {"before": arguments.before, "folds": own}
        elif int(np.prod(sizes[:3], dtype=np.int64)) <= FOLDS_NUMBERS:
            ways["folds"] = own
        row = measure_mapped(name) if sizes and sizes[0] >= MAPPED else measure(name, ways, arguments.repeats)
        print(row, flush=True)
        keep([row | {"repeats": arguments.repeats}])
