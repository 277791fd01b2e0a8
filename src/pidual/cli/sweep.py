"""`pidual sweep`."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..errors import UsageError
from ..paper.published import GRID_NAMES
from .common import name_of, say, stop_signals, terminal_progress, writing
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
IN_RECIPES = ("network", *NAMED)  # settings that a recipe has too


def _parse_search(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> dict[str, list[Any]]:
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
    "--out", type=PATH, metavar="DIR", help="Directory of the sweep.  [default: sweeps/<name of TABLE>-<method>]"
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
    callback=_parse_search,
    metavar="KEY=V1,V2,...",
    help="Values to try for an option, named as in --set; override those of --grid; repeatable.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    metavar="N",
    help="Points to try, in random order, over all workers and restarts.  [default: all]",
)
@click.option(
    "--storage", metavar="URL", help="Database that workers share.  [default: the SQLite file study.sqlite in --out]"
)
@click.option("--resume", is_flag=True, help="Continue or join the sweep in --out or --storage if there is one.")
@json_option("Print the best options and all trials as JSON.")
@quiet_option
def sweep(
    table: Path,
    out: Path | None,
    data: Path | None,
    scale: str,
    grid: str | None,
    search: dict[str, list[Any]],
    as_json: bool,
    quiet: bool,
    trials: int | None,
    storage: str | None,
    resume: bool,
    **options: Any,
) -> None:
    """Find the options that do best on noisy validation rows.

    Clean labels are not used. Every trial is one `pidual fit` without its report or, with --data, a fit of `pidual
    benchmark`. To continue after Ctrl-C or a kill, start the command again with --resume; to share the work, start it
    several times, on any machines that reach --storage.
    """
    name = name_of(table) if data is None else f"{table.name.replace(':', '-')}-{scale}"
    options["method"] = method = options["method"] or "pi_dual"  # latent truth chooses among its settings itself
    if data is None and method == "latent_truth" and options["network"] is None and not search:
        raise UsageError("latent_truth chooses among its settings itself; there is nothing to sweep.")
    out = out or Path("sweeps") / f"{name}-{method}"
    if data is None:
        if given_on_command_line("scale"):
            raise UsageError("--scale chooses a recipe; use it with --data.")
        read, inputs, fixed, _ = load_job(table, options)
        from ..paper.search import choose_search

        chosen = choose_search(fixed, grid, search)
        words = ["pidual", "fit", str(table)] + ([] if given_on_command_line("method") else ["--method", method])
        command = fit_command(words, options)
    else:
        read, inputs, fixed, chosen, command = _recipe_sweep(str(table), scale, data, grid, search, options)
    from ..paper.sweep import run_sweep

    with terminal_progress(quiet) as progress, stop_signals() as stop, writing(out):
        found = run_sweep(
            read,
            inputs,
            out,
            fixed,
            chosen,
            trials=trials,
            storage=storage,
            fit_command=[*command, "--out", f"runs/{name}-{method}"],
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


def _recipe_sweep(
    name: str, scale: str, data: Path, grid: str | None, own: dict[str, list[Any]], options: dict[str, Any]
) -> tuple[Any, Any, Any, dict[str, Any], list[str]]:
    """Return a dataset's table and inputs, what all fits have in common, the search, and the words of such a fit."""
    from ..paper.recipes import load_recipe

    for parameter in click.get_current_context().command.params:
        left = parameter.name in set(options) - {*IN_RECIPES, "method", "settings", "seed", "threads"}
        if left and given_on_command_line(parameter.name or ""):
            raise UsageError(f"{parameter.opts[0]} cannot be combined with --data; the dataset and its recipe decide.")
    check_given_once(options, IN_RECIPES)
    changes = {**options["settings"], **{key: options[key] for key in IN_RECIPES if options[key] is not None}}
    method, seed, threads = (options[key] for key in ("method", "seed", "threads"))
    check_method_name(method)
    recipe = load_recipe(name, scale)
    from ..paper.runs import load_data
    from ..paper.score import table_and_inputs
    from ..paper.search import recipe_search

    loaded = load_data(recipe, data)
    fixed, search = recipe_search(recipe, loaded, method, changes=changes, grid=grid, own=own, seed=seed)
    words = ["pidual", "benchmark", name, "--scale", scale, "--data", str(data), "--methods", method]
    if given_on_command_line("seed"):
        words += ["--seeds", str(seed + 1)]  # a benchmark's seeds begin with 0
    words = fit_command(words, {"settings": changes, "threads": threads})
    return *table_and_inputs(loaded), replace(fixed, threads=threads), search, words


def fit_command(words: list[str], options: dict[str, Any]) -> list[str]:
    """Return the `pidual fit` command for these options as words; options left at their default are not named."""
    from ..paper.search import plain

    flags = {parameter.name: parameter.opts[0] for parameter in click.get_current_context().command.params}
    words = list(words)
    for name, value in options.items():
        if name == "settings":
            words += [word for key in value for word in ("--set", f"{key}={plain(value[key])}")]
        elif given_on_command_line(name):
            flag = [] if isinstance(value, bool) else [",".join(value) if isinstance(value, list) else str(value)]
            words += [flags[name], *flag]
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
    counts = trials["state"].value_counts()
    if counts.get("running"):
        say(f"Still running in other workers: {counts['running']}; the last of them writes the final results.")
    if counts.get("failed"):
        say(f"Failed: {counts['failed']}; {found.out / 'trials.csv'} says why.")
    if best is None:
        return
    equal = int((trials["valid_accuracy"] == best["valid_accuracy"]).sum())
    tie = f" {equal} trials are equal in this; the loss on the same rows decides." if equal > 1 else ""
    click.echo(
        f"Best of {best['n_trials']}: trial {best['trial']}, {best['valid_accuracy']:.1%} of {best['n_valid']:,} noisy "
        f"validation rows.{tie}\nAll trials: {found.out / 'trials.csv'}\nFit with it:\n{best['command']}"
    )
