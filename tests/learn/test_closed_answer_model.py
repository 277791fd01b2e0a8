"""The answer model against plain loops of its formula, its derivative against differences, and its limiting cases."""

from dataclasses import replace

import numpy as np
import pytest

from pidual.learn.answers import model as answer_model
from pidual.learn.answers.design import Design
from pidual.learn.answers.model import AnswerModel, Answers, likelihood, softmax


def draw(n=12, k=3, annotators=4, per_item=3, seed=0, numbers=1):
    """Random answers with two categorical columns, of which the first is the annotator, and some numbers."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(n), per_item)
    codes = np.stack([rng.integers(-1, annotators, len(item)), rng.integers(0, 2, len(item))], 1)
    values = rng.normal(size=(len(item), numbers))
    design = Design.fit((annotators, 2), 0, values)
    weight = rng.uniform(0.5, 1, len(item))
    labels = rng.integers(0, k, len(item))
    answers = Answers.build(item, labels, design, codes, values, n_items=n, n_classes=k, weight=weight)
    log_p = np.log(rng.dirichlet(np.ones(k), n))
    empty = AnswerModel.empty(answers)
    return answers, log_p, empty.like(rng.normal(size=len(empty.flat())))


def by_loops(model, answers, log_p, truth=None):
    """The log-likelihood of all answers, a class of an item and a label at a time."""
    total, k = 0.0, answers.n_classes
    columns = answers.columns.toarray()
    for i in range(answers.n_items):
        scaled = [np.exp(model.log_sharpness) * log_p[i, z] + model.bias[z] for z in range(k)]
        f = np.exp(scaled) / np.exp(scaled).sum()
        joint = 0.0
        for z in range(k) if truth is None or truth[i] < 0 else [truth[i]]:
            product = f[z]
            for row in np.flatnonzero(answers.item == i):
                a = columns[answers.context[row]]
                who = answers.annotator[answers.context[row]]
                logits = []
                for label in range(k):
                    skill = (max(2.0, np.log(k - 1)) + a @ model.skill) * (label == z)
                    if model.full:
                        t = model.confusions[z, label]
                    else:
                        t = model.confusions[0, z] * (label == z) + model.confusions[1, label]
                    own = model.own[who, z, label] if len(model.own) and who >= 0 else 0.0
                    logits.append(skill + t + a @ model.favourites[:, label] + own)
                p = np.exp(logits[answers.label[row]]) / np.exp(logits).sum()
                product *= p ** answers.weight[row]
            joint += product
        total += np.log(joint)
    return total


@pytest.mark.parametrize("k", [3, 40])
@pytest.mark.parametrize("known", [False, True])
def test_the_likelihood_and_its_derivative(k, known, monkeypatch):
    monkeypatch.setattr(answer_model, "CHUNK", 5 * k)  # several parts
    answers, log_p, model = draw(k=k)
    truth = np.full(answers.n_items, -1) if known else None
    if known:
        truth[::3] = 1
    value, slope = likelihood(model, answers, log_p, truth)
    assert value == pytest.approx(by_loops(model, answers, log_p, truth), abs=1e-9)
    flat, slope = model.flat(), slope.flat()
    for at in np.random.default_rng(1).permutation(len(flat))[:40]:
        step = np.zeros_like(flat)
        step[at] = 1e-5
        ends = [likelihood(model.like(flat + sign * step), answers, log_p, truth)[0] for sign in (1, -1)]
        assert slope[at] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 60, 100, 1000])
def test_a_softmax_of_any_size_is_finite(kind, size):
    z = size * np.array([[1.0, 0.5, -1.0], [-1.0, -1.0, -1.0]], kind)
    total, p = softmax(z)
    exact = z.astype(np.float64)
    exact = np.exp(exact - exact.max(1, keepdims=True))
    np.testing.assert_allclose(p, exact / exact.sum(1, keepdims=True), rtol=1e-5, atol=1e-30)
    np.testing.assert_allclose(total, z.max(1) + np.log(exact.sum(1)), rtol=1e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [-1e4, 1e4])
@pytest.mark.parametrize("name", ["skill", "favourites", "confusions", "own", "bias", "log_sharpness"])
@pytest.mark.parametrize("k", [2, 40])
def test_numbers_after_a_step_that_is_too_long_have_a_likelihood(k, name, size):
    """No number overflows, is divided by zero or is no number, so that the next step can be shorter."""
    answers, log_p, model = draw(k=k)
    model = replace(model, **{name: size * np.ones_like(getattr(model, name))})
    with np.errstate(all="raise", under="ignore"):
        value, slope = likelihood(model, answers, log_p)
    assert np.isfinite(value)
    assert value <= 0
    assert np.isfinite(slope.flat()).all()
