"""Items of known class (gold) correct what a fit states: the fit that judges an item does not know its class.

A fit that knows gold is too sure of it, and so is a calibrator that learned from such a fit. So gold is judged by
`untold`, a fit without any known class, and corrects what that says about all items; the fit that knows gold gives the
classifier. Where it is right for far more of the gold items, known classes have overturned what answers say, and gold
cannot correct a fit without them: then fits that know four fifths of it each judge the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..detect import Posteriors
from ..detect.gold import LEAST_GOLD, Calibrator, Evidence, GoldFound, Known, held_out
from ..learn.answers.model import Answers as SaidAnswers
from ..learn.engine.session import using_threads
from ..metrics import OWN_WEIGHT
from .predict import Answers, Judging, RowScores, group_of_rows
from .prepare import Job

LEARNED, LEARNED_NUMBERS = 2000, 2**20  # gold items, and their numbers x classes, that a calibrator learns from
FOLDS = 5
OVERTURNED = 0.1  # share of gold items that the fit which knows them gets right beyond the other

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _Said(NamedTuple):
    """What a fit that does not know their classes says about some items."""

    by: Judging
    items: Ints
    answers: SaidAnswers
    rows: Ints  # of the answers, among the rows
    evidence: Evidence
    power: Floats  # (R,), what each answer counts in p0
    own: list[Floats]  # (R, K), what is left out where an answer counts half, and not at all
    votes: Floats


@dataclass(frozen=True)
class Gold:
    """The items of known class, and who judges each item."""

    job: Job  # that knows their classes
    truth: Ints  # (N,), class of each item where it is known, else -1
    judges: list[Judging]  # fits that do not know the classes of the items that they judge
    judged_by: Ints  # (N,), number of the one that judges each item
    stated: tuple[float, float]  # share of wrong labels and accuracy of the consensus, as they are stated without gold

    @classmethod
    def of(cls, job: Job, untold: Answers) -> "Gold":
        """Let all items be judged by a fit without any known class."""
        rows, truth = job.counted, known_items(job)
        wrong = 1 - untold.scores.quality[slice(None) if rows is None else rows].astype(np.float64)
        stated = float(wrong.mean()), float(untold.posteriors.quality.mean())
        return cls(job, truth, [untold.judging], np.zeros(len(truth), np.int64), stated)

    def is_overturned(self, told: Judging) -> bool:
        """Say whether a fit that knows gold is right for far more of it than what gold makes of one that does not."""
        order, evidence = self._evidence()
        right = [(self.truth[order] == held_out(evidence, self.truth[order], _people(told)).argmax(1)).mean()]
        with_gold = replace(self, judges=[told])
        told_order, told_evidence = with_gold._evidence()
        right.append((self.truth[told_order] == told_evidence.log_p0.argmax(1)).mean())
        return bool(right[1] > right[0] + OVERTURNED)

    @staticmethod
    def folds(job: Job) -> tuple[list[Job], Ints]:
        """Return jobs that do not know a fold of the gold items each, and which of them judges each item."""
        rng, truth, rows = np.random.default_rng(1), known_items(job), job.rows
        assert rows.truth is not None
        judged_by = np.zeros(len(truth), np.int64)
        for items in (np.flatnonzero(truth >= 0), np.flatnonzero(truth < 0)):
            judged_by[items] = rng.permutation(len(items)) % FOLDS
        fold = torch.from_numpy(judged_by[group_of_rows(rows.groups)])
        jobs = [
            replace(job, rows=replace(rows, truth=torch.where(fold == number, -1, rows.truth)), start=None)
            for number in range(FOLDS)
        ]
        return jobs, judged_by

    def correct(self, told: Answers) -> Answers:
        """Let gold correct what is said about all items; what `told` says by inputs alone stays."""
        with using_threads(self.job.threads):
            posteriors, known, calibrator = self._calibrate(told.scores)
        table = self.job.table
        found = GoldFound.of(
            known,
            calibrator,
            votes=float(posteriors.votes.mean()),
            stated=self.stated,
            classes=table.classes,
            n_annotators=len(table.frame["annotator"].cat.categories) if "annotator" in table.frame else 0,
        )
        posteriors.votes *= max(0.0, calibrator.sharpness)
        predictions = told.scores.predictions(self.job, posteriors)
        return replace(told, predictions=predictions, posteriors=posteriors, gold=found)

    def _calibrate(self, found: RowScores) -> tuple[Posteriors, Known, Calibrator]:
        """Judge all items by a calibrator; the quality of annotations goes to `found`."""
        job, truth, gold = self.job, self.truth, np.flatnonzero(self.truth >= 0)
        n, k, people = len(truth), job.spec.n_classes, _people(self.judges[0])
        order, evidence = self._evidence()
        calibrator, place = Calibrator.fit(evidence, truth[order], people), np.full(n, -1)
        place[gold] = np.arange(len(gold))
        p_gold, learned = np.empty((len(gold), k)), np.zeros(n, bool)
        p_gold[place[order]], learned[order] = held_out(evidence, truth[order], people), True
        posteriors, total, said = Posteriors.empty(n, k), np.zeros(k), np.zeros(len(job.rows))
        for each in self._say(np.ones(n, bool)):
            items, at, label = each.items, each.answers.item, each.answers.label
            p, known = calibrator(each.evidence), np.flatnonzero(truth[items] >= 0)
            new = known[~learned[items[known]]]
            p_gold[place[items[new]]] = p[new]
            p[known] = p_gold[place[items[known]]]
            total += p.sum(0)
            said[each.rows] = p[at, label]
            p[known] = np.eye(k)[truth[items[known]]]
            posteriors.put(items, p)
            posteriors.votes[items], posteriors.stated[:, items] = each.votes, p.max(1)
            full, sure = p[at, label], truth[items][at] >= 0
            found.full[each.rows] = found.stated[:, each.rows] = full
            for scores, own in zip((found.quality, found.unaided), each.own, strict=True):
                scores[each.rows] = np.where(sure, full, calibrator.quality(each.evidence, label, each.power, own))
            each.by.put_gate(each.answers, each.rows, full, found)
        rows = slice(None) if job.counted is None else job.counted
        who = np.full(len(job.rows), -1)
        if job.table.annotator_codes is not None:
            who[:] = job.table.annotator_codes
        item, label = group_of_rows(job.rows.groups)[rows], np.asarray(job.table.label_codes[rows], np.int64)
        best = posteriors.quality.astype(np.float64)
        now = Known(best, total / n, said[rows], item, label, who[rows], gold, truth[gold], p_gold)
        return posteriors, now, calibrator

    def _evidence(self) -> tuple[Ints, Evidence]:
        """Return gold items, all or as many random ones as a calibrator learns from, and the evidence of these."""
        gold, most = np.flatnonzero(self.truth >= 0), min(LEARNED, LEARNED_NUMBERS // self.job.spec.n_classes)
        wanted = np.zeros(len(self.truth), bool)
        wanted[np.random.default_rng(0).permutation(gold)[: max(LEAST_GOLD, most)]] = True
        parts = list(self._say(wanted))
        order = np.concatenate([part.items for part in parts])
        back = np.argsort(order)
        return order[back], Evidence.joined([part.evidence for part in parts]).take(back)

    def _say(self, wanted: NDArray[np.bool_]) -> Iterator[_Said]:
        """Yield what those say who judge the wanted items (N,), some items at a time."""
        for number, by in enumerate(self.judges):
            yield from _say(by, wanted & (self.judged_by == number))


def _say(by: Judging, wanted: NDArray[np.bool_] | None = None) -> Iterator[_Said]:
    """Yield what a fit says that does not know the classes of the wanted items (N,), some of them at a time."""
    for items, log_p in by.ask(wanted):
        answers, index = by.rows.of(items)
        found, log_answer = by.judge(answers, log_p), by.judge.model.log_likelihood(answers)
        m, who = np.asarray(answers.by_item.sum(1)).ravel(), answers.annotator[answers.context]
        log_f = by.judge.log_f(log_p) if by.job.inputs.kind != "none" else None
        power = (found.votes / np.maximum(m, 1e-9))[answers.item]
        log_p0, weighted = np.log(np.maximum(found.q, 1e-300)), answers.weight[:, None] * log_answer
        evidence = Evidence.of(log_p0, log_f, answers.item, who, weighted)
        vote = answers.of_vote(log_answer)
        own = [vote - weight * log_answer for weight in (OWN_WEIGHT, 0.0)]
        yield _Said(by, items, answers, index, evidence, power, own, found.votes)


def calibrate_new(by: Judging, calibrator: Calibrator, found: RowScores) -> Posteriors:
    """Judge items of which no class is known by a calibrator; the quality of annotations goes to `found`."""
    posteriors = Posteriors.empty(len(by.job.rows.groups), by.job.spec.n_classes)
    for each in _say(by):
        at, label, p = each.answers.item, each.answers.label, calibrator(each.evidence)
        posteriors.put(each.items, p)
        posteriors.votes[each.items] = each.votes * max(0.0, calibrator.sharpness)
        posteriors.stated[:, each.items] = p.max(1)
        found.full[each.rows] = found.stated[:, each.rows] = full = p[at, label]
        for scores, own in zip((found.quality, found.unaided), each.own, strict=True):
            scores[each.rows] = calibrator.quality(each.evidence, label, each.power, own)
        by.put_gate(each.answers, each.rows, full, found)
    return posteriors


def known_items(job: Job) -> Ints:
    """Return the class of each item where it is known, else -1."""
    if job.rows.truth is None:
        return np.full(len(job.rows.groups), -1)
    first = job.rows.groups.first(torch.arange(len(job.rows.groups)))
    return np.asarray(job.rows.truth[first].numpy(), np.int64)


def _people(judging: Judging) -> int:
    return judging.rows.design.n_annotators
