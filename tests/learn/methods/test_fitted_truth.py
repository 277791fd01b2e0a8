"""What was worked out about answers is held as plain numbers, and is the same when it is read back."""

import numpy as np
import pytest
import torch
from torch import nn

from pidual.detect.gold import Calibrator
from pidual.learn.answers.design import Design
from pidual.learn.answers.judging import Judge
from pidual.learn.answers.misleading import Misleading
from pidual.learn.answers.model import FULL_CLASSES, AnswerModel, Answers
from pidual.learn.answers.posterior import Temper
from pidual.learn.batch import Spec
from pidual.learn.methods.fitted_truth import AnswerWeights, FittedTruth

RNG = np.random.default_rng(0)


def made(k, misleading, *, people=True, numbers=2):
    """A spec, design and judge of random numbers, and answers to judge."""
    cardinalities, names = ((4, 3), ("annotator", "tool")) if people else ((3,), ("tool",))
    spec = Spec(60, k, cardinalities, numbers, code_names=names, number_names=("a", "b")[:numbers])
    codes = np.stack([RNG.integers(0, size, 60) for size in cardinalities], 1)
    values = RNG.normal(size=(60, numbers)).astype(np.float32)
    design = Design.fit(cardinalities, 0 if people else None, values)
    label, item = RNG.integers(0, k, 60), np.repeat(np.arange(20), 3)
    answers = Answers.build(item, label, design, codes, values, n_items=20, n_classes=k)
    empty = AnswerModel.empty(answers)
    model = empty.like(RNG.normal(size=empty.flat().shape))
    share = np.log(RNG.dirichlet(np.ones(k)))
    return spec, design, Judge(model, Temper(0.7, 0.35), share, misleading), answers, (codes, values)


@pytest.mark.parametrize("misleading", [None, Misleading(0.2, 0.8, 1.4)])
@pytest.mark.parametrize("k", [3, FULL_CLASSES + 1])
@pytest.mark.parametrize("kinds", [{}, {"people": False}, {"numbers": 0}, {"people": False, "numbers": 1}])
@pytest.mark.parametrize("gold", [0, 2])
def test_what_is_held_is_read_back(k, misleading, kinds, gold):
    spec, design, judge, answers, (codes, values) = made(k, misleading, **kinds)
    numbers = RNG.normal(size=(gold, k + 2 + spec.n_annotators))
    calibrator = Calibrator(np.full(gold, 0.5), numbers, k) if gold else None
    weights = AnswerWeights.of(spec, design, judge, calibrator)
    method = FittedTruth.around(nn.Identity(), spec, weights)
    other = FittedTruth(nn.Identity(), spec, **weights.given)
    other.load_state_dict(method.state_dict())
    learned, found = other.learned.judge, other.learned.calibrator
    assert (found is None) == (gold == 0)
    if gold:
        np.testing.assert_array_equal(found.numbers, numbers)
        assert (found.share.tolist(), found.n_classes) == ([0.5, 0.5], k)
    for name, value in vars(judge.model).items():
        np.testing.assert_array_equal(getattr(learned.model, name), value)
    assert (learned.temper.sharpness, learned.temper.tau, learned.misleading) == (0.7, 0.35, misleading)
    expected, found = (design.columns(codes, values), other.learned.design.columns(codes, values))
    np.testing.assert_array_equal(found.toarray(), expected.toarray())
    np.testing.assert_array_equal(other.learned.design.annotator(codes), design.annotator(codes))
    log_p = np.log(RNG.dirichlet(np.ones(k), 20))
    np.testing.assert_array_equal(learned(answers, log_p).q, judge(answers, log_p).q)


def test_logits_are_logarithms_of_what_f_says():
    spec, design, judge, *_ = made(3, None)
    method = FittedTruth.around(nn.LogSoftmax(1), spec, AnswerWeights.of(spec, design, judge))
    x = torch.randn(5, 3)
    torch.testing.assert_close(method.logits(x).softmax(1), x.softmax(1))
    assert not list(method.parameters())  # there is nothing to train
