"""The posterior of an item and the quality of its answers, by plain loops of their formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pidual.learn.answers.design import Design
from pidual.learn.answers.misleading import Misleading, find_misleading
from pidual.learn.answers.model import Answers
from pidual.learn.answers.posterior import leave_one_out, put_together

NO_PI = Design.fit((), None, np.zeros((1, 0)))


def make_answers(item, label, n, k, vote=None):
    """Answers without PI; rows of one vote share a weight of 1."""
    item, label = np.asarray(item), np.asarray(label)
    weight = None if vote is None else 1 / np.bincount(vote)[vote]
    empty = np.zeros((len(item), 0))
    return Answers.build(item, label, NO_PI, empty, empty, n_items=n, n_classes=k, weight=weight, vote=vote)


def draw(n=6, k=3, seed=0, copies=True):
    rng = np.random.default_rng(seed)
    votes = np.sort(rng.integers(0, n, 14))
    vote = np.repeat(np.arange(14), rng.integers(1, 4, 14) if copies else 1)
    item, label = votes[vote], rng.integers(0, k, len(vote))
    log_f, log_p = (np.log(rng.dirichlet(np.ones(k), size)) for size in (n, len(vote)))
    return make_answers(item, label, n, k, vote), log_f, log_p


def normalised(log_q):
    return np.exp(log_q) / np.exp(log_q).sum()


def by_loops(answers, log_f, log_p, tau, rho, own, row=None, item=None):
    """q of an item; or q_ij of an answer, where its own vote counts `own` and only by this row."""
    i = answers.item[row] if item is None else item
    votes = {vote: np.flatnonzero(answers.vote == vote) for vote in np.unique(answers.vote[answers.item == i])}
    b = min(1, 1 / (tau * (1 + rho * (len(votes) - 1))))
    pi, log_q = np.exp(log_f).mean(0), np.zeros(answers.n_classes)
    for z in range(answers.n_classes):
        inside = np.log(pi[z])
        for vote, rows in votes.items():
            if row is not None and vote == answers.vote[row]:
                inside += own * tau * log_p[row, z]
            else:
                inside += tau * log_p[rows, z].mean()
        log_q[z] = log_f[i, z] - np.log(pi[z]) + b * inside
    return normalised(log_q)


@pytest.mark.parametrize("tau", [1.0, 0.35])
@pytest.mark.parametrize("rho", [0.0, 0.4])
def test_posterior_and_quality_by_loops(tau, rho):
    answers, log_f, log_p = draw()
    found = put_together(answers, log_f, log_p, tau, rho=rho)
    for i in np.unique(answers.item):
        assert_allclose(found.q[i], by_loops(answers, log_f, log_p, tau, rho, 1.0, item=i), atol=1e-12)
    for row, label in enumerate(answers.label):
        for own, quality in ((0.5, found.quality), (0.0, found.unaided)):
            q = by_loops(answers, log_f, log_p, tau, rho, own, row=row)
            assert quality[row] == pytest.approx(q[label], abs=1e-12)
    assert_allclose(found.full, found.q[answers.item, answers.label])


def test_rows_of_one_vote_say_what_one_row_says():
    answers, log_f, log_p = draw(copies=False)
    rows = np.repeat(np.arange(len(answers.item)), 3)
    copied = make_answers(answers.item[rows], answers.label[rows], answers.n_items, 3, vote=answers.vote[rows])
    one, three = put_together(answers, log_f, log_p, 0.7), put_together(copied, log_f, log_p[rows], 0.7)
    assert_allclose(one.q, three.q, atol=1e-12)
    assert_allclose(one.quality[rows], three.quality, atol=1e-12)
    assert_allclose(
        leave_one_out(answers, log_f, log_p, 0.7)[rows], leave_one_out(copied, log_f, log_p[rows], 0.7), atol=1e-12
    )


def test_a_known_class_is_certain():
    answers, log_f, log_p = draw()
    truth = np.full(answers.n_items, -1)
    truth[answers.item[0]] = 2
    found = put_together(answers, log_f, log_p, 1.0, truth=truth)
    assert_allclose(found.q[answers.item[0]], [0, 0, 1])
    assert_allclose(found.quality[answers.item == answers.item[0]], answers.label[answers.item == answers.item[0]] == 2)


def test_items_that_mislead_by_loops():
    answers, log_f, log_p = draw(copies=False)
    rate, follow, k = 0.2, 0.7, 3
    found = put_together(answers, log_f, log_p, 1.0, misleading=Misleading(rate, follow, 1.0), rho=0.0)
    for i in np.unique(answers.item):
        q = np.zeros(k)
        for z in range(k):
            for m in range(k):
                share = 1 - rate if m == z else rate / (k - 1)
                for row in np.flatnonzero(answers.item == i):
                    p = np.exp(log_p[row])
                    share *= p[z] if m == z else (1 - follow) * p[z] + follow * p[m]
                q[z] += np.exp(log_f[i, z]) * share
        assert_allclose(found.q[i], q / q.sum(), atol=1e-12)


def crowd(mislead, seed=0, n=600, k=3, m=5):
    """Answers that are right in 85%, and f that is right in 90%; a share of the items misleads everybody."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, k, n)
    seems = np.where(rng.random(n) < mislead, (z + rng.integers(1, k, n)) % k, z)
    item = np.repeat(np.arange(n), m)
    follows = np.where(rng.random(len(item)) < 0.85, seems[item], z[item])
    label = np.where(rng.random(len(item)) < 0.85, follows, rng.integers(0, k, len(item)))
    says = np.where(rng.random(n) < 0.9, z, rng.integers(0, k, n))
    log_f = np.log(np.where(np.eye(k)[says] == 1, 0.86, 0.07))
    log_p = np.log(np.where(np.eye(k)[label] == 1, 0.9, 0.05))
    return make_answers(item, label, n, k), log_f, log_p, z


def test_items_that_mislead_are_found_where_there_are_any():
    answers, log_f, log_p, z = crowd(0.15)
    found = find_misleading(answers, log_f, log_p, 1.0)
    assert found is not None
    right = [
        (put_together(answers, log_f, log_p, 1.0, misleading=each).q.argmax(1) == z).mean() for each in (None, found)
    ]
    assert right[1] > right[0] + 0.02
    for seed in range(3):
        answers, log_f, log_p, _ = crowd(0.0, seed)
        assert find_misleading(answers, log_f, log_p, 1.0) is None
