"""`pidual demo`: the main job on Digits-PI, which comes with the package, at two noise levels by three methods."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from .common import terminal_progress
from .options import PATH, json_option, quiet_option

if TYPE_CHECKING:
    from ..api.run import Run
    from ..data.datasets.digits import DigitsPI
    from ..learn.engine import Progress

SHOWN = ("ce", "pi_dual", "latent_truth")
# Less weight decay than the default setting has: it fights noise as well, and the demo is to show what the method does.
# Latent truth, which chooses it itself, has its defaults.
OPTIONS = {"epochs": 50, "weight_decay": 1e-3, "batch_size": 64, "network.depth": 1}
NOISE_LEVELS: tuple[Literal["low", "high"], ...] = ("low", "high")


@click.command()
@click.option("--out", type=PATH, default=Path("runs/demo"), show_default=True, help="Directory of the runs.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@json_option("Print the results as JSON.")
@quiet_option
def demo(out: Path, seed: int, as_json: bool, quiet: bool) -> None:
    """Show the main job on data that comes with the package.

    The data are handwritten digits, relabelled by 16 imperfect annotators.
    """
    with terminal_progress(quiet) as progress:
        rows = run_demo(out, seed, progress)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Column, Table

    names = ("dataset", "wrong", "method", "accuracy", "AUC", "gate AUC", "time")
    view = Table(*(Column(name, no_wrap=True) for name in names))
    for row in rows:
        gate = "" if row["gate_auc"] is None else f"{row['gate_auc']:.3f}"
        shares = f"{row['noise_rate']:.1%}", row["method"], f"{row['test_accuracy']:.1%}", f"{row['detection_auc']:.3f}"
        view.add_row(row["dataset"], *shares, gate, f"{row['seconds']:.0f} s")
    Console().print(view)
    click.echo(f"Report: {out / f'digits-{NOISE_LEVELS[0]}-{SHOWN[-1]}' / 'report.html'}")


def run_demo(out: Path, seed: int, progress: "Progress") -> list[dict[str, Any]]:
    """Fit every method at both noise levels, each into a directory in `out`, and return a row for each."""
    from ..data.datasets.digits import load_digits_pi

    rows = []
    for noise in NOISE_LEVELS:
        data = load_digits_pi(noise, seed=seed)
        for method in SHOWN:
            progress.heading(f"Digits-PI, {data.noise_rate:.0%} of the labels wrong: {method}")
            run = fit_digits(data, out / f"digits-{noise}-{method}", method, seed, progress)
            summary = run.summary
            predicted = run.predict(data.x_test)["predicted_label"].astype(int)
            rows.append(
                {
                    "dataset": f"digits_pi_{noise}",
                    "noise_rate": data.noise_rate,
                    "method": method,
                    "seed": seed,
                    "test_accuracy": float((predicted.to_numpy() == data.y_test).mean()),
                    "detection_auc": summary.evaluation.detection_auc if summary.evaluation else None,
                    "gate_auc": summary.evaluation.gate_auc if summary.evaluation else None,
                    "seconds": summary.seconds_total,
                }
            )
    return rows


def fit_digits(data: "DigitsPI", out: Path, method: str, seed: int, progress: "Progress") -> "Run":
    """Fit the demo once, with pictures of the digits in its report."""
    import pandas as pd
    from PIL import Image

    from ..api.fit import fit_table
    from ..data import AnnotationTable, load_inputs
    from ..fit.options import FitOptions, Provenance

    table = AnnotationTable.from_frame(data.frame, pi=list(data.pi), keep_ids=True)  # the annotators are not people
    options = FitOptions(method=method, seed=seed)
    options = options if method == "latent_truth" else replace(options, options=OPTIONS)
    source = Provenance({"table": f"Digits-PI, {data.noise_rate:.0%} wrong", "x": "Digits-PI"})
    run = fit_table(table, load_inputs(data.x), out, options, provenance=source, force=True, progress=progress)
    worst = run.predictions.frame.nsmallest(200, "label_quality")["item"].astype(int).unique()
    pictures = []
    for item in worst:
        buffer = io.BytesIO()
        Image.fromarray(255 - data.images[item, 0]).save(buffer, format="PNG")  # dark on light
        pictures.append(buffer.getvalue())
    run.write_thumbnails(pd.DataFrame({"item": worst.astype(str), "png": pictures}))
    run.report()
    return run
