"""The command line: parse, call the library, print. Data on stdout, everything else on stderr.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 too many issues, 130 interrupted. torch is imported inside the commands
that need it.
"""

import contextlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .errors import DataError, DataWarning, PidualError, TooManyIssues, UsageError

if TYPE_CHECKING:
    import pandas as pd

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def main() -> None:
    """Run the command line; errors made for users are one sentence without a traceback."""
    try:
        with said_warnings():
            code = cli.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        if is_first_process():
            error.show()
        sys.exit(error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        say("Interrupted.")
        sys.exit(130)
    except TooManyIssues as error:
        say(str(error))
        sys.exit(error.exit_code)
    except PidualError as error:
        say(f"Interrupted: {error}; continue with --resume." if error.exit_code == 130 else f"Error: {error}")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        say(f"Error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}.")
        sys.exit(1)


def is_first_process() -> bool:
    """Whether this is the only process, or the first of several."""
    return os.environ.get("RANK", "0") == "0"


def say(text: str) -> None:
    """A line for people, on stderr, from the first process only."""
    if is_first_process():
        click.echo(text, err=True)


@contextlib.contextmanager
def said_warnings() -> Iterator[None]:
    """Show a warning about the data as a sentence, without the line of code it came from."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        show = warnings.showwarning

        def say_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, DataWarning):
                say(f"Warning: {message}")
            else:
                show(message, category, *place, **more)

        warnings.showwarning = say_warning
        yield


@click.group(context_settings=CONTEXT)
@click.version_option(package_name="pidual")
def cli() -> None:
    """Learn from labels you cannot fully trust, using what you know about how each label was made.

    \b
    pidual demo                                          see it work, in two minutes
    pidual fit labels.csv --x features.npy --pi annotator,seconds
    pidual report runs/labels                            what came out
    """


def names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """A comma-separated list."""
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def parse_settings(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value is JSON where it can be (0.1, true, null, [1, 2]), else text."""
    parsed = {}
    for pair in value:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"'{pair}' is not of the form KEY=VALUE.")
        try:
            parsed[key.strip()] = json.loads(text)
        except json.JSONDecodeError:
            parsed[key.strip()] = None if text.lower() == "none" else text
    return parsed


@cli.command()
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--x", "x", metavar="PATH", help="Inputs: .npy, .npz, CSV or Parquet with numeric columns, or a folder of images."
)
@click.option(
    "--x-columns",
    "columns",
    callback=names,
    metavar="A,B,...",
    help="Input columns, of --x or (without --x) of TABLE itself.",
)
@click.option(
    "--x-text",
    "text",
    metavar="COLUMN",
    help="Input is text: the column of --x, or (without --x) of TABLE, that holds it.",
)
@click.option(
    "--image-size", type=click.IntRange(min=1), metavar="PIXELS", help="Resize images to this many pixels a side."
)
@click.option("--item", metavar="COLUMN", help="Column that names the item.  [default: item or task]")
@click.option("--label", metavar="COLUMN", help="Column of the given label.  [default: label]")
@click.option("--annotator", metavar="COLUMN", help="Column of the annotator.  [default: annotator or worker]")
@click.option(
    "--pi",
    callback=names,
    metavar="A,B,...",
    help="Privileged information: what is known of how each label was made. NAME or NAME:KIND, where KIND is category, "
    "number or duration.  [default: the annotator]",
)
@click.option("--y", metavar="COLUMN", help="Clean label, for evaluation only.  [default: y if there is one]")
@click.option("--split", metavar="COLUMN", help="Column with train, valid or test.  [default: split if there is one]")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Run directory.  [default: runs/<name of TABLE>]"
)
@click.option("--method", default="pi_dual", show_default=True, help="See `pidual methods`.")
@click.option(
    "--setting",
    default="default",
    show_default=True,
    type=click.Choice(["default", "paper"]),
    help="Where options that are not given come from.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=parse_settings,
    metavar="KEY=VALUE",
    help="Any option of the method, of training or of the network (network.KEY=VALUE); repeatable.",
)
@click.option("--network", metavar="NAME", help="mlp, small_cnn, wrn_28_10 or resnet50.  [default: by the inputs]")
@click.option("--epochs", type=int, help="Passes over the data.")
@click.option("--batch-size", type=int, help="Rows per step.")
@click.option("--lr", type=float, help="Learning rate.")
@click.option(
    "--valid-fraction",
    type=float,
    default=0.1,
    show_default=True,
    help="Share of items held out as noisy validation set.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of everything random.")
@click.option("--precision", help="32-true, bf16-mixed, ...")
@click.option("--accelerator", default="auto", show_default=True, help="cpu, cuda, ...")
@click.option("--keep-ids", is_flag=True, help="Keep annotator ids as they are instead of pseudonyms.")
@click.option(
    "--key-file",
    type=click.Path(path_type=Path),
    help="Secret key of the pseudonyms.  [default: .pidual.key beside TABLE]",
)
@click.option(
    "--save-every",
    type=click.FloatRange(min=0),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two resume points.",
)
@click.option("--resume", is_flag=True, help="Continue the run in --out if there is one.")
@click.option("--force", is_flag=True, help="Replace the run in --out.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def fit(
    table: Path,
    out: Path | None,
    resume: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    save_every: float,
    **options: Any,
) -> None:
    """Train on an annotation TABLE; find wrong labels; write a report.

    TABLE (CSV, Parquet or JSON Lines) has a row for every annotation: an item, the label it was given, who gave it, and
    whatever else is known of how the label was made. The result is a run directory with the classifier, predictions,
    annotators and report.html.
    """
    from .run import fit_table

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        read, inputs, fit_options, source = load_job(table, **options)
    notes = [str(warning.message) for warning in caught if issubclass(warning.category, DataWarning)]
    out = out or Path("runs") / table.name.split(".")[0]
    with terminal_progress(quiet) as progress, stop_signals() as stop, writing(out):
        run = fit_table(
            read,
            inputs,
            out,
            fit_options,
            source=source,
            notes=notes,
            force=force,
            resume=resume,
            save_every=save_every,
            progress=progress,
            stop=stop,
        )
    if not is_first_process():
        return
    if as_json:
        click.echo(json.dumps({"run": str(out), **run.summary}, indent=2))
    else:
        print_summary(run)


def load_job(table: Path, **options: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Read table and inputs, and sort the options of `fit` into those of the library."""
    from .inputs import load_inputs, table_inputs
    from .run import FitOptions
    from .table import read_table

    pi = [name.partition(":")[0] for name in options["pi"]] if options["pi"] is not None else None
    kinds = dict(name.split(":", 1) for name in options["pi"] or [] if ":" in name)
    keys = ("item", "label", "annotator", "y", "split", "keep_ids", "key_file")
    read = read_table(table, pi=pi, **{key: options[key] for key in keys})
    columns, text, x = options["columns"], options["text"], options["x"]
    if x is not None:
        inputs = load_inputs(x, columns=columns, text=text, item=options["item"], image_size=options["image_size"])
    elif columns or text:
        inputs = table_inputs(table, columns=columns, text=text, item=options["item"])
    else:
        raise UsageError("There is no input to learn from; give it with --x, --x-columns or --x-text.")
    method_options, training, network = split_settings(options["settings"])
    for name in ("epochs", "batch_size", "lr", "precision"):
        if options[name] is not None:
            if name in training:
                raise UsageError(
                    f"{name} is given twice, with --{name.replace('_', '-')} and with --set; give it once."
                )
            training[name] = options[name]
    fit_options = FitOptions(
        method=options["method"],
        setting=options["setting"],
        method_options=method_options,
        training=training,
        network=options["network"],
        network_options=network,
        valid_fraction=options["valid_fraction"],
        pi_kinds={"annotator" if name == options["annotator"] else name: kind for name, kind in kinds.items()},
        seed=options["seed"],
        accelerator=options["accelerator"],
    )
    source = {"table": str(table), "x": x or f"{table} ({text or ','.join(columns)})", "command": " ".join(sys.argv)}
    return read, inputs, fit_options, source


def split_settings(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Options of the method, of training and of the network."""
    from .engine.training import option_names

    if "seed" in settings:
        raise UsageError("The seed is not an option of --set; give it with --seed.")
    training = {key: value for key, value in settings.items() if key in option_names()}
    network = {key.removeprefix("network."): value for key, value in settings.items() if key.startswith("network.")}
    method = {key: value for key, value in settings.items() if key not in training and not key.startswith("network.")}
    return method, training, network


def print_summary(run: Any) -> None:
    """What a run found, for people."""
    summary, data = run.summary, run.config["data"]
    rate = summary["estimated_noise_rate"]
    lines = [
        f"{data['n_rows']:,} labels of {data['n_items']:,} items; {summary['n_issues']:,} look wrong "
        f"(estimated noise {rate:.1%}).",
    ]
    if summary["valid_accuracy"] is not None:
        lines.append(f"Agreement with held-out noisy labels: {summary['valid_accuracy']:.1%}.")
    evaluation = summary["evaluation"] or {}
    shown = {"test accuracy": evaluation.get("test_accuracy"), "detection AUC": evaluation.get("detection_auc")}
    shown |= {f"{name.replace('_', ' ')} AUC": auc for name, auc in evaluation.get("score_auc", {}).items()}
    known = [f"{title} {value:.4f}" for title, value in shown.items() if value is not None]
    if known:
        lines.append(f"Against clean labels: {', '.join(known)}.")
    events = summary["guard"]["events"]
    lines += [f"Guard, epoch {event['epoch'] + 1}: {event['reason']}; {event['action']}." for event in events]
    lines.append(f"Report: {run.path / 'report.html'}")
    click.echo("\n".join(lines))


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("x", type=str)
@click.option("--out", type=click.Path(path_type=Path), help="CSV or Parquet file.  [default: CSV on stdout]")
@click.option(
    "--y",
    "labels",
    type=click.Path(path_type=Path),
    help="Clean labels, one a line or a table with a column y: prints the accuracy.",
)
@click.option(
    "--weights",
    type=click.Choice(["selected", "last"]),
    default="selected",
    show_default=True,
    help="Epoch to predict with.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the predictions, or with --y the accuracy.")
def predict(run: Path, x: str, out: Path | None, labels: Path | None, weights: str, as_json: bool) -> None:
    """Predict labels of the inputs X with a RUN; no privileged information is needed."""
    from .run import predict_inputs
    from .rundir import Run

    check_ending(out)
    opened = Run.open(run)
    frame = predict_inputs(opened, x, weights=weights)
    if out is not None:
        write_table(frame, out)
    if labels is not None:
        clean = read_labels(labels, frame["item"], opened.model["inputs"])
        accuracy = float((frame["predicted_label"].astype(str) == clean).mean())
        words = f"accuracy {accuracy:.4f} on {len(frame):,} inputs"
        click.echo(json.dumps({"accuracy": accuracy, "n": len(frame)}) if as_json else words)
    elif out is None:
        click.echo(frame.to_json(orient="records", indent=2) + "\n" if as_json else frame.to_csv(index=False), nl=False)


def read_labels(path: Path, items: "pd.Series[Any]", schema: dict[str, Any]) -> "pd.Series[str]":
    """Clean labels of the inputs `items`: lines of text, or the column y (or label) of a table.

    A table is joined by its column of items where the inputs have names or it has another number of rows.
    """
    import pandas as pd

    from .readers import open_source

    if path.suffix == ".txt" and path.is_file():
        labels = pd.Series(path.read_text(encoding="utf-8", errors="replace").splitlines(), dtype=object).str.strip()
    else:
        source = open_source(path)
        column, item = source.find("y", "label"), schema.get("item")
        item = item if item in source.columns else source.find("item", "task")
        if column is None:
            raise UsageError(f"{path} has no column 'y' or 'label'. Its columns: {', '.join(source.columns[:30])}.")
        labels = read_texts(source, column)
        if item is not None and (len(labels) != len(items) or not pd.api.types.is_integer_dtype(items)):
            labels = labels_by_item(path, labels, read_texts(source, item), items, paths=schema["kind"] == "images")
    if len(labels) != len(items):
        raise DataError(f"{path} has {len(labels):,} labels for {len(items):,} inputs; give one for each, in order.")
    if labels.isna().any():
        raise DataError(f"{path} has no label in row {int(labels.isna().argmax())} (counted from 0); fill it in.")
    return labels


def read_texts(source: Any, column: str) -> "pd.Series[str]":
    """A column as text, None where a value is missing."""
    import pandas as pd

    from .readers import as_text, keys

    codes, names = keys(source, column, source.read([column])[column])
    known = [*as_text(names).to_pylist(), None]
    return pd.Series([known[code] for code in codes], dtype=object)


def labels_by_item(
    path: Path, labels: "pd.Series[str]", named: "pd.Series[str]", items: "pd.Series[Any]", *, paths: bool
) -> "pd.Series[str]":
    """The label of each of `items`, from rows that name their items; an item may have several rows that agree."""
    import pandas as pd

    from .inputs import rows_by_name

    found = labels.groupby(named).agg(["first", "nunique"])  # a missing label is none of them
    several = found.index[found["nunique"] > 1]
    if len(several):
        raise DataError(f"{path} has more than one clean label for item '{several[0]}'; keep one.")
    names = items.astype(str)
    rows = rows_by_name(names.to_numpy(), found.index.astype(str), paths=paths, source="the inputs")
    placed = pd.Series(found["first"].to_numpy()[rows >= 0], index=rows[rows >= 0]).reindex(range(len(items)))
    lost = names[placed.isna()]
    if len(lost):
        raise DataError(
            f"{path} has no label for {len(lost):,} of {len(items):,} inputs, such as '{lost.iloc[0]}'; add them."
        )
    return placed


def check_ending(path: Path | None) -> None:
    """Refuse a file to write, before the work is done, that is neither CSV nor Parquet."""
    if path is not None and path.suffix not in (".csv", ".parquet"):
        raise UsageError(f"{path} must end in .csv or .parquet.")


def write_table(frame: "pd.DataFrame", path: Path) -> None:
    """Write CSV or Parquet, by the ending, atomically."""
    from .files import replacing

    try:
        with replacing(path) as temporary:
            if path.suffix == ".csv":
                frame.to_csv(temporary, index=False)
            else:
                frame.to_parquet(temporary, index=False)
    except OSError as error:
        raise PidualError(f"Cannot write {path} ({error.strerror or error}); choose another place.") from error


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--cutoff", default=None, metavar="auto|NUMBER", help="Labels of lower quality are issues.  [default: auto]"
)
@click.option("--budget", type=click.IntRange(min=1), metavar="N", help="The N most suspicious labels are issues.")
@click.option(
    "--fail-over", metavar="PERCENT", help="Exit with 3 when more than this share of the labels are issues, such as 5%."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="CSV or Parquet file for the issues.  [default: CSV on stdout]"
)
@click.option("--json", "as_json", is_flag=True, help="Print counts and cut-off as JSON instead of the issues.")
def detect(
    run: Path, cutoff: str | None, budget: int | None, fail_over: str | None, out: Path | None, as_json: bool
) -> None:
    """List the labels of a RUN that look wrong, most suspicious first; the report is updated to match."""
    from .rundir import Run

    if cutoff is not None and budget is not None:
        raise UsageError("Give --cutoff or --budget, not both.")
    check_ending(out)
    limit = parse_share(fail_over) if fail_over is not None else None
    opened = Run.open(run)
    issues = opened.detect(parse_cutoff(cutoff), budget)
    chosen, n = opened.summary["cutoff"], opened.config["data"]["n_rows"]
    if out is not None:
        write_table(issues, out)
    if as_json:
        click.echo(
            json.dumps({"n_issues": len(issues), "n_rows": n, "share": len(issues) / n, "cutoff": chosen}, indent=2)
        )
    elif out is None:
        click.echo(issues.to_csv(index=False), nl=False)
    if limit is not None and len(issues) / n > limit:
        raise TooManyIssues(
            f"{len(issues):,} of {n:,} labels look wrong ({len(issues) / n:.1%}), more than the {limit:.1%} allowed."
        )


def parse_cutoff(text: str | None) -> Any:
    """auto, or a number between 0 and 1."""
    if text is None or text == "auto":
        return "auto"
    with contextlib.suppress(ValueError):
        return float(text)
    raise UsageError(f"--cutoff takes auto or a number between 0 and 1, not '{text}'.")


def parse_share(text: str) -> float:
    """5% or 0.05."""
    with contextlib.suppress(ValueError):
        share = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
        if 0 <= share <= 1:
            return share
    raise UsageError(f"--fail-over takes a share such as 5% or 0.05, not '{text}'.")


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
def report(run: Path) -> None:
    """Build the report of a RUN again and print its path."""
    from .rundir import Run

    click.echo(Run.open(run).report())


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def methods(as_json: bool) -> None:
    """List the methods."""
    from .methods import METHODS

    rows = [
        {
            "name": name,
            "title": method.title,
            "reference": method.reference,
            "uses_pi": method.needs_pi,
            "networks": method.networks,
            "stages": method.stages,
            "per_row_state": method.per_row_state or None,
            "scores": list(method.scores),
        }
        for name, method in METHODS.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for name, method in METHODS.items():
        facts = [f"{method.networks} networks"] if method.networks > 1 else []
        facts += [f"{method.stages} stages"] if method.stages > 1 else []
        facts += ["uses PI"] if method.needs_pi else []
        facts += [f"keeps {method.per_row_state} per row"] if method.per_row_state else []
        click.echo(f"{name:15} {method.title}: {method.reference}{'; ' + ', '.join(facts) if facts else ''}")


@cli.command()
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs/demo"), show_default=True, help="Where the runs go."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of everything random.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def demo(out: Path, seed: int, as_json: bool, quiet: bool) -> None:
    """Do the main job on data that comes with the package: handwritten digits relabelled by 16 imperfect annotators."""
    from .demo import run_demo

    with terminal_progress(quiet) as progress:
        rows, shown = run_demo(out, seed=seed, progress=progress)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Column, Table

    view = Table(
        *(
            Column(name, no_wrap=True)
            for name in ("dataset", "wrong", "method", "accuracy", "AUC", "gate AUC", "seconds")
        )
    )
    for row in rows:
        gate = "" if row["gate_auc"] is None else f"{row['gate_auc']:.3f}"
        view.add_row(
            row["dataset"],
            f"{row['noise_rate']:.1%}",
            row["method"],
            f"{row['test_accuracy']:.1%}",
            f"{row['detection_auc']:.3f}",
            gate,
            f"{row['seconds']:.1f}",
        )
    Console().print(view)
    click.echo(f"Report: {shown}")


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop at the next step; a second one stops at once."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        say("Stopping after this step; once more to stop at once.")

    old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def writing(out: Path) -> Iterator[None]:
    """Say where an error of the file system, such as a full disk, happened, and the way out."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise PidualError(
            f"Cannot write to {out} ({reason}); what was saved before is kept. Make room, then continue with --resume."
        ) from error


@contextlib.contextmanager
def terminal_progress(quiet: bool) -> Iterator[Any]:
    """Progress for this terminal: a bar, plain lines elsewhere, or nothing."""
    from .show import Bar, Lines, Silent

    if quiet or not is_first_process():
        yield Silent()
    elif sys.stderr.isatty():
        yield Bar()
    else:
        yield Lines()
