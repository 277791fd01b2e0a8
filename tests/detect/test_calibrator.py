"""What items of known class say about all items: calibrator, intervals, and which items to check."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import t as student

from pidual.detect.gold import Calibrator, Evidence, Known, choose_items, expected_half_widths, held_out
from pidual.detect.gold.calibrator import SD_CLASSES
from pidual.detect.gold.estimates import estimate_mean

SD_W = (0.0, 0.03, 0.1, 0.3)


def log_softmax(s):
    return s - np.logaddexp.reduce(s, axis=1, keepdims=True)


def make_crowd(n=60, k=3, people=5, answers=4, seed=0, *, with_x=True):
    """Classes, and evidence of a posterior that states too much."""
    rng = np.random.default_rng(seed)
    z, item = rng.integers(0, k, n), np.repeat(np.arange(n), answers)
    who = np.concatenate([rng.choice(people, answers, replace=False) for _ in range(n)])
    label = np.where(rng.random(len(item)) < 0.4 + 0.1 * who, z[item], rng.integers(0, k, len(item)))
    log_answer = log_softmax(rng.normal(0, 0.1, (len(item), k)) + 1.5 * np.eye(k)[label])
    log_f = log_softmax(rng.normal(size=(n, k)) + np.eye(k)[z])
    log_p0 = np.array(log_f)
    np.add.at(log_p0, item, log_answer)
    return z, label, Evidence.of(log_softmax(log_p0), log_f if with_x else None, item, who, log_answer)


def known_of(z, label, evidence, gold, p):
    return Known.of(p, evidence.item, label, evidence.annotator, gold, z[gold])


@pytest.mark.parametrize("with_x", [True, False])
def test_the_calibrator_is_the_mixture_of_fits_by_a_plain_optimiser_and_dense_evidence(with_x):
    z, _, evidence = make_crowd(with_x=with_x)
    n, k = evidence.log_p0.shape
    fits, scores = [], []
    for sd_c, sd_w in product(SD_CLASSES, SD_W):
        columns = [np.eye(k)[None].repeat(n, 0), evidence.log_p0[:, :, None]]
        sds = [sd_c] * k + [0.35]
        if with_x:
            columns.append(evidence.log_f[:, :, None])
            sds.append(0.3)
        if sd_w:
            said = np.zeros((n, k, 5))
            for i, a, e in zip(evidence.item, evidence.annotator, evidence.log_answer, strict=True):
                said[i, :, a] += e
            columns.append(said)
            sds += [sd_w] * 5
        phi, precision = np.concatenate(columns, axis=2), np.array(sds) ** -2.0
        mean = np.eye(len(sds))[k]

        def log_posterior(theta, phi=phi, mean=mean, precision=precision):
            return log_softmax(phi @ theta)[np.arange(n), z].sum() - 0.5 * precision @ (theta - mean) ** 2

        theta = minimize(lambda theta, f=log_posterior: -f(theta), mean, method="BFGS", options={"gtol": 1e-5}).x
        p = np.exp(log_softmax(phi @ theta))
        curvature = np.diag(precision)
        for i in range(n):
            curvature += phi[i].T @ (np.diag(p[i]) - np.outer(p[i], p[i])) @ phi[i]
        evidence_of_fit = log_posterior(theta) + 0.5 * np.log(precision).sum()
        scores.append(evidence_of_fit - 0.5 * np.log(np.linalg.det(curvature)))
        fits.append(p)
    weight = np.exp(np.array(scores) - max(scores))
    weight /= weight.sum()
    found = Calibrator.fit(evidence, z, 5)
    kept = weight > 1e-4
    np.testing.assert_allclose(np.sort(found.share), np.sort(weight[kept] / weight[kept].sum()), atol=2e-4)
    np.testing.assert_allclose(found(evidence), np.einsum("f,fnk->nk", weight, fits), atol=2e-4)


def test_without_gold_nothing_changes():
    _, _, evidence = make_crowd()
    found = Calibrator.fit(evidence.take(np.arange(0)), np.arange(0), 5)
    np.testing.assert_allclose(found(evidence), np.exp(log_softmax(evidence.log_p0)), atol=1e-9)
    assert found.sharpness == pytest.approx(1)


def test_parts_of_a_design_add_up(monkeypatch):
    z, _, evidence = make_crowd(n=80)
    whole = Calibrator.fit(evidence, z, 5)
    monkeypatch.setattr("pidual.detect.gold.calibrator.CHUNK", 200)
    np.testing.assert_allclose(Calibrator.fit(evidence, z, 5).numbers, whole.numbers, atol=1e-8)


def test_annotators_with_few_answers_to_gold_and_unknown_ones_have_no_weight():
    z, _, evidence = make_crowd()
    who = np.where(evidence.annotator == 2, -1, evidence.annotator)
    who[np.flatnonzero(who == 3)[4:]] = -1
    unknown = Evidence(evidence.log_p0, evidence.log_f, evidence.item, who, evidence.log_answer)
    weights = Calibrator.fit(unknown, z, 5).numbers[:, 5:]
    assert (np.abs(weights).max(0) > 1e-9).tolist() == [True, True, False, False, True]


def test_a_posterior_that_is_too_sure_is_made_less_sure():
    z, _, evidence = make_crowd(n=400)
    sure = Evidence.of(3 * evidence.log_p0, None, evidence.item, evidence.annotator, evidence.log_answer)
    gold, rest = np.arange(200), np.arange(200, 400)
    p = Calibrator.fit(sure.take(gold), z[gold], 5)(sure.take(rest))
    stated, right = p.max(1).mean(), (p.argmax(1) == z[rest]).mean()
    before = np.exp(log_softmax(sure.log_p0[rest])).max(1).mean()
    assert abs(stated - right) < 0.05 < before - right


def test_gold_gives_independent_annotators_back_the_votes_that_the_temper_took():
    rng = np.random.default_rng(0)
    n, answers, right = 4000, 5, 0.6
    z, item = rng.integers(0, 3, n), np.repeat(np.arange(n), answers)
    label = np.where(rng.random(n * answers) < right, z[item], (z[item] + rng.integers(1, 3, n * answers)) % 3)
    log_answer = np.log(np.where(np.eye(3, dtype=bool)[label], right, (1 - right) / 2))
    log_q = log_softmax(log_answer.reshape(n, answers, 3).sum(1))
    temper = 1 + 0.4 * (answers - 1)
    who = rng.integers(0, 50, n * answers)
    evidence, rest = Evidence.of(log_softmax(log_q / temper), None, item, who, log_answer), np.arange(2000, n)
    exact, found = -log_q[rest, z[rest]].mean(), {}
    for n_gold in (50, 500, 2000):
        calibrator = Calibrator.fit(evidence.take(np.arange(n_gold)), z[:n_gold], 50)
        p = calibrator(evidence.take(rest))
        found[n_gold] = calibrator.sharpness, -np.log(p[np.arange(len(rest)), z[rest]]).mean() - exact
    sharpness, lost = zip(*found.values(), strict=True)
    assert 1.2 < sharpness[0] < sharpness[1] < sharpness[2]
    assert sharpness[2] == pytest.approx(temper, abs=0.25)
    assert lost[0] < 0.09
    assert lost[2] < 0.005


def test_the_quality_of_an_answer_leaves_out_half_of_what_it_says():
    z, label, evidence = make_crowd()
    found = Calibrator.fit(evidence, z, 5)
    power = np.full(len(label), 0.7)
    quality = found.quality(evidence, label, power)
    for row in (0, 7, 100):
        i, expected = evidence.item[row], 0.0
        for share, numbers in zip(found.share, found.numbers, strict=True):
            c, g, w_x, w = numbers[:3], numbers[3], numbers[4], numbers[5:]
            s = g * evidence.log_p0[i] + c + w_x * evidence.log_f[i]
            for other in np.flatnonzero(evidence.item == i):
                s = s + w[evidence.annotator[other]] * evidence.log_answer[other]
            s = s - 0.5 * (g * 0.7 + w[evidence.annotator[row]]) * evidence.log_answer[row]
            expected += share * np.exp(s[label[row]]) / np.exp(s).sum()
        assert quality[row] == pytest.approx(expected)


def test_gold_is_judged_by_calibrators_that_have_not_seen_it():
    z, _, evidence = make_crowd()
    p = held_out(evidence, z, 5)
    changed = np.array(z)
    changed[7] = (z[7] + 1) % 3
    again = held_out(evidence, changed, 5)
    assert again[7] == pytest.approx(p[7])
    assert np.abs(again - p).max() > 1e-3


def test_the_mean_and_its_interval_are_those_of_plain_loops():
    rng = np.random.default_rng(0)
    m_all = rng.random(200)
    y = (rng.random(50) < m_all[:50]) * 1.0
    n, size, m = 50, 200, m_all[:50]
    mean_y, mean_m = sum(y) / n, sum(m) / n
    cov = sum((a - mean_y) * (b - mean_m) for a, b in zip(y, m, strict=True)) / n
    lam = cov / (sum((b - mean_m) ** 2 for b in m) / n)
    r = [a - lam * b for a, b in zip(y, m, strict=True)]
    est = lam * sum(m_all) / size + sum(r) / n
    h = (sum(y) + 2) / (n + 4)
    s2 = (sum((each - sum(r) / n) ** 2 for each in r) + 2 * h * (1 - h)) / (n + 1)
    e = (n * est + 2 * h) / (n + 2)
    for rest, factor in ((False, 1 - n / size), (True, 1 + n / (size - n))):
        half = student.ppf(0.975, n - 2) * np.sqrt(s2 / n * factor) / (e * (1 - e))
        ends = [1 / (1 + np.exp(-(np.log(e / (1 - e)) + sign * half))) for sign in (-1, 1)]
        found = estimate_mean(y, m, float(m_all.mean()), size, rest=rest)
        assert 0 < lam < 1
        assert [found.value, found.low, found.high] == pytest.approx([est, *ends])


def test_few_gold_all_right_has_the_interval_of_wilson():
    p = np.tile([0.9, 0.1], (1000, 1))
    none = np.zeros(0, np.int64)
    found = Known.of(p, none, none, none, np.arange(20), np.zeros(20, np.int64)).accuracy()
    assert (found.low, found.high) == (pytest.approx(0.839, abs=0.001), 1.0)
    assert found.low <= found.value <= found.high


def test_annotators_are_moved_towards_what_is_known_of_them():
    rng = np.random.default_rng(1)
    z, people = rng.integers(0, 2, 600), 6
    item, who = np.repeat(np.arange(600), people), np.tile(np.arange(people), 600)
    true = np.array([0.95, 0.9, 0.85, 0.8, 0.7, 0.5])
    label = np.where(rng.random(len(item)) < true[who], z[item], 1 - z[item])
    p = np.full((600, 2), 0.5)  # a model that knows nothing
    found, low, high = Known.of(p, item, label, who, np.arange(100), z[:100]).annotators(people + 1)
    everything = [(label == z[item])[who == a].mean() for a in range(people)]
    assert np.abs(found[:people] - everything).max() < 0.1
    assert ((low[:people] <= everything) & (everything <= high[:people])).all()
    assert np.isnan(found[people])
    without, wide_low, wide_high = Known.of(p, item, label, who, np.arange(2), z[:2]).annotators(people)
    assert ((low[:people] > wide_low) & (high[:people] < wide_high)).all()
    assert np.isfinite(without).all()


def test_intervals_hold_for_a_model_that_is_wrong():
    z, label, evidence = make_crowd(n=1000, seed=3)
    p = np.roll(np.exp(log_softmax(2 * evidence.log_p0)), 1, axis=1)  # of other classes
    noise, hits = (label != z[evidence.item]).mean(), []
    for seed in range(100):
        gold = choose_items(p.max(1), 50, seed=seed)
        found = known_of(z, label, evidence, gold, p)
        hits += [found.noise().low <= noise <= found.noise().high]
        hits += [each.low <= (z == k).mean() <= each.high for k, each in enumerate(found.shares())]
    assert np.mean(hits) > 0.93


def test_items_to_check_are_spread_over_confidence_and_all_as_likely():
    confidence = np.random.default_rng(0).random(40)
    chosen = np.zeros(40)
    for seed in range(4000):
        items = choose_items(confidence, 10, seed=seed)
        assert sorted(np.argsort(np.argsort(confidence))[items] // 4) == list(range(10))  # one of each four
        chosen[items] += 1
    assert np.abs(chosen / 4000 - 0.25).max() < 0.035
    more = choose_items(confidence, 100, checked=np.arange(30))
    assert sorted(more) == list(range(30, 40))


def test_the_half_widths_to_expect_are_those_of_plain_loops():
    _, label, evidence = make_crowd(n=40)
    p = np.exp(log_softmax(evidence.log_p0))
    noise, accuracy, shares = expected_half_widths(p, evidence.item, label, 10)

    def half(mean, variance, rest=1 - 10 / 40):
        h = (10 * mean + 2) / 14
        se = np.sqrt((9 * variance + 2 * h * (1 - h)) / 11 / 10 * rest)
        e = (10 * mean + 2 * h) / 12
        ends = [np.log(e / (1 - e)) + sign * student.ppf(0.975, 8) * se / (e * (1 - e)) for sign in (-1, 1)]
        low, high = 1 / (1 + np.exp(-np.array(ends)))
        return (high - low) / 2

    variances, expected = [], []
    for i in range(40):
        wrong = [(label[evidence.item == i] != k).sum() / 4 for k in range(3)]
        mean = sum(p[i, k] * wrong[k] for k in range(3))
        variances.append(sum(p[i, k] * (wrong[k] - mean) ** 2 for k in range(3)))
        expected.append(mean)
    best = p.max(1)
    assert noise == pytest.approx(half(np.mean(expected), np.mean(variances)))
    assert accuracy == pytest.approx(half(best.mean(), np.mean(best * (1 - best)), 1 + 10 / 30))
    assert shares[1] == pytest.approx(half(p[:, 1].mean(), np.mean(p[:, 1] * (1 - p[:, 1]))))
