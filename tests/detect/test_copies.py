"""Annotators who copy each other are found, and people who know, share mistakes or have habits are not."""

import numpy as np
import pytest

from pidual.detect import copies
from pidual.detect.copies import LatentClassModel, clusters, copied_by, find_copies, find_open_pair
from pidual.detect.sentences import describe_copies
from pidual.run.records.summary import CopyGroup


def crowd(seed, right, *, copied=(), n=300, k=3, by_input=0.9, per_item=None, misled=0.0, kept=1.0):
    """Answers of people who are right this often, of whom b copies a; and what a classifier says of the items.

    A share of the items misleads most people to the same wrong class.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)

    def answers(share):
        return np.where(rng.random(n) < share, y, (y + rng.integers(1, k, n)) % k)

    misleads = rng.random(n) < misled
    given = np.stack([np.where(misleads & (rng.random(n) < 0.7), (y + 1) % k, answers(share)) for share in right], 1)
    asked = np.ones(given.shape, bool)
    if per_item:
        asked = np.argsort(rng.random(given.shape), 1) < per_item
    for a, b in copied:
        given[:, b] = np.where(rng.random(n) < kept, given[:, a], given[:, b])
        asked[:, b] = asked[:, a]
    p = np.full((n, k), 0.3 / k if by_input else 1 / k)
    if by_input:
        p[np.arange(n), answers(by_input)] += 0.7
    item, who = np.nonzero(asked)
    return item, who, given[item, who], p


def pairs_of(found):
    return list(zip(found.a.tolist(), found.b.tolist(), strict=True))


@pytest.mark.parametrize(
    "shape",
    [
        {"right": [0.65] * 3, "copied": [(0, 1)]},
        {"right": [0.8] * 3, "copied": [(1, 2)]},
        {"right": [0.7] * 5, "copied": [(0, 3)], "by_input": None},
        {"right": [0.7] * 20, "copied": [(4, 11)], "per_item": 5},
        {"right": [0.65] * 4, "copied": [(0, 1)], "kept": 0.95},
        {"right": [0.7] * 6, "copied": [(0, 1), (0, 2), (0, 3), (0, 4)]},
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_copies_are_found(seed, shape):
    found, open_pairs = find_copies(*crowd(seed, **shape))
    wanted = np.arange(len(shape["right"]))
    for a, b in shape["copied"]:
        wanted[b] = a
    assert found.voters(len(wanted)).tolist() == wanted.tolist()
    assert not len(open_pairs.a)
    assert (found.same >= 0.95 * found.items).all()


@pytest.mark.parametrize(
    "shape",
    [
        {"right": [0.65] * 3},
        {"right": [0.95, 0.95, 0.6]},
        {"right": [0.95, 0.95, 0.6], "by_input": 0.5},
        {"right": [1.0, 1.0, 0.65]},
        {"right": [1.0] * 5, "by_input": 0.6},
        {"right": [0.99, 0.99, 0.7], "misled": 0.3, "by_input": 0.8},
        {"right": [0.9, 0.9, 0.7, 0.7, 0.7], "misled": 0.3},
        {"right": [0.95, 0.95, 0.6], "k": 2, "by_input": 0.7},
        {"right": [0.8] * 15, "per_item": 5},
    ],
)
def test_no_independent_pair_is_found(shape):
    found, open_pairs = zip(*(find_copies(*crowd(seed, **shape)) for seed in range(20)), strict=True)
    assert [pairs_of(one) for one in found] == [[]] * 20
    assert sum(len(one.a) for one in open_pairs) <= 1


def test_people_who_say_the_same_to_everything_have_a_habit():
    item, who, given, p = crowd(0, [0.7] * 6)
    found, _ = find_copies(item, who, np.where(who < 2, 1, given), p)
    assert pairs_of(found) == []


@pytest.mark.parametrize("right", [[0.65] * 3, [1.0, 1.0, 0.65]])
def test_two_of_three_without_inputs_are_open(right):
    """They know, or they copy: nothing can say which."""
    found, open_pairs = find_copies(*crowd(0, right, copied=[(0, 1)], by_input=None))
    assert pairs_of(found) == []
    assert pairs_of(open_pairs) == [(0, 1)]
    (record,) = open_pairs.describe(list("abc"))
    assert find_open_pair([record]).startswith("2 annotators gave the same answer to 300 of 300 items in common")
    assert find_open_pair([]) is None


def test_too_few_answers_say_nothing():
    for shape in ({"right": [0.65] * 3, "n": 19}, {"right": [0.65] * 2, "n": 300}, {"right": [0.65], "n": 300}):
        copied = [(0, 1)] if len(shape["right"]) > 1 else []
        found, open_pairs = find_copies(*crowd(0, copied=copied, **shape))
        assert pairs_of(found) == pairs_of(open_pairs) == []


def test_clusters_are_described():
    found, _ = find_copies(*crowd(1, [0.65] * 5, copied=[(0, 2), (0, 3)], kept=0.97))
    (record,) = found.describe(list("abcde"))
    assert record.annotators == ["a", "c", "d"]
    assert record.same / record.items == min(found.same / found.items)
    assert describe_copies(record).startswith(
        f"a, c, d gave the same answers, wrong ones too, to at least {record.same}"
    )
    assert describe_copies(CopyGroup(["x", "y"], 1200, 1100)) == (
        "x and y gave the same answers, wrong ones too, to 1,100 of 1,200 items in common; they count as one voter."
    )
    assert copied_by(["d", "b", "a"], [record]) == ["a, c", None, "c, d"]
    assert clusters(np.array([1, 3]), np.array([3, 4]), 6).tolist() == [0, 1, 2, 1, 1, 5]


def test_the_latent_class_model_by_plain_loops(monkeypatch):
    item, who, given, _ = crowd(3, [0.9, 0.7, 0.6], n=12, per_item=2)
    weight = np.where(who == 1, 0.5, 1.0)
    monkeypatch.setattr(copies, "ROUNDS", 2000)
    q, likelihood = LatentClassModel(item, who, given, weight).fit((12, 3), 3)
    accuracy, confusion = np.zeros(3), np.full((3, 3), 1 / 3)
    for voter in range(3):
        of = np.flatnonzero(who == voter)
        right = sum(weight[row] * q[item[row], given[row]] for row in of)
        accuracy[voter] = (right + 4 * 0.7) / (weight[of].sum() + 4)
    for row in range(len(item)):
        confusion[:, given[row]] += weight[row] * q[item[row]]
    for true in range(3):
        confusion[true, true] = 0
        confusion[true] /= confusion[true].sum()
    for i in range(12):
        joint = q.mean(0).copy()
        for row in np.flatnonzero(item == i):
            for true in range(3):
                a = accuracy[who[row]]
                joint[true] *= (a if given[row] == true else (1 - a) * confusion[true, given[row]]) ** weight[row]
        assert q[i] == pytest.approx(joint / joint.sum(), abs=1e-3)  # a fixed point
        assert likelihood[i] == pytest.approx(np.log(joint.sum()), abs=1e-3)
