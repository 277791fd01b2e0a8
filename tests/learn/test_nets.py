import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pidual.errors import UsageError
from pidual.learn import nets

IMAGE = (3, 32, 32)
SHAPES = dict.fromkeys(nets.NETWORKS, (3, 16, 16)) | {"mlp": (12,), "small_cnn": IMAGE, "resnet50": IMAGE}
SMALL = {name: {} for name in nets.NETWORKS} | {"small_cnn": {"width": 8}, "wrn_28_10": {"depth": 10, "widen": 1}}


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
    names = "mlp, small_cnn, wrn_28_10, resnet50, resnet34, preact_resnet18, torchvision:NAME, timm:NAME"
    for name in ("vgg", "timm", "timm:", "keras:vgg"):
        with pytest.raises(UsageError, match=f"'{name}'; choose one of {names}"):
            nets.build_network(name, in_shape=(3, 8, 8), n_classes=2)
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


def test_standardize_leaves_constant_columns_finite():
    x = np.full((50, 2), 0.1)
    for standardize in (nets.Standardize.fit(x), nets.Standardize([0.1, 0.1], [0.0, 1e-17])):
        assert torch.equal(standardize.std, torch.ones(2))
        assert standardize(torch.tensor(x)).abs().max() < 1e-6


# mlp and MLP


def test_mlp_flattens_images_and_drops_only_in_training():
    f = nets.build_network("mlp", in_shape=(1, 8, 8), n_classes=10, dropout=0.5)
    x = torch.randn(4, 1, 8, 8)
    assert not torch.equal(f(x), f(x))
    f.eval()
    assert torch.equal(f(x), f(x))


# convolution networks


def test_wide_resnet_parameter_counts():
    f = nets.WideResNet(10)
    assert count(f) == 36_479_194
    assert count(f) - count(f.head) == 36_472_784
    f.head = nn.Linear(f.n_features, 100)
    assert count(f) == 36_536_884
    assert f.n_features == 640


def test_resnet50_parameter_count_strides_and_any_resolution():
    f = nets.ResNet50()
    assert count(f) == 25_557_032
    assert f.n_features == 2048
    with torch.no_grad():
        assert f.eval()(torch.randn(1, 3, 75, 50)).shape == (1, 1000)
    first_of_group = [f.blocks[i] for i in (3, 7, 13)]
    assert all(block.conv2.stride == (2, 2) and block.conv1.stride == (1, 1) for block in first_of_group)


def conv_bn(a, b, size):
    """Weights of a convolution without bias, and gain and bias of the batch normalisation after it."""
    return a * b * size**2 + 2 * b


def test_resnet34_parameter_count():
    """Stem and basic blocks 3-4-6-3 of He et al. 2016 (arXiv 1512.03385, table 1), with a 3 x 3 stem."""
    expected, channels = conv_bn(3, 64, 3), 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for _ in range(blocks):
            expected += conv_bn(channels, width, 3) + conv_bn(width, width, 3)
            expected += conv_bn(channels, width, 1) if channels != width else 0
            channels = width
    f = nets.ResNet34(10)
    assert count(f) == expected + 512 * 10 + 10 == 21_282_122
    assert f.stem[0].stride == (1, 1)
    assert [block.conv1.stride[0] for block in f.blocks] == [1] * 3 + [2] + [1] * 3 + [2] + [1] * 5 + [2] + [1] * 2
    with torch.no_grad():
        assert f.blocks(f.stem(torch.randn(1, 3, 32, 32))).shape == (1, 512, 4, 4)


def test_preact_resnet18_parameter_count():
    """Pre-activation blocks 2-2-2-2 by DivideMix's convention: BN after the stem and none after the last block, 1 x 1
    shortcuts without BN.
    """
    expected, channels = conv_bn(3, 64, 3), 64
    for width in (64, 128, 256, 512):
        for _ in range(2):
            first, second = 2 * channels + 9 * channels * width, 2 * width + 9 * width * width
            expected += first + second + (channels * width if channels != width else 0)
            channels = width
    f = nets.PreActResNet18(10)
    assert count(f) == expected + 512 * 10 + 10 == 11_171_274
    assert f.stem[0].stride == (1, 1)
    assert [block.conv1.stride[0] for block in f.blocks] == [1, 1, 2, 1, 2, 1, 2, 1]
    assert all(
        name in ("head.bias",) or "bn" in name or "stem.1" in name for name, p in f.named_parameters() if p.ndim < 2
    )


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


LAST_STAGE = {
    "mlp": {"hidden.2"},
    "small_cnn": {"blocks.2.0", "blocks.2.1"},
    "wrn_28_10": {"blocks.2.bn1", "blocks.2.conv1", "blocks.2.bn2", "blocks.2.conv2", "blocks.2.shortcut", "bn"},
    "resnet50": None,
    "resnet34": {f"blocks.{i}.{part}" for i in (13, 14, 15) for part in ("conv1", "bn1", "conv2", "bn2")}
    | {"blocks.13.shortcut.0", "blocks.13.shortcut.1"},
    "preact_resnet18": {f"blocks.{i}.{part}" for i in (6, 7) for part in ("bn1", "conv1", "bn2", "conv2")}
    | {"blocks.6.shortcut"},
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


# fixed statistics


def test_fixed_statistics_take_the_place_of_fitted_ones():
    fitted = nets.Standardize([1.0] * 3, [2.0] * 3)
    options = {"in_shape": IMAGE, "n_classes": 2, "standardize": fitted, "width": 4}
    x = torch.randint(0, 256, (2, *IMAGE), dtype=torch.uint8)
    unit = nets.build_network("small_cnn", statistics="unit", **options).prepare(x)
    torch.testing.assert_close(unit, x / 255)
    cifar = nets.build_network("small_cnn", statistics="cifar10", **options).prepare(x)
    for channel, (mean, std) in enumerate([(0.4914, 0.2470), (0.4822, 0.2435), (0.4465, 0.2616)]):
        torch.testing.assert_close(cifar[:, channel], (x[:, channel] / 255 - mean) / std)
    assert nets.build_network("small_cnn", **options).standardize is fitted
    with pytest.raises(UsageError, match="'svhn'; choose one of cifar10, unit"):
        nets.build_network("small_cnn", statistics="svhn", **options)
    with pytest.raises(UsageError, match=r"three colours, not for inputs of shape \(5,\)"):
        nets.build_network("mlp", in_shape=(5,), n_classes=2, statistics="cifar10")


# networks of other libraries, by libraries that pretend


class Ends(nn.Module):
    """Ends as torchvision's networks do: in `attribute`, a linear layer or a sequence with one at its end."""

    def __init__(self, attribute, last):
        super().__init__()
        self.conv, self.attribute = nn.Conv2d(3, 6, 3), attribute
        setattr(self, attribute, last)

    def forward(self, x):
        return getattr(self, self.attribute)(self.conv(x).mean((2, 3)))


class WithAuxiliary(Ends):
    def forward(self, x):
        return super().forward(x), None


TORCHVISION = {
    "resnet18": lambda: Ends("fc", nn.Linear(6, 1000)),
    "densenet121": lambda: Ends("classifier", nn.Linear(6, 1000)),
    "vgg11": lambda: Ends("classifier", nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Dropout(), nn.Linear(9, 1000))),
    "vit_b_16": lambda: Ends("heads", nn.Sequential(nn.Linear(6, 1000))),
    "swin_t": lambda: Ends("head", nn.Linear(6, 1000)),
    "squeezenet1_0": lambda: Ends("classifier", nn.Sequential(nn.Dropout(), nn.Linear(6, 7), nn.ReLU())),
    "inception_v3": lambda: WithAuxiliary("fc", nn.Linear(6, 1000)),
}


@pytest.fixture
def libraries(monkeypatch):
    def get_model(name, **options):
        if name not in TORCHVISION:
            raise ValueError(f"Unknown model {name}")
        return TORCHVISION[name](**options)

    def create_model(name, *, num_classes, in_chans, width=5):
        if name == "nothing":
            raise RuntimeError("Unknown model (nothing)")
        layers = [nn.Conv2d(in_chans, width, 3), nn.BatchNorm2d(width)]
        if name != "map":
            layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers, *([nn.Linear(width, num_classes)] if num_classes else []))

    torchvision, models, timm = ModuleType("torchvision"), ModuleType("torchvision.models"), ModuleType("timm")
    torchvision.models, models.get_model, timm.create_model = models, get_model, create_model
    for module in (torchvision, models, timm):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(
    ("name", "width"),
    [(f"torchvision:{name}", 9 if name == "vgg11" else 6) for name in list(TORCHVISION)[:5]] + [("timm:resnet18", 5)],
)
def test_networks_of_other_libraries_are_split_before_their_last_layer(libraries, name, width):
    f = nets.build_network(name, in_shape=IMAGE, n_classes=4, statistics="unit")
    assert f.training
    assert f.body.training
    assert f.n_features == width
    x = torch.randint(0, 256, (2, *IMAGE), dtype=torch.uint8)
    f.eval()
    assert f.features(x).shape == (2, width)
    assert torch.equal(f(x), f.head(f.features(x)))
    assert f(x).shape == (2, 4)
    assert not [p for p in f.parameters() if 1000 in p.shape]
    F.cross_entropy(f(x), torch.tensor([0, 3])).backward()
    assert all(p.grad is not None for p in f.parameters())


def test_options_and_colours_reach_the_other_library(libraries):
    f = nets.build_network("timm:resnet18", in_shape=(1, 8, 8), n_classes=2, width=7)
    assert f.n_features == 7
    assert f(torch.randn(2, 1, 8, 8)).shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "shape", "options", "says"),
    [
        ("torchvision:nothing", IMAGE, {}, "torchvision cannot build 'nothing' .Unknown model nothing"),
        ("timm:nothing", IMAGE, {}, r"timm cannot build 'nothing' .*timm.list_models\(\)"),
        ("timm:resnet18", IMAGE, {"depth": 3}, "depth"),
        ("timm:resnet18", IMAGE, {"num_classes": 3}, "num_classes"),
        ("timm:map", IMAGE, {}, r"features of shape \(5, 30, 30\)"),
        ("timm:resnet18", (3, 2, 2), {}, r"cannot read images of shape \(3, 2, 2\)"),
        ("torchvision:squeezenet1_0", IMAGE, {}, "does not end in a linear layer"),
        ("torchvision:resnet18", (1, 8, 8), {}, "three colours, not 1"),
        ("timm:resnet18", (7,), {}, r"images of shape \(C, H, W\), not inputs of shape \(7,\)"),
    ],
)
def test_what_other_libraries_cannot_do_is_said(libraries, name, shape, options, says):
    with pytest.raises(UsageError, match=says):
        nets.build_network(name, in_shape=shape, n_classes=2, **options)


def test_auxiliary_outputs_are_refused(libraries):
    f = nets.build_network("torchvision:inception_v3", in_shape=IMAGE, n_classes=2)
    with pytest.raises(UsageError, match="aux_logits=false"):
        f(torch.randn(2, *IMAGE))


@pytest.mark.parametrize("error", [ImportError("No module named 'timm'"), RuntimeError("operator does not exist")])
def test_a_library_that_does_not_import_is_said(monkeypatch, error):
    class Fails:
        def find_spec(self, name, path=None, target=None):
            if name == "timm":
                raise error

    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Fails(), *sys.meta_path])
    with pytest.raises(UsageError, match=rf"'timm:resnet18' needs timm.*{error}.*pidual\[vision\]"):
        nets.build_network("timm:resnet18", in_shape=IMAGE, n_classes=2)
