"""`pidual detect` and `pidual report`: what a run, or any classifier, says about labels."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..errors import RunError, TooManyIssues, UsageError
from .common import check_ending, print_table, said_warnings, say, write_table
from .options import PATH, json_option, names, parse_number, run_argument, unquoted

DIGITS = 4  # of shares and scores in CSV

if TYPE_CHECKING:
    import pandas as pd

    from ..detect import Choice
    from ..run.predictions import Predictions
    from ..run.records.summary import GoldEstimates, Judged


@click.command()
@click.argument("run", required=False, type=PATH)
@click.option(
    "--labels", metavar="FILE", help="Instead of a RUN: given labels, one per row (.npy, or FILE:COLUMN of a table)."
)
@click.option(
    "--probs",
    metavar="FILE",
    help="With --labels: class probabilities, one row per label, from a classifier not trained on it (.npy).",
)
@click.option(
    "--annotator", metavar="FILE", help="With --labels: who gave each label (.npy, or a column of the table)."
)
@click.option("--items", metavar="FILE", help="With --labels: names of the rows (.npy, or a column of the table).")
@click.option("--classes", metavar="NAMES", callback=names, help="With --labels: names of the columns of --probs.")
@click.option(
    "--cutoff",
    default=None,
    metavar="auto|reviewed|NUMBER",
    help="List the labels with a quality below this; reviewed: below the cut-off based on decisions of reviewers.  "
    "[default: auto, the labels that look wrong]",
)
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="List the N labels of lowest quality instead.")
@click.option(
    "--per-class",
    metavar="N|PERCENT",
    help="List the N labels (or this share) of lowest quality in each given class instead, rare ones included.",
)
@click.option(
    "--resting",
    is_flag=True,
    help="List labels that are the consensus only because of themselves instead (with --budget, the N worst of them).",
)
@click.option("--class", "only", multiple=True, metavar="NAME", help="List only labels of this class; repeatable.")
@click.option(
    "--by",
    multiple=True,
    metavar="ID",
    help="List only labels by this annotator, named as in `pidual annotators`; repeatable.",
)
@click.option(
    "--fail-over",
    metavar="PERCENT",
    help="Exit with 3 if more than this share of the labels, such as 5%, look wrong, and with 1 if the fit failed.",
)
@click.option(
    "--out",
    type=PATH,
    help="CSV, Parquet or JSON file for the labels. In CSV, text that a spreadsheet would run as a formula, such as "
    "=1+1, gets an apostrophe in front, which pidual removes on reading.  [default: CSV on stdout]",
)
@json_option("Print counts and cut-off as JSON instead of the labels.")
def detect(
    run: Path | None,
    cutoff: str | None,
    budget: int | None,
    per_class: str | None,
    resting: bool,
    only: tuple[str, ...],
    by: tuple[str, ...],
    fail_over: str | None,
    out: Path | None,
    as_json: bool,
    **files: Any,
) -> None:
    """List labels that look wrong, the most suspicious first, with reasons.

    Reads a RUN, which is not changed, or labels and the probabilities of your own classifier (--labels and --probs).
    """
    from ..detect import Choice, list_labels

    check_ending(out, (".csv", ".parquet", ".json"))
    share = limit = None
    if per_class is not None:
        takes = "--per-class takes a number of labels such as 20 or a share such as 5%"
        share = parse_number(per_class, takes, lambda n: 0 < n < 1 or (n % 1 == 0 < n and not per_class.endswith("%")))
    if fail_over is not None:
        limit = parse_number(fail_over, "--fail-over takes a share such as 5% or 0.05", lambda n: 0 <= n <= 1)
    choice = Choice(_parse_cutoff(cutoff, run), budget, share, only, by, resting)
    if limit is not None and choice != Choice(choice.cutoff):
        raise UsageError(
            "--fail-over counts all labels that look wrong; leave out options that list other labels or only some."
        )
    with said_warnings():
        found = _of_files(run, **files) if run is None or any(files.values()) else _of_run(run)
    if limit is not None and found.failure:
        raise RunError(found.failure)
    listed = list_labels(found.predictions, choice, found.about)
    listed = listed if run is not None else listed.drop(columns="split")  # nothing was held out
    own = [name for name in listed if name not in found.predictions.pi_columns and listed[name].dtype.kind == "f"]
    plain = listed.astype(dict.fromkeys(own, "float64")).round(dict.fromkeys(own, DIGITS))
    if out is not None:
        write_table(plain if out.suffix == ".csv" else listed, out)
    _describe(found, choice, listed, as_json=as_json)
    if out is None and not as_json:
        print_table(plain)
    n = len(found.predictions)
    if limit is not None and len(listed) / n > limit:
        raise TooManyIssues(
            f"{len(listed):,} of {n:,} labels look wrong ({len(listed) / n:.1%}), more than the {limit:.1%} allowed."
        )


class _Found(NamedTuple):
    """What is known about all labels, by a fit or a judgement; `failure` says why they must not be counted."""

    predictions: "Predictions"
    summary: "Judged"
    what: str
    failure: str | None
    calibration: "GoldEstimates | None" = None
    about: "pd.Series[str] | None" = None


def _of_run(path: Path) -> _Found:
    from ..api.run import Run

    run, failure = Run.open(path), None
    verdict = run.summary.verdict
    if verdict.status == "failed":
        why = verdict.reasons[0] if verdict.reasons else "training collapsed"
        failure = f"The fit in {run.path} failed ({why.rstrip('.')}), so its labels were not judged; fit again."
    return _Found(run.predictions, run.summary, "fit", failure, run.calibration, run.about_items)


def _of_files(
    run: Path | None,
    labels: str | None,
    probs: str | None,
    annotator: str | None,
    items: str | None,
    classes: list[str] | None,
) -> _Found:
    if run is not None:
        raise UsageError("Give a RUN, or --labels and --probs, not both: the labels of a run have been judged already.")
    if labels is None or probs is None:
        raise UsageError("Give a RUN, or both labels and probabilities, with --labels and --probs.")
    from ..api.label_issues import judge_given
    from ..data.given import read_given, read_values

    given = read_given(
        read_values(labels, "labels"),
        Path(probs),
        classes=[unquoted(name)[0] for name in classes] if classes else None,
        annotators=None if annotator is None else read_values(annotator, "annotator", labels),
        items=None if items is None else read_values(items, "items", labels),
        source=labels,
    )
    predictions, summary = judge_given(given)
    failed = summary.verdict.status == "failed"
    failure = f"{labels} cannot be judged by {probs}. {summary.verdict.reasons[0]}" if failed else None
    return _Found(predictions, summary, "judgement", failure)


def _describe(found: _Found, choice: "Choice", listed: "pd.DataFrame", *, as_json: bool) -> None:
    """Say how many labels are listed and how many of them are expected to be wrong."""
    from ..detect import expected_precision
    from ..detect.sentences import describe_calibration, describe_gold, describe_list

    summary, n = found.summary, len(found.predictions)
    stated = summary.detection if choice == type(choice)() else None  # of the labels that look wrong
    precision = expected_precision(listed["label_quality"]) if stated is None else stated.expected_precision
    if as_json:
        known = ("estimated_noise_rate", "noise", "n_issues", "cutoff", "verdict")
        counts = {"n_listed": len(listed), "n_rows": n, "share": len(listed) / n, "expected_precision": precision}
        name = "gold" if found.calibration is None or found.calibration.cutoff is None else "reviewed"
        reviewed = {} if found.calibration is None else {name: found.calibration.to_json()}
        values = summary.to_json()
        click.echo(json.dumps(counts | {name: values[name] for name in known} | reviewed, indent=2))
        return
    verdict = summary.verdict
    if verdict.status != "ok":
        state = "failed" if verdict.status == "failed" else f"is {verdict.status}"
        say(f"Warning: the {found.what} {state}: {' '.join(verdict.reasons)}")
    expected = None if verdict.status == "failed" else precision
    if text := describe_list(len(listed), expected, stated, resting=choice.resting):
        say(text)
    if found.calibration is not None:
        decided = found.calibration.cutoff is not None
        say(describe_calibration(found.calibration) if decided else "\n".join(describe_gold(found.calibration)))


def _parse_cutoff(text: str | None, path: Path | None) -> float | None:
    """Parse a number between 0 and 1, or find the cut-off by what reviewers decided on a run; None for auto."""
    if text is None or text == "auto":
        return None
    if text != "reviewed":
        takes = "--cutoff takes auto, reviewed or a number between 0 and 1"
        return parse_number(text, takes, lambda n: 0 <= n <= 1)
    from ..api.run import Run

    found = None if path is None else Run.open(path).calibration
    if found is None or found.cutoff is None:
        raise UsageError("--cutoff reviewed needs a RUN with decisions on at least ten items (`pidual review`).")
    return found.cutoff


@click.command()
@run_argument
def report(run: Path) -> None:
    """Build the report of a RUN again and print its path."""
    from ..api.run import Run

    opened = Run.open(run)
    with opened.writing("report.html"):
        click.echo(opened.report())
