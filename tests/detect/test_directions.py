"""Which way PI moves answers."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from pidual.data.datasets.synthetic import make_judges
from pidual.detect.directions import Deserved, find_directions
from pidual.detect.sentences import describe_direction
from pidual.run.records.summary import PIDirection


def make_answers(n=60, k=3, answers=6, seed=0):
    """Answers in two colours, where red ones say the last class more often."""
    rng = np.random.default_rng(seed)
    z, item = rng.integers(0, k, n), np.repeat(np.arange(n), answers)
    red = rng.random(len(item)) < 0.4
    label = np.where(rng.random(len(item)) < 0.7, z[item], np.where(red, k - 1, rng.integers(0, k, len(item))))
    p = rng.dirichlet(np.ones(k), n) + np.eye(k)[z]
    return z, item, label, pd.Series(np.where(red, "red", "blue"), name="colour"), p / p.sum(1, keepdims=True)


def plain(item, label, high, low, deserved, code):
    """The difference of one class and the ends of its interval, by loops over answers and items."""
    p, truth, n = deserved.p, deserved.truth, len(deserved.p)
    groups = [[r for r in range(len(item)) if group[r]] for group in (high, low)]
    golds = [[r for r in rows if truth[item[r]] >= 0] for rows in groups]
    n_gold = [len({item[r] for r in rows}) for rows in golds]
    correct = min(n_gold) >= 10
    lam = 1.0
    if correct:
        y, m = np.zeros(n), np.zeros(n)
        for sign, rows in zip((1, -1), golds, strict=True):
            for values, of in ((y, lambda i: truth[i] == code), (m, lambda i: p[i, code])):
                mean = np.mean([of(item[r]) for r in rows])
                for r in rows:
                    values[item[r]] += sign * (of(item[r]) - mean) / len(rows)
        lam = min(max(y @ m / (m @ m), 0), 1)
    d, pull, extra = 0.0, np.zeros(n), 0.0
    for sign, rows, gold, seen in zip((1, -1), groups, golds, n_gold, strict=True):
        off = [(label[r] == code) - lam * p[item[r], code] for r in rows]
        left = [(truth[item[r]] == code) - lam * p[item[r], code] for r in gold] if correct else []
        d += sign * (np.mean(off) - (np.mean(left) if correct else 0))
        for r, value in zip(rows, off, strict=True):
            pull[item[r]] += sign * (value - np.mean(off)) / len(rows)
        for r, value in zip(gold, left, strict=correct):
            pull[item[r]] -= sign * (value - np.mean(left)) / len(gold)
        if correct:
            h = (seen * np.mean([truth[item[r]] == code for r in gold]) + 2) / (seen + 4)
            extra += 2 * h * (1 - h) / seen / (seen + 1)
    reach = student.ppf(0.975, min(n_gold) - 2 if correct else 10**6) * np.sqrt(pull @ pull + extra)
    return d, d - reach, d + reach


@pytest.mark.parametrize("n_gold", [0, 25])
def test_directions_are_those_of_loops_over_answers(n_gold):
    z, item, label, colour, p = make_answers()
    truth = np.where(np.arange(len(z)) < n_gold, z, -1)
    deserved = Deserved(p, truth)
    found = find_directions(colour.to_frame(), label, item, deserved, ["a", "b", "c"])
    assert {each.label for each in found} == {"a", "b", "c"}
    for each in found:
        assert (each.column, each.value, each.against) == ("colour", "blue", "red")
        blue = (colour == "blue").to_numpy()
        expected = plain(item, label, blue, ~blue, deserved, "abc".index(each.label))
        assert (each.difference, each.difference_low, each.difference_high) == pytest.approx(expected)
    assert (found[0].n_gold > 0) == (n_gold > 0)


def test_colours_without_a_part_in_answers_are_rarely_named():
    named = 0
    for seed in range(40):
        z, item, label, _, p = make_answers(seed=seed)
        colour = pd.DataFrame({"colour": np.random.default_rng(seed).choice(["red", "blue"], len(item))})
        truth = np.where(np.arange(len(z)) < 30, z, -1)
        named += any(each.tells for each in find_directions(colour, label, item, Deserved(p, truth), "abc"))
    assert named <= 5


@pytest.fixture(scope="module")
def panel():
    """Judgements, their true classes, and a posterior that follows the answers."""
    panel = make_judges(400, seed=5)
    frame = panel.frame[panel.frame["verdict"] != "unsure"].reset_index(drop=True)
    item = frame["item"].astype("category")
    label = (frame["verdict"] == "pass").to_numpy().astype(int)
    share = frame.groupby(item, observed=True)["verdict"].agg(lambda said: (said == "pass").mean()).to_numpy()
    z = (panel.truth[item.cat.categories] == "pass").to_numpy().astype(int)
    return frame[["words", "order"]], label, item.cat.codes.to_numpy(), np.stack([1 - share, share], 1), z


def signed(found, column):
    """How much more often "pass" is said at the higher value."""
    (each,) = [each for each in found if each.column == column]
    sign = 1 if each.label == "pass" else -1
    low, high = sorted([sign * each.difference_low, sign * each.difference_high])
    return sign * each.difference, low, high, each.tells


def test_gold_shows_the_length_bias_of_judges_with_its_sign_and_an_interval_that_holds(panel):
    pi, label, item, p, z = panel
    off, words = (label == 1) * 1.0 - z[item], pi["words"].to_numpy()
    first, last = np.quantile(words, [1 / 3, 2 / 3])
    true = off[words >= last].mean() - off[words <= first].mean()
    assert true > 0.2
    covered, told, n = 0, 0, 25
    for seed in range(n):
        truth = np.full(len(z), -1)
        gold = np.random.default_rng(seed).choice(len(z), 150, replace=False)
        truth[gold] = z[gold]
        found = find_directions(pi, label, item, Deserved(p, truth), ["fail", "pass"])
        difference, low, high, tells = signed(found, "words")
        covered += low <= true <= high
        told += tells and difference > 0
    assert covered >= n - 3
    assert told >= 0.75 * n


def test_without_gold_only_what_differs_among_the_answers_to_an_item_is_compared(panel):
    pi, label, item, p, z = panel
    found = find_directions(pi, label, item, Deserved(p, np.full(len(z), -1)), ["fail", "pass"])
    assert [each.column for each in found] == ["order"]
    first = (pi["order"] == "first").to_numpy()
    off = (label == 1) * 1.0 - z[item]
    true = off[first].mean() - off[~first].mean()
    assert signed(found, "order")[0] == pytest.approx(true, abs=0.02)
    assert found[0].value == "first"


def test_a_direction_in_words():
    found = PIDirection("words", "300 or more", "120 or less", "pass", 0.18, 0.12, 0.24, 40, True)
    assert describe_direction(found) == (
        "Answers with words 300 or more: 'pass' 18 points more often than their items deserve (95%: 12 to 24), "
        "compared with words 120 or less."
    )
    less = PIDirection("order", "first", "second", "pass", -0.08, -0.15, -0.01, 0, False)
    assert "'pass' 8 points less often than their items deserve (95%: 1 to 15)" in describe_direction(less)
