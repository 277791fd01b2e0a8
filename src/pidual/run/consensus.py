"""One consensus for every method: given class probabilities of the items, and all answers to each, judged together.

    q_i(k)   proportional to p_i(k)^s prod_j P(l_ij | k, a_ij)^tau                   the posterior

p: what a network that judges one answer at a time says about the items. P: the answer model, fitted to the answers with
p as it is except for a temperature and a bias of each class. s and tau are what makes left-out answers to items that
the answer model has not seen most likely (`held_out`). A network is surer of what it was trained on, and has learned
some of the answers there: for these items p is tempered until they are no likelier than those of held-out items.
"""

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from ..batch import PI, Batch, Groups, Rows, Spec
from ..encode import PIColumn, quantity
from ..methods.answer_model import AnswerModel
from ..methods.held_out import answer_quality, by_vote, find_tempers, log_posterior
from .effects import with_uncertainty
from .splits import TEST, TRAIN, VALID

FOLDS = 2  # members that each have not seen a part of the items; one more has seen all
STEPS, MOST_STEPS = 60, 250
LR = 0.1
STEP_NUMBERS = 2**16  # answers x classes that a step looks at
FEWEST_ANSWERS = 512  # of a step
TEMPER_NUMBERS = 2**18  # answers x classes that decide s and tau
POWERS = np.linspace(0.02, 1.0, 50)
LEAST = 1e-6  # probability
EFFECT_NUMBERS = 2**20  # answers x classes x members that effects of PI are a mean of
MIN_SUPPORT = 20  # annotations that a category, or a column, needs
MAX_NAMED_CATEGORIES = 50  # values of a column with more may be ids and are not written out


class GivenProbabilities(nn.Module):
    """M answer models beside probabilities that are given, each with a temperature and a bias of every class."""

    def __init__(self, spec: Spec, n_members: int):
        super().__init__()
        own_confusions = spec.n_train >= 4 * spec.n_classes**2 * spec.n_annotators > 0
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.answers = AnswerModel(spec, n_members, own_confusions=own_confusions)
        self.log_sharpness = nn.Parameter(torch.zeros(n_members))
        self.bias = nn.Parameter(torch.zeros(n_members, spec.n_classes))

    def log_f(self, log_p: Float[Tensor, "B K"]) -> Float[Tensor, "M B K"]:
        """Given log-probabilities, as each member takes them."""
        return (self.log_sharpness.exp()[:, None, None] * log_p + self.bias[:, None]).log_softmax(-1)

    def loss(self, log_p: Tensor, batch: Batch, seen: Tensor, n_items: int) -> Tensor:
        """Minus the log-likelihood of all answers to an item, and of the priors: the sum over members."""
        log_l = self.answers(batch.a, batch.y_noisy) * batch.weight[:, None]
        losses = -log_posterior(self.log_f(log_p), *by_vote(log_l, batch.item, batch.vote)[:2]).logsumexp(-1)
        prior = (self.bias.square().sum(1) + self.log_sharpness.square()) / 2 / n_items
        loss = (losses * seen).sum(1) / seen.sum(1).clamp(min=1)
        return (loss + prior + self.answers.penalty(batch.a, n_items)).sum()


@dataclass(frozen=True)
class Judge:
    """What was learned about the answers, and how it is put together with given probabilities.

    Parameters
    ----------
    members : GivenProbabilities
        The last one has seen all items, and judges.
    sharpness, tau : float
        s and tau, by held-out answers.
    power : float
        To which p is taken first, of items that the network was trained on.
    """

    members: GivenProbabilities
    sharpness: float = 1.0
    tau: float = 1.0
    power: float = 1.0

    @property
    def shares(self) -> Float[Tensor, " M"]:
        """What each member counts: the last one all."""
        return torch.eye(len(self.members.bias))[-1]

    @torch.no_grad()
    def posterior(self, log_p: Float[Tensor, "B K"], batch: Batch, trained: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q of items with these log-probabilities and answers; `trained` says which the network was trained on.

        Beside it the probability that each answer is right, and that without the answer itself (R,).
        """
        last = torch.tensor([len(self.members.bias) - 1])
        log_f = self.members.log_f(temper(log_p, trained, self.power))[last] * self.sharpness
        log_l = self.members.answers(batch.a, batch.y_noisy, last) * batch.weight[:, None]
        log_q = log_posterior(log_f.log_softmax(-1), *by_vote(log_l, batch.item, batch.vote)[:2], self.tau)
        right, unaided = answer_quality(log_q, log_l, batch.item, batch.y_noisy, self.tau, vote=batch.vote)
        return log_q.softmax(-1)[0], right[0], unaided[0]


def fit_judge(
    log_p: Float[Tensor, "n K"], items: Int[Tensor, " n"], rows: Rows, split: NDArray[np.int8], spec: Spec
) -> Judge:
    """Learn how answers come about, beside given probabilities of some items.

    Parameters
    ----------
    log_p : tensor (n, K)
        Logarithms of the probabilities.
    items : int tensor (n,)
        Which of `rows.groups` they are of.
    rows : Rows
        All annotations; x is not looked at.
    split : int array (N,)
        TRAIN, VALID or TEST: what each annotation is of. Those of TEST are not learned from.
    spec : Spec
    """
    part = torch.from_numpy(first_part(split, rows, items))
    power = find_power(log_p, part)
    learned = (part != TEST).nonzero()[:, 0]
    log_p, items, part = log_p[learned], items[learned], part[learned]
    members = GivenProbabilities(spec, FOLDS + 1).eval()
    fold = torch.from_numpy(np.random.default_rng(0).permutation(len(items)) % FOLDS)
    if members.answers.sparse:
        index, _ = rows.groups.members(items)
        who = members.answers.annotator(rows.select(index, with_x=False).a)
        members.answers.answers.copy_(who.bincount(minlength=len(members.answers.answers)).clamp(min=1))
    optimizer = torch.optim.Adam(members.parameters(), lr=LR)
    steps = list(step_items(rows.groups, items, spec.n_classes))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(steps))
    for at in steps:
        index, item = rows.groups.members(items[at])
        seen = torch.stack([*(fold[at] != number for number in range(FOLDS)), fold[at] >= 0])
        optimizer.zero_grad()
        batch = rows.select(index, item=item, with_x=False)
        members.loss(temper(log_p[at].float(), part[at] == TRAIN, power), batch, seen, len(items)).backward()
        optimizer.step()
        schedule.step()
    sharpness, tau = choose_tempers(members, log_p, items, fold, rows, part == TRAIN, power)
    return Judge(members, sharpness, tau, power)


def step_items(groups: Groups, items: Tensor, n_classes: int) -> Iterator[Tensor]:
    """Positions in `items` that each step looks at: all of them where they are few, else one batch after another."""
    per_item = max(1.0, float((groups.starts[items + 1] - groups.starts[items]).float().mean()))
    size = max(1, int(max(FEWEST_ANSWERS, STEP_NUMBERS // n_classes) / per_item))
    passes, generator = -(-len(items) // size), torch.Generator().manual_seed(0)
    left = torch.empty(0, dtype=torch.int64)
    for _ in range(min(MOST_STEPS, max(STEPS, passes))):
        if len(left) < min(size, len(items)):
            left = torch.randperm(len(items), generator=generator)
        batch, left = left[:size], left[size:]
        yield batch


@torch.no_grad()
def choose_tempers(
    members: GivenProbabilities,
    log_p: Tensor,
    items: Tensor,
    fold: Tensor,
    rows: Rows,
    trained: Tensor,
    power: float,
) -> tuple[float, float]:
    """s and tau under which left-out answers to items of which a member has seen none are most likely."""
    per_item = max(1.0, len(rows) / len(rows.groups))
    some = torch.arange(0, len(items), max(1, int(len(items) * per_item * log_p.shape[1] // TEMPER_NUMBERS)))
    index, item = rows.groups.members(items[some])
    counts = rows.weight[index] > 0
    index, item = index[counts], item[counts]
    batch = rows.select(index, item=item, with_x=False)
    log_f = members.log_f(temper(log_p[some].float(), trained[some], power))
    log_l = members.answers(batch.a, batch.y_noisy)
    number = fold[some]
    held_out_f = log_f[number, torch.arange(len(some))]
    held_out_l = log_l[number[item], torch.arange(len(item))]
    sharpness, tau, _ = find_tempers(held_out_f, *by_vote(held_out_l, item, batch.vote)[:2])
    return sharpness, tau


def temper(log_p: Float[Tensor, "B K"], trained: Tensor, power: float) -> Float[Tensor, "B K"]:
    """Log-probabilities, those of items that the network was trained on to a power."""
    return torch.where(trained[:, None], (log_p * power).log_softmax(-1), log_p)


def first_part(split: NDArray[np.int8], rows: Rows, items: Tensor) -> NDArray[np.int8]:
    """What these items are of: TRAIN if any of their annotations is, else VALID, else TEST."""
    least = np.minimum.reduceat(split[rows.groups.order.numpy()], rows.groups.starts[:-1].numpy())
    found: NDArray[np.int8] = least[items.numpy()]
    return found


def find_power(log_p: Float[Tensor, "n K"], part: Tensor) -> float:
    """To which power the probabilities of TRAIN items are as sure as those of VALID ones, at most 1."""
    trained, valid = (log_p[part == number].float() for number in (TRAIN, VALID))
    if not len(trained) or not len(valid):
        return 1.0
    wanted = sureness(valid, 1.0)
    return next((float(power) for power in POWERS if sureness(trained, float(power)) >= wanted), 1.0)


def sureness(log_p: Tensor, power: float) -> float:
    """Mean of the largest probability, of at most 10,000 evenly spaced items."""
    log_p = log_p[:: max(1, len(log_p) // 10_000)]
    return float((log_p * power).log_softmax(-1).amax(1).exp().mean())


# --- what the answer model says about PI ---


def pi_effects(
    answers: AnswerModel,
    shares: Float[Tensor, " M"],
    rows: Rows,
    spec: Spec,
    frame: pd.DataFrame,
    columns: Sequence[PIColumn],
    truth: NDArray[np.int64],
    learned: NDArray[np.bool_],
) -> list[dict[str, Any]]:
    """How likely a right answer is where a PI column is low, and where it is high, all else being as it is.

    Parameters
    ----------
    answers : AnswerModel
    shares : tensor (M,)
        What each of its members counts.
    rows, spec, frame, columns
        All annotations, encoded and as they are, and how they are encoded.
    truth : int array (N,)
        Most likely class of each annotation's item.
    learned : bool array (N,)
        Which annotations may be looked at.

    Returns
    -------
    list of dict
        For every column but the annotator: column; low and high, its values at the 10th and the 90th percentile, or
        the categories of lowest and highest probability among the frequent ones; right_at_low and right_at_high;
        difference, difference_low and difference_high, of these two and its 95% interval; and tells, whether wrong
        answers are more frequent at some of its values than chance explains. A column of more than 50 categories is
        left out, as these may be names.
    """
    known = np.flatnonzero(learned)
    members = max(1, int((shares > 0).sum()))
    sample = known[:: max(1, len(known) * members * spec.n_classes // EFFECT_NUMBERS)]
    effect = partial(_right_with, answers, shares, rows, torch.from_numpy(sample), torch.from_numpy(truth[sample]))
    found = []
    for column in columns:
        if column.name == "annotator":
            continue
        codes = [at for at, name in enumerate(spec.code_names) if name == column.name]
        quantities = [at for at, name in enumerate(spec.number_names) if name == column.name]
        typical = _typical_rows(column, frame[column.name], rows, codes, known)
        rights = [(effect(row, codes, quantities), value) for row, value in typical]
        if column.kind == "category":
            rights.sort(key=lambda pair: pair[0])
        if len(rights) > 1:
            (low, low_value), (high, high_value) = rights[0], rights[-1]
            names = {"column": column.name, "low": low_value, "high": high_value}
            found.append(names | {"right_at_low": low, "right_at_high": high, "difference": high - low})
    return with_uncertainty(found, frame.iloc[known], truth[known])


def _typical_rows(
    column: PIColumn, values: "pd.Series[Any]", rows: Rows, codes: list[int], known: NDArray[np.int64]
) -> list[tuple[int, Any]]:
    """Annotations that have a low and a high value of a column, or each of its frequent categories, and these."""
    if column.kind == "category":
        if not codes or column.n_codes > MAX_NAMED_CATEGORIES:
            return []
        code = rows.codes[:, codes[0]].numpy()[known]
        names = [*column.categories, *["other"] * column.other, *["missing"] * column.missing]
        count = np.bincount(code[code >= 0], minlength=len(names))
        frequent = np.flatnonzero(count >= max(MIN_SUPPORT, len(known) / 100))
        return [(int(known[np.argmax(code == one)]), str(names[one])) for one in frequent]
    number = quantity(values.iloc[known], column.kind)
    finite = np.flatnonzero(np.isfinite(number))
    order = finite[np.argsort(number[finite], kind="stable")]
    for share in (0.1, 0.01):
        if len(order) < MIN_SUPPORT:
            break
        places = order[int(share * len(order))], order[int((1 - share) * (len(order) - 1))]
        if number[places[0]] < number[places[1]]:
            return [(int(known[at]), _plain(values.iloc[known[at]])) for at in places]
    return []


def _plain(value: Any) -> float | str:
    """A value of a PI column as JSON has it."""
    return float(value) if isinstance(value, numbers.Real) else str(value)


@torch.no_grad()
def _right_with(
    answers: AnswerModel,
    shares: Tensor,
    rows: Rows,
    sample: Tensor,
    truth: Tensor,
    row: int,
    codes: list[int],
    quantities: list[int],
) -> float:
    """Mean probability of a right answer, were these PI columns as in one row."""
    batch = rows.select(sample, with_x=False)
    batch.a.codes[:, codes] = rows.codes[row, codes]
    batch.a.numbers[:, quantities] = rows.numbers[row, quantities]
    members, place = (shares > 0).nonzero()[:, 0], shares.device
    truth = truth.to(place)
    a = PI(batch.a.codes.to(place), batch.a.numbers.to(place))
    log_p = answers(a, truth, members)[:, torch.arange(len(truth)), truth]
    return float((shares[members] / shares.sum()) @ log_p.exp().mean(1))
