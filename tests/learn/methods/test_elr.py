"""ELR against plain loops written from its equation, over steps that come back to the same rows."""

import math

import pytest
import torch
from torch import nn
from toy import batch_of, log_softmax, softmax

from pidual.learn.batch import Spec
from pidual.learn.methods import ELR

N, K, B = 12, 4, 5
SPEC = Spec(N, K)
BETA, LAM = 0.7, 3.0


def make(**options):
    """The network passes x on: the tests' inputs are logits."""
    return ELR(nn.Identity(), SPEC, **{"beta": BETA, "lam": LAM, **options})


def random_steps(n_steps, scale=3.0):
    """Random batches of random logits; with 5 of 12 rows a step, rows return."""
    for _ in range(n_steps):
        logits = (scale * torch.randn(B, K)).requires_grad_()
        yield batch_of(torch.randperm(N)[:B], logits, torch.randint(0, K, (B,)), 0.5 + torch.rand(B))


def clamped(f):
    return [min(max(value, 1e-4), 1 - 1e-4) for value in softmax(f)]


def moved_target(t, f, beta=BETA):
    p = clamped(f)
    return [beta * t_k + (1 - beta) * p_k / sum(p) for t_k, p_k in zip(t, p, strict=True)]


def loss_by_loops(logits, y, targets, weight, lam=LAM):
    """Given the targets, already moved."""
    total = 0.0
    for f, label, t, w in zip(logits, y, targets, weight, strict=True):
        inner = sum(t_k * p_k for t_k, p_k in zip(t, clamped(f), strict=True))
        total += w * (lam * math.log(1 - inner) - log_softmax(f)[label])
    return total / len(logits)


def follow_by_loops(method, batch, table):
    """One step of the method and of the loops: (logs, what the loops say the loss is as a function of the logits)."""
    logits, index = batch.x.tolist(), batch.index.tolist()
    for i, f in zip(index, logits, strict=True):
        table[i] = moved_target(table[i], f)
    targets = [list(table[i]) for i in index]
    logs = method(batch)
    return logs, lambda logits: loss_by_loops(logits, batch.y_noisy.tolist(), targets, batch.weight.tolist())


def test_loss_and_targets_equal_plain_loops_over_repeated_visits():
    method, table = make(), [[0.0] * K for _ in range(N)]
    visits = torch.zeros(N, dtype=torch.int64)
    below = 0
    for batch in random_steps(10):
        visits[batch.index] += 1
        below += int((batch.x.softmax(1) < 1e-4).sum())
        logs, loss = follow_by_loops(method, batch, table)
        assert logs["loss"].item() == pytest.approx(loss(batch.x.tolist()), abs=1e-5)
        assert torch.allclose(method.targets.values, torch.tensor(table), atol=1e-6)
    assert visits.max() >= 3  # the steps above do return to rows
    assert below > 0  # and do reach the clamp


def test_probabilities_are_clamped_before_they_are_normalised():
    method = make()
    method(batch_of([0], torch.tensor([[40.0, 0.0, 0.0, 0.0]]), [0]))
    total = (1 - 1e-4) + 3 * 1e-4
    expected = [(1 - BETA) * (1 - 1e-4) / total] + [(1 - BETA) * 1e-4 / total] * 3
    assert method.targets.values[0].tolist() == pytest.approx(expected, abs=1e-7)
    assert expected[0] != pytest.approx((1 - BETA) * (1 - 1e-4), abs=1e-5)  # what the other order would give


def test_native_score_is_one_minus_the_share_of_the_given_label_in_the_target():
    method, table = make(), [[0.0] * K for _ in range(N)]
    for batch in random_steps(12):
        follow_by_loops(method, batch, table)
    assert all(sum(t) > 0 for t in table)
    y = torch.randint(0, K, (N,))
    logits = torch.randn(N, K)
    columns = method.per_row(batch_of(torch.arange(N), logits, y)._replace(views=()), logits)
    expected = [1 - t[label] / sum(t) for t, label in zip(table, y.tolist(), strict=True)]
    assert set(columns) == {"target_disagreement"} == set(ELR.scores[1:])
    assert columns["target_disagreement"].tolist() == pytest.approx(expected, abs=1e-5)
