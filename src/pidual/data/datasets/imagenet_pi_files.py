"""ImageNet-PI's file format: the answers of every annotator to every item, in headerless CSV files.

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

from ...errors import DataError
from ...files import replacing
from .locate import MissingError
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
    """Find the first of these files that is there."""
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
    """Return the frame's values as numbers of this type."""
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
