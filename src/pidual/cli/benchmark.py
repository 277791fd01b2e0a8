"""`pidual benchmark`."""

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from .common import is_first_process, say, stop_signals, terminal_progress
from .job import check_method_name
from .options import PATH, json_option, names, parse_settings, quiet_option, scale_option, threads_option

if TYPE_CHECKING:
    import pandas as pd


@click.command()
@click.argument("datasets", metavar="NAME[,NAME...]", required=False, callback=names)
@click.option(
    "--methods",
    "chosen",
    callback=names,
    metavar="A,B,...",
    help="Methods to run, by name; main: those of the recipe; all.  [default: main]",
)
@click.option(
    "--seeds", type=click.IntRange(min=1), metavar="N", help="Run the seeds 0 to N - 1.  [default: the recipe's]"
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=parse_settings,
    metavar="KEY=VALUE",
    help="Override a recipe setting (an option of the methods, of training or, as network.KEY, of the network), "
    "e.g. one found by `pidual sweep`; repeatable.",
)
@scale_option
@click.option(
    "--data",
    type=PATH,
    default=Path("data"),
    show_default=True,
    envvar="PIDUAL_DATA",
    show_envvar=True,
    metavar="DIR",
    help="Folder of the datasets.",
)
@click.option(
    "--out",
    type=PATH,
    default=Path("runs/benchmark"),
    show_default=True,
    metavar="DIR",
    help="Directory of result files, summary and figures; finished fits are not repeated.",
)
@threads_option
@click.option(
    "--tune",
    is_flag=True,
    help="Before the seeds, search the grid of the paper, or of the recipe, on noisy validation rows for every method.",
)
@click.option("--analysis", metavar="NAME", help="Run an analysis of the paper instead; see --list.")
@click.option(
    "--plan",
    "planned",
    is_flag=True,
    help="Take a few steps with the real networks, and say how many fits, operations, bytes and hours it all takes.",
)
@click.option(
    "--gpu",
    "teraflops",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="TFLOPS",
    help="With --plan: operations in 1e12 per second that a GPU reaches.",
)
@click.option("--list", "listing", is_flag=True, help="List datasets, scales, methods and analyses.")
@json_option()
@quiet_option
def benchmark(
    datasets: list[str] | None,
    chosen: list[str] | None,
    seeds: int | None,
    settings: dict[str, Any],
    scale: str,
    data: Path,
    out: Path,
    threads: int | None,
    tune: bool,
    analysis: str | None,
    planned: bool,
    teraflops: float,
    listing: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare methods on the datasets of the paper.

    Every fit becomes a result file in --out. At the paper's scale, its numbers are shown beside ours. To continue after
    Ctrl-C or a kill, start the command again; start it twice to share the work.
    """
    from ..paper.recipes import describe_recipes, load_recipe

    if listing:
        _print_benchmarks(as_json)
        return
    if not datasets:
        raise UsageError(f"Name a dataset: {', '.join(describe_recipes())}; or use --list.")
    if settings and analysis is not None:
        raise UsageError("An analysis changes settings itself; leave --set out.")
    recipes = [load_recipe(name, scale) for name in datasets]
    for name in chosen or []:
        check_method_name(name, "main", "all")
    from ..paper.runs import Fit, choose_methods, plan, run_fits
    from ..paper.summary import read_results, summary_json, write_summary

    methods = {recipe.dataset: choose_methods(chosen or ["main"], recipe.main) for recipe in recipes}
    if planned:
        tried = [Fit(recipe, method, changes=settings) for recipe in recipes for method in methods[recipe.dataset]]
        _print_plan(tried, seeds, tune, data, threads, teraflops, as_json)
        return
    out.mkdir(parents=True, exist_ok=True)
    with terminal_progress(quiet) as progress, stop_signals() as stop, going_on():
        run = partial(run_fits, data=data, out=out, threads=threads, progress=progress, stop=stop)
        if tune:
            from ..paper.sweep import run_tuned

            how: dict[str, Any] = {**run.keywords, "say": (lambda text: None) if quiet else say}
            run = partial(run_tuned, **how)
        if analysis is not None:
            _print_analyses(analysis, recipes, methods if chosen else {}, seeds, data, out, run, as_json)
            return
        fits = [
            fit for recipe in recipes for fit in plan(recipe, methods[recipe.dataset], seeds or recipe.seeds, settings)
        ]
        missing = len(fits) - len(run(fits))
    if not is_first_process():
        return
    if missing:
        say(f"{missing} of {len(fits)} fits are being done by another process; the summary covers the others.")
    results = read_results(out)
    summary = write_summary(out, results)
    shown = summary[summary["dataset"].isin([recipe.dataset for recipe in recipes]) & (summary["scale"] == scale)]
    if as_json:
        click.echo(json.dumps(summary_json(shown, results), indent=2))
    else:
        _print_benchmark(shown)
        say(f"Summary: {out / 'summary.csv'}")


@contextlib.contextmanager
def going_on() -> Iterator[None]:
    """Say how to continue when a benchmark is interrupted."""
    from ..learn.engine import Interrupted

    try:
        yield
    except Interrupted as error:
        say(f"Interrupted: {error}; run the same command to continue.")
        raise click.exceptions.Exit(130) from error


def _print_benchmarks(as_json: bool) -> None:
    """Print the datasets, scales, methods and analyses there are."""
    from ..data.datasets import DATASETS
    from ..learn.methods import METHODS
    from ..paper.analyses import ANALYSES
    from ..paper.recipes import SCALES, describe_recipes

    recipes = describe_recipes()
    datasets = {name: {"variants": DATASETS[name].variants, "recipes": scales} for name, scales in recipes.items()}
    if as_json:
        lists = {"datasets": datasets, "scales": SCALES, "methods": list(METHODS), "analyses": ANALYSES}
        click.echo(json.dumps(lists, indent=2))
        return
    for name, scales in recipes.items():
        for scale, words in scales.items():
            click.echo(f"{name:12} {scale:6} {words}")
    click.echo(f"methods: main, all, {', '.join(METHODS)}\nanalyses: {', '.join(ANALYSES)}")


def _print_plan(
    fits: list[Any], seeds: int | None, tune: bool, data: Path, threads: int | None, teraflops: float, as_json: bool
) -> None:
    """Print what every method takes, as it is measured, and what they take together."""
    from ..paper.cost_plan import Cost, measure_cost
    from ..paper.runs import load_data

    loaded: dict[str, Any] = {}
    total = Cost()
    for fit in fits:
        name = fit.recipe.dataset
        loaded = loaded if name in loaded else {name: load_data(fit.recipe, data)}
        cost = measure_cost(fit, loaded[name], seeds or fit.recipe.seeds, tune=tune, threads=threads)
        total += cost
        line = {"dataset": name, "scale": fit.recipe.scale, "method": fit.method, **cost.to_json(teraflops)}
        click.echo(json.dumps(line) if as_json else f"{name} {fit.method}: {cost.describe(teraflops)}")
    if not as_json:
        click.echo(f"Together: {total.describe_sum(teraflops)}")


def _print_analyses(
    name: str,
    recipes: list[Any],
    methods: dict[str, list[str]],
    seeds: int | None,
    data: Path,
    out: Path,
    run: Any,
    as_json: bool,
) -> None:
    """Print the table of an analysis of every dataset, which is also in OUT/analyses with its figure."""
    from ..paper.analyses import OVER_SEEDS, analyse
    from ..paper.runs import load_data
    from ..paper.summary import summary_cells

    tables = {}
    for recipe in recipes:
        load = partial(load_data, recipe, data)
        how = {"run": run, "load": load, "methods": methods.get(recipe.dataset), "seeds": seeds or recipe.seeds}
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


def _print_benchmark(summary: "pd.DataFrame") -> None:
    """Print the summary of a benchmark for people: a table for every dataset."""
    from ..paper.summary import summary_cells

    for (scale, dataset), rows in summary.groupby(["scale", "dataset"], sort=False):
        seeds = "-".join(str(n) for n in sorted({int(rows["seeds"].min()), int(rows["seeds"].max())}))
        counted = "1 seed" if seeds == "1" else f"{seeds} seeds (mean ± standard deviation)"
        click.echo(f"{dataset}, {scale} scale, {counted}")
        click.echo(summary_cells(rows).to_string(index=False) + "\n")
