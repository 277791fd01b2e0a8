"""`pidual sweep`."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from ..errors import UsageError
from ..paper.grids import GRID_NAMES
from .common import command_line, name_of, say, stop_signals, terminal_progress, writing
from .job import NAMED, check_given_once, check_method_name, load_job
from .options import (
    PATH,
    data_options,
    given_on_command_line,
    json_option,
    parse_value,
    quiet_option,
    scale_option,
    table_argument,
    training_options,
)

SHOWN_TRIALS = 20  # of a sweep, on the terminal


def parse_search(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, list[Any]]:
    """Parse KEY=V1,V2,... pairs; values as in --set."""
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


@click.command()
@table_argument
@data_options
@click.option(
    "--out",
    type=PATH,
    metavar="DIR",
    help="Directory of the sweep.  [default: sweeps/<name of the study>]",
)
@training_options
@click.option(
    "--data",
    type=PATH,
    metavar="DIR",
    help="Folder of the datasets. TABLE is then the name of a dataset of the benchmarks, such as cifar10n; settings "
    "that are not searched come from its recipe.",
)
@scale_option
@click.option(
    "--grid",
    type=click.Choice(GRID_NAMES),
    help="Search the grid of the paper for the method on this dataset, except for options that you set.  "
    "[default: that of the dataset, otherwise of CIFAR-10H (paper); none with --search]",
)
@click.option(
    "--search",
    multiple=True,
    callback=parse_search,
    metavar="KEY=V1,V2,...",
    help="Values to try for an option, named as in --set; override those of --grid; repeatable.",
)
@click.option(
    "--sampler",
    type=click.Choice(["grid", "tpe"]),
    default="grid",
    show_default=True,
    help="Try all points in random order, or the most promising first (Optuna's TPE).",
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
@click.option("--study", metavar="NAME", help="Name of the study in the database.  [default: <name of TABLE>-<method>]")
@click.option("--resume", is_flag=True, help="Continue or join the sweep in --out or --storage if there is one.")
@click.option("--force", is_flag=True, help="Replace the sweep in --out and --storage; other files in --out stay.")
@json_option("Print the best options and all trials as JSON.")
@quiet_option
def sweep(
    table: Path,
    out: Path | None,
    data: Path | None,
    scale: str,
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
    """Find the options that do best on noisy validation rows.

    Clean labels are not used. Every trial is one `pidual fit` without its report or, with --data, a fit of `pidual
    benchmark`. To continue after Ctrl-C or a kill, start the command again with --resume; to share the work, start it
    several times, on any machines that reach --storage.
    """
    name = name_of(table) if data is None else f"{table.name.replace(':', '-')}-{scale}"
    options["method"] = options["method"] or "pi_dual"  # latent truth chooses among its settings itself
    study = study or f"{name}-{options['method']}"
    out = out or Path("sweeps") / study
    if data is None:
        job, command = table_sweep(table, grid, search, options)
    else:
        job, command = recipe_sweep(str(table), scale, data, grid, search, options)
    from ..data import KEY_NAME
    from ..paper.sweep import run_sweep

    command += ["--out", f"runs/{study}"]
    with terminal_progress(quiet) as progress, stop_signals() as stop, writing(out):
        found = run_sweep(
            job.table,
            job.inputs,
            out,
            job.fixed,
            job.search,
            sampler=sampler,
            trials=trials,
            prune=prune,
            storage=storage,
            study=study,
            source=job.source,
            reads=[options["key_file"] or table.parent / KEY_NAME],
            fit_command=command,
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


class SweepJob(NamedTuple):
    """What is searched, on what."""

    table: Any
    inputs: Any
    fixed: Any
    search: dict[str, Any]
    source: dict[str, Any]


def table_sweep(
    table: Path, grid: str | None, search: dict[str, list[Any]], options: dict[str, Any]
) -> tuple[SweepJob, list[str]]:
    """Return a search on a table, and the words of a command that fits as it does."""
    if given_on_command_line("scale"):
        raise UsageError("--scale chooses a recipe; use it with --data.")
    read, inputs, fixed, source = load_job(table, options)
    from ..paper.sweep import choose_search

    job = SweepJob(read, inputs, fixed, choose_search(fixed, grid, search), source)
    words = ["pidual", "fit", str(table)] + ([] if given_on_command_line("method") else ["--method", fixed.method])
    return job, fit_command(words, options)


def recipe_sweep(
    name: str,
    scale: str,
    data: Path,
    grid: str | None,
    search: dict[str, list[Any]],
    options: dict[str, Any],
) -> tuple[SweepJob, list[str]]:
    """Return a search on a dataset of the benchmarks, and the words of a command that fits as it does."""
    from ..paper.recipes import load_recipe

    changes, method, seed = recipe_changes(options), options["method"], options["seed"]
    check_method_name(method)
    recipe = load_recipe(name, scale)
    from ..learn.methods import check_method
    from ..paper.runs import load_data
    from ..paper.score import table_and_inputs
    from ..paper.sweep import recipe_search

    check_method(method)  # before data is read
    loaded = load_data(recipe, data)
    fixed, chosen = recipe_search(recipe, loaded, method, changes=changes, grid=grid, own=search, seed=seed)
    fixed = replace(fixed, threads=options["threads"])
    source = {"table": recipe.dataset, "x": str(data), "command": command_line()}
    words = ["pidual", "benchmark", name, "--scale", scale, "--data", str(data), "--methods", method]
    if given_on_command_line("seed"):
        words += ["--seeds", str(seed + 1)]  # a benchmark's seeds begin with 0
    command = fit_command(words, {"settings": changes, "threads": options["threads"]})
    return SweepJob(*table_and_inputs(loaded), fixed, chosen, source), command


def recipe_changes(options: dict[str, Any]) -> dict[str, Any]:
    """Return settings in place of a recipe's; refuse options that a recipe has no place for."""
    named = ("network", *NAMED)
    for parameter in click.get_current_context().command.params:
        name = parameter.name or ""
        if (
            name in options
            and name not in (*named, "table", "method", "settings", "seed", "threads")
            and given_on_command_line(name)
        ):
            raise UsageError(f"{parameter.opts[0]} cannot be combined with --data; the dataset and its recipe decide.")
    check_given_once(options, named)
    return {**options["settings"], **{name: options[name] for name in named if options[name] is not None}}


def fit_command(words: list[str], options: dict[str, Any]) -> list[str]:
    """Return the `pidual fit` command for these options as words; options left at their default are not named."""
    from ..paper.sweep import plain

    flags = {parameter.name: parameter.opts[0] for parameter in click.get_current_context().command.params}
    words = list(words)
    for name, value in options.items():
        if name != "settings" and not given_on_command_line(name):
            continue
        if name == "settings":
            words += [word for key in value for word in ("--set", f"{key}={plain(value[key])}")]
        elif isinstance(value, bool):
            words.append(flags[name])
        else:
            words += [flags[name], ",".join(value) if isinstance(value, list) else str(value)]
    return words


def print_sweep(found: Any) -> None:
    """Print what a sweep found: its best trials, and how to fit like the best of them."""
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
    equal = int((trials["valid_accuracy"] == share).sum())
    found_best = f"Best of {best['n_trials']}: trial {best['trial']}, {share:.1%} of {n:,} noisy validation rows."
    if equal > 1:
        all_ = f"All {equal}" if equal == best["n_trials"] else f"The best {equal} of {best['n_trials']}"
        found_best = (
            f"{all_} trials are equal: {share:.1%} of {n:,} noisy validation rows. Trial {best['trial']} is chosen by "
            "its loss there, and if that is equal too, by its place."
        )
    click.echo(found_best)
    click.echo(f"Plot: {found.out / 'trials.svg'}")
    click.echo(f"Fit with it:\n{best['command']}")
