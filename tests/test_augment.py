import pytest
import torch
from torch.nn import functional as F

from pidual.augment import crop_flip
from pidual.errors import UsageError


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


def test_corner_draws_stay_inside():
    x = torch.arange(1.0, 17.0).view(1, 1, 4, 4).expand(2, 1, 4, 4)
    out = crop_flip(x, torch.tensor([[0.0, 0.0, 0.9], [1.0, 1.0, 0.9]]), pad=1)
    assert torch.equal(out[0, 0, 1:, 1:], x[0, 0, :3, :3])
    assert torch.equal(out[1, 0, :3, :3], x[0, 0, 1:, 1:])
    assert out[0, 0, 0].sum() == out[1, 0, 3].sum() == 0


def test_a_draw_in_the_middle_changes_nothing_and_flip_mirrors():
    x = torch.rand(4, 3, 6, 6)
    draws = torch.full((4, 3), 0.5)
    assert torch.equal(crop_flip(x, draws, pad=2), x)
    draws[:, 2] = 0.2
    assert torch.equal(crop_flip(x, draws, pad=2), x.flip(3))


def test_channels_last_input_and_empty_batch():
    x = torch.rand(5, 3, 8, 8)
    draws = torch.rand(5, 3)
    strided = x.contiguous(memory_format=torch.channels_last)
    assert torch.equal(crop_flip(strided, draws, pad=2), crop_flip(x, draws, pad=2))
    assert crop_flip(x[:0], draws[:0], pad=2).shape == (0, 3, 8, 8)


def test_wrong_sizes_are_refused():
    with pytest.raises(UsageError, match=r"\(5, 2\)"):
        crop_flip(torch.rand(5, 3, 8, 8), torch.rand(5, 2), pad=2)
    with pytest.raises(UsageError, match="-1"):
        crop_flip(torch.rand(5, 3, 8, 8), torch.rand(5, 3), pad=-1)
