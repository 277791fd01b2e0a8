import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from pidual.data import AnnotationTable, Inputs
from pidual.errors import UsageError
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare
from pidual.fit.settings import Settings, choose_settings, network_of, split_settings
from pidual.learn.batch import Spec
from pidual.learn.engine import Training
from pidual.learn.methods import METHODS
from pidual.learn.nets import MLP, WideResNet, build_network

SIZES = (100, 999, 1_000, 9_999, 50_000, 500_000, 5_000_000)


@pytest.mark.parametrize("images", [False, True], ids=["vectors", "images"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("setting", ["default", "paper"])
def test_training_method_and_network_take_the_options(setting, method, images):
    in_shape = (3, 8, 8) if images else (5,)
    settings = choose_settings(setting, method, n_train=500, images=images)
    assert Training(**settings.training).epochs > 1
    with torch.device("meta"):
        build_network(network_of(setting, in_shape), in_shape=in_shape, n_classes=3, **settings.network)
    network = MLP(5, 3, width=4)
    assert METHODS[method](network, Spec(500, 3, (4,), 2), **settings.method).f is network


def test_small_data_is_held_back_more():
    training = [choose_settings("default", "ce", n_train=size, images=False).training for size in SIZES]
    decays, batches = [t["weight_decay"] for t in training], [t["batch_size"] for t in training]
    assert decays == sorted(decays, reverse=True)
    assert decays[0] == decays[1] > decays[2] == decays[3] > decays[4]
    assert batches == sorted(batches)
    random_pi = [choose_settings("default", "pi_dual", n_train=n, images=False).method["random_pi"] for n in SIZES]
    assert random_pi == [0, 0, 0, 0, 0, 8, 8]


def test_images_are_augmented_and_seen_by_two_convolutions_a_block():
    default = choose_settings("default", "pi_dual", n_train=6_000, images=True)
    assert (default.training["crop_pad"], default.training["flip"]) == (4, True)
    network = build_network("small_cnn", in_shape=(3, 8, 8), n_classes=3, **default.network)
    assert sum(isinstance(layer, nn.Conv2d) for layer in network.modules()) == 6
    vectors = choose_settings("default", "pi_dual", n_train=6_000, images=False)
    assert default.method["gate_bias"] < vectors.method["gate_bias"]


def test_the_papers_protocol_does_not_look_at_the_data():
    settings = [choose_settings("paper", "pi_dual", n_train=size, images=False) for size in SIZES]
    assert all(setting == settings[0] for setting in settings)
    training = Training(**settings[0].training)
    assert (training.epochs, training.batch_size, training.lr, training.clip) == (90, 256, 0.1, None)
    assert (training.select, training.guard) == ("best", "watch")


def paper_job(method="pi_dual", images=True, **options):
    """A fit in the paper's setting that is ready to start: 400 items, two annotators of one item each, times."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (400, 3, 8, 8), np.uint8) if images else rng.normal(size=(400, 5)).astype(np.float32)
    frame = pd.DataFrame({"label": np.arange(400) % 3, "annotator": ["x", "y", *["ann", "bob"] * 199]})
    frame["seconds"] = rng.lognormal(3, 2, 400)
    table = AnnotationTable.from_frame(frame, pi=["annotator", "seconds"], keep_ids=True)
    return prepare(table, Inputs(x, None, "array", {}, source="x"), FitOptions(method, "paper", **options))


def test_the_papers_setting_on_images_is_that_of_cifar_n():
    """METHODS 1.1, 1.3, 3.1 and 4.2: network, share held out, width, a code for every annotator, times as they are."""
    job = paper_job()
    assert job.network.name == "wrn_28_10"
    with torch.device("meta"):
        assert sum(p.numel() for p in WideResNet(10).parameters()) == 36_479_194
    assert int((job.split == 1).sum()) == 0.02 * 400
    assert (job.method_options["width"], job.method_options["random_pi"], job.method_options["depth"]) == (2048, 8, 3)
    annotator = job.encoder.columns_[0]
    assert sorted(annotator.categories) == ["ann", "bob", "x", "y"]
    assert not annotator.other
    times = job.table.frame["seconds"].to_numpy()
    expected = (times - times.mean()) / times.std()
    np.testing.assert_allclose(job.rows.numbers[:, 0], expected, rtol=1e-5, atol=1e-7)
    training = job.training
    assert (training.epochs, training.batch_size, training.lr, training.milestones) == (90, 256, 0.1, (36, 72, 96))
    assert (training.momentum, training.nesterov, training.weight_decay) == (0.9, True, 1e-4)
    assert (training.crop_pad, training.flip, training.warmup_epochs) == (4, True, 0)


def test_pi_dual_plus_has_the_papers_schedule():
    for images in (True, False):
        training = choose_settings("paper", "pi_dual_plus", n_train=500, images=images).training
        assert (training["epochs"], training["batch_size"], training["schedule"]) == (300, 128, "cosine")
        assert (training["lr"], training["weight_decay"]) == (0.1, 1e-4)


def test_the_papers_setting_on_vectors_has_our_network_and_encoding():
    job = paper_job(images=False)
    assert (job.network.name, job.method_options["width"]) == ("mlp", 1024)
    assert int((job.split == 1).sum()) == 40
    assert [column.kind for column in job.encoder.columns_] == ["category", "duration"]
    assert job.encoder.columns_[0].other


def test_an_unknown_setting_is_named():
    with pytest.raises(UsageError, match="There is no setting 'fast'; use one of default, paper"):
        choose_settings("fast", "ce", n_train=10, images=False)


def test_options_go_where_they_belong():
    options = {"lr": 0.1, "width": 32, "network.width": 64}
    assert split_settings(options) == Settings({"lr": 0.1}, {"width": 32}, {"width": 64})
    with pytest.raises(UsageError, match="give it with --seed"):
        split_settings({"seed": 1})
