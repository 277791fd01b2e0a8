import re

import numpy as np
import pytest
from test_annotators import soft_truth

from pidual.detect.classes import describe_classes
from pidual.detect.counts import Counts
from pidual.detect.items import Truth

NAMES = ["cat", "dog", "eel", "fox", "gnu"]


def crowd(confuse, people=10, n=6000, seed=0, k=5):
    """Answers that are right in 92%; `confuse(rng, who, truth, given)` makes more mistakes."""
    rng = np.random.default_rng(seed)
    truth, who = rng.integers(0, k, n), rng.integers(0, people, n)
    given = np.where(rng.random(n) < 0.92, truth, rng.integers(0, k, n))
    given = confuse(rng, who, truth, given)
    return given, Truth.by_consensus(truth, rng.uniform(0.8, 1, n)), who


def advice(confuse, *, annotators=True, **how):
    given, truth, who = crowd(confuse, **how)
    names = NAMES[: how.get("k", 5)]
    return describe_classes(Counts.of(who, given, truth, len(names)), names, people=annotators).advice


def swap(rng, truth, given, share, a=0, b=1):
    hit = (rng.random(len(truth)) < share) & np.isin(truth, [a, b])
    return np.where(hit, a + b - truth, given)


def both_ways(rng, who, truth, given):
    return swap(rng, truth, given, 0.25)


def one_way(rng, who, truth, given):
    return np.where(truth == 0, swap(rng, truth, given, 0.25), given)


def one_person(rng, who, truth, given):
    return np.where(who == 3, swap(rng, truth, given, 0.9), given)


def half_the_people(rng, who, truth, given):
    return np.where(who < 4, swap(rng, truth, given, 0.6), given)


def test_transitions_by_plain_loops():
    _, given, truth = soft_truth()
    expected = np.zeros((3, 3))
    for row, label, weight in zip(truth.row, truth.label, truth.weight, strict=True):
        expected[label, given[row]] += weight
    described = describe_classes(Counts.of(None, given, truth, 3), ["a", "b", "c"], people=False)
    assert described.names == ["a", "b", "c"]
    assert np.array(described.transitions) == pytest.approx(expected / expected.sum(1, keepdims=True))
    pairs = described.pairs
    assert len(pairs) == 6
    assert [pair.count for pair in pairs] == sorted((pair.count for pair in pairs), reverse=True)
    for pair in pairs:
        t, g = "abc".index(pair.true), "abc".index(pair.given)
        assert pair.count == pytest.approx(expected[t, g])
        assert pair.share == pytest.approx(expected[t, g] / expected[t].sum())


def test_of_many_classes_only_pairs_are_told():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 30, 3000)
    given = np.where(rng.random(3000) < 0.5, truth, rng.integers(0, 30, 3000))
    counts = Counts.of(None, given, Truth.by_consensus(truth, np.ones(3000)), 30)
    described = describe_classes(counts, list(range(30)), people=False)
    assert described.transitions is None
    assert len(described.pairs) == 50
    assert described.advice == []


def test_classes_that_most_confuse_both_ways():
    (text,) = advice(both_ways)
    assert text.startswith(("cat and dog are confused both ways (", "dog and cat are confused both ways ("))
    assert "10 of 10 annotators" in text
    assert text.endswith("merge them, or define better what tells them apart.")
    (of_two,) = advice(both_ways, k=2)
    assert of_two.endswith("): define better what tells them apart.")  # merged, nothing would be left to tell apart
    (without,) = advice(both_ways, annotators=False)
    assert "annotators" not in without


def test_a_class_that_most_take_for_another():
    (text,) = advice(one_way)
    assert text.startswith("2")
    assert "of cat are labelled dog, by 10 of 10 annotators, and hardly ever the reverse: define cat better" in text


def test_what_one_person_confuses_is_no_matter_of_the_classes():
    (text,) = advice(one_person, people=6)
    assert "come from one annotator, who does so in 9" in text
    assert "merge" not in text
    assert advice(half_the_people) == []  # neither most people nor one


def misses(n, own, others, seed):
    """Two classes; one of four people mislabels `own` of the first class, the other three `others`."""
    rng = np.random.default_rng(seed)
    truth, who = rng.integers(0, 2, n), rng.integers(0, 4, n)
    rate = np.where(who == 2, own, others) * (truth == 0)
    given = np.where(rng.random(n) < rate, 1 - truth, truth)
    counts = Counts.of(who, given, Truth.by_consensus(truth, np.ones(n)), 2)
    return describe_classes(counts, ["fraud", "ok"], people=True).advice


@pytest.mark.parametrize(("n", "seed"), [(n, seed) for n in (400, 4000, 40000) for seed in range(5)])
def test_one_person_stands_out_however_much_is_known_of_the_others(n, seed):
    """The others miss more than MIN_SHARE: many answers must not hide the one who misses seven times as many."""
    (text,) = misses(n, 0.72, 0.1, seed)
    _, own, others = (int(share) for share in re.findall(r"(\d+)%", text))
    near = 4 * 100 * (0.72 * 0.28 / (n / 8)) ** 0.5
    assert own == pytest.approx(72, abs=near)
    assert others == pytest.approx(10, abs=near)
    assert text.endswith("look at that annotator first.")


@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_named_who_does_as_the_others_do(seed):
    assert not any("one annotator" in text for text in misses(4000, 0.12, 0.12, seed))
    assert not any("one annotator" in text for text in misses(4000, 0.02, 0.02, seed))
    assert not any("one annotator" in text for text in misses(100, 0.3, 0.1, seed))


def test_who_gives_most_answers_is_not_blamed_for_it():
    """Nine of ten answers by one person, who confuses the classes as often as the others do."""
    rng = np.random.default_rng(0)
    truth, who = rng.integers(0, 2, 3000), np.where(rng.random(3000) < 0.9, 0, rng.integers(1, 6, 3000))
    given = np.where((rng.random(3000) < 0.08) & (truth == 0), 1, truth)
    counts = Counts.of(who, given, Truth.by_consensus(truth, np.ones(3000)), 2)
    found = describe_classes(counts, ["fraud", "ok"], people=True).advice
    assert not any("one annotator" in text for text in found)


@pytest.mark.parametrize("seed", range(20))
def test_even_mistakes_give_no_advice(seed):
    assert advice(lambda rng, who, truth, given: given, seed=seed, n=600) == []
    assert advice(lambda rng, who, truth, given: rng.integers(0, 5, len(given)), seed=seed, n=600) == []
