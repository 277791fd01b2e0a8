"""`pidual export`: what a run says, for other programs: corrected labels, soft labels, the network."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from .common import name_of, writing_file
from .options import PATH, json_option, parse_number, run_argument, server_options, table_option

if TYPE_CHECKING:
    from ..api.run import Run

TABLES = ("csv", "parquet", "jsonl")
ENDINGS = {"hf": "clean.hf", "label-studio": "tasks.json", "argilla": "records.json", "onnx": "onnx", "torch": "pt2"}


@click.command()
@run_argument
@click.argument("out", type=PATH, required=False)
@click.option(
    "--to",
    required=True,
    type=click.Choice([*TABLES, *ENDINGS]),
    help="csv, parquet, jsonl, hf: the table with wrong labels corrected, hf as a dataset of Hugging Face; "
    "label-studio: tasks to check again; argilla: records with corrected responses; onnx, torch: the network.",
)
@click.option("--soft", is_flag=True, help="Write the probability of every class instead, one row per item.")
@click.option(
    "--sure",
    metavar="PERCENT",
    help="Change labels only of items whose consensus is at least this likely, such as 95%; with --soft, write only "
    "these items.",
)
@table_option
@click.option("--push", metavar="URL", help="Write to the tasks of --project on this server of Label Studio instead.")
@server_options
@click.option("--force", is_flag=True, help="Replace OUT.")
@json_option("Print a summary as JSON.")
def export(
    run: Path,
    out: Path | None,
    to: str,
    soft: bool,
    sure: str | None,
    table: Path | None,
    push: str | None,
    project: int | None,
    api_key_file: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the table of a RUN with corrected labels, or its network.

    Labels that look wrong are replaced by the consensus of their item. Decisions of reviewers (`pidual review`) take
    precedence: labels they changed are written, and labels they kept or were unsure about stay.

    OUT is NAME.clean.csv by default, where NAME is the name of the table. In the format the table came in (CSV,
    Parquet, JSON Lines), rows, order, columns, ids and spelling stay the same; in CSV and JSON Lines, only the bytes of
    changed labels differ. A file .changes.csv beside OUT lists the changes with the old label and the reason. OUT
    contains the ids of people as in the table. --to hf (extra hf) writes the directory NAME.clean.hf for
    `datasets.load_from_disk`: all columns with the corrected label, and given_label, label_source (given, reviewed,
    consensus or automatic), label_quality and consensus_quality.

    --soft writes soft labels instead, to NAME.soft.csv. --to onnx and --to torch write the prediction network, which
    takes inputs as the run did and returns the probability of every class: as ONNX (extra onnx), or as a program that
    `torch.export.load` reads, without pidual.

    --to label-studio --push URL --project N (extra label-studio) writes no file: each task that the run was made of
    (`pidual data pull`) gets the consensus as a prediction, and the class that a reviewer decided on as ground truth.
    """
    from ..api.run import Run

    if soft and to not in TABLES:
        raise UsageError(f"--soft writes a table; use it with --to {', '.join(TABLES)}.")
    if (to in ("onnx", "torch") and (sure or table)) or (soft and table):
        raise UsageError("--sure and --table are for the table with corrected labels; leave them out.")
    if push is not None or project is not None or api_key_file is not None:
        if push is None or project is None or to != "label-studio" or out or sure:
            raise UsageError("Pushing takes --to label-studio, --push URL and --project N, and neither OUT nor --sure.")
        from ..data.exports.label_studio import read_key
        from ..show.export import open_table, push_tasks

        opened = Run.open(run)
        counts = push_tasks(opened, open_table(opened, table), push, project, read_key(api_key_file))
        done = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items() if n)
        click.echo(json.dumps(counts) if as_json else f"Project {project}: {done}")
        return
    takes = "--sure takes a share such as 95% or 0.95"
    least = None if sure is None else parse_number(sure, takes, lambda share: 0 <= share <= 1)
    opened = Run.open(run)
    name = name_of(Path(opened.config.data.table))
    out = out or Path(f"{name}.{ENDINGS.get(to) or ('soft.' if soft else 'clean.') + to}")
    beside = _beside(out, to, soft)
    for path in (out, *([beside] if beside else [])):
        if path.exists() and not force:
            raise UsageError(f"{path} exists; choose another name, or replace it with --force.")
    with writing_file(out):
        found, sentence = _write(opened, out, beside, to, soft, least or 0.0, table)
    if least is not None:
        about = _describe_sure(opened, least, soft)
        found, sentence = found | about[0], f"{sentence}\n{about[1]}"
    click.echo(json.dumps({"out": str(out)} | found) if as_json else sentence)


def _beside(out: Path, to: str, soft: bool) -> Path | None:
    """Return the second file that is written, if any."""
    from ..show.export import changes_path

    return changes_path(out) if to in (*TABLES, "argilla", "hf") and not soft else None


def _write(
    run: "Run", out: Path, beside: Path | None, to: str, soft: bool, sure: float, table: Path | None
) -> tuple[dict[str, object], str]:
    """Write what is asked for; what to say about it as JSON, and as text."""
    if to in ("onnx", "torch"):
        from ..show.export.network import write_onnx, write_torch

        worst = write_onnx(run, out) if to == "onnx" else write_torch(run, out)
        checked = "not checked: onnxruntime is not installed" if worst is None else f"within {worst:.1g} of ours"
        return {"max_difference": worst}, f"{out}: the prediction network; its probabilities are {checked}"
    from ..show.export import decide, export_run, export_soft

    if soft:
        frame = export_soft(run, out, to, sure=sure)
        return {"n_items": len(frame)}, f"{out}: the probability of every class for {len(frame):,} items"
    changes = export_run(run, out, to, sure=sure, table=table)
    n_issues = run.summary.n_issues
    found: dict[str, object] = {
        "changes": str(beside) if beside else None,
        "n_changed": len(changes),
        "n_issues": n_issues,
    }
    if to == "label-studio":
        return found, f"{out}: one task for each of {run.config.data.n_items:,} items, doubtful ones first"
    n_reviewed, n_decided = int((changes["source"] == "reviewed").sum()), len(run.reviews)
    n_left = len(decide(run, sure)) - len(changes)
    sentence = f"{out}: {len(changes):,} of {n_issues:,} labels that look wrong changed"
    if n_decided:
        sentence = (
            f"{out}: {len(changes):,} labels changed, {n_reviewed:,} by reviewers, who decided on {n_decided:,}, and "
            f"{len(changes) - n_reviewed:,} that look wrong and nobody decided on"
        )
    elif n_same := int((run.predictions.is_issue & (run.predictions.suggested == run.predictions.given)).sum()):
        sentence += f"; for {n_same:,} others no class is likelier, so check them by hand"
    if n_left:
        sentence += f"; {n_left:,} more stay, as they have no cell of their own or the table has no such label"
    found |= {"n_reviewed": n_reviewed, "n_decided": n_decided, "n_left": n_left}
    return found, f"{sentence}\n{beside}: list of changes"


def _describe_sure(run: "Run", least: float, soft: bool) -> tuple[dict[str, object], str]:
    """Count the items whose consensus is sure enough, and say how many of these are expected to be wrong."""
    from ..detect.sentences import percent
    from ..show.export.label_sets import consensus_sets

    of_sets = run.summary.label_sets is not None
    items, what = run.items, "pairs of item and class" if of_sets and not soft else "items"
    if of_sets and soft:
        items = consensus_sets(run)
    quality = items["consensus_quality"].to_numpy("f8")
    sure = quality[quality >= least]
    wrong = float(1 - sure.mean()) if len(sure) else None
    expected = "" if wrong is None else f"; {percent(wrong)} of them are expected to be wrong"
    counts = f"{len(sure):,} of {len(quality):,} {what} have a consensus that is at least {100 * least:.4g}% likely"
    return {"n_sure": len(sure), "expected_wrong": wrong}, counts + expected
