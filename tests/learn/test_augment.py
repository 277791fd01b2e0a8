import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from sklearn.datasets import load_sample_images
from torch.nn import functional as F

from pidual.data.images import random_boxes
from pidual.errors import UsageError
from pidual.learn.nets.augment import (
    DRAWS_AUTO_AUGMENT,
    DRAWS_CUTOUT,
    DRAWS_RAND_AUGMENT,
    OPERATIONS,
    auto_augment,
    crop_flip,
    cutout,
    rand_augment,
    resized_crop,
)


def by_loop(x, draws, pad, fill):
    out = torch.empty_like(x)
    for i, image in enumerate(x):
        padded = F.pad(image, (pad, pad, pad, pad), value=fill)
        top, left = int(draws[i, 0] * (2 * pad + 1)), int(draws[i, 1] * (2 * pad + 1))
        crop = padded[:, top : top + x.shape[2], left : left + x.shape[3]]
        out[i] = crop.flip(2) if draws[i, 2] < 0.5 else crop
    return out


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16])
@pytest.mark.parametrize(("shape", "pad", "fill"), [((20, 3, 8, 11), 2, 0), ((7, 1, 5, 5), 4, 9), ((6, 2, 4, 6), 0, 0)])
def test_equals_a_plain_loop(dtype, shape, pad, fill):
    x = torch.randint(1, 200, shape).to(dtype)
    before = x.clone()
    draws = torch.rand(shape[0], 3)
    out = crop_flip(x, draws, pad=pad, fill=fill)
    assert out.dtype == dtype
    assert torch.equal(out, by_loop(x, draws, pad, fill))
    assert torch.equal(x, before)


# Strong augmentation against Pillow: the oracle below shares nothing with nets.augment but the names of operations.

FACTORS = [0.10, 0.28, 0.46, 0.64, 0.82, 1.00, 1.18, 1.36, 1.54, 1.72]
LEVELS = {  # values at levels 0 to 9 in the code of AutoAugment, UDA, SOP and CORES
    "ShearX": [0, 0.03, 0.06, 0.09, 0.12, 0.15, 0.18, 0.21, 0.24, 0.27],
    "ShearY": [0, 0.03, 0.06, 0.09, 0.12, 0.15, 0.18, 0.21, 0.24, 0.27],
    "TranslateX": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],  # pixels of 32
    "TranslateY": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    "Rotate": [0, 3, 6, 9, 12, 15, 18, 21, 24, 27],
    "Color": FACTORS,
    "Contrast": FACTORS,
    "Sharpness": FACTORS,
    "Brightness": FACTORS,
    "Posterize": [4, 4, 4, 3, 3, 2, 2, 2, 1, 1],
    "Solarize": [256, 231, 205, 180, 154, 128, 103, 77, 52, 26],
    "AutoContrast": [0] * 10,
    "Equalize": [0] * 10,
    "Invert": [0] * 10,
}
WITH_SIGN = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}
POLICY = """
    Invert 0.1 7        Contrast 0.2 6
    Rotate 0.7 2        TranslateX 0.3 9
    Sharpness 0.8 1     Sharpness 0.9 3
    ShearY 0.5 8        TranslateY 0.7 9
    AutoContrast 0.5 8  Equalize 0.9 2
    ShearY 0.2 7        Posterize 0.3 7
    Color 0.4 3         Brightness 0.6 7
    Sharpness 0.3 9     Brightness 0.7 9
    Equalize 0.6 5      Equalize 0.5 1
    Contrast 0.6 7      Sharpness 0.6 5
    Color 0.7 7         TranslateX 0.5 8
    Equalize 0.3 7      AutoContrast 0.4 8
    TranslateY 0.4 3    Sharpness 0.2 6
    Brightness 0.9 6    Color 0.2 6
    Solarize 0.5 2      Invert 0.0 3
    Equalize 0.2 0      AutoContrast 0.6 0
    Equalize 0.2 8      Equalize 0.6 4
    Color 0.9 9         Equalize 0.6 6
    AutoContrast 0.8 4  Solarize 0.2 8
    Brightness 0.1 3    Color 0.7 0
    Solarize 0.4 5      AutoContrast 0.9 3
    TranslateY 0.9 9    TranslateY 0.7 9
    AutoContrast 0.9 2  Solarize 0.8 3
    Equalize 0.8 8      Invert 0.1 3
    TranslateY 0.7 9    AutoContrast 0.9 1
"""
SUB_POLICIES = [line.split() for line in POLICY.strip().splitlines()]


def with_pillow(image, name, level, sign):
    value = LEVELS[name][level] * (sign if name in WITH_SIGN else 1)

    def affine(*matrix):
        return image.transform(image.size, Image.Transform.AFFINE, matrix)

    match name:
        case "ShearX":
            return affine(1, value, 0, 0, 1, 0)
        case "ShearY":
            return affine(1, 0, 0, value, 1, 0)
        case "TranslateX":
            return affine(1, 0, value * image.width / 32, 0, 1, 0)
        case "TranslateY":
            return affine(1, 0, 0, 0, 1, value * image.height / 32)
        case "Rotate":
            return image.rotate(value)
        case "Color" | "Contrast" | "Sharpness" | "Brightness":
            return getattr(ImageEnhance, name)(image).enhance(value)
        case "Posterize":
            return ImageOps.posterize(image, value)
        case "Solarize":
            return ImageOps.solarize(image, value)
        case _:
            return getattr(ImageOps, name.lower())(image)


def to_pillow(image):
    array = image.permute(1, 2, 0).numpy()
    return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)


def from_pillow(image):
    array = np.array(image)
    return torch.from_numpy(array[None] if array.ndim == 2 else array.transpose(2, 0, 1))


@pytest.fixture(scope="module")
def photographs():
    return [torch.tensor(photograph).permute(2, 0, 1) for photograph in load_sample_images().images]


@pytest.fixture(scope="module", params=[(3, 32, 32), (3, 33, 47), (1, 32, 32), (1, 33, 47)], ids=str)
def images(request, photographs):
    """Patches of two photographs (30 in colour, 10 in grey), then noise, plain and two-valued images."""
    channels, height, width = request.param
    generator = torch.Generator().manual_seed(0)
    patches = []
    for i in range(30 if channels == 3 else 10):
        photograph = photographs[i % 2]
        top = int(torch.randint(photograph.shape[1] - height, (), generator=generator))
        left = int(torch.randint(photograph.shape[2] - width, (), generator=generator))
        patches.append(photograph[:channels, top : top + height, left : left + width])
    shape = (3, channels, height, width)
    noise = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    plain = torch.tensor([0, 77, 255], dtype=torch.uint8).view(3, 1, 1, 1).expand(shape)
    two_valued = torch.where(noise < torch.tensor([1, 100, 250]).view(3, 1, 1, 1), 40, 191)
    return torch.cat([torch.stack(patches), noise, plain, two_valued.to(torch.uint8)])


def policy_by_loop(x, draws):
    out = []
    for image, (which, *rest) in zip(x, draws.double().tolist(), strict=True):
        steps = SUB_POLICIES[min(int(which * 25), 24)]
        picture = to_pillow(image)
        for i in range(2):
            name, probability, level = steps[3 * i : 3 * i + 3]
            if rest[2 * i] < float(probability):
                picture = with_pillow(picture, name, int(level), -1 if rest[2 * i + 1] < 0.5 else 1)
        out.append(from_pillow(picture))
    return torch.stack(out)


def draws_for(n, seed=1):
    """Draws that go through the sub-policies in turn."""
    draws = torch.rand(n, DRAWS_AUTO_AUGMENT, generator=torch.Generator().manual_seed(seed))
    draws[:, 0] = (torch.arange(n) % 25 + draws[:, 0]) / 25
    return draws


def test_the_policy_equals_a_plain_loop_with_pillow(images):
    x = images.repeat(8, 1, 1, 1)[:200]
    before = x.clone()
    draws = draws_for(len(x))
    probability = torch.tensor([[float(p) for p in steps[1::3]] for steps in SUB_POLICIES])
    draws[:100, [1, 3]] = (probability.repeat(4, 1) - 0.01).clamp(min=0)  # both operations just apply
    draws[100:150, [1, 3]] = probability.repeat(2, 1) + 0.01  # and just do not
    out = auto_augment(x, draws)
    assert out.dtype == torch.uint8
    assert torch.equal(out, policy_by_loop(x, draws))
    assert torch.equal(x, before)


# UDA's policy against Pillow: images with transparency, which is what becomes the mean colour there.

REPLACES = {"Invert", "AutoContrast", "Posterize", "Equalize", "Solarize"}  # done without transparency, which is lost


def uda_by_loop(x, draws, fill):
    out = []
    for image, numbers in zip(x, draws.double().tolist(), strict=True):
        picture = to_pillow(image).convert("RGBA")
        for which, chance, sign, column in (numbers[:4], numbers[4:]):
            choice = min(int(which * 135), 134)
            name, level = OPERATIONS[choice // 9], choice % 9 + 1
            if chance >= 0.5:
                continue
            if name == "Cutout":
                width, height = picture.size
                row, place = min(int(sign * height), height - 1), min(int(column * width), width - 1)
                for i in range(max(0, row - level), min(height, row + level)):
                    for j in range(max(0, place - level), min(width, place + level)):
                        picture.putpixel((j, i), (*fill, 0))
            elif name in REPLACES:
                picture = with_pillow(picture.convert("RGB"), name, level, 1).convert("RGBA")
            else:
                picture = with_pillow(picture, name, level, -1 if sign < 0.5 else 1)
        array = np.array(picture)
        array[array[..., 3] == 0, :3] = fill
        out.append(from_pillow(Image.fromarray(array[..., :3]))[: x.shape[1]])
    return torch.stack(out)


def uda_draws(n, seed=1):
    return torch.rand(n, DRAWS_RAND_AUGMENT, generator=torch.Generator().manual_seed(seed))


def colour_for(x):
    return (125, 122, 113) if x.shape[1] == 3 else (120, 120, 120)


def test_the_policy_of_uda_equals_a_plain_loop_with_pillow(images):
    x = images.repeat(15, 1, 1, 1)[:270]
    before, draws, colour = x.clone(), uda_draws(270), colour_for(x)
    draws[:135, 0] = draws[135:, 4] = (
        torch.arange(135) + 0.5
    ) / 135  # every operation at every level, first and second
    draws[:135, 1] = draws[135:, 5] = 0.499
    draws[:135:2, 5] = draws[135::2, 1] = 0.5
    out = rand_augment(x, draws, fill=torch.tensor(colour[: x.shape[1]]))
    assert out.dtype == torch.uint8
    assert torch.equal(out, uda_by_loop(x, draws, colour))
    assert torch.equal(x, before)


@pytest.mark.parametrize(("size", "fill"), [(16, 0), (5, 200), (1, 7.4), (0, 9), (99, 3), (6, [10, 20.6, 255])])
def test_cutout_equals_a_plain_loop(size, fill):
    x = torch.randint(0, 256, (40, 3, 20, 27), dtype=torch.uint8)
    before = x.clone()
    draws = torch.rand(40, DRAWS_CUTOUT)
    draws[:4] = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    expected = x.clone()
    for image, (row, column) in zip(expected, draws, strict=True):
        centre = min(int(row * 20), 19), min(int(column * 27), 26)
        top, left = centre[0] - size // 2, centre[1] - size // 2
        for channel, value in enumerate(fill if isinstance(fill, list) else [fill] * 3):
            image[channel, max(top, 0) : max(top + size, 0), max(left, 0) : max(left + size, 0)] = round(value)
    out = cutout(x, draws, size=size, fill=torch.tensor(fill) if isinstance(fill, list) else fill)
    assert out.dtype == torch.uint8
    assert torch.equal(out, expected)
    assert torch.equal(x, before)


@pytest.mark.parametrize(("function", "n_draws"), [(auto_augment, 5), (rand_augment, 8), (cutout, 2)])
def test_strong_augmentation_refuses_other_images(function, n_draws):
    x = torch.zeros(5, 3, 8, 8, dtype=torch.uint8)
    with pytest.raises(UsageError, match=r"uint8.*float32"):
        function(x.float(), torch.rand(5, n_draws))
    with pytest.raises(UsageError, match=r"\(5, 2, 8, 8\)"):
        function(x[:, :2], torch.rand(5, n_draws))


# resized_crop


@pytest.mark.parametrize("shape", [(30, 3, 24, 36), (5, 1, 9, 7)])
def test_resized_crop_is_pillows_crop_and_bicubic_resize(shape):
    x = torch.randint(0, 256, shape, dtype=torch.uint8)
    before = x.clone()
    draws = torch.rand(shape[0], 4)
    out = resized_crop(x, draws)
    assert out.dtype == torch.uint8
    assert torch.equal(x, before)
    boxes = random_boxes(shape[2], shape[3], draws.double().numpy())
    differ = 0
    for image, (top, left, height, width), found in zip(x, boxes, out, strict=True):
        for channel, expected in zip(image.numpy(), found.int().numpy(), strict=True):
            crop = Image.fromarray(channel[top : top + height, left : left + width])
            scaled = np.asarray(crop.resize((shape[3], shape[2]), Image.Resampling.BICUBIC), np.int64)
            assert np.abs(scaled - expected).max() <= 2  # Pillow's weights are rounded
            differ += (scaled != expected).mean()
    assert differ / (shape[0] * shape[1]) < 0.01
