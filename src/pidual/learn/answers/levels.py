"""Answers on a scale of their own: L ordered levels, such as stars from 1 to 5, about K < L ordered classes.

    P(s | k, a) = softmax_s( T[k, s] + U_annotator[k, s] )

T: how often everybody gives a level to items of a class; U: what an annotator does differently. T begins where the
classes lie on the scale, -SLOPE |s - k (L - 1) / (K - 1)|, so that they keep their order. An answer speaks for the
class that is likeliest given its level alone: the 3 of somebody harsh may be for another class than that of somebody
lenient.

    fit_judge(answers, log_p, n_levels=5)           `answers.label` is the level, from 0; probabilities are of classes
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .model import CURVATURE, PRECISION, AnswerModel, Answers, log_softmax

SLOPE = 0.8  # logits that a level is rarer than the next one, at first; from 0.4 fits ended in worse optima of U
SHARED, OWN, OWN_OF_MANY = 0.1, 1.0, 2.0  # precision of T, of U, and of U where there are many numbers
MANY = 20  # classes x levels, beyond which these are many

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LevelModel(AnswerModel):
    """Fitted numbers: T (K, L) and U (A, K, L) have a column for each level; there is no skill, and no favourites."""

    @classmethod
    def begin(cls, answers: Answers, n_levels: int) -> "LevelModel":
        """Know the order alone."""
        k, classes = answers.n_classes, np.arange(answers.n_classes)
        places = classes * (n_levels - 1) / max(1, k - 1)
        shared = -SLOPE * np.abs(np.arange(n_levels) - places[:, None])
        own = np.zeros((answers.n_annotators, k, n_levels))
        return cls(np.zeros(0), np.zeros((0, n_levels)), shared, own, np.zeros(k), np.zeros(()))

    def precision(self) -> Floats:
        many = self.confusions.size > MANY
        of = PRECISION | {"confusions": SHARED, "own": OWN_OF_MANY if many else OWN}
        return np.concatenate([np.full(getattr(self, name).size, of[name]) for name in PRECISION])

    def curvature(self, answers: Answers) -> Floats:
        pairs, votes = self.confusions.size, np.bincount(_groups(answers), answers.weight, len(self.own) + 1)
        of = {
            "confusions": np.full(pairs, answers.weight.sum() / pairs),
            "own": np.repeat(votes[:-1] / pairs, pairs),
            "bias": np.full(answers.n_classes, answers.n_items / answers.n_classes),
            "log_sharpness": np.array([answers.n_items]),
        }
        return np.concatenate([CURVATURE[name] * values for name, values in of.items()])

    def table(self, answers: Answers) -> "_LevelTable":
        return _LevelTable(self)

    def spoken_for(self, answers: Answers, log_p: Floats, log_share: Floats) -> Ints:
        return np.asarray((log_p + log_share).argmax(1))


class _LevelTable:
    """log P of every annotator, and last of one who is not known: (A + 1, K, L). See `model.Table`."""

    def __init__(self, model: LevelModel):
        everybody = np.zeros((1, *model.confusions.shape))
        self.log_table = log_softmax(model.confusions + np.concatenate([model.own, everybody]))

    def log_p(self, answers: Answers) -> Floats:
        return np.asarray(self.log_table[_groups(answers), :, answers.label])

    def log_p_of_items(self, answers: Answers) -> Floats:
        return np.asarray(answers.by_item @ self.log_p(answers))

    def slopes(self, answers: Answers, q: Floats, slope: AnswerModel) -> None:
        counts = np.zeros_like(self.log_table)  # expected levels, by annotator and class
        np.add.at(
            counts.transpose(0, 2, 1), (_groups(answers), answers.label), answers.weight[:, None] * q[answers.item]
        )
        found = counts - counts.sum(2, keepdims=True) * np.exp(self.log_table)
        slope.confusions[:] += found.sum(0)
        slope.own[:] += found[:-1]


def _groups(answers: Answers) -> Ints:
    """Return the annotator of each answer; where that is not known, the number after the last."""
    who = answers.annotator[answers.context]
    return np.asarray(np.where(who < 0, answers.n_annotators, who))
