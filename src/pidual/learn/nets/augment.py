"""Batched augmentation: whole batches of images at once, with the random draws supplied by the caller.

Every function takes images x (B, C, H, W), which it leaves as they are, and draws (B, n), uniform numbers in [0, 1). It
returns images of the same shape, number type and device, each a function of its own draws alone. The caller owns the
randomness, so that an augmented epoch is the same after resuming and on any number of processes.
`crop_flip` is the weak augmentation of small images, `resized_crop` that of large ones; `auto_augment` or
`rand_augment`, and `cutout`, are the strong one. Their operations return the very bytes Pillow does, with
nearest-neighbour resampling, so they follow its arithmetic. The values of an operation at each level are those of
AutoAugment's released CIFAR code, which SOP, CORES and UDA share (google-research/uda, image/randaugment;
shengliu66/SOP, data_loader; UCSC-REAL/cores, phase2).

Cubuk et al., "AutoAugment", CVPR 2019, arXiv 1805.09501; DeVries and Taylor, "Cutout", 2017, arXiv 1708.04552; Xie et
al., "Unsupervised data augmentation for consistency training", NeurIPS 2020, arXiv 1904.12848.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...data.images import random_boxes
from ...errors import UsageError

DRAWS_CROP = 4  # numbers per image of a random resized crop: aspect, height, row, column
DRAWS_AUTO_AUGMENT = 5  # numbers per image: the sub-policy, then application and sign for each of its two operations
DRAWS_RAND_AUGMENT = 8  # for each of two operations: which at which level, application, sign or row, column
DRAWS_CUTOUT = 2  # row and column of the centre
STRONG_POLICIES = {"autoaugment": DRAWS_AUTO_AUGMENT, "uda": DRAWS_RAND_AUGMENT}  # each then with Cutout


def crop_flip(x: Tensor, draws: Tensor, *, pad: int, fill: float = 0) -> Tensor:
    """Pad each image, crop it to its old size at its own random place, and mirror every second one at random.

    `x` (B, C, H, W).
    `draws` (B, 3): row offset, column offset, flip (mirrored where below 0.5).
    `pad`: pixels added on every side; 0 only mirrors.
    `fill`: value of the added pixels, in the units of `x`.
    """
    batch, channels, height, width = x.shape
    padded = F.pad(x, (pad, pad, pad, pad), value=fill) if pad else x
    offsets = (draws[:, :2] * (2 * pad + 1)).long().clamp_(0, 2 * pad).to(x.device)
    top, left = offsets[:, :1], offsets[:, 1:]
    mirrored = (draws[:, 2:] < 0.5).to(x.device)
    column = torch.arange(width, device=x.device)
    rows = top + torch.arange(height, device=x.device)  # (B, H)
    columns = left + torch.where(mirrored, width - 1 - column, column)  # (B, W)
    pixel = rows[:, :, None] * (width + 2 * pad) + columns[:, None, :]  # (B, H, W), places in the padded image
    index = pixel.view(batch, 1, height * width).expand(batch, channels, height * width)
    return padded.flatten(2).gather(2, index).view(x.shape)


def resized_crop(x: Tensor, draws: Tensor) -> Tensor:
    """Scale a random part of each image to the size of the whole by Pillow's bicubic interpolation.

    Draws (B, 4) choose the parts: see `inputs.random_boxes`.
    """
    boxes = torch.from_numpy(random_boxes(x.shape[2], x.shape[3], draws.cpu().double().numpy())).to(x.device)
    top, left, height, width = boxes.unbind(1)
    from_rows, from_columns = _enlarge(top, height, x.shape[2]), _enlarge(left, width, x.shape[3])
    if x.is_floating_point():
        return (from_rows[:, None] @ x.float() @ from_columns[:, None].mT).to(x.dtype)
    wide = (x.float() @ from_columns[:, None].mT).round().clamp(0, 255)  # bytes in between, as Pillow has them
    return (from_rows[:, None] @ wide).round().clamp(0, 255).to(x.dtype)


def _enlarge(first: Tensor, count: Tensor, length: int) -> Tensor:
    """Return matrices (B, length, length) that stretch `count` pixels from `first` on over the length, bicubic."""
    pixel = torch.arange(length, device=first.device)
    first, count = first.view(-1, 1, 1), count.view(-1, 1, 1)
    centre = first + (pixel[:, None] + 0.5) * count / length  # of what an outgoing pixel shows
    t = (pixel + 0.5 - centre).abs()
    weight = torch.where(t < 1, (1.5 * t - 2.5) * t**2 + 1, ((2.5 - 0.5 * t) * t - 4) * t + 2)
    weight = torch.where((t < 2) & (pixel >= first) & (pixel < first + count), weight, 0)
    return weight / weight.sum(2, keepdim=True)


def auto_augment(x: Tensor, draws: Tensor) -> Tensor:
    """Change each image of bytes by one of the 25 sub-policies of AutoAugment for CIFAR-10, as SOP and CORES do.

    What a shift or turn leaves empty is black. Draws (B, 5) are the sub-policy; then, for its first and for its second
    operation, whether it applies (below its probability) and the sign of its value (negative below 0.5; only operations
    that move have one).
    """
    _check("auto_augment", x)
    draws = draws.cpu().double()  # what happens to which image is decided on the CPU
    sub_policy = _choice(draws[:, 0], len(CIFAR10_POLICY))
    out = x.clone()
    for place in range(2):
        number, probability, level = _POLICY[sub_policy, place].unbind(1)  # each (B,)
        chance, sign = draws[:, 1 + 2 * place], draws[:, 2 + 2 * place]
        for images, operation, value in _groups(number.long(), level.long(), sign, chance < probability, x.device):
            out[images] = operation.apply(out[images], value)
    return out


def rand_augment(x: Tensor, draws: Tensor, *, fill: Tensor | float = 0) -> Tensor:
    """Change each image of bytes by two random operations of fifteen at random levels, as UDA does on CIFAR-10.

    The operations are those of AutoAugment and Cutout. Each of the two is drawn from all of them at levels 1 to 9, so
    that both may be the same, and applies with probability 0.5. What a shift or turn leaves empty and what Cutout
    covers have the colour `fill` in the end. As in UDA, an operation that replaces colours (see COLOURS) finds
    black where the image is empty and `fill` where it is covered, and what it puts there stays.

    `x` (B, 3, H, W) (B, 1, H, W).
    `draws` (B, 8): four for the first and four for the second operation: which one at which level; whether it applies
        (below 0.5); the sign of its value (negative below 0.5), or the row of Cutout's centre; the column of that
        centre.
    `fill` (C,): colour of empty pixels, 0 to 255, rounded; a tensor gives each channel its own.
    """
    _check("rand_augment", x)
    colour = _colour(fill, x)
    draws = draws.cpu().double()
    out = F.pad(x, (0, 0, 0, 0, 0, 1), value=255)  # a last channel that is 0 where a pixel is empty
    covered = F.pad(colour, (0, 0, 0, 0, 0, 1))
    for place in range(2):
        which, chance, sign, column = draws[:, 4 * place : 4 * place + 4].unbind(1)
        choice = _choice(which, 9 * len(OPERATIONS))
        number, level, applies = choice // 9, 1 + choice % 9, chance < 0.5
        cut = (applies & (number == len(OPERATIONS) - 1)).nonzero()[:, 0]
        if len(cut):
            images = cut.to(x.device)
            square = _squares(torch.stack([sign, column], 1)[cut], 2 * level[cut], x)
            out[images] = torch.where(square, covered, out[images])
        for images, operation, value in _groups(number, level, sign, applies, x.device):
            if operation.kind == "move":
                out[images] = operation.apply(out[images], value)
            else:
                out[images, :-1] = operation.apply(out[images, :-1], value)
            if operation.kind == "replace":
                out[images, -1] = 255
    return torch.where(out[:, -1:] == 0, colour, out[:, :-1])


def cutout(x: Tensor, draws: Tensor, *, size: int = 16, fill: Tensor | float = 0) -> Tensor:
    """Cover one square of each image of bytes; its centre lies anywhere in the image, and the border cuts it off.

    Draws (B, 2) are row and column of the centre. Of a square with an even `size` one pixel more lies before the centre
    than after it. Covered pixels have the colour `fill`, as in `rand_augment`.
    """
    _check("cutout", x)
    return torch.where(_squares(draws, torch.full((len(x),), size), x), _colour(fill, x), x)


def _check(name: str, x: Tensor) -> None:
    if x.dtype != torch.uint8:
        raise UsageError(f"{name} takes images of bytes (torch.uint8, 0 to 255), not of {x.dtype}")
    if x.shape[1] not in (1, 3):
        raise UsageError(f"{name} takes images (B, 3, H, W) or (B, 1, H, W), not {tuple(x.shape)}")


def _colour(fill: Tensor | float, x: Tensor) -> Tensor:
    """Return a colour of bytes, of shape (1, C, 1, 1)."""
    return torch.as_tensor(fill, dtype=torch.float32).round().to(x).expand(x.shape[1]).view(1, -1, 1, 1)


def _choice(draw: Tensor, n: int) -> Tensor:
    return (draw * n).long().clamp_(0, n - 1)


def _squares(draws: Tensor, size: Tensor, x: Tensor) -> Tensor:
    """Return where squares of `size` (B,) lie about the places drawn (B, 2), as a mask (B, 1, H, W)."""

    def covered(draw: Tensor, length: int) -> Tensor:  # (B,) to (B, length)
        first = (_choice(draw, length) - size.to(draw.device).long() // 2).to(x.device)[:, None]
        position = torch.arange(length, device=x.device)
        return (position >= first) & (position < first + size.to(x.device)[:, None])

    return covered(draws[:, 0], x.shape[2])[:, None, :, None] & covered(draws[:, 1], x.shape[3])[:, None, None, :]


def _groups(
    number: Tensor, level: Tensor, sign: Tensor, applies: Tensor, device: torch.device
) -> Iterator[tuple[Tensor, "_Operation", Tensor]]:
    """Yield positions of images, the operation that applies to them, and its values; arguments are of shape (B,)."""
    chosen = (applies & (number < len(MOVES))).nonzero()[:, 0]
    if len(chosen):  # all that move in one go
        value = _VALUES[number[chosen], level[chosen]]
        value = torch.where(sign[chosen] < 0.5, -value, value)
        yield chosen.to(device), _Operation(partial(_move, number=number[chosen]), "move"), value
    for i, operation in enumerate(COLOURS.values(), len(MOVES)):
        chosen = (applies & (number == i)).nonzero()[:, 0]
        if len(chosen):
            yield chosen.to(device), operation, _VALUES[i, level[chosen]]


# Operations on images (B, C, H, W) with a value for each (B,), in float64 on the CPU.


def _move(x: Tensor, value: Tensor, number: Tensor) -> Tensor:
    """Shear, shift or turn each image (counter-clockwise about its middle), as its `number`, a place in MOVES, says."""
    height, width = x.shape[2:]
    shear_x, shear_y, shift_x, shift_y, degrees = (torch.where(number == i, value, 0.0) for i in range(len(MOVES)))
    cos, sin = degrees.deg2rad().cos(), degrees.deg2rad().sin()
    left = width / 2 - cos * (width / 2) + sin * (height / 2) + shift_x * (width / SIDE)
    top = height / 2 - sin * (width / 2) - cos * (height / 2) + shift_y * (height / SIDE)
    return _resample(x, column=(cos, shear_x - sin, left), row=(sin + shear_y, cos, top))


def _contrast(x: Tensor, value: Tensor) -> Tensor:
    n_pixels = x.shape[2] * x.shape[3]
    total = _greyscale(x).sum((1, 2, 3), keepdim=True)
    return _blend((2 * total + n_pixels) // (2 * n_pixels), x, value)  # with the mean, rounded half up


def _sharpness(x: Tensor, value: Tensor) -> Tensor:
    wide = x.int()
    rows = wide[:, :, :-2] + wide[:, :, 1:-1] + wide[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * wide[:, :, 1:-1, 1:-1]
    wide[:, :, 1:-1, 1:-1] = (total + 6) // 13  # the smoothed image; its border stays as it was
    return _blend(wide, x, value)


def _posterize(x: Tensor, value: Tensor) -> Tensor:
    kept = 256 - 2 ** (8 - value)  # the first `value` bits
    return x.bitwise_and(_per_image(kept, x).to(torch.uint8))


def _auto_contrast(x: Tensor, value: Tensor) -> Tensor:
    """Stretch each channel to 0 to 255; one of a single value stays."""
    low = x.amin((2, 3)).cpu().double()[..., None]
    span = x.amax((2, 3)).cpu().double()[..., None] - low
    level = torch.arange(256.0, dtype=torch.float64)
    scale = level[-1] / span  # float64 as in Pillow; with the number 255 torch would multiply by the reciprocal
    stretched = (level * scale - low * scale).clamp(0, 255)
    return _look_up(torch.where(span > 0, stretched, level), x)


def _equalize(x: Tensor, value: Tensor) -> Tensor:
    """Flatten the histogram of each channel; one too plain to be flattened stays."""
    batch, channels, height, width = x.shape
    first = torch.arange(0, batch * channels * 256, 256, device=x.device).view(batch, channels, 1, 1)
    counts = torch.bincount((first + x).flatten(), minlength=batch * channels * 256).view(batch, channels, 256)
    brightest = counts.gather(2, x.amax((2, 3))[..., None].long())
    step = (height * width - brightest) // 255
    below = counts.cumsum(2) - counts
    level = torch.arange(256, device=x.device)
    return _look_up(torch.where(step > 0, (below + step // 2) // step.clamp(min=1), level).clamp(max=255), x)


Coordinate = tuple[Tensor, Tensor, Tensor]  # times the column, times the row, constant; each (B,)


def _resample(x: Tensor, column: Coordinate, row: Coordinate) -> Tensor:
    """Fetch each pixel from the column and row given as linear functions of its own, in 16.16 fixed point as Pillow."""
    height, width = x.shape[2:]

    def fixed(number: Tensor) -> Tensor:
        return (number * 65536 + 0.5).floor().long().view(-1, 1, 1).to(x.device)

    def source(by_column: Tensor, by_row: Tensor, constant: Tensor) -> Tensor:
        start = fixed(constant + by_column * 0.5 + by_row * 0.5)  # pixels are taken at their middle
        columns, rows = torch.arange(width, device=x.device), torch.arange(height, device=x.device)[:, None]
        return (start + fixed(by_column) * columns + fixed(by_row) * rows) >> 16  # (B, H, W)

    from_column, from_row = source(*column), source(*row)
    inside = (from_column >= 0) & (from_column < width) & (from_row >= 0) & (from_row < height)
    pixel = torch.where(inside, from_row * width + from_column, height * width)  # the one added below is black
    index = pixel.flatten(1)[:, None].expand(-1, x.shape[1], -1)
    return F.pad(x.flatten(2), (0, 1), value=0).gather(2, index).view(x.shape)


def _blend(plain: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """Move from `plain` (factor 0) to `x` (factor 1) and on beyond it, in float32 as Pillow."""
    start = plain.float()
    return (start + _per_image(factor, x) * (x.float() - start)).clamp_(0, 255).to(torch.uint8)


def _greyscale(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x.int()
    red, green, blue = x.int().unbind(1)
    return ((red * 19595 + green * 38470 + blue * 7471 + 32768) // 65536)[:, None]


def _per_image(value: Tensor, x: Tensor) -> Tensor:
    return value.float().to(x.device).view(-1, 1, 1, 1)


def _look_up(table: Tensor, x: Tensor) -> Tensor:
    """Replace each byte by its entry in the table (B, C, 256) of its image and channel."""
    return table.to(x).gather(2, x.flatten(2).long()).view(x.shape)


class _Operation(NamedTuple):
    """An operation on images, and its value at a level from 0 to 9.

    Its kind: "move" pixels, "blend" the image with a plainer one, or "replace" colours by others.
    """

    apply: Callable[[Tensor, Tensor], Tensor]
    kind: Literal["move", "blend", "replace"]
    value: Callable[[int], float] = float


def _factor(level: int) -> float:
    return level * 1.8 / 10 + 0.1


SIDE = 32  # of the authors' images; on others a shift is the same part of the side
MOVES: dict[str, Callable[[int], float]] = {  # value at a level, before its sign, which is drawn
    "ShearX": lambda level: level * 0.3 / 10,
    "ShearY": lambda level: level * 0.3 / 10,
    "TranslateX": float,  # pixels
    "TranslateY": float,
    "Rotate": lambda level: 3 * level,  # degrees
}
COLOURS = {
    "Color": _Operation(lambda x, value: _blend(_greyscale(x), x, value), "blend", _factor),
    "Contrast": _Operation(_contrast, "blend", _factor),
    "Brightness": _Operation(lambda x, value: _blend(torch.zeros_like(x), x, value), "blend", _factor),
    "Sharpness": _Operation(_sharpness, "blend", _factor),
    "Posterize": _Operation(_posterize, "replace", lambda level: 4 - level * 4 // 10),  # bits
    "Solarize": _Operation(  # the level says from which value on colours are inverted
        lambda x, value: torch.where(x < _per_image(value, x), x, 255 - x),
        "replace",
        lambda level: 256 - level * 256 // 10,
    ),
    "AutoContrast": _Operation(_auto_contrast, "replace"),
    "Equalize": _Operation(_equalize, "replace"),
    "Invert": _Operation(lambda x, value: 255 - x, "replace"),
}
OPERATIONS = (*MOVES, *COLOURS, "Cutout")

# fmt: off
CIFAR10_POLICY = (  # operation, probability, level; SOP and CORES have Color 6 after Brightness, AutoAugment's paper 8
    (("Invert", 0.1, 7), ("Contrast", 0.2, 6)),         (("Rotate", 0.7, 2), ("TranslateX", 0.3, 9)),
    (("Sharpness", 0.8, 1), ("Sharpness", 0.9, 3)),     (("ShearY", 0.5, 8), ("TranslateY", 0.7, 9)),
    (("AutoContrast", 0.5, 8), ("Equalize", 0.9, 2)),   (("ShearY", 0.2, 7), ("Posterize", 0.3, 7)),
    (("Color", 0.4, 3), ("Brightness", 0.6, 7)),        (("Sharpness", 0.3, 9), ("Brightness", 0.7, 9)),
    (("Equalize", 0.6, 5), ("Equalize", 0.5, 1)),       (("Contrast", 0.6, 7), ("Sharpness", 0.6, 5)),
    (("Color", 0.7, 7), ("TranslateX", 0.5, 8)),        (("Equalize", 0.3, 7), ("AutoContrast", 0.4, 8)),
    (("TranslateY", 0.4, 3), ("Sharpness", 0.2, 6)),    (("Brightness", 0.9, 6), ("Color", 0.2, 6)),
    (("Solarize", 0.5, 2), ("Invert", 0.0, 3)),         (("Equalize", 0.2, 0), ("AutoContrast", 0.6, 0)),
    (("Equalize", 0.2, 8), ("Equalize", 0.6, 4)),       (("Color", 0.9, 9), ("Equalize", 0.6, 6)),
    (("AutoContrast", 0.8, 4), ("Solarize", 0.2, 8)),   (("Brightness", 0.1, 3), ("Color", 0.7, 0)),
    (("Solarize", 0.4, 5), ("AutoContrast", 0.9, 3)),   (("TranslateY", 0.9, 9), ("TranslateY", 0.7, 9)),
    (("AutoContrast", 0.9, 2), ("Solarize", 0.8, 3)),   (("Equalize", 0.8, 8), ("Invert", 0.1, 3)),
    (("TranslateY", 0.7, 9), ("AutoContrast", 0.9, 1)),
)
# fmt: on

_VALUES = torch.tensor(  # by operation and level
    [[value(level) for level in range(10)] for value in (*MOVES.values(), *(made.value for made in COLOURS.values()))],
    dtype=torch.float64,
)
_POLICY = torch.tensor(
    [[(OPERATIONS.index(name), probability, level) for name, probability, level in pair] for pair in CIFAR10_POLICY],
    dtype=torch.float64,
)
