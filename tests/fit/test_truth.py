"""`pidual fit --truth`: classes of items that are known, such as from a review."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli, write_crowd

from pidual.api.fit import fit_table
from pidual.api.run import Run
from pidual.data import AnnotationTable, no_inputs, read_table, read_truth
from pidual.errors import DataError

pytestmark = pytest.mark.shapes_unchecked

WORDS = ["fit", "labels.csv", "--x", "x.npy", "--pi", "annotator,seconds", "--quiet", "--out"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A crowd, a file with the true classes of 40 of its 60 items, and runs with and without it."""
    folder = write_crowd(tmp_path_factory.mktemp("crowd"), seed=3)
    clean = pd.read_csv(folder / "labels.csv").drop_duplicates("item")[["item", "y"]]
    truth = clean.rename(columns={"y": "truth"}).head(45)
    truth.loc[truth.index[40:], "truth"] = ""  # cannot tell
    truth.to_csv(folder / "truth.csv", index=False)
    with contextlib.chdir(folder):
        for more in (["told", "--truth", "truth.csv"], ["untold"]):
            code, _, err = run_cli([*WORDS, *more])
            assert code == 0, err
    return folder


def test_known_classes_are_the_consensus_and_say_which_labels_are_right(folder):
    told, untold = Run.open(folder / "told"), Run.open(folder / "untold")
    y = pd.read_csv(folder / "labels.csv").drop_duplicates("item").set_index("item")["y"]
    known = pd.read_csv(folder / "truth.csv").dropna()["item"]
    items = told.items.assign(item=told.items["item"].astype(int)).set_index("item")
    assert (items.loc[known, "consensus_label"].astype(str) == y.loc[known]).all()
    np.testing.assert_allclose(items.loc[known, "consensus_quality"], 1, atol=1e-6)
    frame = told.predictions.frame
    of_known = frame["item"].astype(int).isin(known).to_numpy()
    right = (frame["given_label"].astype(str) == frame["y"].astype(str)).to_numpy()
    np.testing.assert_allclose(frame["label_quality"][of_known], right[of_known], atol=1e-6)
    assert told.config.data.n_known_items == 40
    assert told.config.source.truth == "truth.csv"
    assert untold.config.data.n_known_items is None


def test_what_is_known_of_some_items_tells_of_the_others(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    liars = np.arange(5) < 3  # who say the next class, and are the majority
    said = (y[:, None] + np.where(rng.random((120, 5)) < 0.9, liars, rng.integers(0, 3, (120, 5)))) % 3
    frame = pd.DataFrame(
        {"item": np.repeat(np.arange(120), 5), "label": said.ravel(), "annotator": np.tile(list("abcde"), 120)}
    )
    table = AnnotationTable.from_frame(frame, pi=["annotator"], keep_ids=True)
    told = fit_table(table, no_inputs(), tmp_path / "told", truth=np.where(frame["item"] < 60, y[frame["item"]], -1))
    untold = fit_table(table, no_inputs(), tmp_path / "untold")
    right = [(run.items["consensus_label"].astype(int).to_numpy() == y)[60:].mean() for run in (told, untold)]
    assert right[0] > 0.9 > 0.2 > right[1]


def test_a_run_goes_on_only_with_what_was_known(folder):
    with contextlib.chdir(folder):
        code, _, err = run_cli([*WORDS, "told", "--resume"])
        assert (code, "was started with" in err) == (1, True)
        assert run_cli([*WORDS, "told", "--resume", "--truth", "truth.csv"])[0] == 0


def test_what_is_known_of_each_annotation(folder):
    table = read_table(folder / "labels.csv")
    truth = read_truth(folder / "truth.csv", table)
    known = dict(pd.read_csv(folder / "truth.csv").dropna().itertuples(index=False))
    expected = [table.classes.index(known[item]) if item in known else -1 for item in table.frame["item"]]
    assert truth.tolist() == expected


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"item": [999], "truth": ["cat"]}, r"the item '?\"?999.*not in .*labels.csv"),
        ({"item": [1], "truth": ["bird"]}, r"the label .*bird.*not in .*labels.csv"),
        ({"item": [1, 2, 1], "truth": ["cat", "cat", "dog"]}, "item .*1.* two classes"),
        ({"item": [1], "other": ["cat"]}, "has no column 'truth'"),
        ({"thing": [1], "truth": ["cat"]}, "has no column 'item'"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(folder, rows, said):
    with pytest.raises(DataError, match=said):
        read_truth(pd.DataFrame(rows), read_table(folder / "labels.csv"))
