"""Which rows are trained on, and which are held out."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..data import SPLITS, AnnotationTable, Inputs
from ..data.pi.random_pi import derive_seed
from ..errors import DataError, UsageError
from ..errors.messages import quoted
from ..files import release

TRAIN, VALID, TEST = range(len(SPLITS))  # codes of the splits
COMPARED, SAMPLE = 4_096, 2_000  # numbers of an input that are compared, and items that show how coarse inputs are
LARGEST = 0.2  # share of the items with one input, above which it is none: a blank text, or nothing at all


def split_rows(
    table: AnnotationTable,
    valid_fraction: float,
    seed: int,
    valid_items: int | None = None,
    items: NDArray[np.integer[Any]] | None = None,
) -> NDArray[np.int8]:
    """Return TRAIN, VALID or TEST for every row; an item that the table does not split is in one of them only.

    The table's own split is kept. Where it names no validation rows, items are drawn from the training rows, never so
    that a class or the training set is left empty. `items` are codes of the items of all rows, if not the table's.
    """
    if not 0 <= valid_fraction < 1:
        raise UsageError(f"valid_fraction must be at least 0 and below 1, not {valid_fraction}.")
    n = len(table)
    split = (
        table.frame["split"].cat.codes.to_numpy().astype(np.int8) if "split" in table.frame else np.zeros(n, np.int8)
    )
    items = table.item_codes if items is None else items
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


def same_inputs(inputs: Inputs, items: NDArray[np.integer[Any]], x_row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the code of every row's item; items with the same input, copies under other ids, share one.

    Inputs that are so coarse that items have the same one by chance (a category, an age) are no copies, nor is one that
    a fifth of the items have. Images that are read from files when they are needed are not compared.
    """
    x, of_item = inputs.array, np.arange(int(items.max(initial=0)) + 1)
    own: NDArray[np.int64] = of_item[items]
    if inputs.kind in ("probabilities", "none") or not isinstance(x, np.ndarray) or not x.size:
        return own
    present, first = np.unique(items, return_index=True)
    flat = x.reshape(len(x), -1)
    flat = flat[:, :: -(-flat.shape[1] // COMPARED)]
    digests: list[int] = []
    for part in np.array_split(x_row[first], len(first) // 4_096 + 1):
        digests += [hash(row.tobytes()) for row in np.ascontiguousarray(flat[part])]
        release(x)
    code, size = np.unique(digests, return_inverse=True, return_counts=True)[1:]
    copied = (size > 1) & (size <= max(1, LARGEST * len(present)))
    if not copied.any() or _is_coarse(flat[x_row[first[:: max(1, len(first) // SAMPLE)]]], len(first)):
        return own
    one = np.zeros(len(size), np.int64)
    one[code[::-1]] = present[::-1]  # the first with this input
    of_item[present] = np.where(copied[code], one[code], present)
    of_row: NDArray[np.int64] = of_item[items]
    return of_row


def _is_coarse(x: NDArray[Any], n: int) -> bool:
    """Return whether an item has the input of one of n others by chance: how often two share a column's value."""
    expected = float(n)
    for column in x.T:
        count = np.unique(column, return_counts=True)[1].astype(np.float64)
        expected *= float((count * (count - 1)).sum()) / max(1, len(x) * (len(x) - 1))
        if expected < 1:
            return False
    return True


def find_copies(table: AnnotationTable, together: NDArray[np.int64], *, own_split: bool) -> list[str]:
    """Warn of items that have the input of another, and of those that have that of one in another split."""
    names, items = table.frame["item"].cat.categories, table.item_codes
    of_item = np.arange(len(names))
    of_item[items] = together
    size = np.bincount(of_item, minlength=len(names))
    copies = np.flatnonzero(of_item != np.arange(len(names)))
    if not len(copies):
        return []
    one, other = (quoted(names[code]) for code in (of_item[copies[0]], copies[0]))
    found = [
        f"{int(size[size > 1].sum()):,} of the {len(names):,} items of {table.source} have the same input as another, "
        f"such as {one} and {other}: they are held out together. If they are copies of one item, give them one id."
    ]
    if own_split and "split" in table.frame:
        train = table.frame["split"].cat.codes.to_numpy() == TRAIN
        learned, held_out = (np.bincount(items[part], minlength=len(names)) > 0 for part in (train, ~train))
        held_out &= ~learned
        known = np.bincount(of_item[learned], minlength=len(names)) > 0
        leaked = np.flatnonzero(held_out & known[of_item])
        if len(leaked):
            like = np.flatnonzero(learned & (of_item == of_item[leaked[0]]))[0]
            found.append(
                f"{len(leaked):,} of the {int(held_out.sum()):,} items of {table.source} with split 'valid' or 'test' "
                f"have the same input as one with split 'train', such as {quoted(names[leaked[0]])} and "
                f"{quoted(names[like])}; put both in one split."
            )
    return found


def assign_folds(items: NDArray[np.integer], trained: NDArray[np.bool_], folds: int, seed: int) -> NDArray[np.int64]:
    """Assign every row's item a fold, 0 ... folds - 1 in equal shares; -1 for items without a row to train on."""
    of_item = np.full(int(items.max(initial=0)) + 1, -1, np.int64)
    known = np.flatnonzero(np.bincount(items[trained], minlength=len(of_item)))
    of_item[np.random.default_rng(derive_seed(seed, 9)).permutation(known)] = np.arange(len(known)) % max(1, folds)
    of_row: NDArray[np.int64] = of_item[items]
    return of_row


def find_split_problems(table: AnnotationTable) -> list[str]:
    """Warn of items that a table's own split has in two parts, and of classes it keeps out of training."""
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
    """Return the row of x of every item trained on: of its first annotation, where x has a row for each."""
    train = np.flatnonzero(split == TRAIN)
    repeated = pd.Series(table.item_codes[train]).duplicated().to_numpy()
    rows: NDArray[np.int64] = x_row[train[~repeated]]
    return rows
