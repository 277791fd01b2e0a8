"""How each annotator does by items of known class, and in which order they were asked."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from pidual.detect.directions import Deserved
from pidual.detect.judges import describe_by_gold, describe_orders
from pidual.metrics import wilson_interval


def make_panel(n=300, k=3, people=4, seed=0):
    """Classes, answers of which some are given twice, and a posterior."""
    rng = np.random.default_rng(seed)
    z, item = rng.integers(0, k, n), np.repeat(np.arange(n), people)
    who = np.tile(np.arange(people), n)
    again = rng.choice(len(item), len(item) // 5)
    item, who = np.concatenate([item, item[again]]), np.concatenate([who, who[again]])
    label = np.where(rng.random(len(item)) < 0.5 + 0.1 * who, z[item], rng.integers(0, k, len(item)))
    p = rng.dirichlet(np.ones(k), n) + 0.7 * np.eye(k)[z]
    return z, item, who, label, p / p.sum(1, keepdims=True)


def number(j, name, c):
    """A number of an annotator, by the shares of answers J."""
    others = [k for k in range(len(j)) if k != c]
    if name == "kappa":
        chance = sum(j[a].sum() * j[:, a].sum() for a in range(len(j)))
        return (np.trace(j) - chance) / (1 - chance)
    if name == "sensitivity":
        return j[c, c] / j[c].sum()
    return j[np.ix_(others, others)].sum() / j[others].sum()


def slope_of(j, name, c):
    """How the number changes with each share, by small steps along which the shares still sum to 1."""
    slope, step = np.zeros(j.shape), 1e-6
    for place in np.ndindex(*j.shape):
        towards = np.zeros(j.shape)
        towards[place] = 1
        slope[place] = (
            (number(j + step * (towards - j), name, c) - number(j - step * (towards - j), name, c)) / 2 / step
        )
    return slope


def plain(z, item, label, p, gold, name, c):
    """The number of one annotator and its interval, by loops."""
    k, rows = p.shape[1], range(len(item))
    known = [r for r in rows if gold[item[r]]]
    expected, seen = np.zeros((k, k)), np.zeros((k, k))
    for r in rows:
        expected[:, label[r]] += p[item[r]] / len(item)
    for r in known:
        seen[z[item[r]], label[r]] += 1
    start = (seen + expected) / (len(known) + 1)
    slope = slope_of(start, name, c)
    y = np.array([slope[z[item[r]], label[r]] for r in known])
    m = np.array([sum(slope[a, label[r]] * p[item[r], a] for a in range(k)) for r in known])
    lam = min(max(np.cov(y, m, bias=True)[0, 1] / max(m.var(), 1e-12), 0), 1)
    off = y - lam * m
    value = number(start, name, c) + lam * (slope * expected).sum() + off.mean()  # the mean of slope at start is 0
    counts = {"sensitivity": lambda a: a == c, "specificity": lambda a: a != c}.get(name, lambda a: True)
    hit = {"sensitivity": lambda a, s: s == c, "specificity": lambda a, s: s != c}.get(name, lambda a, s: a == s)
    n = sum(counts(z[item[r]]) for r in known)
    right = sum(counts(z[item[r]]) and hit(z[item[r]], label[r]) for r in known)
    squares = 0.0
    for i in {item[r] for r in known}:
        of_item = sum(value_off - off.mean() for r, value_off in zip(known, off, strict=True) if item[r] == i)
        squares += (of_item * n / len(known)) ** 2
    h, finite = (right + 2) / (n + 4), 1 - len(known) / len(item)
    if name == "kappa":
        chance = sum(start[a].sum() * start[:, a].sum() for a in range(k))
        se = np.sqrt((squares + 2 * h * (1 - h) / (1 - chance) ** 2) / (n + 1) / n * finite)
        return value, value - student.ppf(0.975, n - 2) * se, value + student.ppf(0.975, n - 2) * se
    if n < 50 and n - right < 5:
        low, high = map(float, wilson_interval(right, n))
        return float(np.clip(value, low, high)), low, high
    se = np.sqrt((squares + 2 * h * (1 - h)) / (n + 1) / n * finite)
    e = (n * value + 2 * h) / (n + 2)
    half = student.ppf(0.975, n - 2) * se / (e * (1 - e))
    low, high = (1 / (1 + np.exp(-np.log(e / (1 - e)) - s * half)) for s in (-1, 1))
    return value, min(low, value), max(high, value)


def test_numbers_of_annotators_are_those_of_loops_over_answers():
    z, item, who, label, p = make_panel()
    gold = np.arange(len(z)) < 60
    found = describe_by_gold(who, label, item, Deserved(p, np.where(gold, z, -1)))
    assert len(found) == 4 * (1 + 2 * 3)
    for row in found.itertuples(index=False):
        mine = who == row[0]
        expected = plain(z, item[mine], label[mine], p, gold, row[1], row[2])
        assert row[3:] == pytest.approx(expected, rel=1e-4, abs=1e-5), row


def test_intervals_by_a_hundred_gold_items_hold_and_a_good_posterior_narrows_them():
    z, item, who, label, p = make_panel(600, k=2, seed=1)
    exact = describe_by_gold(who, label, item, Deserved(p, z))
    covered, widths = [], ([], [])
    for seed in range(25):
        gold = np.isin(np.arange(len(z)), np.random.default_rng(seed).choice(len(z), 100, replace=False))
        for good, width in zip((p, np.full(p.shape, 0.5)), widths, strict=True):
            found = describe_by_gold(who, label, item, Deserved(good, np.where(gold, z, -1)))
            covered.append((found["low"] <= exact["value"]) & (exact["value"] <= found["high"]))
            width.append((found["high"] - found["low"]).mean())
    assert 0.92 <= np.mean(covered) <= 0.995
    assert np.mean(widths[0]) < 0.9 * np.mean(widths[1])


def test_annotators_with_fewer_than_five_gold_answers_have_no_numbers():
    z, item, who, label, p = make_panel()
    found = describe_by_gold(who, label, item, Deserved(p, np.where(np.arange(len(z)) < 3, z, -1)))
    assert found["annotator"].isin(np.flatnonzero(np.bincount(who[item < 3]) >= 5)).all()


def test_pairs_of_answers_in_two_orders_are_those_of_loops():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"who": rng.integers(0, 3, 400), "item": rng.integers(0, 60, 400), "order": rng.integers(-1, 3, 400)}
    )
    frame = frame.assign(label=np.where(rng.random(400) < 0.3, frame["order"] == 0, rng.integers(0, 2, 400)) * 1)
    found = describe_orders(*(frame[name] for name in ("who", "label", "item", "order")), n_classes=2)
    for who, row in found.iterrows():
        last = {(i, o): s for a, i, o, s in frame.itertuples(index=False) if a == who and o >= 0}
        pairs = [
            (i, s, last[i, other]) for (i, o), s in last.items() for other in range(o + 1, 3) if (i, other) in last
        ]
        same, items = np.mean([s == t for _, s, t in pairs]), {i for i, _, _ in pairs}
        assert row["order_pairs"] == len(pairs)
        assert row["order_agreement"] == pytest.approx(same)
        ends = wilson_interval(same * len(items), len(items))
        assert (row["order_agreement_low"], row["order_agreement_high"]) == pytest.approx(tuple(map(float, ends)))
        k = int(row["class"])
        shift = [(s == k) * 1 - (t == k) for _, s, t in pairs]
        squares = sum(
            sum(d - np.mean(shift) for (i, _, _), d in zip(pairs, shift, strict=True) if i == one) ** 2 for one in items
        )
        reach = norm.ppf(0.975) * np.sqrt(squares) / len(pairs)
        assert row["place"] == (np.mean(shift) < 0)
        assert row["order_shift"] == pytest.approx(abs(np.mean(shift)))
        assert row["order_shift_high"] == pytest.approx(min(abs(np.mean(shift)) + reach, 1))


def test_without_a_pair_nothing_is_said_of_orders():
    assert not len(describe_orders([0, 0, 1], [0, 1, 1], [0, 1, 0], [0, 1, 1], 2))
