"""A run directory read again, and its issues drawn anew. No torch: this is all a reviewer's machine needs.

config.json          everything needed to run it again
metrics.jsonl        one line per epoch
model.safetensors    selected weights; model-last.safetensors: after the last epoch; model.json: classes, network, PI
schema
state/               resume point
predictions.parquet  one row per annotation
items.parquet, annotators.parquet, thumbnails.parquet, previews.parquet
summary.json         what came out; there when the run is finished
report.html          self-contained
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..detect import count_issues, mark_issues
from ..errors import RunError, UsageError
from ..files import replacing, write_json
from ..predictions import Predictions, write_frame
from ..report import build_report
from ..schemas import DAMAGED, FORMAT, file_digest, sealed
from .evaluate import evaluate_issues
from .files import RunFiles
from .lifecycle import locked, settle

if TYPE_CHECKING:
    from ..methods import Method


@dataclass(frozen=True)
class Run(RunFiles):
    """A run directory: what was run (`config`), what came out (`summary`, `history`), and what it says of the labels
    (`predictions`, `items`, `annotators`). Each is read when it is first asked for.

    Parameters
    ----------
    path : Path
        The directory.
    """

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the run in a few numbers."""
        about, found = self.config, self.summary if (self.path / "summary.json").exists() else {}
        rate = found.get("estimated_noise_rate")
        numbers = {
            "method": about["method"],
            "annotations": f"{about['data']['n_rows']:,}",
            "items": f"{about['data']['n_items']:,}",
            "labels that look wrong": f"{found['n_issues']:,}" if found else "not finished",
            "estimated noise rate": f"{rate:.1%}" if rate is not None else "unknown",
        }
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in numbers.items())
        return f"<p>{escape(repr(self))}</p><table>{cells}</table>"

    @classmethod
    def open(cls, path: str | Path) -> "Run":
        """A finished run."""
        run = cls(Path(path))
        settle(run.path)
        if not (run.path / "config.json").exists():
            raise RunError(f"{path} is not a run directory: it has no config.json. Make one with `pidual fit`.")
        if not (run.path / "summary.json").exists():
            raise RunError(f"The run in {path} is not finished; continue it with `pidual fit ... --resume`.")
        return run

    def detect(self, cutoff: Any = "auto", budget: int | None = None) -> pd.DataFrame:
        """Mark issues with another cut-off, in all files of the run, and return them, most suspicious first."""
        self.forget()  # what is there now counts
        before = self.summary
        predictions, chosen = mark_issues(
            self.read_predictions(half_marked=True),
            cutoff=cutoff,
            budget=budget,
        )
        annotators = self._count_issues(predictions)
        summary = {name: value for name, value in before.items() if name != "next_digests"} | {
            "n_issues": predictions.n_issues,
            "cutoff": chosen.to_json(),
        }
        if summary.get("evaluation"):
            if predictions.y is None:
                raise RunError(
                    f"{self.path / 'summary.json'} has an evaluation and {self.path / 'predictions.parquet'} no clean "
                    f"labels; {DAMAGED}."
                )
            summary["evaluation"] = summary["evaluation"] | evaluate_issues(predictions)
        if summary != before:
            with locked(self.path):
                if RunFiles(self.path).summary != before:
                    raise RunError(f"The run in {self.path} has been replaced or marked meanwhile; run this again.")
                self._write_marks(predictions, annotators, before, summary)
                self.forget()
                with self.writing("report.html"):
                    self.write_report()
        return predictions.issues()

    def _count_issues(self, predictions: Predictions) -> pd.DataFrame | None:
        """The annotators with their issues counted anew; None where annotators are not known."""
        annotators = self.read_annotators(half_marked=True)
        if annotators is None:
            return None
        try:
            return count_issues(annotators, predictions)
        except (KeyError, UsageError) as error:
            raise RunError(
                f"{self.path / 'annotators.parquet'} and {self.path / 'predictions.parquet'} are not of the same "
                f"annotators; {DAMAGED}."
            ) from error

    def _write_marks(
        self,
        predictions: Predictions,
        annotators: pd.DataFrame | None,
        before: dict[str, Any],
        summary: dict[str, Any],
    ) -> None:
        """Replace predictions, annotators and summary, all or none.

        All are written beside the old ones first. Then summary.json says what the others will be, so that a kill while
        they are put in place one after the other is noticed, and another `detect` puts it right.
        """
        with contextlib.ExitStack() as stack:  # left in the reverse order: summary.json is put in place last
            own = stack.enter_context(self._replacing("summary.json"))
            written = {}
            if annotators is not None:
                written["annotators.parquet"] = stack.enter_context(self._replacing("annotators.parquet"))
                with self.writing("annotators.parquet"):
                    write_frame(written["annotators.parquet"], annotators)
            written["predictions.parquet"] = stack.enter_context(self._replacing("predictions.parquet"))
            with self.writing("predictions.parquet"):
                predictions.write(written["predictions.parquet"])
            later = {name: file_digest(temporary) for name, temporary in written.items()}
            now = {name: file_digest(self.path / name) for name in written if (self.path / name).is_file()}
            digests = before.get("digests", {})
            with self.writing("summary.json"):
                write_json(own, sealed(summary | {"format": FORMAT, "digests": digests | later}))
                between = before | {"digests": digests | now, "next_digests": later}
                write_json(self.path / "summary.json", sealed(between))

    def write_thumbnails(self, pictures: pd.DataFrame) -> None:
        """Replace the pictures in the report: item, png."""
        name, summary = "thumbnails.parquet", dict(self.summary)
        with self.writing(name):
            write_frame(self.path / name, pictures)
            summary["digests"] = summary.get("digests", {}) | {name: file_digest(self.path / name)}
            write_json(self.path / "summary.json", sealed(summary))
        self.forget()

    @contextlib.contextmanager
    def _replacing(self, name: str) -> Iterator[Path]:
        """As `replacing`, for a file of the run."""
        with self.writing(name), replacing(self.path / name) as temporary:
            yield temporary

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Say which file could not be written, such as on a full disk."""
        try:
            yield
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else error
            raise RunError(f"Cannot write {self.path / name} ({reason}); make room, then run this again.") from error

    def report(self) -> Path:
        """Build report.html again."""
        with locked(self.path):
            return self.write_report()

    def write_report(self) -> Path:
        """Build report.html, in a directory that this process has locked."""
        return build_report(self)

    def load(self, weights: str = "selected") -> "Method":
        """The trained method, in evaluation mode; `weights` are those of the "selected" or of the "last" epoch."""
        from .trained import load_method

        return load_method(self, weights)[0]

    def predict(self, X: Any, *, weights: str = "selected", accelerator: str = "auto") -> pd.DataFrame:
        """What the classifier says of new inputs; no PI is needed.

        Parameters
        ----------
        X : path or array
            Inputs of the kind the run was fitted with.
        weights : "selected" or "last"
            Which epoch to predict with.
        accelerator : str
            A Lightning Fabric accelerator.

        Returns
        -------
        DataFrame
            item, predicted_label, predicted_probability, and p_<class> for every class.
        """
        from .trained import predict_inputs

        return predict_inputs(self, X, weights=weights, accelerator=accelerator)
