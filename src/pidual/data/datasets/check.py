"""Check that a dataset's files are present, complete, about the same images, and as noisy as published.

    for check in check_dataset("cifar10n", Path("data")): print(check.status, check.what, check.detail)

A dataset has several parts, each a generator of checks; a part ends at the first file that is missing or unreadable.
The numbers are those of the papers and of the released files.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, DataWarning
from . import cifar, cifar10_pi, cifar10h, cifar10s, cifarn, crowds, find_entry, imagenet_pi, labelme
from .base import MissingError
from .digits import load_digits_pi

Status = Literal["ok", "note", "missing", "wrong"]
HALF_POINT = 0.005  # how far the noise of what pidual has sampled may lie from what was asked for


@dataclass(frozen=True)
class Check:
    """What was looked at, and what came out."""

    what: str
    status: Status  # "ok", "note" (usable, though incomplete), "missing" or "wrong"
    detail: str


Checks = Iterator[Check]
Part = Callable[[Path], Checks]


def check_dataset(name: str, data: Path) -> list[Check]:
    """Check everything a dataset needs.

    `name`: key of DATASETS; all its variants are checked.
    `data`: folder with the datasets.
    """
    find_entry(name)
    done: list[Check] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # what is missing has a line of its own
        for what, part in CHECKS[name.partition(":")[0]].items():
            try:
                for check in part(Path(data)):
                    done.append(check)  # noqa: PERF402 - those before an error count
            except MissingError as error:
                done.append(Check(what, "missing", str(error)))
            except DataError as error:
                done.append(Check(what, "wrong", str(error)))
    return done


def _right(what: str, fine: bool, detail: str) -> Check:
    return Check(what, "ok" if fine else "wrong", detail)


def _equal(what: str, found: Any, published: Any) -> Check:
    """Compare a number or a text with the published one."""
    found, published = (f"{value:,}" if isinstance(value, int) else str(value) for value in (found, published))
    return _right(what, found == published, found if found == published else f"{found}; published: {published}")


def _noise(what: str, wrong: Any, published: float, digits: int = 4) -> Check:
    """Compare the share of wrong labels with the published one, to this many digits."""
    return _equal(f"noise of {what}", f"{float(wrong.mean()):.{digits}f}", f"{published:.{digits}f}")


def _near(what: str, found: float, wanted: float) -> Check:
    """Compare a noise rate with the one asked for, which is met up to sampling."""
    return _right(f"noise of {what}", abs(found - wanted) <= HALF_POINT, f"{found:.4f} (asked for: {wanted:.2f})")


def _aligned(what: str, found: NDArray[Any], y: NDArray[Any]) -> Check:
    n = int((found == y).sum())
    return _right(what, n == len(y), f"{n:,} of {len(y):,} equal CIFAR's labels")


# --- images of CIFAR ---


def _cifar10_images(data: Path, part: cifar.Part) -> Checks:
    images, lost = cifar.load_cifar10(data, part, partial=True), ""
    missing = [path for path in cifar.cifar10_files(data, part) if not path.is_file()]
    if missing:
        names = ", ".join(path.name for path in missing)
        lost = f"; no {names} in {missing[0].parent}, published at {cifar.SOURCE}"
    yield from _balanced(f"CIFAR-10 {part} images", images, len(cifar.CLASSES_10), f"images{lost}")


def _cifar100_images(data: Path, part: cifar.Part, label: cifar.Depth) -> Checks:
    images, n = cifar.load_cifar100(data, part, label), len(cifar.cifar100_classes(data, label))
    yield from _balanced(f"CIFAR-100 {part} images, {label} labels", images, n, f"images of {n} classes")


def _balanced(what: str, images: cifar.Images, n_classes: int, words: str) -> Checks:
    even = not images.whole or len(set(np.bincount(images.y, minlength=n_classes))) == 1
    detail = f"{len(images.y):,} {words}" + ("" if even else ", not equally many of each class")
    yield Check(what, "note", detail) if not images.whole else _right(what, even, detail)


def _cifar10(*parts: cifar.Part) -> dict[str, Part]:
    return {f"CIFAR-10 {part} images": partial(_cifar10_images, part=part) for part in parts}


def _cifar100(*parts: tuple[cifar.Part, cifar.Depth]) -> dict[str, Part]:
    return {
        f"CIFAR-100 {part} images, {label} labels": partial(_cifar100_images, part=part, label=label)
        for part, label in parts
    }


def _readable(load: Callable[..., cifar.Images], *args: Any, **options: Any) -> cifar.Images | None:
    """Return images to compare labels with, or None if they are missing, which has a line of its own."""
    with contextlib.suppress(DataError):
        return load(*args, **options)
    return None


# --- labels ---


def _cifar10h(data: Path) -> Checks:
    answers = cifar10h.read_answers(data)
    yield _equal("answers without attention checks", len(answers), 514_200)
    yield _equal("annotators", int(answers["annotator"].nunique()), 2_571)
    worst = cifar10h.worst_answers(answers)
    yield _equal("images with answers", len(worst), 10_000)
    yield _noise("worst labels", worst["label"] != worst["y"], 0.646, digits=3)
    images = _readable(cifar.load_cifar10, data, "test")
    if images is not None:
        try:
            cifar10h.check_answers(answers, images.y, data)
        except DataError as error:
            yield Check("true labels", "wrong", str(error))
        else:
            yield Check("true labels", "ok", f"all {len(answers):,} equal CIFAR's labels")


def _cifar10n(data: Path) -> Checks:
    labels = cifarn.read_labels(data, cifarn.LABELS_10, cifarn.KEYS_10)
    clean = labels["clean_label"]
    yield _equal("labels", len(clean), 50_000)
    images = _readable(cifar.load_cifar10, data, "train", partial=True)
    if images is not None and len(clean) > images.rows.max():
        yield _aligned("clean labels", clean[images.rows], images.y)
    published = {"worst": 0.40208, "worst-official": 0.40208, "aggregate": 0.09010}
    for kind, rate in (published | {"random1": 0.17234, "random2": 0.18122, "random3": 0.17640}).items():
        yield _noise(f"{kind} labels", cifarn.choose(labels, kind)[0] != clean, rate)


def _cifar100n(data: Path, label: cifar.Depth, published: float) -> Checks:
    clean, noisy = cifarn.KEYS_100[label]
    labels = cifarn.read_labels(data, cifarn.LABELS_100, (clean, noisy))
    yield _equal(f"{label} labels", len(labels[clean]), 50_000)
    images = _readable(cifar.load_cifar100, data, "train", label)
    if images is not None and len(labels[clean]) == len(images.y):
        yield _aligned(f"clean {label} labels", labels[clean], images.y)
    yield _noise(f"{label} labels", labels[noisy] != labels[clean], published)


def _side_info(data: Path, name: str, workers: int, images: int, ids: int) -> Checks:
    side = cifarn.read_side_info(data, name, workers=workers, images=images)
    yield _equal(f"{name}, images", side.annotator.shape[1], 50_000)
    yield _equal(f"{name}, workers", len(np.unique(side.annotator)), ids)


def _imagenet_pi(data: Path, level: str, published: float) -> Checks:
    frame = imagenet_pi.read_annotations(data, level, answers_per_item=None, seed=0)
    n_annotators = len(frame["annotator"].cat.categories)
    yield _equal(f"{level} noise, annotators", n_annotators, 16)
    yield _equal(f"{level} noise, images", len(frame) // n_annotators, 1_281_167)
    _, y = np.unique([name.partition("_")[0] for name in frame["item"][::n_annotators]], return_inverse=True)
    wrong = frame["label"].to_numpy().reshape(-1, n_annotators) != y[:, None]
    yield _noise(f"{level} labels", wrong, published, digits=3)


def _imagenet(data: Path) -> Checks:
    folder = imagenet_pi.image_folder(data)
    imagenet_pi.val_folder(folder)
    classes = imagenet_pi.synsets(folder)
    yield _equal("classes", len(classes), 1_000)
    yield _equal("training images", sum(1 for name in classes for _ in (folder / "train" / name).iterdir()), 1_281_167)
    yield _equal("validation images", len(imagenet_pi.validation_files(folder, classes)[0]), 50_000)


def _cifar10s(data: Path) -> Checks:
    answers = cifar10s.read_answers(data)
    yield _equal("answers", len(answers), 6_723)
    yield _equal("images with answers", int(answers["image"].nunique()), 1_000)
    yield _equal("annotators", int(answers["annotator"].nunique()), 248)
    yield _noise("answers", answers["label"] != answers["y"], 0.157, digits=3)
    images = _readable(cifar.load_cifar10, data, "test")
    if images is not None and answers["image"].between(0, len(images.y) - 1).all():
        yield _aligned("true labels", answers["y"].to_numpy(), images.y[answers["image"]])


def _labelme(data: Path) -> Checks:
    y = {}
    for part, size in {"train": 1_000, "valid": 500, "test": 1_188}.items():
        x, y[part] = labelme.read_part(data, part)
        yield _equal(f"{part} features", f"{x.shape[0]} x {x.shape[1]}", f"{size} x 512")
    answers = labelme.read_answers(data)
    item, worker = np.nonzero(answers >= 0)
    yield _equal("answers", len(item), 2_547)
    yield _equal("workers", len(np.unique(worker)), 59)
    if len(y["train"]) == len(answers):
        yield _noise("answers", answers[item, worker] != y["train"][item], 0.2595)


def _digits_pi(data: Path) -> Checks:
    for level, noise in (("low", 0.44), ("high", 0.72)):
        made = load_digits_pi(noise, answers_per_item=None)
        yield _near(f"{level} labels", made.noise_rate, noise)
    least = float(made.frame["annotator_accuracy"].min())
    yield _right("annotators", least > 0.75, f"right about {least:.1%} of the images or more")


def _cifar10_pi_annotators(data: Path) -> Checks:
    found = [row["accuracy"] for row in cifar10_pi.read_about(data)["annotators"]]
    detail = f"{len(found)}, right about {min(found):.1%} to {max(found):.1%} of the images they relabel"
    yield _right("annotators", min(found) >= cifar10_pi.LEAST_ACCURACY, detail)


def _cifar10_pi(data: Path, level: str, noise: float) -> Checks:
    n_images = cifar10_pi.read_about(data)["n_images"]
    frame = cifar10_pi.read_level(data, level, answers_per_item=None)
    images = _readable(cifar.load_cifar10, data, "train", partial=True)
    if images is not None:
        rows = cifar10_pi.rows_of(frame["item"].to_numpy(), images, data)
        yield _equal(f"{level} noise, images", len(np.unique(rows)), n_images)
        yield _near(f"{level} labels", float((frame["label"].to_numpy() != images.y[rows]).mean()), noise)


def _crowd(data: Path, crowd: crowds.Crowd, published: tuple[int, int, float], n_gold: int | None = None) -> Checks:
    answers = crowds.read_answers(data, crowd)
    n_items, n_annotators, noise = published
    yield _equal("items", int(answers["item"].nunique()), n_items)
    yield _equal("annotators", int(answers["annotator"].nunique()), n_annotators)
    known = answers.dropna(subset="y")
    yield _noise("answers", known["label"] != known["y"], noise, digits=3)
    if n_gold is not None:
        yield _equal("items with gold", int(known["item"].nunique()), n_gold)
    if crowd is crowds.SM500 and (images := _readable(cifar.load_cifar100, data, "train")) is not None:
        crowds.check_images(answers, images, cifar.cifar100_classes(data), data / crowds.FOLDER / crowd.answers)
        yield Check("gold", "ok", f"all {len(answers):,} equal CIFAR's labels")


def _texts(data: Path, crowd: crowds.Crowd) -> Checks:
    texts = crowds.read_texts(data, crowd)
    with contextlib.suppress(DataError):  # which has a line of its own
        asked = crowds.read_answers(data, crowd)["item"].unique()
        found = int(np.isin(asked, texts.index).sum())
        yield _right("texts", found == len(asked), f"of {found:,} of {len(asked):,} items")


def _crowd_of_texts(crowd: crowds.Crowd, *published: Any) -> dict[str, Part]:
    return {crowd.answers: lambda data: _crowd(data, crowd, *published), crowd.texts: partial(_texts, crowd=crowd)}


DEPTHS: Sequence[tuple[cifar.Part, cifar.Depth]] = (("train", "fine"), ("train", "coarse"), ("test", "fine"))
CHECKS: Mapping[str, Mapping[str, Part]] = {
    "cifar10h": {**_cifar10("test", "train"), "raw table": _cifar10h},
    "cifar10n": {
        **_cifar10("train", "test"),
        cifarn.LABELS_10: _cifar10n,
        cifarn.SIDE_10: partial(_side_info, name=cifarn.SIDE_10, workers=3, images=10, ids=747),
    },
    "cifar100n": {
        **_cifar100(*DEPTHS),
        "fine labels": partial(_cifar100n, label="fine", published=0.40200),
        "coarse labels": partial(_cifar100n, label="coarse", published=0.26404),
        cifarn.SIDE_100: partial(_side_info, name=cifarn.SIDE_100, workers=1, images=5, ids=519),
    },
    "imagenet_pi": {
        "low noise": partial(_imagenet_pi, level="low", published=0.481),
        "high noise": partial(_imagenet_pi, level="high", published=0.838),
        "ILSVRC-2012 images": _imagenet,
    },
    "cifar10s": {**_cifar10("test"), cifar10s.NAME: _cifar10s},
    "labelme": {"LabelMe": _labelme},
    "digits_pi": {"Digits-PI": _digits_pi},
    "cifar10_pi": {
        **_cifar10("train", "test"),
        **{
            f"{level} noise": partial(_cifar10_pi, level=level, noise=noise)
            for level, noise in cifar10_pi.NOISE.items()
        },
        cifar10_pi.ABOUT: _cifar10_pi_annotators,
    },
    "cifar100_sm500": {
        **_cifar100(("train", "fine"), ("test", "fine")),
        crowds.SM500.answers: lambda data: _crowd(data, crowds.SM500, (500, 11, 0.306)),
    },
    "medical_treat": _crowd_of_texts(crowds.MEDICAL, (3_231, 468, 0.229), 606),
    "llm_emotion": _crowd_of_texts(crowds.EMOTION, (498, 13, 0.511)),
}
