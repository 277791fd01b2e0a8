"""What one more answer is worth, against plain loops."""

import numpy as np
import pytest

from pidual.detect.next_answers import assign, confusion_matrices, gains, gains_among_many


def error(p):
    """The Brier score that a posterior expects of itself: the mean over classes that may be true."""
    return sum(p[z] * sum((p[k] - (k == z)) ** 2 for k in range(len(p))) for z in range(len(p)))


def gain_by_loops(p, confusion):
    """Every answer in turn: its probability, the posterior after it, and that one's error."""
    after = 0.0
    for answer in range(len(p)):
        joint = [p[k] * confusion[k][answer] for k in range(len(p))]
        if sum(joint) > 0:
            after += sum(joint) * error([value / sum(joint) for value in joint])
    return error(p) - after


@pytest.mark.parametrize("k", [2, 3, 5])
def test_gains_are_those_of_every_answer_in_turn(k):
    rng = np.random.default_rng(k)
    p, confusions = rng.dirichlet(np.ones(k), 7), rng.dirichlet(np.ones(k), (4, k))
    expected = [[gain_by_loops(row, confusion) for confusion in confusions] for row in p]
    np.testing.assert_allclose(gains(p, confusions), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("left", [0.0, 0.2])
def test_many_classes_are_as_if_all_were_written_out(left):
    rng = np.random.default_rng(1)
    k, n_top, n_people = 9, 3, 4
    top = np.array([rng.permutation(k)[:n_top] for _ in range(6)])
    p_top = rng.dirichlet(np.ones(n_top), 6) * (1 - left)
    on_top, elsewhere = rng.uniform(0.3, 1, (6, n_people, n_top)), rng.uniform(0.3, 1, n_people)
    found = gains_among_many(p_top, on_top, elsewhere, k)
    for item in range(6):
        p = np.full(k, left / (k - n_top))
        p[top[item]] = p_top[item]
        for who in range(n_people):
            accuracy = np.full(k, elsewhere[who])
            accuracy[top[item]] = on_top[item, who]
            confusion = confusion_matrices(accuracy[None], None)[0]
            assert found[item, who] == pytest.approx(gain_by_loops(p, confusion), abs=1e-12)


def test_wrong_answers_are_those_of_the_crowd():
    transitions = np.array([[0.8, 0.2, 0.0], [0.3, 0.4, 0.3], [0.0, 0.0, 1.0]])
    found = confusion_matrices(np.array([[0.9, 0.5, 0.6]]), transitions)[0]
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_allclose(np.diag(found), [0.9, 0.5, 0.6])
    np.testing.assert_allclose(found[0, 1:], [0.1 * 0.95, 0.1 * 0.05])  # a tenth of them evenly
    np.testing.assert_allclose(found[1, [0, 2]], 0.25)
    np.testing.assert_allclose(found[2, :2], 0.2)  # no mistake is known


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_limit_is_kept_as_if_the_best_pair_were_taken_first(limit):
    rng = np.random.default_rng(limit)
    gain = rng.random((30, 5))
    gain[:, -1] *= 0.1
    gain[rng.random((30, 5)) < 0.2] = -np.inf
    gain[:, -1] = np.abs(np.nan_to_num(gain[:, -1], neginf=0.01))
    expected, count = {}, dict.fromkeys(range(4), 0)
    for flat in np.argsort(-gain, axis=None):
        item, who = divmod(int(flat), 5)
        if item not in expected and np.isfinite(gain[item, who]) and (who == 4 or count[who] < limit):
            expected[item] = who
            if who < 4:
                count[who] += 1
    who, best = assign(gain, limit)
    assert who.tolist() == [expected[item] for item in range(30)]
    np.testing.assert_array_equal(best, gain[np.arange(30), who])


def test_answers_by_gain_are_worth_twice_as_many_at_random():
    rng = np.random.default_rng(0)
    n, k = 4000, 3
    confusions = confusion_matrices(rng.uniform(0.5, 0.9, (6, k)), None)
    truth = rng.integers(0, k, n)
    p = np.full((n, k), 1 / k)

    def ask(p, items, who):
        """The posterior after an answer to each of these items by these annotators."""
        answers = (rng.random(len(items))[:, None] < confusions[who, truth[items]].cumsum(1)).argmax(1)
        new = p.copy()
        new[items] *= confusions[who, :, answers]
        return new / new.sum(1, keepdims=True)

    for _ in range(2):
        p = ask(p, np.arange(n), rng.integers(0, 6, n))
    gain = gains(p, confusions)
    chosen = np.argsort(-gain.max(1))[: n // 4]
    by_gain = ask(p, chosen, gain[chosen].argmax(1))
    at_random = ask(p, rng.permutation(n)[: n // 2], rng.integers(0, 6, n // 2))
    before, ours, theirs = ((posterior.argmax(1) == truth).mean() for posterior in (p, by_gain, at_random))
    assert before < theirs < ours
    expected = np.square(p).sum() + gain[chosen].max(1).sum()
    assert np.square(by_gain).sum() == pytest.approx(expected, rel=0.01)  # what was promised
