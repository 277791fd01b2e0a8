"""Time and peak memory of long tables: read, fitted by one process, and fitted by several.

    python benchmarks/memory.py [fit read processes] [--rows 100000,1000000,10000000] [--processes 1,2,4] [--folder DIR]

Tables are drawn: people of different skill answer about items of ten classes, four answers to an item, each with its
seconds. Everything runs as a process of its own on one thread; a row has its seconds of processor time, those on the
clock, and its largest resident memory, pages of files among it.

    fit        `pidual fit` on Parquet parts: the answers, and 256 numbers for each item, joined by the item's name
    read       `read_table` of all columns from one CSV or Parquet file, beside polars, which reads the file and no more
    processes  `torchrun -m pidual fit` of a table so large that its sums are shared, and by how much what it states
               about labels differs from what one process states

Rows of the same part and size are replaced, others stay; each has its commit.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from common import RESULTS, run_apart, write_result
from paper_table import markdown

from pidual.paper.runs import commit

OUT = RESULTS / "memory.json"
CLASSES, ANSWERS, FEATURES = 10, 4, 256
PARTS = {"fit": [10**5, 10**6, 10**7], "read": [10**6, 10**7], "processes": [136_000]}
PART = 250_000  # items whose features and answers are in one file
READERS = {
    "pidual": "from pidual import read_table; read_table({0!r}, pi=['annotator', 'seconds'], keep_ids=True)",
    "polars": "import polars; polars.read_{1}({0!r})",
}


def draw(n_items, n_features, *, signal=0.15, folded=False):
    """Answers and features of the items of every part, as Arrow tables; folded, no class is on one side of a plane."""
    rng = np.random.default_rng(0)
    n_people = max(100, n_items // 500)
    centres, skill = rng.normal(size=(CLASSES, n_features)), rng.beta(4, 2, n_people)
    people = pa.array([f"worker-{who}" for who in range(n_people)])
    classes = pa.array([f"class-{k}" for k in range(CLASSES)])
    for start in range(0, n_items, PART):
        number = np.arange(start, min(start + PART, n_items))
        names, y = pa.array([f"item-{n}" for n in number.tolist()]), rng.integers(0, CLASSES, len(number))
        x = rng.standard_normal((len(number), n_features), dtype=np.float32)
        side = rng.choice([-1, 1], len(number)) if folded else np.ones(len(number))
        x += ((signal * centres)[y] * side[:, None]).astype(np.float32)
        at, step = np.repeat(np.arange(len(number)), ANSWERS), rng.integers(1, n_people // ANSWERS, len(number))
        first = rng.integers(0, n_people, len(number))  # the others follow at equal steps: nobody answers twice
        who = (first[:, None] + step[:, None] * np.arange(ANSWERS)).ravel() % n_people
        wrong = rng.random(len(at)) > skill[who]
        label = np.where(wrong, rng.integers(0, CLASSES, len(at)), y[at])
        seconds = rng.gamma(2, 4, len(at)) * np.where(wrong, 0.5, 1)
        answers = {
            "item": names.take(pa.array(at)),
            "annotator": people.take(pa.array(who)),
            "seconds": seconds.round(2),
        }
        answers = pa.table(answers | {"label": classes.take(pa.array(label))})
        yield answers, pa.table({"item": names} | {f"f{place}": column for place, column in enumerate(x.T.copy())})


def fit(folder, rows):
    """A row for a fit of answers and features in Parquet parts."""
    for name in ("labels", "x"):
        (folder / name).mkdir()
    for number, tables in enumerate(draw(rows // ANSWERS, FEATURES)):
        for name, table in zip(("labels", "x"), tables, strict=True):
            pyarrow.parquet.write_table(table, folder / name / f"{number:03}.parquet", use_dictionary=name == "labels")
    command = [
        "fit",
        "labels",
        "--x",
        "x/*.parquet",
        "--pi",
        "annotator,seconds",
        "--keep-ids",
        "--out",
        "run",
        "--quiet",
    ]
    used = run_apart(["-m", "pidual", *command])
    files = {name: sum(path.stat().st_size for path in (folder / name).iterdir()) for name in ("labels", "x", "run")}
    yield {"items": rows // ANSWERS, **used, **{f"{name}_bytes": size for name, size in files.items()}}


def read(folder, rows):
    """A row for each kind of file and each reader."""
    table = pa.concat_tables(answers for answers, _ in draw(rows // ANSWERS, 1))
    for kind in ("csv", "parquet"):
        path = folder / f"labels.{kind}"
        (pyarrow.csv.write_csv if kind == "csv" else pyarrow.parquet.write_table)(table, path)
        for name, code in READERS.items():
            start = run_apart(["-c", code.partition(";")[0]])  # what importing takes
            used = run_apart(["-c", code.format(str(path), kind)], POLARS_MAX_THREADS="1")
            yield {
                "file": kind,
                "bytes": path.stat().st_size,
                "reader": name,
                **used,
                "import_megabytes": start["megabytes"],
            }


def fit_by(folder, rows, counts):
    """A row for each number of processes: what is stated about labels must be the same."""
    from pidual.run.predictions import read_frame

    n_items = rows // ANSWERS
    tables = list(draw(n_items, 16, signal=1.0, folded=True))  # kernels with landmarks, whose sums are shared
    pyarrow.parquet.write_table(pa.concat_tables(answers for answers, _ in tables), folder / "labels.parquet")
    pyarrow.parquet.write_table(pa.concat_tables(x for _, x in tables), folder / "x.parquet")
    first = None
    for n in counts:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)] if n > 1 else []
        command = ["fit", "labels.parquet", "--x", "x.parquet", "--pi", "annotator,seconds", "--keep-ids", "--quiet"]
        used = run_apart([*launcher, "-m", "pidual", *command, "--out", f"run-{n}"])
        found = read_frame(folder / f"run-{n}" / "predictions.parquet")
        first = found if first is None else first
        away = {
            "largest_difference": float(np.abs(found["label_quality"] - first["label_quality"]).max()),
            "other_issues": int((found["is_label_issue"] != first["is_label_issue"]).sum()),
            "other_consensus": int((found["consensus_label"] != first["consensus_label"]).sum()),
        }
        yield {"items": n_items, "processes": n, **used, **away}


def keep(part, size, rows):
    """Write rows in place of those of the same part and size."""
    known = json.loads(OUT.read_text())["results"] if OUT.exists() else []
    known = [each for each in known if (each["part"], each["rows"]) != (part, size)]
    known += [{"part": part, "rows": size, **row, "commit": commit()} for row in rows]
    write_result(OUT, sorted(known, key=lambda each: (list(PARTS).index(each["part"]), each["rows"])))


def tables():
    """Those of docs/for/scale.md."""
    rows = json.loads(OUT.read_text())["results"]
    of = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    growth = [
        {
            "answers": f"{row['rows']:,}",
            "items": f"{row['items']:,}",
            "x in Parquet": f"{row['x_bytes'] / 1e9:.2f} GB",
            "processor time": f"{row['seconds']:.0f} s",
            "peak memory": f"{row['megabytes'] / 1000:.1f} GB",
        }
        for row in of["fit"]
    ]
    readers = [
        {
            "rows": f"{row['rows']:,}",
            "file": f"{row['file']}, {row['bytes'] / 1e6:.0f} MB",
            "reader": row["reader"],
            "processor time": f"{row['seconds']:.1f} s",
            "peak memory": f"{row['megabytes']:,} MB",
            "of these, imports": f"{row['import_megabytes']:,} MB",
        }
        for row in of["read"]
    ]
    processes = [
        {
            "processes": row["processes"],
            "largest difference of a label_quality": f"{row['largest_difference']:.0e}",
            "other labels marked": row["other_issues"],
            "other consensus": row["other_consensus"],
            "processor time of all": f"{row['seconds']:.0f} s",
        }
        for row in of["processes"]
    ]
    made = {"growth": growth, "reading": readers, "processes": processes}
    without = "Not in the result file yet; `python benchmarks/memory.py` writes it."
    return {name: markdown(pd.DataFrame(found)) if found else without for name, found in made.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--rows", type=lambda text: [int(float(n)) for n in text.split(",")])
    parser.add_argument("--processes", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--folder", type=Path, help="where tables are drawn; by default where temporary files are")
    arguments = parser.parse_args()
    for part in arguments.parts:
        for size in arguments.rows or PARTS[part]:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                os.chdir(folder)
                more = (arguments.processes,) if part == "processes" else ()
                way = {"fit": fit, "read": read, "processes": fit_by}[part]
                rows = []
                for row in way(Path(folder), size, *more):
                    print(part, size, row, flush=True)
                    rows.append(row)
                os.chdir(RESULTS)
            keep(part, size, rows)
