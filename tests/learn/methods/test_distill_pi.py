"""Distillation-PI: the student's loss by plain loops, a teacher that stands still, and both stages in the engine."""

import math

import pytest
import torch
from contract import TRAINING, spec_of
from torch import nn
from toy import softmax

from pidual.learn.batch import PI, Batch, Spec
from pidual.learn.engine import fit
from pidual.learn.methods.afm import AFM
from pidual.learn.methods.distill_pi import DistillPI
from pidual.learn.nets import MLP

N, K, B = 30, 3, 7
SPEC = Spec(N, K, (4,), 2)


def make(dropout=0.0, **options):
    method = DistillPI(MLP(5, K, width=8, depth=1, dropout=dropout), SPEC, **{"width": 6, **options})
    for parameter in method.parameters():
        nn.init.normal_(parameter)
    return method.train()


def make_batch():
    a = PI(torch.randint(0, 4, (B, 1), dtype=torch.int32), torch.randn(B, 2))
    return Batch.of_rows(torch.arange(B), (torch.randn(B, 5),), torch.randint(0, K, (B,)), a, 0.5 + torch.rand(B))


def teacher_logits(method, batch):
    teacher = method.before
    with torch.no_grad():
        return teacher.tower(teacher.f.features(batch.x), batch.a).tolist()


@pytest.mark.parametrize(("lam", "temperature"), [(0.5, 1.0), (0.3, 3.0), (1.0, 0.5)])
def test_loss_and_gradient_equal_plain_loops(lam, temperature):
    method, batch = make(lam=lam, temperature=temperature), make_batch()
    with torch.no_grad():
        logits = method.f(batch.x).tolist()
    total, by_bias = 0.0, [0.0] * K
    for f, g, y, w in zip(
        logits, teacher_logits(method, batch), batch.y_noisy.tolist(), batch.weight.tolist(), strict=True
    ):
        p, t = softmax(f), softmax([value / temperature for value in g])
        total += w * (1 - lam) * -math.log(p[y])
        for k in range(K):
            total += w * lam * -t[k] * math.log(p[k])
            by_bias[k] += w * (p[k] - (1 - lam) * (k == y) - lam * t[k]) / B  # d/df_k: no factor T^2
    loss = method(batch)["loss"]
    loss.backward()
    assert loss.item() == pytest.approx(total / B, abs=1e-5)
    assert method.f.head.bias.grad.tolist() == pytest.approx(by_bias, abs=1e-5)


def test_the_teacher_gets_no_gradient_and_sees_the_rows_own_pi():
    method, batch = make(), make_batch()
    loss = method(batch)["loss"]
    loss.backward()
    assert all(parameter.grad is None for parameter in method.before.parameters())
    assert all(parameter.grad is not None for parameter in method.f.parameters())
    other = batch._replace(a=PI((batch.a.codes + 1) % 4, batch.a.numbers))
    assert not torch.equal(method(other)["loss"], loss)


def build(rows, n_classes=3, cardinalities=(6,)):
    spec = spec_of(rows, n_classes, cardinalities)
    return lambda: DistillPI(MLP(rows.x.shape[1], n_classes, width=16, depth=1), spec, width=16)


def test_the_teacher_is_an_afm_fitted_first_and_does_not_move_afterwards(rows):
    fitted = fit(build(rows), rows, rows, TRAINING)
    teacher = fit(lambda: build(rows)().before, rows, rows, TRAINING)
    assert type(teacher.method) is AFM
    state = fitted.method.before.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in teacher.method.state_dict().items())
    assert [record.get("stage") for record in fitted.history] == ["first stage"] * 4 + [None] * 4
    losses = [record["loss"] for record in fitted.history]
    assert losses[3] < losses[0]
    assert losses[7] < losses[4]
