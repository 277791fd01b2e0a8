import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from pidual.detect.agreement import (
    FEW_PAIRS,
    answer_pairs,
    describe_agreement,
    krippendorff_alpha,
    own_agreement,
    pairwise_kappa,
)


def answers(n=300, people=6, k=3, per_item=3, skill=0.7, seed=0):
    """Different people answer each item, some of them fewer times."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(k, n, p=[0.6] + [0.4 / (k - 1)] * (k - 1))
    item = np.repeat(np.arange(n), per_item)
    who = np.concatenate([rng.permutation(people)[:per_item] for _ in range(n)])
    given = np.where(rng.random(len(item)) < skill, truth[item], rng.integers(0, k, len(item)))
    kept = rng.random(len(item)) < 0.8
    return item[kept], who[kept], given[kept]


def plain_alpha(item, given):
    """Krippendorff's alpha by its coincidence matrix."""
    k = max(given) + 1
    together = np.zeros((k, k))
    for one in set(item.tolist()):
        labels = given[item == one]
        for a in range(len(labels)):
            for b in range(len(labels)):
                if a != b:
                    together[labels[a], labels[b]] += 1 / (len(labels) - 1)
    n_c = together.sum(1)
    n = n_c.sum()
    observed = 1 - np.trace(together) / n
    expected = 1 - sum(c * (c - 1) for c in n_c) / (n * (n - 1))
    return 1 - observed / expected


@pytest.mark.parametrize("seed", range(3))
def test_alpha_by_plain_loops(seed):
    item, _, given = answers(seed=seed)
    alpha, low, high = krippendorff_alpha(item, given)
    assert alpha == pytest.approx(plain_alpha(item, given))
    assert low < alpha < high


def test_the_interval_of_alpha_is_that_of_the_bootstrap():
    item, _, given = answers(n=400)
    rng = np.random.default_rng(1)
    groups = [given[item == one] for one in range(400)]
    groups = [labels for labels in groups if len(labels) > 1]
    drawn = []
    for _ in range(300):
        chosen = [groups[i] for i in rng.integers(0, len(groups), len(groups))]
        again = np.repeat(np.arange(len(chosen)), [len(labels) for labels in chosen])
        drawn.append(krippendorff_alpha(again, np.concatenate(chosen))[0])
    alpha, low, high = krippendorff_alpha(item, given)
    assert (high - low) / 2 / 1.96 == pytest.approx(np.std(drawn), rel=0.15)
    assert alpha == pytest.approx(np.mean(drawn), abs=0.01)


def test_alpha_where_there_is_none():
    assert krippendorff_alpha([0, 1, 2], [0, 1, 0]) is None
    assert krippendorff_alpha([0, 0, 1], [1, 1, 0]) is None  # what can be compared is one class
    assert krippendorff_alpha([0, 0, 1, 1], [0, 0, 1, 1])[0] == 1


def test_pairs_are_all_there_once(monkeypatch):
    item, who, _ = answers()
    who[:4] = 0  # the same person twice
    first, second = answer_pairs(item, who)
    found = {tuple(sorted(pair)) for pair in zip(first.tolist(), second.tolist(), strict=True)}
    n = len(item)
    assert len(found) == len(first)
    assert found == {(a, b) for a in range(n) for b in range(a + 1, n) if item[a] == item[b] and who[a] != who[b]}
    monkeypatch.setattr("pidual.detect.agreement.MAX_PAIRS", 100)
    assert 50 < len(answer_pairs(item, who)[0]) <= 110
    monkeypatch.setattr("pidual.detect.agreement.MAX_ANSWERS", 2)
    assert set(np.bincount(item[answer_pairs(item, who)[0]]).tolist()) <= {0, 1}


def test_kappa_is_that_of_scikit_learn():
    item, who, given = answers()
    kappas = pairwise_kappa(answer_pairs(item, who), who, given, 3)
    assert len(kappas[0]) == 15
    assert (np.diff(kappas[3]) <= 0).all()
    for a, b, kappa, n in zip(*kappas, strict=True):
        assert a < b
        mine = {i: label for i, w, label in zip(item, who, given, strict=True) if w == a}
        theirs = {i: label for i, w, label in zip(item, who, given, strict=True) if w == b}
        shared = sorted({*mine} & {*theirs})
        assert n == len(shared)
        assert kappa == pytest.approx(cohen_kappa_score([mine[i] for i in shared], [theirs[i] for i in shared]))
    described = describe_agreement(item, who, list("uvwxyz"), given, 3)
    assert described.mean_kappa == pytest.approx(np.average(kappas[2], weights=kappas[3]))


def test_own_agreement_by_plain_loops():
    item, who, given = answers()
    found = own_agreement(answer_pairs(item, who), who, given, 3, 7)
    pairs = [
        (who[a], given[a], given[b])
        for a in range(len(item))
        for b in np.flatnonzero(item == item[a])
        if who[a] != who[b]
    ]

    def kappa(both):
        mine, theirs = (np.bincount([p[i] for p in both], minlength=3) / len(both) for i in (1, 2))
        expected = float(mine @ theirs)
        return (np.mean([p[1] == p[2] for p in both]) - expected) / (1 - expected)

    crowd = kappa(pairs)
    for one in range(6):
        own = [pair for pair in pairs if pair[0] == one]
        expected = (len(own) * kappa(own) + FEW_PAIRS * crowd) / (len(own) + FEW_PAIRS)
        assert found[one] == pytest.approx(expected)
    assert np.isnan(found[6])
    assert np.isnan(own_agreement(answer_pairs([0, 1], [0, 1]), [0, 1], [0, 1], 2, 2)).all()


def test_agreement_is_described_in_json_values():
    item, who, given = answers(people=12)
    found = describe_agreement(item, who, [f"p{i}" for i in range(12)], given, 3)
    assert found.alpha_low < found.alpha < found.alpha_high
    assert len(found.pairs) == 50
    assert (found.pairs[0].items > 0, found.pairs[0].kappa <= 1) == (True, True)
    assert describe_agreement(item, None, None, given, 3).pairs == []
    assert describe_agreement(np.arange(len(item)), who, list("abcdefghijkl"), given, 3) is None
