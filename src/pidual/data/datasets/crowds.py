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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import DataError, UsageError
from .. import Inputs, load_inputs
from .base import NoisyDataset, need_file, read_columns, whole_numbers
from .cifar import Images, cifar100_classes, load_cifar100

FOLDER = "crowds"


@dataclass(frozen=True, eq=False)
class Crowd:
    """The files of a crowd, what is in them, and where they are published.

    Parameters
    ----------
    answers, texts : str
        Files of the answers and of the texts, where there are any.
    text_columns : tuple of str
        Columns of the texts.
    classes : list of str
    pi : mapping
        PI column -> kind.
    source : str
    gold_everywhere : bool
        Whether every item has a gold label.
    """

    answers: str
    classes: list[str]
    pi: Mapping[str, str]
    source: str
    texts: str = ""
    text_columns: tuple[str, ...] = ()
    gold_everywhere: bool = True


WHO = {"annotator": "category"}
SM500 = Crowd(
    "cifar100_sm500.csv",
    ["hamster", "mouse", "rabbit", "shrew", "squirrel"],
    {**WHO, "trial": "number"},
    "https://github.com/alicejimmy/CLIG-FAPT-FATEL",
)
MEDICAL = Crowd(
    "medical_treat.csv",
    ["no", "yes"],
    {**WHO, "seconds": "duration", "trial": "number", "ticked": "number", "channel": "category", "country": "category"},
    "https://github.com/CrowdTruth/Medical-Relation-Extraction",
    "medical_treat_sentences.csv",
    ("sentence", "term1", "term2"),
    gold_everywhere=False,
)
EMOTION = Crowd(
    "llm_emotion.csv",
    ["Anger", "Fear", "Joy", "Love", "Sadness", "Surprise"],
    WHO,
    "https://github.com/SALT-NLP/LLMs_for_CSS",
    "llm_emotion_texts.csv",
    ("text",),
)


def load_cifar100_sm500(data: Path) -> NoisyDataset:
    """500 CIFAR-100 training images of five small mammals, each named by the same 11 people; PI: who, and their trial.

    Its test set are the CIFAR-100 test images of these animals.

    `data`: folder with crowds and CIFAR-100.
    """
    answers = read_answers(data, SM500)
    train, test, names = load_cifar100(data, "train"), load_cifar100(data, "test"), cifar100_classes(data)
    check_images(answers, train, names, data / FOLDER / SM500.answers)
    asked, item = np.unique(answers["item"], return_inverse=True)
    numbers = np.asarray([names.index(name) for name in SM500.classes])
    unseen = np.flatnonzero(np.isin(test.y, numbers))
    y_test = np.argmax(test.y[unseen][:, None] == numbers, axis=1)
    return NoisyDataset(
        "cifar100_sm500",
        answers.assign(item=item),
        SM500.pi,
        train.x[asked],
        test.x[unseen],
        y_test,
        SM500.classes,
        {"items": asked.tolist()},
    )


def load_medical_treat(data: Path, *, seed: int = 0, held_out: float = 0.4) -> NoisyDataset:
    """468 crowd workers on 3,231 sentences: does the sentence say that its first term treats the second?

    PI: the worker, seconds, number of the trial, number of relations ticked, channel and country. Experts have judged
    606 sentences; y is missing for the others.

    `data`: folder with crowds.
    `seed`: which sentences are held out.
    `held_out`: share of the sentences with gold that are the test set, without their answers.
    """
    return _text_dataset("medical_treat", data, MEDICAL, seed, held_out)


def load_llm_emotion(data: Path, *, seed: int = 0, held_out: float = 0.2) -> NoisyDataset:
    """12 language models and a trained classifier on 498 texts, six emotions; PI: which model answered.

    `data`: folder with crowds.
    `seed`: which texts are held out.
    `held_out`: share of the texts that are the test set, without their answers.
    """
    return _text_dataset("llm_emotion", data, EMOTION, seed, held_out)


def read_answers(data: Path, crowd: Crowd) -> pd.DataFrame:
    """Return a row per answer: item as in the file, label and y as numbers of classes (y may be missing), and PI."""
    path = need_file(data / FOLDER, crowd.answers, f"{crowd.answers}.gz", source=crowd.source)
    frame = read_columns(path, ["item", "label", "gold", *crowd.pi], crowd.source)
    item = whole_numbers(frame, "item", path)
    label = _codes(frame, "label", crowd.classes, path)
    gold = _codes(frame, "gold", crowd.classes, path, missing=not crowd.gold_everywhere)
    for column, kind in crowd.pi.items():
        _check_pi(frame, column, kind, path)
    different = pd.DataFrame({"item": item, "gold": gold}).groupby("item")["gold"].transform("nunique") > 1
    if different.any():
        row = int(np.argmax(different))
        raise DataError(f"{path}, row {row} (counted from 0): item {item[row]} has two gold labels; get it again.")
    known = pd.Series(gold)
    y = known if (gold >= 0).all() else known.astype("Int64").mask(gold < 0)
    return pd.DataFrame({"item": item, "label": label, "y": y, **{column: frame[column] for column in crowd.pi}})


def read_texts(data: Path, crowd: Crowd) -> pd.DataFrame:
    """Return the texts of every item, by item."""
    path = need_file(data / FOLDER, crowd.texts, f"{crowd.texts}.gz", source=crowd.source)
    columns, source = crowd.text_columns, crowd.source
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
    lost = [name for name in SM500.classes if name not in names]
    if lost:
        raise DataError(
            f"CIFAR-100 has no class {lost[0]!r} here; its names of the fine classes are not the published ones."
        )
    numbers = np.asarray([names.index(name) for name in SM500.classes])
    differ = numbers[answers["y"].to_numpy(np.int64)] != images.y[item]
    if differ.any():
        row = int(np.argmax(differ))
        raise DataError(
            f"{path}, row {row} (counted from 0): image {item[row]} is a {SM500.classes[answers['y'][row]]} there and "
            f"a {names[images.y[item[row]]]} in CIFAR-100; the images must be CIFAR-100's training images in their "
            "published order."
        )


def _text_dataset(name: str, data: Path, crowd: Crowd, seed: int, held_out: float) -> NoisyDataset:
    """Make vectors of the texts as `pidual fit --x-text` makes them, from the texts trained on alone.

    `about` names the items (as in the files) of the rows of x and of x_test.
    """
    answers, texts = read_answers(data, crowd), read_texts(data, crowd)
    text = texts[list(crowd.text_columns)].agg(" ".join, axis=1)
    unknown = ~answers["item"].isin(texts.index)
    if unknown.any():
        row = int(np.argmax(unknown))
        raise DataError(
            f"{data / FOLDER}: row {row} (counted from 0) of the answers is about item {answers['item'][row]}, which "
            "has no text; the two files must be of one release."
        )
    gold = answers.dropna(subset="y").drop_duplicates("item").set_index("item")["y"].sort_index()
    test = _draw_held_out(gold.index.to_numpy(), held_out, seed)
    kept = answers[~answers["item"].isin(test)].reset_index(drop=True)
    items, rows = np.unique(kept["item"], return_inverse=True)
    x, x_test = _text_vectors(text[items], text[test], name)
    about = {"items": items.tolist(), "test_items": test.tolist()}
    y_test = gold[test].to_numpy(np.int64)
    return NoisyDataset(name, kept.assign(item=rows), crowd.pi, x, x_test, y_test, crowd.classes, about)


def _draw_held_out(items: NDArray[np.int64], share: float, seed: int) -> NDArray[np.int64]:
    """Draw a share of the items, drawn by the seed."""
    if not 0 <= share < 1:
        raise UsageError(f"held_out is a share of at least 0 and below 1, not {share}.")
    return np.sort(np.random.default_rng(seed).permutation(items)[: round(share * len(items))])


def _text_vectors(texts: "pd.Series[str]", test: "pd.Series[str]", name: str) -> tuple[Inputs, Inputs]:
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
