import pytest
from torch import nn

from pidual.batch import Spec
from pidual.engine import Training
from pidual.errors import UsageError
from pidual.methods import METHODS
from pidual.nets import build_network, network_for
from pidual.run import FitOptions, resolve_options
from pidual.settings import choose_settings, split_settings

SIZES = (100, 999, 1_000, 9_999, 50_000, 500_000, 5_000_000)


@pytest.mark.parametrize("images", [False, True], ids=["vectors", "images"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("setting", ["default", "paper"])
def test_training_method_and_network_take_the_options(setting, method, images):
    in_shape = (3, 8, 8) if images else (5,)
    settings = choose_settings(setting, method, n_train=500, images=images)
    assert Training(**settings.training).epochs > 1
    network = build_network(network_for(in_shape), in_shape=in_shape, n_classes=3, **settings.network)
    assert METHODS[method](network, Spec(500, 3, (4,), 2), **settings.method).f is network


def test_small_data_is_held_back_more():
    training = [choose_settings("default", "ce", n_train=size, images=False).training for size in SIZES]
    decays, batches = [t["weight_decay"] for t in training], [t["batch_size"] for t in training]
    assert decays == sorted(decays, reverse=True)
    assert decays[0] == decays[1] > decays[2] == decays[3] > decays[4]
    assert batches == sorted(batches)
    random_pi = [choose_settings("default", "pi_dual", n_train=n, images=False).method["random_pi"] for n in SIZES]
    assert random_pi == [0, 0, 0, 0, 8, 8, 8]


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


@pytest.mark.parametrize("network", [None, "small_cnn"])
def test_naming_the_network_that_is_taken_anyway_changes_nothing(network):
    options = FitOptions(network=network, network_options={"width": 8})
    assert resolve_options(options, 500, (3, 8, 8))[2] == {"convs": 2, "width": 8}


def test_another_network_has_its_own_options():
    assert resolve_options(FitOptions(network="mlp"), 500, (3, 8, 8))[2] == {}


def test_an_unknown_setting_is_named():
    with pytest.raises(UsageError, match="There is no setting 'fast'; use one of default, paper"):
        choose_settings("fast", "ce", n_train=10, images=False)


def test_options_go_where_they_belong():
    options = {"lr": 0.1, "width": 32, "network.width": 64}
    assert split_settings(options) == ({"width": 32}, {"lr": 0.1}, {"width": 64})
    with pytest.raises(UsageError, match="give it with --seed"):
        split_settings({"seed": 1})
