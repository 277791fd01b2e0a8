"""The answer model: how an answer comes from the truth and from the privileged information. Nothing in it sees x.

    P(l | k, a) = softmax_l( (b + s(a)) [l = k] + T[k, l] + v(a)[l] + U_annotator[k, l] )

s: skill and v: favourite answers, both linear in the columns of `Design`; T: confusions everybody makes; U: an
annotator's own confusions. Beside probabilities p that are given, all maximise

    sum_i log sum_k f_i(k) prod_j P(l_ij | k, a_ij)^w_ij - 1/2 sum precision theta^2,    f_i = softmax(s log p_i + c)

by L-BFGS from zero, or from an earlier fit. Answers with the same PI by the same annotator have one *context*: P is
worked out once for each. With more than FULL_CLASSES classes T[k, l] = t_k [l = k] + c_l and there is no U, so that a
context costs K numbers instead of K^2.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from .design import Design

FULL_CLASSES = 32
OWN_CLASSES, OWN_BELOW = 16, 2**17  # classes, and numbers of own confusions (annotators x K^2), up to which U is fitted
CHUNK = 2**22  # numbers of tables of P that are worked out at once
BASE_SKILL = 2.0  # b, as a logit
PRECISION = {"skill": 1.0, "favourites": 1.0, "confusions": 1.0, "own": 5.0, "bias": 1.0, "log_sharpness": 1.0}
STEPS, TOLERANCE = 60, 1e-6
MEMORY = 12  # gradients that L-BFGS remembers
LARGE = 600.0  # logits that exp can still take

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """The answers to n items, each with its context.

    Parameters
    ----------
    item, label : int arrays (R,)
        Number of the item, from 0 to n - 1, and code of the label.
    weight : array (R,)
        What each counts as; rows of one person's vote share a weight of 1.
    vote : int array (R,)
        Number of the vote that each is part of: what one person says about one item.
    context : int array (R,)
        Number of its row of `columns`.
    columns : sparse matrix (C, P)
        PI of each context.
    annotator : int array (C,)
        Who answers in each context; -1 where that is not known.
    n_items, n_classes, n_annotators : int
    """

    item: Ints
    label: Ints
    weight: Floats
    vote: Ints
    context: Ints
    columns: csr_matrix
    annotator: Ints
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
        return _sums(self.item, self.weight, self.n_items)

    @cached_property
    def by_cell(self) -> csr_matrix:
        """Sums weighted rows by context and label: (C K, R)."""
        return _sums(self.context * self.n_classes + self.label, self.weight, len(self.annotator) * self.n_classes)

    @cached_property
    def by_annotator(self) -> csr_matrix:
        """Sums contexts by annotator: (A, C)."""
        return _sums(self.annotator, np.ones(len(self.annotator)), self.n_annotators)


@dataclass(frozen=True)
class AnswerModel:
    """Fitted numbers of the answer model, and of the probabilities beside it.

    Parameters
    ----------
    skill, favourites : arrays (P,) and (P, K)
        What each column of the design adds to s and v.
    confusions : array (K, K), or (2, K)
        T; t and c for more than FULL_CLASSES classes.
    own : array (A, K, K), or (0, K, K)
        U, where annotators have confusions of their own.
    bias, log_sharpness : array (K,) and float
        c, and the logarithm of s.
    """

    skill: Floats
    favourites: Floats
    confusions: Floats
    own: Floats
    bias: Floats
    log_sharpness: Floats

    @classmethod
    def empty(cls, answers: Answers, own: bool | None = None) -> "AnswerModel":
        """Know nothing yet: everybody answers alike, right with the odds of BASE_SKILL."""
        k, p, a = answers.n_classes, answers.columns.shape[1], answers.n_annotators
        if own is None:
            own = k <= OWN_CLASSES and 0 < a * k * k <= OWN_BELOW
        t = (k, k) if k <= FULL_CLASSES else (2, k)
        zeros = ((p,), (p, k), t, (a if own else 0, k, k), (k,), ())
        return cls(*(np.zeros(shape) for shape in zeros))

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
        return AnswerModel(*parts)

    def log_f(self, log_p: Floats) -> Floats:
        """Recalibrate given log-probabilities (n, K)."""
        return log_softmax(np.exp(self.log_sharpness) * log_p + self.bias)

    def log_likelihood(self, answers: Answers, table: "FullTable | ShortTable | None" = None) -> Floats:
        """Return log P(l | k, a) of each answer and class (R, K), not weighted; by a table of all contexts, if any."""
        if table is not None:
            return table.log_p(answers.context, answers.label)
        found = np.empty((len(answers.item), answers.n_classes))
        order = np.argsort(answers.context, kind="stable")
        context = answers.context[order]
        for part in self._parts(answers):
            rows = order[np.searchsorted(context, part.start) : np.searchsorted(context, part.stop)]
            found[rows] = self.table(answers, part).log_p(answers.context[rows] - part.start, answers.label[rows])
        return found

    def table(self, answers: Answers, part: slice) -> "FullTable | ShortTable":
        """Work out P of some contexts."""
        columns = answers.columns[part]
        skill, favourites = BASE_SKILL + columns @ self.skill, columns @ self.favourites
        if not self.full:
            return ShortTable(skill, favourites + self.confusions[1], self.confusions[0])
        own = self.own[answers.annotator[part]] * (answers.annotator[part] >= 0)[:, None, None] if len(self.own) else 0
        return FullTable(skill, self.confusions + favourites[:, None, :] + own)

    def _parts(self, answers: Answers) -> list[slice]:
        """Split the contexts so that a table of each part is of moderate size."""
        step = max(1, CHUNK // (answers.n_classes * (answers.n_classes if self.full else 1)))
        return [slice(start, start + step) for start in range(0, len(answers.annotator), step)]

    def skills(self, answers: Answers) -> Floats:
        """Return b + s(a) of each answer (R,)."""
        return np.asarray(BASE_SKILL + answers.columns @ self.skill)[answers.context]


class FullTable:
    """P of some contexts, for every pair of classes.

    Parameters
    ----------
    skill : array (C,)
    rest : array (C, K, K)
        T[k, l] + v(a)[l] + U[k, l].
    """

    def __init__(self, skill: Floats, rest: Floats):
        self.diagonal = np.arange(rest.shape[1])
        rest[:, self.diagonal, self.diagonal] += skill[:, None]
        self.log = log_softmax(rest)

    def log_p(self, context: Ints, label: Ints) -> Floats:
        """Return log P of these answers, for every class."""
        return np.asarray(self.log[context, :, label])

    def slopes(self, cells: csr_matrix, q: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the derivative of sum q log P by skill (C,), favourites (C, K) and T + U (C, K, K).

        `cells` sums answers by context and label, q (R, K) is how likely each class is for each answer.
        """
        n, k = self.log.shape[:2]
        said = (cells @ q).reshape(n, k, k).transpose(0, 2, 1)  # expected answers l to items of class k
        more = said - said.sum(2, keepdims=True) * np.exp(self.log)
        return more[:, self.diagonal, self.diagonal].sum(1), more.sum(1), more


class ShortTable:
    """P of some contexts where T[k, l] = t_k [l = k] + c_l.

    With e_l = exp(c_l + v_l), its denominator is sum_l e_l + e_k (exp(skill + t_k) - 1).

    Parameters
    ----------
    skill : array (C,)
    rest : array (C, K)
        c_l + v(a)[l].
    right : array (K,)
        t.
    """

    def __init__(self, skill: Floats, rest: Floats, right: Floats):
        self.rest, self.right = rest, skill[:, None] + right
        e = np.exp(rest)
        self.log_all = np.log(e.sum(1, keepdims=True) + e * np.expm1(self.right))  # (C, K)

    def log_p(self, context: Ints, label: Ints) -> Floats:
        """Return log P of these answers, for every class."""
        found = self.rest[context, label][:, None] - self.log_all[context]
        found[np.arange(len(label)), label] += self.right[context, label]
        return np.asarray(found)

    def slopes(self, cells: csr_matrix, q: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the derivative of sum q log P by skill (C,), favourites (C, K), and t and c (C, 2, K)."""
        n, k = self.rest.shape
        rows = np.repeat(np.arange(n * k), np.diff(cells.indptr))  # the cell of each answer
        weights, q = cells.data[:, None], q[cells.indices]
        own = weights[:, 0] * q[np.arange(len(rows)), rows % k]
        said, hit = (np.bincount(rows, part, n * k).reshape(n, k) for part in (weights[:, 0] * q.sum(1), own))
        asked = _sums(rows // k, weights[:, 0], n) @ q  # expected items of each class
        is_right = asked * np.exp(self.rest + self.right - self.log_all)
        share = asked * np.exp(-self.log_all)
        by_label = said - np.exp(self.rest) * (share.sum(1, keepdims=True) - share) - is_right
        return (hit - is_right).sum(1), by_label, np.stack([hit - is_right, by_label], axis=1)


def fit_answer_model(
    answers: Answers,
    log_p: Floats,
    *,
    start: AnswerModel | None = None,
    truth: Ints | None = None,
    steps: int = STEPS,
) -> AnswerModel:
    """Fit the answer model beside given probabilities.

    Parameters
    ----------
    answers : Answers
    log_p : array (n, K)
        Logarithms of the probabilities of each item's classes.
    start : AnswerModel, optional
        Where to begin.
    truth : int array (n,), optional
        Class of each item where it is known, else -1.
    steps : int
        Of L-BFGS, at the most.
    """
    start = start or AnswerModel.empty(answers)
    precision = np.concatenate([np.full(getattr(start, name).size, value) for name, value in PRECISION.items()])

    def objective(flat: Floats) -> tuple[float, Floats]:
        value, slope = likelihood(start.like(flat), answers, log_p, truth)
        return 0.5 * float(precision @ flat**2) - value, precision * flat - slope.flat()

    how = {"maxiter": steps, "maxcor": MEMORY, "ftol": TOLERANCE, "gtol": 1e-3}
    return start.like(minimize(objective, start.flat(), jac=True, method="L-BFGS-B", options=how).x)


def likelihood(
    model: AnswerModel, answers: Answers, log_p: Floats, truth: Ints | None = None
) -> tuple[float, AnswerModel]:
    """Return the log-likelihood of all answers, and its derivative by each number of the model."""
    log_f = model.log_f(log_p)
    parts = model._parts(answers)
    kept = model.table(answers, parts[0]) if len(parts) == 1 else None
    log_q = only_known(log_f + answers.by_item @ model.log_likelihood(answers, kept), truth)
    of_item = logsumexp(log_q)
    q, f = np.exp(log_q - of_item[:, None]), np.exp(log_f)
    q_rows = q[answers.item]
    slope, k = AnswerModel.empty(answers, own=len(model.own) > 0), answers.n_classes
    for part in parts:
        cells = answers.by_cell if kept else answers.by_cell[part.start * k : part.stop * k]
        skill, favourites, confusions = (kept or model.table(answers, part)).slopes(cells, q_rows)
        slope.skill[:] += answers.columns[part].T @ skill
        slope.favourites[:] += answers.columns[part].T @ favourites
        slope.confusions[:] += confusions.sum(0)
        if len(slope.own):
            slope.own[:] += (answers.by_annotator[:, part] @ confusions.reshape(len(confusions), -1)).reshape(-1, k, k)
    slope.bias[:] = (q - f).sum(0)
    slope.log_sharpness[...] = np.exp(model.log_sharpness) * ((q - f) * log_p).sum()
    return float(of_item.sum()), slope


def _sums(group: Ints, weight: Floats, n: int) -> csr_matrix:
    """Return the matrix (n, R) that sums weighted rows by group; those of group -1 are left out."""
    rows = np.flatnonzero(group >= 0)
    return csr_matrix((weight[rows], (group[rows], rows)), (n, len(group)))


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
    if z.size and z.min() > -LARGE and z.max() < LARGE:  # many short rows, faster by one product
        return np.asarray(np.log(np.exp(z).reshape(-1, z.shape[-1]) @ np.ones(z.shape[-1])).reshape(z.shape[:-1]))
    most = z.max(-1, keepdims=True)
    return np.asarray((most + np.log(np.exp(z - most).sum(-1, keepdims=True)))[..., 0])
