"""Keep the results of `pidual benchmark` and of benchmarks/what_if.py in this repository.

    python benchmarks/pack.py OUT

OUT has a file for every fit; `results/benchmark/` gets one JSON Lines file for every dataset and scale, a line a fit.
A line is the result without what is long: epoch by epoch history (its last record stays, as `end`),
histograms, examples, and the resolved options, which commit and settings imply. A fit that is there already is
replaced. Then `python benchmarks/tables.py` puts the numbers into the docs.
"""

import argparse
import json
import shutil
from pathlib import Path

from common import FITS, read_fits

from pidual.files import write_text
from pidual.paper.analyses import OVER_SEEDS
from pidual.paper.runs import words_of
from pidual.paper.summary import read_results

LONG = ("history", "histograms", "examples", "resolved")


def pack(result):
    """The line of a result."""
    row = {name: value for name, value in result.items() if name not in LONG}
    return row | {"end": result["history"][-1]}


def place(row):
    """Where a line belongs: its file, and its rank in it, that of the result file's name."""
    words = [row["method"], *words_of(row["variant"]), f"{row['seed']}.json"]
    return f"{row['scale']}-{row['dataset'].replace(':', '-')}", "-".join(words)


def write_fits(rows, folder):
    """Write a file for every dataset and scale."""
    for name in dict.fromkeys(place(row)[0] for row in rows):
        found = sorted((row for row in rows if place(row)[0] == name), key=place)
        lines = [json.dumps(row, separators=(",", ":"), allow_nan=False) for row in found]
        write_text(folder / f"{name}.jsonl", "\n".join(lines) + "\n")
        print(f"written: {folder / name}.jsonl, {len(found)} fits")


def copy_analyses(out, folder):
    """Figures of the analyses, and the tables that the fits' lines do not imply."""
    for path in sorted((out / "analyses").glob("*")):
        if path.suffix == ".svg" or path.stem.rpartition("-")[2] not in OVER_SEEDS:
            shutil.copy(path, folder / "analyses" / path.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--into", type=Path, default=FITS)
    arguments = parser.parse_args()
    (arguments.into / "analyses").mkdir(parents=True, exist_ok=True)
    kept = {place(row): row for row in read_fits(arguments.into)}
    kept |= {place(row): row for row in map(pack, read_results(arguments.out))}
    write_fits(list(kept.values()), arguments.into)
    copy_analyses(arguments.out, arguments.into)
