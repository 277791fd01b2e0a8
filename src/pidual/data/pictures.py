"""Small pictures of inputs, for people to look at."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

MAX_SIDE = 96  # pixels of a picture that a run keeps
FEWEST_PIXELS = 6  # a side, of an array that is taken for a picture


def png(x: NDArray[np.uint8], side: int = MAX_SIDE) -> bytes:
    """Return an image (3, H, W) as a small PNG file; a large one has 256 colours, which nobody misses at this size."""
    image = as_image(x)
    if max(image.size) > side:
        image.thumbnail((side, side))
        image = image.quantize()
    return encoded(image, "PNG")


def as_image(x: NDArray[np.uint8]) -> Any:
    """Turn pixels (3, H, W) into an image."""
    return Image.fromarray(np.ascontiguousarray(x.transpose(1, 2, 0)))


def encoded(image: Any, form: str) -> bytes:
    """Return an image as a file: PNG or JPEG."""
    buffer = io.BytesIO()
    image.save(buffer, format=form, **({"quality": 85} if form == "JPEG" else {}))
    return buffer.getvalue()


def is_picture(shape: tuple[int, ...]) -> bool:
    """Return whether inputs of this shape are pictures: (H, W), (C, H, W) or (H, W, C) with one channel or three."""
    sides = _sides(shape)
    return sides is not None and min(sides) >= FEWEST_PIXELS


def as_pixels(x: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an input that is a picture, as (3, H, W); numbers other than bytes go from black, the least, to white."""
    x = np.asarray(x)
    if x.ndim == 3 and _sides(x.shape) == x.shape[:2]:
        x = x.transpose(2, 0, 1)
    x = x[None] if x.ndim == 2 else x
    if x.dtype != np.uint8:
        x = x.astype(np.float64)
        low, high = float(x.min()), float(x.max())
        x = ((x - low) * (255 / (high - low) if high > low else 0.0)).round().astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(x, (3, *x.shape[1:])))


def _sides(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return height and width, if an array of this shape may be a picture."""
    if len(shape) == 2:
        return shape
    if len(shape) == 3 and shape[0] in (1, 3):
        return shape[1:]
    return shape[:2] if len(shape) == 3 and shape[2] in (1, 3) else None
