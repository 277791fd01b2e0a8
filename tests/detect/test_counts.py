"""Counts of answers, by plain loops."""

from collections import Counter

import numpy as np
import pytest
from test_annotators import soft_truth

from pidual.detect import counts as counts_module
from pidual.detect.counts import Counts, numbered
from pidual.detect.items import Posteriors, Truth

AXES = [(), ("who",), ("true",), ("who", "true"), ("true", "given"), ("who", "true", "given")]


def counted(axes, who, given, truth):
    """Answers and right ones by their codes on these axes."""
    n, right = Counter(), Counter()
    for row, true, weight in zip(truth.row.tolist(), truth.label.tolist(), truth.weight, strict=True):
        codes = {"who": int(who[row]), "true": true, "given": int(given[row])}
        cell = tuple(codes[name] if name in axes else 0 for name in codes)
        n[cell] += weight
        right[cell] += weight * (given[row] == true)
    return n, right


@pytest.mark.parametrize("axes", AXES)
def test_counts_by_plain_loops(axes):
    who, given, truth = soft_truth()
    counts = Counts.of(who, given, truth, 3)
    n, right = counted(axes, who, given, truth)
    found, (total, total_right) = counts.per(*axes), counts.totals(*axes)
    cells = list(zip(found.who.tolist(), found.true.tolist(), found.given.tolist(), strict=True))
    assert cells == sorted(n)
    assert found.n == pytest.approx([n[cell] for cell in cells])
    assert found.right == pytest.approx([right[cell] for cell in cells])
    assert total == pytest.approx(found.n[found.cell])
    assert total_right == pytest.approx(found.right[found.cell])
    for entry, (row, true) in enumerate(zip(truth.row, truth.label, strict=True)):
        cell = counts.cell[entry]
        assert (counts.who[cell], counts.true[cell], counts.given[cell]) == (who[row], true, given[row])


def test_numbers_of_any_codes_and_the_matrix_of_classes():
    who, given, truth = soft_truth()
    counts, (n, _) = Counts.of(who, given, truth, 3), counted(("who", "true", "given"), who, given, truth)
    codes = np.array(np.meshgrid(np.arange(9), np.arange(3), np.arange(3))).reshape(3, -1)  # two who gave no answer
    assert counts.number(*codes) == pytest.approx([n[tuple(one)] for one in codes.T.tolist()])
    pairs, _ = counted(("true", "given"), who, given, truth)
    assert counts.matrix() == pytest.approx(np.array([[pairs[0, t, g] for g in range(3)] for t in range(3)]))
    assert counts.by_class()[0] == pytest.approx(counts.matrix().sum(1))
    assert counts.by_class()[1] == pytest.approx(np.diag(counts.matrix()))


def test_counts_of_parts_are_those_of_the_whole(monkeypatch):
    who, given, truth = soft_truth()
    whole = Counts.of(who, given, truth, 3)
    monkeypatch.setattr(counts_module, "PART", 7)
    found = Counts.of(who, given, truth, 3)
    assert len(truth.row) > 7
    for name in ("who", "true", "given", "cell"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    for name in ("n", "right"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-12)


def test_parts_of_the_truth_follow_each_other():
    rng = np.random.default_rng(0)
    item, q = rng.integers(0, 40, 100), rng.dirichlet(np.full(4, 0.3), 40)
    posteriors = Posteriors.empty(40, 4)
    posteriors.put(np.arange(40), q)
    whole, parts = Truth.by_posterior(item, posteriors), list(Truth.parts(item, posteriors, 9))
    assert len(parts) == 12
    for name in ("row", "label", "weight"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))


@pytest.mark.parametrize("keys", [[], [3], [5, 0, 5, 2], [10**9, 4, 10**9], [-1, 2, -1, 0]])
def test_numbered_is_unique_of_numpy(keys):
    keys = np.array(keys, np.int64)
    for found, expected in zip(numbered(keys), np.unique(keys, return_inverse=True), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
