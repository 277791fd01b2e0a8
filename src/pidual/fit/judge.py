"""From what a method says to what is wrong: cut-off, reasons, items, annotators, and the summary of it all."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from lightning_fabric import Fabric
from numpy.typing import NDArray

from ..data.pi.checks import find_label_columns
from ..detect import (
    Posteriors,
    describe_annotator_classes,
    describe_annotators,
    describe_items,
    expected_findings,
    mark_issues,
    noise_rate,
    verdict,
)
from ..detect.agreement import describe_agreement
from ..detect.classes import describe_classes
from ..detect.copies import find_open_pair
from ..detect.counts import Counts, beta_interval
from ..detect.directions import Deserved, find_directions
from ..detect.evaluate import evaluation, find_false_claims
from ..detect.judges import add_gold, add_orders, find_order
from ..detect.sentences import describe_contradiction
from ..learn.engine import Fitted, collapse
from ..run.predictions import Predictions
from ..run.records.reading import FORMAT
from ..run.records.summary import (
    Agreement,
    Classes,
    Consensus,
    Detection,
    GoldEstimates,
    Guard,
    Rate,
    Summary,
    Verdict,
)
from .effects import pi_effects
from .predict import Answers, RowScores, group_of_rows, predict
from .prepare import Job

CLOSED_GATE = 0.05  # a mean gate below it explains next to nothing


@dataclass
class Results:
    """What a fit says about the labels."""

    predictions: Predictions  # one row per annotation; those that look wrong are marked, with the reason
    # items, annotators: one row per item, and per annotator where these are known
    items: pd.DataFrame
    annotators: pd.DataFrame | None
    summary: Summary  # what summary.json holds
    annotator_classes: pd.DataFrame | None = None  # one row per annotator and true class


def assess(job: Job, fitted: Fitted, fabric: Fabric) -> Results:
    """Predict, then judge."""
    return judge(job, fitted, predict(job, fitted, fabric))


def judge(job: Job, fitted: Fitted, answers: Answers, *, reasons: bool = True) -> Results:
    """Find which labels look wrong, why (if wanted), and what that says about items and annotators."""
    job, posteriors, scores = answers.judging.job, answers.posteriors, answers.scores
    rows = job.counted
    predictions, cutoff = mark_issues(answers.predictions, rows, reasons=reasons)
    memorised = _find_learning_by_heart(job, fitted, predictions)
    counted = predictions if rows is None else predictions.take(rows)
    scores = scores if rows is None else scores.take(rows)
    together = job.together if rows is None else job.together[rows]
    gold = None if answers.gold is None else answers.gold.estimates
    noise = noise_rate(together, scores.quality, scores.stated) if gold is None else gold.noise
    findings = expected_findings(counted, scores.full, scores.unaided, of_sets=job.left_out is not None)
    consensus = _describe_consensus(posteriors, len(counted) / max(1, len(posteriors.label)), gold)
    found = _find_verdict(job, fitted, counted, scores, noise, findings, memorised, consensus, gold)
    truth = posteriors.label[group_of_rows(job.rows.groups)]
    how = (job.spec, job.table.frame, job.encoder.columns_, truth, ~job.test)
    effects = pi_effects(answers.judging.judge.model, answers.judging.rows, *how)
    deserved = Deserved.of(posteriors, None if answers.gold is None else answers.gold.known)
    counts = Counts.of_predictions(counted, posteriors)
    agreement, classes = _describe_people(counted, counts)
    directions = None
    if deserved is not None:
        columns = predictions.frame[[name for name in predictions.pi_columns if name != "annotator"]]
        said = predictions.given, predictions.item
        directions = find_directions(columns, *said, deserved, predictions.classes)
    record = next((r for r in reversed(fitted.history) if r["epoch"] == fitted.selected_epoch), fitted.history[-1])
    summary = Summary(
        n_issues=predictions.n_issues,
        cutoff=cutoff,
        verdict=found,
        noise=noise,
        estimated_noise_rate=noise.rate,
        detection=findings,
        format=FORMAT,
        selected_epoch=fitted.selected_epoch,
        valid_accuracy=record.get("valid_accuracy"),
        seconds=sum(r["seconds"] for r in fitted.history),
        guard=Guard(bool(fitted.events) and not fitted.collapsed, fitted.collapsed, fitted.events),
        model_selection=fitted.selection,
        warnings=[*job.warnings, *memorised, *_find_closed_gate(job, predictions)],
        evaluation=evaluation(predictions, job.method_class.scores[1:]),
        consensus=consensus,
        classes=classes,
        pi_health=job.pi_health,
        pi_effects=effects,
        pi_directions=directions,
        agreement=agreement,
        copies=job.copies,
        gold=gold,
        label_sets=job.left_out,
    )
    items = describe_items(counted, posteriors)
    known, n_no_answer = None if answers.gold is None else answers.gold.annotators, job.table.no_answers
    by = counts, job.copies, known, n_no_answer, scores.stated[1]
    annotators = describe_annotators(counted, counted.label_quality, *by)
    by_class = describe_annotator_classes(counted, annotators, counts)
    if annotators is not None and by_class is not None:
        annotators, by_class = add_gold(annotators, by_class, counted, deserved)
        annotators = add_orders(annotators, predictions, find_order(predictions))
    return Results(predictions, items, annotators, summary, by_class)


def _describe_people(predictions: Predictions, counts: Counts) -> tuple[Agreement | None, Classes]:
    """Return how far annotators agree, where any share an item, and how they label the classes."""
    who, classes = predictions.annotator, predictions.classes
    names = None if who is None else predictions.frame["annotator"].cat.categories
    agreement = describe_agreement(predictions.item, who, names, *predictions.answers)
    return agreement, describe_classes(counts, classes, people=who is not None)


def _describe_consensus(posteriors: Posteriors, answers: float, gold: GoldEstimates | None) -> Consensus:
    """State how often the consensus is right, with its range, and what the answers to an item count as."""
    if gold is not None:
        return Consensus(gold.accuracy.rate, gold.accuracy.low, gold.accuracy.high, gold.votes, answers)
    means, n = np.array([posteriors.quality.mean(), *posteriors.stated.mean(1)], np.float64), len(posteriors.label)
    low, high = beta_interval(means * n, n, means)  # which items there happen to be
    least, most = float(min(means.min(), low.min())), float(max(means.max(), high.max()))
    return Consensus(float(means[0]), least, most, float(posteriors.votes.mean()), answers)


def _find_verdict(
    job: Job,
    fitted: Fitted,
    predictions: Predictions,
    scores: RowScores,
    noise: Rate,
    findings: Detection,
    memorised: list[str],
    consensus: Consensus,
    gold: GoldEstimates | None,
) -> Verdict:
    """Judge whether the fit can be trusted, by one row of each answer; clean labels can only contradict it."""
    per_item = len(predictions) / max(1, len(job.rows.groups))
    unseen = np.full(len(job.table), job.cross_fitted) | ~job.train  # by networks that have not seen their labels
    held_out = np.flatnonzero(unseen if job.counted is None else unseen[job.counted])
    learns_x = job.inputs.kind not in ("none", "probabilities")
    held_out = held_out[:: max(1, len(held_out) // verdict.SAMPLE)]
    chance: tuple[str | None, str | None] = None, None
    if job.inputs.kind != "none":
        chance = verdict.find_chance(
            scores.untouched[held_out],
            predictions.given[held_out],
            scores.shuffled[held_out],
            scores.shuffled_labels[held_out],
            answers_alone=per_item >= verdict.FEW_ANSWERS,
            what="probabilities" if job.inputs.kind == "probabilities" else "inputs",
        )
    disagrees = (predictions.predicted != predictions.given)[held_out]
    return Verdict.of(
        [chance[0], verdict.find_collapse(fitted.collapsed)],
        [
            describe_contradiction(gold) if gold is not None and not gold.holds_accuracy else None,
            *find_false_claims(predictions, scores.full, scores.unaided, scores.stated),
            verdict.find_few_labels(predictions),
            verdict.find_small_classes(len(job.rows.groups), job.spec.n_classes) if learns_x else None,
            chance[1],
            _find_given_back(job, ~disagrees, per_item),
            verdict.find_leaks(job.pi_health) if job.method_class.needs_pi else None,
            *memorised,
            verdict.find_noise_prior(predictions) if not fitted.method.random_pi else None,
            verdict.find_no_answer(predictions),
            verdict.find_spellings(predictions)
            or (verdict.find_whole_class(findings) if job.left_out is None else None),
            verdict.find_low_precision(findings, of_sets=job.left_out is not None),
            verdict.find_contradiction(disagrees, noise.rate, per_item),
            verdict.find_half_wrong(noise.rate, per_item) if gold is None else None,
            verdict.find_unsure_consensus(consensus, of_sets=job.left_out is not None) if gold is None else None,
            find_open_pair(job.open_pairs),
        ],
    )


def _find_given_back(job: Job, agrees: NDArray[np.bool_], per_item: float) -> str | None:
    """Find whether what f reads holds the labels: of items with several answers, the majority's where some differ."""
    if job.inputs.kind == "none":
        return None
    rows = np.flatnonzero(~job.test)
    rows = rows[find_majority(job.together[rows], job.table.label_codes[rows], split=per_item >= verdict.FEW_ANSWERS)]
    named = find_label_columns(job.inputs, job.rows.x_row.numpy()[rows], job.table.label_codes[rows])
    return verdict.find_given_back(agrees, per_item, None if job.inputs.kind == "probabilities" else named)


def find_majority(item: NDArray[np.int64], label: NDArray[np.integer[Any]], *, split: bool) -> NDArray[np.int64]:
    """Return a row of each item with its most frequent label; `split` keeps items with others, too, and no tie."""
    k = int(label.max(initial=0)) + 1
    key, row, votes = np.unique(item * k + label, return_index=True, return_counts=True)
    order = np.lexsort((-votes, key // k))
    item, row, votes = key[order] // k, row[order], votes[order]
    first = np.flatnonzero(np.diff(item, prepend=-1))
    if split:
        first = first[first + 1 < len(item)]
        first = first[(item[first] == item[first + 1]) & (votes[first] > votes[first + 1])]
    found: NDArray[np.int64] = row[first]
    return found


def _find_learning_by_heart(job: Job, fitted: Fitted, predictions: Predictions) -> list[str]:
    """Warn where PI has led the noise network to memorise labels instead of how they were made."""
    gate, noise = predictions.gate, predictions.frame.get("noise_label")
    if gate is None or noise is None or fitted.method.random_pi:  # of which it is the purpose
        return []
    reason = collapse.find_memorised(noise.cat.codes.to_numpy() == predictions.given, gate, job.train)
    if reason is None:
        return []
    return [
        f"Labels were memorised: {reason}. PI that identifies single rows leaves the classifier little to learn "
        "from; refit without the PI columns that cannot indicate wrong labels, among "
        f"{', '.join(job.table.pi_columns)}."
    ]


def _find_closed_gate(job: Job, predictions: Predictions) -> list[str]:
    """Warn where PI has explained next to no label, so that Pi-DUAL has become cross-entropy."""
    if predictions.gate is None or "noise_label" not in predictions.frame:  # another gate than Pi-DUAL's
        return []
    if not (job.spec.pi_dim or job.method_options.get("random_pi")):  # it has been said that there is no PI
        return []
    gate = float(predictions.gate[job.train].mean())
    if gate >= CLOSED_GATE:
        return []
    return [
        f"PI explained hardly any label: the mean gate ended at {gate:.3f}, so this fit is nearly cross-entropy. If "
        f"you expect more than {gate:.1%} wrong labels, try random_pi=64 to 256 (beside dropout, and on few rows, that "
        "does harm)."
    ]
