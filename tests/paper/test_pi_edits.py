"""Changes to the PI that the paper's ablations make: which rows and columns, and by what."""

import math

import pytest
import torch
from scipy.stats import chisquare, kstest

from pidual.errors import UsageError
from pidual.learn.batch import PI, Spec
from pidual.paper.ablations import PIEdits

N, L = 20_000, 3
SIZES = (7, 4)
SPEC = Spec(
    N, 5, SIZES, 3, code_names=("annotator", "tool"), number_names=("seconds", "seconds", "trial")
)  # seconds: value and flag
INDEX = torch.arange(N)


def edits(spec=SPEC, *, leave_out=(), everything=False, corrupt=0.0):
    seed = int(torch.randint(2**62, ()))
    return PIEdits(spec, leave_out=leave_out, only_random_pi=everything, corrupt_pi=corrupt, seed=seed)


@pytest.fixture(scope="module")
def a():
    """Two codes, three numbers far from anything a standard normal gives, random PI of length 3."""
    generator = torch.Generator().manual_seed(5)
    codes = torch.stack([torch.randint(0, size, (N,), generator=generator) for size in SIZES], 1).int()
    return PI(codes, torch.cat([torch.full((N, 3), 100.0), torch.randn(N, L, generator=generator)], 1))


def replaced(after):
    """Rows that were corrupted: in these, and only in these, all three numbers are new."""
    new = after.numbers[:, :3] != 100.0
    assert torch.equal(new.any(1), new.all(1))
    return new.all(1)


# corrupted rows


@pytest.mark.parametrize("q", [0.25, 0.5, 0.75])
def test_a_share_q_of_the_rows_is_corrupted(a, q):
    n = int(replaced(edits(corrupt=q)(a, INDEX)).sum())
    assert abs(n - q * N) < 5 * math.sqrt(N * q * (1 - q))


def test_rows_that_are_not_corrupted_keep_their_pi(a):
    after = edits(corrupt=0.5)(a, INDEX)
    kept = ~replaced(after)
    assert torch.equal(after.codes[kept], a.codes[kept])
    assert torch.equal(after.numbers[kept], a.numbers[kept])


@pytest.mark.parametrize("q", [0.5, 1.0])
def test_new_codes_are_uniform_over_the_categories_and_unrelated_to_the_old_ones(a, q):
    after = edits(corrupt=q)(a, INDEX)
    hit = replaced(after)
    assert after.codes.dtype == a.codes.dtype
    for j, size in enumerate(SIZES):
        new, old = after.codes[hit, j].long(), a.codes[hit, j].long()
        pairs = torch.bincount(old * size + new, minlength=size * size).double()
        assert len(pairs) == size * size  # within the range of the codes
        assert chisquare(pairs.reshape(size, size).sum(0)).pvalue > 1e-4
        assert chisquare(pairs, pairs.reshape(size, size).sum(1).repeat_interleave(size) / size).pvalue > 1e-4


@pytest.mark.parametrize("q", [0.5, 1.0])
def test_new_numbers_are_independent_standard_normals(a, q):
    after = edits(corrupt=q)(a, INDEX)
    hit = replaced(after)
    numbers = after.numbers[hit][:, [0, 2]]
    for column in numbers.T:
        assert kstest(column.numpy(), "norm").pvalue > 1e-4
    together = torch.cat([numbers, after.codes[hit].float()], 1)
    assert torch.allclose(together.T.corrcoef(), torch.eye(4), atol=0.06)
    assert bool((after.numbers[hit, 1] == 0).all())  # the flag: a number that was missing is there now


def test_the_same_rows_get_the_same_values_whatever_the_batch(a):
    one = edits(corrupt=0.5)
    whole = one(a, INDEX)
    order = torch.randperm(N)[:500]
    part = one(PI(a.codes[order], a.numbers[order]), order)
    assert torch.equal(part.codes, whole.codes[order])
    assert torch.equal(part.numbers, whole.numbers[order])
    again = one(a, INDEX)
    assert torch.equal(again.numbers, whole.numbers)


def test_each_run_corrupts_rows_of_its_own(a):
    one, two = edits(corrupt=0.5), edits(corrupt=0.5)
    assert 0.4 < (replaced(one(a, INDEX)) == replaced(two(a, INDEX))).float().mean() < 0.6
    torch.manual_seed(9)
    first = edits(corrupt=0.5)(a, INDEX)
    torch.manual_seed(9)
    assert torch.equal(edits(corrupt=0.5)(a, INDEX).numbers, first.numbers)


def test_rows_that_were_not_trained_on_are_never_corrupted(a):
    after = edits(corrupt=1.0)(a, torch.full((N,), -1))
    assert torch.equal(after.codes, a.codes)
    assert torch.equal(after.numbers, a.numbers)
    mixed = edits(corrupt=1.0)(a, torch.where(INDEX % 2 == 0, INDEX, -1))
    assert torch.equal(replaced(mixed), INDEX % 2 == 0)


# columns left out


@pytest.mark.parametrize(
    ("leave_out", "codes", "numbers"),
    [
        ("annotator", [0], []),
        ("seconds", [], [0, 1]),  # with its flag
        (("tool", "trial"), [1], [2]),
        (("annotator", "tool", "seconds", "trial"), [0, 1], [0, 1, 2]),
    ],
)
def test_columns_are_left_out_by_name(a, leave_out, codes, numbers):
    made = edits(leave_out=leave_out)
    after = made(a, INDEX)
    kept_codes = [j for j in range(2) if j not in codes]
    kept_numbers = [j for j in range(3 + L) if j not in numbers]
    assert torch.equal(after.codes, a.codes[:, kept_codes])
    assert torch.equal(after.numbers, a.numbers[:, kept_numbers])
    assert made.spec.cardinalities == tuple(SIZES[j] for j in kept_codes)
    assert made.spec.n_numbers == len(kept_numbers) - L


def test_an_unknown_column_is_refused_with_the_names_of_all():
    with pytest.raises(UsageError, match=r"'speed'.* annotator, tool, seconds, trial"):
        edits(leave_out=("annotator", "speed"))
    with pytest.raises(UsageError, match=r"'annotator'.* not known by name"):
        edits(Spec(N, 5, SIZES, 3), leave_out="annotator")
