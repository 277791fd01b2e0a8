"""Images: of a folder, decoded when taken or all at once; positions of random crops; pictures of inputs, for people."""

import contextlib
import io
import stat
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ..errors import DataError, UsageError
from ..errors.messages import first_line, quoted

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
_IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")  # by content; Pillow would start other programs for some others
MAX_PIXELS = 50_000_000  # of an image: 200 MB while it is decoded
_LARGE_PIXELS = 15_000_000  # from here on few images are decoded at a time
MAX_BYTES = 2 << 30  # decoded images beyond this are read from disk batch by batch
_CENTRE = 7 / 8  # of the short side, where the centre of images is asked for: 224 of 256 pixels
_CROP_AREA, _CROP_ASPECT = 0.08, (3 / 4, 4 / 3)  # of random crops: least share of the image, range of width / height
_LARGE = threading.Semaphore(4)
_FILTERS = threading.Lock()  # filters of warnings belong to all threads

MAX_SIDE = 96  # pixels of a picture that a run keeps
_FEWEST_PIXELS = 6  # a side, of an array that is taken for a picture


class LazyImages:
    """Images that stay on disk and are decoded when taken.

    `folder`: where the files are.
    `files`: paths relative to `folder`.
    `size`: height and width.
    `resize`: whether an image of another size is scaled and cropped; if not, it is an error.
    `centre`: scale the central 7/8 only, bicubic, as is usual on ImageNet.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, folder: Path, files: list[str], size: tuple[int, int], resize: bool, centre: bool = False):
        self._folder, self._files, self._size, self._resize = folder, files, size, resize
        self._centre = centre

    def __len__(self) -> int:
        return len(self._files)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Images, channels, height, width."""
        return (len(self), 3, *self._size)

    def check(self) -> None:
        """Raise for the first file that is not an image, by its header; a truncated one shows when it is taken."""
        for name in self._files:
            with _opened(self._folder / name):
                pass

    def take(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
        """Decode the images at `rows` to uint8 of shape (len(rows), 3, H, W)."""
        images = np.empty((len(rows), 3, *self._size), np.uint8)

        def decode(place: int) -> None:
            path = self._folder / self._files[rows[place]]
            images[place] = _decode(path, self._size if self._resize else None, self._size, self._centre)

        return _in_threads(decode, images, len(rows))

    def crops(self, rows: NDArray[np.integer[Any]], draws: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
        """Cut random crops of the whole images at `rows`, scaled to the size of all, bicubic.

        `draws` has the shape (V, len(rows), 4), for V crops of every image: see `random_boxes`. Returns uint8 of shape
        (V, len(rows), 3, H, W).
        """
        images = np.empty((len(draws), len(rows), 3, *self._size), np.uint8)

        def decode(place: int) -> None:
            path = self._folder / self._files[rows[place]]
            with _opened(path) as opened:
                image = _upright(opened)
                boxes = random_boxes(image.height, image.width, draws[:, place])
                for view, (top, left, height, width) in enumerate(boxes.tolist()):
                    crop = image.crop((left, top, left + width, top + height))
                    scaled = crop.resize((self._size[1], self._size[0]), Image.Resampling.BICUBIC)
                    images[view, place] = np.asarray(scaled).transpose(2, 0, 1)

        return _in_threads(decode, images, len(rows))


def _in_threads(decode: Callable[[int], None], images: NDArray[np.uint8], n: int) -> NDArray[np.uint8]:
    """Return images after each of n places has been decoded."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(decode, range(n)))
    return images


def random_boxes(height: int, width: int, draws: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Draw places of random crops of at least 8% of an image and of width / height from 3/4 to 4/3.

    The aspect is uniform, and the height is uniform between the least that the area allows and the greatest that fits,
    as TensorFlow draws them (its `sample_distorted_bounding_box`).

    `height`, `width`: of the image.
    `draws` (n, 4): uniform numbers in [0, 1): aspect, height, row, column.

    Returns
    -------
    numpy.ndarray of int64, shape (n, 4)
        Top, left, height, width.
    """
    aspect = _CROP_ASPECT[0] + draws[:, 0] * (_CROP_ASPECT[1] - _CROP_ASPECT[0])
    greatest = np.minimum(np.minimum(np.sqrt(height * width / aspect), height), width / aspect)
    least = np.minimum(np.sqrt(_CROP_AREA * height * width / aspect), greatest)
    high = least + draws[:, 1] * (greatest - least)
    size = np.stack([high, high * aspect], 1).round().clip(1, [height, width])
    place = np.floor(draws[:, 2:] * ([height, width] - size + 1)).clip(0, [height, width] - size)
    return np.concatenate([place, size], 1).astype(np.int64)


def read_folder(
    source: str | Path, image_size: int | Sequence[int] | None, centre: bool, max_bytes: int
) -> tuple[NDArray[Any] | LazyImages, list[str]]:
    """Find the images of a folder and of those in it, and decode them if they need at most `max_bytes`."""
    folder, files, size = Path(source), find_images(source), check_size(image_size)
    shown = size or _decode(folder / files[0], None, None).shape[1:]
    images = LazyImages(folder, files, (shown[0], shown[1]), resize=size is not None, centre=centre)
    if np.prod(images.shape, dtype=float) <= max_bytes:
        return images.take(np.arange(len(files))), files
    images.check()
    return images, files


def find_images(source: str | Path) -> list[str]:
    """Return the paths of the images in a folder and in those in it, relative to it and sorted."""
    folder = Path(source)
    found = (path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS and not path.is_dir())
    files = sorted(
        path.as_posix()
        for path in (path.relative_to(folder) for path in found)
        if not any(part.startswith(".") for part in path.parts)
    )
    unreadable = [name for name in files if not name.isascii() and not _is_text(name)]
    if unreadable:
        raise DataError(
            f"{source} has a file whose name is not UTF-8 ({quoted(unreadable[0])}), so no table names it; rename it."
        )
    if not files:
        raise DataError(f"{source} has no images in it or in its folders; pidual reads {', '.join(IMAGE_ENDINGS)}.")
    return files


def check_size(image_size: int | Sequence[int] | None) -> tuple[int, int] | None:
    """Return height and width that all images are to have, if any."""
    if image_size is None:
        return None
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    if height * width > MAX_PIXELS:
        what = f"images of {height}x{width} pixels are larger than pidual works with ({MAX_PIXELS / 1e6:.0f} million)"
        raise UsageError(f"{what}; choose a smaller image_size= (--image-size), such as 224.")
    return int(height), int(width)


def fit_image(image: Image.Image, size: tuple[int, int], centre: bool = False) -> Image.Image:
    """Scale and crop an image to a height and width; of its centre alone, bicubic, as is usual on ImageNet."""
    method = Image.Resampling.BICUBIC if centre else Image.Resampling.BILINEAR
    return ImageOps.fit(image, (size[1], size[0]), method, (1 - _CENTRE) / 2 if centre else 0.0)


def small_image(path: Path, side: int) -> Image.Image:
    """Return an image of at most so many pixels a side, upright, in RGB."""
    with _opened(path) as opened:
        opened.draft("RGB", (side, side))  # of a JPEG no more pixels are decoded than are needed
        image = _upright(opened).copy()
    image.thumbnail((side, side))
    return image


def _decode(
    path: Path, size: tuple[int, int] | None, expected: tuple[int, int] | None, centre: bool = False
) -> NDArray[np.uint8]:
    """Return an image as uint8 (3, H, W), upright, in RGB."""
    with _opened(path) as opened:
        image = _upright(opened)
        image = image if size is None else fit_image(image, size, centre)
        pixels = np.asarray(image).transpose(2, 0, 1)
    if expected is not None and (image.height, image.width) != expected:
        what = f"{path} is {image.height}x{image.width} pixels and the first image {expected[0]}x{expected[1]}"
        raise DataError(f"{what}; choose one size for all with image_size= (--image-size).")
    return pixels


def _upright(opened: Image.Image) -> Image.Image:
    """Return an opened image turned as its camera was, in RGB."""
    opened.load()
    ImageOps.exif_transpose(opened, in_place=True)
    image = opened
    if image.mode.startswith("I"):  # 16 bits of grey
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if "transparency" in image.info:
        image = image.convert("RGBA")
    return image if image.mode == "RGB" else image.convert("RGB")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    """Open an image of a format that Pillow decodes itself and of a size that memory holds; errors name it."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would keep us waiting
            raise OSError("it is not a regular file")
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(path, formats=_IMAGE_FORMATS)
        with opened:
            pixels = opened.width * opened.height
            if pixels > MAX_PIXELS:
                raise Image.DecompressionBombError
            with _LARGE if pixels > _LARGE_PIXELS else contextlib.nullcontext():
                yield opened
    except (DataError, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        what = f"{path} has more than the {MAX_PIXELS / 1e6:.0f} million pixels that pidual reads in an image"
        raise DataError(f"{what}; shrink it, as with Pillow's Image.thumbnail((4000, 4000)), or remove it.") from None
    except FileNotFoundError:
        raise DataError(f"{path} is a link to a file that does not exist; replace or remove it.") from None
    except Exception as error:  # Pillow's decoders raise all kinds for files that are damaged
        reason = first_line(error).replace(str(path), path.name)
        raise DataError(f"{path} cannot be read as an image ({reason}); replace or remove the file.") from None


def _is_text(name: str) -> bool:
    return name == name.encode("utf-8", "ignore").decode()


# --- small pictures of inputs, for people to look at ---


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
    return sides is not None and min(sides) >= _FEWEST_PIXELS


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
