"""The tables that are rare or hard: sizes, noise, who was planted, and that a seed is a table."""

import numpy as np
import pandas as pd
import pytest

from pidual.data import AnnotationTable, Inputs

SIZES = {  # annotations, items, annotators (0: none are known), classes
    "topics": (1500, 500, 7, 4),
    "spammers": (5391, 1797, 30, 10),
    "wide_table": (5389, 1797, 12, 10),
    "messy_labels": (1500, 1500, 12, 5),
    "fraud": (10_000, 5000, 4, 2),
    "one_annotator": (569, 569, 0, 2),
    "many_annotators": (6000, 1500, 2000, 10),
    "few_mistakes": (1797, 1797, 5, 10),
    "adversaries": (3594, 1797, 10, 10),
    "small_images": (1000, 500, 4, 10),
    "no_pi": (178, 178, 0, 3),
    "idle_pi": (569, 569, 0, 2),
}


@pytest.fixture(scope="module")
def cases(benchmark):
    found = benchmark("hard_cases")
    assert list(found.HARD_CASES) == list(SIZES)
    return found


@pytest.fixture(scope="module")
def tables(cases):
    return {name: make() for name, (make, _) in cases.HARD_CASES.items()}


def wrong(data):
    return data.frame["label"] != data.frame["y"]


@pytest.mark.parametrize("name", SIZES)
def test_sizes_noise_and_promises(cases, tables, name):
    data, (n, items, people, classes) = tables[name], SIZES[name]
    frame = data.frame
    assert data.name == name
    assert (len(frame), len(data.x), len(data.classes)) == (n, items, classes)
    assert (frame["annotator"].nunique() if "annotator" in frame else 0) == people
    assert data.noise_rate == pytest.approx(cases.HARD_CASES[name][1], abs=0.005)
    assert list(frame) == ["item", *data.pi, "label", "y"]
    assert frame["item"].between(0, items - 1).all()
    assert set(frame["label"]) | set(frame["y"]) <= set(range(classes))
    assert frame.groupby("item")["y"].nunique().eq(1).all()
    assert not frame.duplicated(["item", "annotator"] if people else ["item"]).any()
    assert len(data.x_test) == len(data.y_test)
    x = data.x.array if isinstance(data.x, Inputs) else data.x
    assert x.dtype == (np.uint8 if name == "small_images" else np.float32)
    assert np.isfinite(x).all()
    AnnotationTable.from_frame(frame, pi=list(data.pi))


@pytest.mark.parametrize("name", SIZES)
def test_a_seed_is_a_table(cases, tables, name):
    make = cases.HARD_CASES[name][0]
    again, other = make(), make(seed=1)
    pd.testing.assert_frame_equal(tables[name].frame, again.frame)
    assert tables[name].fingerprint() == again.fingerprint()
    assert not tables[name].frame["label"].equals(other.frame["label"])
    assert other.noise_rate == pytest.approx(tables[name].noise_rate, abs=0.02)


@pytest.mark.parametrize("name", ["topics", "spammers", "wide_table", "messy_labels", "adversaries", "small_images"])
def test_planted_annotators_are_the_worst(tables, name):
    data = tables[name]
    rate = wrong(data).groupby(data.frame["annotator"]).mean()
    bad = data.about["bad"]
    assert rate[bad].min() > 2 * rate.drop(bad).max()
    assert len(bad) == {"topics": 2, "spammers": 9, "adversaries": 4, "small_images": 2}.get(name, 3)


def test_lee_misses_frauds_and_nothing_else(tables):
    frame = tables["fraud"].frame
    rate = wrong(tables["fraud"]).groupby([frame["y"], frame["annotator"]]).mean()
    assert rate[1]["lee"] == pytest.approx(0.72, abs=0.05)
    assert rate[1].drop("lee").max() < 0.15
    assert rate[0].max() < 0.02
    assert frame["y"].mean() == pytest.approx(0.022, abs=0.002)


def test_the_wide_table_holds_the_same_answers(tables):
    data = tables["wide_table"]
    wide = data.about["wide"]
    assert wide.shape == (1797, 13)
    long = wide.melt("item", var_name="annotator", value_name="label").dropna().astype({"label": np.int64})
    keys = ["item", "annotator"]
    expected = data.frame[[*keys, "label"]].sort_values(keys, ignore_index=True)
    pd.testing.assert_frame_equal(long.sort_values(keys, ignore_index=True), expected, check_dtype=False)


def test_wrong_answers_are_quick_where_times_tell_and_idle_pi_tells_nothing(cases, tables):
    for name in ("one_annotator", "messy_labels", "few_mistakes"):
        seconds = np.log(tables[name].frame["seconds"])
        assert seconds[wrong(tables[name])].mean() < seconds[~wrong(tables[name])].mean() - 0.4
    rates, gaps = [], []
    for seed in range(10):
        data = cases.idle_pi(seed=seed)
        rates.append(data.noise_rate)
        gaps.append(data.frame["degrees"][wrong(data)].mean() - data.frame["degrees"][~wrong(data)].mean())
    assert rates == pytest.approx([66 / 569] * 10, abs=1 / 569)
    assert abs(np.mean(gaps)) < 1
