"""ImageNet-PI: ImageNet's training images, relabelled by 16 pretrained networks.

    DATA/imagenet-pi/low_noise/, high_noise/    labels/train.csv, confidences/train.csv, annotator_features.csv
    DATA/imagenet/train/<synset>/*.JPEG         ILSVRC-2012's training images
    DATA/imagenet/val/<synset>/*.JPEG           its validation images; or all in val/, with one of
    DATA/imagenet/LOC_val_solution.csv                                    (Kaggle's file: ImageId, PredictionString)
    DATA/imagenet/ILSVRC2012_devkit_t12/data/                             (the development kit: meta.mat and
                                                                           ILSVRC2012_validation_ground_truth.txt)

Images stay on disk and are decoded when they are needed. A class is the rank of its synset in alphabetical order. For
imagenet, DATA/ILSVRC2012 or Kaggle's DATA/ILSVRC/Data/CLS-LOC will do as well.

Ortiz-Jimenez et al., "When does privileged information explain away label noise?", ICML 2023.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, UsageError
from .. import Inputs, LazyImages
from .base import NoisyDataset
from .imagenet_pi_files import read_imagenet_pi
from .locate import MissingError, read_columns

SOURCE = "https://github.com/google-research-datasets/imagenet_pi (with `git lfs pull`)"
IMAGES_SOURCE = "https://www.image-net.org"
FOLDER = "imagenet-pi"
IMAGE_FOLDERS = ("imagenet", "ILSVRC2012", "ILSVRC/Data/CLS-LOC")
DEVKIT = "ILSVRC2012_devkit_t12/data"
SOLUTION = "LOC_val_solution.csv"
ANNOTATORS = (
    *("ResNet50V2", "ResNet101V2", "ResNet152V2", "DenseNet121", "DenseNet169", "DenseNet201", "InceptionResNetV2"),
    *("InceptionV3", "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small", "NASNetMobile", "VGG16"),
    *("VGG19", "Xception"),
)  # in the order the authors list them, presumed to be that of the columns
SIZES = (1_281_167, 50_000)  # images of the training and of the validation set
PI = {"annotator": "category", "confidence": "number", "annotator_accuracy": "number", "annotator_size": "number"}


def load_imagenet_pi(
    data: Path,
    noise: str = "low",
    *,
    seed: int = 0,
    answers_per_item: int | None = 1,
    image_size: int = 224,
) -> NoisyDataset:
    """ImageNet-PI at its low (48.1%) or high (83.8%) noise; the test set is ILSVRC-2012's validation set.

    `data`: folder with imagenet-pi and imagenet.
    `noise` ({"low", "high"}).
    `seed`: of the choice of the annotator, uniform among the 16, of each image.
    `answers_per_item`: how many of the 16 annotators' answers to keep per image; None: all.
    `image_size`: images have this many pixels a side: the central 7/8 of the shorter side, bicubic, unless training
        draws crops.
    """
    if noise not in ("low", "high"):
        raise UsageError(f"the noise of ImageNet-PI is 'low' or 'high', not {noise!r}")
    folder = image_folder(data)
    classes = synsets(folder)
    frame = read_annotations(data, noise, answers_per_item=answers_per_item, seed=seed)
    names, item = np.unique(frame["item"].to_numpy(str), return_inverse=True)
    files, y = _training_files(folder, names, classes)
    if frame["label"].max() >= len(classes):
        raise DataError(
            f"{data / FOLDER} has the label {frame['label'].max()}, but {folder / 'train'} has {len(classes)} classes."
        )
    val_files, y_test = validation_files(folder, classes)
    x, x_test = (
        _lazy(folder / part, some, image_size)
        for part, some in (("train", files), (val_folder(folder).name, val_files))
    )
    frame = frame.assign(item=item, y=y[item])
    whole = (len(names), len(val_files)) == SIZES
    return NoisyDataset(f"imagenet_pi:{noise}", frame, PI, x, x_test, y_test, classes, whole=whole)


def read_annotations(data: Path, noise: str, *, answers_per_item: int | None, seed: int) -> pd.DataFrame:
    """Read the annotations of one noise level with `read_imagenet_pi`; 16 annotators get the networks' names."""
    folder = data / FOLDER / f"{noise}_noise"
    if not folder.is_dir():
        raise MissingError(f"{folder} is missing; get ImageNet-PI from {SOURCE}.")
    frame = read_imagenet_pi(folder, answers_per_item=answers_per_item, seed=seed)
    if len(frame["annotator"].cat.categories) == len(ANNOTATORS):
        frame["annotator"] = frame["annotator"].cat.rename_categories(list(ANNOTATORS))
    return frame


def image_folder(data: Path) -> Path:
    """Where the folders of images are."""
    found = next((data / name for name in IMAGE_FOLDERS if (data / name / "train").is_dir()), None)
    if found is None:
        names = " or ".join(f"{name}/train" for name in IMAGE_FOLDERS)
        raise MissingError(f"{data} has no folder {names}; get ILSVRC-2012 from {IMAGES_SOURCE}.")
    return found


def val_folder(folder: Path) -> Path:
    """Where the validation images are."""
    found = next((folder / name for name in ("val", "validation") if (folder / name).is_dir()), None)
    if found is None:
        raise MissingError(f"{folder} has no folder val; get ILSVRC-2012's validation images from {IMAGES_SOURCE}.")
    return found


def synsets(folder: Path) -> list[str]:
    """Return the classes: names of the folders of training images, sorted."""
    found = sorted(path.name for path in (folder / "train").iterdir() if path.is_dir())
    if not found:
        raise DataError(f"{folder / 'train'} has no folders in it; it must have one per class, such as n01440764.")
    return found


def _training_files(folder: Path, names: NDArray[np.str_], classes: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Path beneath train/ and class of each of these images; the name of an image starts with that of its class."""
    there = {f"{name}/{path.name}" for name in classes for path in (folder / "train" / name).iterdir()}
    code = {name: number for number, name in enumerate(classes)}
    files = [f"{name.partition('_')[0]}/{name}" for name in names.tolist()]
    lost = [file for file in files if file not in there]
    if lost:
        raise DataError(
            f"{folder / 'train'} lacks {len(lost):,} of the {len(files):,} images ImageNet-PI has labels for, such as "
            f"{lost[0]}; get ILSVRC-2012 from {IMAGES_SOURCE}."
        )
    return files, np.asarray([code[file.partition("/")[0]] for file in files], np.int64)


def validation_files(folder: Path, classes: list[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Path beneath the folder of validation images and class of each of them."""
    place = val_folder(folder)
    in_folders = sorted(path.relative_to(place).as_posix() for path in place.glob("n*/*.JPEG"))
    if in_folders:
        return in_folders, _codes([file.partition("/")[0] for file in in_folders], classes, place)
    files = sorted(path.name for path in place.glob("*.JPEG"))
    if not files:
        raise DataError(f"{place} has no .JPEG images in it; get ILSVRC-2012's validation images from {IMAGES_SOURCE}.")
    known = _validation_classes(folder)
    lost = [file for file in files if Path(file).stem not in known]
    if lost:
        raise DataError(f"{place / lost[0]} has no class in {SOLUTION} or the development kit beside it.")
    return files, _codes([known[Path(file).stem] for file in files], classes, place)


def _validation_classes(folder: Path) -> dict[str, str]:
    """Synset of each validation image (by its name without ending), from Kaggle's file or the development kit."""
    kaggle = next(
        (path for path in (folder / SOLUTION, *(up / SOLUTION for up in folder.parents[:3])) if path.is_file()), None
    )
    if kaggle is not None:
        frame = read_columns(kaggle, ["ImageId", "PredictionString"], IMAGES_SOURCE)
        return dict(zip(frame["ImageId"], frame["PredictionString"].str.split().str[0], strict=True))
    truth, meta = (folder / DEVKIT / name for name in ("ILSVRC2012_validation_ground_truth.txt", "meta.mat"))
    if not (truth.is_file() and meta.is_file()):
        raise DataError(
            f"the classes of the images in {val_folder(folder)} are not known: sort them into one folder per class, or "
            f"put {SOLUTION} or the development kit ({DEVKIT}) into {folder}."
        )
    from scipy.io import loadmat

    table: Any = loadmat(meta, squeeze_me=True)["synsets"]
    synset = {int(row["ILSVRC2012_ID"]): str(row["WNID"]) for row in table}
    numbers = np.loadtxt(truth, dtype=np.int64)
    return {f"ILSVRC2012_val_{image:08d}": synset[int(number)] for image, number in enumerate(numbers, start=1)}


def _codes(names: list[str], classes: list[str], place: Path) -> NDArray[np.int64]:
    """Return number of each class by its name."""
    code = {name: number for number, name in enumerate(classes)}
    unknown = sorted(set(names) - set(classes))
    if unknown:
        raise DataError(f"{place} has images of the class {unknown[0]}, which has no training images.")
    return np.asarray([code[name] for name in names], np.int64)


def _lazy(folder: Path, files: list[str], size: int) -> Inputs:
    """Images that are decoded when they are needed, one row per file."""
    images = LazyImages(folder, files, (size, size), resize=True, centre=True)
    schema = {"kind": "images", "shape": [3, size, size], "image_size": [size, size], "centre_crop": True}
    return Inputs(images, None, "images", schema, source=str(folder))
