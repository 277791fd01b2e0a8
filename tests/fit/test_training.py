import math
from dataclasses import fields

import pytest

from pidual.errors import UsageError
from pidual.learn.engine import Training
from pidual.paper.protocol import CIFAR, CIFAR_CODEBASE, IMAGENET, IMAGENET_CODEBASE


def test_the_paper_as_printed():
    cifar, imagenet = Training(**CIFAR), Training(**IMAGENET)
    for training in (cifar, imagenet):
        assert training.epochs == 90
        assert training.scaled_lr == training.lr == 0.1
        assert training.momentum == 0.9
        assert training.warmup_epochs == training.crop_pad == 0
        assert (training.decay_convention, training.decay_norms) == ("pytorch", True)
        assert (training.momentum_convention, training.valid_whole_batches) == ("pytorch", False)
    assert (cifar.batch_size, cifar.milestones, cifar.lr_decay) == (256, (36, 72, 96), 0.2)
    assert (imagenet.batch_size, imagenet.milestones, imagenet.lr_decay) == (2048, (30, 60, 80), 0.1)


def test_what_the_code_base_adds_on_cifar():
    training = Training(**CIFAR, **CIFAR_CODEBASE)
    rate = [training.scaled_lr * training.lr_factor(step, 100) for step in (0, 49, 99, 100, 3599, 3600, 7200)]
    assert rate == pytest.approx([0.002, 0.1, 0.2, 0.2, 0.2, 0.04, 0.008])  # 0.1 * 256 / 128, from 0 over an epoch
    assert (training.crop_pad, training.flip, training.resized_crop) == (2, True, False)
    assert (training.decay_convention, training.decay_norms) == ("keras", True)
    assert (training.momentum_convention, training.valid_whole_batches) == ("keras", True)


def test_what_the_code_base_adds_on_imagenet():
    training = Training(**IMAGENET, **IMAGENET_CODEBASE)
    rate = [training.scaled_lr * training.lr_factor(epoch * 10, 10) for epoch in (2.4, 5, 29, 30, 60, 80)]
    assert rate == pytest.approx([0.8 * 25 / 50, 0.8, 0.8, 0.08, 0.008, 0.0008])  # 0.1 * 2048 / 256, over 5 epochs
    assert (training.crop_pad, training.flip, training.resized_crop) == (0, True, True)
    assert (training.decay_convention, training.decay_norms) == ("keras", False)
    assert (training.momentum_convention, training.valid_whole_batches) == ("keras", True)


def test_a_cosine_ends_where_it_is_asked_to():
    for end in (0.0, 0.01):
        training = Training(epochs=300, schedule="cosine", lr=0.02, lr_end=end)
        for step in (0, 1, 750, 1499, 1500):
            expected = 0.02 * end + (0.02 - 0.02 * end) * (1 + math.cos(math.pi * step / 1500)) / 2
            assert 0.02 * training.lr_factor(step, 5) == pytest.approx(expected, abs=1e-12)
    assert Training(schedule="cosine", epochs=3).lr_factor(3, 1) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr_scale_batch": 0},
        {"lr_scale_batch": 128.0},
        {"lr_scale_batch": True},
        {"decay_convention": "tensorflow"},
        {"decay_norms": 1},
        {"momentum_convention": "caffe"},
        {"nesterov": "no"},
        {"lr_end": -0.1},
        {"lr_end": 1.5},
        {"valid_whole_batches": "no"},
        {"resized_crop": "yes"},
        {"resized_crop": True, "crop_pad": 2},
    ],
)
def test_wrong_options(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Training(**wrong)


def test_every_option_is_documented():
    said = {
        name.strip()
        for line in Training.__doc__.splitlines()
        if " : " in line
        for name in line.split(" : ")[0].split(",")
    }
    assert {field.name for field in fields(Training)} - said <= {"milestones", "lr_decay"}  # beside `schedule`
