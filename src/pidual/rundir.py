"""A run directory read again, and its issues drawn anew. No torch: this is all a reviewer's machine needs.

config.json          everything needed to run it again
metrics.jsonl        one line per epoch
model.safetensors    selected weights; model-last.safetensors: after the last epoch; model.json: classes, network, PI
schema
state/               resume point
predictions.parquet  one row per annotation
items.parquet, annotators.parquet, thumbnails.parquet
summary.json         what came out; there when the run is finished
report.html          self-contained
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from .detect import describe_annotators, mark_issues
from .errors import RunError
from .files import read_json, write_json
from .metrics import finite_or_none, precision_recall
from .predictions import Predictions, read_frame, write_frame
from .report import build_report

THUMBNAILS = "thumbnails.parquet"


@dataclass(frozen=True)
class Run:
    """A run directory.

    Parameters
    ----------
    path : Path
        The directory.
    """

    path: Path

    @classmethod
    def open(cls, path: str | Path) -> "Run":
        """A finished run."""
        run = cls(Path(path))
        if not (run.path / "config.json").exists():
            raise RunError(f"{path} is not a run directory: it has no config.json. Make one with `pidual fit`.")
        if not (run.path / "summary.json").exists():
            raise RunError(f"The run in {path} is not finished; continue it with `pidual fit ... --resume`.")
        return run

    @property
    def config(self) -> dict[str, Any]:
        """What was run, on what."""
        return self._read("config.json")

    @property
    def summary(self) -> dict[str, Any]:
        """What came out."""
        return self._read("summary.json")

    @property
    def model(self) -> dict[str, Any]:
        """Classes, network, PI schema."""
        return self._read("model.json")

    @property
    def predictions(self) -> Predictions:
        """One row per annotation."""
        return Predictions.read(self.path / "predictions.parquet")

    @property
    def items(self) -> pd.DataFrame:
        """One row per item."""
        return read_frame(self.path / "items.parquet")

    @property
    def annotators(self) -> pd.DataFrame | None:
        """One row per annotator; None where annotators are not known."""
        path = self.path / "annotators.parquet"
        return read_frame(path) if path.exists() else None

    def detect(self, cutoff: Any = "auto", budget: int | None = None) -> pd.DataFrame:
        """Mark issues with another cut-off, in all files of the run, and return them, most suspicious first."""
        predictions, chosen = mark_issues(self.predictions, cutoff=cutoff, budget=budget)
        summary = self.summary | {
            "n_issues": predictions.n_issues,
            "estimated_noise_rate": chosen.estimated_noise_rate,
            "cutoff": chosen.to_json(),
        }
        if summary.get("evaluation"):
            summary["evaluation"] |= evaluate_issues(predictions)
        if summary != self.summary:
            predictions.write(self.path / "predictions.parquet")
            annotators = describe_annotators(predictions)
            if annotators is not None:
                write_frame(self.path / "annotators.parquet", annotators)
            write_json(self.path / "summary.json", summary)
            self.report()
        return predictions.issues()

    def report(self) -> Path:
        """Build report.html again."""
        path = self.path / THUMBNAILS
        pictures = read_frame(path) if path.exists() else pd.DataFrame({"item": [], "png": []})
        return build_report(self.path, thumbnails=dict(zip(pictures["item"].astype(str), pictures["png"], strict=True)))

    def _read(self, name: str) -> dict[str, Any]:
        try:
            values: dict[str, Any] = read_json(self.path / name)
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path / name} cannot be read ({error}); the run is damaged, fit again.") from error
        return values


def evaluate_issues(predictions: Predictions) -> dict[str, float | None]:
    """Precision and recall of the marked issues against the clean labels, on the rows that have one and are not test.

    Parameters
    ----------
    predictions : Predictions
        With clean labels.

    Returns
    -------
    dict
        issue_precision and issue_recall; None where undefined.
    """
    y = predictions.y
    assert y is not None
    known = (y >= 0) & (predictions.frame["split"] != "test").to_numpy()
    precision, recall = precision_recall(predictions.is_issue[known], (predictions.given != y)[known])
    return {"issue_precision": finite_or_none(precision), "issue_recall": finite_or_none(recall)}
