import json
import warnings

import numpy as np
import pandas as pd
import pytest

from pidual.data import AnnotationTable
from pidual.data.datasets.relabel import sample_annotations
from pidual.data.pi import PIEncoder, guess_kind
from pidual.errors import DataError, DataWarning, UsageError


def make_table(**columns):
    n = len(next(iter(columns.values())))
    frame = pd.DataFrame({"item": range(n), "label": [0, 1] * (n // 2), **columns})
    return AnnotationTable.from_frame(frame, pi=list(columns), key=b"k" * 32)


def test_categories_get_codes_and_rare_ones_share_one():
    table = make_table(annotator=["ann", "bob", "ann", "bob", "cy", "dee"])
    encoder = PIEncoder().fit(table)
    codes = encoder.transform(table).codes[:, 0]
    assert codes[0] == codes[2] != codes[1] == codes[3]
    assert codes[4] == codes[5] == 2  # "other"
    assert encoder.cardinalities == (3,)


@pytest.mark.parametrize(("n", "needed"), [(40, 2), (98, 2), (150, 3), (300, 6), (500, 10), (5000, 10)])
def test_categories_of_other_columns_need_more_rows_than_annotators(n, needed):
    names = np.repeat(["all", "enough", "few"], [n - 2 * needed + 1, needed, needed - 1])
    columns = PIEncoder().fit(make_table(annotator=names, tool=names)).columns_
    assert [column.categories for column in columns][1] == ["all", "enough"]
    assert len(columns[0].categories) == 3 - (needed == 2)
    assert [column.other for column in columns] == [needed == 2, True]


def test_missing_category_has_its_own_code_and_unseen_goes_to_other():
    table = make_table(tool=["a", "a", None, "b", "b", "c"])
    encoder = PIEncoder().fit(table)
    np.testing.assert_array_equal(encoder.transform(table).codes[:, 0], [0, 0, 3, 1, 1, 2])
    later = make_table(tool=["b", "zzz", None, "a"])
    np.testing.assert_array_equal(encoder.transform(later).codes[:, 0], [1, 2, 3, 0])


def test_codes_do_not_depend_on_the_pseudonym_key():
    frame = pd.DataFrame({"label": [0, 1] * 6, "annotator": list("cabcab" * 2)})
    codes = []
    for key in (b"1" * 32, b"2" * 32):
        table = AnnotationTable.from_frame(frame, key=key)
        codes.append(PIEncoder().fit(table).transform(table).codes)
    np.testing.assert_array_equal(*codes)


def test_numbers_are_standardised_with_a_missing_flag():
    table = make_table(confidence=[1.0, 2.0, 3.0, np.nan])
    numbers = PIEncoder().fit(table).transform(table).numbers
    np.testing.assert_allclose(numbers[:3, 0], [-1.2247449, 0, 1.2247449], rtol=1e-6)
    np.testing.assert_array_equal(numbers[:, 1], [0, 0, 0, 1])
    assert numbers[3, 0] == 0


def test_durations_are_logged_clipped_and_negative_is_missing():
    seconds = np.r_[np.full(500, 4.0), np.full(498, 9.0), 1e9, -3.0]
    table = make_table(seconds=seconds)
    encoder = PIEncoder().fit(table)
    numbers = encoder.transform(table).numbers
    assert encoder.columns_[0].kind == "duration"
    assert numbers[998, 0] <= 5  # idle time does not stretch the scale
    assert abs(numbers[:998, 0]).max() < 2
    assert numbers[999].tolist() == [0, 1]
    spread = numbers[500, 0] - numbers[0, 0]
    assert spread == pytest.approx((np.log1p(9) - np.log1p(4)) / encoder.columns_[0].std, rel=1e-5)


@pytest.mark.parametrize("sentinel", [999_999, -1e30, 1e99])
def test_a_sentinel_does_not_stretch_the_scale(sentinel):
    done = np.r_[np.tile([20.0, 60.0], 120), sentinel, 20]
    numbers = PIEncoder().fit(make_table(n_done=done)).transform(make_table(n_done=done)).numbers
    assert numbers[1, 0] - numbers[0, 0] > 1
    assert np.abs(numbers).max() == 5


def encoded(values):
    """Encoded values of a column of numbers."""
    table = make_table(value=values)
    return PIEncoder({"value": "number"}).fit(table).transform(table).numbers[:, 0]


def auc(score, positive):
    """Probability that a positive has the higher score, ties counting half, from ranks."""
    ranks = pd.Series(np.asarray(score, np.float64)).rank().to_numpy()
    n = positive.sum()
    return (ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(ranks) - n))


@pytest.fixture(scope="module", params=[3.0, 12.0], ids=["weak annotators", "strong annotators"])
def imagenet_pi(request):
    """Answers as those of ImageNet-PI at high noise: 1,000 classes, temperatures of rate 0.1."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 1000, 1500)
    logits = 2 * rng.normal(size=(2, 1500, 1000))
    logits[:, np.arange(1500), y] += 6 + request.param * rng.random(1500)
    e = np.exp(logits - logits.max(2, keepdims=True))
    return sample_annotations(e / e.sum(2, keepdims=True), y, rate=0.1)


@pytest.mark.parametrize("scale", [1, 100], ids=["shares", "percentages"])
def test_confidence_tells_right_labels_where_most_are_wrong(imagenet_pi, scale):
    right = (imagenet_pi["label"] == imagenet_pi["y"]).to_numpy()
    confidence = scale * imagenet_pi["confidence"].to_numpy(np.float64)
    assert 0.8 < 1 - right.mean() < 0.95
    assert auc(encoded(confidence), right) >= 0.999 * auc(confidence, right)
    joined = len(np.unique(confidence[right])) - len(np.unique(encoded(confidence)[right]))
    assert joined <= (0 if scale == 1 else 0.01 * len(right))


@pytest.mark.parametrize("kind", ["number", "duration"])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_moved_is_rare(kind, seed):
    """A minority far from the rest keeps its order, whatever its share, except for one row in a hundred of all."""
    rng = np.random.default_rng(seed)
    n, share = 2000, (0.012, 0.02, 0.03, 0.05, 0.1, 0.2, 0.0, 0.0)[seed]
    values = np.exp(rng.normal(0, (0.3, 3.0)[seed >= 6], n))
    minority = np.arange(n) < share * n
    values[minority] = rng.uniform(100, 1000, minority.sum())
    table = make_table(value=values)
    numbers = PIEncoder({"value": kind}).fit(table).transform(table).numbers[:, 0]
    order = np.argsort(values)
    assert (np.diff(numbers[order]) >= 0).all()
    allowed = 0.01 * n  # of either side
    assert (numbers == numbers.max()).sum() <= allowed + 1
    assert (numbers == numbers.min()).sum() <= allowed + 1
    assert len(np.unique(numbers[minority])) >= minority.sum() - allowed


# --- raw ---


def test_raw_with_constants_equals_plain_loops():
    times = [-12.0, 0.0, 1917.9472, 2500.0, 1e6, None]
    table = make_table(reaction_time=times)
    encoder = PIEncoder({"reaction_time": "raw:1917.9472:11348.22427"}).fit(table)
    numbers = encoder.transform(table).numbers
    for row, time in zip(numbers, times, strict=True):
        expected = [0.0, 1.0] if time is None else [(time - 1917.9472) / 11348.22427, 0.0]
        assert row.tolist() == pytest.approx(expected, rel=1e-6)
    assert encoder.to_json()[0]["kind"] == "raw"


@pytest.mark.parametrize("kind", ["raw:1", "raw:1:0", "raw:1:2:3", "raw:a:b", "raw:nan:1", "number:1:2"])
def test_constants_that_cannot_be(kind):
    with pytest.raises(UsageError, match=f"PI column 'time' has kind '{kind}'; (write|use one of)"):
        PIEncoder({"time": kind})


def test_a_number_beyond_all_bounds_is_missing():
    table = make_table(score=[1.0, 2, 3, 1e200])
    with pytest.warns(DataWarning, match=r"1 of the 4 values of PI column 'score' .*'1e\+200'.* treated as missing"):
        encoder = PIEncoder().fit(table)
    assert json.loads(json.dumps(encoder.to_json(), allow_nan=False))[0]["missing"]
    np.testing.assert_array_equal(encoder.transform(table).numbers[3], [0, 1])


@pytest.mark.parametrize("form", ["%d/%m/%Y %H:%M", "%m-%d-%Y %H:%M", "%Y/%m/%d %I:%M %p"])
def test_dates_that_are_not_read_as_dates_are_asked_about(form):
    days = pd.date_range("2026-01-01", periods=30, freq="9h").strftime(form)
    with pytest.warns(DataWarning, match=r"'day' of table is treated as 30 categories, .*; write dates as 2026-12-31"):
        assert PIEncoder().fit(make_table(day=list(days) * 2)).columns_[0].kind == "category"


@pytest.mark.parametrize("unit", ["{}%", "{}.5s", "0:{}", "1,{}", "0 days 00:00:{}", "{} min"])
def test_quantities_written_as_text_are_asked_about(unit):
    texts = [unit.format(value) for value in range(10, 40)] * 2
    with pytest.warns(
        DataWarning, match=r"'speed' of table is treated as 30 categories, such as .*; if these are quantities"
    ):
        assert PIEncoder().fit(make_table(speed=texts)).columns_[0].kind == "category"


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("annotator", [1, 2], "category"),
        ("rt_ms", [1.0, 2.0], "duration"),
        ("reaction_time", [1.0, 2.0], "duration"),
        ("seconds", [1, 2], "duration"),
        ("trial", [1, 2], "number"),
        ("sometimes", [1, 2], "number"),
        ("tool", ["a", "b"], "category"),
        ("expert", [True, False], "category"),
    ],
)
def test_kinds_are_guessed(name, values, kind):
    assert guess_kind(name, pd.Series(values)) == kind


def test_constant_and_empty_columns_are_left_out_with_a_warning():
    table = make_table(tool=["a"] * 4, note=[None] * 4, score=[1.0, 2, 3, 4])
    with pytest.warns(DataWarning) as caught:
        encoder = PIEncoder().fit(table)
    texts = " ".join(str(w.message) for w in caught)
    assert "'tool'" in texts
    assert "same value" in texts
    assert "'note'" in texts
    assert "empty in every row" in texts
    assert [c.name for c in encoder.columns_] == ["score"]


def test_moments_are_numbers_whatever_the_column_is_called():
    days = ["2024-01-01", "2024-01-03", None, "2024-01-05"]
    table = make_table(submit_time=days, at=pd.to_datetime(days).astype("datetime64[ns]"))
    encoder = PIEncoder().fit(table)
    assert [(column.kind, column.missing) for column in encoder.columns_] == [("number", True)] * 2
    numbers = encoder.transform(table).numbers
    np.testing.assert_allclose(numbers[:, 0], np.sqrt(1.5) * np.array([-1, 0, 0, 1]), rtol=1e-6)
    np.testing.assert_array_equal(numbers[:, :2], numbers[:, 2:])


def test_a_column_of_different_texts_is_left_out_with_a_warning():
    table = make_table(comment=["a", "b", "c", "d"], tool=["x", "x", "y", "y"])
    with pytest.warns(DataWarning, match="'comment' of table has no value that 2 rows share and is left out"):
        encoder = PIEncoder().fit(table)
    assert [column.name for column in encoder.columns_] == ["tool"]
    assert [column.name for column in PIEncoder(min_count=1).fit(table).columns_] == ["comment", "tool"]


def test_a_stray_text_among_numbers_is_told_and_can_be_taken_for_missing():
    table = make_table(seconds=["1.5", "fast", "3", "2.5", None, "slow"])
    expected = (
        "PI column 'seconds' of table is treated as categorical because 2 of 5 values are not numbers (first: "
        "'fast'); to treat those as missing, pass seconds:duration (pi_kinds in Python)."
    )
    with pytest.warns(DataWarning) as caught:
        encoder = PIEncoder().fit(table)
    assert [str(warning.message) for warning in caught] == [expected]
    assert encoder.columns_[0].kind == "category"
    with pytest.warns(DataWarning, match=r"^2 of the 6 values of PI column 'seconds' of table are not numbers \(first"):
        numbers = PIEncoder({"seconds": "duration"}).fit(table).transform(table).numbers
    np.testing.assert_array_equal(numbers[:, 1], [0, 1, 0, 0, 1, 1])


@pytest.mark.parametrize(
    "tool",
    [
        ["1.5", "fast", "slow", "2"] + ["mouse"] * 2,
        [True, False] * 3,
        ["01", "2"] * 3,
        [f"{i}a{i}b" for i in range(30)] * 2,
        ["2nd", "3rd"] * 3,
        [f"{i}a" for i in range(30)] * 2,
        [f"{i:x}" for i in range(100_000, 100_030)] * 2,
    ],
)
def test_categories_raise_no_question(tool):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PIEncoder().fit(make_table(tool=tool)).columns_[0].kind == "category"


def test_no_pi_is_zero_width():
    frame = pd.DataFrame({"label": [0, 1, 0, 1]})
    table = AnnotationTable.from_frame(frame)
    encoded = PIEncoder().fit(table).transform(table)
    assert encoded.codes.shape == (4, 0)
    assert encoded.numbers.shape == (4, 0)


def test_column_missing_from_a_later_table():
    encoder = PIEncoder().fit(make_table(tool=list("aabb")))
    with pytest.raises(DataError, match="no PI column 'tool'"):
        encoder.transform(make_table(other=list("aabb")))
