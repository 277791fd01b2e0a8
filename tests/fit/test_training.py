import math
from dataclasses import fields

import pytest

from pidual.errors import UsageError
from pidual.learn.engine import Training
from pidual.paper.recipes import CIFAR, IMAGENET
from pidual.paper.runs import CodeBaseTraining


def test_the_paper_as_printed():
    cifar, imagenet = Training(**CIFAR), Training(**IMAGENET)
    for training in (cifar, imagenet):
        assert training.epochs == 90
        assert training.scaled_lr == training.lr == 0.1
        assert training.momentum == 0.9
        assert training.warmup_epochs == training.crop_pad == 0
    assert (cifar.batch_size, cifar.milestones, cifar.lr_decay) == (256, (36, 72, 96), 0.2)
    assert (imagenet.batch_size, imagenet.milestones, imagenet.lr_decay) == (2048, (30, 60, 80), 0.1)


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
        {"nesterov": "no"},
        {"lr_end": -0.1},
        {"lr_end": 1.5},
        {"resized_crop": "yes"},
        {"resized_crop": True, "crop_pad": 2},
    ],
)
def test_wrong_options(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Training(**wrong)


@pytest.mark.parametrize("options", [Training, CodeBaseTraining])
def test_every_option_is_documented(options):
    said = {
        name.strip()
        for line in (Training.__doc__ + options.__doc__).splitlines()
        if " : " in line
        for name in line.split(" : ")[0].split(",")
    }
    assert {field.name for field in fields(options)} - said <= {"milestones", "lr_decay"}  # beside `schedule`
