"""What items of known class (gold) correct: what is stated against what is true, and whether intervals hold.

    PIDUAL_DATA=DIR python benchmarks/gold.py [--only labelme,...] [--draws 200] [--refits 20] [--folds 10] [--out FILE]

For every crowd of crowd_data.py, without x but for LabelMe, gold is drawn from the items whose class is known, 20, 50
and 200 at a time. Classes of all other items are used to score, and for nothing else. A line is of a crowd, a number of
gold items, a way to draw them (`random`, or `systematic` as `detect.gold.choose_items` does), and what the fit knew:

    refit "no"         one fit, without gold, for all draws
    refit "all"        a fit for each draw, which knows the classes of gold items; it judges them, too
    refit "folds"      the same, but gold items are judged by five more fits, each of which knows four fifths of gold

It holds means over draws:

    q, p0, p           by answers without a temper, as stated without gold, and calibrated, on the items without gold:
                       share of right consensus, the mean that it states, NLL, and ECE in ten bins; AUC of wrong answers
    gap                mean of |stated - right| over draws, for p
    noise, shares, accuracy, annotators
                       cover of their 95% intervals, and mean width; annotators are those with five answers or more
    half_widths        as predicted before labelling, and as they came: noise, accuracy, shares

Lines that are there already are not made again.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, Log
from crowd_data import CROWDS

from pidual.data import no_inputs
from pidual.detect.gold import Calibrator, Evidence, Known, choose_items, expected_half_widths, held_out
from pidual.fit.fit import fit_and_predict, train
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare
from pidual.learn.answers.judging import log_of
from pidual.learn.answers.posterior import put_together
from pidual.learn.engine import Session, make_fabric
from pidual.metrics import detection_auc
from pidual.paper.score import table_and_inputs

SIZES, FOLDS = (20, 50, 200), 5
CASES = {
    "labelme": True,  # with x
    "labelme_no_x": False,
    "cifar100_sm500": False,
    "medical_treat": False,
    "llm_emotion": False,
    "cifar10s": False,
}


class Crowd:
    """A crowd, and what a fit says about its items of known class, without that class."""

    def __init__(self, name):
        self.data, self.with_x = CROWDS[name.removesuffix("_no_x")](0), CASES[name]
        self.table, inputs = table_and_inputs(self.data)
        self.inputs = inputs if self.with_x else no_inputs()
        codes = self.table.item_codes
        y = self.data.frame["y"]
        self.y = np.where(y.isna(), -1, y.fillna(0)).astype(np.int64)
        labels = {str(name): code for code, name in enumerate(self.table.classes)}
        self.y = np.array([labels.get(str(each), -1) for each in self.y])
        self.truth = np.full(int(codes.max()) + 1, -1)
        self.truth[codes] = self.y
        self.known = np.flatnonzero(self.truth >= 0)

    def fit(self, gold=()):
        """Fit with these items' classes known; keep evidence and posteriors of all items of known class."""
        truth = None
        if len(gold):
            of_item = np.full(len(self.truth), -1)
            of_item[gold] = self.truth[gold]
            truth = of_item[self.table.item_codes]
        options = FitOptions(method="latent_truth", pi_kinds=dict(self.data.pi), accelerator="cpu")
        job = prepare(self.table, self.inputs, options, truth=truth)
        fabric = make_fabric("cpu")
        fitted, said = fit_and_predict(job, lambda each, _: train(each, Session(fabric)), fabric)
        code = self.table.item_codes[
            said.judging.rows.first(np.arange(len(job.rows.groups)))
        ]  # of the items as they are fitted
        place = np.flatnonzero(self.truth[code] >= 0)
        answers, index = said.judging.rows.of(place)
        log_p = log_of(fitted.probabilities(place))
        log_answer = said.judging.judge.model.log_likelihood(answers)
        found = said.judging.judge(answers, log_p)
        log_f = said.judging.judge.log_f(log_p)
        untempered = put_together(
            answers,
            log_f,
            log_answer,
            said.judging.judge.temper.tau,
            log_share=said.judging.judge.log_share,
            misleading=said.judging.judge.misleading,
            rho=0.0,
        )
        people = self.table.annotator_codes[index]
        evidence = Evidence.of(
            np.log(np.maximum(found.q, 1e-300)),
            log_f if self.with_x else None,
            answers.item,
            people,
            answers.weight[:, None] * log_answer,
        )
        votes = np.maximum(np.bincount(answers.item, answers.weight, len(place)), 1e-9)
        power = (found.votes / votes)[answers.item]
        return Judged(code[place], self.truth[code[place]], answers, people, evidence, power, found, untempered)


class Judged:
    """What a fit says about items of known class: their codes, classes, answers, and two posteriors."""

    def __init__(self, code, truth, answers, people, evidence, power, found, untempered):
        self.code, self.truth, self.answers, self.people = code, truth, answers, people
        self.evidence, self.power, self.p0, self.q = evidence, power, found, untempered
        self.n_people = int(people.max()) + 1

    def swap(self, other, items):
        """Take what another fit says about these items instead."""
        rows = np.isin(self.answers.item, items)
        mine, others = self.evidence, other.evidence
        for name, where in (("log_p0", items), ("log_f", items), ("log_answer", rows)):
            getattr(mine, name)[where] = getattr(others, name)[where]
        self.p0.q[items] = other.p0.q[items]

    def score(self, gold):
        """Calibrate by the items `gold`, and compare with the truth."""
        rest = np.setdiff1d(np.arange(len(self.truth)), gold)
        item, label = self.answers.item, self.answers.label
        started = time.process_time()
        part = self.evidence.take(gold)
        calibrator = Calibrator.fit(part, self.truth[gold], self.n_people)
        seconds = time.process_time() - started
        p = calibrator(self.evidence)
        quality = calibrator.quality(self.evidence, label, self.power)
        of_rest = np.isin(item, rest)
        wrong = (label != self.truth[item])[of_rest]
        found = {"ms": 1000 * seconds, "votes": float(calibrator.sharpness * self.p0.votes.mean())}
        for name, each, own in (("q", self.q.q, self.q.quality), ("p0", self.p0.q, self.p0.quality), ("p", p, quality)):
            found[name] = [*compare(each[rest], self.truth[rest]), detection_auc(own[of_rest], wrong)]
        found["gap"] = abs(found["p"][1] - found["p"][0])
        p[gold] = held_out(part, self.truth[gold], self.n_people)
        known = Known.of(p, item, label, self.people, gold, self.truth[gold])
        true_noise = float((label != self.truth[item]).mean())
        noise, accuracy, shares = known.noise(), known.accuracy(), known.shares()
        found["noise"] = [noise.low <= true_noise <= noise.high, noise.high - noise.low, abs(noise.value - true_noise)]
        true_shares = np.bincount(self.truth, minlength=p.shape[1]) / len(p)
        hits = [s.low <= t <= s.high for s, t in zip(shares, true_shares, strict=True)]
        found["shares"] = [np.mean(hits), np.mean([s.high - s.low for s in shares])]
        found["largest_share"] = shares[int(true_shares.argmax())].high - shares[int(true_shares.argmax())].low
        found["accuracy"] = [accuracy.low <= found["p"][0] <= accuracy.high, accuracy.high - accuracy.low]
        people, n = self.people, np.bincount(self.people, minlength=self.n_people)
        true = np.bincount(people, label == self.truth[item], self.n_people) / np.maximum(n, 1)
        _, low, high = known.annotators(self.n_people)
        some = n >= 5
        inside = (low <= true + 1e-9) & (true - 1e-9 <= high)
        found["annotators"] = [inside[some].mean(), (high - low)[some].mean()]
        halves = expected_half_widths(self.p0.q, item, label, len(gold))
        came = [(each.high - each.low) / 2 for each in (noise, accuracy)] + [found["shares"][1] / 2]
        found["half_widths"] = [[halves[0], halves[1], float(halves[2].mean())], came]
        return found


def compare(p, truth):
    """Share right, share stated, NLL and ECE."""
    right, best = p.argmax(1) == truth, p.max(1)
    nll = -np.log(np.maximum(p[np.arange(len(p)), truth], 1e-6)).mean()
    place = np.minimum((best * 10).astype(int), 9)
    off = np.bincount(place, best - right, 10)
    return [right.mean(), best.mean(), nll, np.abs(off).sum() / len(p)]


def draw(judged, way, n, number, crowd):
    """Gold items of a draw, others for each crowd."""
    seed = [list(CASES).index(crowd), n, number]
    if way == "random":
        return np.random.default_rng(seed).permutation(len(judged.truth))[:n]
    return choose_items(judged.p0.q.max(1), n, seed=seed)


def mean(scored):
    """Means over draws of everything, as plain numbers."""
    return {
        name: np.mean([np.asarray(each[name], float) for each in scored], axis=0).round(4).tolist()
        for name in scored[0]
    }


def run(name, draws, refits, log):
    """Make the lines of a crowd that are not there."""
    cases = [(n, way, "no", draws) for n in SIZES for way in ("random", "systematic")]
    cases += [(n, "random", refit, refits[refit]) for refit in refits for n in SIZES if refits[refit]]
    keys = [{"crowd": name, "gold": n, "way": way, "refit": refit} for n, way, refit, _ in cases]
    if all(log.find(**key) for key in keys):
        return
    crowd = Crowd(name)
    first = crowd.fit()
    for key, (n, way, refit, count) in zip(keys, cases, strict=True):
        if log.find(**key):
            continue
        scored = []
        for number in range(count):
            gold, judged = draw(first, way, n, number, name), first
            if refit != "no":
                judged = crowd.fit(first.code[gold])
            for fold in range(FOLDS if refit == "folds" else 0):
                judged.swap(crowd.fit(np.delete(first.code[gold], np.s_[fold::FOLDS])), gold[fold::FOLDS])
            scored.append(judged.score(gold))
        log.add({**key, "items": len(first.truth), "draws": count, **mean(scored)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--refits", type=int, default=20, help="draws with refit all")
    parser.add_argument("--folds", type=int, default=10, help="draws with refit folds")
    parser.add_argument("--out", type=Path, default=RESULTS / "gold.jsonl")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(arguments.out, "crowd", "gold", "way", "refit")
    for name in arguments.only:
        run(name, arguments.draws, {"all": arguments.refits, "folds": arguments.folds}, log)
