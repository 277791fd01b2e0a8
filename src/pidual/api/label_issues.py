"""Judge labels by anybody's probabilities: `judge_given(read_given(labels, pred_probs))`.

One label a row is judged in one pass over the probabilities (`learn.answers.one_label`), without torch; several, and
labels of known annotators, by the answer model with all of its parts (`without_x.judge`).
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data import AnnotationTable, Inputs
from ..data.given import Given
from ..data.probabilities import check_probabilities, checked_parts, spaced_rows
from ..detect import expected_findings, mark_issues, noise_rate, verdict
from ..learn.answers.one_label import Said, fit_one_label
from ..run.predictions import Predictions
from ..run.records.summary import Detection, Judged, Rate, Verdict

FIT_ROWS, FIT_NUMBERS = 20_000, 2**22  # rows that the model is fitted to: not more than these, nor rows x classes

Codes = NDArray[np.int64]
Singles = NDArray[np.float32]


def judge_given(given: Given, *, reasons: bool = True) -> tuple[Predictions, Judged]:
    """Judge every label: mark those that look wrong, with reasons if wanted, and return a summary as that of a run."""
    label = pd.Categorical.from_codes(given.codes, pd.Index(given.classes))
    if given.annotators is not None or given.item is not None:
        return _judge_answers(given, label, reasons)
    seen, said = judge_labels(given)
    predictions = Predictions.build(
        pd.DataFrame({"item": pd.Categorical.from_codes(given.row, given.names), "label": label}),
        given.classes,
        predicted_label=seen.predicted,
        predicted_probability=seen.predicted_probability,
        label_quality=said.quality,
        consensus_label=said.consensus,
        consensus_quality=said.consensus_quality,
        given_probability=seen.confidence,
    )
    predictions, cutoff = mark_issues(predictions, reasons=reasons)
    noise = noise_rate(given.row, said.quality, np.stack([said.unaided, said.full]))
    findings = expected_findings(predictions, said.full, said.unaided)
    found = find_verdict(predictions, seen, noise, findings)
    return predictions, Judged(predictions.n_issues, cutoff, found, noise, noise.rate, findings)


class _Seen(NamedTuple):
    """What the classifier says about every row.

    Parameters
    ----------
    predicted, predicted_probability : arrays (N,)
        Most likely class.
    confidence : array (N,)
        Probability of the given label.
    shuffled, shuffled_labels : arrays (N,)
        Probability of a random guess, and that guess: the given labels, shuffled among the rows.
    """

    predicted: Codes
    predicted_probability: Singles
    confidence: Singles
    shuffled: Singles
    shuffled_labels: Codes


def judge_labels(given: Given) -> tuple[_Seen, Said]:
    """Judge one label of every row: fit to evenly spaced rows, then check and judge all, a part at a time."""
    rows, p = spaced_rows(given.probs, min(FIT_ROWS, max(1, FIT_NUMBERS // given.probs.shape[1])))
    model, guesses = fit_one_label(given.codes[rows], p), np.random.default_rng(0).permutation(given.codes)
    seen, said = [], []
    for part, block, p in checked_parts(given.probs, given.source):
        labels, guess, place = given.codes[part], guesses[part], np.arange(len(p))
        first = p.argmax(1)
        seen.append((first, *(np.minimum(p[place, each], 1) for each in (first, labels, guess)), guess))
        said.append(model(labels, block))
    return _Seen(*map(np.concatenate, zip(*seen, strict=True))), Said(*map(np.concatenate, zip(*said, strict=True)))


def find_verdict(predictions: Predictions, seen: _Seen, noise: Rate, findings: Detection) -> Verdict:
    """Judge whether the probabilities have anything to do with the labels, and the list can be trusted."""
    given, shuffled = predictions.given, (seen.shuffled, seen.shuffled_labels)
    chance, _ = verdict.find_chance(seen.confidence, given, *shuffled, answers_alone=False, what="probabilities")
    return Verdict.of(
        [chance],
        [
            verdict.find_few_labels(predictions),
            verdict.find_given_back(seen.predicted == given, 1.0),
            verdict.find_spellings(predictions) or verdict.find_whole_class(findings),
            verdict.find_low_precision(findings),
            verdict.find_contradiction(seen.predicted != given, noise.rate, 1.0),
        ],
    )


def _judge_answers(given: Given, label: pd.Categorical, reasons: bool) -> tuple[Predictions, Judged]:
    """Judge labels of known annotators, or several of an item, by the answer model with all of its parts."""
    from .judge import judge_inputs

    check_probabilities(given.probs, len(given.classes), given.source)
    pi = None if given.annotators is None else {"annotator": given.annotators}
    table = AnnotationTable.from_arrays(label, item=given.row, pi=pi, keep_ids=True, source="labels")
    names = np.arange(len(given.probs)).astype(str)
    inputs = Inputs.from_array(given.probs, names, kind="probabilities", source=given.source)
    results = judge_inputs(table, inputs, reasons=reasons)
    found, item = results.predictions, pd.Categorical.from_codes(given.row, given.names)
    named = Predictions(found.frame.assign(item=item), found.classes, found.pi_columns, has_input=found.has_input)
    return named, results.summary
