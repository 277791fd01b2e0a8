"""Planted truth: does `pidual fit` with its defaults state what is true, and does it say where it cannot?

    python benchmarks/planted.py [--seeds 1] [--first 0] [--set attacks,users] [--only NAME,...] [--again] [--out FILE]

planted_tables.py draws the tables: `attacks` break what a fit takes for granted, `users` look as teams have them.
Their files are written to a temporary folder and the command line is run there, so that readers, warnings and exit
codes are part of the result. A row per table and seed (of the draw; the seed of the fit is the default):

    wrong                       share of wrong labels in the table
    noise, low, high            share that the run states, with its interval
    flagged, precision, recall  labels that look wrong, share of them that are, share of the wrong labels among them
    expected                    precision that the run states
    consensus, consensus_stated share of the items whose consensus is right, and what the run states (mean quality)
    bad_on_top                  planted bad annotators among as many that lead the table of annotators, "2 of 2"
    verdict, reasons, warnings  of the run; "refused" where the command stopped, with what it said
    wrong_with_ok               the verdict is ok, but the interval of the noise misses the truth by more than 3 points,
                                or the list states over 15 points more precision than it has, or the consensus over
                                10 points more accuracy; to state less than is true is no such fault

Rows that are there already are not repeated.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pandas as pd
import torch
from common import RESULTS, Log
from planted_tables import REMARKS, SETS, TABLES, WORDS

from pidual.api.run import Run
from pidual.cli import main
from pidual.paper.runs import about

MISSED, OVERSTATED, TOO_SURE = 0.03, 0.15, 0.1  # of the noise beyond its interval, of the precision, of the consensus
NEAR = 0.1  # a stated precision within this is called near


def run_cli(*arguments):
    """Exit code, stdout and stderr of `pidual ARGUMENTS`."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["pidual", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as leaving:
            code = leaving.code
    return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


def fit(table, more=()):
    """A row of columns: the command is run in a folder that holds the table's files alone."""
    wrong = is_wrong(table, table.answers["item"], table.answers["label"])
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        table.write()
        code, _, said = run_cli("fit", *table.options, "--out", "run", "--quiet", *more)
        row = {"rows": len(wrong), "wrong": wrong.mean(), "exit": code}
        if Path("run", "summary.json").exists():
            row |= score(table, Run.open("run"))
        else:
            row |= {"verdict": "refused", "reasons": said.strip().splitlines()[-1:]}
    return {name: round(float(value), 4) if isinstance(value, float) else value for name, value in row.items()}


def score(table, run):
    """Return what a run states, beside what is true."""
    found, items, summary = run.predictions.frame, run.items, run.summary
    wrong = is_wrong(table, found["item"], found["given_label"])
    listed = found["is_label_issue"].to_numpy(bool)
    hits = int((wrong & listed).sum())
    noise, verdict = summary.noise, summary.verdict
    row = {
        "noise": noise.rate,
        "low": noise.low,
        "high": noise.high,
        "flagged": int(listed.sum()),
        "precision": hits / int(listed.sum()) if listed.any() else None,
        "recall": hits / int(wrong.sum()) if wrong.any() else None,
        "expected": summary.detection.expected_precision,
        "consensus": float(1 - is_wrong(table, items["item"], items["consensus_label"]).mean()),
        "consensus_stated": float(items["consensus_quality"].mean()),
        "bad_on_top": bad_on_top(table, run) if table.bad else None,
        "verdict": verdict.status,
        "reasons": verdict.reasons,
        "warnings": summary.warnings,
    }
    return row | {"wrong_with_ok": verdict.status == "ok" and bool(faults(row | {"wrong": float(wrong.mean())}))}


def is_wrong(table, item, label):
    """Whether labels of items mean another class than the true one."""
    given = pd.Series(label).astype(str).map(lambda name: table.same.get(name, name))
    return given.to_numpy() != pd.Series(item).astype(str).map(table.truth).to_numpy()


def bad_on_top(table, run):
    """How many of the worst annotators are those who were planted."""
    people = run.annotators["annotator"].astype(str)
    if "--keep-ids" not in table.options:
        code, listed, _ = run_cli("annotators", str(run.path), "--names")
        assert code == 0
        people = pd.read_csv(io.StringIO(listed))["name"]
    return f"{len({*people[: len(table.bad)]} & {*table.bad})} of {len(table.bad)}"


def faults(row):
    """What a row states that is not so."""
    missed = max(row["low"] - row["wrong"], row["wrong"] - row["high"])
    overstated = (row["expected"] or 0) - (row["precision"] or 0)
    found = {
        "noise": missed > MISSED,
        "list": overstated > OVERSTATED,
        "consensus": row["consensus_stated"] - row["consensus"] > TOO_SURE,
    }
    return [name for name, is_so in found.items() if is_so]


# --- all of them ---


def compare(names, seeds, log, more=(), first=0):
    """Fit what the log does not have of so many seeds from the first on."""
    made = about()
    for name in names:
        for seed in range(first, first + seeds):
            if log.find(table=name, seed=seed) is None:
                log.add({"table": name, "seed": seed, **fit(TABLES[name](seed), more), **made})


def forget(log, names):
    """Drop the rows of these tables."""
    log.rows = [row for row in log.rows if row["table"] not in names]
    log.path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in log.rows))


def percent(value):
    """A share in a cell."""
    return "-" if value is None else f"{100 * value:.1f}"


def cells(row):
    """The cells of a row in Markdown."""
    start = [WORDS[row["table"]], str(row["seed"]), f"{row['rows']:,}", percent(row["wrong"])]
    if row["verdict"] == "refused":
        return [*start, *[""] * 5, f"refused, exit {row['exit']}", ""]
    mark = f"WRONG ({', '.join(faults(row))})" if row["wrong_with_ok"] else ""
    remark = f", {REMARKS[row['table']]}" if mark and row["table"] in REMARKS else ""
    return [
        *start,
        f"{percent(row['noise'])} ({percent(row['low'])}-{percent(row['high'])})",
        f"{row['flagged']:,}: {percent(row['precision'])} / {percent(row['expected'])}",
        percent(row["recall"]),
        f"{percent(row['consensus'])} / {percent(row['consensus_stated'])}",
        row["bad_on_top"] or "-",
        row["verdict"],
        mark + remark,
    ]


def markdown(rows):
    """The rows as a table, and how many of them are wrong with ok or state a precision that is near."""
    names = "planted seed rows wrong_% stated_% list:_n,_right_/_expected_% recall_% consensus:_right_/_stated_%"
    head = [name.replace("_", " ") for name in f"{names} bad_on_top verdict".split()]
    lines = [[*head, ""], ["---"] * 11, *map(cells, rows)]
    wrong = [row for row in rows if row.get("wrong_with_ok")]
    listed = [row for row in rows if row.get("precision") is not None]
    near = sum(abs(row["expected"] - row["precision"]) <= NEAR for row in listed)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + (
        f"\n\nWrong with ok: {len(wrong)} of {len(rows)}, "
        f"{sum(row['table'] not in REMARKS for row in wrong)} of them without a remark. Stated precision within "
        f"{NEAR:.0%} of the true one: {near} of {len(listed)} lists."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="seed to begin with")
    parser.add_argument("--set", type=lambda text: text.split(","), default=list(SETS), help=", ".join(SETS))
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of tables")
    parser.add_argument("--again", action="store_true", help="make rows anew that are there already")
    parser.add_argument("--out", type=Path, default=RESULTS / "planted.jsonl")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for given, there in ((arguments.set, SETS), (arguments.only or [], TABLES)):
        if unknown := [name for name in given if name not in there]:
            parser.error(f"there is no {unknown[0]}; there are {', '.join(there)}")
    chosen = [name for each in arguments.set for name in SETS[each]]
    names = [name for name in chosen if name in (arguments.only or chosen)]
    log = Log(arguments.out, "table", "seed")
    if arguments.again:
        forget(log, names)
    compare(names, arguments.seeds, log, first=arguments.first)
    order = {name: number for number, name in enumerate(TABLES)}
    rows = sorted(log.rows, key=lambda row: (order[row["table"]], row["seed"]))
    for each in arguments.set:
        if shown := [row for row in rows if row["table"] in SETS[each]]:
            print(f"\n{each}\n\n{markdown(shown)}")
