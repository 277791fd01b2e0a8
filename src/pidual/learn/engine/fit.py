"""The training loop.

    fit(build, train, valid, training) -> Fitted

`build` makes the method; it is called again when the guard finds that a fit has collapsed. The order of the rows,
augmentation, dropout and random PI are functions of (seed, attempt, epoch, step), so a state saved at any step
continues to the same bits, and any number of processes sees the same global batches.

SGD with momentum for ordinary parameters, and for tables of which a batch touches a few rows; or Adam.

The gradient of a large table (a row of weights per annotator) is sparse. With momentum every row would move at every
step, at a cost that grows with the number of annotators. A row's gradient g moves it by lr * g / (1 - momentum) in
the end; a sparse group moves it by that at once, without momentum, and leaves all other rows alone.
"""

import contextlib
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data._utils.pin_memory import pin_memory

from ...data.pi.random_pi import derive_seed
from ...errors import RunError, UsageError
from ...options import Training
from ...run.records.config import Event, Position, State
from ...run.records.summary import AnswerChoice
from ..batch import Batch, Rows
from ..methods.base import Method
from . import collapse
from .batches import Batches
from .callbacks import Record
from .checkpoint import START_ANEW, pack_optimizers, shape_mismatch, unpack_optimizers
from .predict import evaluate, predict_rows, scan_rows
from .session import Interrupted, Session, make_fabric


def make_optimizers(method: Method, training: Training) -> list[torch.optim.Optimizer]:
    """Make the optimizers of a method's parameter groups.

    A group with `sparse` gets one that touches few rows; one with `adam` gets Adam at its own constant rate.
    """
    lr = training.scaled_lr
    defaults = {"lr": lr, "momentum": training.momentum, "weight_decay": training.weight_decay}
    groups: dict[str, list[dict[str, Any]]] = {"dense": [], "sparse": [], "adam": []}
    for group in training.decay_groups(method, [{**defaults, **group} for group in method.param_groups()]):
        options = dict(group)
        kind = next((kind for kind in ("sparse", "adam") if options.pop(kind, False)), "dense")
        if kind == "sparse":
            options |= {"lr": options["lr"] / (1 - options["momentum"]), "momentum": 0.0, "weight_decay": 0.0}
        options = {"constant": kind == "adam", **options, "base_lr": options["lr"]}
        if kind == "adam":
            del options["momentum"]
        else:
            options["nesterov"] = training.nesterov and options["momentum"] > 0
        groups[kind].append(options)
    made: list[torch.optim.Optimizer] = []
    if groups["dense"]:
        made.append(training.make_sgd(groups["dense"]))
    if groups["sparse"]:
        made.append(torch.optim.SGD(groups["sparse"], lr=lr, foreach=False))
    if groups["adam"]:
        made.append(torch.optim.Adam(groups["adam"], lr=lr))
    return made


def clip_gradients(module: nn.Module, max_norm: float) -> None:
    """Scale all gradients down so that their global norm is at most `max_norm`; sparse ones count by their values."""
    gradients = [_gradient_values(parameter) for parameter in module.parameters() if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, scale)


def _gradient_values(parameter: Tensor) -> Tensor:
    """Return the gradient of a parameter, or the values of its sparse gradient, to be changed in place."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()


Weights = dict[str, Tensor]
SAVE_SHARE = 20  # a large state is saved less often, so that saving takes at most a twentieth of the time


@dataclass
class Fitted:
    """A trained method."""

    method: Method  # with the selected weights, in evaluation mode
    last: Weights  # weights after the last epoch
    selected_epoch: int  # epoch of the selected weights, counted from 0
    history: list[Record]  # one record per epoch, over all attempts
    events: list[Event]  # what the guard did
    collapsed: bool = False  # whether the guard calls it collapsed
    # what answers decided where nothing was trained; empty for trained methods
    selection: list[AnswerChoice] = field(default_factory=list)


def fit(
    build: Callable[[], Method],
    train: Rows,
    valid: Rows | None,
    training: Training,
    session: Session | None = None,
    *,
    stage: str = "",
) -> Fitted:
    """Train a method on the rows of `train`.

    `build`: makes the method, with fresh weights.
    `train`, `valid`: training rows, and the noisy validation rows that choose the epoch (None: the last epoch is
        chosen).
    `training`: options of the loop.
    `session`: processes, place of the state, callbacks, and how training is stopped.
    `stage`: name of this training in the records, where it is one of several.
    """
    return Trainer(build, train, valid, training, session or Session(), stage).run()


class Trainer:
    """One run of the training loop; see `fit`."""

    def __init__(
        self,
        build: Callable[[], Method],
        train: Rows,
        valid: Rows | None,
        training: Training,
        session: Session,
        stage: str = "",
    ):
        self.build, self.train, self.training, self.stage = build, train, training, stage
        self.valid = valid
        if valid is not None and training.count_valid(len(valid)) < len(valid):
            self.valid = valid.subset(np.arange(training.count_valid(len(valid))))
        self.fabric = session.fabric or make_fabric(precision=training.precision)
        self.session = replace(session, fabric=self.fabric)
        self.store, self.callbacks, self.stop = session.store, session.callbacks, session.stop
        self.position = Position()
        self.best: Weights = {}
        self.first: Weights | None = None
        self.first_records: tuple[list[Record], list[Event]] = ([], [])
        self.epoch_steps = 1
        self.save_due = time.monotonic() + self.store.save_every if self.store else float("inf")
        labels = (valid or train).y_noisy
        self.majority = float(labels.bincount().max() / len(labels))

    def run(self) -> Fitted:
        """Train from the stored state, or from the start, to the end."""
        first = self.fabric.global_rank == 0
        state = self.fabric.broadcast(self.store.load() if self.store and first else None)
        self.position = state[1].position if state else Position()
        self.set_up()
        if state:
            self.restore(*state)
        else:
            self.position.history[:0], self.position.events[:0] = self.first_records
        with contextlib.ExitStack() as ends:  # all are called, whatever fails
            for callback in reversed(self.callbacks):
                ends.callback(callback.on_train_end, self)
            for callback in self.callbacks:
                callback.on_train_begin(self)
            while self.position.epoch < self.training.epochs and not self.position.ended:
                self.train_epoch()
                self.finish_epoch()
            self.save()
        return self.fitted()

    @property
    def on_cuda(self) -> bool:
        """Return whether training is on a CUDA device."""
        return bool(self.fabric.device.type == "cuda")

    @property
    def history(self) -> list[Record]:
        """Return the records of all epochs so far, over all attempts."""
        return self.position.history

    def finish(self) -> None:
        """End training after this epoch, as if it were the last one; for callbacks."""
        self.position.ended = True

    def set_up(self) -> None:
        """Build method and optimizer for the current attempt."""
        attempt = self.position.attempt
        torch.manual_seed(derive_seed(self.training.seed, attempt, 3))
        self.method = self.build()
        for name, memory in self.method.memories.items():
            memory.open(self.store.folder / f"{name}.memory" if self.store else None)
        if self.method.before is not None:
            self.fit_first(self.method.before)
        self.batches = Batches(
            self.train,
            self.training,
            self.method.random_pi,
            self.method.n_views,
            self.method.strong_views,
            self.fabric.global_rank,
            self.fabric.world_size,
            self.method.strong_policy,
            self.method.by_item,
            self.on_cuda,
        )
        self.options = _recovery(self.training, attempt)
        self.set_up_optimizer()

    def fit_first(self, before: Method) -> None:
        """Fit the method's first stage, unless an earlier attempt has done so, and freeze it."""
        if self.first is None:
            training = replace(self.training, **self.method.before_training)
            session = self.session.part("before")

            def build_first() -> Method:
                first = self.build().before
                assert first is not None
                return first

            fitted = fit(build_first, self.train, self.valid, training, session, stage="first stage")
            self.first, self.first_records = fitted.method.state_dict(), (fitted.history, fitted.events)
        before.load_state_dict(self.first)
        before.requires_grad_(False)

    def set_up_optimizer(self) -> None:
        """Build the optimizer of the method's parameter groups, and hand both to Fabric."""
        self.method.train()
        self.method.zero_grad()  # clipping would count what is left of parameters that are frozen now
        if self.on_cuda:
            self.method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.module, *self.optimizers = self.fabric.setup(self.method, *make_optimizers(self.method, self.options))

    def train_epoch(self) -> None:
        """Take the steps of the current epoch that are not done yet."""
        at, batches = self.position, self.batches
        if at.step == 0 and self.method.begin_epoch(at.epoch, self.scan):
            self.set_up_optimizer()
        self.method.train()
        started = time.monotonic() - at.seconds
        order = self.method.epoch_rows(at.epoch, batches.order(at.epoch))
        self.epoch_steps = max(1, len(order) // batches.batch_size)
        sums = {name: torch.tensor(value, dtype=torch.float64) for name, value in at.sums.items()}
        for batch in batches.epoch(order, at.step, epoch=at.epoch):
            for name, value in self.train_step(batch).items():
                sums[name] = sums.get(name, 0.0) + value.detach().double()
            at.step += 1
            for callback in self.callbacks:
                callback.on_step(self)
            now = time.monotonic()
            stopping = self.asked_to_stop()
            if stopping or now > self.save_due:
                at.sums, at.seconds = {name: float(value) for name, value in sums.items()}, now - started
                self.save()
                if stopping:
                    raise Interrupted(f"stopped in epoch {at.epoch + 1} of {self.training.epochs}, step {at.step}")
        at.sums, at.seconds = {name: float(value) for name, value in sums.items()}, time.monotonic() - started

    def asked_to_stop(self) -> bool:
        """Return whether any process was asked to stop; all of them learn it at the same step."""
        if self.fabric.world_size == 1:
            return self.stop()
        return bool(self.fabric.all_reduce(torch.tensor(float(self.stop())), reduce_op="max"))

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        """Update the parameters once."""
        at = self.position
        self.seed_step(derive_seed(self.training.seed, at.attempt, at.epoch, at.step, self.fabric.global_rank))
        # The schedule counts epochs: one that visits more or fewer rows than there are moves it no further.
        done = at.step * self.batches.steps / self.epoch_steps
        factor = self.options.lr_factor(at.epoch * self.batches.steps + done, self.batches.steps)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
            for group in optimizer.param_groups:
                group["lr"] = group["base_lr"] * (1.0 if group["constant"] else factor)
        if self.on_cuda:
            batch = pin_memory(batch)  # from there the copy to the device does not wait
        if self.fabric.device.type != "cpu":
            batch = self.fabric.to_device(batch)
        batch = batch._replace(views=self.batches.augment(batch.views, at.epoch, at.step))
        if self.on_cuda:
            batch = batch._replace(views=tuple(map(_channels_last, batch.views)))
        with _batch_norm_errors():
            logs: dict[str, Tensor] = self.module(batch)
        self.fabric.backward(logs["loss"])
        if self.options.clip is not None:
            clip_gradients(self.method, self.options.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        return logs

    def seed_step(self, seed: int) -> None:
        """Seed dropout and the like; torch.manual_seed does so for every kind of device, at a millisecond a call."""
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def finish_epoch(self) -> None:
        """Validate, record, remember the best weights, and let the guard look."""
        at = self.position
        steps = self.batches.steps
        factor = self.options.lr_factor((at.epoch + 1) * steps - 1, steps)
        record: Record = {"epoch": at.epoch, "attempt": at.attempt, "lr": self.options.scaled_lr * factor}
        if self.stage or self.method.phase:
            record["stage"] = ", ".join(name for name in (self.stage, self.method.phase) if name)
        names = sorted(at.sums)
        means = self.fabric.all_reduce(torch.tensor([at.sums[name] / at.step for name in names]), reduce_op="mean")
        record |= {name: float(mean) for name, mean in zip(names, means, strict=True)}
        if self.valid is not None:
            accuracy, loss = evaluate(self.method, self.valid, self.fabric)
            record |= {"valid_accuracy": accuracy, "valid_loss": loss}
            merit = (-loss, accuracy) if self.training.select == "lowest_loss" else (accuracy, -loss)
            if at.best is None or merit > tuple(at.best):
                at.best, at.best_epoch, self.best = merit, at.epoch, weights(self.method)
        record["seconds"] = at.seconds
        at.history.append(record)
        for callback in self.callbacks:
            callback.on_epoch_end(self, record)
        at.ended = self.fabric.broadcast(at.ended)
        at.epoch, at.step, at.sums, at.seconds = at.epoch + 1, 0, {}, 0.0
        self.check(record)

    def check(self, record: Record) -> None:
        """Record that the guard calls the fit collapsed, and start again with a smaller rate."""
        at = self.position
        steps_done = at.epoch * self.batches.steps
        if self.training.guard == "off" or not collapse.is_due(record["epoch"], self.training.epochs, steps_done):
            return
        reason = self.fabric.broadcast(collapse.find_collapse(record, self.majority, self.answers))
        if reason is None:
            return
        again = self.training.guard == "recover" and at.attempt + 1 < collapse.MAX_ATTEMPTS
        options = _recovery(self.training, at.attempt + 1)
        action = (
            f"started again with learning rate {options.scaled_lr:g} and gradient clipping at {options.clip:g}"
            if again
            else "went on"
        )
        at.events.append(Event(record["epoch"], at.attempt, reason, action))
        text = f"Collapse after epoch {record['epoch'] + 1}: {reason}; {action}."
        for callback in self.callbacks:
            callback.on_note(self, text)
        if again:
            self.position = Position(attempt=at.attempt + 1, history=at.history, events=at.events)
            self.best = {}
            self.set_up()

    def answers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return f's logits and the given labels on evenly spaced training rows."""
        n = len(self.train)
        index = torch.linspace(0, n - 1, min(n, collapse.SAMPLE_ROWS)).long()
        logits = predict_rows(self.method, self.train.subset(index), self.fabric)
        return logits.numpy(), self.train.y_noisy[index].numpy()

    def scan(self, function: Callable[[Batch], Tensor], *, with_x: bool = True, augmented: bool = False) -> Tensor:
        """Evaluate a function of the batch on all training rows, without gradient."""
        augment = partial(self.batches.scan_views, epoch=self.position.epoch) if augmented else None
        return scan_rows(self.method, function, self.train, self.fabric, with_x=with_x, augment=augment)

    def save(self) -> None:
        """Replace the stored state by the present one."""
        if self.store is None:
            return
        started = time.monotonic()
        if self.fabric.global_rank == 0:
            optimizer, values = pack_optimizers(self.optimizers)
            tensors = {f"method.{name}": value for name, value in weights(self.method).items()}
            tensors |= {f"best.{name}": value for name, value in self.best.items()}
            tensors |= {f"optimizer.{name}": value for name, value in optimizer.items()}
            self.store.save(tensors, self.position, values, self.method.memories)
        now = time.monotonic()
        self.save_due = now + max(self.store.save_every, SAVE_SHARE * (now - started))

    def restore(self, tensors: Weights, values: State) -> None:
        """Continue from a stored state."""
        assert self.store is not None
        parts: dict[str, Weights] = {"method": {}, "best": {}, "optimizer": {}}
        for key, value in tensors.items():
            part, _, name = key.partition(".")
            parts.setdefault(part, {})[name] = value
        if wrong := shape_mismatch(self.method.state_dict(), parts["method"]):
            raise RunError(f"{self.store.path} does not fit this run: {wrong}; {START_ANEW}.")
        self.method.load_state_dict(parts["method"])
        self.method.epoch = min(self.position.epoch, self.training.epochs - 1)
        self.set_up_optimizer()  # of the phase the method is in
        self.best = parts["best"]
        self.store.load_memories(self.method.memories, values)
        unpack_optimizers(self.optimizers, parts["optimizer"], values.optimizer)

    def fitted(self) -> Fitted:
        """Return the method with the selected weights, in evaluation mode, and the rest of what happened."""
        at, last = self.position, weights(self.method)
        best = self.training.select != "last" and bool(self.best)
        if best:
            self.method.load_state_dict(self.best)
        attempts = 1 + max(record["attempt"] for record in at.history)
        return Fitted(
            self.method.eval(),
            last,
            at.best_epoch if best else at.epoch - 1,
            at.history,
            at.events,
            collapsed=bool(at.events) and attempts <= len(at.events),
        )


@contextlib.contextmanager
def _batch_norm_errors() -> Iterator[None]:
    """Say what to do where batch normalisation has a single value of a channel to learn from."""
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise UsageError(
            "The network normalises over batches, and these are too small for inputs of this size; use a larger "
            "--batch-size, larger images, or --network mlp."
        ) from error


def _channels_last(x: Tensor) -> Tensor:
    """Return images with the channels of each pixel side by side, as convolutions on CUDA devices want them."""
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


def _recovery(training: Training, attempt: int) -> Training:
    """Return the options of an attempt: as asked for at first, then with clipping and a third of the rate each time."""
    return (
        training
        if attempt == 0
        else replace(training, lr=training.lr / 3**attempt, clip=min(training.clip or 1.0, 1.0))
    )


def weights(method: Method) -> Weights:
    """Return a copy of all parameters and buffers."""
    return copy.deepcopy(method.state_dict())
