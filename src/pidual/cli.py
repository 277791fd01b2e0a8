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
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .errors import DataError, DataWarning, PidualError, TooManyIssues, UsageError
from .grids import GRID_NAMES

if TYPE_CHECKING:
    import pandas as pd

Command = Callable[..., Any]
SHOWN_TRIALS = 20  # of a sweep, on the terminal
LONG_TABLE = 2e7  # bytes from which on reading it takes long enough to say so
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
        parsed[key.strip()] = parse_value(text)
    return parsed


def parse_value(text: str) -> Any:
    """JSON where it is, none, else text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None if text.lower() == "none" else text


def parse_search(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, list[Any]]:
    """KEY=V1,V2,... pairs; values as in --set."""
    parsed = {}
    for pair in value:
        key, equals, text = pair.partition("=")
        if not equals or not key or not text.strip():
            raise click.BadParameter(f"'{pair}' is not of the form KEY=V1,V2,...")
        if key.strip() in parsed:
            raise click.BadParameter(f"{key.strip()} is given twice; name all its values at once.")
        values = parse_value(f"[{text}]")  # lists have commas of their own
        parsed[key.strip()] = values if isinstance(values, list) else [parse_value(t.strip()) for t in text.split(",")]
    return parsed


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator of several, in the order in which help shows them."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


data_options = together(
    click.argument("table", type=click.Path(path_type=Path)),
    click.option(
        "--x",
        "x",
        metavar="PATH",
        help="Inputs: .npy, .npz, CSV or Parquet with numeric columns, or a folder of images.",
    ),
    click.option(
        "--x-columns",
        "columns",
        callback=names,
        metavar="A,B,...",
        help="Input columns, of --x or (without --x) of TABLE itself.",
    ),
    click.option(
        "--x-text",
        "text",
        metavar="COLUMN",
        help="Input is text: the column of --x, or (without --x) of TABLE, that holds it.",
    ),
    click.option(
        "--image-size", type=click.IntRange(min=1), metavar="PIXELS", help="Resize images to this many pixels a side."
    ),
    click.option("--item", metavar="COLUMN", help="Column that names the item.  [default: item or task]"),
    click.option("--label", metavar="COLUMN", help="Column of the given label.  [default: label]"),
    click.option("--annotator", metavar="COLUMN", help="Column of the annotator.  [default: annotator or worker]"),
    click.option(
        "--pi",
        callback=names,
        metavar="A,B,...",
        help="Privileged information: what is known of how each label was made. NAME or NAME:KIND, where KIND is "
        "category, number or duration.  [default: the annotator]",
    ),
    click.option("--y", metavar="COLUMN", help="Clean label, for evaluation only.  [default: y if there is one]"),
    click.option(
        "--split", metavar="COLUMN", help="Column with train, valid or test.  [default: split if there is one]"
    ),
)
training_options = together(
    click.option("--method", default="pi_dual", show_default=True, help="See `pidual methods`."),
    click.option(
        "--setting",
        default="default",
        show_default=True,
        type=click.Choice(["default", "paper"]),
        help="Where options that are not given come from.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        callback=parse_settings,
        metavar="KEY=VALUE",
        help="Any option of the method, of training or of the network (network.KEY=VALUE); repeatable.",
    ),
    click.option(
        "--network",
        metavar="NAME",
        help="mlp, small_cnn, wrn_28_10, resnet50, resnet34, preact_resnet18, torchvision:NAME or timm:NAME.  "
        "[default: by the inputs]",
    ),
    click.option("--epochs", type=int, help="Passes over the data."),
    click.option("--batch-size", type=int, help="Rows per step."),
    click.option("--lr", type=float, help="Learning rate."),
    click.option(
        "--valid-fraction",
        type=float,
        default=0.1,
        show_default=True,
        help="Share of items held out as noisy validation set.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Of everything random."),
    click.option("--precision", help="32-true, bf16-mixed, ..."),
    click.option("--accelerator", default="auto", show_default=True, help="cpu, cuda, ..."),
    click.option("--keep-ids", is_flag=True, help="Keep annotator ids as they are instead of pseudonyms."),
    click.option(
        "--key-file",
        type=click.Path(path_type=Path),
        help="Secret key of the pseudonyms.  [default: .pidual.key beside TABLE]",
    ),
)


@cli.command()
@data_options
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Run directory.  [default: runs/<name of TABLE>]"
)
@training_options
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
    if not quiet and table.is_file() and table.stat().st_size > LONG_TABLE:
        say(f"Reading {table} ({table.stat().st_size / 1e6:,.0f} MB).")
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
    from .settings import split_settings
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


@cli.command()
@click.argument("datasets", metavar="NAME[,NAME...]", required=False, callback=names)
@click.option(
    "--methods",
    "chosen",
    callback=names,
    metavar="A,B,...",
    help="Methods; main: those of the paper's main tables and pi_dual_plus; all.  [default: main]",
)
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="Seeds 0 to N - 1.  [default: the recipe's]")
@click.option("--scale", type=click.Choice(["cpu", "paper"]), default="cpu", show_default=True, help="Which recipe.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data"),
    show_default=True,
    envvar="PIDUAL_DATA",
    show_envvar=True,
    metavar="DIR",
    help="Where the datasets lie.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/benchmark"),
    show_default=True,
    metavar="DIR",
    help="Result files, summary and figures; fits that are there are not done again.",
)
@click.option("--analysis", metavar="NAME", help="Do an analysis of the paper instead; see --list.")
@click.option("--trial", is_flag=True, help="A few steps on a few rows with the real networks; writes nothing.")
@click.option("--list", "listing", is_flag=True, help="List datasets, scales, methods and analyses.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def benchmark(
    datasets: list[str] | None,
    chosen: list[str] | None,
    seeds: int | None,
    scale: str,
    data: Path,
    out: Path,
    analysis: str | None,
    trial: bool,
    listing: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare methods on datasets of the paper, our numbers beside the paper's where the scale is the paper's.

    Every fit becomes a result file in --out. Start the command again after Ctrl-C or a kill and it goes on; start it
    twice and the two share the work.
    """
    from .benchmark import choose_methods, load_recipe, plan, read_results, run_fits, write_summary
    from .benchmark.summary import summary_json
    from .datasets import DATASETS

    if listing:
        print_benchmarks(as_json)
        return
    if not datasets:
        raise UsageError(f"Name a dataset: {', '.join(DATASETS)}; or use --list.")
    recipes = [load_recipe(name, scale) for name in datasets]
    methods = choose_methods(chosen or ["main"])
    if trial:
        print_trials(recipes, methods, data, as_json)
        return
    out.mkdir(parents=True, exist_ok=True)
    with terminal_progress(quiet) as progress, stop_signals() as stop, going_on():
        run = partial(run_fits, data=data, out=out, progress=progress, stop=stop)
        if analysis is not None:
            print_analyses(analysis, recipes, methods if chosen else None, seeds, data, out, run, as_json)
            return
        fits = [fit for recipe in recipes for fit in plan(recipe, methods, seeds or recipe.seeds)]
        missing = len(fits) - len(run(fits))
    if not is_first_process():
        return
    if missing:
        say(f"{missing} of {len(fits)} fits are being done by another process; the summary is of the others.")
    results = read_results(out)
    summary = write_summary(out, results)
    shown = summary[summary["dataset"].isin([recipe.dataset for recipe in recipes]) & (summary["scale"] == scale)]
    if as_json:
        click.echo(json.dumps(summary_json(shown, results), indent=2))
    else:
        print_benchmark(shown)
        say(f"Summary: {out / 'summary.csv'}")


@contextlib.contextmanager
def going_on() -> Iterator[None]:
    """Say how to go on when a benchmark is interrupted."""
    from .engine import Interrupted

    try:
        yield
    except Interrupted as error:
        say(f"Interrupted: {error}; the same command goes on from there.")
        raise click.exceptions.Exit(130) from error


def print_benchmarks(as_json: bool) -> None:
    """The datasets, scales, methods and analyses there are."""
    from .analyses import ANALYSES
    from .datasets import DATASETS
    from .methods import METHODS
    from .recipes import SCALES, describe_recipes

    recipes = describe_recipes()
    datasets = {name: {"variants": entry.variants, "recipes": recipes[name]} for name, entry in DATASETS.items()}
    if as_json:
        lists = {"datasets": datasets, "scales": SCALES, "methods": list(METHODS), "analyses": ANALYSES}
        click.echo(json.dumps(lists, indent=2))
        return
    for name, scales in recipes.items():
        for scale, words in scales.items():
            click.echo(f"{name:12} {scale:6} {words}")
    click.echo(f"methods: main, all, {', '.join(METHODS)}\nanalyses: {', '.join(ANALYSES)}")


def print_trials(recipes: list[Any], methods: list[str], data: Path, as_json: bool) -> None:
    """A few steps of every method, a line each as they are done."""
    from .benchmark import load_data, plan, try_out

    for recipe in recipes:
        loaded = load_data(recipe, data)
        for fit in plan(recipe, methods, 1):
            tried = try_out(loaded, fit.options())
            words = f"{tried['parameters']:,} parameters, loss {tried['loss']:.3f}, {tried['seconds']:.2f} s a step"
            line = {"dataset": recipe.dataset, "scale": recipe.scale, "method": fit.method, **tried}
            click.echo(json.dumps(line) if as_json else f"{recipe.dataset} {fit.method}: {words}")


def print_analyses(
    name: str,
    recipes: list[Any],
    methods: list[str] | None,
    seeds: int | None,
    data: Path,
    out: Path,
    run: Any,
    as_json: bool,
) -> None:
    """An analysis of every dataset: its table, which is also in OUT/analyses with its figure."""
    from .analyses import OVER_SEEDS, analyse
    from .benchmark import load_data
    from .benchmark.summary import summary_cells

    tables = {}
    for recipe in recipes:
        load = partial(load_data, recipe, data)
        how = {"run": run, "load": load, "methods": methods, "seeds": seeds or recipe.seeds}
        tables[recipe.dataset] = analyse(name, recipe, out, **how)
    if not is_first_process():
        return
    if as_json:
        click.echo(json.dumps({key: json.loads(table.to_json(orient="records")) for key, table in tables.items()}))
        return
    for dataset, table in tables.items():
        shown = summary_cells(table) if name in OVER_SEEDS else table
        click.echo(f"{dataset}\n{shown.to_string(index=False)}\n")
    say(f"Tables and figures: {out / 'analyses'}")


def print_benchmark(summary: "pd.DataFrame") -> None:
    """The summary of a benchmark for people: a table for every dataset."""
    from .benchmark.summary import summary_cells

    for (scale, dataset), rows in summary.groupby(["scale", "dataset"], sort=False):
        seeds = "-".join(str(n) for n in sorted({int(rows["seeds"].min()), int(rows["seeds"].max())}))
        click.echo(f"{dataset}, {scale} scale, {seeds} seeds (mean ± standard deviation)")
        click.echo(summary_cells(rows).to_string(index=False) + "\n")


@cli.command()
@data_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Directory of the sweep.  [default: sweeps/<name of the study>]",
)
@training_options
@click.option(
    "--grid",
    type=click.Choice(GRID_NAMES),
    help="Search what the paper searched for the method on this dataset, but for options that are fixed.  "
    "[default: paper, if there is no --search]",
)
@click.option(
    "--search",
    multiple=True,
    callback=parse_search,
    metavar="KEY=V1,V2,...",
    help="Values to try of an option, named as in --set; in place of those of --grid; repeatable.",
)
@click.option(
    "--sampler",
    type=click.Choice(["grid", "tpe"]),
    default="grid",
    show_default=True,
    help="All points in random order, or first those that Optuna's TPE expects most of.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    metavar="N",
    help="Points to try, over all workers and restarts.  [default: all; with tpe at most 30]",
)
@click.option("--prune", is_flag=True, help="Stop trials that are below the median of the others at the same epoch.")
@click.option(
    "--storage", metavar="URL", help="Database that workers share.  [default: the SQLite file study.sqlite in --out]"
)
@click.option("--study", metavar="NAME", help="Name of the study there.  [default: <name of TABLE>-<method>]")
@click.option("--resume", is_flag=True, help="Continue or join the sweep in --out or --storage if there is one.")
@click.option("--force", is_flag=True, help="Replace the sweep in --out and --storage.")
@click.option("--json", "as_json", is_flag=True, help="Print the best options and all trials as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.pass_context
def sweep(
    context: click.Context,
    /,
    table: Path,
    out: Path | None,
    grid: str | None,
    search: dict[str, list[Any]],
    study: str | None,
    as_json: bool,
    quiet: bool,
    sampler: str,
    trials: int | None,
    prune: bool,
    storage: str | None,
    resume: bool,
    force: bool,
    **options: Any,
) -> None:
    """Find the options that do best on the noisy validation rows of TABLE; clean labels have no part in it.

    Every trial is one `pidual fit` without its report. Start the command again with --resume after Ctrl-C or a kill and
    it goes on; start it several times, on any machines that reach --storage, and they share the work.
    """
    from .sweep import choose_search, run_sweep

    study = study or f"{table.name.split('.')[0]}-{options['method']}"
    out = out or Path("sweeps") / study
    read, inputs, fixed, source = load_job(table, **options)
    with terminal_progress(quiet) as progress, stop_signals() as stop, writing(out):
        found = run_sweep(
            read,
            inputs,
            out,
            fixed,
            choose_search(fixed, grid, search),
            sampler=sampler,
            trials=trials,
            prune=prune,
            storage=storage,
            study=study,
            source=source,
            fit_command=fit_command(context, table, options),
            force=force,
            resume=resume,
            progress=progress,
            say=(lambda text: None) if quiet else say,
            stop=stop,
        )
    if as_json:
        rows = json.loads(found.trials.to_json(orient="records"))
        click.echo(json.dumps({"sweep": str(out), "best": found.best, "trials": rows}, indent=2))
    else:
        print_sweep(found)


def fit_command(context: click.Context, table: Path, options: dict[str, Any]) -> list[str]:
    """The words of the `pidual fit` command with these options, of which those that were given are named."""
    from .sweep import plain

    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    words = ["pidual", "fit", str(table)]
    for name, value in options.items():
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        if name == "settings":
            words += [word for key in value for word in ("--set", f"{key}={plain(value[key])}")]
        elif isinstance(value, bool):
            words.append(flags[name])
        else:
            words += [flags[name], ",".join(value) if isinstance(value, list) else str(value)]
    return words


def print_sweep(found: Any) -> None:
    """What a sweep found, for people: its best trials, and how to fit like the best of them."""
    from rich.console import Console
    from rich.table import Column, Table

    trials, best = found.trials, found.best
    ranked = trials.sort_values(["valid_accuracy", "valid_loss"], ascending=[False, True], kind="stable")
    shown = ranked.drop(columns=["valid_loss", "error"]).head(SHOWN_TRIALS).rename(columns={"selected_epoch": "epoch"})
    shown["valid_accuracy"] = [f"{value:.2%}" if value == value else "" for value in shown["valid_accuracy"]]
    shown["epoch"] += 1  # counted from 0 in files, from 1 for people
    view = Table(*(Column(name.replace("_", " "), no_wrap=True) for name in shown))
    for row in shown.astype(object).where(shown.notna(), "").itertuples(index=False):
        view.add_row(*map(str, row))
    Console(width=None if sys.stdout.isatty() else 200).print(view)
    if len(trials) > len(shown):
        click.echo(f"{len(trials) - len(shown):,} more are in {found.out / 'trials.csv'}.")
    counts = trials["state"].value_counts()
    if counts.get("running"):
        say(f"Still running in other workers: {counts['running']}; the last of them writes the final results.")
    if counts.get("failed"):
        say(f"Failed: {counts['failed']}; {found.out / 'trials.csv'} says why.")
    if best is None:
        return
    n, share = best["n_valid"], best["valid_accuracy"]
    click.echo(f"Best of {best['n_trials']}: trial {best['trial']}, {share:.1%} of {n:,} noisy validation rows.")
    click.echo(f"Plot: {found.out / 'trials.svg'}")
    click.echo(f"Fit with it:\n{best['command']}")


@cli.group()
def data() -> None:
    """Check the datasets of the benchmarks, and make the one that is not published."""


DATA_FOLDER = click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("data"),
    envvar="PIDUAL_DATA",
    show_default=True,
    show_envvar=True,
    metavar="DIR",
    help="Where the datasets lie in their authors' file formats.",
)


@data.command()
@click.argument("name")
@DATA_FOLDER
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def check(name: str, folder: Path, as_json: bool) -> None:
    """Check the files of the dataset NAME, or of all: are they there, whole, aligned and as noisy as published?

    One line per check: ok, note (it can be used, though not all of it is there), missing or wrong. Exits with 1 if
    anything is missing or wrong.
    """
    from .datasets import DATASETS
    from .datasets.check import check_dataset

    done = {key: check_dataset(key, folder) for key in (DATASETS if name == "all" else [name])}
    failed = {key: sum(each.status in ("missing", "wrong") for each in checks) for key, checks in done.items()}
    if as_json:
        rows = [
            {"dataset": key, "ok": not failed[key], "checks": [vars(each) for each in checks]}
            for key, checks in done.items()
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        for key, checks in done.items():
            for each in checks:
                click.echo(f"{each.status:8}{key}: {each.what}: {each.detail}")
    unusable = {key: n for key, n in failed.items() if n}
    if unusable:
        counts = ", ".join(f"{key} ({n} of {len(done[key])} checks)" for key, n in unusable.items())
        raise DataError(f"missing or wrong in {folder}: {counts}.")


@data.command()
@click.argument("name", type=click.Choice(["cifar10_pi"]))
@DATA_FOLDER
@click.option("--seed", type=int, default=0, show_default=True, help="Of the annotators and of their answers.")
@click.option("--json", "as_json", is_flag=True, help="Print what was made as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
def relabel(name: str, folder: Path, seed: int, as_json: bool, quiet: bool) -> None:
    """Relabel a clean dataset with imperfect annotators, the way ImageNet-PI was made.

    cifar10_pi: trains 16 small CNNs on the CIFAR-10 training images in DIR and writes DIR/cifar-10-pi; minutes on one
    core for 10,000 images.
    """
    from .datasets.cifar10_pi import make_cifar10_pi

    with terminal_progress(quiet) as progress:
        made = make_cifar10_pi(folder, seed=seed, note=progress.note)
    if as_json:
        click.echo(json.dumps(made, indent=2))
        return
    levels = " and ".join(f"{level['noise']:.1%}" for level in made["levels"].values())
    least = min(row["accuracy"] for row in made["annotators"])
    click.echo(
        f"{made['n_images']:,} images relabelled by {len(made['annotators'])} annotators, each right about at least "
        f"{least:.1%} of them; {levels} of the labels are wrong. Check them with `pidual data check {name}`."
    )


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
