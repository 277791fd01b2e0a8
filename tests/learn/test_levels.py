"""Answers in ordered levels: the model against plain loops, its limiting cases, and what it finds in ratings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pidual.learn.answers.design import Design
from pidual.learn.answers.judging import fit_judge
from pidual.learn.answers.levels import LevelModel
from pidual.learn.answers.model import Answers, fit_answer_model, likelihood


def make_answers(item, level, person, n_items, n_people, n_classes=2, weight=None):
    """Answers by these people, -1 where that is not known."""
    numbers = np.zeros((len(item), 0))
    design = Design.fit((n_people,), 0, numbers)
    return Answers.build(
        item, level, design, person[:, None], numbers, n_items=n_items, n_classes=n_classes, weight=weight
    )


def ratings(n_items=150, n_people=8, n_levels=5, seed=0):
    """Ratings of good and bad items, by people of whom the first half is harsh and the second lenient; the classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_items)
    item, person = np.repeat(np.arange(n_items), n_people), np.tile(np.arange(n_people), n_items)
    lenient = np.where(person < n_people // 2, -0.8, 0.8)
    level = np.clip(np.round(1 + 2 * y[item] + lenient + rng.normal(0, 1, len(item))), 0, n_levels - 1).astype(int)
    return make_answers(item, level, person, n_items, n_people), y


@pytest.mark.parametrize("known", [False, True])
def test_the_likelihood_and_its_derivative_by_loops(known):
    rng = np.random.default_rng(0)
    n, k, levels, people = 7, 3, 5, 4
    item, person = np.repeat(np.arange(n), 3), rng.integers(-1, people, 3 * n)
    weight = rng.uniform(0.5, 1, 3 * n)
    answers = make_answers(item, rng.integers(0, levels, 3 * n), person, n, people, k, weight)
    begin = LevelModel.begin(answers, levels)
    model, log_p = begin.like(rng.normal(size=begin.flat().size)), np.log(rng.dirichlet(np.ones(k), n))
    truth = np.where(np.arange(n) % 3 == 0, 1, -1) if known else None
    total = 0.0
    for i in range(n):
        f = np.exp(np.exp(model.log_sharpness) * log_p[i] + model.bias)
        joint = 0.0
        for z in range(k) if truth is None or truth[i] < 0 else [truth[i]]:
            product = f[z] / f.sum()
            for row in np.flatnonzero(item == i):
                own = model.own[person[row], z] if person[row] >= 0 else np.zeros(levels)
                p = np.exp(model.confusions[z] + own)
                product *= (p[answers.label[row]] / p.sum()) ** weight[row]
            joint += product
        total += np.log(joint)
    value, slope = likelihood(model, answers, log_p, truth)
    assert value == pytest.approx(total, abs=1e-9)
    flat = model.flat()
    for at, found in enumerate(slope.flat()):
        step = 1e-5 * (np.arange(len(flat)) == at)
        up, down = (likelihood(model.like(flat + sign * step), answers, log_p, truth)[0] for sign in (1, -1))
        assert found == pytest.approx((up - down) / 2e-5, abs=1e-6)


def test_where_all_classes_are_known_the_shared_table_is_that_of_the_counts():
    answers, y = ratings(2000)
    nobody = make_answers(answers.item, answers.label, np.full(len(answers.item), -1), 2000, 0)
    model = fit_answer_model(nobody, np.zeros((2000, 2)), truth=y, start=LevelModel.begin(nobody, 5), steps=100)
    counts = np.zeros((2, 5))
    np.add.at(counts, (y[answers.item], answers.label), 1)
    found = np.exp(model.table(nobody).log_table[-1])
    assert_allclose(found, counts / counts.sum(1, keepdims=True), atol=2e-3)


def test_an_answer_speaks_for_the_class_that_its_annotator_gives_the_level_to():
    answers, y = ratings()
    even = np.full((len(y), 2), np.log(0.5))
    judge = fit_judge(answers, even, n_levels=5)
    found = judge(answers, even)
    right = (found.q.argmax(1) == y).mean()
    above = np.where(answers.label >= 2, 1, 0)  # as if everybody had the same scale
    as_classes = make_answers(answers.item, above, answers.annotator[answers.context], len(y), 8)
    assert right > 0.97
    assert right >= (fit_judge(as_classes, even)(as_classes, even).q.argmax(1) == y).mean()
    spoken_for = judge.model.spoken_for(answers, judge.model.log_likelihood(answers), judge.log_share)
    person, middle = answers.annotator[answers.context], answers.label == 2
    assert set(spoken_for[middle & (person < 4)]) == {1}  # the middle of somebody harsh
    assert set(spoken_for[middle & (person >= 4)]) == {0}
    wrong = spoken_for != y[answers.item]
    assert 0.05 < wrong.mean() < 0.3
    assert (found.full[~wrong] > 0.5).mean() > 0.95
    assert (found.quality[wrong] < 0.5).mean() > 0.8
