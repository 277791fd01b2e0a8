import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pidual import nets
from pidual.errors import UsageError

SHAPES = {"mlp": (12,), "small_cnn": (3, 32, 32), "wrn_28_10": (3, 16, 16), "resnet50": (3, 32, 32)}
SMALL = {"mlp": {}, "small_cnn": {"width": 8}, "wrn_28_10": {"depth": 10, "widen": 1}, "resnet50": {}}


def count(module):
    return sum(p.numel() for p in module.parameters())


def one_hot(codes, sizes, numbers):
    blocks = [F.one_hot(codes[:, j] + 1, size + 1)[:, 1:].double() for j, size in enumerate(sizes)]  # -1: all zero
    return torch.cat([*blocks, numbers], dim=1)


# every network


@pytest.mark.parametrize("name", nets.NETWORKS)
def test_forward_is_head_of_features(name):
    f = nets.build_network(name, in_shape=SHAPES[name], n_classes=5, **SMALL[name]).eval()
    x = torch.randn(2, *SHAPES[name])
    features = f.features(x)
    assert features.shape == (2, f.n_features)
    assert isinstance(f.head, nn.Linear)
    assert torch.equal(f(x), f.head(features))


@pytest.mark.parametrize("name", nets.NETWORKS)
def test_every_parameter_gets_a_gradient(name):
    f = nets.build_network(name, in_shape=SHAPES[name], n_classes=5, **SMALL[name])
    F.cross_entropy(f(torch.randn(4, *SHAPES[name])), torch.tensor([0, 1, 2, 3])).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in f.parameters())


@pytest.mark.parametrize("name", nets.NETWORKS)
def test_takes_inputs_as_they_are_stored(name):
    shape = SHAPES[name]
    standardize = nets.Standardize(np.full(shape[0], 100.0), np.full(shape[0], 50.0))
    f = nets.build_network(name, in_shape=shape, n_classes=3, standardize=standardize, **SMALL[name]).eval()
    x = torch.randint(0, 256, (2, *shape))
    with torch.no_grad():
        expected = f(x.float())
        for dtype in (torch.uint8, torch.float64, torch.float16, torch.int64):
            out = f(x.to(dtype))
            assert out.dtype == torch.float32
            assert torch.allclose(out, expected)


def test_unknown_network_or_option_is_refused():
    with pytest.raises(UsageError, match="mlp, small_cnn, wrn_28_10, resnet50"):
        nets.build_network("vgg", in_shape=(3, 8, 8), n_classes=2)
    with pytest.raises(UsageError, match=r"'witdh'.*width"):
        nets.build_network("mlp", in_shape=(3,), n_classes=2, witdh=3)
    with pytest.raises(UsageError, match=r"\(7,\)"):
        nets.build_network("small_cnn", in_shape=(7,), n_classes=2)
    with pytest.raises(UsageError, match="6 n"):
        nets.WideResNet(10, depth=27)


def test_network_for_a_shape():
    assert nets.network_for((64,)) == "mlp"
    assert nets.network_for((3, 32, 32)) == "small_cnn"


# Standardize


def test_standardize_gives_zero_mean_unit_std():
    x = np.random.default_rng(0).normal(7, 3, (500, 4))
    z = nets.Standardize.fit(x, block_bytes=1000)(torch.tensor(x))
    assert z.dtype == torch.float32
    assert torch.allclose(z.mean(0), torch.zeros(4), atol=1e-5)
    assert torch.allclose(z.std(0, correction=0), torch.ones(4), atol=1e-5)


def test_standardize_images_per_channel():
    x = np.random.default_rng(0).integers(0, 256, (30, 3, 5, 6), dtype=np.uint8)
    x[:, 1] //= 2
    standardize = nets.Standardize.fit(x, block_bytes=5000)
    assert np.allclose(standardize.mean, x.mean((0, 2, 3)), rtol=1e-6)
    assert np.allclose(standardize.std, x.std((0, 2, 3)), rtol=1e-6)
    assert torch.allclose(standardize(torch.tensor(x)).mean((0, 2, 3)), torch.zeros(3), atol=1e-5)


def test_standardize_leaves_constant_columns_finite():
    x = np.full((50, 2), 0.1)
    for standardize in (nets.Standardize.fit(x), nets.Standardize([0.1, 0.1], [0.0, 1e-17])):
        assert torch.equal(standardize.std, torch.ones(2))
        assert standardize(torch.tensor(x)).abs().max() < 1e-6


def test_standardize_travels_with_the_weights():
    f = nets.MLP(2, 2, standardize=nets.Standardize([1.0, 2.0], [3.0, 4.0]))
    g = nets.MLP(2, 2, standardize=nets.Standardize([0.0, 0.0], [1.0, 1.0]))
    g.load_state_dict(f.state_dict())
    x = torch.randn(3, 2)
    assert torch.equal(f(x), g(x))


# mlp and MLP


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_mlp_depth_counts_hidden_layers(depth):
    net = nets.mlp(5, 3, width=7, depth=depth)
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    assert len(linear) == depth + 1
    assert sum(isinstance(layer, nn.ReLU) for layer in net) == depth
    assert net(torch.randn(2, 5)).shape == (2, 3)
    assert all((layer.bias == 0).all() for layer in linear)


def test_mlp_is_glorot_uniform():
    weight = nets.mlp(300, 200, width=1, depth=0)[0].weight
    bound = math.sqrt(6 / 500)
    assert weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_mlp_flattens_images_and_drops_only_in_training():
    f = nets.build_network("mlp", in_shape=(1, 8, 8), n_classes=10, dropout=0.5)
    x = torch.randn(4, 1, 8, 8)
    assert not torch.equal(f(x), f(x))
    f.eval()
    assert torch.equal(f(x), f(x))


def test_mlp_depth_zero_is_linear():
    f = nets.MLP(4, 3, depth=0)
    x = torch.randn(5, 4)
    assert torch.equal(f.features(x), x)
    assert f.n_features == 4


# convolution networks


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (3, 96, 96), (2, 5, 9)])
def test_small_cnn_takes_any_size(shape):
    f = nets.build_network("small_cnn", in_shape=shape, n_classes=4)
    assert f(torch.randn(2, *shape)).shape == (2, 4)


def test_wide_resnet_parameter_counts():
    f = nets.WideResNet(10)
    assert count(f) == 36_479_194
    assert count(f) - count(f.head) == 36_472_784
    f.head = nn.Linear(f.n_features, 100)
    assert count(f) == 36_536_884
    assert f.n_features == 640


def test_wide_resnet_shortcut_reads_the_raw_input():
    block = nets._WideBlock(4, 8, 2).eval()
    nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, 4, 6, 6)
    assert torch.equal(block(x), block.shortcut(x))
    same = nets._WideBlock(4, 4, 1).eval()
    nn.init.zeros_(same.conv2.weight)
    assert torch.equal(same(x), x)


def test_wide_resnet_init_is_truncated_he_by_fan_in():
    f = nets.WideResNet(10, depth=10, widen=4)
    for weight, fan_in in ((f.blocks[2].conv2.weight, 9 * 256), (f.head.weight, 256)):
        std = math.sqrt(2 / fan_in)
        assert weight.std().item() == pytest.approx(std, rel=0.05)
        assert weight.abs().max().item() <= 2 * std / 0.879 + 1e-6
    assert (f.head.bias == 0).all()


def test_resnet50_parameter_count_strides_and_any_resolution():
    f = nets.ResNet50()
    assert count(f) == 25_557_032
    assert f.n_features == 2048
    with torch.no_grad():
        assert f.eval()(torch.randn(1, 3, 75, 50)).shape == (1, 1000)
    first_of_group = [f.blocks[i] for i in (3, 7, 13)]
    assert all(block.conv2.stride == (2, 2) and block.conv1.stride == (1, 1) for block in first_of_group)


def test_small_cnn_learns():
    x = torch.randn(64, 1, 8, 8)
    y = (x[:, 0, :4].mean((1, 2)) > x[:, 0, 4:].mean((1, 2))).long()
    f = nets.SmallCNN(2, 1, width=8)
    optimizer = torch.optim.SGD(f.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(15):
        loss = F.cross_entropy(f(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


# PILinear


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("sizes", "n_numbers"), [([6], 2), ([6, 1, 40], 3), ([5], 0), ([3, 4], 0), ([], 4), ([], 0)])
def test_pi_linear_is_a_linear_layer_on_the_one_hot(sizes, n_numbers, sparse):
    rng = np.random.default_rng(len(sizes))
    codes = torch.tensor(
        np.stack([rng.integers(-1, s, 30) for s in sizes], 1) if sizes else np.zeros((30, 0), np.int64)
    )
    numbers = torch.randn(30, n_numbers, dtype=torch.float64)
    layer = nets.PILinear(sizes, n_numbers, 8, sparse=sparse).double()
    nn.init.normal_(layer.bias)
    x = one_hot(codes, sizes, numbers)
    weight = torch.cat([layer.table, layer.dense]).detach().clone().requires_grad_()
    bias = layer.bias.detach().clone().requires_grad_()
    out, expected = layer(codes, numbers), F.linear(x, weight.T, bias)
    assert torch.allclose(out, expected, atol=1e-6)
    direction = torch.randn_like(out)
    (out * direction).sum().backward()
    (expected * direction).sum().backward()
    if sizes:
        assert layer.table.grad.is_sparse == sparse
        assert torch.allclose(layer.table.grad.to_dense(), weight.grad[: sum(sizes)], atol=1e-6)
    if n_numbers:
        assert torch.allclose(layer.dense.grad, weight.grad[sum(sizes) :], atol=1e-6)
    assert torch.allclose(layer.bias.grad, bias.grad, atol=1e-6)


def test_pi_linear_takes_narrow_codes_and_ignores_what_is_no_category():
    layer = nets.PILinear([3, 2], 0, 4)
    none = torch.zeros(2, 0)
    out = layer(torch.tensor([[-1, -1], [3, 7]], dtype=torch.int32), none)
    assert torch.equal(out, layer.bias.expand(2, 4))
    known = layer(torch.tensor([[2, 1]], dtype=torch.int16), none[:1])
    assert torch.allclose(known[0], layer.table[2] + layer.table[4])


def test_pi_linear_is_initialised_on_the_full_width():
    layer = nets.PILinear([2000, 500], 6, 128)
    bound = math.sqrt(6 / (2506 + 128))
    for weight in (layer.table, layer.dense):
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.06)
    assert (layer.bias == 0).all()
    assert count(layer) == (2506 + 1) * 128


def test_pi_linear_saves_only_its_weights():
    assert set(nets.PILinear([3], 1, 2).state_dict()) == {"table", "dense", "bias"}


LAST_STAGE = {
    "mlp": {"hidden.2"},
    "small_cnn": {"blocks.2.0", "blocks.2.1"},
    "wrn_28_10": {"blocks.2.bn1", "blocks.2.conv1", "blocks.2.bn2", "blocks.2.conv2", "blocks.2.shortcut", "bn"},
    "resnet50": None,
}


@pytest.mark.parametrize("name", nets.NETWORKS)
def test_last_stage_is_what_comes_right_before_the_head(name):
    f = nets.build_network(name, in_shape=SHAPES[name], n_classes=5, **SMALL[name])
    inside = {id(parameter) for module in f.last_stage for parameter in module.parameters()}
    layers = {key.rsplit(".", 1)[0] for key, parameter in f.named_parameters() if id(parameter) in inside}
    expected = LAST_STAGE[name]
    if expected is None:  # the blocks of 2048 channels
        first = f.blocks.__class__(*list(f.blocks)[:-3])
        assert first[-1].conv3.out_channels == 1024
        assert {layer.split(".")[1] for layer in layers} == {"13", "14", "15"}
    else:
        assert layers == expected


def test_last_stage_of_a_linear_classifier_is_empty():
    assert nets.MLP(4, 3, depth=0).last_stage == []
