"""What several methods share: the memory of a value per row, the mean over kept rows, Monte-Carlo draws."""

import gc

import pytest
import torch

from pidual.errors import UsageError
from pidual.learn.batch import PI, Batch
from pidual.learn.methods.parts import memory as memory_module
from pidual.learn.methods.parts import monte_carlo
from pidual.learn.methods.parts.memory import SampleMemory
from pidual.learn.methods.parts.monte_carlo import Draws, mean_probability
from pidual.learn.methods.parts.processes import kept_mean

ROWS, WIDTH = 11, 3
PLACES = ["memory", "disk"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of three rows, so that eleven rows are four blocks and the last is not full."""
    monkeypatch.setattr(memory_module, "BLOCK", 10)


def filled(where="memory"):
    """A memory whose every number is another one."""
    memory = SampleMemory(ROWS, WIDTH, where=where)
    memory.update(torch.arange(ROWS), torch.arange(ROWS * WIDTH).view(ROWS, WIDTH) / 4)
    return memory


def a_batch(weight):
    n = len(weight)
    no_pi = PI(torch.zeros(n, 0, dtype=torch.int32), torch.zeros(n, 0))
    return Batch.of_rows(torch.arange(n), (), torch.zeros(n, dtype=torch.int64), no_pi, weight)


# --- SampleMemory: values ---


def test_memory_and_disk_draw_the_same_values_for_two_memories_in_turn():
    values = []
    for where in PLACES:
        torch.manual_seed(4)
        one, two = (SampleMemory(ROWS, WIDTH, std=1.0, where=where) for _ in range(2))
        values.append((one.values.clone(), two.values.clone()))
    assert not torch.equal(*values[1])
    assert torch.equal(values[0][1], values[1][1])


def test_memory_and_disk_hold_the_same_after_the_same_updates(small_blocks):
    memory, disk = (SampleMemory(ROWS, WIDTH, where=where) for where in PLACES)
    expected = torch.zeros(ROWS, WIDTH)
    for _ in range(5):
        index, values = torch.randperm(ROWS)[:4], torch.randn(4, WIDTH)
        memory.update(index, values)
        disk.update(index, values)
        expected[index] = values
    assert torch.equal(memory.values, disk.values)
    assert torch.equal(memory.values, expected)


@pytest.mark.parametrize("where", PLACES)
def test_reads_in_the_order_of_the_index(where):
    rows = filled(where)[torch.tensor([7, 2, 7])]
    assert (4 * rows).tolist() == [[21, 22, 23], [6, 7, 8], [21, 22, 23]]


@pytest.mark.parametrize("where", PLACES)
def test_index_minus_one_reads_nan(where):
    rows = filled(where=where)[torch.tensor([0, -1, 10])]
    assert rows.isnan().tolist() == [[False] * WIDTH, [True] * WIDTH, [False] * WIDTH]


# --- SampleMemory: where it lies ---


def test_unknown_place_is_refused():
    with pytest.raises(UsageError, match="memory must be auto, memory or disk, not 'tape'"):
        SampleMemory(ROWS, WIDTH, where="tape")


@pytest.mark.parametrize(("limit", "on_disk"), [(ROWS * WIDTH * 4, False), (ROWS * WIDTH * 4 - 1, True)])
def test_auto_goes_to_disk_above_the_limit(limit, on_disk, monkeypatch):
    monkeypatch.setattr(memory_module, "DISK_ABOVE", limit)
    memory = SampleMemory(ROWS, WIDTH)
    memory.open()
    assert (memory.path is not None) == on_disk


def test_updates_reach_the_file_which_lies_there_as_long_as_the_memory(tmp_path):
    memory = SampleMemory(ROWS, WIDTH, where="disk")
    memory.open(tmp_path / "rows")
    assert (tmp_path / "rows").stat().st_size == ROWS * WIDTH * 4
    memory.update(torch.tensor([10]), torch.tensor([[1.0, 2.0, 3.0]]))
    stored = torch.frombuffer(bytearray((tmp_path / "rows").read_bytes()), dtype=torch.float32)
    assert stored[-3:].tolist() == [1, 2, 3]
    assert not stored[:-3].any()
    del memory
    gc.collect()
    assert not (tmp_path / "rows").exists()


# --- SampleMemory: save and load ---


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("other", PLACES)
def test_saved_values_are_loaded(where, other, small_blocks, tmp_path):
    memory = filled(where)
    memory.save(tmp_path / "rows")
    again = SampleMemory(ROWS, WIDTH, where=other)
    again.load(tmp_path / "rows")
    assert torch.equal(again.values, memory.values)
    again.update(torch.tensor([0]), torch.full((1, WIDTH), -1.0))  # and go on, apart from the file
    memory.load(tmp_path / "rows")
    assert memory.values[0].tolist() == [0, 0.25, 0.5]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("interruption", [OSError("no space left"), KeyboardInterrupt()])
def test_interrupted_save_leaves_the_old_file(where, interruption, tmp_path, monkeypatch):
    def interrupted(handle):
        raise interruption

    memory = filled(where=where)
    memory.save(tmp_path / "rows")
    before = (tmp_path / "rows").read_bytes()
    memory.update(torch.tensor([0]), torch.full((1, WIDTH), -1.0))
    monkeypatch.setattr("pidual.files.os.fsync", interrupted)
    with pytest.raises(type(interruption)):
        memory.save(tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("size", [0, ROWS * WIDTH * 4 - 1, ROWS * WIDTH * 4 + 1, ROWS * WIDTH * 2])
def test_a_file_of_another_size_is_an_error_and_changes_nothing(where, size, small_blocks, tmp_path):
    (tmp_path / "rows").write_bytes(bytes(size))
    memory = filled(where=where)
    before = memory.values.clone()
    with pytest.raises(OSError, match=f"rows has {size} bytes, not the 132 of 11 rows"):
        memory.load(tmp_path / "rows")
    assert torch.equal(memory.values, before)


# --- kept_mean ---


def test_mean_over_kept_rows_is_weighted():
    weight, losses = torch.tensor([1.0, 2.0, 0.5, 0.5]), torch.tensor([3.0, 5.0, 100.0, 7.0])
    keep = torch.tensor([True, True, False, True])
    expected = (3 * 1 + 5 * 2 + 7 * 0.5) / 3.5
    assert kept_mean(a_batch(weight), losses, keep).item() == pytest.approx(expected)


def test_mean_over_no_rows_is_zero_and_can_be_differentiated():
    losses = torch.ones(4, requires_grad=True)
    mean = kept_mean(a_batch(torch.ones(4)), losses * 2, torch.zeros(4, dtype=torch.bool))
    mean.backward()
    assert mean.item() == 0
    assert losses.grad.tolist() == [0, 0, 0, 0]


# --- Draws ---


def test_draws_are_new_at_every_training_step_and_the_same_at_every_prediction():
    draws = Draws(6)
    drawn = [draws(2)[0]]
    drawn += [draws(2)[0] for _ in range(3)]
    draws.eval()
    predicted = draws(2)[0]
    draws.train()
    drawn.append(draws(2)[0])
    draws.eval()
    assert torch.equal(draws(2)[0], predicted)
    everything = [*drawn, predicted]
    assert not any(torch.equal(a, b) for i, a in enumerate(everything) for b in everything[:i])


def test_draws_neither_use_nor_change_the_global_random_state():
    draws = Draws(6).eval()
    first = draws(2)[0]
    torch.manual_seed(99)
    state = torch.get_rng_state()
    assert torch.equal(draws(2)[0], first)
    assert torch.equal(torch.get_rng_state(), state)


# --- mean_probability ---


def linear_logits(mu, factor):
    """z_s = mu + factor * e_s for every row, (B, s, K)."""
    return lambda e, shift: mu[:, None] + factor[:, None] * e + shift


def random_case(n_draws):
    return (
        torch.randn(size, dtype=torch.float64, requires_grad=True)
        for size in ((4, 3), (4, 3), (n_draws, 3), (n_draws, 1))
    )


@pytest.mark.parametrize("piece", [1, 2, 5, 7, 100])
def test_mean_probability_is_the_mean_of_softmaxes_for_any_piece(piece, monkeypatch):
    monkeypatch.setattr(monte_carlo, "BLOCK", 12 * piece)
    inputs = mu, factor, e, shift = tuple(random_case(10))
    sizes = []

    def logits(e, shift):
        sizes.append(len(e))
        return linear_logits(mu, factor)(e, shift)

    by_pieces = mean_probability(logits, mu.numel(), e, shift)
    assert sizes == [min(piece, 10 - at) for at in range(0, 10, piece)]
    plain = sum(linear_logits(mu, factor)(e[s : s + 1], shift[s : s + 1]).softmax(-1)[:, 0] for s in range(10)) / 10
    assert torch.allclose(by_pieces, plain, atol=1e-12)
    direction = torch.randn_like(plain)
    gradients = torch.autograd.grad((by_pieces * direction).sum(), inputs)
    expected = torch.autograd.grad((plain * direction).sum(), inputs)
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(gradients, expected, strict=True))
    with torch.no_grad():
        assert torch.allclose(mean_probability(logits, mu.numel(), e, shift), plain, atol=1e-12)
