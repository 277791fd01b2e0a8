"""Latent truth around a network: its loss against plain loops, its limiting case, its answer model, its folds."""

import math

import numpy as np
import pytest
import torch

from pidual.data.datasets.synthetic import make_crowd
from pidual.data.pi import EncodedPI
from pidual.learn.answers.design import Design
from pidual.learn.answers.model import Answers, fit_answer_model
from pidual.learn.batch import Rows, Spec
from pidual.learn.closed_form.alternate import shared_confusions, vote_shares
from pidual.learn.engine import Session, Training, fit, make_fabric
from pidual.learn.engine.predict import scan_rows
from pidual.learn.methods import latent_truth
from pidual.learn.methods.latent_truth import FIT_STEPS, LatentTruth, read_answers
from pidual.learn.nets import MLP

D, K, A, N = 4, 3, 6, 12
TRUTH = [0, -1, 2, -1, 1, 1, -1, 0, -1, -1, 2, 2]  # of the items


def rows(seed=0, answers=(1, 2, 3), folds=2, truth=None, vote=None):
    """Answers to 12 items, in no order, with an annotator, a number and a weight each."""
    rng = np.random.default_rng(seed)
    item = rng.permutation(np.repeat(np.arange(N), np.resize(answers, N)))
    n = len(item)
    pi = EncodedPI(rng.integers(0, A, (n, 1)).astype(np.int32), rng.normal(size=(n, 1)).astype(np.float32))
    x, weight = rng.normal(size=(N, D)).astype(np.float32), rng.uniform(0.5, 1.5, n).astype(np.float32)
    known = None if truth is None else np.asarray(truth)[item]
    label = rng.integers(0, K, n)
    return Rows.build(x, item, label, pi, weight, item=item, fold=item % folds, truth=known, vote=vote)


def build(data, folds=2, **options):
    spec = Spec(len(data), K, (A,), 1, code_names=("annotator",), number_names=("seconds",), n_items=N)
    torch.manual_seed(0)
    return LatentTruth(MLP(D, K, width=8, depth=1, dropout=0.0), spec, folds=folds, **options).eval()


def batch_of(data):
    index, item = data.groups.members(torch.arange(N))
    return data.select(index, item=item)


def scanning(method, data):
    """What the engine hands to `on_epoch_start`."""
    return lambda function, **how: scan_rows(method, function, data, make_fabric("cpu"), **how)


def answers_of(data, weight):
    """The answers in their own order, each counted by its weight."""
    codes, numbers = data.codes.numpy(), data.numbers.numpy()
    how = {"n_items": N, "n_classes": K, "weight": weight}
    return Answers.build(data.item.numpy(), data.y_noisy.numpy(), Design.fit((A,), 0, numbers), codes, numbers, **how)


def evidence(method, data):
    return method.evidence[data.groups.first(torch.arange(N))]


@pytest.mark.parametrize("folds", [1, 2, 3])
@pytest.mark.parametrize("truth", [None, TRUTH])
@torch.no_grad()
def test_the_loss_is_that_of_plain_loops(folds, truth):
    data = rows(folds=folds, truth=truth)
    method, batch = build(data, folds), batch_of(data)
    method.evidence.update(torch.arange(len(data)), torch.randn(len(data), K))
    J, total = evidence(method, data), 0.0
    for m, f in enumerate(method.members):
        p = f(batch.x).softmax(1)
        for i in range(N):
            if folds == 1 or i % folds != m:
                classes = range(K) if truth is None or truth[i] < 0 else [truth[i]]
                total -= math.log(sum(float(p[i, k]) * math.exp(float(J[i, k])) for k in classes))
    seen_by_each = N if folds == 1 else N * (folds - 1) / folds
    assert float(method(batch)["loss"]) == pytest.approx(total / seen_by_each, rel=1e-5)


def test_a_network_learns_nothing_from_items_of_its_fold():
    data = rows(folds=3)
    method = build(data, folds=3)
    method.on_epoch_start(0, scanning(method, data))
    index, item = data.groups.members(torch.arange(1, N, 3))
    method(data.select(index, item=item))["loss"].backward()
    for m, f in enumerate(method.members):
        assert all(parameter.grad is not None for parameter in f.parameters())
        assert any(bool(parameter.grad.any()) for parameter in f.parameters()) == (m != 1)


@pytest.mark.parametrize("folds", [1, 2, 3])
@torch.no_grad()
def test_an_item_is_judged_by_the_network_that_has_not_seen_it(folds):
    data = rows()
    method, x = build(data, folds), data.x
    fold = torch.arange(N) % 5 - 1
    said, mean = method.unseen_logits(x, fold), torch.stack([f(x).softmax(1) for f in method.members]).mean(0)
    torch.testing.assert_close(method.logits(x).exp(), mean)
    for i, m in enumerate(fold.tolist()):
        own = method.members[m](x)[i].softmax(0) if folds > 1 and 0 <= m < folds else mean[i]
        torch.testing.assert_close(said[i].exp(), own)


@torch.no_grad()
def test_what_the_answers_say_is_the_answer_model_of_learn():
    data = rows(truth=TRUTH)
    method, answers = build(data), answers_of(data, data.weight.double().numpy())
    scan = scanning(method, data)
    method.on_epoch_start(0, scan)
    by_votes = shared_confusions(answers, vote_shares(answers))
    np.testing.assert_allclose(evidence(method, data).numpy(), by_votes, rtol=1e-5)
    method.on_epoch_start(3, scan)  # no power of two
    np.testing.assert_allclose(evidence(method, data).numpy(), by_votes, rtol=1e-5)
    for epoch in (1, 2, 4, 32):
        method.f.head.weight.add_(0.3)
        fold = torch.arange(N) % 2
        log_p = method.unseen_logits(data.x, fold).double().numpy()
        fitted = fit_answer_model(answers, log_p, truth=np.asarray(TRUTH), steps=FIT_STEPS)
        method.on_epoch_start(epoch, scan)
        expected = answers.by_item @ fitted.log_likelihood(answers)
        np.testing.assert_allclose(evidence(method, data).numpy(), expected, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_rows_of_one_vote_count_as_one():
    once = rows(answers=(2,))
    twice = once.subset(torch.arange(len(once)).repeat_interleave(2))
    vote = torch.arange(len(once)).repeat_interleave(2) + 7
    twice = Rows(**{**vars(twice), "vote": vote, "row_id": torch.arange(2 * len(once))})
    found = []
    for data in (once, twice):
        method = build(data)
        for epoch in (0, 1):
            method.on_epoch_start(epoch, scanning(method, data))
            found.append(evidence(method, data))
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[1], found[3], rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_many_items_are_read_in_parts_and_some_are_fitted(monkeypatch):
    data = rows()
    method, scan = build(data), scanning(build(data), data)
    monkeypatch.setattr(latent_truth, "CHUNK", 5 * K)
    method.on_epoch_start(1, scan)
    whole = build(data)
    monkeypatch.undo()
    whole.on_epoch_start(1, scan)
    torch.testing.assert_close(evidence(method, data), evidence(whole, data))
    monkeypatch.setattr(latent_truth, "FIT_NUMBERS", 6 * K)
    method.on_epoch_start(1, scan)
    answers, _, _ = read_answers(scan, method.spec)
    few = np.arange(0, N, 2)
    log_p = method.unseen_logits(data.x, torch.arange(N) % 2).double().numpy()
    model = fit_answer_model(answers.subset(few), log_p[few], steps=FIT_STEPS)
    expected = answers.by_item @ model.log_likelihood(answers)
    np.testing.assert_allclose(evidence(method, data).numpy(), expected, rtol=1e-3, atol=1e-3)


def test_it_finds_the_truth_of_a_crowd_better_than_votes():
    crowd = make_crowd(n_items=300, n_annotators=12, answers_per_item=3, n_classes=3, seed=1)
    frame, item = crowd.frame, crowd.frame["item"].to_numpy()
    codes = frame["annotator"].astype("category").cat.codes.to_numpy().astype(np.int32)[:, None]
    pi = EncodedPI(codes, np.zeros((len(frame), 0), np.float32))
    data = Rows.build(crowd.x.astype(np.float32), item, frame["label"].to_numpy(), pi, item=item, fold=item % 2)
    spec = Spec(len(frame), 3, (12,), code_names=("annotator",), n_items=300)
    training = Training(epochs=20, batch_size=32, lr=0.1, clip=1.0, select="last")
    network = {"width": 16, "depth": 1, "dropout": 0.2}
    fabric = make_fabric("cpu")
    method = fit(
        lambda: LatentTruth(MLP(crowd.x.shape[1], 3, **network), spec), data, None, training, Session(fabric)
    ).method
    truth = frame.groupby("item")["y"].first().to_numpy()
    first = data.groups.first(torch.arange(300))
    with torch.no_grad():
        unseen = method.unseen_logits(data.x[data.x_row[first]], data.fold[first])
    votes = np.zeros((300, 3))
    np.add.at(votes, (item, frame["label"].to_numpy()), 1)
    together = (unseen + method.evidence[first]).argmax(1).numpy()
    assert (together == truth).mean() > (votes.argmax(1) == truth).mean()


@pytest.mark.parametrize("k", [2, 40])
def test_any_number_of_classes_and_no_annotator(k):
    n = 30
    item = np.repeat(np.arange(n), 2)
    x = np.random.default_rng(0).normal(size=(n, D)).astype(np.float32)
    data = Rows.build(x, item, item % k, item=item, fold=item % 2)
    method = LatentTruth(MLP(D, k, width=8, depth=1), Spec(2 * n, k, n_items=n))
    for epoch in (0, 1):
        method.on_epoch_start(epoch, scanning(method, data))
        index, which = data.groups.members(torch.arange(n))
        assert math.isfinite(float(method(data.select(index, item=which))["loss"].detach()))
