"""The contract every method keeps; a new one is tested the moment its line joins METHODS."""

import functools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from contract import CASES, SPEC, build, build_trainable, everything, fit_method, resumed
from on_two_processes import fit_on_two
from safetensors.torch import load_file

from pidual.learn import methods
from pidual.learn.engine import Session, Training, fit, make_fabric
from pidual.learn.engine.predict import evaluate, predict_probabilities
from pidual.learn.methods import METHODS
from pidual.learn.nets import MLP
from pidual.options import signature

pytestmark = pytest.mark.runs_first

MIXES = ("divide_mix", "elr_plus", "pes_semi")


def select(method, rows, n=32):
    index = torch.arange(n)
    random = rows.random_pi(index, method.random_pi) if method.random_pi else None
    batch = rows.select(index, random=random)
    return batch._replace(views=batch.views * method.n_views)


@pytest.mark.parametrize("name", CASES)
def test_loss_is_finite_and_reaches_every_parameter(name, rows):
    method = build_trainable(name)
    logs = method(select(method, rows))
    assert logs["loss"].shape == ()
    assert torch.isfinite(logs["loss"])
    logs["loss"].backward()
    trained = [(key, parameter) for key, parameter in method.named_parameters() if parameter.requires_grad]
    assert [key for key, parameter in trained if parameter.grad is None] == []
    grouped = [parameter for group in method.param_groups() for parameter in group["params"]]
    assert sorted(map(id, grouped)) == sorted(id(parameter) for _, parameter in trained)


@pytest.mark.parametrize("name", CASES)
def test_predicts_from_x_alone(name, rows):
    method = build(name).eval()
    assert method.logits(rows.x[:7]).shape == (7, 3)


def probabilities(method, x):
    return np.concatenate(list(predict_probabilities(method, x, make_fabric("cpu"))))


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_predicted_the_same_whatever_rows_are_with_it(name, rows):
    method, x = build(name).eval(), rows.x[:40]
    together = probabilities(method, x)
    order = torch.randperm(len(x))
    np.testing.assert_allclose(
        np.concatenate([probabilities(method, x[i : i + 1]) for i in range(40)]), together, atol=1e-9
    )
    np.testing.assert_allclose(probabilities(method, x[order]), together[order], atol=1e-9)
    np.testing.assert_allclose(together, method.logits(x).softmax(1).detach(), atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_scores_have_one_value_per_row(name, rows):
    method = build(name).eval()
    batch = select(method, rows)
    columns = method.per_row(batch._replace(views=()), method.logits(batch.x))
    assert all(value.shape == (32,) for value in columns.values())
    assert set(method.scores[1:]) <= set(columns)


@functools.cache
def fitted(name):
    """A method, fitted without a stop; several tests look at it."""
    return fit_method(name)


@functools.cache
def whole(name):
    """Its weights and memories."""
    return everything(fitted(name))


@pytest.mark.parametrize("name", CASES)
def test_thirty_steps_lower_the_loss_and_another_seed_gives_another(name, rows):
    training = Training(epochs=8, batch_size=60, lr=0.05, clip=1.0, seed=3)
    one = fit(lambda: build(name), rows, rows, training, Session(make_fabric("cpu")))
    assert one.history[-1]["loss"] < one.history[0]["loss"]
    other = fit(lambda: build(name), rows, rows, Training(epochs=1, batch_size=60, lr=0.05, seed=4))
    assert other.history[0]["loss"] != one.history[0]["loss"]


@pytest.mark.parametrize("name", CASES)
def test_saved_weights_predict_the_same(name, rows):
    again = build(name)
    again.load_state_dict(fitted(name).method.state_dict())
    fabric = make_fabric("cpu")
    assert evaluate(again.eval(), rows, fabric) == evaluate(fitted(name).method, rows, fabric)


@pytest.mark.parametrize("name", CASES)
def test_stopped_and_resumed_is_bitwise_the_same(name, tmp_path):
    again = everything(fit_method(name, tmp_path))
    assert whole(name).keys() == again.keys()
    assert [key for key, value in whole(name).items() if not torch.equal(value, again[key])] == []


PHASES = {  # steps in every phase; six an epoch, but twelve of elr_plus and two of latent_truth
    "divide_mix": (3, 6, 30),
    "elr_plus": (5, 12, 31),
    "pes": (3, 6, 8, 12, 15, 20),
    "pes_semi": (3, 6, 9, 12, 16, 20),
    "latent_truth": (1, 2, 3, 6),
}


@pytest.mark.parametrize(("name", "stop_at"), [(name, at) for name, steps in PHASES.items() for at in steps])
def test_stopped_in_any_phase_and_resumed_is_bitwise_the_same(name, stop_at, tmp_path):
    again = resumed(lambda: build(name), tmp_path, stop_at)
    assert [key for key, value in whole(name).items() if not torch.equal(value, again[key])] == []


@pytest.mark.parametrize(
    ("n", "n_given", "batch_size", "epochs"),
    [(50, 2, 256, 4), (50, 1, 7, 1), (50, 1, 7, 4), (3, 2, 2, 6), (1, 2, 4, 1), (1, 2, 4, 3)],
)
@pytest.mark.parametrize("name", CASES)
def test_few_rows_one_class_and_unknown_annotators_give_finite_losses(name, n, n_given, batch_size, epochs, rows):
    few = rows.subset(torch.arange(n))
    few = replace(few, y_noisy=few.y_noisy % n_given, codes=torch.full_like(few.codes, -1))
    options = {"width": 4} if "width" in signature(METHODS[name]) else {}
    spec = replace(SPEC, n_train=n, n_classes=2, epochs=epochs)
    fitted = fit(
        lambda: METHODS[name](MLP(5, 2, width=4, depth=1), spec, **options),
        few,
        None,
        Training(epochs=epochs, batch_size=batch_size, lr=0.05, guard="off"),
        Session(make_fabric("cpu")),
    )
    assert all(math.isfinite(record["loss"]) for record in fitted.history)


@pytest.fixture(scope="module")
def on_two_processes(tmp_path_factory):
    """Weights and memories of every method, stopped and resumed on two processes."""
    return fit_on_two(tmp_path_factory.mktemp("two"), CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_processes_with_resume_learn_what_one_does(
    name, on_two_processes
):  # some: tests/learn/engine/test_processes.py
    if name in MIXES:
        pytest.skip("each process mixes its own rows; that both end up equal is checked where they run")
    one, two = whole(name), load_file(on_two_processes / f"{name}.safetensors")
    assert one.keys() == two.keys()
    for key, value in one.items():
        assert torch.allclose(value.double(), two[key].double(), atol=1e-4), key


def test_every_file_of_a_method_is_listed():
    files = {path.stem for path in Path(methods.__file__).parent.glob("*.py")}
    assert files - set(METHODS) == {"__init__", "base", "kinds", "fitted_truth"}


@pytest.mark.parametrize("name", METHODS)
def test_says_what_it_is(name):
    method = METHODS[name]
    assert method.title
    assert method.reference
    assert method.scores[0] == "confidence"
    assert method.__doc__
    assert method.networks >= 1
    assert method.stages >= 1
