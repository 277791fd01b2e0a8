"""Posterior, leave-one-answer-out likelihood and tempers, against enumeration and plain loops."""

import itertools
import math

import pytest
import torch

from pidual.methods.held_out import (
    SHARPNESS,
    answer_quality,
    by_vote,
    find_sharpness,
    find_tempers,
    leave_one_out,
    log_posterior,
    mixture_shares,
)


def crowd(n=60, k=3, answers=3, seed=0, right=0.7):
    """Items with a truth, answers by one rate, and log f that knows something of the truth."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randint(k, (n,), generator=generator)
    item = torch.arange(n).repeat_interleave(answers)
    wrong = torch.rand(len(item), generator=generator) > right
    y = torch.where(wrong, torch.randint(k, (len(item),), generator=generator), z[item])
    p = torch.full((k, k), (1 - right) / (k - 1)).fill_diagonal_(right)
    log_f = (torch.nn.functional.one_hot(z, k) * 1.5 + torch.randn(n, k, generator=generator)).log_softmax(-1)
    return log_f, p.T[y].log(), item, z


@pytest.mark.parametrize("tau", [1.0, 0.35])
def test_the_posterior_is_that_of_enumeration(tau):
    log_f, log_p, item, _ = crowd(n=5)
    q = log_posterior(log_f, log_p, item, tau).softmax(-1)
    for i in range(5):
        joint = []
        for k in range(3):
            value = math.exp(float(log_f[i, k]))
            for j in torch.nonzero(item == i)[:, 0].tolist():
                value *= math.exp(float(log_p[j, k])) ** tau
            joint.append(value)
        assert q[i].tolist() == pytest.approx([value / sum(joint) for value in joint], rel=1e-5)


@pytest.mark.parametrize("tau", [1.0, 0.5])
def test_leave_one_out_leaves_the_answer_out(tau):
    log_f, log_p, item, _ = crowd(n=4)
    found = leave_one_out(log_f, log_p, item, tau)
    for r in range(len(item)):
        others = [j for j in torch.nonzero(item == item[r])[:, 0].tolist() if j != r]
        weights = [
            math.exp(float(log_f[item[r], k])) * math.prod(math.exp(float(log_p[j, k])) ** tau for j in others)
            for k in range(3)
        ]
        expected = math.log(sum(w / sum(weights) * math.exp(float(log_p[r, k])) for k, w in enumerate(weights)))
        assert float(found[r]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("tau", [1.0, 0.35])
@pytest.mark.parametrize("own", [0.0, 0.5, 1.0])
def test_an_answer_is_judged_by_the_others_and_by_a_part_of_itself(tau, own):
    log_f, log_p, item, z = crowd(n=5)
    given = (z[item] + torch.arange(len(item))) % 3
    (quality,) = answer_quality(log_posterior(log_f, log_p, item, tau), log_p, item, given, tau, [own])
    for j, i in enumerate(item.tolist()):
        joint = []
        for k in range(3):
            value = math.exp(float(log_f[i, k]))
            for other in torch.nonzero(item == i)[:, 0].tolist():
                value *= math.exp(float(log_p[other, k])) ** (tau * (own if other == j else 1))
            joint.append(value)
        assert float(quality[j]) == pytest.approx(joint[given[j]] / sum(joint), rel=1e-4)


def test_an_answer_that_counts_in_full_has_its_share_of_the_posterior_and_without_it_that_of_f():
    log_f, log_p, item, z = crowd(answers=1)
    log_q = log_posterior(log_f, log_p, item)
    full, none = answer_quality(log_q, log_p, item, z, owns=(1.0, 0.0))
    torch.testing.assert_close(full, log_q.softmax(-1)[item, z])
    torch.testing.assert_close(none, log_f.softmax(-1)[item, z])


def test_with_one_answer_an_item_it_is_the_likelihood_given_x():
    log_f, log_p, item, _ = crowd(answers=1)
    expected = (log_f + log_p).logsumexp(-1)
    torch.testing.assert_close(leave_one_out(log_f, log_p, item, 1.0), expected)
    assert find_tempers(log_f, log_p, item)[1] == 1.0


def test_answers_that_are_independent_are_not_tempered():
    log_f, log_p, item, _ = crowd(n=3000, answers=5)
    assert find_tempers(log_f, log_p, item)[1] >= 0.7


def test_answers_to_items_that_mislead_everybody_are_tempered():
    """Alike except for one thing: whether the mistakes are spread over all items, or met in half of them."""
    generator = torch.Generator().manual_seed(0)
    n, k, answers = 3000, 4, 8
    item = torch.arange(n).repeat_interleave(answers)
    z = torch.randint(k, (n,), generator=generator)
    p = torch.full((k, k), 0.005)
    p[torch.arange(k), torch.arange(k)], p[torch.arange(k), (torch.arange(k) + 1) % k] = 0.74, 0.25
    hard = (torch.rand(n, generator=generator) < 0.5)[item]
    found = {}
    for name, rate in (("spread", torch.full((len(item),), 0.26)), ("shared", torch.where(hard, 0.5, 0.02))):
        misled = torch.rand(len(item), generator=generator) < rate
        y = torch.where(misled, (z[item] + 1) % k, z[item])
        found[name] = find_tempers(torch.zeros(n, k), p.T[y].log(), item)[1]
    assert found["shared"] < found["spread"] == 1.0


def test_an_overconfident_network_is_made_less_sharp():
    log_f, log_p, item, _ = crowd(n=4000, answers=2)
    honest, _, _ = find_tempers(log_f, log_p, item)
    sure, _, _ = find_tempers((3 * log_f).log_softmax(-1), log_p, item)
    assert sure < honest
    evidence = log_posterior(torch.zeros_like(log_f), log_p, item).log_softmax(-1)
    assert find_sharpness((3 * log_f).log_softmax(-1), evidence)[0] < find_sharpness(log_f, evidence)[0]


def test_a_network_that_knows_nothing_is_left_out_of_the_judging():
    _, log_p, item, _ = crowd(n=2000, answers=3)
    useless = torch.randn(2000, 3, generator=torch.Generator().manual_seed(5)).mul(3).log_softmax(-1)
    assert find_tempers(useless, log_p, item)[0] <= SHARPNESS[1]


def test_shares_maximise_the_likelihood_of_the_mixture():
    torch.manual_seed(0)
    log_likelihoods = torch.randn(3, 200)
    shares = mixture_shares(log_likelihoods)
    assert float(shares.sum()) == pytest.approx(1.0)
    best = float((shares[:, None] * log_likelihoods.exp()).sum(0).log().sum())
    grid = [i / 20 for i in range(21)]
    for a, b in itertools.product(grid, grid):
        if a + b <= 1:
            w = torch.tensor([a, b, 1 - a - b])
            assert float((w[:, None] * log_likelihoods.exp()).sum(0).log().sum()) <= best + 1e-2


def test_the_better_setting_gets_the_larger_share():
    log_f, log_p, item, _ = crowd(n=500)
    good, bad = leave_one_out(log_f, log_p, item, 1.0), leave_one_out(-log_f, log_p, item, 1.0)
    shares = mixture_shares(torch.stack([bad, good]))
    assert shares[1] > 0.95


def votes_of(item, seed=0):
    """Votes of one, two or three rows each."""
    m = torch.tensor([1, 2, 3]).repeat(len(item))[: len(item)]
    once = item.repeat_interleave(m)
    return torch.arange(len(item)).repeat_interleave(m), once


@pytest.mark.parametrize("tau", [1.0, 0.35])
@pytest.mark.parametrize("own", [0.0, 0.5, 1.0])
def test_rows_of_a_vote_count_as_one_answer(tau, own):
    log_f, once, items, z = crowd(n=6, answers=2)
    vote, item = votes_of(items)
    log_p = (once[vote] + torch.randn(len(vote), 3, generator=torch.Generator().manual_seed(1)) / 4).log_softmax(-1)
    given = (z[item] + torch.arange(len(item))) % 3
    order = torch.randperm(len(vote), generator=torch.Generator().manual_seed(2))
    vote, item, log_p, given = vote[order] * 7 + 3, item[order], log_p[order], given[order]
    of_vote, vote_item, number = by_vote(log_p, item, vote)
    log_q = log_posterior(log_f, of_vote, vote_item, tau)
    (quality,) = answer_quality(log_q, log_p, item, given, tau, [own], vote)
    left_out = leave_one_out(log_f, of_vote, vote_item, tau)

    def p_of(one, k):
        """P of a vote: each of its m rows to the power of 1/m."""
        rows = torch.nonzero(vote == one)[:, 0].tolist()
        return math.prod(math.exp(float(log_p[row, k])) ** (1 / len(rows)) for row in rows)

    for j, i in enumerate(item.tolist()):
        others = {one for one in vote[item == i].tolist() if one != int(vote[j])}
        without = [math.exp(float(log_f[i, k])) * math.prod(p_of(one, k) ** tau for one in others) for k in range(3)]
        joint = [value * math.exp(float(log_p[j, k])) ** (own * tau) for k, value in enumerate(without)]
        assert float(quality[j]) == pytest.approx(joint[given[j]] / sum(joint), rel=1e-4)
        whole = [value * p_of(int(vote[j]), k) ** tau for k, value in enumerate(without)]
        assert log_q[i].softmax(-1).tolist() == pytest.approx([value / sum(whole) for value in whole], rel=1e-4)
        likelihood = sum(value / sum(without) * p_of(int(vote[j]), k) for k, value in enumerate(without))
        assert float(left_out[number[j]]) == pytest.approx(math.log(likelihood), rel=1e-4, abs=1e-5)


def test_votes_of_one_row_each_change_no_bit():
    log_f, log_p, item, z = crowd()
    log_q = log_posterior(log_f, log_p, item, 0.7)
    plain = answer_quality(log_q, log_p, item, z[item], 0.7)
    alone = torch.arange(len(item)).flip(0)
    of_vote, vote_item, number = by_vote(log_p, item, alone)
    assert torch.equal(of_vote[number], log_p)
    assert torch.equal(vote_item[number], item)
    for one, other in zip(answer_quality(log_q, log_p, item, z[item], 0.7, vote=alone), plain, strict=True):
        assert torch.equal(one, other)
