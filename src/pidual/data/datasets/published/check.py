"""Whether a dataset's files are present, complete, about the same images, and as noisy as published.

    for check in check_dataset("cifar10n", Path("data")): print(check.status, check.what, check.detail)

The numbers are those of the papers and of the released files.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....errors import DataError, DataWarning
from .. import find_entry
from ..digits import load_digits_pi
from ..hard_cases import HARD_CASES
from . import cifar, cifar10_pi, cifar10h, cifar10s, cifarn, crowds, imagenet_pi, labelme
from .imagenet_pi_files import read_imagenet_pi
from .locate import find_file, load_array, read_columns

Status = Literal["ok", "note", "missing", "wrong"]
Read = TypeVar("Read")

NOISE_10N = {
    "worst": 0.40208,
    "worst-official": 0.40208,
    "aggregate": 0.09010,
    "random1": 0.17234,
    "random2": 0.18122,
    "random3": 0.17640,
}
NOISE_100N = {"fine": 0.40200, "coarse": 0.26404}
NOISE_IMAGENET_PI = {"low": 0.481, "high": 0.838}
HALF_POINT = 0.005  # how far the noise of what pidual has sampled may lie from what was asked for


@dataclass(frozen=True)
class Check:
    """What was looked at, and what came out.

    Attributes
    ----------
    what : str
    status : "ok", "note" (usable, though incomplete), "missing" or "wrong"
    detail : str
    """

    what: str
    status: Status
    detail: str


def check_dataset(name: str, data: Path) -> list[Check]:
    """Look at everything a dataset needs.

    Parameters
    ----------
    name : str
        Key of DATASETS; all its variants are checked.
    data : Path
        Folder with the datasets.
    """
    find_entry(name)
    checks = _Checks(Path(data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # what is missing has a line of its own
        CHECKS[name.partition(":")[0]](checks)
    return checks.done


class _Checks:
    """The checks done so far, and what several datasets look at."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.done: list[Check] = []

    def add(self, what: str, status: Status, detail: str) -> None:
        self.done.append(Check(what, status, detail))

    def files(self, folder: Path, names: list[str], source: str) -> bool:
        """Whether all these files exist."""
        lost = [name for name in names if find_file(folder, *name.split("|")) is None]
        shown = ", ".join(name.replace("|", " or ") for name in lost or names)
        if lost:
            self.add(f"{folder.name} files", "missing", f"no {shown} in {folder}; published at {source}")
        else:
            self.add(f"{folder.name} files", "ok", shown)
        return not lost

    def read(self, what: str, function: Callable[..., Read], *args: Any, **options: Any) -> Read | None:
        """What a reader returns; None, and a line that says why, if it cannot read."""
        try:
            return function(*args, **options)
        except DataError as error:
            self.add(what, "wrong", str(error))
            return None

    def equal(self, what: str, found: Any, published: Any) -> None:
        """A number or a text that is known."""
        found, published = (f"{value:,}" if isinstance(value, int) else str(value) for value in (found, published))
        fine = found == published
        self.add(what, "ok" if fine else "wrong", found if fine else f"{found}; published: {published}")

    def noise(self, what: str, found: float, published: float, digits: int = 4) -> None:
        """A noise rate that is known to this many digits."""
        self.equal(f"noise of {what}", f"{found:.{digits}f}", f"{published:.{digits}f}")

    def near(self, what: str, found: float, wanted: float) -> None:
        """A noise rate that was asked for and met up to sampling."""
        fine = abs(found - wanted) <= HALF_POINT
        self.add(f"noise of {what}", "ok" if fine else "wrong", f"{found:.4f} (asked for: {wanted:.2f})")

    def aligned(self, what: str, found: NDArray[Any], y: NDArray[Any]) -> None:
        """Labels that must be those of the images."""
        n = int((found == y).sum())
        status: Status = "ok" if n == len(y) else "wrong"
        self.add(what, status, f"{n:,} of {len(y):,} equal CIFAR's labels")

    def permutation(self, folder: Path, name: str, n: int) -> None:
        """A file of image numbers, if it exists: each from 0 to n - 1 once."""
        path = find_file(folder, name)
        if path is not None:
            order = self.read(name, load_array, path)
            if order is not None:
                fine = order.shape == (n,) and bool((np.sort(order) == np.arange(n)).all())
                self.add(name, "ok" if fine else "wrong", f"{'each' if fine else 'not each'} of {n:,} images once")

    def cifar10(self, part: cifar.Part) -> cifar.Images | None:
        """CIFAR-10's images; of the training batches one is enough."""
        files = cifar.cifar10_files(self.data, part)
        lost = [path.name for path in files if not path.is_file()]
        what = f"CIFAR-10 {part} images"
        if len(lost) == len(files):
            self.add(what, "missing", f"no {', '.join(lost)} in {files[0].parent}; published at {cifar.SOURCE}")
            return None
        images = self.read(what, cifar.load_cifar10, self.data, part, partial=True)
        if images is None:
            return None
        detail = f"{len(images.y):,} images"
        if lost:
            detail += f"; no {', '.join(lost)} in {files[0].parent}, published at {cifar.SOURCE}"
        elif len(set(np.bincount(images.y, minlength=len(cifar.CLASSES_10)))) != 1:
            self.add(what, "wrong", f"{detail}, not equally many of each class")
            return images
        self.add(what, "note" if lost else "ok", detail)
        return images

    def cifar100(self, part: cifar.Part, label: cifar.Depth) -> cifar.Images | None:
        """CIFAR-100's images with their fine or coarse labels."""
        path, what = cifar.cifar100_file(self.data, part), f"CIFAR-100 {part} images, {label} labels"
        if not path.is_file():
            self.add(what, "missing", f"no {path.name} in {path.parent}; published at {cifar.SOURCE}")
            return None
        images = self.read(what, cifar.load_cifar100, self.data, part, label)
        classes = self.read(f"names of the {label} classes", cifar.cifar100_classes, self.data, label)
        if images is not None and classes is not None:
            even = len(set(np.bincount(images.y, minlength=len(classes)))) == 1
            detail = f"{len(images.y):,} images of {len(classes)} classes"
            self.add(what, "ok" if even else "wrong", detail + ("" if even else ", not equally many of each"))
        return images


def _cifar10h(checks: _Checks) -> None:
    images = checks.cifar10("test")
    checks.cifar10("train")
    folder = checks.data / cifar10h.FOLDER
    if checks.files(folder, [f"{cifar10h.RAW}|{cifar10h.ZIP}"], cifar10h.SOURCE):
        answers = checks.read("raw table", cifar10h.read_answers, checks.data)
        if answers is not None:
            checks.equal("answers without attention checks", len(answers), 514_200)
            checks.equal("annotators", int(answers["annotator"].nunique()), 2_571)
            worst = cifar10h.worst_answers(answers)
            checks.equal("images with answers", len(worst), 10_000)
            checks.noise("worst labels", float((worst["label"] != worst["y"]).mean()), 0.646, digits=3)
            if images is not None:
                try:
                    cifar10h.check_answers(answers, images.y, checks.data)
                    checks.add("true labels", "ok", f"all {len(answers):,} equal CIFAR's labels")
                except DataError as error:
                    checks.add("true labels", "wrong", str(error))
    path = find_file(folder, "cifar10h-counts.npy")
    counts = None if path is None else checks.read("counts", load_array, path)
    if counts is not None:
        _cifar10h_counts(checks, counts, images)
        _cifar10h_part(checks, folder, counts, images)


def _cifar10h_counts(checks: _Checks, counts: NDArray[Any], images: cifar.Images | None) -> None:
    """The released counts, which a fit does not need."""
    if counts.shape != (10_000, 10):
        checks.add("counts", "wrong", f"an array of shape {counts.shape}; published: (10000, 10)")
        return
    per_image = counts.sum(axis=1)
    checks.equal("counts, answers", int(counts.sum()), 511_000)
    checks.equal("counts, answers per image", f"{per_image.min()} to {per_image.max()}", "47 to 63")
    minority = float((counts.max(axis=1) < per_image).mean())
    checks.equal("counts, images with an answer that is not the majority's", f"{minority:.3f}", "0.561")
    if images is not None:
        share = float((counts.argmax(axis=1) == images.y).mean())
        status: Status = "ok" if share > 0.98 else "wrong"
        checks.add("counts, order of the images", status, f"the majority gives {share:.2%} of the images CIFAR's label")


def _cifar10h_part(checks: _Checks, folder: Path, counts: NDArray[Any], images: cifar.Images | None) -> None:
    """Answers with annotators to some of the images, which are no substitute for the raw table."""
    path = find_file(folder, "annotations-9500-9999.csv")
    columns = ["cifar10_test_index", "annotator_id", "label", "gold"]
    frame = None if path is None else checks.read("part of the answers", read_columns, path, columns, cifar10h.SOURCE)
    if frame is None or images is None:
        return
    image = frame["cifar10_test_index"].to_numpy(np.int64)
    checks.aligned(
        f"part of the answers ({len(np.unique(image)):,} images), true labels",
        frame["gold"].to_numpy(),
        images.y[image],
    )
    given = np.zeros_like(counts)
    np.add.at(given, (image, frame["label"].to_numpy(np.int64)), 1)
    short = int((given < counts)[np.unique(image)].sum())
    left_out = int(given.sum() - counts[np.unique(image)].sum())
    detail = f"{len(frame):,} answers: those counted and {left_out:,} of annotators the counts leave out"
    checks.add(
        "part of the answers, counts", "wrong" if short else "ok", f"{short} counts not met" if short else detail
    )


def _cifar10n(checks: _Checks) -> None:
    images = checks.cifar10("train")
    checks.cifar10("test")
    folder = checks.data / cifarn.FOLDER
    if not checks.files(folder, [cifarn.LABELS_10, cifarn.SIDE_10], cifarn.SOURCE):
        return
    labels = checks.read(cifarn.LABELS_10, cifarn.read_labels, checks.data, cifarn.LABELS_10, cifarn.KEYS_10)
    if labels is not None:
        checks.equal("labels", len(labels["clean_label"]), 50_000)
        if images is not None and len(labels["clean_label"]) > images.rows.max():
            checks.aligned("clean labels", labels["clean_label"][images.rows], images.y)
        for kind, published in NOISE_10N.items():
            chosen = checks.read(f"{kind} labels", cifarn.choose, labels, kind)
            if chosen is not None:
                checks.noise(f"{kind} labels", float((chosen[0] != labels["clean_label"]).mean()), published)
    _side_info(checks, cifarn.SIDE_10, workers=3, images=10, ids=747)
    checks.permutation(folder, "image_order_c10.npy", 50_000)


def _cifar100n(checks: _Checks) -> None:
    images = {label: checks.cifar100("train", label) for label in ("fine", "coarse")}
    checks.cifar100("test", "fine")
    folder = checks.data / cifarn.FOLDER
    if not checks.files(folder, [cifarn.LABELS_100, cifarn.SIDE_100], cifarn.SOURCE):
        return
    for label, (clean, noisy) in cifarn.KEYS_100.items():
        labels = checks.read(f"{label} labels", cifarn.read_labels, checks.data, cifarn.LABELS_100, (clean, noisy))
        if labels is None:
            continue
        checks.equal(f"{label} labels", len(labels[clean]), 50_000)
        part = images[label]
        if part is not None and len(labels[clean]) == len(part.y):
            checks.aligned(f"clean {label} labels", labels[clean], part.y)
        checks.noise(f"{label} labels", float((labels[noisy] != labels[clean]).mean()), NOISE_100N[label])
    _side_info(checks, cifarn.SIDE_100, workers=1, images=5, ids=519)
    checks.permutation(folder, "image_order_c100.npy", 50_000)


def _side_info(checks: _Checks, name: str, *, workers: int, images: int, ids: int) -> None:
    """Workers and times of CIFAR-N."""
    side = checks.read(name, cifarn.read_side_info, checks.data, name, workers=workers, images=images)
    if side is not None:
        checks.equal(f"{name}, images", side.annotator.shape[1], 50_000)
        checks.equal(f"{name}, workers", len(np.unique(side.annotator)), ids)


def _imagenet_pi(checks: _Checks) -> None:
    for level, published in NOISE_IMAGENET_PI.items():
        folder = checks.data / imagenet_pi.FOLDER / f"{level}_noise"
        names = ["labels/train.csv", "confidences/train.csv", "annotator_features.csv"]
        choices = [f"{name}|{name.replace('/', '-').replace('_', '-')}" for name in names]
        if not checks.files(folder, choices, imagenet_pi.SOURCE):
            continue
        frame = checks.read(f"{level} noise", read_imagenet_pi, folder, answers_per_item=None)
        if frame is None:
            continue
        n_annotators = len(frame["annotator"].cat.categories)
        checks.equal(f"{level} noise, annotators", n_annotators, 16)
        checks.equal(f"{level} noise, images", len(frame) // n_annotators, 1_281_167)
        _, y = np.unique([name.partition("_")[0] for name in frame["item"][::n_annotators]], return_inverse=True)
        wrong = float((frame["label"].to_numpy().reshape(-1, n_annotators) != y[:, None]).mean())
        checks.noise(f"{level} labels", wrong, published, digits=3)
    try:
        folder = imagenet_pi.image_folder(checks.data)
        imagenet_pi.val_folder(folder)
    except DataError as error:
        checks.add("ILSVRC-2012 images", "missing", str(error))
        return
    classes = checks.read("classes", imagenet_pi.synsets, folder)
    if classes is not None:
        checks.equal("classes", len(classes), 1_000)
        n_images = sum(1 for name in classes for _ in (folder / "train" / name).iterdir())
        checks.equal("training images", n_images, 1_281_167)
        validation = checks.read("validation images", imagenet_pi.validation_files, folder, classes)
        if validation is not None:
            checks.equal("validation images", len(validation[0]), 50_000)


def _cifar10s(checks: _Checks) -> None:
    images = checks.cifar10("test")
    if not checks.files(checks.data / cifar10s.FOLDER, [cifar10s.NAME], cifar10s.SOURCE):
        return
    answers = checks.read(cifar10s.NAME, cifar10s.read_answers, checks.data)
    if answers is None:
        return
    checks.equal("answers", len(answers), 6_723)
    checks.equal("images with answers", int(answers["image"].nunique()), 1_000)
    checks.equal("annotators", int(answers["annotator"].nunique()), 248)
    checks.noise("answers", float((answers["label"] != answers["y"]).mean()), 0.157, digits=3)
    if images is not None and answers["image"].between(0, len(images.y) - 1).all():
        checks.aligned("true labels", answers["y"].to_numpy(), images.y[answers["image"]])


def _labelme(checks: _Checks) -> None:
    sizes = {"train": 1_000, "valid": 500, "test": 1_188}
    names = [f"LabelMe_{kind}" for part in sizes for kind in (f"VGG_avg_{part}.npy", f"Z_{part}.txt")]
    if not checks.files(checks.data / labelme.FOLDER, [labelme.ANSWERS, *names], labelme.SOURCE):
        return
    parts = {part: checks.read(part, labelme.read_part, checks.data, part) for part in sizes}
    for part, read in parts.items():
        if read is not None:
            checks.equal(f"{part} features", f"{read[0].shape[0]} x {read[0].shape[1]}", f"{sizes[part]} x 512")
    answers, train = checks.read(labelme.ANSWERS, labelme.read_answers, checks.data), parts["train"]
    if answers is None:
        return
    item, worker = np.nonzero(answers >= 0)
    checks.equal("answers", len(item), 2_547)
    checks.equal("workers", len(np.unique(worker)), 59)
    if train is not None and len(train[1]) == len(answers):
        checks.noise("answers", float((answers[item, worker] != train[1][item]).mean()), 0.2595)


def _digits_pi(checks: _Checks) -> None:
    for level, noise in (("low", 0.44), ("high", 0.72)):
        data = load_digits_pi(noise, answers_per_item=None)
        checks.near(f"{level} labels", data.noise_rate, noise)
    least = float(data.frame["annotator_accuracy"].min())
    checks.add("annotators", "ok" if least > 0.75 else "wrong", f"right about {least:.1%} of the images or more")


def _cifar10_pi(checks: _Checks) -> None:
    images = checks.cifar10("train")
    checks.cifar10("test")
    folder = checks.data / cifar10_pi.FOLDER
    if not (folder / cifar10_pi.ABOUT).is_file():
        command = f"pidual data relabel cifar10_pi --data {checks.data}"
        checks.add(f"{folder.name} files", "missing", f"no {cifar10_pi.ABOUT} in {folder}; made by `{command}`")
        return
    about = checks.read(cifar10_pi.ABOUT, cifar10_pi.read_about, checks.data)
    if about is None:
        return
    for level, noise in cifar10_pi.NOISE.items():
        frame = checks.read(f"{level} noise", cifar10_pi.read_level, checks.data, level, answers_per_item=None)
        if frame is None or images is None:
            continue
        rows = checks.read(f"{level} noise", cifar10_pi.rows_of, frame["item"].to_numpy(), images, checks.data)
        if rows is not None:
            checks.equal(f"{level} noise, images", len(np.unique(rows)), about["n_images"])
            checks.near(f"{level} labels", float((frame["label"].to_numpy() != images.y[rows]).mean()), noise)
    accuracies = [row["accuracy"] for row in about["annotators"]]
    status: Status = "ok" if min(accuracies) >= cifar10_pi.LEAST_ACCURACY else "wrong"
    detail = f"{len(accuracies)}, right about {min(accuracies):.1%} to {max(accuracies):.1%} of the images they relabel"
    checks.add("annotators", status, detail)


def _cifar100_sm500(checks: _Checks) -> None:
    images = checks.cifar100("train", "fine")
    checks.cifar100("test", "fine")
    answers = _crowd(checks, crowds.SM500, crowds.MAMMALS, crowds.SM500_PI, crowds.SM500_SOURCE, (500, 11, 0.306))
    if answers is not None and images is not None:
        names = checks.read("names of the fine classes", cifar.cifar100_classes, checks.data)
        if names is not None:
            path = checks.data / crowds.FOLDER / crowds.SM500
            try:
                crowds.check_images(answers, images, names, path)
                checks.add("gold", "ok", f"all {len(answers):,} equal CIFAR's labels")
            except DataError as error:
                checks.add("gold", "wrong", str(error))


def _medical_treat(checks: _Checks) -> None:
    names, options = (crowds.MEDICAL, crowds.MEDICAL_TEXTS), {"gold_everywhere": False}
    published, source = (3_231, 468, 0.229), crowds.MEDICAL_SOURCE
    answers = _crowd(checks, names[0], crowds.RELATION, crowds.MEDICAL_PI, source, published, **options)
    if answers is not None:
        checks.equal("items with gold", int(answers.dropna(subset="y")["item"].nunique()), 606)
    _crowd_texts(checks, names[1], crowds.SENTENCE_COLUMNS, source, answers)


def _llm_emotion(checks: _Checks) -> None:
    published, source = (498, 13, 0.511), crowds.EMOTION_SOURCE
    answers = _crowd(checks, crowds.EMOTION, crowds.EMOTIONS, crowds.EMOTION_PI, source, published)
    _crowd_texts(checks, crowds.EMOTION_TEXTS, ("text",), source, answers)


def _crowd(
    checks: _Checks,
    name: str,
    classes: list[str],
    pi: dict[str, str],
    source: str,
    published: tuple[int, int, float],
    **options: Any,
) -> pd.DataFrame | None:
    """The answers of one of the crowds, of which items, annotators and noise are known."""
    if not checks.files(checks.data / crowds.FOLDER, [f"{name}|{name}.gz"], source):
        return None
    answers = checks.read(name, crowds.read_answers, checks.data, name, classes, pi, source, **options)
    if answers is not None:
        n_items, n_annotators, noise = published
        checks.equal("items", int(answers["item"].nunique()), n_items)
        checks.equal("annotators", int(answers["annotator"].nunique()), n_annotators)
        known = answers.dropna(subset="y")
        checks.noise("answers", float((known["label"] != known["y"]).mean()), noise, digits=3)
    return answers


def _crowd_texts(
    checks: _Checks, name: str, columns: tuple[str, ...], source: str, answers: pd.DataFrame | None
) -> None:
    """The texts the answers are about."""
    if not checks.files(checks.data / crowds.FOLDER, [f"{name}|{name}.gz"], source):
        return
    texts = checks.read(name, crowds.read_texts, checks.data, name, columns, source)
    if texts is not None and answers is not None:
        asked = answers["item"].unique()
        found = int(np.isin(asked, texts.index).sum())
        checks.add("texts", "ok" if found == len(asked) else "wrong", f"of {found:,} of {len(asked):,} items")


def _hard_case(name: str, checks: _Checks) -> None:
    make, noise = HARD_CASES[name]
    checks.near("labels", make(checks.data).noise_rate, noise)


CHECKS: dict[str, Callable[[_Checks], None]] = {
    "cifar10h": _cifar10h,
    "cifar10n": _cifar10n,
    "cifar100n": _cifar100n,
    "imagenet_pi": _imagenet_pi,
    "cifar10s": _cifar10s,
    "labelme": _labelme,
    "digits_pi": _digits_pi,
    "cifar10_pi": _cifar10_pi,
    "cifar100_sm500": _cifar100_sm500,
    "medical_treat": _medical_treat,
    "llm_emotion": _llm_emotion,
    **{name: partial(_hard_case, name) for name in HARD_CASES},
}
