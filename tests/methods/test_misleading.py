"""Items that mislead: the posterior against plain loops, its limits, and when held-out answers speak for it."""

import math
from unittest import mock

import numpy as np
import pytest
import torch

from pidual.methods import misleading
from pidual.methods.held_out import answer_quality, log_posterior
from pidual.methods.misleading import find_misleading, judge_answers, some_items, wrong_at

RATE, FOLLOW, TAU = 0.2, 0.85, 0.6
K = 4


@pytest.fixture
def small():
    """Two members, three items with 3, 1 and 2 answers."""
    generator = torch.Generator().manual_seed(5)
    log_f = torch.randn(2, 3, K, generator=generator).log_softmax(-1)
    log_p = torch.rand(2, 6, K, generator=generator).clamp(min=0.05).log()
    return log_f, log_p, torch.tensor([0, 0, 0, 1, 2, 2]), torch.tensor([1, 0, 3, 2, 2, 0])


def believed(f, p, own, answers, judged=None):
    """q(z) by plain loops; the answer `judged` counts `own` of what others count."""
    joint = []
    for z in range(K):
        total = 0.0
        for m in range(K):
            product = 1 - RATE if m == z else RATE / (K - 1)
            for j in answers:
                power = TAU * (own if j == judged else 1.0)
                product *= ((1 - FOLLOW) * p[j][z] + FOLLOW * p[j][m]) ** power
            total += product
        joint.append(f[z] * total)
    return [value / sum(joint) for value in joint]


def test_the_posterior_and_the_quality_by_plain_loops(small):
    log_f, log_p, item, given = small
    tau = torch.full((2, 1, 1), TAU)
    log_q, qualities = judge_answers(log_f, log_p, item, given, tau, RATE, FOLLOW, (0.5, 0.0))
    for member in range(2):
        f, p = log_f[member].exp().tolist(), log_p[member].exp().tolist()
        for i in range(3):
            answers = [j for j in range(6) if item[j] == i]
            wanted = believed(f[i], p, 1.0, answers)
            assert log_q[member, i].softmax(-1).tolist() == pytest.approx(wanted, rel=1e-5)
            for j in answers:
                for own, quality in zip((0.5, 0.0), qualities, strict=True):
                    wanted = believed(f[i], p, own, answers, judged=j)[given[j]]
                    assert float(quality[member, j]) == pytest.approx(wanted, rel=1e-5)


def test_rows_of_a_vote_count_as_one_answer(small):
    log_f, log_p, item, given = small
    tau, again, single = torch.full((2, 1, 1), TAU), torch.tensor([0, 1, 2, 0, 3, 4, 5, 0, 5]), torch.arange(6)
    for vote in (None, single):
        log_q, qualities = judge_answers(log_f, log_p, item, given, tau, RATE, FOLLOW, (0.5, 0.0), vote)
        found, of_rows = judge_answers(
            log_f, log_p[:, again], item[again], given[again], tau, RATE, FOLLOW, (0.5, 0.0), single[again]
        )
        assert torch.allclose(found, log_q, atol=1e-5)
        for rows, quality in zip(of_rows, qualities, strict=True):
            assert torch.allclose(rows, quality[:, again], atol=1e-5)


def test_no_rate_is_the_plain_posterior_and_a_small_one_is_near_it(small):
    log_f, log_p, item, given = small
    tau = torch.tensor([0.6, 1.0]).view(2, 1, 1)
    plain = log_posterior(log_f, log_p, item, tau)
    log_q, qualities = judge_answers(log_f, log_p, item, given, tau)
    assert torch.equal(log_q, plain)
    for quality, wanted in zip(qualities, answer_quality(plain, log_p, item, given, tau), strict=True):
        assert torch.equal(quality, wanted)
    near, _ = judge_answers(log_f, log_p, item, given, tau, 1e-7, FOLLOW)
    assert torch.allclose(near.softmax(-1), plain.softmax(-1), atol=1e-5)


def test_if_all_follow_the_answers_say_how_the_item_looks(small):
    """follow = 1: sum_m R[z, m] prod_j P(l_j | m), R the chance that an item of class z looks like one of class m."""
    log_f, log_p, item, given = small
    log_q, _ = judge_answers(log_f, log_p, item, given, torch.ones(2, 1, 1), RATE, 1.0)
    looks = torch.full((K, K), RATE / (K - 1)).fill_diagonal_(1 - RATE)
    product = log_posterior(torch.zeros_like(log_f), log_p, item).exp()
    assert torch.allclose(log_q.exp(), log_f.exp() * (product @ looks.T), rtol=1e-4)


# --- when it is believed ---


def crowd(seed, *, n=600, answers=6, misled=0.0, f_wrong=0.0, skill=2.2, k=K):
    """Held-out log f and log P of answers that come from the truth, some items misled, some of f's classes wrong."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, k, n)
    says = np.where(rng.random(n) < f_wrong, (z + rng.integers(1, k, n)) % k, z)
    log_f = torch.from_numpy(np.eye(k)[says] * 4.0).float().log_softmax(-1)
    looks = np.where(rng.random(n) < misled, (z + rng.integers(1, k, n)) % k, z)
    item = np.repeat(np.arange(n), answers)
    behind = np.where(rng.random(len(item)) < 0.75, looks[item], z[item])
    p = torch.from_numpy(np.eye(k) * skill).float().log_softmax(-1)  # log P(l | k)
    given = torch.multinomial(p[behind].exp(), 1, generator=torch.Generator().manual_seed(seed))[:, 0]
    return log_f[None], p.T[given][None], torch.from_numpy(item), torch.from_numpy(z), given


@pytest.mark.parametrize("seed", range(4))
def test_items_that_mislead_are_found_and_judged(seed):
    log_f, log_p, item, z, given = crowd(seed, misled=0.2)
    found = find_misleading(log_f, log_p, item, [1.0], [1.0])
    assert found is not None
    assert found.rate in (0.15, 0.2, 0.3)
    assert found.follow in (0.7, 0.85)
    sharper = (log_f * found.sharpness[0]).log_softmax(-1)
    log_q, _ = judge_answers(sharper, log_p, item, given, torch.ones(1, 1, 1), found.rate, found.follow)
    plain = log_posterior(log_f, log_p, item)
    right, right_before = ((q[0].argmax(-1) == z).float().mean() for q in (log_q, plain))
    assert right > right_before + 0.05
    assert right > 0.95


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [{}, {"f_wrong": 0.2}, {"answers": 2}, {"skill": 1.0}, {"k": 2, "f_wrong": 0.1}])
def test_answers_from_the_truth_are_not_taken_to_mislead(seed, shape):
    """Not even where f is surely wrong about many items, and its class is against that of most answers."""
    log_f, log_p, item, *_ = crowd(seed, **shape)
    assert find_misleading(log_f, log_p, item, [1.0], [1.0]) is None


def test_where_nothing_can_be_found():
    log_f, log_p, item, *_ = crowd(0, misled=0.2)
    assert find_misleading(log_f, log_p, item, [1.0], [1.0]) is not None
    first = torch.arange(0, len(item), 6)
    assert find_misleading(log_f, log_p[:, first], item[first], [1.0], [1.0]) is None  # one answer each
    same = torch.full_like(log_f, math.log(1 / K))
    assert find_misleading(same, log_p, item, [1.0], [1.0]) is None  # no input
    folds = (torch.arange(log_f.shape[1]) % 5)[:, None] * torch.linspace(-0.1, 0.1, K)
    assert find_misleading((same + folds).log_softmax(-1), log_p, item, [1.0], [1.0]) is None  # of five folds
    shuffled = log_f[:, torch.randperm(log_f.shape[1], generator=torch.Generator().manual_seed(0))]
    assert find_misleading(shuffled, log_p, item, [1.0], [1.0]) is None  # that of other items
    many = [torch.nn.functional.pad(part, (0, 40), value=-20.0) for part in (log_f, log_p)]
    assert find_misleading(*many, item, [1.0], [1.0]) is None  # too many classes
    with mock.patch.object(misleading, "CLEAR", 20 * misleading.CLEAR):
        assert find_misleading(log_f, log_p, item, [1.0], [1.0]) is None  # not clear enough


def test_settings_decide_together_and_those_without_a_share_do_not_count():
    log_f, log_p, item, *_ = crowd(0, misled=0.2)
    twice = torch.cat([log_f, log_f.flip(-1)]), torch.cat([log_p, log_p])
    alone = find_misleading(log_f, log_p, item, [1.0], [1.0])
    found = find_misleading(*twice, item, [1.0, 1.0], [1.0, 0.0])
    assert found == (alone.rate, alone.follow, [*alone.sharpness, 1.0])


def test_a_part_of_the_items_decides_where_there_are_many():
    log_f, log_p, item, *_ = crowd(0)
    few_f, few_p, few = some_items(log_f, log_p, item, 900)
    assert few_p.shape[1] == len(few) <= 900
    assert few_f.shape[1] == int(few.max()) + 1
    step = log_f.shape[1] // few_f.shape[1]
    assert torch.equal(few_f[:, 1], log_f[:, step])
    assert torch.equal(few_p[:, few == 1], log_p[:, item == step])
    for whole, part in zip((log_f, log_p, item), some_items(log_f, log_p, item, len(item)), strict=True):
        assert torch.equal(whole, part)


def test_an_f_that_is_wrong_at_a_rate():
    log_f = torch.tensor([[0.7, 0.2, 0.1]]).log()
    wanted = [0.9 * p + 0.1 * (1 - p) / 2 for p in (0.7, 0.2, 0.1)]
    assert wrong_at(log_f, 0.1).exp()[0].tolist() == pytest.approx(wanted, rel=1e-6)
    assert wrong_at(log_f, 0.0).exp()[0].tolist() == pytest.approx([0.7, 0.2, 0.1], rel=1e-6)
