"""PiDualLoss: the method's loss with the same weights, in loops of others, and sentences for what cannot be."""

import re

import pytest
import torch
from own_loop import ROWS, K, make, tensors
from torch import nn
from torch.nn import functional as F

from pidual import DataWarning, PiDual, PiDualLoss, UsageError
from pidual.data.pi.random_pi import random_pi
from pidual.learn.batch import PI, Batch, Spec

x, y, pi = tensors()


def test_the_loss_is_that_of_the_method_with_the_same_weights():
    f, loss = make()
    method = PiDual(f, Spec(ROWS, K, (7, 2), 3), width=16, random_pi=8)
    method.load_state_dict(loss.state_dict() | {f"f.{k}": v for k, v in f.state_dict().items()}, strict=False)
    for module in (f, loss, method):
        module.double()  # in single precision the sums differ by a rounding, of 1.2e-7
    drawn = torch.from_numpy(random_pi(3, pi["index"].numpy(), 8))
    a = PI(pi["codes"], torch.cat([pi["numbers"], drawn], 1).double())
    batch = Batch.of_rows(pi["index"], (x.double(),), y, a, torch.ones(ROWS))
    one, other = loss(f(x.double()), y, **pi), method(batch)["loss"]
    assert one.item() == pytest.approx(other.item(), abs=1e-9)
    one.backward()
    mine = {name: p.grad.clone() for name, p in (*loss.named_parameters(), *f.named_parameters())}
    f.zero_grad()
    other.backward()
    theirs = dict(method.named_parameters())
    for name, gradient in mine.items():
        torch.testing.assert_close(theirs.get(name, theirs.get(f"f.{name}")).grad, gradient, rtol=0, atol=1e-9)
    torch.testing.assert_close(loss.gate(**pi), method.explain(a)[0][:, 0], rtol=0, atol=0)


def test_a_closed_gate_is_cross_entropy_and_rows_have_losses_of_their_own():
    f, loss = make(gate_bias=-200.0, reduction="none")
    nn.init.zeros_(loss.gamma[-1].weight)
    assert torch.equal(loss(f(x), y, **pi), F.cross_entropy(f(x), y, reduction="none"))


def test_random_pi_is_of_the_row_and_saved_with_its_seed():
    _, loss = make()
    order = torch.randperm(ROWS)
    shuffled = {name: values[order] for name, values in pi.items()}
    assert torch.equal(loss.gate(**shuffled), loss.gate(**pi)[order])
    _, other = make(seed=99)
    assert not torch.equal(other.gate(**pi), loss.gate(**pi))
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.gate(**pi), loss.gate(**pi))


def test_without_pi_there_is_random_pi_alone_and_one_column_needs_no_second_axis():
    alone = PiDualLoss(K, width=8, random_pi=4)
    assert alone.gate(index=pi["index"]).unique().numel() == ROWS
    loss = PiDualLoss(K, codes=[7], numbers=1, random_pi=0, width=8)
    flat = {"codes": pi["codes"][:, 0], "numbers": pi["numbers"][:, 0]}
    assert torch.equal(loss.gate(**flat), loss.gate(codes=pi["codes"][:, :1], numbers=pi["numbers"][:, :1]))


def test_autocast_mixes_in_bfloat16_and_adds_up_in_full_precision():
    f, loss = make()
    with torch.autocast("cpu", torch.bfloat16):
        low = loss(f(x), y, **pi)
    assert low.dtype == torch.float32
    assert low.item() == pytest.approx(loss(f(x), y, **pi).item(), abs=0.02)
    low.backward()
    assert all(torch.isfinite(p.grad).all() for p in loss.parameters())


WRONG = {
    "index is missing: random_pi=8 needs each row's position": {"index": None},
    "codes is missing: the loss was made for 2 of them per row.": {"codes": None},
    "codes must be whole numbers of shape (40, 2) for this batch, not torch.int64 of shape (40, 1).": {
        "codes": pi["codes"][:, :1]
    },
    "codes must be whole numbers of shape (40, 2) for this batch, not torch.float32": {"codes": pi["codes"].float()},
    "codes, row 3 of the batch, column 0: 7 is not a category; they are 0 to 6, or -1": {
        "codes": pi["codes"].clone().index_put_((torch.tensor(3), torch.tensor(0)), torch.tensor(7))
    },
    "numbers must be floating-point numbers of shape (40, 3) for this batch, not torch.float32 of shape (39, 3).": {
        "numbers": pi["numbers"][1:]
    },
    "index has values from 1 to 40, and rows count from 0 to n_rows - 1 = 39.": {"index": pi["index"] + 1},
}


@pytest.mark.parametrize("said", WRONG)
def test_what_cannot_be_is_a_sentence(said):
    f, loss = make()
    with pytest.raises(UsageError, match=re.escape(said)):
        loss(f(x), y, **pi | WRONG[said])


def test_numbers_that_are_missing_are_named():
    f, loss = make()
    numbers = pi["numbers"].clone()
    numbers[5, 2] = float("nan")
    with pytest.raises(UsageError, match="numbers, row 5 of the batch, column 2: nan is not a finite number; give 0"):
        loss(f(x), y, **pi | {"numbers": numbers})


def test_numbers_that_are_not_standardised_give_one_warning():
    numbers = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    seconds = torch.stack([numbers[:, 0], 2000 + 500 * numbers[:, 1]], 1)
    for wrong, said in (
        (seconds, "numbers, column 1: this batch has mean 2"),
        (numbers * 1e-4, "numbers, column 0: this batch"),
    ):
        loss = PiDualLoss(K, numbers=2, random_pi=0, width=8)
        loss.gate(numbers=wrong[:31])  # too few rows to be sure
        with pytest.warns(DataWarning, match=f"{said}.* bring each column to mean 0 and standard deviation 1"):
            loss.gate(numbers=wrong)
        loss(torch.zeros(64, K), torch.zeros(64, dtype=torch.int64), numbers=wrong)  # and says no more


def test_standardised_numbers_never_warn():
    drawn = torch.Generator().manual_seed(0)
    rare = (torch.rand(10_000, generator=drawn) < 0.01).float()
    normal = torch.randn(10_000, generator=drawn)
    columns = torch.stack([normal, normal.exp(), rare, normal**3, torch.rand(10_000, generator=drawn)], 1)
    columns = (columns - columns.mean(0)) / columns.std(0)
    loss = PiDualLoss(K, numbers=5, random_pi=0, width=8)
    for batch in columns.split(32):
        loss.gate(numbers=batch)


def test_ignored_labels_do_not_count_and_nothing_but_them_is_no_loss():
    f, loss = make()
    some = torch.where(torch.arange(ROWS) % 3 == 0, -100, y)
    kept = some != -100
    rows = make(reduction="none")[1]
    rows.load_state_dict(loss.state_dict())
    torch.testing.assert_close(loss(f(x), some, **pi), rows(f(x), y, **pi)[kept].mean())
    nothing = loss(f(x), torch.full_like(y, -100), **pi)
    nothing.backward()
    assert nothing.item() == 0
    assert all((p.grad == 0).all() for p in (*f.parameters(), *loss.parameters()) if p.grad is not None)


def test_wrong_sizes_are_sentences():
    f, loss = make()
    with pytest.raises(UsageError, match=re.escape("The logits must have shape (rows, 4), not (40, 3).")):
        loss(f(x)[:, :3], y, **pi)
    with pytest.raises(UsageError, match=re.escape("codes must be a list of the sizes of its columns, such as [12]")):
        PiDualLoss(4, codes=12)
    with pytest.raises(UsageError, match="width must be at least 1, not 0"):
        PiDualLoss(4, width=0)
    method = PiDual(f, Spec(ROWS, K, (7, 2), 3), width=16)
    batch = Batch.of_rows(pi["index"], (x,), y, PI(pi["codes"], pi["numbers"]), torch.ones(ROWS))
    with pytest.raises(UsageError, match="has 2 codes and 3 numbers, and the network was made for 2 and 11, random PI"):
        method(batch)
