"""The contract every method keeps; a new one is tested the moment its line joins METHODS."""

import pytest
import torch

from pidual.batch import Spec
from pidual.engine import Training, fit, make_fabric
from pidual.engine.predict import evaluate
from pidual.methods import METHODS
from pidual.nets import MLP

SPEC = Spec(240, 3, (6,), 2)


def build(name):
    return METHODS[name](MLP(5, 3, width=16, depth=1), SPEC)


def select(method, rows, n=32):
    index = torch.arange(n)
    random = rows.random_pi(index, method.random_pi) if method.random_pi else None
    return rows.select(index, random=random)


@pytest.mark.parametrize("name", METHODS)
def test_loss_is_finite_and_reaches_every_parameter(name, rows):
    method = build(name)
    logs = method(select(method, rows))
    assert logs["loss"].shape == ()
    assert torch.isfinite(logs["loss"])
    logs["loss"].backward()
    without = [key for key, parameter in method.named_parameters() if parameter.grad is None]
    assert without == []


@pytest.mark.parametrize("name", METHODS)
def test_predicts_from_x_alone(name, rows):
    method = build(name).eval()
    assert method.logits(rows.x[:7]).shape == (7, 3)


@pytest.mark.parametrize("name", METHODS)
def test_extra_columns_have_one_value_per_row(name, rows):
    method = build(name).eval()
    batch = select(method, rows)
    columns = method.per_row(batch._replace(views=()), method.logits(batch.x))
    assert all(value.shape == (32,) for value in columns.values())


@pytest.mark.parametrize("name", METHODS)
def test_sixty_steps_lower_the_loss_and_one_seed_gives_one_result(name, rows):
    training = Training(epochs=15, batch_size=60, lr=0.05, clip=1.0, seed=3)
    one, two = (fit(lambda: build(name), rows, rows, training, fabric=make_fabric("cpu")) for _ in range(2))
    assert one.history[-1]["loss"] < one.history[0]["loss"]
    assert all(torch.equal(value, two.last[key]) for key, value in one.last.items())
    other = fit(lambda: build(name), rows, rows, Training(epochs=1, batch_size=60, lr=0.05, seed=4))
    assert other.history[0]["loss"] != one.history[0]["loss"]


@pytest.mark.parametrize("name", METHODS)
def test_saved_weights_predict_the_same(name, rows):
    fitted = fit(lambda: build(name), rows, rows, Training(epochs=2, batch_size=60, lr=0.05), fabric=make_fabric("cpu"))
    again = build(name)
    again.load_state_dict(fitted.method.state_dict())
    fabric = make_fabric("cpu")
    assert evaluate(again.eval(), rows, fabric) == evaluate(fitted.method, rows, fabric)


@pytest.mark.parametrize("name", METHODS)
def test_says_what_it_is(name):
    method = METHODS[name]
    assert method.title
    assert method.reference
    assert method.scores[0] == "confidence"
    assert method.__doc__
