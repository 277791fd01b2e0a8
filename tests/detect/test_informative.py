"""Which PI indicates wrong answers: none that is idle, all that is not."""

import numpy as np
import pandas as pd
import pytest
from test_reasons import find_parts

from pidual.detect.counts import chance_excess
from pidual.detect.informative import (
    HIGH,
    HIGHEST,
    LIFT,
    LOW,
    LOWEST,
    MISSING,
    WrongAnswers,
    column_values,
    find_informative,
)


def answers(seed, n=1000, rate=0.1, people=10, per_item=2):
    """Wrong answers of people who differ, to items that differ, and four columns that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    who, item = rng.integers(0, people, n), np.repeat(np.arange(n // per_item), per_item)
    hard, careless = rng.normal(size=n // per_item), rng.normal(size=people)
    urge = hard[item] + careless[who] + rng.logistic(size=n)
    wrong = urge > np.quantile(urge, 1 - rate)
    pi = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "kind": rng.choice(list("abcde"), n),
            "of_item": rng.normal(size=n // per_item)[item],
            "of_person": rng.normal(size=people)[who],
        }
    )
    return wrong, who, item, pi, rng


@pytest.mark.parametrize(("n", "rate"), [(400, 0.05), (1000, 0.4)])
def test_idle_pi_is_named_in_at_most_two_of_forty_reports(n, rate):
    named = 0
    for seed in range(40):
        wrong, who, item, pi, _ = answers(seed, n, rate)
        reasons = find_parts(
            wrong,
            classes=["a", "b"],
            given=wrong.astype(int),
            predicted=np.zeros(n, int),
            label_quality=np.where(wrong, 0.1, 0.9),
            predicted_probability=np.full(n, 0.9),
            item=item,
            annotator=who,
            pi=pi,
        )
        named += any(name in " ".join(reasons["whole"]) for name in pi)
    assert named <= 2


@pytest.mark.parametrize("seed", range(5))
def test_pi_that_tells_is_named(seed):
    wrong, who, item, pi, rng = answers(seed, 2000, 0.15)
    n = len(wrong)
    pi["seconds"] = np.exp(rng.normal(2, 0.5, n) - 0.8 * wrong)
    trial = rng.permutation(n)
    late = wrong | ((trial > 0.9 * n) & (rng.random(n) < 0.3))
    pi["trial"] = trial
    pi["tool"] = np.where(late & (rng.random(n) < 0.3), "phone", rng.choice(["web", "desk"], n))
    found = {one.name: one for one in find_informative(pi, WrongAnswers.of(late, who, item))}
    assert found["seconds"].is_informative[LOWEST]
    assert not found["seconds"].is_informative[[HIGH, HIGHEST, MISSING]].any()
    assert found["trial"].is_informative[HIGHEST]
    assert found["tool"].is_informative[found["tool"].categories.index("phone")]
    assert not found["number"].is_informative.any()


def test_counts_and_bound_by_plain_loops():
    wrong, who, item, pi, rng = answers(3, 600, 0.2, people=6, per_item=3)
    pi["seconds"] = np.where(rng.random(600) < 0.1, np.nan, np.exp(rng.normal(size=600) - 0.7 * wrong))
    pi["level"] = rng.integers(0, 4, 600)
    found = find_informative(pi, WrongAnswers.of(wrong, who, item))
    tests = sum(int((one.n >= 20).sum()) for one in found)
    for one in found:
        for value in range(len(one.n)):
            mine = one.code == value
            assert one.n[value] == mine.sum()
            assert one.wrong[value] == wrong[mine].sum()
            expected, variance = 0.0, 0.0
            for person in range(6):
                all_n, all_wrong = (who == person).sum(), wrong[who == person].sum()
                drawn = (mine & (who == person)).sum()
                p = all_wrong / all_n
                expected += drawn * p
                variance += drawn * p * (1 - p) * (all_n - drawn) / (all_n - 1)
            rate = np.array([wrong[who == person].mean() for person in range(6)])[who]
            joint = sum((wrong - rate)[mine & (item == i)].sum() ** 2 for i in range(200))
            cluster = max(1.0, joint / max(((wrong - rate)[mine] ** 2).sum(), 1e-12))
            assert one.expected[value] == pytest.approx(expected)
            assert one.cluster[value] == pytest.approx(cluster)
            assert one.variance[value] == pytest.approx(variance * cluster)
            beyond = wrong[mine].sum() - expected > chance_excess(variance * cluster, 0.02 / tests, cluster)
            assert one.is_informative[value] == (beyond and mine.sum() >= 20 and one.lift[value] >= LIFT)


def test_tails_by_plain_loops():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 300, 500).astype(float)
    values[::50] = np.nan
    code, n, categories, _ = column_values(pd.Series(values))
    assert (n, categories) == (5, None)
    known = values[np.isfinite(values)]
    for value, found in zip(values, code, strict=True):
        if np.isnan(value):
            assert found == MISSING
            continue
        up_to, from_on = np.mean(known <= value), np.mean(known >= value)
        tail = -1
        for share, low, high in ((0.2, LOW, HIGH), (0.05, LOWEST, HIGHEST)):
            tail = low if up_to <= share + 1e-12 else high if from_on <= share + 1e-12 else tail
        assert found == tail


def test_few_different_numbers_are_categories():
    code, n, categories, _ = column_values(pd.Series([1.0, 2.5, np.nan, 1.0]))
    assert code.tolist() == [0, 1, 2, 0]
    assert (n, categories) == (3, [1.0, 2.5, "missing"])
    code, n, categories, _ = column_values(pd.Series([True, False, None]).astype("category"))
    assert code.tolist() == [1, 0, -1]
    day = pd.Series(pd.to_datetime(["2026-01-02", "2026-01-01"]))
    assert column_values(day)[2] == [pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02"), "missing"]
    assert column_values(pd.Series([None, None], dtype="str"))[1] == 1


def test_the_bound_holds():
    """Bernstein's: sums of few rare events do not exceed it more often than it says."""
    rng = np.random.default_rng(0)
    for n, p in ((30, 0.02), (100, 0.1), (1000, 0.5)):
        sums = rng.binomial(n, p, 200_000) - n * p
        for chance in (0.05, 0.001):
            assert np.mean(sums > chance_excess(n * p * (1 - p), chance)) <= chance


def test_moments_of_any_year_have_values():
    years = pd.Series(np.array(["0900-01-01", "2026-05-29"], "datetime64[s]")[[0, 1, 0, 1]])
    _, _, values, _ = column_values(years)
    assert [str(value)[:4] for value in values[:2]] == ["0900", "2026"]
