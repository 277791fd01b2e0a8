"""What decisions of reviewers say of all labels."""

import numpy as np
import pytest

from pidual.detect.calibration import SD_A, SD_LOG_B, Calibration, calibrate, logit_of, spread_sample
from pidual.run.records.summary import Rate


def draw(n, a, b, seed):
    """Stated qualities of n labels, and which are wrong when P(wrong) is off by a and b."""
    rng = np.random.default_rng(seed)
    quality = np.where(rng.random(n) < 0.3, rng.beta(1, 4, n), rng.beta(12, 1, n)).clip(1e-3, 1 - 1e-3)
    wrong = rng.random(n) < 1 / (1 + np.exp(-(a + b * logit_of(1 - quality))))
    return quality, wrong


def stated(quality, factor=2.0):
    rate = float(1 - quality.mean())
    return Rate(rate, rate / factor, min(0.95, rate * factor))


def review(quality, wrong, rows):
    decided = np.zeros(len(quality), bool)
    decided[rows] = True
    return calibrate(quality, quality < 0.5, decided, wrong, stated(quality))


def test_the_posterior_is_prior_times_likelihood():
    quality, wrong = draw(400, -1, 1.3, 0)
    noise = stated(quality)
    found = Calibration.fit(quality[:30], wrong[:30], quality, noise)
    sd = (logit_of(noise.high) - logit_of(noise.low)) / (2 * 1.6448536269514722)
    expected = []
    for a, b in zip(found.a[::7], found.b[::7], strict=True):
        p = [1 / (1 + np.exp(-(a + b * np.log((1 - q) / q)))) for q in quality]
        rate = sum(p) / len(p)
        log_p = -0.5 * (a / SD_A) ** 2 - 0.5 * (np.log(b) / SD_LOG_B) ** 2
        log_p += sum(np.log(p[i] if wrong[i] else 1 - p[i]) for i in range(30))
        log_p -= 0.5 * ((np.log(rate / (1 - rate)) - np.log(noise.rate / (1 - noise.rate))) / sd) ** 2
        expected.append(log_p)
    expected = np.exp(np.array(expected) - max(expected))
    got = found.weight[::7]
    np.testing.assert_allclose(got / got.sum(), expected / expected.sum(), rtol=0.02, atol=1e-4)  # rates are of bins


def test_without_evidence_nothing_changes():
    quality, _ = draw(3000, 0, 1, 1)
    found = Calibration.fit(quality[:0], np.zeros(0, bool), quality, stated(quality, 1.05))
    nothing = np.zeros(len(quality), bool)
    noise = found.share_of_wrong(quality, nothing, nothing)
    assert noise.rate == pytest.approx(1 - quality.mean(), abs=0.01)
    assert calibrate(quality, quality < 0.5, nothing, nothing, stated(quality)) is None


def test_with_everything_decided_nothing_is_left_to_estimate():
    quality, wrong = draw(300, 0.5, 1, 2)
    _, found = review(quality, wrong, np.arange(300))
    assert found["noise"] == Rate(*[wrong.mean()] * 3)
    assert (found["n_decisions"], found["n_wrong"]) == (300, wrong.sum())


def test_many_decisions_find_the_curve():
    quality, wrong = draw(20_000, -1.2, 1.4, 3)
    found, _ = review(quality, wrong, np.arange(5000))
    assert found.curve()["a"] == pytest.approx(-1.2, abs=0.2)
    assert found.curve()["b"] == pytest.approx(1.4, abs=0.15)
    new = found.apply(quality)
    assert (np.argsort(new) == np.argsort(quality)).all()
    assert 1 - new.mean() == pytest.approx(wrong.mean(), abs=0.01)


@pytest.mark.parametrize(("a", "b"), [(-1.5, 1.0), (0.0, 1.0), (0.8, 0.7), (-1.0, 1.6)])
def test_fifty_decisions_over_the_list_bring_shares_closer_and_intervals_hold_the_truth(a, b):
    before, after, held = [], [], []
    for seed in range(20):
        quality, wrong = draw(2000, a, b, seed)
        rows = spread_sample(quality, quality < 0.5, 50)
        _, found = review(quality, wrong, rows)
        listed = quality < 0.5
        for share, truth, old in (
            (found["noise"], wrong.mean(), 1 - quality.mean()),
            (found["precision"], wrong[listed].mean(), 1 - quality[listed].mean()),
        ):
            before.append(abs(old - truth))
            after.append(abs(share.rate - truth))
            held.append(share.low <= truth <= share.high)
    assert np.mean(held) > 0.85  # of 90%
    if (a, b) != (0.0, 1.0):
        assert np.mean(after) < 0.75 * np.mean(before)


def test_labels_to_look_at_are_spread_over_the_list_and_beyond():
    quality = np.random.default_rng(0).permutation(np.linspace(0, 1, 1001))
    rows = spread_sample(quality, quality < 0.2, 31)
    np.testing.assert_allclose(quality[rows], np.linspace(0, 0.299, 31), atol=1e-3)
    assert len(spread_sample(quality, np.zeros(1001, bool), 5)) == 5
