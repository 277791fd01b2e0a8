"""PI columns that cannot help or do harm, found before training; and how far what they tell can be trusted after it."""

import numpy as np
import pandas as pd
import pytest

from pidual.data import AnnotationTable, no_inputs
from pidual.data.pi import PIEncoder
from pidual.data.pi.checks import check_pi, find_sentinel, is_row_id
from pidual.detect.informative import WrongAnswers
from pidual.errors.messages import collected_warnings
from pidual.fit.effects import ends, spread, with_uncertainty
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare

N = 600


def table_with(seed=0, **columns):
    """Two answers an item of three classes, some wrong, with these PI columns."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, N // 2)
    label = np.where(rng.random(N) < 0.8, np.repeat(truth, 2), rng.integers(0, 3, N))
    frame = pd.DataFrame({"item": np.repeat(np.arange(N // 2), 2), "label": np.array(["cat", "dog", "eel"])[label]})
    frame["annotator"] = [f"p{i}" for i in rng.integers(0, 8, N)]
    frame = frame.assign(**{name: make(rng, label) for name, make in columns.items()})
    return AnnotationTable.from_frame(frame, pi=["annotator", *columns], keep_ids=True)


def problems(**columns):
    table = table_with(**columns)
    with collected_warnings():
        encoder = PIEncoder().fit(table)
    found, new = check_pi(table, encoder.columns_, np.arange(N), table.item_codes, used=False)
    assert all(record.text.startswith(f"PI column '{record.column}' ") for record in found)
    assert {*new} <= {record.text for record in found}
    return [(record.column, record.problem, record.text in new) for record in found]


GOOD = {
    "seconds": lambda rng, label: rng.gamma(2, 3, N).round(2),
    "trial": lambda rng, label: rng.permutation(N),
    "tool": lambda rng, label: rng.choice(["web", "phone"], N),
    "created": lambda rng, label: pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 10**6, N), unit="s"),
    "sure": lambda rng, label: rng.uniform(0, 1, N),
    "age": lambda rng, label: rng.integers(18, 99, N),
    "change": lambda rng, label: rng.normal(size=N).round(),
}


@pytest.mark.parametrize(
    ("make", "problem", "is_new"),
    [
        (lambda rng, label: np.full(N, 2.5), "constant", False),
        (lambda rng, label: 2**63 + np.arange(N, dtype=np.uint64), "constant", False),
        (lambda rng, label: np.full(N, np.nan), "missing", False),
        (lambda rng, label: np.where(rng.random(N) < 0.7, np.nan, rng.normal(size=N)), "missing", True),
        (lambda rng, label: [f"note {i}" for i in range(N)], "unique", False),
        (lambda rng, label: 1000 + rng.permutation(N), "unique", True),
        (lambda rng, label: label + rng.uniform(0, 0.9, N), "leaks", True),
        (lambda rng, label: np.where(rng.random(N) < 0.1, -1, rng.integers(0, 50, N)), "sentinel", True),
        (lambda rng, label: np.where(rng.random(N) < 0.1, 999, rng.integers(0, 50, N)), "sentinel", True),
        (
            lambda rng, label: np.where(
                rng.random(N) < 0.1,
                np.datetime64("1970-01-01"),
                np.datetime64("2026-01-01") + rng.integers(0, 90, N).astype("timedelta64[D]"),
            ),
            "sentinel",
            True,
        ),
    ],
)
def test_problems_by_column(make, problem, is_new):
    assert problems(odd=make, **GOOD) == [("odd", problem, is_new)]


def test_ids_of_large_tables_are_found_in_a_sample(monkeypatch):
    monkeypatch.setattr("pidual.data.pi.checks._SAMPLE", 400)
    ids = np.arange(5000.0)
    assert is_row_id(pd.Series(ids), ids)
    ids[4000] = 4500
    assert not is_row_id(pd.Series(ids), ids)


def test_sentinels():
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 10, 500)
    assert find_sentinel(values, moment=False) is None
    assert find_sentinel(np.r_[values, [999.0] * 6], moment=False) == (999.0, 6)
    assert find_sentinel(np.r_[values, [999.0] * 3], moment=False) is None  # too few to say
    assert find_sentinel(np.r_[rng.integers(0, 100, 500), [99.0] * 9], moment=False) is None  # an age
    assert find_sentinel(np.r_[rng.normal(size=500), [-1.0] * 9], moment=False) is None  # numbers below 0 are usual
    assert find_sentinel(np.r_[values, [-1.0] * 9], moment=False) == (-1.0, 9)


def test_problems_are_warned_of_and_kept_with_the_job():
    table = table_with(odd=lambda rng, label: np.where(rng.random(N) < 0.7, np.nan, rng.normal(size=N)))
    job = prepare(table, no_inputs(), FitOptions(method="latent_truth", accelerator="cpu"))
    assert [record.problem for record in job.pi_health] == ["missing"]
    assert job.pi_health[0].text in job.warnings


# --- after training ---


def effects_of(seed, rate_by_group):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, 2000)
    truth = rng.integers(0, 3, 2000)
    wrong = rng.random(2000) < np.asarray(rate_by_group)[group]
    frame = pd.DataFrame({"item": pd.Categorical(np.arange(2000) // 2)})
    frame["label"] = pd.Categorical.from_codes(np.where(wrong, (truth + 1) % 3, truth), list("abc"))
    frame["annotator"] = pd.Categorical(rng.integers(0, 10, 2000))
    frame["tool"] = pd.Categorical.from_codes(group, ["web", "phone"])
    right = [1 - wrong[group == one].mean() for one in (0, 1)]
    return with_uncertainty([("tool", ("phone", "web"), (right[1], right[0]))], frame, truth)[0]


def test_the_interval_of_an_effect_covers_the_truth():
    found = [effects_of(seed, [0.1, 0.25]) for seed in range(60)]
    covered = sum(one.difference_low <= 0.15 <= one.difference_high for one in found)
    assert covered >= 53  # 57 of 60 are expected
    assert all(one.tells for one in found)
    idle = [effects_of(seed, [0.2, 0.2]) for seed in range(40)]
    assert sum(one.tells for one in idle) <= 2
    assert sum(one.difference_low <= 0 <= one.difference_high for one in idle) >= 35


def test_rows_that_are_compared():
    numbers = pd.Series(np.arange(100.0))
    low, high = ends(numbers, 10.0, 90.0)
    assert (low.sum(), high.sum()) == (20, 20)
    low, high = ends(pd.Series([1.0, 2.0, 3.0, 1.0]), 1.0, 3.0)
    assert (low.tolist(), high.tolist()) == ([True, False, False, True], [False, False, True, False])
    low, high = ends(pd.Series(pd.date_range("2026-01-01", periods=100)), "2026-01-11", "2026-03-31")
    assert (low.sum(), high.sum()) == (20, 20)
    low, high = ends(pd.Series(["a", None, "b"]).astype("category"), "missing", "b")
    assert (low.tolist(), high.tolist()) == ([False, True, False], [False, False, True])


def test_spread_by_plain_loops():
    rng = np.random.default_rng(0)
    wrong, who, item = rng.random(300) < 0.3, rng.integers(0, 6, 300), np.arange(300) // 3
    low = rng.random(300) < 0.3
    high = ~low & (rng.random(300) < 0.4)
    off = wrong - np.array([wrong[who == person].mean() for person in range(6)])[who]
    expected = sum(sum(off[g & (item == i)].sum() ** 2 for i in range(100)) / g.sum() ** 2 for g in (low, high))
    assert spread(WrongAnswers.of(wrong, who, item), low, high) == pytest.approx(np.sqrt(expected))


@pytest.mark.parametrize("as_text", [False, True])
def test_large_numbers_that_differ_are_not_said_to_be_the_same(as_text):
    numbers = 2**63 + np.arange(N, dtype=np.uint64) // 100
    table = table_with(big=lambda rng, label: numbers.astype(str) if as_text else numbers)
    with collected_warnings() as said:
        assert [column.name for column in PIEncoder().fit(table).columns_] == ["annotator"]
    assert "so large that their differences are lost" in said[0]
    assert len(PIEncoder({"big": "category"}).fit(table).columns_[1].categories) == 6
