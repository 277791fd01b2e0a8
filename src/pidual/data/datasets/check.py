"""Check that a dataset's files are present, complete, about the same images, and as noisy as published.

    for check in check_dataset("cifar10n", Path("data")): print(check.status, check.what, check.detail)

The numbers are those of the papers and of the released files.
"""

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, DataWarning
from . import cifar, cifar10_pi, cifar10h, cifar10s, cifarn, crowds, find_entry, imagenet_pi, labelme
from .digits import load_digits_pi
from .imagenet_pi_files import read_imagenet_pi
from .locate import find_file

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


class _UnreadableError(Exception):
    """Ends a part of the checks whose files are missing or cannot be read; what is wrong has its line already."""


def check_dataset(name: str, data: Path) -> list[Check]:
    """Check everything a dataset needs.

    Parameters
    ----------
    name : str
        Key of DATASETS; all its variants are checked.
    data : Path
        Folder with the datasets.
    """
    find_entry(name)
    checks = _Checks(Path(data))
    with warnings.catch_warnings(), checks.part():
        warnings.simplefilter("ignore", DataWarning)  # what is missing has a line of its own
        CHECKS[name.partition(":")[0]](checks)
    return checks.done


class _Checks:
    """The checks done so far, and what several datasets look at."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.done: list[Check] = []

    def part(self) -> contextlib.suppress:
        """End what is inside at the first file that is missing or cannot be read, and go on after it."""
        return contextlib.suppress(_UnreadableError)

    def add(self, what: str, fine: bool | Status, detail: str) -> None:
        status: Status = fine if isinstance(fine, str) else "ok" if fine else "wrong"
        self.done.append(Check(what, status, detail))

    def files(self, folder: Path, names: list[str], source: str) -> None:
        """Check that these files exist, of "A|B" one of the two; end the part if one is missing."""
        lost = [name for name in names if find_file(folder, *name.split("|")) is None]
        shown = ", ".join(name.replace("|", " or ") for name in lost or names)
        if lost:
            self.add(f"{folder.name} files", "missing", f"no {shown} in {folder}; published at {source}")
            raise _UnreadableError
        self.add(f"{folder.name} files", "ok", shown)

    def read(self, what: str, function: Callable[..., Read], *args: Any, **options: Any) -> Read:
        """Return what a reader returns; end the part, with a line that says why, if it refuses."""
        try:
            return function(*args, **options)
        except DataError as error:
            self.add(what, "wrong", str(error))
            raise _UnreadableError from error

    def equal(self, what: str, found: Any, published: Any) -> None:
        """Compare a number or a text with the published one."""
        found, published = (f"{value:,}" if isinstance(value, int) else str(value) for value in (found, published))
        self.add(what, found == published, found if found == published else f"{found}; published: {published}")

    def noise(self, what: str, wrong: Any, published: float, digits: int = 4) -> None:
        """Compare the share of wrong labels with the published one, to this many digits."""
        self.equal(f"noise of {what}", f"{float(wrong.mean()):.{digits}f}", f"{published:.{digits}f}")

    def near(self, what: str, found: float, wanted: float) -> None:
        """Compare a noise rate with the one asked for, which is met up to sampling."""
        self.add(f"noise of {what}", abs(found - wanted) <= HALF_POINT, f"{found:.4f} (asked for: {wanted:.2f})")

    def aligned(self, what: str, found: NDArray[Any], y: NDArray[Any]) -> None:
        """Check that labels are those of the images."""
        n = int((found == y).sum())
        self.add(what, n == len(y), f"{n:,} of {len(y):,} equal CIFAR's labels")

    def cifar10(self, part: cifar.Part) -> cifar.Images | None:
        """Check CIFAR-10's images; of the training batches one is enough."""
        return self.images(f"CIFAR-10 {part} images", cifar.cifar10_files(self.data, part), part)

    def cifar100(self, part: cifar.Part, label: cifar.Depth) -> cifar.Images | None:
        """Check CIFAR-100's images with their fine or coarse labels."""
        what = f"CIFAR-100 {part} images, {label} labels"
        return self.images(what, [cifar.cifar100_file(self.data, part)], part, label)

    def images(
        self, what: str, files: list[Path], part: cifar.Part, label: cifar.Depth | None = None
    ) -> cifar.Images | None:
        """Check images and their labels: CIFAR-100's where a label is named; None if they cannot be read."""
        lost = [path.name for path in files if not path.is_file()]
        absent = f"no {', '.join(lost)} in {files[0].parent}"
        if len(lost) == len(files):
            self.add(what, "missing", f"{absent}; published at {cifar.SOURCE}")
            return None
        with self.part():
            if label is None:
                images, n = self.read(what, cifar.load_cifar10, self.data, part, partial=True), len(cifar.CLASSES_10)
                detail = f"{len(images.y):,} images" + (f"; {absent}, published at {cifar.SOURCE}" if lost else "")
            else:
                images = self.read(what, cifar.load_cifar100, self.data, part, label)
                n = len(self.read(f"names of the {label} classes", cifar.cifar100_classes, self.data, label))
                detail = f"{len(images.y):,} images of {n} classes"
            if lost:
                self.add(what, "note", detail)
            else:
                even = len(set(np.bincount(images.y, minlength=n))) == 1
                self.add(what, even, detail + ("" if even else ", not equally many of each class"))
            return images
        return None


def _cifar10h(checks: _Checks) -> None:
    images = checks.cifar10("test")
    checks.cifar10("train")
    checks.files(checks.data / cifar10h.FOLDER, [f"{cifar10h.RAW}|{cifar10h.ZIP}"], cifar10h.SOURCE)
    answers = checks.read("raw table", cifar10h.read_answers, checks.data)
    checks.equal("answers without attention checks", len(answers), 514_200)
    checks.equal("annotators", int(answers["annotator"].nunique()), 2_571)
    worst = cifar10h.worst_answers(answers)
    checks.equal("images with answers", len(worst), 10_000)
    checks.noise("worst labels", worst["label"] != worst["y"], 0.646, digits=3)
    if images is not None:
        checks.read("true labels", cifar10h.check_answers, answers, images.y, checks.data)
        checks.add("true labels", "ok", f"all {len(answers):,} equal CIFAR's labels")


def _cifar10n(checks: _Checks) -> None:
    images = checks.cifar10("train")
    checks.cifar10("test")
    checks.files(checks.data / cifarn.FOLDER, [cifarn.LABELS_10, cifarn.SIDE_10], cifarn.SOURCE)
    with checks.part():
        labels = checks.read(cifarn.LABELS_10, cifarn.read_labels, checks.data, cifarn.LABELS_10, cifarn.KEYS_10)
        clean = labels["clean_label"]
        checks.equal("labels", len(clean), 50_000)
        if images is not None and len(clean) > images.rows.max():
            checks.aligned("clean labels", clean[images.rows], images.y)
        for kind, published in NOISE_10N.items():
            with checks.part():
                chosen = checks.read(f"{kind} labels", cifarn.choose, labels, kind)
                checks.noise(f"{kind} labels", chosen[0] != clean, published)
    _side_info(checks, cifarn.SIDE_10, workers=3, images=10, ids=747)


def _cifar100n(checks: _Checks) -> None:
    images = {label: checks.cifar100("train", label) for label in ("fine", "coarse")}
    checks.cifar100("test", "fine")
    checks.files(checks.data / cifarn.FOLDER, [cifarn.LABELS_100, cifarn.SIDE_100], cifarn.SOURCE)
    for label, (clean, noisy) in cifarn.KEYS_100.items():
        with checks.part():
            file = cifarn.LABELS_100
            labels = checks.read(f"{label} labels", cifarn.read_labels, checks.data, file, (clean, noisy))
            checks.equal(f"{label} labels", len(labels[clean]), 50_000)
            part = images[label]
            if part is not None and len(labels[clean]) == len(part.y):
                checks.aligned(f"clean {label} labels", labels[clean], part.y)
            checks.noise(f"{label} labels", labels[noisy] != labels[clean], NOISE_100N[label])
    _side_info(checks, cifarn.SIDE_100, workers=1, images=5, ids=519)


def _side_info(checks: _Checks, name: str, *, workers: int, images: int, ids: int) -> None:
    """Check workers and times of CIFAR-N."""
    side = checks.read(name, cifarn.read_side_info, checks.data, name, workers=workers, images=images)
    checks.equal(f"{name}, images", side.annotator.shape[1], 50_000)
    checks.equal(f"{name}, workers", len(np.unique(side.annotator)), ids)


def _imagenet_pi(checks: _Checks) -> None:
    for level, published in NOISE_IMAGENET_PI.items():
        folder = checks.data / imagenet_pi.FOLDER / f"{level}_noise"
        names = ["labels/train.csv", "confidences/train.csv", "annotator_features.csv"]
        with checks.part():
            choices = [f"{name}|{name.replace('/', '-').replace('_', '-')}" for name in names]
            checks.files(folder, choices, imagenet_pi.SOURCE)
            frame = checks.read(f"{level} noise", read_imagenet_pi, folder, answers_per_item=None)
            n_annotators = len(frame["annotator"].cat.categories)
            checks.equal(f"{level} noise, annotators", n_annotators, 16)
            checks.equal(f"{level} noise, images", len(frame) // n_annotators, 1_281_167)
            _, y = np.unique([name.partition("_")[0] for name in frame["item"][::n_annotators]], return_inverse=True)
            wrong = frame["label"].to_numpy().reshape(-1, n_annotators) != y[:, None]
            checks.noise(f"{level} labels", wrong, published, digits=3)
    try:
        folder = imagenet_pi.image_folder(checks.data)
        imagenet_pi.val_folder(folder)
    except DataError as error:
        checks.add("ILSVRC-2012 images", "missing", str(error))
        return
    classes = checks.read("classes", imagenet_pi.synsets, folder)
    checks.equal("classes", len(classes), 1_000)
    n_images = sum(1 for name in classes for _ in (folder / "train" / name).iterdir())
    checks.equal("training images", n_images, 1_281_167)
    validation = checks.read("validation images", imagenet_pi.validation_files, folder, classes)
    checks.equal("validation images", len(validation[0]), 50_000)


def _cifar10s(checks: _Checks) -> None:
    images = checks.cifar10("test")
    checks.files(checks.data / cifar10s.FOLDER, [cifar10s.NAME], cifar10s.SOURCE)
    answers = checks.read(cifar10s.NAME, cifar10s.read_answers, checks.data)
    checks.equal("answers", len(answers), 6_723)
    checks.equal("images with answers", int(answers["image"].nunique()), 1_000)
    checks.equal("annotators", int(answers["annotator"].nunique()), 248)
    checks.noise("answers", answers["label"] != answers["y"], 0.157, digits=3)
    if images is not None and answers["image"].between(0, len(images.y) - 1).all():
        checks.aligned("true labels", answers["y"].to_numpy(), images.y[answers["image"]])


def _labelme(checks: _Checks) -> None:
    sizes = {"train": 1_000, "valid": 500, "test": 1_188}
    names = [f"LabelMe_{kind}" for part in sizes for kind in (f"VGG_avg_{part}.npy", f"Z_{part}.txt")]
    checks.files(checks.data / labelme.FOLDER, [labelme.ANSWERS, *names], labelme.SOURCE)
    y = {}
    for part, size in sizes.items():
        with checks.part():
            x, y[part] = checks.read(part, labelme.read_part, checks.data, part)
            checks.equal(f"{part} features", f"{x.shape[0]} x {x.shape[1]}", f"{size} x 512")
    answers = checks.read(labelme.ANSWERS, labelme.read_answers, checks.data)
    item, worker = np.nonzero(answers >= 0)
    checks.equal("answers", len(item), 2_547)
    checks.equal("workers", len(np.unique(worker)), 59)
    if len(y.get("train", ())) == len(answers):
        checks.noise("answers", answers[item, worker] != y["train"][item], 0.2595)


def _digits_pi(checks: _Checks) -> None:
    for level, noise in (("low", 0.44), ("high", 0.72)):
        data = load_digits_pi(noise, answers_per_item=None)
        checks.near(f"{level} labels", data.noise_rate, noise)
    least = float(data.frame["annotator_accuracy"].min())
    checks.add("annotators", least > 0.75, f"right about {least:.1%} of the images or more")


def _cifar10_pi(checks: _Checks) -> None:
    images = checks.cifar10("train")
    checks.cifar10("test")
    folder = checks.data / cifar10_pi.FOLDER
    if not (folder / cifar10_pi.ABOUT).is_file():
        command = f"pidual data relabel cifar10_pi --data {checks.data}"
        checks.add(f"{folder.name} files", "missing", f"no {cifar10_pi.ABOUT} in {folder}; made by `{command}`")
        return
    about = checks.read(cifar10_pi.ABOUT, cifar10_pi.read_about, checks.data)
    for level, noise in cifar10_pi.NOISE.items():
        with checks.part():
            what = f"{level} noise"
            frame = checks.read(what, cifar10_pi.read_level, checks.data, level, answers_per_item=None)
            if images is not None:
                rows = checks.read(what, cifar10_pi.rows_of, frame["item"].to_numpy(), images, checks.data)
                checks.equal(f"{what}, images", len(np.unique(rows)), about["n_images"])
                checks.near(f"{level} labels", float((frame["label"].to_numpy() != images.y[rows]).mean()), noise)
    found = [row["accuracy"] for row in about["annotators"]]
    detail = f"{len(found)}, right about {min(found):.1%} to {max(found):.1%} of the images they relabel"
    checks.add("annotators", min(found) >= cifar10_pi.LEAST_ACCURACY, detail)


def _cifar100_sm500(checks: _Checks) -> None:
    images = checks.cifar100("train", "fine")
    checks.cifar100("test", "fine")
    answers = _crowd(checks, crowds.SM500, crowds.MAMMALS, crowds.SM500_PI, crowds.SM500_SOURCE, (500, 11, 0.306))
    if images is not None:
        names = checks.read("names of the fine classes", cifar.cifar100_classes, checks.data)
        path = checks.data / crowds.FOLDER / crowds.SM500
        checks.read("gold", crowds.check_images, answers, images, names, path)
        checks.add("gold", "ok", f"all {len(answers):,} equal CIFAR's labels")


def _medical_treat(checks: _Checks) -> None:
    source, answers = crowds.MEDICAL_SOURCE, None
    with checks.part():
        published, some = (3_231, 468, 0.229), {"gold_everywhere": False}
        answers = _crowd(checks, crowds.MEDICAL, crowds.RELATION, crowds.MEDICAL_PI, source, published, **some)
        checks.equal("items with gold", int(answers.dropna(subset="y")["item"].nunique()), 606)
    _crowd_texts(checks, crowds.MEDICAL_TEXTS, crowds.SENTENCE_COLUMNS, source, answers)


def _llm_emotion(checks: _Checks) -> None:
    source, answers = crowds.EMOTION_SOURCE, None
    with checks.part():
        answers = _crowd(checks, crowds.EMOTION, crowds.EMOTIONS, crowds.EMOTION_PI, source, (498, 13, 0.511))
    _crowd_texts(checks, crowds.EMOTION_TEXTS, ("text",), source, answers)


def _crowd(
    checks: _Checks, name: str, classes: list[str], pi: dict[str, str], source: str, published: Any, **options: Any
) -> pd.DataFrame:
    """Check the answers of one of the crowds, of which items, annotators and noise are published."""
    checks.files(checks.data / crowds.FOLDER, [f"{name}|{name}.gz"], source)
    answers = checks.read(name, crowds.read_answers, checks.data, name, classes, pi, source, **options)
    n_items, n_annotators, noise = published
    checks.equal("items", int(answers["item"].nunique()), n_items)
    checks.equal("annotators", int(answers["annotator"].nunique()), n_annotators)
    known = answers.dropna(subset="y")
    checks.noise("answers", known["label"] != known["y"], noise, digits=3)
    return answers


def _crowd_texts(
    checks: _Checks, name: str, columns: tuple[str, ...], source: str, answers: pd.DataFrame | None
) -> None:
    """Check that there is a text for each item that was asked about."""
    checks.files(checks.data / crowds.FOLDER, [f"{name}|{name}.gz"], source)
    texts = checks.read(name, crowds.read_texts, checks.data, name, columns, source)
    if answers is not None:
        asked = answers["item"].unique()
        found = int(np.isin(asked, texts.index).sum())
        checks.add("texts", found == len(asked), f"of {found:,} of {len(asked):,} items")


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
}
