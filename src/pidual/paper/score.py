"""One fit of a benchmark: clean test accuracy and detection AUC at the selected and at the last epoch.

Clean labels are used here for scoring and watching only; training does not see them. As in the paper, wrong labels are
looked for among the rows trained on, without the validation rows.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..data import AnnotationTable, Inputs
from ..data.datasets.base import NoisyDataset
from ..detect.evaluate import native_aucs
from ..errors import DivergedError
from ..fit.fit import train
from ..fit.options import FitOptions
from ..fit.predict import predict_alone
from ..fit.prepare import Job, prepare
from ..learn.batch import Lazy, Rows
from ..learn.engine import Callback, Fitted, Progress, Session, fit, make_fabric
from ..learn.engine.callbacks import Record
from ..learn.engine.checkpoint import StateStore
from ..learn.engine.fit import Trainer
from ..learn.engine.predict import CHUNK, per_row, predict_labels, predict_logits
from ..learn.engine.session import using_threads
from ..learn.methods import METHODS, Method
from ..metrics import detection_auc, finite_or_none
from ..run.predictions import Predictions
from .ablations import ablate

BINS = 20
EXAMPLES = 8

Result = dict[str, Any]


def prepare_data(data: NoisyDataset, options: FitOptions) -> Job:
    """Return the job of fitting a dataset; kinds of PI columns that the options do not give are the dataset's."""
    table, inputs = table_and_inputs(data)
    return prepare(table, inputs, dataclasses.replace(options, pi_kinds={**data.pi, **options.pi_kinds}))


def table_and_inputs(data: NoisyDataset) -> tuple[AnnotationTable, Inputs]:
    """Return the annotations and the training inputs of a dataset as `pidual fit` has them."""
    table = AnnotationTable.from_frame(data.frame, pi=list(data.pi), keep_ids=True)  # ids that are public already
    items = np.arange(len(data.x))  # which are rows of x
    if isinstance(data.x, Inputs):
        return table, dataclasses.replace(data.x, names=items.astype(str))
    return table, Inputs.from_array(data.x, items, source=data.name)


def fit_and_score(
    data: NoisyDataset,
    options: FitOptions,
    *,
    ablation: Mapping[str, Any] | None = None,
    watched: int = 1_000,
    store: StateStore | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Fit a method, and score it.

    `ablation`: what is changed of Pi-DUAL or of its PI (`paper.ablations`).
    `watched`: training rows, and test rows, that the networks are asked about after every epoch.
    `store`: where the state of the fit is kept; one that is there is continued.
    `stop`: asked at every step; True raises Interrupted.
    Returned: ready for JSON: `selected` and `last` (accuracy, auc, AUC of the method's own scores), history, sizes,
        options as they were resolved, and what the analyses need; empty on any but the first of several processes.
    """
    job = prepare_data(data, options)
    job = ablate(job, ablation) if ablation else job
    fabric = make_fabric(options.accelerator, job.training.precision)
    watch = [_Watch(job, data, watched)] if job.method_class.stages == 1 else []
    fitted = train(job, Session(fabric, store=store, callbacks=[*watch, progress or Progress()], stop=stop))
    if fabric.global_rank != 0:
        return {}
    selected, predictions = score(job, fitted, data, fabric)
    last = selected
    if fitted.selected_epoch + 1 < job.training.epochs:
        last = score_last(job, fitted, data, fabric)
    record = next(r for r in reversed(fitted.history) if r["epoch"] == fitted.selected_epoch)
    return {
        "selected": selected,
        "last": last,
        "selected_epoch": fitted.selected_epoch,
        "valid_accuracy": record.get("valid_accuracy"),
        "recoveries": len(fitted.events),
        "seconds": round(sum(r["seconds"] for r in fitted.history), 2),
        "threads": job.threads,
        **count_values(fitted.method),
        "data": _describe_data(job, data),
        "resolved": {
            "method": job.method_options,
            "training": dataclasses.asdict(job.training),
            "network": job.network.to_json(),
        },
        "history": [finite(r) for r in fitted.history],
        "histograms": histograms(predictions, _judged_rows(job, predictions)),
        "examples": examples(predictions, _judged_rows(job, predictions)),
    }


def try_out(job: Job, *, steps: int = 3, batch_size: int = 4) -> Result:
    """Take a few steps on a few rows with the real networks: mean loss, seconds per step, steps, parameters.

    Of a method with several stages each takes these steps, and the mean counts; phases that begin in a later epoch are
    not reached.
    """
    options = job.options
    rows = job.select(job.train)
    assert rows is not None
    assert job.build is not None
    training = dataclasses.replace(job.training, epochs=1, batch_size=batch_size, select="last", guard="off")
    by_item = METHODS[options.method].by_item
    units = torch.arange(min(len(rows.groups) if by_item else len(rows), steps * batch_size))
    few = rows.subset(rows.groups.members(units)[0] if by_item else units)
    with using_threads(job.threads):
        fitted = fit(job.build, few, None, training, Session(make_fabric(options.accelerator, training.precision)))
    taken = len(fitted.history) * max(1, len(units) // batch_size)
    seconds = sum(record["seconds"] for record in fitted.history) / taken
    return {"loss": fitted.history[-1]["loss"], "seconds": seconds, "steps": taken, **count_values(fitted.method)}


def score(job: Job, fitted: Fitted, data: NoisyDataset, fabric: Any) -> tuple[Result, Predictions]:
    """Accuracy on the clean test set and detection AUCs of the weights the method now has."""
    predictions = predict_alone(job, fitted, fabric)
    with using_threads(job.threads):
        answers = np.asarray(job.table.classes)[predict_labels(fitted.method, test_rows(data), fabric)]
    judged = _judged_rows(job, predictions)
    own = {
        name: auc
        for name, auc in native_aucs(predictions, job.method_class.scores[1:], judged).items()
        if auc is not None
    }
    auc = detection_auc(predictions.label_quality[judged], _wrong_rows(predictions)[judged])
    accuracy = float((answers == data.y_test).mean())
    return {"accuracy": accuracy, "auc": finite_or_none(auc), "score_auc": own}, predictions


def score_last(job: Job, fitted: Fitted, data: NoisyDataset, fabric: Any) -> Result:
    """Score the last epoch's weights; where they have diverged, of the first class as every answer."""
    fitted.method.load_state_dict(fitted.last)
    try:
        return score(job, fitted, data, fabric)[0]
    except DivergedError:
        return {"accuracy": float((data.y_test == job.table.classes[0]).mean()), "auc": 0.5, "score_auc": {}}


def test_rows(data: NoisyDataset) -> Rows:
    """The test inputs as rows without labels."""
    x: NDArray[Any] | Lazy = data.x_test.array if isinstance(data.x_test, Inputs) else data.x_test
    return Rows.build(x, np.arange(len(x)), np.zeros(len(x), np.int64))


def count_values(method: Method) -> Result:
    """Parameters of all networks, and numbers kept for the training rows."""
    kept = sum(memory.n_rows * memory.width for memory in method.memories.values())
    return {"parameters": sum(p.numel() for p in method.parameters()), "row_values": kept}


def _describe_data(job: Job, data: NoisyDataset) -> Result:
    """Sizes of the sets, the share of wrong labels, and what distinguishes the data from other data."""
    n_train, n_valid = int(job.train.sum()), int(job.valid.sum())
    sizes = {"n_train": n_train, "n_valid": n_valid, "n_test": len(data.y_test), "n_classes": len(data.classes)}
    known = {"noise_rate": round(data.noise_rate, 4), "pi": dict(data.pi), "whole": data.whole}
    return {**sizes, **known, "fingerprint": data.fingerprint()}


class _Watch(Callback):
    """Adds to the record of every epoch how the networks answer on correct, on wrong and on test rows.

    Shares of the rows on which the prediction network (`f_correct`, `f_wrong`) and, in Pi-DUAL, the noise network
    (`noise_correct`, `noise_wrong`) answer with the given label; `test_accuracy` of the prediction network. On evenly
    spaced rows, of methods with one stage.
    """

    def __init__(self, job: Job, data: NoisyDataset, n: int):
        rows = job.select(job.train)
        assert rows is not None
        self.rows = rows
        trained = data.frame[job.train]
        known = np.flatnonzero(trained["y"].notna())
        watched = known[torch.linspace(0, len(known) - 1, min(len(known), n)).long().numpy()]
        seen = trained.iloc[watched]
        self.index, self.wrong = torch.from_numpy(watched), torch.tensor((seen["label"] != seen["y"]).to_numpy(bool))
        test = test_rows(data)
        seen = np.linspace(0, len(test) - 1, min(len(test), n)).astype(np.int64)
        self.test, self.y_test = test.subset(seen), data.y_test[seen]
        self.classes = np.asarray(job.table.classes)

    def answers(self, method: Method, fabric: Any) -> dict[str, torch.Tensor]:
        """Answers of the networks on the watched rows."""
        parts = []
        for index in self.index.split(CHUNK):
            logits = predict_logits(method, self.rows, self.rows.x_row[index], fabric)
            columns = per_row(method, self.rows, index, index, logits, fabric)
            noise = {"noise": columns["noise_label"]} if "noise_label" in columns else {}
            parts.append({"f": logits.argmax(1), **noise})
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        given = self.rows.y_noisy[self.index]
        for name, answer in self.answers(trainer.method, trainer.fabric).items():
            for kind, which in (("correct", ~self.wrong), ("wrong", self.wrong)):
                if which.any():
                    record[f"{name}_{kind}"] = float((answer == given)[which].float().mean())
        predicted = self.classes[predict_labels(trainer.method, self.test, trainer.fabric)]
        record["test_accuracy"] = float((predicted == self.y_test).mean())


def histograms(predictions: Predictions, rows: NDArray[np.bool_]) -> Result:
    """Count the confidence in the given label, and of the gate, of those rows that are right and that are wrong."""
    wrong = _wrong_rows(predictions)
    scores = {"confidence": predictions.label_quality}
    if predictions.gate is not None:
        scores["gate"] = predictions.gate
    return {
        name: {
            kind: np.histogram(values[which], BINS, (0, 1))[0].tolist()
            for kind, which in (("correct", rows & ~wrong), ("wrong", rows & wrong))
        }
        for name, values in scores.items()
    }


def examples(predictions: Predictions, rows: NDArray[np.bool_]) -> Result:
    """Of the rows those with the highest gate, or else the lowest confidence: wrong labels, and labels that are not."""
    frame = predictions.frame
    suspicion = -predictions.label_quality if predictions.gate is None else predictions.gate
    order = np.argsort(-suspicion, kind="stable")
    wrong, rows = _wrong_rows(predictions)[order], rows[order]
    columns = {"item": "item", "given": "given_label", "predicted": "predicted_label", "true": "y"}
    return {
        kind: [
            {name: int(frame[column].iloc[row]) for name, column in columns.items()} for row in order[which][:EXAMPLES]
        ]
        for kind, which in (("correct", rows & ~wrong), ("wrong", rows & wrong))
    }


def _judged_rows(job: Job, predictions: Predictions) -> NDArray[np.bool_]:
    """Which labels were trained on and are known to be right or wrong."""
    assert predictions.y is not None
    return np.asarray(job.train & (predictions.y >= 0), bool)


def _wrong_rows(predictions: Predictions) -> NDArray[np.bool_]:
    assert predictions.y is not None
    return np.asarray(predictions.given != predictions.y, bool)


def finite(record: Record) -> Record:
    """Return a record that JSON can hold, rounded: what is not finite becomes None."""
    return {
        key: (round(value, 4) if np.isfinite(value) else None) if isinstance(value, float) else value
        for key, value in record.items()
    }
