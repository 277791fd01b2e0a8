"""Three crowds with many answers per item: small mammals, medical relations, and emotions read by language models.

    DATA/crowds/cifar100_sm500.csv               item (a CIFAR-100 training image), label, annotator, trial, gold
    DATA/cifar-100-binary/                       (or -python) the images
    DATA/crowds/medical_treat.csv.gz             item, label, annotator, seconds, trial, ticked, channel, country, gold
    DATA/crowds/medical_treat_sentences.csv.gz   item, sentence, term1, term2
    DATA/crowds/llm_emotion.csv                  item, label, annotator, gold
    DATA/crowds/llm_emotion_texts.csv            item, text

The .gz files may also lie there unpacked. Of the two that are text there is no test set, so that items with gold are
held out, with all their answers.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, UsageError
from .. import Inputs, load_inputs
from .base import NoisyDataset
from .cifar import Images, cifar100_classes, load_cifar100
from .locate import need_file, read_columns, whole_numbers

FOLDER = "crowds"
SM500, SM500_SOURCE = "cifar100_sm500.csv", "https://github.com/alicejimmy/CLIG-FAPT-FATEL"
MAMMALS = ["hamster", "mouse", "rabbit", "shrew", "squirrel"]
SM500_PI = {"annotator": "category", "trial": "number"}

MEDICAL, MEDICAL_TEXTS = "medical_treat.csv", "medical_treat_sentences.csv"
MEDICAL_SOURCE = "https://github.com/CrowdTruth/Medical-Relation-Extraction"
RELATION = ["no", "yes"]
MEDICAL_PI = {
    "annotator": "category",
    "seconds": "duration",
    "trial": "number",
    "ticked": "number",
    "channel": "category",
    "country": "category",
}
SENTENCE_COLUMNS = ("sentence", "term1", "term2")

EMOTION, EMOTION_TEXTS = "llm_emotion.csv", "llm_emotion_texts.csv"
EMOTION_SOURCE = "https://github.com/SALT-NLP/LLMs_for_CSS"
EMOTIONS = ["Anger", "Fear", "Joy", "Love", "Sadness", "Surprise"]
EMOTION_PI = {"annotator": "category"}


def load_cifar100_sm500(data: Path) -> NoisyDataset:
    """500 CIFAR-100 training images of five small mammals, each named by the same 11 people; PI: who, and their trial.

    Its test set are the CIFAR-100 test images of these animals.

    Parameters
    ----------
    data : Path
        Folder with crowds and CIFAR-100.
    """
    answers = read_answers(data, SM500, MAMMALS, SM500_PI, SM500_SOURCE)
    train, test, names = load_cifar100(data, "train"), load_cifar100(data, "test"), cifar100_classes(data)
    check_images(answers, train, names, data / FOLDER / SM500)
    asked, item = np.unique(answers["item"], return_inverse=True)
    numbers = np.asarray([names.index(name) for name in MAMMALS])
    unseen = np.flatnonzero(np.isin(test.y, numbers))
    y_test = np.argmax(test.y[unseen][:, None] == numbers, axis=1)
    return NoisyDataset(
        "cifar100_sm500",
        answers.assign(item=item),
        SM500_PI,
        train.x[asked],
        test.x[unseen],
        y_test,
        MAMMALS,
        {"items": asked.tolist()},
    )


def load_medical_treat(data: Path, *, seed: int = 0, held_out: float = 0.4) -> NoisyDataset:
    """468 crowd workers on 3,231 sentences: does the sentence say that its first term treats the second?

    PI: the worker, seconds, number of the trial, number of relations ticked, channel and country. Experts have judged
    606 sentences; y is missing for the others.

    Parameters
    ----------
    data : Path
        Folder with crowds.
    seed : int
        Which sentences are held out.
    held_out : float
        Share of the sentences with gold that are the test set, without their answers.
    """
    answers = read_answers(data, MEDICAL, RELATION, MEDICAL_PI, MEDICAL_SOURCE, gold_everywhere=False)
    texts = read_texts(data, MEDICAL_TEXTS, SENTENCE_COLUMNS, MEDICAL_SOURCE)
    text = texts["sentence"] + " " + texts["term1"] + " " + texts["term2"]
    return text_dataset("medical_treat", answers, text, MEDICAL_PI, RELATION, data / FOLDER, seed, held_out)


def load_llm_emotion(data: Path, *, seed: int = 0, held_out: float = 0.2) -> NoisyDataset:
    """12 language models and a trained classifier on 498 texts, six emotions; PI: which model answered.

    Parameters
    ----------
    data : Path
        Folder with crowds.
    seed : int
        Which texts are held out.
    held_out : float
        Share of the texts that are the test set, without their answers.
    """
    answers = read_answers(data, EMOTION, EMOTIONS, EMOTION_PI, EMOTION_SOURCE)
    texts = read_texts(data, EMOTION_TEXTS, ("text",), EMOTION_SOURCE)
    return text_dataset("llm_emotion", answers, texts["text"], EMOTION_PI, EMOTIONS, data / FOLDER, seed, held_out)


def read_answers(
    data: Path,
    name: str,
    classes: Sequence[str],
    pi: Mapping[str, str],
    source: str,
    *,
    gold_everywhere: bool = True,
) -> pd.DataFrame:
    """One row per answer: item as in the file, label and y as numbers of `classes` (y may be missing), and the PI."""
    path = need_file(data / FOLDER, name, f"{name}.gz", source=source)
    frame = read_columns(path, ["item", "label", "gold", *pi], source)
    item = whole_numbers(frame, "item", path)
    label = _codes(frame, "label", classes, path)
    gold = _codes(frame, "gold", classes, path, missing=not gold_everywhere)
    for column, kind in pi.items():
        _check_pi(frame, column, kind, path)
    different = pd.DataFrame({"item": item, "gold": gold}).groupby("item")["gold"].transform("nunique") > 1
    if different.any():
        row = int(np.argmax(different))
        raise DataError(f"{path}, row {row} (counted from 0): item {item[row]} has two gold labels; get it again.")
    known = pd.Series(gold)
    y = known if (gold >= 0).all() else known.astype("Int64").mask(gold < 0)
    return pd.DataFrame({"item": item, "label": label, "y": y, **{column: frame[column] for column in pi}})


def read_texts(data: Path, name: str, columns: Sequence[str], source: str) -> pd.DataFrame:
    """The texts of every item, by item."""
    path = need_file(data / FOLDER, name, f"{name}.gz", source=source)
    frame = read_columns(path, ["item", *columns], source)
    item = whole_numbers(frame, "item", path)
    for column in columns:
        absent = frame[column].isna().to_numpy()
        if absent.any():
            row = int(np.argmax(absent))
            raise DataError(
                f"{path}, row {row} (counted from 0), column {column!r} is empty; get it again from {source}."
            )
    repeated = pd.Series(item).duplicated().to_numpy()
    if repeated.any():
        row = int(np.argmax(repeated))
        raise DataError(
            f"{path}, row {row} (counted from 0): item {item[row]} is there twice; get it again from {source}."
        )
    return frame[list(columns)].astype(str).set_index(pd.Index(item, name="item"))


def check_images(answers: pd.DataFrame, images: Images, names: Sequence[str], path: Path) -> None:
    """Raise unless the answers are about these images."""
    item = answers["item"].to_numpy(np.int64)
    if item.min() < 0 or item.max() >= len(images.y):
        raise DataError(f"{path} names images {item.min()} to {item.max()}; there are {len(images.y):,}.")
    lost = [name for name in MAMMALS if name not in names]
    if lost:
        raise DataError(
            f"CIFAR-100 has no class {lost[0]!r} here; its names of the fine classes are not the published ones."
        )
    numbers = np.asarray([names.index(name) for name in MAMMALS])
    differ = numbers[answers["y"].to_numpy(np.int64)] != images.y[item]
    if differ.any():
        row = int(np.argmax(differ))
        raise DataError(
            f"{path}, row {row} (counted from 0): image {item[row]} is a {MAMMALS[answers['y'][row]]} there and a "
            f"{names[images.y[item[row]]]} in CIFAR-100; the images must be CIFAR-100's training images in their "
            "published order."
        )


def text_dataset(
    name: str,
    answers: pd.DataFrame,
    texts: "pd.Series[str]",
    pi: Mapping[str, str],
    classes: Sequence[str],
    folder: Path,
    seed: int,
    held_out: float,
) -> NoisyDataset:
    """Answers to texts, which become vectors as `pidual fit --x-text` makes them, from the texts trained on alone.

    `about` names the items (as in the files) of the rows of x and of x_test.
    """
    unknown = ~answers["item"].isin(texts.index)
    if unknown.any():
        row = int(np.argmax(unknown))
        raise DataError(
            f"{folder}: row {row} (counted from 0) of the answers is about item {answers['item'][row]}, which has no "
            "text; the two files must be of one release."
        )
    gold = answers.dropna(subset="y").drop_duplicates("item").set_index("item")["y"].sort_index()
    test = draw_held_out(gold.index.to_numpy(), held_out, seed)
    kept = answers[~answers["item"].isin(test)].reset_index(drop=True)
    items, rows = np.unique(kept["item"], return_inverse=True)
    x, x_test = text_vectors(texts[items], texts[test], name)
    about = {"items": items.tolist(), "test_items": test.tolist()}
    y_test = gold[test].to_numpy(np.int64)
    return NoisyDataset(name, kept.assign(item=rows), pi, x, x_test, y_test, list(classes), about)


def draw_held_out(items: NDArray[np.int64], share: float, seed: int) -> NDArray[np.int64]:
    """A share of the items, drawn by the seed."""
    if not 0 <= share < 1:
        raise UsageError(f"held_out is a share of at least 0 and below 1, not {share}.")
    return np.sort(np.random.default_rng(seed).permutation(items)[: round(share * len(items))])


def text_vectors(texts: "pd.Series[str]", test: "pd.Series[str]", name: str) -> tuple[Inputs, Inputs]:
    """Vectors of the texts trained on, and of others in the same directions."""
    inputs = load_inputs(pd.DataFrame({"text": texts.to_numpy()}), text="text")
    if len(test):
        others = load_inputs(
            pd.DataFrame({"text": test.to_numpy()}), schema=inputs.schema, tensors=inputs.tensors
        ).array
    else:
        others = np.zeros((0, *inputs.array.shape[1:]), np.float32)
    return inputs, Inputs(others, None, inputs.kind, inputs.schema, inputs.tensors, source=name)


def _codes(
    frame: pd.DataFrame, column: str, classes: Sequence[str], path: Path, *, missing: bool = False
) -> NDArray[np.int64]:
    """Names of classes as numbers, -1 where they are missing and may be; an error names the first that is none."""
    codes = pd.Index(classes).get_indexer(pd.Index(frame[column])).astype(np.int64)
    bad = (codes < 0) & ~(frame[column].isna().to_numpy() & missing)
    if bad.any():
        row = int(np.argmax(bad))
        value: Any = frame[column].iloc[row]
        raise DataError(
            f"{path}, row {row} (counted from 0), column {column!r}: '{value}' is none of {', '.join(classes)}."
        )
    return codes


def _check_pi(frame: pd.DataFrame, column: str, kind: str, path: Path) -> None:
    """Raise where a PI column has a value that is missing, or no number where it should be one."""
    values = frame[column] if kind == "category" else pd.to_numeric(frame[column], errors="coerce")
    bad = values.isna().to_numpy()
    if bad.any():
        row = int(np.argmax(bad))
        wanted = "is missing" if kind == "category" else f"'{frame[column].iloc[row]}' is not a number"
        raise DataError(f"{path}, row {row} (counted from 0), column {column!r}: {wanted}.")
