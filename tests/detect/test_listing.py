"""Which labels are listed, against plain loops."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pidual.detect import Choice, expected_precision, list_labels, mark_issues
from pidual.errors import UsageError
from pidual.run.predictions import Predictions

CLASSES = ["cat", "dog", "owl"]


def make(n=90, seed=0):
    """Marked predictions of a crowd."""
    rng = np.random.default_rng(seed)
    label = rng.choice(3, n, p=[0.6, 0.35, 0.05])
    frame = pd.DataFrame(
        {
            "item": pd.Categorical(np.arange(n) // 2),
            "label": pd.Categorical.from_codes(label, CLASSES),
            "annotator": pd.Categorical(rng.choice(["ann", "bob", "7"], n)),
        }
    )
    quality = rng.choice(np.linspace(0, 1, 21), n).astype(np.float32)
    wrong = (label + rng.integers(1, 3, n)) % 3
    said = {"predicted_label": np.where(quality < 0.5, wrong, label)}
    said |= {"consensus_label": np.where(quality < 0.3, wrong, label)}
    sure = dict.fromkeys(("predicted_probability", "consensus_quality"), np.full(n, 0.7))
    return mark_issues(Predictions.build(frame, CLASSES, **said, **sure, label_quality=quality))[0]


MARKED = make()


def by_loops(predictions, choice):
    """Rows by the words of `Choice`."""
    rows = predictions.frame.to_dict("records")
    rows = [row for row in rows if not choice.classes or row["given_label"] in choice.classes]
    rows = [row for row in rows if not choice.annotators or row["annotator"] in choice.annotators]
    rows = sorted(rows, key=lambda row: (row["label_quality"], row["row"]))
    rows = [row for row in rows if row["rests_on_own_answer"]] if choice.resting else rows
    if choice.budget is not None:
        return [row["row"] for row in rows[: choice.budget]]
    if choice.per_class is not None:
        chosen = []
        for place in range(len(rows)):
            for row in rows:
                same = [other for other in rows if other["given_label"] == row["given_label"]]
                most = choice.per_class if choice.per_class >= 1 else math.ceil(round(len(same) * choice.per_class, 6))
                if place < most and place < len(same) and same[place] is row:
                    chosen.append(row["row"])
        return chosen
    if choice.cutoff is not None:
        rows = [row for row in rows if row["label_quality"] < choice.cutoff]
        return [row["row"] for row in rows]
    return [row["row"] for row in rows if choice.resting or row["is_label_issue"]]


@pytest.mark.parametrize(
    "choice",
    [
        Choice(),
        Choice(cutoff=0.3),
        Choice(budget=7),
        Choice(budget=1000),
        Choice(per_class=3),
        Choice(per_class=0.1),
        Choice(per_class=0.5, annotators=("ann", 7)),
        Choice(classes=("owl",)),
        Choice(classes=("owl", "cat"), annotators=("bob",), budget=5),
        Choice(annotators=("ann",), cutoff=0.4),
        Choice(resting=True),
        Choice(resting=True, budget=2),
    ],
)
def test_what_is_listed(choice):
    named = replace(choice, annotators=tuple(map(str, choice.annotators)))
    assert list_labels(MARKED, choice)["row"].tolist() == by_loops(MARKED, named)


def test_every_row_listed_has_its_reason_and_the_verdict_it_had():
    listed = list_labels(MARKED, Choice(budget=90))
    stored = MARKED.frame.iloc[listed["row"]]
    assert 0 < stored["is_label_issue"].sum() < 90
    assert (listed["is_label_issue"].to_numpy() == stored["is_label_issue"].to_numpy()).all()
    issues = listed["is_label_issue"].to_numpy()
    assert (listed["reason"].to_numpy()[issues] == stored["reason"].to_numpy()[issues]).all()
    assert (listed["reason"].str.len() > 10).all()
    assert not [name for name in listed if name.startswith("reason_")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 3, "cutoff": 0.1}, "cutoff and budget both choose what to list"),
        ({"cutoff": 0.3, "resting": True}, "cutoff and resting both choose what to list"),
        ({"budget": -1}, "The budget -1 is negative"),
        ({"cutoff": 20}, "The cut-off 20 is not between 0 and 1"),
        ({"cutoff": "lots"}, "The cut-off 'lots' is not between 0 and 1"),
        ({"per_class": 0}, "per_class must be a number of labels"),
        ({"per_class": 2.5}, "not 2.5"),
    ],
)
def test_choices_that_cannot_be(options, words):
    with pytest.raises(UsageError, match=words):
        Choice(**options)


def test_names_that_are_not_there():
    with pytest.raises(UsageError, match="There is no class 'cow'; known are cat, dog, owl"):
        list_labels(MARKED, Choice(classes=("cow",)))
    with pytest.raises(UsageError, match=r"There is no annotator 'zed'; known are 7, ann, bob\.$"):
        list_labels(MARKED, Choice(annotators=("zed",)))
    hidden = MARKED.frame.assign(annotator=pd.Categorical(["a-0123456789ab"] * len(MARKED)))
    with pytest.raises(UsageError, match="these are pseudonyms, and `pidual annotators RUN --names` says whose"):
        list_labels(Predictions(hidden, CLASSES), Choice(annotators=("ann",)))
    without = Predictions(MARKED.frame.drop(columns="annotator"), CLASSES)
    with pytest.raises(UsageError, match="Nothing is known about annotators"):
        list_labels(without, Choice(annotators=("ann",)))


def test_expected_precision():
    quality = np.array([0.1, 0.2, 0.3])
    assert expected_precision(quality) == pytest.approx((0.9 + 0.8 + 0.7) / 3)
    assert expected_precision([]) is None


def test_of_very_many_issues_the_worst_have_a_reason_and_a_list_tells_it_for_the_others(monkeypatch):
    monkeypatch.setattr("pidual.detect.cutoff.MOST_REASONS", 3)
    rng = np.random.default_rng(0)
    given, quality = rng.integers(0, 2, 40), np.r_[np.linspace(0.01, 0.2, 8), rng.uniform(0.9, 1, 32)]
    frame = pd.DataFrame({"item": pd.Categorical(range(40)), "label": np.array(["cat", "dog"])[given]})
    known = {"predicted_label": 1 - given, "predicted_probability": np.full(40, 0.8), "label_quality": quality}
    marked, _ = mark_issues(Predictions.build(frame, ["cat", "dog"], **known))
    assert marked.n_issues == 8
    assert np.flatnonzero(marked.frame["reason"] != "").tolist() == [0, 1, 2]
    listed = list_labels(marked, Choice(budget=10))
    assert len(listed) == 10
    assert (listed["reason"] != "").all()
    assert listed["reason"].str.count("The consensus is").max() == 1
