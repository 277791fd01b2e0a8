"""Items with the same input under other ids: held out together, named, and counted as one where chance is concerned."""

import numpy as np
import pandas as pd
import pytest

from pidual.data import AnnotationTable, load_inputs
from pidual.fit.closed import fit_closed
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare
from pidual.fit.splits import assign_folds, same_inputs

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32)


def together(x, items=None):
    items = np.arange(len(x)) if items is None else items
    return same_inputs(load_inputs(np.asarray(x, np.float32)), items, np.arange(len(x)))


def test_items_with_the_same_input_have_the_code_of_the_first():
    assert np.array_equal(together(np.tile(X, (4, 1))), np.tile(np.arange(N), 4))
    assert np.array_equal(together(np.r_[X, X[5:6]])[-2:], [N - 1, 5])
    assert np.array_equal(together(X, np.arange(N) // 2), np.arange(N) // 2)  # an item's second row is not looked at
    images = np.tile(RNG.integers(0, 256, (N, 3, 4, 4), dtype=np.uint8), (2, 1, 1, 1))
    assert np.array_equal(together(images), np.tile(np.arange(N), 2))


COARSE = {
    "constant": np.ones((N, 3)),
    "a category": np.eye(5)[RNG.integers(0, 5, N)],
    "a category's number": RNG.integers(0, 20, (N, 1)),
    "age and sex": np.c_[RNG.integers(18, 80, 2000), RNG.integers(0, 2, 2000)],
    "a quarter is blank": np.r_[X, np.zeros((N // 3, 3))],
}


@pytest.mark.parametrize("x", COARSE.values(), ids=COARSE)
def test_inputs_that_are_the_same_by_chance_are_no_copies(x):
    assert np.array_equal(together(x), np.arange(len(x)))


def job_of(split=None, method="latent_truth", **options):
    """A job of 60 items, each there twice, under another id and with the same label."""
    frame = pd.DataFrame({"item": [f"{name}{i}" for name in "ab" for i in range(N)], "label": [0, 1, 2, 2] * (N // 2)})
    frame = frame if split is None else frame.assign(split=split)
    table = AnnotationTable.from_frame(frame, keep_ids=True)
    return prepare(table, load_inputs(np.tile(X, (2, 1))), FitOptions(method=method, **options))


def probabilities(job):
    """What fits without each item say about its classes."""
    return fit_closed(job).probabilities(np.arange(2 * N))


def test_copies_are_left_out_together_and_named():
    job = job_of()
    p = probabilities(job)
    assert np.array_equal(p[:N], p[N:])
    right = p.argmax(1) == job.table.label_codes  # half of the labels are 2, and x says nothing about them
    assert 0.3 < right.mean() < 0.6
    assert job.warnings == [
        "120 of the 120 items of table have the same input as another, such as 'a0' and 'b0': they are held out "
        "together. If they are copies of one item, give them one id."
    ]


def test_copies_in_train_and_test_are_named_and_judged_by_fits_that_have_not_seen_them():
    job = job_of(["train"] * (N + 20) + ["test"] * (N - 20))
    assert job.warnings[1] == (
        "40 of the 40 items of table with split 'valid' or 'test' have the same input as one with split 'train', such "
        "as 'b20' and 'a20'; put both in one split."
    )
    p = probabilities(job)
    assert np.array_equal(p[:N], p[N:])


def test_copies_are_in_one_fold():
    together, trained = np.tile(np.arange(N), 2), np.arange(2 * N) < N + 20
    fold = assign_folds(together, trained, 5, 0)
    assert np.array_equal(fold[:N], fold[N:])
    assert set(fold) == set(range(5))
