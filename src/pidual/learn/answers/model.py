"""The answer model: how an answer comes from the truth and from the privileged information. Nothing in it sees x.

    P(l | k, a) = softmax_l( (b + s(a)) [l = k] + T[k, l] + v(a)[l] + U_annotator[k, l] )

s: skill and v: favourite answers, both linear in the columns of `Design`; T: confusions everybody makes; U: an
annotator's own confusions. Beside probabilities p that are given, all maximise

    sum_i log sum_k f_i(k) prod_j P(l_ij | k, a_ij)^w_ij - 1/2 sum precision theta^2,    f_i = softmax(s log p_i + c)

by L-BFGS from zero, or from an earlier fit. Answers with the same PI by the same annotator have one *context*: P is
worked out once for each, from K exponentials and a matrix product. With more than FULL_CLASSES classes
T[k, l] = t_k [l = k] + c_l, there is no U, and no product.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from .design import Design
from .minimise import minimise

FULL_CLASSES = 32
OWN_CLASSES, OWN_BELOW = 16, 2**17  # classes, and numbers of own confusions (annotators x K^2), up to which U is fitted
CHUNK = 2**22  # numbers of tables of P that are worked out at once
CACHED = 2**15  # numbers that caches hold
BASE_SKILL = 2.0  # b, as a logit, at least; of many classes, that of an answer which is right in half of the cases
PRECISION = {"skill": 1.0, "favourites": 1.0, "confusions": 1.0, "own": 5.0, "bias": 1.0, "log_sharpness": 1.0}
CURVATURE = {
    "skill": 0.1,
    "favourites": 0.3,
    "confusions": 0.3,
    "own": 0.3,
    "bias": 0.1,
    "log_sharpness": 0.1,
}  # a vote
STEPS, TOLERANCE = 25, 1e-5
SHARPEST = 6.0  # logarithm of s
LARGE = 200.0  # logits of which exp can take three, or a third of one in single precision
TINY = 1e-12

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """The answers to n items, each with its context."""

    item: Ints  # (R,), from 0 to n - 1
    label: Ints  # (R,)
    weight: Floats  # (R,), what each counts as; rows of one person's vote share a weight of 1
    vote: Ints  # (R,), number of the vote that each is part of: what one person says about one item
    context: Ints  # (R,), number of its row of `columns`
    columns: csr_matrix  # (C, P), PI of each context
    annotator: Ints  # (C,), who answers in each context; -1 where that is not known
    n_items: int
    n_classes: int
    n_annotators: int

    @classmethod
    def build(
        cls,
        item: Ints,
        label: Ints,
        design: Design,
        codes: NDArray[np.integer[Any]],
        numbers: NDArray[np.floating[Any]],
        *,
        n_items: int,
        n_classes: int,
        weight: Floats | None = None,
        vote: Ints | None = None,
    ) -> "Answers":
        """Find the contexts of encoded PI, codes (R, C) and numbers (R, M)."""
        context = np.zeros(len(item), np.int64)
        for values in (*codes.T, *numbers.T):  # one column at a time: fast, and small
            code, found = pd.factorize(values)
            context = pd.factorize(context * max(1, len(found)) + code)[0].astype(np.int64)
        first = np.zeros(int(context.max(initial=-1)) + 1, np.int64)
        first[context[::-1]] = np.arange(len(context))[::-1]
        columns, who = design.columns(codes[first], numbers[first]), design.annotator(codes[first])
        weight = np.ones(len(item)) if weight is None else np.asarray(weight, np.float64)
        return cls(
            np.asarray(item, np.int64),
            np.asarray(label, np.int64),
            weight,
            np.arange(len(item)) if vote is None else vote,
            context,
            columns,
            who,
            n_items,
            n_classes,
            design.n_annotators,
        )

    def subset(self, items: Ints) -> "Answers":
        """Return the answers to some items, which get new numbers in this order."""
        number = np.full(self.n_items, -1)
        number[items] = np.arange(len(items))
        rows = np.flatnonzero(number[self.item] >= 0)
        used, context = np.unique(self.context[rows], return_inverse=True)
        parts: dict[str, Any] = {"item": number[self.item[rows]], "label": self.label[rows], "n_items": len(items)}
        parts |= {"weight": self.weight[rows], "context": context}
        parts |= {"columns": self.columns[used], "annotator": self.annotator[used]}
        return replace(self, vote=np.unique(self.vote[rows], return_inverse=True)[1], **parts)

    @cached_property
    def by_item(self) -> csr_matrix:
        """Sums weighted rows by item: (n, R)."""
        return _sums(self.item, np.arange(len(self.item)), self.weight, (self.n_items, len(self.item)))

    def of_vote(self, log_p: Floats) -> Floats:
        """Return the weighted sum of log P over all rows of each answer's vote (R, K)."""
        if np.bincount(self.vote, minlength=1).max() <= 1:  # votes of one row each
            return np.asarray(self.weight[:, None] * log_p)
        sums = np.zeros((int(self.vote.max(initial=-1)) + 1, log_p.shape[1]))
        np.add.at(sums, self.vote, self.weight[:, None] * log_p)
        return np.asarray(sums[self.vote])

    @property
    def parts(self) -> list[tuple[slice, "Answers"]]:
        """The answers to some items at a time, of moderate size, which are parts of their own."""
        return self._parts or [(slice(0, self.n_items), self)]

    @cached_property
    def _parts(self) -> list[tuple[slice, "Answers"]]:
        """The parts, where there are several: an object that holds itself would stay in memory for long."""
        step = max(1, CHUNK * self.n_items // max(1, len(self.item) * self.n_classes))
        if 2 * step > self.n_items:
            return []
        slices = [slice(first, min(first + step, self.n_items)) for first in range(0, self.n_items, step)]
        return [(items, self.subset(np.arange(items.start, items.stop))) for items in slices]

    def rows_of(self, items: slice) -> Ints:
        """Return the answers to some items, as `subset` has them."""
        return np.flatnonzero((self.item >= items.start) & (self.item < items.stop))

    @cached_property
    def layout(self) -> "_Layout":
        """The contexts with annotators in blocks."""
        return _Layout.of(self, self.annotator)

    @cached_property
    def plain_layout(self) -> "_Layout":
        """The contexts in one block, whoever answers."""
        return _Layout.of(self, np.full(len(self.annotator), -1))

    @cached_property
    def sums(self) -> "_Sums":
        """What is summed over answers, by the blocks of `layout`."""
        return _Sums.of(self, self.layout)

    @cached_property
    def plain_sums(self) -> "_Sums":
        """What is summed over answers, by the block of `plain_layout`."""
        return _Sums.of(self, self.plain_layout)


@dataclass(frozen=True)
class _Layout:
    """Contexts in blocks of one size, of one annotator each, with gaps: a sum over them is a matrix product."""

    place: Ints  # (C,), row of each context, from 0 to B S - 1, in blocks of S rows
    who: Ints  # (B,), annotator of each block, -1 where that is not known
    columns: csr_matrix  # (B S, P)

    @classmethod
    def of(cls, answers: Answers, group: Ints) -> "_Layout":
        """Put contexts of one group into the same blocks."""
        groups, code = np.unique(group, return_inverse=True)
        counts = np.bincount(code, minlength=len(groups))
        size = max(1, len(group)) if len(groups) <= 1 else min(64, 2 ** int(np.ceil(np.log2(np.median(counts)))))
        blocks = -(-counts // size)
        order = np.argsort(code, kind="stable")
        place = np.empty(len(group), np.int64)
        place[order] = np.arange(len(group)) + np.repeat(
            size * (np.cumsum(blocks) - blocks) - np.cumsum(counts) + counts, counts
        )
        who = np.repeat(groups, blocks)
        spread = csr_matrix((np.ones(len(group)), (place, np.arange(len(group)))), (len(who) * size, len(group)))
        return cls(place, who, spread @ answers.columns)


@dataclass(frozen=True)
class _Sums:
    """Sums over answers, by the blocks of a layout: what a fit needs beside it."""

    said: Floats  # (P, K), columns summed over the answers of each label
    items: csr_matrix  # (B S, n), sums what is known about items by place
    labels: csr_matrix  # (B K, n), sums the same by block and label

    @classmethod
    def of(cls, answers: Answers, layout: _Layout) -> "_Sums":
        """Sum the answers."""
        k, size, blocks = answers.n_classes, layout.columns.shape[0], len(layout.who)
        context, item, label, weight = answers.context, answers.item, answers.label, answers.weight
        rows = layout.place[context]
        said = (answers.columns.T @ _sums(context, label, weight, (len(layout.place), k))).toarray()
        by_block = rows // max(1, size // max(1, blocks)) * k + label
        items = _sums(rows, item, weight, (size, answers.n_items))
        return cls(said, items, _sums(by_block, item, weight, (blocks * k, answers.n_items)))


@dataclass(frozen=True)
class AnswerModel:
    """Fitted numbers of the answer model, and of the probabilities beside it."""

    skill: Floats  # (P,), what each column of the design adds to s
    favourites: Floats  # (P, K), what it adds to v
    confusions: Floats  # (K, K): T; or (2, K): t and c, for more than FULL_CLASSES classes
    own: Floats  # (A, K, K): U; or (0, K, K), where annotators have no confusions of their own
    bias: Floats  # (K,), c
    log_sharpness: Floats  # the logarithm of s

    @classmethod
    def empty(cls, answers: Answers, own: bool | None = None) -> "AnswerModel":
        """Know nothing yet: everybody answers alike, right with the odds of BASE_SKILL."""
        k, a = answers.n_classes, answers.n_annotators
        if own is None:
            own = k <= OWN_CLASSES and 0 < a * k * k <= OWN_BELOW
        shapes = cls.shapes(k, answers.columns.shape[1], a if own else 0)
        return cls(**{name: np.zeros(shape) for name, shape in shapes.items()})

    @staticmethod
    def shapes(n_classes: int, n_columns: int, n_own: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all numbers, with confusions of their own for some annotators."""
        k = n_classes
        pairs = (k, k) if k <= FULL_CLASSES else (2, k)
        shapes = ((n_columns,), (n_columns, k), pairs, (n_own, k, k), (k,), ())
        return dict(zip(PRECISION, shapes, strict=True))

    @property
    def full(self) -> bool:
        """Whether T has a number for each pair of classes."""
        return bool(self.confusions.shape[0] == self.confusions.shape[1])

    def flat(self) -> Floats:
        """Give all numbers in one array."""
        return np.concatenate([np.ravel(getattr(self, name)) for name in PRECISION])

    def like(self, flat: Floats) -> "AnswerModel":
        """Make a model of these shapes from all its numbers in one array."""
        parts, start = [], 0
        for name in PRECISION:
            old = getattr(self, name)
            parts.append(flat[start : start + old.size].reshape(old.shape))
            start += old.size
        return type(self)(*parts)

    def precision(self) -> Floats:
        """Return the precision of the prior of all numbers."""
        return np.concatenate([np.full(getattr(self, name).size, value) for name, value in PRECISION.items()])

    def curvature(self, answers: Answers) -> Floats:
        """Return about how much the likelihood bends by each number: CURVATURE times the votes that it is part of."""
        k, weight = answers.n_classes, np.bincount(answers.context, answers.weight, len(answers.annotator))
        votes = np.asarray(answers.columns.power(2).T @ weight)
        known = answers.annotator >= 0
        own = (
            np.bincount(answers.annotator[known], weight[known], answers.n_annotators) if len(self.own) else np.zeros(0)
        )
        of = {
            "skill": votes,
            "favourites": np.repeat(votes / k, k),
            "confusions": np.full(self.confusions.size, weight.sum() / self.confusions.size),
            "own": np.repeat(own / k**2, k * k),
            "bias": np.full(k, answers.n_items / k),
            "log_sharpness": np.array([answers.n_items]),
        }
        return np.concatenate([CURVATURE[name] * of[name] for name in PRECISION])

    def table(self, answers: Answers) -> "_Answering":
        """Return P of all contexts."""
        return Table(self, answers)

    def spoken_for(self, answers: Answers, log_p: Floats, log_share: Floats) -> Ints:
        """Return the class that each answer speaks for, which it is right about or not (R,)."""
        return answers.label

    def log_f(self, log_p: Floats) -> Floats:
        """Recalibrate given log-probabilities (n, K)."""
        return log_softmax(self.sharpness * log_p + self.bias)

    @property
    def sharpness(self) -> float:
        """Return s, which a step that is too long must not make infinite."""
        return float(np.exp(np.clip(self.log_sharpness, -SHARPEST, SHARPEST)))

    def log_likelihood(self, answers: Answers) -> Floats:
        """Return log P(l | k, a) of each answer and class (R, K), not weighted."""
        if len(answers.item) and len(answers.parts) == 1:
            return self.table(answers).log_p(answers)
        found = np.empty((len(answers.item), answers.n_classes))
        for items, part in answers.parts if len(found) else ():
            found[answers.rows_of(items)] = self.table(part).log_p(part)
        return found

    def skills(self, answers: Answers) -> Floats:
        """Return b + s(a) of each answer (R,)."""
        return np.asarray(base_skill(answers.n_classes) + answers.columns @ self.skill)[answers.context]


class _Answering(Protocol):
    """P(l | k, a) of all contexts: `log_p` of answers (R, K), its weighted sums over items (n, K), and derivatives."""

    def log_p(self, answers: Answers) -> Floats: ...

    def log_p_of_items(self, answers: Answers) -> Floats: ...

    def slopes(self, answers: Answers, q: Floats, slope: AnswerModel) -> None: ...


class Table:
    """P of all contexts, without a number for each pair of classes of each: of annotator g, with e_l = exp v_l,

        P(l | k) = E_g[k, l] e_l exp(skill [l = k]) / D_k,    D_k = sum_l E_g[k, l] e_l + E_g[k, k] e_k (exp(skill) - 1)

    where E = exp(T + U), or, for more than FULL_CLASSES classes, 1 with t_k as a part of skill and c_l of v_l.
    Arrays have blocks, rows in a block, and classes (B, S, K).
    """

    def __init__(self, model: AnswerModel, answers: Answers):
        self.own_layout = len(model.own) > 0
        self.layout = layout = answers.layout if self.own_layout else answers.plain_layout
        k, t = answers.n_classes, model.confusions
        shape = (len(layout.who), -1, k)
        self.skill = np.minimum(base_skill(k) + layout.columns @ model.skill, LARGE).reshape(*shape[:2], 1)
        self.v = _bounded(layout.columns @ model.favourites).reshape(shape)
        self.pairs: Floats | None = None
        if model.full:
            everybody = np.zeros((1, k, k))  # whose own confusions are none
            self.pairs = _bounded(t + np.concatenate([model.own, everybody])[layout.who])
            self.e = np.exp(self.pairs)
            self.own = np.einsum("bkk->bk", self.e)[:, None, :]
        else:
            self.v += t[1]
            self.skill, self.v = np.minimum(self.skill + t[0], LARGE), _bounded(self.v)
            self.own = np.ones(1)
        self.ev, self.more = np.exp(self.v), np.expm1(self.skill)
        total = self.ev.sum(2, keepdims=True) if self.pairs is None else self.ev @ self.e.transpose(0, 2, 1)
        self.all = (self.ev if self.pairs is None else self.own * self.ev) * self.more
        self.all += total
        np.maximum(self.all, TINY * total, out=self.all)  # D

    def _sums(self, answers: Answers) -> _Sums:
        return answers.sums if self.own_layout else answers.plain_sums

    def log_p(self, answers: Answers) -> Floats:
        """Return log P of all answers, for every class (R, K)."""
        rows, label, k = self.layout.place[answers.context], answers.label, answers.n_classes
        found = np.log(self.all).reshape(-1, k)[rows]
        np.subtract(self.v.reshape(-1, k)[rows, label][:, None], found, out=found)
        skill = self.skill.reshape(len(self.v.reshape(-1, k)), -1)
        found[np.arange(len(rows)), label] += skill[rows, 0 if self.pairs is not None else label]
        if self.pairs is not None:
            found += self.pairs.transpose(0, 2, 1)[rows // self.v.shape[1], label]
        return np.asarray(found)

    def log_p_of_items(self, answers: Answers) -> Floats:
        """Return the weighted sum of log P over the answers to each item, for every class (n, K)."""
        item, label, k = answers.item, answers.label, answers.n_classes
        rows, sums = self.layout.place[answers.context], self._sums(answers)
        skill = self.skill.reshape(len(self.v.reshape(-1, k)), -1)
        found = np.asarray(sums.items.T @ np.log(self.all).reshape(-1, k))
        said = answers.weight * self.v.reshape(-1, k)[rows, label]
        np.subtract(np.bincount(item, said, answers.n_items)[:, None], found, out=found)
        hits = answers.weight * skill[rows, 0 if self.pairs is not None else label]
        np.add.at(found.reshape(-1), item * k + label, hits)
        if self.pairs is not None:
            found += sums.labels.T @ self.pairs.transpose(0, 2, 1).reshape(-1, k)
        return found

    def slopes(self, answers: Answers, q: Floats, slope: AnswerModel) -> None:
        """Add the derivative of sum q log P to a model, where q (n, K) is how likely each class of an item is."""
        layout, sums, k = self.layout, self._sums(answers), answers.n_classes
        rest = (sums.items @ q).reshape(self.v.shape)
        rest /= self.all
        own = self.ev * rest  # over P(k | k): expected answers k to items of class k
        if self.pairs is not None:
            own *= self.own
        by_label = own * self.more
        is_right = own + by_label
        by_label += self.ev * (rest.sum(2, keepdims=True) if self.pairs is None else rest @ self.e)
        hit = answers.weight * q[answers.item, answers.label]
        hits = np.bincount(layout.place[answers.context], hit, layout.columns.shape[0])
        slope.skill[:] += layout.columns.T @ (hits - is_right.sum(2).ravel())
        slope.favourites[:] += sums.said - layout.columns.T @ by_label.reshape(-1, k)
        if self.pairs is None:
            slope.confusions[0] += np.bincount(answers.label, hit, k) - is_right.sum((0, 1))
            slope.confusions[1] += np.bincount(answers.label, answers.weight, k) - by_label.sum((0, 1))
            return
        said = (sums.labels @ q).reshape(-1, k, k)  # by block, label and class
        pairs = said.transpose(0, 2, 1) - self.e * (rest.transpose(0, 2, 1) @ self.ev)
        pairs[:, np.arange(k), np.arange(k)] -= (is_right - own).sum(1)
        slope.confusions[:] += pairs.sum(0)
        if len(slope.own):
            known = layout.who >= 0
            np.add.at(slope.own, layout.who[known], pairs[known])


def fit_answer_model(
    answers: Answers,
    log_p: Floats,  # (n, K), logarithms of the probabilities of each item's classes
    *,
    start: AnswerModel | None = None,  # where to begin
    truth: Ints | None = None,  # (n,), class of each item where it is known, else -1
    steps: int = STEPS,  # of L-BFGS, at the most
    sharpen: bool = True,  # whether s is fitted; not where p has its sharpness from the same likelihood
    prior: AnswerModel | None = None,  # the mean of the prior of all numbers, by default 0
) -> AnswerModel:
    """Fit the answer model beside given probabilities."""
    start = start or prior or AnswerModel.empty(answers)
    if not len(answers.item):
        return start
    precision, mean = start.precision(), 0.0 if prior is None else prior.flat()

    def objective(flat: Floats) -> tuple[float, Floats]:
        value, slope = likelihood(start.like(flat), answers, log_p, truth, sharpen=sharpen)
        off = flat if prior is None else flat - mean
        down = precision * off
        squares = 0.5 * float(down @ off)
        down -= slope.flat()
        down[-1] *= sharpen  # log_sharpness is the last one
        return squares - value, down

    return start.like(
        minimise(objective, start.flat(), precision + start.curvature(answers), steps=steps, tolerance=TOLERANCE)
    )


def base_skill(n_classes: int) -> float:
    """Return b."""
    return max(BASE_SKILL, float(np.log(max(1, n_classes - 1))))


def likelihood(
    model: AnswerModel, answers: Answers, log_p: Floats, truth: Ints | None = None, *, sharpen: bool = True
) -> tuple[float, AnswerModel]:
    """Return the log-likelihood of all answers, and its derivative by each number of the model.

    That by log_sharpness is left out where it is not asked for.
    """
    slope, total = model.like(np.zeros(sum(getattr(model, name).size for name in PRECISION))), 0.0
    for items, part in answers.parts:
        table = model.table(part)
        q = table.log_p_of_items(part)
        for some in in_parts(*q.shape):
            rows = log_p[items][some]
            z = model.sharpness * rows
            z += model.bias
            log_total, f = softmax(z)
            z -= log_total[:, None]
            z += q[some]
            of_item, q[some] = softmax(only_known(z, None if truth is None else truth[items][some]))
            more = np.subtract(q[some], f, out=f)
            slope.bias[:] += more.sum(0)
            if sharpen and abs(model.log_sharpness) < SHARPEST:
                slope.log_sharpness[...] += model.sharpness * np.vdot(more, rows)
            total += float(of_item.sum())
        table.slopes(part, q, slope)
    return total, slope


def in_parts(n: int, width: int) -> list[slice]:
    """Return some of n rows at a time: as many numbers as caches hold."""
    step = max(1, CACHED // max(1, width))
    return [slice(first, first + step) for first in range(0, n, step)]


def _sums(row: Ints, column: Ints, weight: Floats, shape: tuple[int, int]) -> csr_matrix:
    """Return the sparse matrix of these weights, summed where places are the same."""
    return csr_matrix((weight, (row, column)), shape)


def _bounded(logits: Floats) -> Floats:
    """Make logits so that exp is neither infinite nor zero, in place: a step that is too long has others."""
    return np.clip(logits, -LARGE, LARGE, out=logits)


def only_known(log_q: Floats, truth: Ints | None) -> Floats:
    """Rule out all classes but the known one, where the class of an item is known (not -1)."""
    if truth is None:
        return log_q
    other = np.arange(log_q.shape[1]) != truth[:, None]
    return np.where(other & (truth >= 0)[:, None], -np.inf, log_q)


def log_softmax(z: Floats) -> Floats:
    """Return the logarithm of the softmax of each row."""
    return np.asarray(z - logsumexp(z)[..., None])


def logsumexp(z: Floats) -> Floats:
    """Return log sum exp over the last axis."""
    most, _, total = exponentials(z)
    return np.asarray(most + np.log(total))


def softmax(z: Floats) -> tuple[Floats, Floats]:
    """Return log sum exp over the last axis, and the softmax of each row."""
    most, e, total = exponentials(z)
    e /= total[..., None]
    return np.asarray(most + np.log(total)), e


def exponentials(z: Floats) -> tuple[Floats | float, Floats, Floats]:
    """Return a number to subtract from each row, or from all, so that exp is finite; exp of the rest; and its sums."""
    large = LARGE if z.dtype == np.float64 else LARGE / 3
    if z.size and z.min() > -large and z.max() < large:  # many short rows, faster by one product
        e = np.exp(z)
        return 0.0, e, (e.reshape(-1, z.shape[-1]) @ np.ones(z.shape[-1], z.dtype)).reshape(z.shape[:-1])
    most = z.max(-1, keepdims=True)
    e = np.exp(z - most)
    return most[..., 0], e, e.sum(-1)
