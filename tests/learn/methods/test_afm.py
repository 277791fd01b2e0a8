"""AFM against plain loops over inputs and stored draws."""

import math

import pytest
import torch
from small_networks import Smooth
from torch import nn
from toy import dense, log_softmax, tower_by_hand

from pidual.learn.batch import PI, Batch, Spec
from pidual.learn.engine import Session, Training, fit, make_fabric
from pidual.learn.engine.predict import evaluate
from pidual.learn.methods import AFM
from pidual.learn.methods.parts import monte_carlo
from pidual.learn.nets import MLP

D, K, W, S, B = 5, 4, 6, 9, 7
SIZES, NUMBERS = (3, 2), 2
SPEC = Spec(100, K, SIZES, NUMBERS)
ROWS_SPEC = Spec(240, 3, (6,), 2)  # of the `rows` fixture


def random_rows(n, dtype):
    codes = torch.stack([torch.randint(0, size, (n,), dtype=torch.int32) for size in SIZES], 1)
    return PI(codes, torch.randn(n, NUMBERS, dtype=dtype))


def build(dtype=torch.float64, **options):
    """A small method with random weights and random stored draws."""
    method = AFM(Smooth(D, K), SPEC, **{"width": W, "draws": S, **options}).to(dtype).eval()
    for parameter in method.parameters():
        nn.init.normal_(parameter)
    drawn = random_rows(len(method.codes), dtype)
    method.codes.copy_(drawn.codes)
    method.numbers.copy_(drawn.numbers)
    return method


def make_batch(dtype=torch.float64):
    x, y = torch.randn(B, 3, dtype=dtype), torch.randint(0, K, (B,))
    return Batch.of_rows(torch.arange(B), (x,), y, random_rows(B, dtype), torch.rand(B, dtype=dtype) + 0.5)


def by_hand(method, x, codes, numbers):
    """Logits of one input with one row of PI."""
    phi = method.f.features(x[None])[0]
    return tower_by_hand(method.tower, phi, dense(codes, numbers, method.tower.first.sizes))


@torch.no_grad()
def marginal_by_loops(method, x):
    answers = []
    for x_i in x:
        p = torch.zeros(method.tower.third.out_features, dtype=torch.float64)
        for codes, numbers in zip(method.codes, method.numbers, strict=True):
            z = by_hand(method, x_i, codes, numbers).double()
            powers = (z - z.max()).exp()
            p += powers / powers.sum()
        answers.append(p / len(method.codes))
    return torch.stack(answers)


def test_loss_equals_plain_loops():
    method, batch = build(), make_batch()
    total = 0.0
    for i in range(B):
        z = by_hand(method, batch.x[i], batch.a.codes[i], batch.a.numbers[i]).tolist()
        total -= batch.weight[i].item() * log_softmax(z)[int(batch.y_noisy[i])]
    assert method(batch)["loss"].item() == pytest.approx(total / B, abs=1e-10)


def test_nothing_is_detached_and_f_s_head_gets_no_gradient():
    method, batch = build(), make_batch()
    method(batch)["loss"].backward()
    for name, parameter in method.named_parameters():
        if name.startswith("f.head."):
            assert parameter.grad is None
        else:
            assert bool((parameter.grad != 0).any()), name


@pytest.mark.parametrize("at_a_time", [1, 2, S])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_prediction_is_the_mean_over_draws_of_the_probabilities(monkeypatch, at_a_time, dtype):
    monkeypatch.setattr(monte_carlo, "BLOCK", B * W * at_a_time)
    method, x = build(dtype), torch.randn(B, 3, dtype=dtype)
    with torch.no_grad():
        log_p = method.logits(x)
    p, expected = log_p.softmax(1), marginal_by_loops(method, x)
    assert torch.allclose(p.double(), expected, rtol=0, atol=1e-6)
    assert torch.allclose(log_p.exp().double(), expected, rtol=0, atol=1e-6)
    assert not torch.allclose(p[0], method.f(x).softmax(1)[0], atol=0.01)


# the draws, and training by the engine


def build_for_rows(draws=50):
    return AFM(MLP(5, 3, width=8, depth=1), ROWS_SPEC, width=8, draws=draws)


def scan_of(rows):
    return lambda function, *, with_x=True: function(rows.select(torch.arange(len(rows)), with_x=with_x))


def as_tuples(codes, numbers):
    return [tuple(row) for row in torch.cat([codes.double(), numbers.double()], 1).tolist()]


def test_draws_are_whole_rows_of_the_training_pi(rows):
    train, valid = rows.subset(torch.arange(120)), rows.subset(torch.arange(120, 240))
    training = Training(epochs=1, batch_size=40, lr=0.05)
    method = fit(lambda: build_for_rows(2000), train, valid, training, Session(make_fabric("cpu"))).method
    drawn = as_tuples(method.codes, method.numbers)
    assert len(drawn) == 2000
    assert set(drawn) == set(as_tuples(train.codes, train.numbers))  # numbers are all different: columns stay together
    counts = torch.tensor([drawn.count(row) for row in set(drawn)])
    assert 1 <= counts.min() <= counts.max() <= 40  # 16.7 expected of each


def test_draws_are_made_before_the_first_epoch_and_never_again(rows):
    method = build_for_rows()
    assert method.begin_epoch(0, scan_of(rows)) is False
    codes, numbers = method.codes.clone(), method.numbers.clone()
    others = rows.subset(torch.arange(239, -1, -1))
    for epoch in (1, 2, 50):
        assert method.begin_epoch(epoch, scan_of(others)) is False
    assert torch.equal(method.codes, codes)
    assert torch.equal(method.numbers, numbers)


def test_validation_is_marginalised(rows):
    train, valid = rows.subset(torch.arange(200)), rows.subset(torch.arange(200, 240))
    training = Training(epochs=3, batch_size=40, lr=0.1)
    fitted = fit(lambda: build_for_rows(20), train, valid, training, Session(make_fabric("cpu")))
    record = fitted.history[fitted.selected_epoch]
    p = marginal_by_loops(fitted.method, valid.x[valid.x_row])
    right = sum(int(p[i].argmax() == valid.y_noisy[i]) for i in range(40))
    loss = -sum(math.log(p[i, valid.y_noisy[i]]) for i in range(40)) / 40
    assert record["valid_accuracy"] == right / 40
    assert record["valid_loss"] == pytest.approx(loss, abs=1e-6)
    assert evaluate(fitted.method, valid, make_fabric("cpu")) == (record["valid_accuracy"], record["valid_loss"])
