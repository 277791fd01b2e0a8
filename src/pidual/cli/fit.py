"""`pidual fit`."""

import json
from pathlib import Path
from typing import Any

import click

from ..errors import UsageError
from ..errors.handling import collected_warnings
from ..run.lifecycle import check_directory
from .common import (
    describe_shares,
    ends_in_percent,
    in_percent,
    is_first_process,
    name_of,
    say,
    stop_signals,
    terminal_progress,
    writing,
)
from .job import describe_unused_columns, load_job
from .options import PATH, data_options, json_option, judging_options, quiet_option, training_options
from .refit import fit_again, next_name, read_as_before

DEFAULT = "latent_truth"  # whose own scores nobody needs to know about
NO_VERDICT = {"status": "ok", "reasons": []}  # of an older run
LONG_TABLE = 2e7  # bytes from which on reading it takes long enough to say so


@click.command()
@click.argument("table", type=PATH, required=False)
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
    type=PATH,
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
    "--key-file.",
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
    table: Path | None,
    out: Path | None,
    truth: Path | None,
    from_run: Path | None,
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
    else that is known about how the label was made. Exports of Label Studio, Argilla and doccano, and datasets of
    Hugging Face, are read directly; if you name no input, their text or vectors are used. The result is a run directory
    with the classifier, predictions, annotators and report.html. After a review, --from fits again with the decisions.

    Exits with 1 if the fit failed, that is, if the classifier learned nothing about the labels.
    """
    if table is None and from_run is None:
        raise UsageError("TABLE is missing; give an annotation table, or a run to fit again with --from.")
    if truth and from_run:
        raise UsageError("--truth and --from cannot be used together; give one of them.")
    before = None
    if from_run is not None:
        from ..api.run import Run

        before = Run.open(from_run)
        table, options = read_as_before(before, table, options)
    assert table is not None
    out = out or (Path("runs") / name_of(table) if from_run is None else next_name(from_run))
    check_directory(out, force=force, resume=resume)
    if not quiet and table.is_file() and table.stat().st_size > LONG_TABLE:
        say(f"Reading {table} ({table.stat().st_size / 1e6:,.0f} MB).")
    from ..data import KEY_NAME, read_truth

    with collected_warnings() as warnings:
        read, inputs, fit_options, source = load_job(table, options)
        known = None if truth is None else read_truth(truth, read)
        if before is not None:
            fit_options = fit_again(before, options)
    if not quiet and not any(options[name] for name in ("x", "columns", "text", "probs", "no_x")):
        say(f"Input: {source['x']}. PI: {', '.join(read.pi_columns) or 'none'}.")
    warnings += describe_unused_columns(read, options["pi"] is not None)
    reads = [options["key_file"] or table.parent / KEY_NAME]
    if truth is not None:
        source, reads = source | {"truth": str(truth)}, [*reads, truth]
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
            provenance=Provenance(source, reads, warnings),
            force=force,
            resume=resume,
            save_every=save_every,
            progress=progress,
            stop=stop,
        )
    if is_first_process():
        print_result(run, as_json=as_json)
        if run.summary.get("verdict", NO_VERDICT)["status"] == "failed" and not keep_going:
            raise click.exceptions.Exit(1)


def print_result(run: Any, *, as_json: bool) -> None:
    """What a run found, as JSON or for people."""
    if as_json:
        click.echo(json.dumps({"run": str(run.path), **run.summary}, indent=2))
    else:
        print_summary(run)


def print_summary(run: Any) -> None:
    """What a run found, for people; an older one, whose end is resumed, may say less."""
    from ..show.report.headline import describe_choice, describe_votes

    summary, data = run.summary, run.config["data"]
    precision = describe_precision(summary["detection"]) if "detection" in summary else "."
    verdict = summary.get("verdict", NO_VERDICT)
    restarts = describe_restarts(summary["guard"]["events"])
    if verdict["status"] == "failed":
        click.echo("\n".join([*describe_verdict(verdict), *restarts, f"Report: {run.path / 'report.html'}"]))
        return
    lines = [
        *describe_verdict(verdict),
        f"{data['n_rows']:,} labels of {data['n_items']:,} items; {summary['n_issues']:,} look wrong{precision}",
    ]
    if noise := summary.get("noise"):
        spread = f"{noise['low']:.1%} to {noise['high']:.1%}"
        lines.append(f"Estimated noise: {noise['rate']:.1%} of the labels ({spread}).")
    if consensus := summary.get("consensus"):
        spread = f"{consensus['low']:.1%} to {consensus['high']:.1%}"
        lines.append(f"Consensus: right for {consensus['accuracy']:.1%} of the items ({spread}).")
    if summary.get("from_run"):
        lines += describe_decisions(summary["from_run"])
    if summary["valid_accuracy"] is not None:
        lines.append(f"Agreement with held-out noisy labels: {summary['valid_accuracy']:.1%}.")
    evaluation = summary["evaluation"] or {}
    shown = {"test accuracy": evaluation.get("test_accuracy"), "detection AUC": evaluation.get("detection_auc")}
    native = {} if run.config["method"] == DEFAULT else evaluation.get("score_auc", {})
    shown |= {f"{name.replace('_', ' ')} AUC": auc for name, auc in native.items()}
    known = [f"{title} {value:.4f}" for title, value in shown.items() if value is not None]
    if known:
        lines.append(f"Against clean labels: {', '.join(known)}.")
    lines += [*describe_votes(summary), *describe_choice(summary)]
    lines += [*restarts, f"Report: {run.path / 'report.html'}"]
    click.echo("\n".join(lines))


def describe_precision(found: dict[str, Any]) -> str:
    """The share of the labels that look wrong that should be, for people; nothing where none does."""
    if found["expected_precision"] is None:
        return "."
    ends = ends_in_percent(found["precision_low"], found["precision_high"])
    interval = f" ({' to '.join(ends)})" if ends else ""
    return f", of which {in_percent(found['expected_precision'])} are expected to be{interval}."


def describe_verdict(verdict: dict[str, Any]) -> list[str]:
    """The verdict on the fit, for people: nothing where it is ok."""
    words = {"failed": "Do not use this result: the fit failed.", "doubtful": "Do not rely on this result alone."}
    if verdict["status"] == "ok":
        return []
    return [words[verdict["status"]], *(f"- {reason}" for reason in verdict["reasons"])]


def describe_decisions(about: dict[str, Any]) -> list[str]:
    """What decisions of reviewers have changed, for people."""
    unsure = f" ({about['n_unsure']:,} undecided)" if about["n_unsure"] else ""
    n, others = about["n_consensus_changed"], about["n_others_changed"]
    (issues, now), (rate, rate_now) = about["n_issues"], about["noise_rate"]
    decisions, were = ("decision", "was") if about["n_decisions"] == 1 else ("decisions", "were")
    used = (
        f"{about['n_decisions']:,} {decisions} on {about['run']} {were} used{unsure}: the consensus of {n:,} "
        f"{'item' if n == 1 else 'items'} changed, {others:,} of which nobody looked at; labels that look wrong "
        f"{issues:,} -> {now:,}, estimated noise {rate:.1%} -> {rate_now:.1%}."
    )
    calibration = about.get("calibration")
    return [used] if calibration is None else [used, describe_shares(calibration)]


def describe_restarts(events: list[dict[str, Any]]) -> list[str]:
    """How often training had to begin again, and which networks were left out; the report says why."""
    again = sum(event["action"].startswith("started again") for event in events)
    times = "once" if again == 1 else f"{again} times"
    others = [event for event in events if event["action"] == "left them out"]
    return [
        *([f"Training collapsed and was started again {times} with a smaller learning rate."] if again else []),
        *(f"Training: {event['reason']}, and were left out." for event in others),
    ]
