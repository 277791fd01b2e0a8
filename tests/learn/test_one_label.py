"""One label an item beside given probabilities: against plain loops, and the answer model with all its parts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pidual.learn.answers import one_label
from pidual.learn.answers.design import Design
from pidual.learn.answers.model import BASE_SKILL, AnswerModel, Answers
from pidual.learn.answers.model import likelihood as of_answers
from pidual.learn.answers.one_label import LEAST, PRECISION, RIGHT, OneLabel, fit_one_label, likelihood
from pidual.learn.answers.posterior import put_together
from pidual.metrics import detection_auc


def make(n=600, k=4, seed=0, noise=0.15, strength=3.0):
    """Labels of which a share was moved to the next class, their truth, and probabilities of a fair classifier."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), truth] += strength
    p = np.exp(logits)
    p /= p.sum(1, keepdims=True)
    labels = np.where(rng.random(n) < noise, (truth + 1) % k, truth)
    return labels, truth, p.astype(np.float32)


def draw_model(k, seed=0):
    """Any numbers of the model, and the answer model and answers that are the same."""
    rng = np.random.default_rng(seed)
    favourites, confusions, bias = rng.normal(size=k), rng.normal(size=(k, k)), rng.normal(size=k)
    whole = AnswerModel(
        np.array([0.7]), favourites[None], confusions, np.zeros((0, k, k)), bias, np.asarray(math.log(1.3))
    )
    logits = confusions + favourites + (BASE_SKILL + 0.7) * np.eye(k)
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return OneLabel(1.3, bias, log_p), whole


def as_answers(labels, k):
    """One answer an item, all in one context with one column."""
    n = len(labels)
    design = Design((1,), None, (), np.zeros(0), np.ones(0))
    none = np.zeros((n, 0))
    return Answers.build(np.arange(n), labels, design, np.zeros((n, 1), int), none, n_items=n, n_classes=k)


@pytest.mark.parametrize("k", [2, 5])
def test_the_posterior_is_the_one_of_all_answers(k):
    labels, _, p = make(50, k)
    model, whole = draw_model(k)
    answers = as_answers(labels, k)
    log_f = whole.log_f(np.log(np.maximum(p, LEAST)).astype(np.float64))
    expected = put_together(answers, log_f, whole.log_likelihood(answers), 1.0)
    said = model(labels, p)
    for name in ("quality", "full", "unaided"):
        assert_allclose(getattr(said, name), getattr(expected, name), rtol=1e-4)
    assert (said.consensus == expected.q.argmax(1)).all()
    assert_allclose(said.consensus_quality, expected.q.max(1), rtol=1e-4)


def test_the_likelihood_and_its_slopes_are_those_of_the_answer_model(monkeypatch):
    labels, _, p = make(200, 5)
    labels, p = np.sort(labels), p[np.argsort(labels)]
    model, whole = draw_model(5)
    logs = np.log(p)
    monkeypatch.setattr(one_label, "CACHED", 5 * 17)
    value, by_s, by_bias, by_logits = likelihood(model, labels, logs - logs.max(1, keepdims=True))
    expected, slope = of_answers(whole, as_answers(labels, 5), logs.astype(np.float64))
    assert value == pytest.approx(expected, rel=1e-5)
    assert model.sharpness * by_s == pytest.approx(float(slope.log_sharpness), rel=1e-3)
    assert_allclose(by_bias, slope.bias, atol=1e-3)
    assert_allclose(by_logits, slope.confusions, atol=1e-3)
    assert np.trace(by_logits) == pytest.approx(slope.skill[0], abs=1e-3)
    assert_allclose(by_logits.sum(0), slope.favourites[0], atol=1e-3)


def test_a_table_without_rows_is_the_prior():
    model = fit_one_label(np.zeros(0, np.int64), np.zeros((0, 4), np.float32))
    right = np.exp(BASE_SKILL) / (np.exp(BASE_SKILL) + 3)
    assert model.sharpness == pytest.approx(1, abs=1e-3)
    assert_allclose(np.exp(model.log_p), np.where(np.eye(4), right, (1 - right) / 3), atol=0.01)
    assert PRECISION["skill"] > RIGHT > PRECISION["confusions"]


def test_confusions_are_found_where_classes_are_clear():
    labels, truth, p = make(6000, 4, noise=0.2, strength=8.0)
    model = fit_one_label(labels, p)
    for one in range(4):
        shares = np.bincount(labels[truth == one], minlength=4) / (truth == one).sum()
        assert_allclose(np.exp(model.log_p[one]), shares, atol=0.02)


def test_pairs_of_many_classes_are_found_too():
    labels, truth, p = make(3000, 60, noise=0.3, strength=8.0)
    model = fit_one_label(labels, p)
    assert 60 * 60 > 3000
    chances = np.exp(model.log_p)
    following = chances[np.arange(60), (np.arange(60) + 1) % 60]
    assert following.min() > 5 * (1 - np.diag(chances) - following).max() / 58
    assert detection_auc(model(labels, p).quality, labels != truth) > 0.99


def test_wrong_labels_come_first_and_are_counted():
    labels, truth, p = make(4000, 5, noise=0.2, strength=4.0)
    said = fit_one_label(labels, p)(labels, p)
    wrong = labels != truth
    assert detection_auc(said.quality, wrong) > detection_auc(p[np.arange(4000), labels], wrong) > 0.9
    assert (1 - said.quality).mean() == pytest.approx(wrong.mean(), abs=0.03)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ">f4"])
def test_any_kind_of_number_is_judged_alike(dtype):
    labels, _, p = make(200, 7)
    p = p.astype(dtype)
    model = draw_model(7)[0]
    for one, other in zip(model(labels, p), model(labels, p.astype(np.float32)), strict=True):
        assert_allclose(one, other, rtol=2e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 10_000), st.sampled_from([0.01, 1.0, 50.0]))
def test_any_probabilities_give_qualities(n, k, seed, spread):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 1 / spread), n) if spread < 50 else np.eye(k)[rng.integers(0, k, n)]
    labels, p = rng.integers(0, k, n), p.astype(np.float32)
    said = fit_one_label(labels, p)(labels, p)
    for shares in (said.quality, said.full, said.unaided, said.consensus_quality):
        assert np.isfinite(shares).all()
        assert ((shares >= 0) & (shares <= 1)).all()
    assert (said.full <= said.consensus_quality).all()
