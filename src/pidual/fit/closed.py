"""Latent truth without a training loop: f in closed form, or probabilities that are given, or no inputs at all.

Nothing depends on a seed. A round that is finished is kept in the state of the run, which goes on from there.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from msgspec.structs import replace
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ..data.probabilities import as_floats
from ..errors import RunError
from ..files import release
from ..learn.answers.judging import FOLDS, Judge, fit_judge, log_of
from ..learn.answers.model import AnswerModel, Answers
from ..learn.answers.rows import AnswerRows
from ..learn.closed_form.alternate import ROUNDS, Alternated, State, fit_inputs
from ..learn.closed_form.network import KernelMixture
from ..learn.closed_form.pictures import PictureMixture, is_picture
from ..learn.closed_form.ridge import ALONE, Predictors, Processes
from ..learn.engine import Fitted, Interrupted, Session
from ..learn.engine.callbacks import Record
from ..learn.engine.checkpoint import START_ANEW, StateStore, shape_mismatch
from ..learn.methods.fitted_truth import AnswerWeights, FittedTruth
from ..learn.nets import build_network
from ..run.files import CLOSED_FORM
from ..run.records.config import Position
from ..run.records.summary import AnswerChoice
from .prepare import Job

LEARNED_NUMBERS = 2**25  # items x classes, and answers x classes, that are fitted to; of more, evenly spaced items
GIVEN_NUMBERS = 2**21  # answers x classes that are fitted to where f is given
PREDICTED = 2**12  # items whose probabilities are worked out at once
READ = 2**9  # inputs that are read at once
KEPT_NUMBERS = 2**27  # items x classes of which probabilities are kept

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


Asked = Callable[[Ints], Floats]  # from items, numbered as in `Rows.groups`, to their probabilities (n, K)


@dataclass(kw_only=True)
class ClosedFit(Fitted):
    """What was fitted without a training loop."""

    answers: AnswerRows
    judge: Judge
    probabilities: Asked  # from items to their probabilities by fits that have not seen them
    # the same by fits that what is said about them has not reached in any way, where these are others
    untouched: Asked | None
    found: Any = None  # what was found about sets of labels, all classes together; see `label_sets`


class _Made(NamedTuple):
    """What a fit has made, before it is a method."""

    f: Any
    judge: Judge
    probabilities: Asked
    untouched: Asked | None
    likelihoods: list[float]
    explained: float | None
    kernels: dict[str, float]


class _Inputs:
    """Rows of x, flat, picked when they are needed.

    `x` (n, ...): may be a memory map.
    `rows` (m,): which of them.
    """

    def __init__(self, x: NDArray[Any], rows: Ints):
        self.x, self.rows = x, rows
        self.shape = (len(rows), int(np.prod(x.shape[1:])))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows = self.rows[index]
        picked = np.empty((len(rows), *self.x.shape[1:]), self.x.dtype)
        for start in range(0, len(rows), READ):  # rows far apart each have many pages of a file mapped
            part = slice(start, start + READ)
            picked[part] = self.x[rows[part]]
            release(self.x)
        return picked.reshape(-1, self.shape[1])


def fit_closed(job: Job, session: Session | None = None, *, start: AnswerModel | None = None) -> ClosedFit:
    """Fit a job that has no network to train.

    `job`: its network is described in full afterwards.
    `session`: processes share the work of many inputs, and all have the same result. The first of them keeps rounds in
        the store; one that is there is gone on from. Stopping is asked for after every round.
    `start`: where the answer model begins, if it has these annotators and PI.
    """
    session, started = session or Session(), time.monotonic()
    kept = job.train & (job.rows.weight.numpy() > 0)
    answers = AnswerRows.fit(job.rows, job.spec, kept)
    learned = np.flatnonzero(np.add.reduceat(kept[job.rows.groups.order.numpy()], job.rows.groups.starts[:-1].numpy()))
    rounds = ROUNDS if job.network.name == CLOSED_FORM else 1
    kept_rounds = _Rounds(session, started)
    session.progress.start(rounds, 1, kept_rounds.number(), CLOSED_FORM)
    try:
        with threadpool_limits(1):  # the same numbers for any number of threads
            fit = _fit_rounds if rounds > 1 else _fit_given
            made = fit(job, answers, learned, kept, start, kept_rounds)
    finally:
        session.progress.stop()
    method = FittedTruth.around(made.f, job.spec, AnswerWeights.of(job.spec, answers.design, made.judge))
    job.method_options = method.learned.given
    history = records_of(made.likelihoods, started)
    return ClosedFit(
        method,
        method.state_dict(),
        selected_epoch=len(history) - 1,
        history=history,
        events=[],
        selection=_describe(made),
        answers=answers,
        judge=made.judge,
        probabilities=made.probabilities,
        untouched=made.untouched,
    )


class _Rounds:
    """Keeps every round that is finished, and says so; the first process keeps them, as all work out the same."""

    def __init__(self, session: Session, started: float):
        self.session, self.started, self.fabric = session, started, session.fabric
        self.store: StateStore | None = session.store if session.is_first else None

    @property
    def processes(self) -> Processes:
        """Return those who share the work."""
        fabric = self.fabric
        if fabric is None or fabric.world_size == 1:
            return ALONE

        def total(array: NDArray[Any]) -> NDArray[Any]:
            found: torch.Tensor = fabric.all_reduce(torch.from_numpy(array), reduce_op="sum")
            return found.numpy()

        return Processes(fabric.global_rank, fabric.world_size, total)

    def number(self) -> int:
        """Return how many rounds were kept."""
        found = None if self.store is None else self.store.values()
        return 0 if found is None else found.position.epoch

    def state(self, answers: Answers) -> State | None:
        """Return what was kept last of a fit to these answers, on all processes."""
        found = None if self.store is None else self._read(self.store, answers)
        return found if self.fabric is None else self.fabric.broadcast(found)

    def _read(self, store: StateStore, answers: Answers) -> State | None:
        if (found := store.load()) is None:
            return None
        model, n = AnswerModel.empty(answers).flat(), found[1].position.epoch
        items = (answers.n_items, answers.n_classes)
        shapes = {"q": items, "evidence": items, "first": items, "likelihoods": (n,), "model": model.shape}
        if wrong := shape_mismatch(shapes | {"held_out": (FOLDS, *model.shape)}, found[0]):
            raise RunError(f"{store.path} does not fit this run: {wrong}; {START_ANEW}.")
        return {name: value.double().numpy() for name, value in found[0].items()}

    def keep(self, number: int, state: State) -> None:
        """Keep a round."""
        self.session.progress.step(number, 1)
        if self.store is not None:
            tensors = {name: torch.from_numpy(np.asarray(value)) for name, value in state.items()}
            position = Position(epoch=number + 1, history=records_of(state["likelihoods"].tolist(), self.started))
            self.store.save(tensors, position, {})
        asked = np.array([float(self.session.stop())])
        if self.processes.total(asked)[0]:
            raise Interrupted("stopped between two rounds")


def records_of(likelihoods: list[float], started: float) -> list[Record]:
    """Return a record of each round, as of an epoch of training."""
    seconds = (time.monotonic() - started) / len(likelihoods)
    return [
        {"epoch": number, "attempt": 0, "loss": -likelihood, "seconds": seconds}
        for number, likelihood in enumerate(likelihoods)
    ]


def _fit_rounds(
    job: Job, answers: AnswerRows, learned: Ints, kept: NDArray[np.bool_], start: AnswerModel | None, rounds: _Rounds
) -> _Made:
    """Fit f in closed form to evenly spaced items; all others are predicted."""
    inputs = LearnedInputs.of(job, answers, learned, kept, job.spec.n_classes)
    said = inputs.said
    how: dict[str, Any] = {"start": _fitting(start, said), "state": rounds.state(said), "after_round": rounds.keep}
    how["processes"] = rounds.processes
    found: Alternated = fit_inputs(inputs.x, inputs.row, said, truth=answers.truth(inputs.items), **how)
    mixture = KernelMixture.of(found.f)
    f = mixture if inputs.pictures is None else inputs.pictures.around(mixture)
    job.network = replace(job.network, options=f.options)
    explained = _share_explained(found.p, found.q)
    return _Made(f, found.judge, *inputs.asked([found])[0], found.likelihoods, explained, mixture.shares)


@dataclass(frozen=True)
class LearnedInputs:
    """The items that f in closed form is fitted to: evenly spaced ones of many; all others are predicted."""

    items: Ints  # (n,), which items, as numbered in `Rows.groups`
    # said, index: their answers, and the positions of these among the rows
    said: Answers
    index: Ints
    x: _Inputs  # their different inputs
    row: Ints  # (n,), which of these each item has
    # (N,), the place of each item among `items`, -1 where it is predicted; a copy of an item is judged as that
    number: Ints
    every: _Inputs  # the inputs of all N items
    pictures: PictureMixture | None  # what describes inputs that are pictures

    @classmethod
    def of(
        cls, job: Job, answers: AnswerRows, learned: Ints, kept: NDArray[np.bool_], n_classes: int
    ) -> "LearnedInputs":
        """Choose items, and find their inputs."""
        n_numbers = max(len(learned), int(kept.sum())) * n_classes
        some = learned[:: max(1, -(-n_numbers // LEARNED_NUMBERS))]
        first, every = answers.first(some), answers.first(np.arange(len(job.rows.groups)))
        _, place, row = np.unique(job.together[first], return_index=True, return_inverse=True)
        array, x_row, pictures = job.inputs.array, job.rows.x_row.numpy(), None
        if is_picture(array.shape[1:]):
            pictures = PictureMixture.of(array, np.unique(x_row[first]), n_classes)
            array = pictures.describe(array)
        assert isinstance(array, np.ndarray)
        number = np.full(int(job.together.max()) + 1, -1)
        number[job.together[first]] = np.arange(len(some))
        x, others = _Inputs(array, x_row[first[place]]), _Inputs(array, x_row[every])
        return cls(some, *answers.of(some, kept), x, row, number[job.together[every]], others, pictures)

    def asked(self, found: Sequence[Alternated]) -> list[tuple[Asked, Asked]]:
        """Return what each of some fits says about items it has not seen, and the same after its first round."""
        number, every, k = self.number, self.every, found[0].p.shape[1]  # what is kept holds no answers
        predict = Predictors([each.f for each in found])

        def predicted(items: Ints) -> list[Floats]:
            parts = [predict(every[part]) for part in np.array_split(items, len(items) // PREDICTED + 1)]
            return [np.concatenate(of_fit) for of_fit in zip(*parts, strict=True)]

        new = np.flatnonzero(number < 0)
        kept = predicted(new) if 0 < len(new) * k * len(found) <= KEPT_NUMBERS else None

        def probabilities(items: Ints, at: int, known: Floats) -> Floats:
            p, place = np.empty((len(items), k)), number[items]
            p[place >= 0] = known[place[place >= 0]]
            if (others := items[place < 0]).size:
                p[place < 0] = predicted(others)[at] if kept is None else kept[at][np.searchsorted(new, others)]
            return p

        return [
            (partial(probabilities, at=at, known=each.p), partial(probabilities, at=at, known=each.first))
            for at, each in enumerate(found)
        ]


def _share_explained(p: Floats, q: Floats) -> float:
    """Return how much of what is known about the classes of items, beyond how frequent they are, p knows by itself."""
    log_mean = np.log(np.maximum(q.mean(0), 1e-12))
    known = float((q * (np.log(np.maximum(q, 1e-12)) - log_mean)).sum(1).mean())
    gained = float((q * (log_of(p) - log_mean)).sum(1).mean())
    return float(np.clip(gained / known, 0, 1)) if known > 0 else 0.0


def _fit_given(
    job: Job, answers: AnswerRows, learned: Ints, kept: NDArray[np.bool_], start: AnswerModel | None, rounds: _Rounds
) -> _Made:
    """Fit the answer model to evenly spaced items, beside probabilities that are given, or alike for all items."""
    k, first = job.spec.n_classes, answers.first(np.arange(len(job.rows.groups)))

    def probabilities(items: Ints) -> Floats:
        return given_probabilities(job, first[items])

    per_item = len(job.rows) / len(first)
    some = learned[:: max(1, int(len(learned) * per_item * k // GIVEN_NUMBERS))]
    said = answers.of(some, kept)[0]
    judge = fit_judge(said, log_of(probabilities(some)), truth=answers.truth(some), start=_fitting(start, said))
    f = build_network(job.network.name, in_shape=job.network.in_shape, n_classes=k)
    sharpness = judge.temper.sharpness if judge.misleading is None else judge.misleading.sharpness
    values = {"bias": sharpness * judge.model.bias[None]}
    if job.network.name == "given":
        values["log_temperature"] = np.full((1, 1), float(judge.model.log_sharpness) + np.log(max(sharpness, 1e-6)))
    f.load_state_dict({name: torch.from_numpy(value) for name, value in values.items()})
    return _Made(f, judge, probabilities, None, [judge.temper.likelihood], None, {})


def given_probabilities(job: Job, rows: Ints) -> Floats:
    """Return the probabilities that are given for the items of these rows, or the same for all classes."""
    if job.inputs.kind == "none":
        return np.full((len(rows), job.spec.n_classes), 1 / job.spec.n_classes)
    assert isinstance(job.inputs.array, np.ndarray)
    block = job.inputs.array[job.rows.x_row.numpy()[rows]]
    p: Floats = (as_floats(block) if block.dtype == np.float16 else block).astype(np.float64)
    p /= p.sum(1, keepdims=True)
    return p


def _fitting(start: AnswerModel | None, said: Answers) -> AnswerModel | None:
    """Return an answer model to start from if it has the shapes of one for these answers."""
    empty = AnswerModel.empty(said)
    same = start is not None and all(
        np.shape(value) == np.shape(getattr(empty, name)) for name, value in vars(start).items()
    )
    return start if same else None


def _describe(made: _Made) -> list[AnswerChoice]:
    """Return what held-out answers decided, for summary.json."""
    misleading, temper = made.judge.misleading, made.judge.temper
    found = AnswerChoice(
        tau=temper.tau,
        sharpness=temper.sharpness,
        answer_log_likelihood=temper.likelihood,
        misleading_rate=None if misleading is None else misleading.rate,
        misleading_follow=None if misleading is None else misleading.follow,
        kernels=made.kernels,
        explained=made.explained,
    )
    return [found]
