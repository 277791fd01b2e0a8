"""Latent truth: all answers of an item are judged together, and its true class z is never seen.

    z_i    ~ softmax f(x_i)
    l_ij   ~ P(l | z_i, a_ij)                                                        the answer model
    L      = -1/n sum_i 1/tau log sum_k f_k(x_i) prod_j P(l_ij | k, a_ij)^tau  +  priors / n
    q_i(k)   proportional to f_k(x_i) prod_j P(l_ij | k, a_ij)^tau                   the posterior

Some items may mislead everybody: `misleading` has the posterior for these.

Where the class of an item is known, such as from a review, z_i is that class: no other has a part in L or q.

A population of networks learns at once, each with its own answer model and without one fold of the items
(`cross_fitted`). Prediction is the average of f alone; an item is judged by members that have not seen it. Members that
are trained together all answer for every item of a batch: the probability that those which do not learn from it give to
its labels is averaged over the epochs.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..options import Count, Positive, at_least
from .answer_model import AnswerModel
from .base import Batch, Judged, Scan, Spec
from .cross_fitted import CrossFitted
from .held_out import by_vote, log_posterior
from .misleading import judge_answers
from .parts.memory import SampleMemory

OWN_BELOW = 2**17  # numbers of own confusions, annotators x K^2
TINY = 1e-12
RULED_OUT = -1e9  # log of a probability that is 0


class LatentTruth(CrossFitted):
    """A cross-fitted population of classifiers, each with its answer model.

    Parameters
    ----------
    population : sequence of (weight decay, input dropout, tau)
        Settings to train: weight decay, input dropout, and tau, the exponent of the answers in L. [] is one setting,
        the network and its training options as they are, with tau = 1; only an MLP can have others.
    folds : int
        Number of parts of the items; each is judged by networks not trained on it. 1 trains all networks on all items.
    own_confusions : bool, optional
        Learn each annotator's confusions; by default for up to 16 classes and 131,072 numbers (annotators x classes^2).
    base_skill : float
        Skill of every annotator at the start, as a logit; higher trusts answers more.
    width : int
        Hidden units of the small network that reads PI other than the annotator.
    answers_lr : float
        Learning rate of the answer model, by Adam; also of f, if that only recalibrates given probabilities.
    items_per_epoch : int, optional
        Largest number of items in an epoch, each time other ones; None uses all.
    """

    title = "Latent truth"
    reference = "Ours, after Dawid and Skene (1979)"
    needs_pi = True
    per_row_state = "confidence summed over epochs (2)"
    scores = ("confidence", "gate")

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        population: Sequence[Sequence[float]] = (),
        folds: Count = 5,
        own_confusions: bool | None = None,
        base_skill: float = 2.0,
        width: Count = 16,
        answers_lr: Positive = 2e-2,
        items_per_epoch: Annotated[int | None, at_least(1)] = None,
    ):
        super().__init__(f, spec, population, folds)
        self.items_per_epoch, self.n_items, self.answers_lr = items_per_epoch, max(1, spec.n_items), answers_lr
        if own_confusions is None:
            own_confusions = spec.n_classes <= 16 and spec.n_annotators * spec.n_classes**2 <= OWN_BELOW
        self.answers = AnswerModel(spec, len(self.fold), base=base_skill, own_confusions=own_confusions, width=width)
        if folds > 1 and not self.f.recalibrates:
            self.over_epochs = SampleMemory(spec.n_train, 2)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        by_input = self.f(batch.x).log_softmax(-1)  # (M, B, K)
        log_f = of_known_class(by_input, batch.truth)
        log_p = self.answers(batch.a, batch.y_noisy) * batch.weight[:, None]  # (M, R, K)
        tau = self.train_tau[:, None]
        votes, item, _ = by_vote(log_p, batch.item, batch.vote)
        joint = log_posterior(log_f, votes, item, tau[..., None])  # log f_k prod_j P^tau
        losses = -joint.logsumexp(-1) / tau
        seen = self.member_sees(batch.fold)  # (M, B)
        if self.training:
            self.add_confidence(batch, by_input.detach(), seen)
        loss = (losses * seen).sum(1) / seen.sum(1).clamp(min=1)
        penalty = self.answers.penalty(batch.a, self.n_items)
        return {"loss": (loss + penalty).mean(), "penalty": penalty.detach().mean()}

    def logits(self, x: Tensor) -> Tensor:
        """Logarithm of the members' average probability, each as sharp as held-out answers ask for."""
        p = (self.f(x) * self.sharpness[:, None, None]).softmax(-1)
        return mean_by_share(self.share, p).log()

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """The gate alone, of annotations without the others of their items: by f and the answer itself."""
        skill, log_p = self.answers.explain(batch.a, batch.y_noisy)
        q = (logits.log_softmax(-1) + log_p).softmax(-1)[:, torch.arange(len(batch.y_noisy)), batch.y_noisy]
        return {"gate": mean_by_share(self.judge_share, 1 - q * truthfulness(skill))}

    def judge_with(self, batch: Batch, members: Tensor) -> Judged:
        """What these members say."""
        logits = self.f(batch.x, members)
        log_f = of_known_class((logits * self.judge_sharpness[members, None, None]).log_softmax(-1), batch.truth)
        skill, log_p = self.answers.explain(batch.a, batch.y_noisy, members)
        log_p, tau = log_p * batch.weight[:, None], self.tau[members, None, None]
        rate, follow = self.misleading.tolist()
        log_q, qualities = judge_answers(log_f, log_p, batch.item, batch.y_noisy, tau, rate, follow, vote=batch.vote)
        share, judge_share = of_sum_one(self.share[members]), of_sum_one(self.judge_share[members])
        posterior = mean_by_share(judge_share, log_q.softmax(-1))
        truthful = posterior[batch.item, batch.y_noisy] * mean_by_share(judge_share, truthfulness(skill))
        p = (logits * self.sharpness[members, None, None]).softmax(-1)
        right, unaided = (mean_by_share(judge_share, quality) for quality in qualities)
        against = mean_by_share(judge_share, (qualities[0] < 0.5).to(right))
        return Judged(mean_by_share(share, p), posterior, 1 - truthful, right, unaided, against)

    @property
    def answer_model(self) -> tuple[AnswerModel, Tensor]:
        return self.answers, self.judge_share

    def param_groups(self) -> list[dict[str, Any]]:
        own_decay: dict[str, Any] = {"weight_decay": 0.0} if self.settings else {}
        people = [p for p in (self.answers.people,) if p is not None and self.answers.sparse]
        others = [p for p in self.answers.parameters() if not any(p is table for table in people)]
        adam = {"adam": True, "constant": False, "lr": self.answers_lr, "weight_decay": 0.0}
        if self.f.recalibrates:
            own_decay = {name: value for name, value in adam.items() if name != "weight_decay"}
        return [
            {"params": list(self.f.parameters()), **own_decay},
            {"params": others, **adam},
            *({"params": people, "sparse": True, **adam} for _ in people),
        ]

    def epoch_rows(self, epoch: int, order: Tensor) -> Tensor:
        """The items of an epoch."""
        return order[: self.items_per_epoch]

    def on_epoch_start(self, epoch: int, scan: Scan) -> None:
        """Count the answers of every annotator, where a step moves the numbers of its own annotators alone."""
        if epoch == 0 and self.answers.sparse:
            who = scan(lambda batch: self.answers.annotator(batch.a), with_x=False)
            self.answers.answers.copy_(who.bincount(minlength=len(self.answers.answers)).clamp(min=1))


def of_known_class(log_f: Float[Tensor, "M B K"], truth: Int[Tensor, " B"] | None) -> Float[Tensor, "M B K"]:
    """log f_k with all classes but the known one ruled out, where the class of an item is known (not -1)."""
    if truth is None:
        return log_f
    other = torch.arange(log_f.shape[-1], device=truth.device) != truth[:, None]
    return log_f.masked_fill(other & (truth >= 0)[:, None], RULED_OUT)


def truthfulness(skill: Tensor) -> Tensor:
    """Share of an annotator's right answers that come from the truth; a share of exp(-skill) would be given anyway."""
    return 1 - (-skill.clamp(min=0.0)).exp()


def mean_by_share(share: Float[Tensor, " M"], shares: Float[Tensor, "M ..."]) -> Float[Tensor, "..."]:
    """The mean over members of numbers from 0 to 1; a sum, as products may be of lower precision."""
    return (share.view(-1, *[1] * (shares.ndim - 1)) * shares).sum(0).clamp(max=1.0)


def of_sum_one(share: Tensor) -> Tensor:
    """Shares of some members among themselves; equal ones where none has a share."""
    return (share + TINY) / (share + TINY).sum()
