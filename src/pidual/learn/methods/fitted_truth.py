"""Latent truth as it was fitted without a training loop: f and the answer model, as plain numbers.

    p(x)    = f(x)                                                   a closed form, given probabilities, or class shares
    q_i(k)    by p and all answers to an item (`learn.answers`)

Nothing here is trained: it is what `predict`, exports and a further fit need of the one before.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...detect.gold import Calibrator
from ..answers.design import Design
from ..answers.judging import Judge
from ..answers.misleading import Misleading
from ..answers.model import PRECISION, AnswerModel
from ..answers.posterior import Temper
from ..batch import Spec
from .base import Method


class AnswerWeights(nn.Module):
    """What was learned about answers, as buffers of double precision.

    `bends`: places where the effect of each number among the PI bends.
    `own`: whether annotators have confusions of their own.
    `gold`: fits that a calibrator by items of known class is a mixture of; 0 where there is none.
    """

    def __init__(self, spec: Spec, *, bends: Sequence[int] = (), own: bool = False, gold: int = 0):
        super().__init__()
        self.sizes, self.who, self.bends, self.gold = spec.cardinalities, spec.annotator_column, tuple(bends), gold
        self.given: dict[str, Any] = {"bends": list(bends), "own": own} | ({"gold": gold} if gold else {})
        k, numbers = spec.n_classes, sum(1 + n for n in bends)
        shapes = AnswerModel.shapes(k, sum(spec.cardinalities) + numbers, spec.n_annotators if own else 0)
        shapes |= {"design_bends": (sum(bends),), "design_mean": (numbers,), "design_std": (numbers,)}
        shapes |= {"temper": (2,), "log_share": (k,), "misleading": (3,)}
        shapes |= {"gold_share": (gold,), "gold_numbers": (gold, k + 2 + spec.n_annotators)} if gold else {}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))

    @classmethod
    def of(cls, spec: Spec, design: Design, judge: Judge, calibrator: Calibrator | None = None) -> "AnswerWeights":
        """Hold what was learned about answers, and what items of known class correct."""
        gold = 0 if calibrator is None else len(calibrator.share)
        bends = [len(each) for each in design.bends]
        return cls(spec, bends=bends, own=len(judge.model.own) > 0, gold=gold)._hold(design, judge, calibrator)

    def _hold(self, design: Design, judge: Judge, calibrator: Calibrator | None) -> "AnswerWeights":
        model, misleading = judge.model, judge.misleading
        values: dict[str, Any] = vars(model) | {
            "design_bends": np.concatenate([np.zeros(0), *design.bends]),
            "design_mean": design.mean,
            "design_std": design.std,
            "temper": [judge.temper.sharpness, judge.temper.tau],
            "log_share": judge.log_share,
            "misleading": [0.0, 0.0, 0.0] if misleading is None else list(misleading),
        }
        values |= {} if calibrator is None else {"gold_share": calibrator.share, "gold_numbers": calibrator.numbers}
        for name, value in values.items():
            self.get_buffer(name).copy_(torch.as_tensor(np.asarray(value)))
        return self

    @property
    def design(self) -> Design:
        """Return how PI becomes columns."""
        bends = np.split(self._value("design_bends"), np.cumsum(self.bends)[:-1]) if self.bends else []
        return Design(self.sizes, self.who, tuple(bends), self._value("design_mean"), self._value("design_std"))

    @property
    def judge(self) -> Judge:
        """Return how answers come about, and how they are put together with probabilities."""
        model = AnswerModel(*(self._value(name) for name in PRECISION))
        rate, follow, sharp = self._value("misleading").tolist()
        misleading = Misleading(rate, follow, sharp) if rate else None
        return Judge(model, Temper(*self._value("temper").tolist()), self._value("log_share"), misleading)

    @property
    def calibrator(self) -> Calibrator | None:
        """Return what items of known class correct."""
        if not self.gold:
            return None
        return Calibrator(self._value("gold_share"), self._value("gold_numbers"), len(self._value("log_share")))

    def _value(self, name: str) -> Any:
        return self.get_buffer(name).numpy()


class FittedTruth(Method):
    """A prediction network that is finished, and the answer model beside it.

    Parameters
    ----------
    f : nn.Module
        x -> logarithms of the probabilities of the classes.
    spec : Spec
    bends, own, gold
        As for `AnswerWeights`.
    """

    title = "Latent truth"
    reference = "Ours, after Dawid and Skene (1979)"
    needs_pi = True
    by_item = True
    scores = ("confidence", "gate")

    def __init__(self, f: nn.Module, spec: Spec, *, bends: Sequence[int] = (), own: bool = False, gold: int = 0):
        super().__init__(f, spec)
        self.learned = AnswerWeights(spec, bends=bends, own=own, gold=gold)

    @classmethod
    def around(cls, f: nn.Module, spec: Spec, answers: AnswerWeights) -> "FittedTruth":
        """Put together what was fitted."""
        made = cls(f, spec, **answers.given)
        made.learned = answers
        return made.eval()

    def logits(self, x: Tensor) -> Tensor:
        """Return the logarithms of the probabilities of the classes."""
        log_p: Tensor = self.f(x)
        return log_p
