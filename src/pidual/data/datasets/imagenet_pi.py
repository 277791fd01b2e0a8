"""ImageNet-PI: ImageNet's training images, relabelled by 16 pretrained networks.

    DATA/imagenet-pi/low_noise/, high_noise/    labels/train.csv, confidences/train.csv, annotator_features.csv
    DATA/imagenet/train/<synset>/*.JPEG         ILSVRC-2012's training images
    DATA/imagenet/val/<synset>/*.JPEG           its validation images; or all in val/, with one of
    DATA/imagenet/LOC_val_solution.csv                                    (Kaggle's file: ImageId, PredictionString)
    DATA/imagenet/ILSVRC2012_devkit_t12/data/                             (the development kit: meta.mat and
                                                                           ILSVRC2012_validation_ground_truth.txt)

Images stay on disk and are decoded when they are needed. A class is the rank of its synset in alphabetical order. For
imagenet, DATA/ILSVRC2012 or Kaggle's DATA/ILSVRC/Data/CLS-LOC will do as well.

The answers of every annotator to every item are in headerless CSV files:

    labels/train.csv, confidences/train.csv     a line per item: its name, then a number per annotator
    annotator_features.csv                      a line per annotator: accuracy, size

Ortiz-Jimenez et al., "When does privileged information explain away label noise?", ICML 2023.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, UsageError
from ...files import replacing
from .. import Inputs, LazyImages
from .base import MissingError, NoisyDataset, read_columns
from .relabel import annotation_frame, annotator_names, choose_annotators

Split = Literal["train", "validation"]


def write_imagenet_pi(folder: str | Path, train: pd.DataFrame, validation: pd.DataFrame | None = None) -> None:
    """Write annotations in the file format of ImageNet-PI.

    `folder`: made when absent. Gets labels/train.csv, confidences/train.csv (and validation.csv),
        annotator_features.csv; no headers.
    `train`, `validation`: frames of `sample_annotations` or `relabel` with `answers_per_item=None` and integer labels:
        every annotator must have labelled every item. Accuracies and sizes are written as they are; ImageNet-PI's own
        are said to be a standardised accuracy and a logarithm of the number of parameters.
    """
    folder = Path(folder)
    order = list(pd.unique(train["annotator"]))
    for split, frame in (("train", train), ("validation", validation)):
        if frame is None:
            continue
        items, answers = _wide(frame, order, split)
        for column, values in answers.items():
            path = folder / f"{column}s" / f"{split}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            table = pd.DataFrame(values)
            table.insert(0, "item", items)
            with replacing(path) as temporary:
                table.to_csv(temporary, header=False, index=False)
    features = train.groupby("annotator", observed=True)[["annotator_accuracy", "annotator_size"]].first().loc[order]
    with replacing(folder / "annotator_features.csv") as temporary:
        features.to_csv(temporary, header=False, index=False)


def read_imagenet_pi(
    folder: str | Path,
    split: Split = "train",
    *,
    answers_per_item: int | None = 1,
    annotators: Sequence[str] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Read annotations in the file format of ImageNet-PI.

    `folder`: ImageNet-PI's `low_noise` or `high_noise`, or a folder `write_imagenet_pi` has written.
    `split` ({"train", "validation"}): which files to read.
    `answers_per_item`: how many annotators to keep per image, drawn uniformly with `seed`; None: all.
    `annotators`: their names in column order; "annotator-00" and so on when left out.
    Returned: item (image file name), annotator, label (class index), confidence, annotator_accuracy, annotator_size.
    """
    folder = Path(folder)
    labels = _read_csv(_found(folder, f"labels/{split}.csv", f"labels-{split}.csv"))
    confidences = _read_csv(_found(folder, f"confidences/{split}.csv", f"confidences-{split}.csv"))
    features_path = _found(folder, "annotator_features.csv", "annotator-features.csv")
    features = _numbers(_read_csv(features_path), features_path, np.float64)
    n_items, n_annotators = labels.shape[0], labels.shape[1] - 1
    if confidences.shape != labels.shape or features.shape != (n_annotators, 2):
        raise DataError(
            f"{folder}: labels of {n_items} images by {n_annotators} annotators do not fit confidences of shape "
            f"{confidences.shape[0]} x {confidences.shape[1] - 1} and annotator features of shape {features.shape}"
        )
    if not labels[0].equals(confidences[0]):
        row = int(np.argmax(labels[0].to_numpy() != confidences[0].to_numpy()))
        raise DataError(
            f"{folder}: line {row + 1} of the {split} labels is image {labels[0][row]!r} but of the confidences "
            f"{confidences[0][row]!r}; both files must list the same images in the same order"
        )
    names = annotator_names(n_annotators, annotators)
    asked = choose_annotators(n_items, n_annotators, answers_per_item, np.random.default_rng([seed, 0]))
    label = np.take_along_axis(_numbers(labels.iloc[:, 1:], f"{folder}: {split} labels", np.int64), asked, 1)
    confidence = _numbers(confidences.iloc[:, 1:], f"{folder}: {split} confidences", np.float32)
    confidence = np.take_along_axis(confidence, asked, 1)
    return annotation_frame(labels[0].to_numpy(), names, asked, label, confidence, features[:, 0], features[:, 1])


def _wide(frame: pd.DataFrame, order: Sequence[Any], split: str) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Items in order of appearance, and labels and confidences as (N, A) arrays in the annotators' order."""
    items, rows = np.unique(frame["item"].to_numpy(), return_inverse=True)
    columns = pd.Index(order).get_indexer(pd.Index(frame["annotator"].astype(object)))
    cell = rows * len(order) + columns
    if (columns < 0).any() or len(frame) != len(items) * len(order) or len(np.unique(cell)) != len(frame):
        raise DataError(
            f"the {split} annotations cannot be written as ImageNet-PI: each of {len(order)} annotators must label "
            f"each of {len(items)} items once; make them with answers_per_item=None"
        )
    if frame["label"].dtype.kind not in "iu":
        raise DataError(f"the {split} labels are {frame['label'].dtype}, but ImageNet-PI's files hold class indices")
    _, first = np.unique(rows, return_index=True)
    appearance = np.argsort(first)
    answers = {}
    for column in ("label", "confidence"):
        values = np.empty(len(frame), frame[column].to_numpy().dtype)
        values[cell] = frame[column].to_numpy()
        answers[column] = values.reshape(len(items), len(order))[appearance]
    return items[appearance], answers


def _found(folder: Path, *names: str) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise MissingError(f"{folder} has no {names[0]}; give ImageNet-PI's folder low_noise or high_noise")


def _read_csv(path: Path) -> pd.DataFrame:
    """Read a headerless CSV file; the first column may be text."""
    with path.open("rb") as file:
        if file.read(40).startswith(b"version https://git-lfs"):
            raise DataError(f"{path} is a Git LFS pointer, not the data; run `git lfs pull` in its repository")
    try:
        return pd.read_csv(path, header=None)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as CSV: {str(error).strip()}") from error


def _numbers(frame: pd.DataFrame, place: str | Path, dtype: Any) -> NDArray[Any]:
    try:
        values = frame.to_numpy(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{place}: {error}; every column after the file name must hold numbers") from error
    fine = np.isfinite(values) & (values == np.round(values) if dtype is np.int64 else True)
    if not fine.all():
        row, column = np.argwhere(~fine)[0]
        kind = "class index" if dtype is np.int64 else "number"
        raise DataError(f"{place}: line {row + 1} has {values[row, column]:g} where a {kind} should be")
    return values.astype(dtype)


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
    data: Path, noise: str = "low", *, seed: int = 0, answers_per_item: int | None = 1, image_size: int = 224
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
