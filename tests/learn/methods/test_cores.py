"""CORES, first phase, against plain loops written from its objective: loss, sieve, prior and schedule."""

import math

import pytest
import torch
from torch import nn
from toy import batch_of, finite_difference, log_softmax

from pidual.learn.batch import Spec
from pidual.learn.methods import CORES

N, K, B = 24, 4, 8
BETAS = [0.0] * 10 + [2 * (epoch - 10) / 29 for epoch in range(10, 40)] + [2.0] * 60  # the authors' 100 epochs


def make(epochs=100, **options):
    """The network passes x on: the tests' inputs are logits."""
    return CORES(nn.Identity(), Spec(N, K, epochs=epochs), **options)


def begin(method, epoch, labels):
    """Start an epoch of a training set with these labels, as the engine does."""

    def scan(function, *, with_x=True):
        n = len(labels)
        return function(batch_of(torch.arange(n), torch.zeros(n, K), labels))

    assert not method.begin_epoch(epoch, scan)


def minus_log_softmax(f):
    return [-value for value in log_softmax(f)]


def minus_logs(f):
    """l_k, with the 1e-8."""
    return [-math.log(math.exp(-value) + 1e-8) for value in minus_log_softmax(f)]


def sieve_score(f, y):
    return minus_log_softmax(f)[y] - sum(minus_logs(f)) / K


def loss_by_loops(logits, y, keep, prior, beta, weight=None):
    """Divided by 1 + beta: what the authors do to the rate."""
    weight = weight or [1.0] * len(logits)
    total, kept = 0.0, 0.0
    for f, label, kept_row, w in zip(logits, y, keep, weight, strict=True):
        if kept_row:
            regulariser = sum(pi_k * l_k for pi_k, l_k in zip(prior, minus_logs(f), strict=True))
            total += w * (minus_log_softmax(f)[label] - beta * regulariser)
            kept += w
    return total / kept / (1 + beta) if kept else 0.0


def kept_rows(logits, y, sieve):
    return [not sieve or sieve_score(f, label) <= 0 for f, label in zip(logits, y, strict=True)]


def shares(counts):
    return [count / sum(counts) for count in counts]


def counts_of(labels):
    return [sum(label == k for label in labels) for k in range(K)]


def test_a_hundred_epochs_equal_plain_loops():
    """Loss at every step, and the prior after every epoch: class counts less the counts of what was dropped."""
    method, labels = make(), torch.randint(0, K, (N,))
    prior = shares(counts_of(labels.tolist()))
    n_dropped = [0] * 100
    for epoch in range(100):
        begin(method, epoch, labels)
        assert method.prior.tolist() == pytest.approx(prior, abs=1e-6)
        left = counts_of(labels.tolist())
        for index in torch.randperm(N).split(B):
            logits, y = 2 * torch.randn(B, K), labels[index].tolist()
            keep = kept_rows(logits.tolist(), y, sieve=epoch > 30)
            logs = method(batch_of(index, logits, labels[index]))
            expected = loss_by_loops(logits.tolist(), y, keep, prior, BETAS[epoch])
            assert logs["loss"].item() == pytest.approx(expected, abs=1e-5)
            assert logs["kept"].item() == pytest.approx(sum(keep) / B)
            for label, kept in zip(y, keep, strict=True):
                left[label] -= not kept
            n_dropped[epoch] += B - sum(keep)
        prior = shares(left)
    assert sum(n_dropped[:31]) == 0
    assert all(0 < n < N for n in n_dropped[31:])


@pytest.mark.parametrize("epoch", [0, 20, 35, 70])
def test_gradients_equal_finite_differences_over_the_kept_rows(epoch):
    method, labels = make(), torch.randint(0, K, (N,))
    begin(method, 0, labels)
    begin(method, epoch, labels)
    prior = shares(counts_of(labels.tolist()))
    logits, y, weight = (2 * torch.randn(B, K)).requires_grad_(), labels[:B].tolist(), 0.5 + torch.rand(B)
    method(batch_of(torch.arange(B), logits, labels[:B], weight))["loss"].backward()
    rows = logits.tolist()
    keep = kept_rows(rows, y, sieve=epoch > 30)
    assert (sum(keep) < B) == (epoch > 30)

    def loss(rows):
        return loss_by_loops(rows, y, keep, prior, BETAS[epoch], weight.tolist())

    expected = [[finite_difference(loss, rows, i, k) for k in range(K)] for i in range(B)]
    assert torch.allclose(logits.grad, torch.tensor(expected), atol=1e-5)
    assert not logits.grad[~torch.tensor(keep)].any()


def strength(method):
    """beta of the present epoch, solved for from the loss (CE - beta r) / (1 + beta) of a row that is always kept."""
    logits = torch.tensor([[3.0, 0.0, 0.0, 0.0]])
    prior = method.prior.tolist()
    cross_entropy = minus_log_softmax(logits[0].tolist())[0]
    regulariser = sum(pi_k * l_k for pi_k, l_k in zip(prior, minus_logs(logits[0].tolist()), strict=True))
    loss = method(batch_of([0], logits, [0]))["loss"].item()
    return (cross_entropy - loss) / (loss + regulariser)


def sieve_is_on(method):
    """Whether a row that contradicts its label is left out."""
    return method(batch_of([0], torch.tensor([[3.0, 0.0, 0.0, 0.0]]), [1]))["kept"].item() == 0


@pytest.mark.parametrize(
    ("epochs", "zero_until", "full_from", "sieve_after"),
    [(10, 1, 3, 3), (50, 5, 19, 15), (200, 20, 79, 60)],
)
def test_phases_are_shares_of_the_run(epochs, zero_until, full_from, sieve_after):
    method, labels = make(epochs), torch.arange(N) % K
    for epoch in range(epochs):
        begin(method, epoch, labels)
        ramp = (epoch - zero_until) / (full_from - zero_until)
        assert strength(method) == pytest.approx(2 * min(1, max(0, ramp)), abs=1e-4)
        assert sieve_is_on(method) == (epoch > sieve_after)


def test_cross_entropy_is_of_the_logits_without_the_1e_8():
    method, labels = make(), torch.arange(N) % K
    begin(method, 0, labels)
    logits = torch.tensor([[40.0, 0.0, 0.0, 0.0]], requires_grad=True)
    batch = batch_of([0], logits, [1])
    loss = method(batch)["loss"]
    loss.backward()
    assert loss.item() == pytest.approx(40.0, abs=1e-4)
    assert torch.allclose(logits.grad, torch.tensor([[1.0, -1.0, 0.0, 0.0]]), atol=1e-6)
    score = method.per_row(batch, logits.detach())["sieve_score"].item()
    assert score == pytest.approx(sieve_score([40.0, 0.0, 0.0, 0.0], 1), abs=1e-4)


def test_a_batch_that_keeps_nothing_has_zero_loss_and_zero_gradient():
    method, labels = make(), torch.zeros(N, dtype=torch.int64)
    begin(method, 0, labels)
    begin(method, 50, labels)
    logits = torch.tensor([[-3.0, 1.0, 1.0, 1.0]] * B, requires_grad=True)
    logs = method(batch_of(torch.arange(B), logits, labels[:B]))
    logs["loss"].backward()
    assert logs["loss"].item() == 0
    assert logs["kept"].item() == 0
    assert torch.equal(logits.grad, torch.zeros(B, K))


def test_native_score_is_the_sieves():
    method, logits, y = make(), torch.randn(N, K), torch.randint(0, K, (N,))
    batch = batch_of(torch.arange(N), logits, y)._replace(index=torch.full((N,), -1), views=())
    columns = method.per_row(batch, logits)
    expected = [sieve_score(f, label) for f, label in zip(logits.tolist(), y.tolist(), strict=True)]
    assert set(columns) == {"sieve_score"} == set(CORES.scores[1:])
    assert columns["sieve_score"].tolist() == pytest.approx(expected, abs=1e-5)
