"""A run directory read again, and its issues listed. No torch: this is all a reviewer's machine needs.

config.json          everything needed to run it again
metrics.jsonl        one line per epoch
model.safetensors    selected weights; model-last.safetensors: after the last epoch; model.json: classes, network, PI
schema
state/               resume point
predictions.parquet  one row per annotation
items.parquet, annotators.parquet, annotator_classes.parquet, thumbnails.parquet, previews.parquet
summary.json         what came out; there when the run is finished
report.html          self-contained
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from msgspec.structs import replace
from numpy.typing import NDArray

from ..data.pi.encoder import value_text
from ..detect import Choice, list_labels, next_answers, next_gold
from ..detect.reviewed_run import calibrate_run
from ..errors import RunError
from ..errors.messages import explaining_failed_writes
from ..files import write_json
from ..run.decisions import read_decisions
from ..run.files import RunFiles
from ..run.lifecycle import locked
from ..run.predictions import arrow_reader, write_frame
from ..run.records.reading import file_digest, seal
from ..run.records.summary import GoldEstimates
from ..show.report import build_report
from .verdict import status_shown

if TYPE_CHECKING:
    import pyarrow as pa

    from ..data.embedding import Embedder, Progress
    from ..learn.methods import Method


@dataclass(frozen=True)
class Run(RunFiles):
    """A run directory that `pidual fit` or `fit_table` made; `Run.open` reads a finished one.

    Each of its files is checked and read when it is first needed. None of this needs torch, but `load`, `predict` and
    `judge`. docs/run_directory.md has the columns of the tables and the fields of the records.

    Parameters
    ----------
    path : Path
        The directory.

    Attributes
    ----------
    config : Config
        What was run, on what.
    summary : Summary
        What came out: verdict, noise, issues, warnings.
    predictions : Predictions
        One row per annotation; its `frame` is predictions.parquet.
    items : DataFrame
        One row per item.
    annotators : DataFrame or None
        One row per annotator, worst first; None where annotators are not known.
    annotator_classes : DataFrame or None
        One row per annotator and true class.
    calibration : GoldEstimates or None
        What items of known class say about all: those that reviewers have decided on since, if they are ten at least,
        else those that the fit knew.
    reviews : DataFrame
        Decisions of reviewers; read again each time.
    history : list of dict
        One record per epoch, or round of what is worked out.
    model : Model
        Classes, network, inputs.
    thumbnails : dict of str to bytes
        PNG images of suspicious items by name; none where inputs are not images.
    previews : DataFrame
        Text or unusual columns of suspicious annotations; empty where there are none.
    predictions_arrow, items_arrow, annotators_arrow : RecordBatchReader
        Readers of the tables for anything that speaks Arrow; they hold some rows at a time.

    See Also
    --------
    fit_table : Makes a run.
    merge : Adds up what `Run.judge` says about the parts of a table.

    Examples
    --------
    >>> from pidual import AnnotationTable, Inputs, Run, fit_table, make_crowd
    >>> crowd = make_crowd(60, 6, noise=0.3)
    >>> frame = crowd.frame[["item", "annotator", "label"]]
    >>> table = AnnotationTable.from_frame(frame, keep_ids=True)
    >>> path = fit_table(table, Inputs.from_array(crowd.x), "runs/crowd").path
    >>> run = Run.open(path)
    >>> run.detect(budget=10)[["item", "given_label", "consensus_label", "reason"]].shape
    (10, 4)
    >>> run.predict(crowd.x_test[:2]).columns.tolist()
    ['item', 'predicted_label', 'predicted_probability', 'p_0', 'p_1', 'p_2', 'p_3']
    >>> run.next_answers(budget=3)[["item", "annotator", "gain"]].shape
    (3, 3)
    """

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}{status_shown(self._verdict)})"

    @property
    def _verdict(self) -> str:
        """What the run says about itself."""
        if not (self.path / "summary.json").exists():
            return "not finished"
        try:
            return self.summary.verdict.status
        except RunError:
            return "not readable"

    def _repr_html_(self) -> str:
        """Show the run in a few numbers in a notebook."""
        about, found = self.config, self.summary if (self.path / "summary.json").exists() else None
        numbers = {
            "method": about.method,
            "annotations": f"{about.data.n_rows:,}",
            "items": f"{about.data.n_items:,}",
            "labels that look wrong": "not finished" if found is None else f"{found.n_issues:,}",
            "verdict": self._verdict,
            "estimated noise rate": "unknown" if found is None else f"{found.estimated_noise_rate:.1%}",
        }
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in numbers.items())
        return f"<p>{escape(repr(self))}</p><table>{cells}</table>"

    def detect(
        self,
        cutoff: Any = "auto",
        budget: int | None = None,
        *,
        per_class: float | None = None,
        classes: Sequence[Any] = (),
        annotators: Sequence[Any] = (),
    ) -> pd.DataFrame:
        """List the labels that look wrong, or others, most suspicious first; the run is not changed.

        Parameters
        ----------
        cutoff : float or "auto"
            "auto" lists the issues of the run; a number lists the labels with a lower quality.
        budget : int, optional
            Instead: this many labels of lowest quality.
        per_class : int or float, optional
            Instead: this many labels of lowest quality of each given class, or this share of them (below 1); they come
            by their place within their class.
        classes : sequence
            List only labels of these classes.
        annotators : sequence
            List only labels by these annotators.

        Returns
        -------
        DataFrame
            Rows of predictions.parquet, each with its reason and, where the run keeps it, the text of its item or the
            columns of the input that are unusual.
        """
        fixed = None if isinstance(cutoff, str) and cutoff == "auto" else cutoff
        choice = Choice(fixed, budget, per_class, tuple(classes), tuple(annotators))
        self.forget()  # what is there now counts
        return list_labels(self.predictions, choice, self.about_items)

    @property
    def about_items(self) -> "pd.Series[str]":
        """Return the text of the item of suspicious annotations, or its unusual columns in words, by row."""
        kept = self.previews
        words = [
            text or f"{column} {value_text(value)} (usually {value_text(low)} to {value_text(high)})"
            for column, text, value, low, high in zip(
                *(kept[name] for name in ("column", "text", "value", "low", "high")), strict=True
            )
        ]
        return pd.Series(words, index=kept["row"], dtype="str").groupby(level=0).agg("; ".join)

    @property
    def predictions_arrow(self) -> "pa.RecordBatchReader":
        """Return a reader of predictions.parquet for anything that speaks Arrow; it holds some rows at a time."""
        return arrow_reader(self.checked("predictions.parquet"))

    @property
    def items_arrow(self) -> "pa.RecordBatchReader":
        """Return a reader of items.parquet, in the same way."""
        return arrow_reader(self.checked("items.parquet"))

    @property
    def annotators_arrow(self) -> "pa.RecordBatchReader":
        """Return a reader of annotators.parquet, in the same way; an error where annotators are not known."""
        return arrow_reader(self.checked("annotators.parquet"))

    def next_answers(self, budget: int, *, per_annotator: int | None = None) -> pd.DataFrame:
        """List the items where one more answer helps most, and whom to ask.

        Parameters
        ----------
        budget : int
            Number of answers to ask for, one per item.
        per_annotator : int, optional
            Largest number of answers from one annotator.

        Returns
        -------
        DataFrame
            item; annotator, one who has not answered it yet, missing where that is best asked of somebody new;
            accuracy, how often that annotator is expected to be right on it; consensus_label, consensus_quality and
            num_annotations as they are; error, the Brier score that the posterior expects of itself; gain, by how much
            one answer is expected to lower it, most first.
        """
        return next_answers(self, budget, per_annotator=per_annotator)

    def next_gold(self, n: int) -> pd.DataFrame:
        """List items to have checked, to be filled in and given back with `--truth` or `truth=`.

        Parameters
        ----------
        n : int
            Number of items; the same run and decisions give the same ones, none of known class.

        Returns
        -------
        DataFrame
            item; text, if there is one of any of them; truth, empty. In random order: the first ones are a sample, too.
        """
        return next_gold(self, n, self.about_items)

    @property
    def reviews(self) -> pd.DataFrame:
        """Return decisions of reviewers; read again each time."""
        return read_decisions(self)

    @property
    def calibration(self) -> GoldEstimates | None:
        """Return what items of known class say about all, with intervals: how many labels are wrong, and which to list.

        They are those that reviewers have decided on since the run was made, if they are ten at least, else those that
        the fit knew. None if it knew fewer than 20.
        """
        return calibrate_run(self) or self.summary.gold

    def write_thumbnails(self, pictures: pd.DataFrame) -> None:
        """Replace the pictures in the report: item, png."""
        name, summary = "thumbnails.parquet", self.summary
        with self.writing(name):
            write_frame(self.path / name, pictures)
            digests = summary.digests | {name: file_digest(self.path / name)}
            write_json(self.path / "summary.json", seal(replace(summary, digests=digests).to_json()))
        self.forget()

    def writing(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Say which file could not be written, such as on a full disk."""
        return explaining_failed_writes(self.path / name, "free some space, then run this again.", RunError)

    def report(self) -> Path:
        """Write report.html again, and return its path."""
        with locked(self.path):
            return self.write_report()

    def write_report(self) -> Path:
        """Build report.html, in a directory that this process has locked."""
        return build_report(self)

    def load(self, weights: str = "selected") -> "Method":
        """Load the trained method, in evaluation mode.

        Parameters
        ----------
        weights : "selected" or "last"
            Those of which epoch.

        Returns
        -------
        Method
            Its `f` is the prediction network.
        """
        from ..fit.load_model import load_method

        return load_method(self, weights)[0]

    @cached_property
    def trained(self) -> "dict[str, tuple[Method, dict[str, NDArray[Any]]]]":
        """Return what `predict` has loaded, kept for the next time, by the name of the weights."""
        return {}

    def predict(
        self,
        X: Any,
        *,
        weights: str = "selected",
        accelerator: str = "auto",
        embed: "Embedder | None" = None,
        progress: "Progress | None" = None,
    ) -> pd.DataFrame:
        """Predict new inputs; no PI is needed.

        Parameters
        ----------
        X : path or array
            Inputs of the kind the run was fitted with.
        weights : "selected" or "last"
            Which epoch to predict with.
        accelerator : str
            A Lightning Fabric accelerator.
        embed : str, path or callable, optional
            The model that embedded the inputs of the fit, again: a run loads none by itself but one of the Hugging
            Face hub that is on this machine.
        progress : callable, optional
            Called with how many inputs are embedded, and how many there are.

        Returns
        -------
        DataFrame
            item, predicted_label, predicted_probability, and p_<class> for every class.
        """
        from ..fit.load_model import load_method, predict_inputs

        if weights not in self.trained:
            self.trained[weights] = load_method(self, weights)
        how: dict[str, Any] = {"accelerator": accelerator, "embed": embed, "progress": progress}
        return predict_inputs(self.trained[weights], self.model, X, **how)

    def judge(
        self,
        table: Any,
        x: Any = None,
        *,
        item: str | None = None,
        label: str | None = None,
        annotator: str | None = None,
        key_file: str | Path | None = None,
        as_arrow: bool = False,
        embed: "Embedder | None" = None,
        progress: "Progress | None" = None,
    ) -> Any:
        """Judge new answers by this run, without a new fit: by its classifier, its annotators and its cut-off.

        What is said about an answer depends on the run and on the answers to its item alone, without state or seed: to
        judge a table in parts gives the rows of the whole, if all answers to an item are in one part.

        Parameters
        ----------
        table : path, AnnotationTable, DataFrame or Arrow stream
            Answers, with the PI columns of the run. Annotators whom it does not know count as the average of those it
            knows; a label that is none of its classes is an error.
        x : path or array, optional
            Inputs (or given probabilities) of the kind the run was fitted with; not for a run without inputs, nor where
            inputs are columns of the table.
        item : str, optional
            Column of items; by default that of the table of the run, or one of the usual name. So are the next two.
        label : str, optional
            Column of labels.
        annotator : str, optional
            Column of annotators.
        key_file : path, optional
            Key of the pseudonyms of the run; by default that beside the table, or that of the table of the run.
        as_arrow : bool
            Return a pyarrow.Table, of the same schema for every batch.
        embed : str, path or callable, optional
            As for `predict`.
        progress : callable, optional
            As for `predict`.

        Returns
        -------
        DataFrame or pyarrow.Table
            A row for every row with an answer: the columns of predictions.parquet. Of the reasons there are those that
            need no other item. `row` counts from 0 in each batch, `table_row` is the row of the table given; `wrong`,
            `wrong_if_shared` and `wrong_if_independent` are what `pidual.merge` estimates the noise from.
        """
        from ..fit.new_answers import judge_table

        columns = {"item": item, "label": label, "annotator": annotator}
        if "selected" not in self.trained:
            from ..fit.load_model import load_method

            self.trained["selected"] = load_method(self)
        how: dict[str, Any] = {"columns": columns, "key_file": key_file, "embed": embed, "progress": progress}
        judged = judge_table(self, self.trained["selected"], table, x, **how)
        return judged.to_arrow() if as_arrow else judged.frame
