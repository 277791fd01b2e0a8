"""The main job on data that comes with the package: Digits-PI at two noise levels, by three methods."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from PIL import Image

from ..api.fit import fit_table
from ..api.run import Run
from ..data import AnnotationTable, load_inputs
from ..data.datasets.digits import DigitsPI, load_digits_pi
from ..fit.options import FitOptions, Provenance
from ..learn.engine import Progress

SHOWN = ("ce", "pi_dual", "latent_truth")
# Less weight decay than the default setting has: it fights noise as well, and the demo is to show what the method does.
# Latent truth, which chooses it itself, has its defaults.
OPTIONS = {"epochs": 50, "weight_decay": 1e-3, "batch_size": 64, "network.depth": 1}
NOISE_LEVELS: tuple[Literal["low", "high"], ...] = ("low", "high")


def run_demo(out: Path, *, seed: int = 0, progress: Progress | None = None) -> tuple[list[dict[str, Any]], Path]:
    """Fit every method at both noise levels.

    Parameters
    ----------
    out : Path
        Each fit is a run directory in here; those of an earlier demo are replaced.
    seed : int
        Random seed of labels and training.
    progress : Progress, optional

    Returns
    -------
    list of dict, Path
        A row per fit, and the report to read first.
    """
    progress = progress or Progress()
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
    return rows, out / f"digits-{NOISE_LEVELS[0]}-{SHOWN[-1]}" / "report.html"


def fit_digits(data: DigitsPI, out: Path, method: str, seed: int, progress: Progress) -> Run:
    """Fit the demo once, with pictures of the digits in its report."""
    table = AnnotationTable.from_frame(data.frame, pi=list(data.pi), keep_ids=True)  # the annotators are not people
    inputs = load_inputs(data.x)
    options = FitOptions(method=method, seed=seed)
    if method != "latent_truth":
        options = replace(options, options=OPTIONS)
    run = fit_table(
        table,
        inputs,
        out,
        options,
        provenance=Provenance({"table": f"Digits-PI, {data.noise_rate:.0%} wrong", "x": "Digits-PI"}),
        force=True,
        progress=progress,
    )
    worst = run.predictions.frame.nsmallest(200, "label_quality")["item"].astype(int).unique()
    pictures = [picture(data.images[item, 0]) for item in worst]
    run.write_thumbnails(pd.DataFrame({"item": worst.astype(str), "png": pictures}))
    run.report()
    return run


def picture(digit: np.ndarray) -> bytes:
    """Draw an 8 x 8 digit as a PNG file, dark on light."""
    buffer = io.BytesIO()
    Image.fromarray(255 - digit).save(buffer, format="PNG")
    return buffer.getvalue()
