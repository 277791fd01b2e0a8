"""Sums of judged answers add up over parts, to what is said about all of them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pidual import UsageError, merge
from pidual.detect.annotators import describe_annotators
from pidual.detect.noise import noise_rate
from pidual.run.predictions import Predictions

CLASSES = ["a", "b", "c"]
RNG = np.random.default_rng(0)


def judged(n_items=120, *, people=True):
    """What `Run.judge` returns, of random numbers: six people answer each item, the last of them twice."""
    item, who = np.repeat(np.arange(n_items), 4), RNG.integers(0, 6, 4 * n_items)
    consensus = RNG.integers(0, 3, n_items)[item]
    given = np.where(RNG.random(len(item)) < 0.2 + 0.1 * who, RNG.integers(0, 3, len(item)), consensus)
    frame = pd.DataFrame({"item": item})
    frame["annotator"] = pd.Categorical([f"p{number}" for number in who])
    for name, codes in (("given_label", given), ("consensus_label", consensus)):
        frame[name] = pd.Categorical.from_codes(codes, pd.Index(CLASSES))
    frame["consensus_quality"] = RNG.random(n_items).astype(np.float32)[item]
    for name in ("label_quality", "wrong_if_shared", "wrong_if_independent", "gate"):
        frame[name] = RNG.random(len(item)).astype(np.float32)
    frame["wrong"] = 1 - frame["label_quality"]
    frame["is_label_issue"] = frame["label_quality"] < 0.3
    return frame if people else frame.drop(columns="annotator")


def in_parts(frame, n=5):
    """The rows of some items each, in another order, as pandas, as Arrow without categories, and as sums."""
    part = frame["item"].to_numpy() % n
    parts = [
        frame[part == number].sample(frac=1, random_state=number).sort_values("item", kind="stable")
        for number in range(n)
    ]
    plain = pa.Table.from_pandas(parts[1].astype({"given_label": str, "consensus_label": str}), preserve_index=False)
    return [parts[0], plain, merge(parts[2]), merge(parts[3:]), frame.head(0)]


@pytest.mark.parametrize("people", [True, False])
def test_parts_add_up_to_the_whole(people):
    frame = judged(people=people)
    frame = frame.drop_duplicates(["item", "annotator"]) if people else frame
    whole, together = merge([frame]), merge(in_parts(frame))
    assert (together.n_rows, together.n_items, together.n_issues) == (len(frame), 120, frame["is_label_issue"].sum())
    for name in ("rate", "low", "high"):
        assert getattr(together.noise, name) == pytest.approx(getattr(whole.noise, name), rel=1e-12)
    if not people:
        assert together.annotators is None
        return
    pd.testing.assert_frame_equal(together.annotators, whole.annotators, rtol=1e-6)
    assert repr(together) == f"Totals({len(frame)} labels of 120 items, {together.n_issues} look wrong)"


def test_sums_say_what_a_run_says():
    frame = judged().drop_duplicates(["item", "annotator"], ignore_index=True)
    found, stated = merge(frame), 1 - frame[["wrong_if_shared", "wrong_if_independent"]].to_numpy().T
    expected = noise_rate(frame["item"], frame["label_quality"], stated)
    for name in ("rate", "low", "high"):
        assert getattr(found.noise, name) == pytest.approx(getattr(expected, name), rel=1e-6)
    columns = {name: frame[name].cat.codes for name in ("given_label", "consensus_label")}
    predictions = Predictions.build(
        frame[["item", "annotator"]].assign(label=frame["given_label"]),
        CLASSES,
        predicted_label=columns["consensus_label"],
        predicted_probability=frame["consensus_quality"],
        label_quality=frame["label_quality"],
        gate=frame["gate"],
    ).with_issues(frame["is_label_issue"])
    of_run = describe_annotators(predictions, frame["label_quality"], most=stated[1])
    names = [name for name in found.annotators if name != "annotator"]
    assert {*of_run} - {*names} == {"annotator", "agreement", "copies", "mean_gate"}
    assert found.annotators["annotator"].astype(str).tolist() == of_run["annotator"].astype(str).tolist()
    pd.testing.assert_frame_equal(found.annotators[names], of_run[names], rtol=1e-5)


def test_rows_of_one_person_on_one_item_are_one_answer():
    frame = judged().drop_duplicates(["item", "annotator"], ignore_index=True)
    twice = pd.concat([frame.head(50).assign(wrong=0.0, label_quality=1.0), frame], ignore_index=True)
    assert merge(twice).noise == merge(frame).noise
    assert merge(twice).n_rows == len(frame) + 50
    np.testing.assert_array_equal(merge(twice).annotators["num_labelled"], merge(frame).annotators["num_labelled"])


def test_nothing_adds_up_to_nothing():
    empty = merge(judged().head(0))
    assert (empty.n_rows, empty.n_items, empty.noise.rate, empty.annotators) == (0, 0, 0.0, None)


@pytest.mark.parametrize("parts", [[], [pd.DataFrame({"item": [1]})], [3]])
def test_what_is_not_judged_is_refused(parts):
    with pytest.raises(UsageError, match=r"Run\.judge"):
        merge(parts)
