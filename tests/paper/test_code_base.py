"""Training as the code base does that the paper was built on: Keras's conventions, scaled rates, whole batches."""

import itertools
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from contract import spec_of
from torch import nn

from pidual.errors import UsageError
from pidual.learn.batch import Rows, Spec
from pidual.learn.engine import Interrupted, Session, fit
from pidual.learn.engine.checkpoint import StateStore
from pidual.learn.engine.fit import make_optimizers
from pidual.learn.methods import CE, TRAM, PiDual
from pidual.learn.nets import MLP, PILinear, SmallCNN
from pidual.paper.recipes import CIFAR, CIFAR_CODEBASE, IMAGENET, IMAGENET_CODEBASE
from pidual.paper.runs import CodeBaseTraining


@pytest.mark.parametrize("nesterov", [True, False], ids=["nesterov", "plain"])
@pytest.mark.parametrize("convention", ["pytorch", "keras"])
def test_momentum_against_plain_loops(convention, nesterov):
    rates, decay, momentum = [0.1, 0.1, 0.02, 0.05, 0.004], 0.03, 0.9
    gradients = torch.randn(len(rates), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).tolist()
    method = CE(nn.Linear(3, 1, bias=False).double(), Spec(10, 2, (), 0))
    nn.init.constant_(method.f.weight, 0.5)
    training = CodeBaseTraining(
        momentum=momentum, nesterov=nesterov, weight_decay=decay, momentum_convention=convention
    )
    (optimizer,) = make_optimizers(method, training)
    weights, velocities = [0.5] * 3, [0.0] * 3
    for rate, gradient in zip(rates, gradients, strict=True):
        method.f.weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        for i in range(3):
            g = gradient[i] + decay * weights[i]
            if convention == "keras":
                velocities[i] = momentum * velocities[i] - rate * g
                weights[i] += momentum * velocities[i] - rate * g if nesterov else velocities[i]
            else:
                velocities[i] = momentum * velocities[i] + g
                weights[i] -= rate * (g + momentum * velocities[i] if nesterov else velocities[i])
        torch.testing.assert_close(method.f.weight.detach()[0], torch.tensor(weights, dtype=torch.float64))


class Tiny(nn.Module):
    """A kernel with bias, a batch normalisation, a layer normalisation and a head."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.ln, self.head = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.LayerNorm(2), nn.Linear(2, 2)


def decay_of(method, training):
    """Weight decay of every parameter by name."""
    names = {id(p): name for name, p in method.named_parameters()}
    optimizers = make_optimizers(method, training)
    return {names[id(p)]: g["weight_decay"] for o in optimizers for g in o.param_groups for p in g["params"]}


def test_weight_decay_can_spare_normalisation_layers():
    method = CE(Tiny(), Spec(10, 2))
    kernels = {f"f.{part}" for part in ("conv.weight", "conv.bias", "head.weight", "head.bias")}
    norms = {f"f.{part}" for part in ("bn.weight", "bn.bias", "ln.weight", "ln.bias")}
    assert decay_of(method, CodeBaseTraining(weight_decay=0.3)) == dict.fromkeys(kernels | norms, 0.3)
    spared = decay_of(method, CodeBaseTraining(weight_decay=0.3, decay_norms=False))
    assert spared == dict.fromkeys(kernels, 0.3) | dict.fromkeys(norms, 0.0)


@pytest.mark.parametrize("pi_weight_decay", [False, True])
def test_rules_of_the_code_base_with_a_pi_tower(pi_weight_decay):
    """CIFAR: everything but the tower's hidden layers. ImageNet: kernels and biases, the tower's too, but no BN."""
    method = TRAM(SmallCNN(2, width=4), Spec(10, 2, (5,), 1), width=6, pi_weight_decay=pi_weight_decay)
    hidden = ("tower.first.", "tower.second.")
    training = CodeBaseTraining(weight_decay=0.1, decay_convention="keras", decay_norms=not pi_weight_decay)
    for name, decay in decay_of(method, training).items():
        norm = name.startswith("f.blocks") and name.split(".")[3] == "1"
        spared = norm if pi_weight_decay else name.startswith(hidden)
        assert decay == (0.0 if spared else 0.2), name


def test_the_rate_can_grow_with_the_batch(monkeypatch):
    monkeypatch.setattr(sys.modules[PILinear.__module__], "SPARSE_ABOVE", 10)
    method = PiDual(nn.Linear(3, 2), Spec(10, 2, (50,), 0), width=4, random_pi=0)

    def rates(**training):
        optimizers = make_optimizers(method, CodeBaseTraining(lr=0.1, momentum=0.5, **training))
        return [group["base_lr"] for optimizer in optimizers for group in optimizer.param_groups]

    assert rates(batch_size=512) == pytest.approx([0.1, 0.1, 0.2])  # the sparse group has its whole distance at once
    assert rates(batch_size=512, lr_scale_batch=128) == pytest.approx([0.4, 0.4, 0.8])
    assert rates(batch_size=64, lr_scale_batch=128) == pytest.approx([0.05, 0.05, 0.1])


def test_options_of_the_code_base_train_and_resume_to_the_same_bits(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (60, 3, 8, 8), dtype=np.uint8)
    rows = Rows.build(images, np.arange(60), np.arange(60) % 2)
    training = CodeBaseTraining(
        epochs=3, batch_size=16, lr=0.05, lr_scale_batch=8, warmup_epochs=1, decay_convention="keras",
        decay_norms=False, momentum_convention="keras", resized_crop=True, flip=True, valid_whole_batches=True,
        guard="off",
    )  # fmt: skip

    def make():
        return CE(SmallCNN(2, width=2), spec_of(rows, 2))

    whole = fit(make, rows, rows, training)
    assert [record["lr"] for record in whole.history] == pytest.approx(
        [0.1 * training.lr_factor(3 * epoch + 2, 3) for epoch in range(3)]
    )
    counter = itertools.count(1)
    with pytest.raises(Interrupted):
        fit(make, rows, rows, training, Session(store=StateStore(tmp_path), stop=lambda: next(counter) == 5))
    resumed = fit(make, rows, rows, training, Session(store=StateStore(tmp_path)))
    assert all(torch.equal(value, resumed.last[key]) for key, value in whole.last.items())


@pytest.mark.parametrize(("batch_size", "kept"), [(24, 96), (50, 100), (110, 110)])
def test_validation_rows_that_fill_no_batch_can_be_left_out(rows, batch_size, kept):
    valid = rows.subset(np.arange(110))
    training = CodeBaseTraining(epochs=1, batch_size=batch_size, lr=0.05, guard="off", valid_whole_batches=True)

    def build():
        return CE(MLP(5, 3, width=16, depth=1), spec_of(rows, 3, (6,)))

    seen = fit(build, rows, valid, training).history[0]["valid_accuracy"]
    fitted = fit(build, rows, rows.subset(np.arange(kept)), replace(training, valid_whole_batches=False))
    assert seen == fitted.history[0]["valid_accuracy"]


def test_what_the_code_base_adds_on_cifar():
    training = CodeBaseTraining(**CIFAR, **CIFAR_CODEBASE)
    rate = [training.scaled_lr * training.lr_factor(step, 100) for step in (0, 49, 99, 100, 3599, 3600, 7200)]
    assert rate == pytest.approx([0.002, 0.1, 0.2, 0.2, 0.2, 0.04, 0.008])  # 0.1 * 256 / 128, from 0 over an epoch
    assert (training.crop_pad, training.flip, training.resized_crop) == (2, True, False)
    assert (training.decay_convention, training.decay_norms) == ("keras", True)
    assert (training.momentum_convention, training.valid_whole_batches) == ("keras", True)


def test_what_the_code_base_adds_on_imagenet():
    training = CodeBaseTraining(**IMAGENET, **IMAGENET_CODEBASE)
    rate = [training.scaled_lr * training.lr_factor(epoch * 10, 10) for epoch in (2.4, 5, 29, 30, 60, 80)]
    assert rate == pytest.approx([0.8 * 25 / 50, 0.8, 0.8, 0.08, 0.008, 0.0008])  # 0.1 * 2048 / 256, over 5 epochs
    assert (training.crop_pad, training.flip, training.resized_crop) == (0, True, True)
    assert (training.decay_convention, training.decay_norms) == ("keras", False)
    assert (training.momentum_convention, training.valid_whole_batches) == ("keras", True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr_scale_batch": 0},
        {"lr_scale_batch": 128.0},
        {"lr_scale_batch": True},
        {"decay_convention": "tensorflow"},
        {"decay_norms": 1},
        {"momentum_convention": "caffe"},
        {"valid_whole_batches": "no"},
        {"nesterov": "no"},
    ],
)
def test_wrong_options(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        CodeBaseTraining(**wrong)
