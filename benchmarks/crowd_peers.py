"""What others do with a crowd: aggregation (crowd-kit), CrowdLayer (crowd-kit), CROWDLAB and filtering (cleanlab).

Each takes a dataset and a seed and returns `Judged`. Where a peer needs a classifier, or makes labels to train one on,
that is the network of the default setting (an MLP) trained with cross-entropy by our engine, without held-out rows:
per answer with the epochs, batches and decay that `ce` has on the whole table, on one label an item with those that
the default setting has for that many rows.
"""

import dataclasses
import time
import warnings

import numpy as np
import pandas as pd
from crowd_scores import Judged, item_truth
from torch.nn import functional as F

from pidual.data import Inputs
from pidual.fit.fit import train
from pidual.fit.options import FitOptions
from pidual.fit.settings import choose_settings
from pidual.learn.batch import as_storage
from pidual.learn.engine import Session, make_fabric
from pidual.learn.engine.predict import predict_probabilities
from pidual.learn.engine.session import using_threads
from pidual.learn.methods import METHODS, Method
from pidual.paper.score import prepare_data

FOLDS = 5


class UnfitError(Exception):
    """A peer that cannot be used on a crowd of this shape."""


# --- the network ---


def array(x):
    """Inputs as a plain array."""
    return x.array if isinstance(x, Inputs) else x


def fit_network(data, frame, seed, *, per_answer, method="ce", options=None):
    """The network fitted to a table of labels: a function from inputs to probabilities (n, K), the method, its job."""
    pi = {"annotator": "category"} if method == "crowd_layer" else {}
    part = dataclasses.replace(data, frame=frame[["item", "label", *pi]].reset_index(drop=True), pi=pi)
    training = {}
    if per_answer:
        images = array(data.x).ndim == 4
        chosen = choose_settings("default", "ce", n_train=len(data.frame), images=images).training
        training = {name: chosen[name] for name in ("epochs", "batch_size", "weight_decay")}
    asked = training | (options or {})
    fit = FitOptions(method=method, seed=seed, valid_fraction=0.0, options=asked, accelerator="cpu", pi_min_count=1)
    job = prepare_data(part, fit)
    fabric = make_fabric("cpu")
    fitted = train(job, Session(fabric))
    columns = np.asarray(job.table.classes, np.int64)

    def predict(x):
        x = array(x)
        with using_threads(job.threads):
            found = np.concatenate(list(predict_probabilities(fitted.method, as_storage(x), fabric)))
        probabilities = np.zeros((len(x), n_classes(data)))
        probabilities[:, columns] = found
        return probabilities

    return predict, fitted.method, job


def n_classes(data):
    """The number of classes: that of the labels where the dataset names none."""
    return len(data.classes) or int(max(data.frame["label"].max(), data.y_test.max())) + 1


def train_on_items(data, labels, seed):
    """Predicted classes of the test inputs by a network trained on one label an item."""
    if not len(data.y_test):
        return None
    items = np.unique(data.frame["item"])
    predict, *_ = fit_network(data, pd.DataFrame({"item": items, "label": labels[items]}), seed, per_answer=False)
    return predict(data.x_test).argmax(1)


# --- aggregation ---


def coded(frame):
    """Tasks, workers and labels for crowd-kit, numbered in the order of appearance, and the names behind the numbers.

    MACE of crowd-kit (1.4.2) takes the order of appearance for the sorted one, so that the two must be the same.
    """
    worker, workers = pd.factorize(frame["annotator"].astype(str))
    label, labels = pd.factorize(frame["label"])
    return pd.DataFrame({"task": frame["item"].to_numpy(), "worker": worker, "label": label}), workers, labels


def vote(answers, seed):
    from crowdkit.aggregation import MajorityVote

    model = MajorityVote().fit(answers)
    return model.probas_, model.skills_


def dawid_skene(answers, seed):
    from crowdkit.aggregation import DawidSkene

    model = DawidSkene(n_iter=100).fit(answers)
    errors, priors = model.errors_, model.priors_
    diagonal = pd.Series(
        [errors.loc[index, index[1]] * priors[index[1]] for index in errors.index], index=errors.index, dtype=float
    )
    return model.probas_, diagonal.groupby(level=0).sum()


def glad(answers, seed):
    from crowdkit.aggregation import GLAD

    model = GLAD(silent=True).fit(answers)
    return model.probas_, model.alphas_


def mace(answers, seed):
    from crowdkit.aggregation import MACE

    model = MACE(n_restarts=1, random_state=seed).fit(answers)  # its restarts all begin with the same numbers
    return model.probas_, pd.Series(model.spamming_[:, 1])


def aggregated(aggregate, data, seed):
    """What an aggregator says, and the network trained on its consensus."""
    answers, workers, labels = coded(data.frame)
    found, skills = aggregate(answers, seed)
    n_items = len(array(data.x))
    posterior = np.zeros((n_items, n_classes(data)))
    posterior[np.ix_(found.index, np.asarray(labels)[found.columns])] = found.to_numpy()
    consensus = posterior.argmax(1)
    return Judged(
        quality=posterior[data.frame["item"], data.frame["label"]],
        consensus=consensus,
        consensus_quality=posterior.max(1),
        annotators=pd.Series(skills.to_numpy(float), index=workers[skills.index]),
        test=train_on_items(data, consensus, seed),
    )


# --- out-of-fold probabilities, CROWDLAB, filter and retrain ---


_last = {}  # the folds of the crowd and seed seen last, which two peers share


def out_of_fold(data, seed, options=None):
    """Probabilities of every item by a network that has not seen its answers (n_items, K).

    `options` of training and of the network take the place of the default setting's.
    Also the processor seconds they have taken another peer, to be added to those of this one.
    """
    if _last.get("of") == (data, seed):
        return _last["probabilities"], _last["seconds"]
    started = time.process_time()
    items = np.unique(data.frame["item"])
    fold = np.full(len(array(data.x)), -1)
    fold[items] = np.random.default_rng([5, seed]).permutation(len(items)) % FOLDS
    of_row = fold[data.frame["item"]]
    probabilities = np.zeros((len(fold), n_classes(data)))
    for number in range(FOLDS):
        part, own_seed = data.frame[of_row != number], seed * FOLDS + number
        predict, *_ = fit_network(data, part, own_seed, per_answer=True, options=options)
        probabilities[fold == number] = predict(array(data.x)[fold == number])
    remember(data, seed, probabilities, time.process_time() - started)
    return probabilities, 0.0


def remember(data, seed, probabilities, seconds):
    """Take over out-of-fold probabilities that were kept, and the seconds they took."""
    _last.update(of=(data, seed), probabilities=probabilities, seconds=seconds)


def crowdlab(data, seed):
    """CROWDLAB; an annotator's second answer to an item has a column of its own."""
    from cleanlab.multiannotator import get_label_quality_multiannotator

    frame = data.frame
    if not frame["item"].duplicated().any():
        raise UnfitError("CROWDLAB needs items with more than one answer")
    probabilities, seconds = out_of_fold(data, seed)
    again = frame.groupby(["item", frame["annotator"].astype(str)], observed=True).cumcount()
    column, columns = pd.factorize(frame["annotator"].astype(str) + "\n" + again.astype(str))
    items, row = np.unique(frame["item"], return_inverse=True)
    labels = np.full((len(items), len(columns)), np.nan)
    labels[row, column] = frame["label"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = get_label_quality_multiannotator(pd.DataFrame(labels), probabilities[items], verbose=False)
    consensus, sure = np.zeros(len(probabilities), np.int64), np.zeros(len(probabilities))
    consensus[items] = found["label_quality"]["consensus_label"]
    sure[items] = found["label_quality"]["consensus_quality_score"]
    stats = found["annotator_stats"].sort_index()
    names = pd.Series([columns[number].partition("\n")[0] for number in stats.index], index=stats.index)
    weight = stats["num_examples_labeled"]
    quality = (stats["annotator_quality"] * weight).groupby(names).sum() / weight.groupby(names).sum()
    return Judged(
        quality=found["detailed_label_quality"].to_numpy()[row, column],
        consensus=consensus,
        consensus_quality=sure,
        annotators=quality,
        test=train_on_items(data, consensus, seed),
        seconds=seconds,
    )


def filter_and_retrain(data, seed):
    """cleanlab's list of wrong answers is left out and the network trained again.

    Consensus: a vote of the answers that are left, in which the out-of-fold probabilities count as one answer more.
    """
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    frame = data.frame
    probabilities, seconds = out_of_fold(data, seed)
    item, label = frame["item"].to_numpy(), frame["label"].to_numpy()
    of_answer = probabilities[item]
    there = np.unique(label)
    codes, of_answer = np.searchsorted(there, label), of_answer[:, there]
    of_answer = of_answer / of_answer.sum(1, keepdims=True)
    issue = find_label_issues(codes, of_answer, n_jobs=1)
    votes = probabilities.copy()
    np.add.at(votes, (item[~issue], label[~issue]), 1)
    votes /= votes.sum(1, keepdims=True).clip(min=1e-12)
    predict, *_ = fit_network(data, frame[~issue], seed, per_answer=True)
    kept = pd.Series(~issue).groupby(frame["annotator"].astype(str).to_numpy()).mean()
    return Judged(
        quality=get_label_quality_scores(codes, of_answer),
        consensus=votes.argmax(1),
        consensus_quality=votes.max(1),
        annotators=kept,
        test=predict(data.x_test).argmax(1) if len(data.y_test) else None,
        seconds=seconds,
    )


# --- CrowdLayer ---


class CrowdLayer(Method):
    """f's probabilities pass through a matrix of the annotator before they meet the answer: crowd-kit's layer "mw"."""

    title = "CrowdLayer"
    reference = "Rodrigues and Pereira, AAAI 2018"

    def __init__(self, f, spec):
        from crowdkit.learning import CrowdLayer as Layer

        super().__init__(f, spec)
        self.layer = Layer(spec.n_classes, spec.cardinalities[0])

    def forward(self, batch):
        answers = self.layer(self.f(batch.x).softmax(1), batch.a.codes[:, 0].long().clamp(min=0))
        losses = F.cross_entropy(answers.reshape(len(batch.y_noisy), -1), batch.y_noisy, reduction="none")
        return {"loss": batch.mean(losses)}

    def param_groups(self):
        """As its authors train it, by Adam at 1e-3; our SGD loses a class in about every other fit of LabelMe."""
        return [{"params": list(self.parameters()), "adam": True, "lr": 1e-3, "weight_decay": 0.0}]


def crowd_layer(data, seed):
    """CrowdLayer: f alone answers for an item; an annotator's quality is the mean diagonal of P(answer | truth)."""
    frame = data.frame.assign(annotator=data.frame["annotator"].astype(str))
    METHODS["crowd_layer"] = CrowdLayer  # for as long as it is fitted
    try:
        predict, method, job = fit_network(data, frame, seed, per_answer=True, method="crowd_layer")
    finally:
        del METHODS["crowd_layer"]
    probabilities = predict(data.x)
    diagonal = method.layer.weight.detach().softmax(1).diagonal(dim1=1, dim2=2).mean(1).numpy()
    people = pd.Series(job.rows.codes[:, 0].numpy()).groupby(frame["annotator"].to_numpy()).first()
    return Judged(
        quality=probabilities[frame["item"], frame["label"]],
        consensus=probabilities.argmax(1),
        consensus_quality=probabilities.max(1),
        annotators=pd.Series(diagonal[people], index=people.index),
        test=predict(data.x_test).argmax(1) if len(data.y_test) else None,
    )


# --- clean labels ---


def clean(data, seed):
    """The ceiling: cross-entropy on the clean labels of the items that have one."""
    if not len(data.y_test):
        raise UnfitError("there is no test set to score clean labels on")
    truth = item_truth(data.frame)
    predict, *_ = fit_network(
        data, pd.DataFrame({"item": truth.index, "label": truth.to_numpy()}), seed, per_answer=False
    )
    return Judged(test=predict(data.x_test).argmax(1))


def as_peer(aggregate):
    """An aggregator as a peer."""
    return lambda data, seed: aggregated(aggregate, data, seed)


PEERS = {
    "vote": as_peer(vote),
    "dawid_skene": as_peer(dawid_skene),
    "glad": as_peer(glad),
    "mace": as_peer(mace),
    "crowd_layer": crowd_layer,
    "crowdlab": crowdlab,
    "filter_retrain": filter_and_retrain,
    "clean": clean,
}
