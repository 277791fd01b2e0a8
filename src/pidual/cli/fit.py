"""`pidual fit`."""

import json
from pathlib import Path
from typing import Any

import click

from ..errors import UsageError
from ..errors.messages import collected_warnings
from ..files import without_passwords
from ..run.lifecycle import check_directory
from .common import is_first_process, name_of, next_name, say, stop_signals, terminal_progress, writing
from .job import fit_again, load_job, read_as_before
from .options import PATH, PLACE, data_options, json_option, judging_options, quiet_option, training_options

LONG_TABLE = 2e7  # bytes from which on reading it takes long enough to say so


@click.command()
@click.argument("table", type=PLACE, required=False)
@data_options
@judging_options
@click.option(
    "--out",
    type=PATH,
    metavar="DIR",
    help="Run directory.  [default: runs/<name of TABLE>; with --from, that of RUN with -2, -3 and so on]",
)
@training_options
@click.option(
    "--truth",
    type=PLACE,
    metavar="FILE",
    help="Table of known classes, e.g. from a review: columns item and truth (or y, or label).",
)
@click.option(
    "--from",
    "from_run",
    type=PATH,
    metavar="RUN",
    help="Fit the data of RUN again with its options, and use the decisions of its reviewers (`pidual review`) as "
    "known classes. Starts from what RUN knows about annotators. If files have moved, pass TABLE, --x, --probs or "
    "--key-file; a model that is not on the hub needs --embed again.",
)
@click.option(
    "--control",
    is_flag=True,
    help="Fit once more with PI shuffled among the rows, and say what PI was worth on held-out items; for methods that "
    "train on PI, such as pi_dual.",
)
@click.option(
    "--save-every",
    type=click.FloatRange(min=0),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two resume points.",
)
@click.option("--resume", is_flag=True, help="Continue the run in --out if there is one.")
@click.option(
    "--force", is_flag=True, help="Replace the run in --out when this one is finished; other files there stay."
)
@click.option("--keep-going", is_flag=True, help="Exit with 0 even if the verdict on the fit is failed.")
@json_option("Print the summary as JSON.")
@quiet_option
def fit(
    table: Path | str | None,
    out: Path | None,
    truth: Path | str | None,
    from_run: Path | None,
    control: bool,
    resume: bool,
    force: bool,
    keep_going: bool,
    as_json: bool,
    quiet: bool,
    save_every: float,
    **options: Any,
) -> None:
    """Train on an annotation TABLE, find wrong labels and write a report.

    TABLE (CSV, Parquet, JSON or JSON Lines) has one row per annotation: the item, its label, who gave it, and anything
    else that is known about how the label was made. A folder, a pattern ('parts/*.parquet') or an address (s3://...)
    of such files is one table. Exports of Label Studio, Argilla, doccano, Prodigy and Potato, and datasets of
    Hugging Face, are read directly; if you name no input, their text or vectors are used. The result is a run directory
    with the classifier, predictions, annotators and report.html. After a review, --from fits again with the decisions.

    Exits with 1 if the fit failed, that is, if the classifier learned nothing about the labels.
    """
    if table is None and from_run is None:
        raise UsageError("TABLE is missing; give an annotation table, or a run to fit again with --from.")
    before = None
    if from_run is not None:
        from ..api.run import Run

        before = Run.open(from_run)
        table, options = read_as_before(before, table, options)
    assert table is not None
    out = out or (Path("runs") / name_of(table) if from_run is None else next_name(from_run))
    check_directory(out, force=force, resume=resume)
    if not quiet and isinstance(table, Path) and table.is_file() and table.stat().st_size > LONG_TABLE:
        say(f"Reading {table} ({table.stat().st_size / 1e6:,.0f} MB).")
    from ..data import key_path, read_truth

    with collected_warnings() as warnings:
        read, inputs, fit_options, source = load_job(table, options, quiet=quiet, advise=True)
        known = None if truth is None else read_truth(truth, read)
        if before is not None:
            fit_options = fit_again(before, options)
    if not quiet and not any(options[name] for name in ("x", "columns", "text", "probs", "no_x")):
        say(f"Input: {source['x']}. PI: {', '.join(read.pi_columns) or 'none'}.")
    reads = [options["key_file"] or key_path(table)]
    if truth is not None:
        source, reads = source | {"truth": without_passwords(str(truth))}, [*reads, truth]
    from ..api.fit import fit_table
    from ..fit.options import Provenance

    with terminal_progress(quiet) as progress, stop_signals() as stop, writing(out):
        run = fit_table(
            read,
            inputs,
            out,
            fit_options,
            truth=known,
            from_run=before,
            control=control,
            provenance=Provenance(source, reads, warnings),
            force=force,
            resume=resume,
            save_every=save_every,
            progress=progress,
            stop=stop,
        )
    if is_first_process():
        if as_json:
            click.echo(json.dumps({"run": str(run.path), **run.summary.to_json()}, indent=2))
        else:
            from ..detect.sentences import describe_run

            lines = describe_run(run.config, run.summary)
            click.echo("\n".join([*lines, f"Report: {run.path / 'report.html'}"]))
        if run.summary.verdict.status == "failed" and not keep_going:
            raise click.exceptions.Exit(1)
