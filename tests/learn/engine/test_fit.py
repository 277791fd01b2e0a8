import itertools
import sys
from functools import partial

import numpy as np
import pytest
import torch
from contract import spec_of
from torch import nn

from pidual.data.pi.random_pi import derive_seed
from pidual.errors import RunError
from pidual.learn.batch import Rows
from pidual.learn.engine import Callback, Interrupted, Session, Training, fit, make_fabric
from pidual.learn.engine.batches import Batches
from pidual.learn.engine.checkpoint import StateStore
from pidual.learn.engine.fit import weights
from pidual.learn.methods import CE, PiDual, PiDualPlus
from pidual.learn.nets import MLP, PILinear, SmallCNN
from pidual.run.records.config import Position


def build(rows, dropout=0.2):
    return lambda: PiDual(MLP(5, 3, width=16, depth=1, dropout=dropout), spec_of(rows, 3, (6,)), width=16, random_pi=4)


TRAINING = Training(epochs=6, batch_size=24, lr=0.05, clip=1.0, seed=2, weight_decay=1e-3)


def test_one_step_is_nesterov_sgd(rows):
    """Two steps by hand with torch's own optimizer and the whole set as batch."""
    made = []

    def make():
        made.append(CE(MLP(5, 3, width=8, depth=1), spec_of(rows, 3)))
        return made[-1]

    training = Training(epochs=2, batch_size=240, lr=0.1, schedule="constant", weight_decay=0.01)
    fitted = fit(make, rows, None, training, Session(make_fabric("cpu")))
    torch.manual_seed(derive_seed(0, 0, 3))
    net = MLP(5, 3, width=8, depth=1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(rows.x[rows.x_row]), rows.y_noisy).backward()
        optimizer.step()
    for name, value in net.state_dict().items():
        assert torch.allclose(fitted.last[f"f.{name}"], value, atol=1e-6)


def test_schedules():
    steps = Training(epochs=90, schedule="steps", milestones=(36, 72, 96), lr_decay=0.2)
    assert [steps.lr_factor(e * 10, 10) for e in (0, 35, 36, 71, 72, 89)] == pytest.approx([1, 1, 0.2, 0.2, 0.04, 0.04])
    cosine = Training(epochs=10, schedule="cosine", warmup_epochs=1)
    assert [cosine.lr_factor(s, 10) for s in (0, 9, 10)] == pytest.approx([0.1, 1.0, 1.0])
    assert cosine.lr_factor(55, 10) == pytest.approx(0.5)
    assert 0 < cosine.lr_factor(99, 10) < 0.01
    assert Training(schedule="constant").lr_factor(5, 10) == 1


def test_best_and_last_are_both_kept(rows):
    fitted = fit(build(rows), rows, rows, TRAINING)
    best = max(fitted.history, key=lambda r: (r["valid_accuracy"], -r["valid_loss"]))
    assert fitted.selected_epoch == best["epoch"]
    last = fit(build(rows), rows, rows, Training(**{**vars(TRAINING), "select": "last"}))
    assert last.selected_epoch == 5
    assert all(torch.equal(value, last.method.state_dict()[key]) for key, value in fitted.last.items())


@pytest.mark.parametrize("at", [1, 10, 31])
def test_interrupted_and_resumed_is_bitwise_the_same(rows, tmp_path, at):
    whole = fit(build(rows), rows, rows, TRAINING)
    counter = itertools.count(1)
    with pytest.raises(Interrupted, match="stopped in epoch"):
        fit(build(rows), rows, rows, TRAINING, Session(store=StateStore(tmp_path), stop=lambda: next(counter) == at))
    resumed = fit(build(rows), rows, rows, TRAINING, Session(store=StateStore(tmp_path)))
    assert whole.last.keys() == resumed.last.keys()
    assert all(torch.equal(value, resumed.last[key]) for key, value in whole.last.items())
    assert all(torch.equal(value, resumed.method.state_dict()[key]) for key, value in whole.method.state_dict().items())
    drop = ("seconds",)
    clean = [[{k: v for k, v in r.items() if k not in drop} for r in h] for h in (whole.history, resumed.history)]
    assert clean[0] == clean[1]


def test_a_state_that_cannot_be_written_keeps_the_one_before(rows, tmp_path, monkeypatch):
    store = StateStore(tmp_path, save_every=0.0)
    fit(build(rows), rows, rows, Training(epochs=1, batch_size=60), Session(store=store))
    before = store.path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pidual.learn.engine.checkpoint.save_file", full)
    with pytest.raises(RunError, match="the state saved before is kept"):
        store.save({}, Position(), {})
    assert store.path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["state.safetensors"]


def test_mixed_precision_runs(rows):
    fitted = fit(build(rows), rows, rows, Training(epochs=3, batch_size=24, lr=0.05, precision="bf16-mixed"))
    assert fitted.history[-1]["loss"] < fitted.history[0]["loss"]


def test_phases_can_rebuild_the_optimizer_and_choose_rows(rows):
    class Phased(CE):
        visited = 0

        def on_epoch_start(self, epoch, scan):
            assert scan(lambda batch: self.f(batch.x)).shape == (240, 3)
            if epoch == 1:
                nn.init.zeros_(self.f.head.weight)
                self.rebuild_optimizer()

        def epoch_rows(self, epoch, order):
            return order[:48] if epoch else order

        def forward(self, batch):
            self.visited += len(batch.y_noisy)
            return super().forward(batch)

    fitted = fit(
        lambda: Phased(MLP(5, 3, width=8, depth=1), spec_of(rows, 3)),
        rows,
        None,
        Training(epochs=3, batch_size=24, guard="off"),
    )
    assert fitted.method.visited == 240 + 48 + 48


def build_ce(rows):
    return CE(MLP(5, 3, width=8, depth=1), spec_of(rows, 3))


class Weights(Callback):
    """Reads the network's weights at each epoch, and ends training after some of them."""

    def __init__(self, last=None):
        self.last, self.steps, self.weights, self.calls = last, 0, [], []

    def on_train_begin(self, trainer):
        self.calls.append(("begin", trainer.stage, trainer.position.epoch))

    def on_step(self, trainer):
        self.steps += 1
        assert trainer.position.step >= 1

    def on_epoch_end(self, trainer, record):
        self.weights.append(weights(trainer.method))
        record["callback"] = float(len(self.weights))
        assert trainer.history[-1] is record
        if record["epoch"] == self.last:
            trainer.finish()

    def on_note(self, trainer, text):
        self.calls.append(("note", text))

    def on_train_end(self, trainer):
        self.calls.append(("end", trainer.stage, trainer.position.epoch))


def test_callbacks_read_weights_and_end_training(rows, tmp_path):
    training = Training(epochs=5, batch_size=24, guard="off", select="last")
    whole, early, again = Weights(), Weights(last=2), Weights()
    build = partial(build_ce, rows)
    fit(build, rows, None, training, Session(callbacks=[whole]))
    store = StateStore(tmp_path)
    ended = fit(build, rows, None, training, Session(store=store, callbacks=[early]))
    assert (whole.calls, early.calls) == ([("begin", "", 0), ("end", "", 5)], [("begin", "", 0), ("end", "", 3)])
    assert (whole.steps, early.steps) == (50, 30)
    assert (len(ended.history), ended.selected_epoch) == (3, 2)
    assert [record["callback"] for record in ended.history] == [1.0, 2.0, 3.0]
    for one, other in zip(whole.weights, early.weights, strict=False):
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert all(torch.equal(value, ended.method.state_dict()[name]) for name, value in early.weights[-1].items())
    resumed = fit(build, rows, None, training, Session(store=store, callbacks=[again]))  # what was ended stays so
    assert again.calls == [("begin", "", 3), ("end", "", 3)]
    assert len(resumed.history) == 3


def test_callbacks_hear_of_a_collapse_and_of_the_end_of_a_training_that_fails(rows):
    class Failing(Weights):
        def on_step(self, trainer):
            raise RuntimeError("a fault of the callback")

    training = Training(epochs=8, batch_size=24, lr=1e-9, guard="watch", select="last")
    build = partial(build_ce, rows)
    heard, failing = Weights(), Failing()
    fitted = fit(build, rows, None, training, Session(callbacks=[heard]))
    assert len(heard.calls) == 2 + len(fitted.events)
    with pytest.raises(RuntimeError, match="a fault of the callback"):
        fit(build, rows, None, training, Session(callbacks=[failing]))
    assert failing.calls[-1] == ("end", "", 0)


def test_a_first_stage_is_fitted_first_and_resumed(rows, tmp_path):
    class Student(CE):
        """Learns from the answers of a teacher that is fitted first."""

        before_training = {"epochs": 3}  # noqa: RUF012 - never changed

        def __init__(self, f, spec):
            super().__init__(f, spec)
            self.before = CE(MLP(5, 3, width=8, depth=1), spec)

        def forward(self, batch):
            taught = self.before.logits(batch.x)
            assert not taught.requires_grad
            return super().forward(batch._replace(y_noisy=taught.argmax(1)))

    def build_student():
        return Student(MLP(5, 3, width=8, depth=1), spec_of(rows, 3))

    training = Training(epochs=4, batch_size=24, lr=0.05)
    whole = fit(build_student, rows, rows, training)
    teacher = fit(lambda: build_student().before, rows, rows, Training(epochs=3, batch_size=24, lr=0.05))
    state = whole.method.before.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in teacher.method.state_dict().items())
    assert [record.get("stage") for record in whole.history] == ["first stage"] * 3 + [None] * 4
    assert not whole.method.train().before.training
    for stop_at in (12, 35):  # in the first stage, then in the second
        counter = itertools.count(1)
        session = Session(store=StateStore(tmp_path), stop=lambda at=stop_at, steps=counter: next(steps) == at)
        with pytest.raises(Interrupted):
            fit(build_student, rows, rows, training, session)
    resumed = fit(build_student, rows, rows, training, Session(store=StateStore(tmp_path)))
    assert all(torch.equal(value, resumed.last[key]) for key, value in whole.last.items())
    assert [record["epoch"] for record in resumed.history] == [0, 1, 2, 0, 1, 2, 3]


def test_a_phase_with_another_optimizer_resumes_in_it(rows, tmp_path):
    class Refined(CE):
        """Two epochs of SGD, then Adam on the head alone."""

        def __init__(self, f, spec):
            super().__init__(f, spec)
            self.register_buffer("refining", torch.tensor(False))

        @property
        def phase(self):
            return "refine" if self.refining else "fit"

        def on_epoch_start(self, epoch, scan):
            self.refining.fill_(epoch >= 2)
            if epoch == 2:
                self.rebuild_optimizer()

        def param_groups(self):
            if not self.refining:
                return super().param_groups()
            return [{"params": list(self.f.head.parameters()), "adam": True, "lr": 1e-2}]

    def make():
        return Refined(MLP(5, 3, width=8, depth=1), spec_of(rows, 3))

    training = Training(epochs=4, batch_size=24, lr=0.05)
    whole = fit(make, rows, rows, training)
    assert [record["stage"] for record in whole.history] == ["fit", "fit", "refine", "refine"]
    short = fit(make, rows, rows, Training(epochs=2, batch_size=24, lr=0.05, schedule="constant"))
    hidden = "f.hidden.0.weight"
    constant = fit(make, rows, rows, Training(epochs=4, batch_size=24, lr=0.05, schedule="constant"))
    assert torch.equal(short.last[hidden], constant.last[hidden])
    assert not torch.equal(short.last["f.head.weight"], constant.last["f.head.weight"])
    counter = itertools.count(1)
    with pytest.raises(Interrupted):
        fit(make, rows, rows, training, Session(store=StateStore(tmp_path), stop=lambda: next(counter) == 33))
    resumed = fit(make, rows, rows, training, Session(store=StateStore(tmp_path)))
    assert all(torch.equal(value, resumed.last[key]) for key, value in whole.last.items())


@pytest.mark.parametrize("policy", ["uda", "autoaugment"])
def test_the_strong_views_are_the_method_s_and_the_same_after_resuming(policy, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (60, 3, 20, 20), dtype=np.uint8)
    rows = Rows.build(images, np.arange(60), np.arange(60) % 2)
    training = Training(epochs=2, batch_size=20, lr=0.05, crop_pad=2, flip=True, guard="off")

    def make():
        return PiDualPlus(SmallCNN(2, width=2), spec_of(rows, 2), width=4, strong_policy=policy)

    seen = []

    def watched():
        method = make()
        method.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        return method

    whole = fit(watched, rows, None, training)
    batches = Batches(rows, training, n_views=2, strong_views=1, strong_policy=policy)
    for step, batch in enumerate(seen[:3]):
        expected = batches.augment((rows.x[batch.index],), 0, step)
        assert all(torch.equal(view, made) for view, made in zip(batch.views, expected, strict=True))
    counter = itertools.count(1)
    with pytest.raises(Interrupted):
        fit(make, rows, None, training, Session(store=StateStore(tmp_path), stop=lambda: next(counter) == 4))
    resumed = fit(make, rows, None, training, Session(store=StateStore(tmp_path)))
    assert all(torch.equal(value, resumed.last[key]) for key, value in whole.last.items())


def test_a_scan_can_see_the_views_of_training():
    images = np.random.default_rng(0).integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    rows = Rows.build(images, np.arange(30), np.arange(30) % 2)
    seen = {}

    class Looks(CE):
        n_views = 2

        def on_epoch_start(self, epoch, scan):
            seen[epoch] = [scan(lambda batch: torch.stack(batch.views, 1), augmented=on) for on in (True, True, False)]

    fit(lambda: Looks(SmallCNN(2, width=2), spec_of(rows, 2)), rows, None, Training(epochs=2, crop_pad=1, guard="off"))
    augmented, again, plain = seen[0]
    assert torch.equal(augmented, again)
    assert not torch.equal(augmented[:, 0], augmented[:, 1])
    assert not torch.equal(augmented, seen[1][0])
    assert torch.equal(plain[:, 0], torch.from_numpy(images))


def test_a_large_table_is_updated_row_by_row_and_resumes(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[PILinear.__module__], "SPARSE_ABOVE", 10)
    whole = fit(build(rows), rows, rows, TRAINING)
    assert whole.method.shared.sparse
    counter = itertools.count(1)
    with pytest.raises(Interrupted):
        fit(build(rows), rows, rows, TRAINING, Session(store=StateStore(tmp_path), stop=lambda: next(counter) == 23))
    resumed = fit(build(rows), rows, rows, TRAINING, Session(store=StateStore(tmp_path)))
    assert all(torch.equal(value, resumed.last[key]) for key, value in whole.last.items())
    assert whole.history[-1]["loss"] < whole.history[0]["loss"]
