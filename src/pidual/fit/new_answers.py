"""New answers judged by a run: its classifier, its answer model, its cut-off. Nothing is fitted.

    p0_i(k)  ~ f_k(x_i) / pi_k [ pi_k prod_j P(l_ij | k, a_ij)^tau ]^b_i         as in `learn.answers.posterior`

with f, pi, P and tau of the run, and what items of known class corrected there. An annotator whom the run does not know
answers as P has it for everybody, or for those of few answers. What is said about an item rests on its answers alone.
"""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from msgspec import structs
from numpy.typing import NDArray

from ..data import (
    AnnotationTable,
    Inputs,
    key_path,
    load_inputs,
    load_probabilities,
    no_inputs,
    table_inputs,
    x_rows,
)
from ..data.embedding import Embedder, Progress
from ..data.new_answers import Reading
from ..data.pi import PIEncoder
from ..data.sources import Source
from ..data.sources.in_arrow import in_pandas
from ..detect import Posteriors
from ..detect.reasons import find_item_reasons
from ..errors import DataWarning, UsageError
from ..learn.answers.judging import Judge
from ..learn.answers.rows import AnswerRows
from ..learn.batch import Rows, Spec
from ..learn.engine import Fitted, predicting_fabric
from ..learn.engine.predict import per_row, predict_probabilities
from ..learn.engine.session import using_threads
from ..learn.methods import Method
from ..learn.methods.fitted_truth import AnswerWeights
from ..options import Training
from ..run.files import RunFiles
from ..run.predictions import REASON_PARTS, Predictions
from ..run.records.config import Network
from .closed import ClosedFit, given_probabilities
from .gold import calibrate_new
from .options import FitOptions
from .predict import ItemProbabilities, Judging, RowScores, put_all
from .prepare import Job
from .splits import TEST

NEW_ROW = 2**62  # id of all new rows, which no row of a fit has: random PI is a function of it
ADDED = ("wrong", "wrong_if_shared", "wrong_if_independent")  # columns beside those of predictions.parquet

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def judge_table(
    run: RunFiles,
    trained: tuple[Method, dict[str, NDArray[Any]]],
    table: Any,
    x: Any = None,
    *,
    columns: Mapping[str, str | None],
    key_file: str | Path | None = None,
    embed: Embedder | None = None,
    progress: Progress | None = None,
) -> Predictions:
    """Read answers and inputs as a run reads them, and judge them; see `Run.judge`.

    `trained`: what `load_method` returns.
    `columns`: those of `item`, `label` and `annotator`, where they are named.
    """
    held = trained[0].learned
    if not isinstance(held, AnswerWeights):
        raise UsageError(f"{run.path} keeps nothing of how its answers came about; fit it again to judge others by it.")
    read, source = _reading(run, table, columns, key_file).read(table)
    how: dict[str, Any] = {"tensors": trained[1], "embed": embed, "progress": progress}
    return judge_new(run, trained[0], held, read, _inputs(run, read, source, x, how))


def _reading(run: RunFiles, table: Any, columns: Mapping[str, str | None], key_file: str | Path | None) -> Reading:
    """Return how a run reads answers: as its own table was read."""
    source, model = run.config.source, run.model
    read, how = source.read, dict[str, Any]()
    if read is not None:
        names = "format", "same", "exact_labels", "no_answer"
        how = {name: getattr(read, name) for name in names} | {"annotators": read.annotators or ()}
        columns = {name: columns.get(name) or getattr(read, name) for name in ("item", "label", "annotator")}
    keys = [Path(key_file)] if key_file is not None else []
    if not keys:
        asked = None if source.asked is None else source.asked.key_file
        places = [table if isinstance(table, str | Path) else "table", *([source.table] if source.table else [])]
        keys = [*([Path(asked)] if asked else []), *map(key_path, places)]
    pi = [column["name"] for column in model.pi]
    given = None if run.config.data.keep_ids else keys
    return Reading(str(run.path), model.classes, pi, columns, given, **how)


def _inputs(run: RunFiles, table: AnnotationTable, source: Source, x: Any, how: dict[str, Any]) -> Inputs:
    """Return the inputs of a table, of the kind that the run was fitted with."""
    schema = run.model.inputs
    if schema.kind == "none":
        if x is not None:
            raise UsageError(f"{run.path} was fitted without inputs (--no-x); leave --x and --probs out.")
        return no_inputs()
    if not len(table):
        return Inputs.from_array(np.zeros((1, *schema.shape), np.float32), kind=schema.kind)
    if x is not None and schema.kind == "probabilities":
        return load_probabilities(in_pandas(x), run.model.classes, item=schema.item)
    how = how | {"schema": schema.to_json()}
    if x is not None:
        return load_inputs(in_pandas(x), **how)
    if schema.kind not in ("columns", "text"):
        option = "--probs" if schema.kind == "probabilities" else "--x"
        raise UsageError(
            f"{run.path} was fitted with inputs of the kind '{schema.kind}'; give those of {table.source} with "
            f"{option} (x=)."
        )
    return table_inputs(source, item=schema.item, **how)


def judge_new(
    run: RunFiles, method: Method, held: AnswerWeights, table: AnnotationTable, inputs: Inputs
) -> Predictions:
    """Judge the answers of a table, which has the classes and PI of a run, by its method and what that has learned.

    Columns are those of predictions.parquet, of the reasons those that need no other item; `table_row` always; and
    ADDED: how likely the label is wrong as the noise rate counts it, and if mistakes are shared, or independent.
    """
    job, calibrator = _job_of(run, table, inputs), held.calibrator
    fabric = predicting_fabric("cpu")
    found, k = RowScores.empty(table.label_codes), job.spec.n_classes
    rows = AnswerRows(job.rows, held.design, k)
    fitted = _as_fitted(job, method, rows, held.judge, fabric)
    posteriors = Posteriors.empty(len(job.rows.groups), k)
    if not len(table):  # a part without answers has the columns of all others
        none = torch.zeros(0, dtype=torch.int64)
        said = per_row(method, job.rows, none, none, torch.zeros((0, k)), fabric)
        found.columns |= {name: values.numpy() for name, values in said.items()}
        found.columns |= {"gate": np.zeros(0, np.float32)} if method.by_item else {}
    else:
        kept = ItemProbabilities(len(job.rows.groups), k)
        with using_threads(1):
            put_all(job, fitted, fabric, found, kept)
            judging = Judging(job, fitted, fabric, rows, held.judge, kept, None)
            posteriors = judging.judge_all(found) if calibrator is None else calibrate_new(judging, calibrator, found)
    right = found.quality if calibrator is None else found.full
    cut = run.summary.cutoff.value
    return _marked(found.predictions(job, posteriors), cut, 1 - np.stack([right, *found.stated]))


def _job_of(run: RunFiles, table: AnnotationTable, inputs: Inputs) -> Job:
    """Return what a fit of the table would have prepared, with PI encoded as in the run, and all rows held out."""
    model = run.model
    encoder, spec = PIEncoder.of(model.pi), Spec(**structs.asdict(model.spec))
    if len(table) and spec.annotator_column is not None:
        known = {name for column in encoder.columns_ if column.name == "annotator" for name in column.categories}
        names = [str(name) for name in table.frame["annotator"].cat.categories]
        if known.isdisjoint(names):
            way_out = "" if run.config.data.keep_ids else "; if it should, give the key of its pseudonyms (--key-file)"
            text = f"{run.path} knows none of the {len(names):,} annotators of {table.source}{way_out}."
            warnings.warn(text, DataWarning, stacklevel=5)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* have no annotation and are not used")  # there are those of other days
        x_row = x_rows(inputs, table) if len(table) else np.zeros(0, np.int64)
    about: dict[str, Any] = {"item": table.item_codes, "vote": _votes(table, run)}
    rows = Rows.build(inputs.array, x_row, table.label_codes, encoder.transform(table), **about)
    rows = replace(rows, row_id=torch.full((len(table),), NEW_ROW))
    return Job(
        table=table,
        inputs=inputs,
        options=FitOptions(method=model.method),
        rows=rows,
        split=np.full(len(table), TEST, np.int8),
        encoder=encoder,
        spec=spec,
        training=Training(),
        method_options={},
        network=Network(model.network.name, model.network.in_shape, model.network.options),
        make=None,
        build=None,
        warnings=[],
        threads=1,
        together=table.item_codes.astype(np.int64),
    )


def _votes(table: AnnotationTable, run: RunFiles) -> Ints | None:
    """Return the number of the vote of each row: of one person on one item, or of people who copied in the run."""
    who = table.annotator_codes
    if who is None:
        return None
    names = [str(name) for name in table.frame["annotator"].cat.categories]
    first = {name: group.annotators[0] for group in run.summary.copies for name in group.annotators}
    voter = pd.factorize(np.array([first.get(name, name) for name in names], dtype=object))[0]
    vote = pd.factorize(table.item_codes.astype(np.int64) * max(1, len(names)) + voter[who])[0]
    return vote if len(vote) and vote.max() + 1 < len(vote) else None


def _as_fitted(job: Job, method: Method, rows: AnswerRows, judge: Judge, fabric: Any) -> Fitted:
    """Return the method as its fit had it."""
    about: dict[str, Any] = {"last": {}, "selected_epoch": 0, "history": [], "events": []}
    if job.trains:
        return Fitted(method, **about)

    def probabilities(items: Ints) -> Floats:
        first = rows.first(items)
        if job.inputs.kind in ("none", "probabilities"):
            return given_probabilities(job, first)
        x = job.rows.take_x(job.rows.x_row[torch.from_numpy(first)])
        return np.concatenate(list(predict_probabilities(method, x, fabric)))

    return ClosedFit(method, answers=rows, judge=judge, probabilities=probabilities, untouched=None, **about)


def _marked(said: Predictions, cut: float, wrong: NDArray[np.floating[Any]]) -> Predictions:
    """Mark what is below the cut-off, with reasons, and put in columns that every part of a table has."""
    low, item, own = said.label_quality < cut, said.item, [name for name in ("item", "annotator") if name in said.frame]
    once = ~said.frame.duplicated(own).to_numpy() if len(own) > 1 else np.ones(len(item), bool)
    resting = low & (said.suggested == said.given) & (np.bincount(item[once], minlength=1)[item] > 1)
    marked = said.with_issues(low & ~resting, find_item_reasons(said, low), low, resting)
    frame = marked.frame
    empty = pd.Series("", frame.index, dtype="str")
    for name in REASON_PARTS[:2]:
        frame[name] = frame.get(name, empty)
    if "table_row" not in frame:
        frame.insert(1, "table_row", frame["row"])
    for name in marked.pi_columns:  # one type, whatever a part holds
        numeric = pd.api.types.is_numeric_dtype(frame[name])
        frame[name] = frame[name].astype("float64") if numeric else frame[name]
    for name, values in zip(ADDED, np.clip(wrong, 0, 1), strict=True):
        frame[name] = values.astype(np.float32)
    return Predictions(frame, marked.classes, marked.pi_columns, has_input=marked.has_input)
