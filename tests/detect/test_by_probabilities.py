"""Labels judged by given probabilities, against plain loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidual.detect import by_probabilities
from pidual.detect.by_probabilities import LEAST, OWN_WEIGHT, PSEUDO, Confusions, fit, judge_labels, score, with_prior
from pidual.errors import DataError
from pidual.methods import held_out
from pidual.metrics import detection_auc


def make(n=600, k=4, seed=0, noise=0.15, strength=3.0):
    """Labels of which a share was moved to the next class, their truth, and probabilities of a fair classifier."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), truth] += strength
    p = np.exp(logits)
    p /= p.sum(1, keepdims=True)
    labels = np.where(rng.random(n) < noise, (truth + 1) % k, truth)
    return labels, truth, p


def posterior_by_loops(label, p, learned, w):
    """q of one row by its formula, where the label counts w."""
    k = len(p)
    joint = [
        max(p[z], LEAST) ** learned.sharpness * math.exp(learned.bias[z]) * learned.transitions[z, label] ** w
        for z in range(k)
    ]
    return [one / sum(joint) for one in joint]


def test_the_posterior_is_that_of_the_formula():
    labels, _, p = make(80)
    learned = fit(labels, p)
    judged = score(labels, p, learned)
    for row in range(80):
        for w, shares in ((0, judged.unaided), (OWN_WEIGHT, judged.quality), (1, judged.full)):
            q = posterior_by_loops(labels[row], p[row], learned, w)
            assert shares[row] == pytest.approx(q[labels[row]], rel=1e-4)
        assert judged.confidence[row] == pytest.approx(p[row, labels[row]], rel=1e-5)
        assert judged.consensus[row] == int(np.argmax(q))
        assert judged.consensus_quality[row] == pytest.approx(max(q), rel=1e-4)
        assert judged.predicted[row] == int(np.argmax(p[row]))
        assert judged.predicted_probability[row] == pytest.approx(max(p[row]), rel=1e-5)


def em_by_loops(labels, p, rounds):
    """EM with the steps of the module, one number at a time."""
    n, k = len(p), len(p[0])
    s, b, t = 1.0, [0.0] * k, [[0.9 if z == y else 0.1 / (k - 1) for y in range(k)] for z in range(k)]
    log_p = [[math.log(max(p[i][z], LEAST)) for z in range(k)] for i in range(n)]
    for _ in range(rounds):
        counts, slope, spread = [[0.0] * k for _ in range(k)], -(s - 1), 1.0
        said, told, squared = [0.0] * k, [0.0] * k, [0.0] * k
        for i in range(n):
            e = [math.exp(s * log_p[i][z] + b[z]) for z in range(k)]
            f = [one / sum(e) for one in e]
            joint = [f[z] * t[z][labels[i]] for z in range(k)]
            q = [one / sum(joint) for one in joint]
            mean = sum(f[z] * log_p[i][z] for z in range(k))
            slope += sum((q[z] - f[z]) * log_p[i][z] for z in range(k))
            spread += sum(f[z] * log_p[i][z] ** 2 for z in range(k)) - mean**2
            for z in range(k):
                counts[z][labels[i]] += q[z]
                said[z] += f[z]
                told[z] += q[z]
                squared[z] += f[z] ** 2
        right = ((sum(counts[z][z] for z in range(k)) + PSEUDO / 2) / (n + PSEUDO) + 0.5) / 2
        for z in range(k):
            for y in range(k):
                prior = PSEUDO * (right if z == y else (1 - right) / (k - 1))
                t[z][y] = (counts[z][y] + prior) / (sum(counts[z]) + PSEUDO)
        step = [(told[z] - said[z] - b[z]) / (said[z] - squared[z] + 1) / 2 for z in range(k)]
        b = [b[z] + min(1, max(-1, step[z])) for z in range(k)]
        b = [one - sum(b) / k for one in b]
        s = s + min(1, max(-1, slope / spread))
    return s, b, t


def test_em_takes_the_steps_of_plain_loops(monkeypatch):
    labels, _, p = make(60, 3)
    monkeypatch.setattr(by_probabilities, "ROUNDS", 7)
    learned = fit(labels, p)
    s, b, t = em_by_loops(labels.tolist(), p.tolist(), 7)
    assert learned.sharpness == pytest.approx(s, abs=1e-4)
    np.testing.assert_allclose(learned.bias, b, atol=1e-4)
    np.testing.assert_allclose(learned.transitions, t, atol=1e-4)


def test_em_climbs(monkeypatch):
    labels, _, p = make(400, 3, noise=0.3)

    def likelihood(rounds):
        monkeypatch.setattr(by_probabilities, "ROUNDS", rounds)
        learned = fit(labels, p)
        z = learned.sharpness * np.log(p) + learned.bias
        f = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        return np.log((f * learned.transitions[:, labels].T).sum(1)).sum()

    found = [likelihood(rounds) for rounds in (1, 3, 9, 27)]
    assert found == sorted(found)


def test_transitions_are_found_where_classes_are_clear():
    labels, truth, p = make(6000, 4, noise=0.2, strength=8.0)
    learned = fit(labels, p)
    for one in range(4):
        shares = np.bincount(labels[truth == one], minlength=4) / (truth == one).sum()
        np.testing.assert_allclose(learned.transitions[one], shares, atol=0.02)


def test_the_prior_alone_and_no_rows():
    t = with_prior(np.zeros((4, 4)))
    np.testing.assert_allclose(t, np.where(np.eye(4), 0.5, 0.5 / 3))
    bad = np.full((5, 3), np.nan)
    learned = fit(np.zeros(5, np.int64), bad)
    assert learned.sharpness == 1.0
    with pytest.raises(DataError, match=r"pred_probs, row 0 .*nan"):
        judge_labels(np.zeros(5, np.int64), bad)


def test_wrong_labels_come_first_and_are_counted():
    labels, truth, p = make(4000, 5, noise=0.2, strength=4.0)
    judged = judge_labels(labels, p)
    wrong = labels != truth
    assert detection_auc(judged.quality, wrong) > detection_auc(p[np.arange(4000), labels], wrong) > 0.9
    assert (1 - judged.quality).mean() == pytest.approx(wrong.mean(), abs=0.03)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_parts_of_a_map_are_judged_as_the_whole(tmp_path, monkeypatch, dtype):
    labels, _, p = make(500, 7)
    np.save(tmp_path / "p.npy", p.astype(dtype))
    mapped = np.load(tmp_path / "p.npy", mmap_mode="r")
    whole = judge_labels(labels, np.asarray(mapped, np.float32))
    monkeypatch.setattr(by_probabilities, "PART", 7 * 13)
    monkeypatch.setattr(by_probabilities, "RELEASE", 2)
    monkeypatch.setattr(by_probabilities, "SAMPLED", 11)
    parts = judge_labels(labels, mapped)
    np.testing.assert_allclose(parts.quality, whole.quality, rtol=2e-5)
    assert (parts.consensus == whole.consensus).all()
    assert (parts.predicted == whole.predicted).all()


def test_a_sample_is_enough(monkeypatch):
    labels, _, p = make(4000, 4)
    whole = judge_labels(labels, p)
    monkeypatch.setattr(by_probabilities, "FIT_ROWS", 1000)
    some = judge_labels(labels, p)
    assert np.abs(whole.quality - some.quality).mean() < 0.01


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(2, 6), st.integers(0, 10_000), st.sampled_from([0.01, 1.0, 50.0]))
def test_any_probabilities_give_qualities(n, k, seed, spread):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 1 / spread), n) if spread < 50 else np.eye(k)[rng.integers(0, k, n)]
    labels = rng.integers(0, k, n)
    judged = judge_labels(labels, p)
    for shares in (judged.quality, judged.consensus_quality, judged.predicted_probability):
        assert np.isfinite(shares).all()
        assert (shares >= 0).all()
        assert (shares <= 1 + 1e-6).all()
    assert (judged.full <= judged.consensus_quality).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_classes_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    labels, _, p = make(150, 4, seed)
    order = rng.permutation(4)
    moved = np.argsort(order)[labels]
    one, other = judge_labels(labels, p), judge_labels(moved, p[:, order])
    np.testing.assert_allclose(one.quality, other.quality, atol=2e-3)


def test_weights_are_of_given_label_and_class():
    learned = Confusions(1.0, np.array([0.0, -1.0]), np.array([[0.9, 0.1], [0.3, 0.7]]))
    expected = [[0.9**0.3, math.exp(-1) * 0.3**0.3], [0.1**0.3, math.exp(-1) * 0.7**0.3]]
    np.testing.assert_allclose(learned.weights(0.3), expected, rtol=1e-6)


def test_a_label_counts_as_it_does_everywhere():
    assert OWN_WEIGHT == held_out.OWN_WEIGHT
