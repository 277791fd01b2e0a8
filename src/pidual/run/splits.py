"""Which rows are trained on, and which are held out."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data import SPLITS, AnnotationTable
from ..encode.random_pi import derive_seed
from ..errors import DataError, UsageError
from ..errors.messages import quoted

TRAIN, VALID, TEST = range(len(SPLITS))  # codes of the splits


def split_rows(
    table: AnnotationTable, valid_fraction: float, seed: int, valid_items: int | None = None
) -> NDArray[np.int8]:
    """The code of TRAIN, VALID or TEST for every row; an item that the table does not split is in one of them only.

    The table's own split is kept. Where it names no validation rows, items are drawn from the training rows, never so
    that a class or the training set is left empty.
    """
    if not 0 <= valid_fraction < 1:
        raise UsageError(f"valid_fraction must be at least 0 and below 1, not {valid_fraction}.")
    n = len(table)
    split = (
        table.frame["split"].cat.codes.to_numpy().astype(np.int8) if "split" in table.frame else np.zeros(n, np.int8)
    )
    items = table.item_codes
    if (split == TRAIN).sum() == 0:
        raise DataError(f"{table.source} has no row with split 'train'; there is nothing to learn from.")
    if (split == VALID).any() or valid_fraction == 0:
        return split
    candidates = np.flatnonzero(np.bincount(items[split == TRAIN]))  # np.unique takes seconds on long tables
    wanted = int(valid_fraction * len(candidates))
    wanted = wanted if valid_items is None else min(wanted, valid_items)
    drawn = np.random.default_rng(derive_seed(seed, 5)).permutation(candidates)[:wanted]
    held_out = np.zeros(int(items.max()) + 1, bool)
    held_out[drawn] = True
    valid = held_out[items] & (split == TRAIN)
    labels, k = table.label_codes, len(table.classes)
    lost = np.bincount(labels[(split == TRAIN) & ~valid], minlength=k) == 0
    valid &= ~lost[labels]  # a class whose rows were all drawn stays in training
    split[valid] = VALID
    return split


def assign_folds(items: NDArray[np.integer], trained: NDArray[np.bool_], folds: int, seed: int) -> NDArray[np.int64]:
    """Fold of the item of every row, 0 ... folds - 1 in equal shares; -1 for items without a row that is trained on."""
    of_item = np.full(int(items.max(initial=0)) + 1, -1, np.int64)
    known = np.flatnonzero(np.bincount(items[trained], minlength=len(of_item)))
    of_item[np.random.default_rng(derive_seed(seed, 9)).permutation(known)] = np.arange(len(known)) % max(1, folds)
    of_row: NDArray[np.int64] = of_item[items]
    return of_row


def find_split_problems(table: AnnotationTable) -> list[str]:
    """Warnings of items that a table's own split has in two parts, and of classes it keeps out of training."""
    if "split" not in table.frame:
        return []
    found = []
    names, items = table.frame["item"].cat.categories, table.item_codes
    train = table.frame["split"].cat.codes.to_numpy() == TRAIN
    learned, held_out = (np.bincount(items[part], minlength=len(names)) > 0 for part in (train, ~train))
    both = np.flatnonzero(learned & held_out)
    if len(both):
        (example,) = names[both[:1]].tolist()
        found.append(
            f"{len(both)} of the {len(names)} items of {table.source} have rows with split 'train' and others with "
            f"'valid' or 'test', such as {quoted(example)}; put all rows of an item in one split."
        )
    classes = table.classes
    lost = np.flatnonzero(np.bincount(table.label_codes[train], minlength=len(classes)) == 0)
    if len(lost):
        shown = ", ".join(quoted(classes[code]) for code in lost[:5])
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        found.append(
            f"{table.source} has no row with split 'train' and label {shown}{more}, which therefore cannot be learned; "
            "move rows to 'train', or remove these labels."
        )
    return found


def one_per_item(table: AnnotationTable, x_row: NDArray[np.int64], split: NDArray[np.int8]) -> NDArray[np.int64]:
    """The row of x of every item trained on: of its first annotation, where x has a row for each."""
    train = np.flatnonzero(split == TRAIN)
    repeated = pd.Series(table.item_codes[train]).duplicated().to_numpy()
    rows: NDArray[np.int64] = x_row[train[~repeated]]
    return rows
