"""Latent truth: all answers of an item are judged together, and its true class z is never seen.

    z_i    ~ softmax f(x_i)
    l_ij   ~ P(l | z_i, a_ij)                                                        the answer model
    L      = -1/n sum_i log sum_k f_k(x_i) prod_j P(l_ij | k, a_ij)  +  priors / n
    q_i(k)   proportional to f_k(x_i) prod_j P(l_ij | k, a_ij)                       the posterior

A population of networks learns at once: F members for each setting of f's regularisation, each without one fold of the
items. What the answers to the items of its fold say of a member (`held_out`) decides how sharp its f is, by which tau
its answers are tempered, and its share in the average. Prediction is the average of f alone; an item is judged by the
members that have not seen it, so that no label counts twice.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ..batch import Batch, Spec
from ..errors import UsageError
from ..nets import MLP
from ..populations import Population
from .answer_model import AnswerModel
from .base import Group, ItemScan, Judged, Method, Scan
from .held_out import find_tempers, log_posterior, mixture_shares
from .parts import second_network

SEES_ALL = -2  # the fold of a member that no item is kept from
SAMPLE_NUMBERS = 2**23  # numbers of each kind that the choice of settings looks at
TINY = 1e-12


class LatentTruth(Method):
    """A cross-fitted population of classifiers, each with its answer model.

    Parameters
    ----------
    f : nn.Module
        Prediction network, x -> logits of shape (B, K).
    spec : Spec
        Sizes of the training set: items, classes, PI.
    population : sequence of (weight decay, input dropout)
        Settings of f's regularisation; none takes f and its training options as they are. An MLP is needed for others.
    folds : int
        F: parts of the items, each kept from one member of every setting; 1 keeps nothing apart.
    own_confusions : bool, optional
        Whether annotators have confusions of their own; by default where they have 4 K^2 answers on average.
    base_skill : float
        The skill that annotators begin with, as a logit.
    width : int
        Hidden units of the answer model's network of PI.
    answers_lr : float
        Learning rate of the answer model, which Adam moves; also of f, where it only recalibrates what is given.
    items_per_epoch : int, optional
        Not more items than this are visited in an epoch, others in each; None sets no limit.
    """

    title = "Latent truth"
    reference = "ours: docs/methods/latent_truth.md"
    needs_pi = True
    by_item = True
    scores = ("confidence", "gate")

    fold: Tensor
    decay: Tensor
    sharpness: Tensor
    tau: Tensor
    share: Tensor

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        population: Sequence[Sequence[float]] = (),
        folds: int = 5,
        own_confusions: bool | None = None,
        base_skill: float = 2.0,
        width: int = 16,
        answers_lr: float = 2e-2,
        items_per_epoch: int | None = None,
    ):
        super().__init__(f, spec)
        if items_per_epoch is not None and items_per_epoch < 1:
            raise UsageError(f"items_per_epoch must be at least 1, not {items_per_epoch}.")
        self.items_per_epoch = items_per_epoch
        if folds < 1:
            raise UsageError(f"folds must be at least 1, not {folds}.")
        if population and type(f) is not MLP:
            raise UsageError("Only an MLP can have a population of several settings; leave population out.")
        self.settings = [(float(decay), float(dropout)) for decay, dropout in population]
        self.folds, self.n_items, self.answers_lr = folds, max(1, spec.n_items), answers_lr
        members = [setting for setting in self.settings or [(0.0, 0.0)] for _ in range(folds)]
        m = len(members)
        more = partial(second_network, given=None, beside=False)
        self.f: Population = Population(f, m, [dropout for _, dropout in members], more)
        if own_confusions is None:
            own_confusions = spec.n_train >= 4 * spec.n_classes**2 * spec.n_annotators > 0
        self.answers = AnswerModel(spec, m, base=base_skill, own_confusions=own_confusions, width=width)
        self.register_buffer("fold", torch.arange(m) % folds if folds > 1 else torch.full((m,), SEES_ALL))
        self.register_buffer("decay", torch.tensor([decay for decay, _ in members]))
        self.register_buffer("sharpness", torch.ones(m))
        self.register_buffer("tau", torch.ones(m))
        self.register_buffer("share", torch.full((m,), 1 / m))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        log_f = self.f(batch.x).log_softmax(-1)  # (M, B, K)
        log_p = self.answers(batch.a, batch.y_noisy) * batch.weight[:, None]  # (M, R, K)
        losses = -log_posterior(log_f, log_p, batch.item).logsumexp(-1)  # -log sum_k f_k prod_j P
        seen = batch.fold != self.fold[:, None]  # (M, B)
        loss = (losses * seen).sum(1) / seen.sum(1).clamp(min=1)
        penalty = self.answers.penalty(batch.a, self.n_items)
        return {"loss": (loss + penalty).mean(), "penalty": penalty.detach().mean()}

    def logits(self, x: Tensor) -> Tensor:
        """Logarithm of the members' average probability."""
        return self.average(self.f(x), self.share).log()

    def average(self, logits: Tensor, share: Tensor, members: Tensor | slice = slice(None)) -> Float[Tensor, "B K"]:
        """Mean probability of members by their shares, each as sharp as held-out answers ask for."""
        p = (logits * self.sharpness[members, None, None]).softmax(-1)
        return torch.einsum("m,mbk->bk", share / share.sum(), p)

    # --- judging ---

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """The gate alone, of annotations without the others of their items: by f and the answer itself."""
        skill, log_p = self.answers.explain(batch.a, batch.y_noisy)
        q = (logits.log_softmax(-1) + log_p).softmax(-1)[:, torch.arange(len(batch.y_noisy)), batch.y_noisy]
        return {"gate": self.share @ (1 - q * truthfulness(skill)) / self.share.sum()}

    def judge(self, batch: Batch) -> Judged:
        """What members that have not seen the items say of them; items of no fold are judged by all members."""
        n, k = len(batch.fold), self.answers.n_classes
        judged = Judged(*(self.share.new_zeros(size) for size in ((n, k), (n, k), (len(batch.item),))))
        for fold in batch.fold.unique().tolist():
            part, items, rows = batch.of_fold(fold)
            found = self.judge_with(part, self.judges(fold))
            for whole, piece, at in zip(judged, found, (items, items, rows), strict=True):
                whole[at] = piece
        return judged

    def judges(self, fold: int) -> Tensor:
        """The members that have not seen the items of a fold."""
        own = (self.fold == fold).nonzero()[:, 0]
        return own if len(own) else torch.arange(len(self.fold), device=own.device)

    def judge_with(self, batch: Batch, members: Tensor) -> Judged:
        """What these members say."""
        sharpness, tau = self.sharpness[members, None, None], self.tau[members, None, None]
        share = self.share[members] + TINY
        share = share / share.sum()
        log_f = (self.f(batch.x, members) * sharpness).log_softmax(-1)
        skill, log_p = self.answers.explain(batch.a, batch.y_noisy, members)
        q = log_posterior(log_f, log_p * batch.weight[:, None], batch.item, tau).softmax(-1)
        posterior = torch.einsum("m,mbk->bk", share, q)
        truthful = posterior[batch.item, batch.y_noisy] * (share @ truthfulness(skill))
        return Judged(torch.einsum("m,mbk->bk", share, log_f.exp()), posterior, 1 - truthful)

    # --- held-out answers decide ---

    def on_fit_end(self, scan: ItemScan) -> list[dict[str, Any]]:
        """Let held-out answers decide how sharp each setting's f is, tau, and what it counts."""
        if self.folds == 1:
            return []
        k, per_setting = self.answers.n_classes, len(self.fold) // self.folds
        log_f, log_p, item, n = [], [], [], 0
        for batch in scan(max_numbers=SAMPLE_NUMBERS // (per_setting * k)):
            out_f = torch.zeros(per_setting, len(batch.fold), k)
            out_p = torch.zeros(per_setting, len(batch.item), k)
            for fold in batch.fold.unique().tolist():
                part, items, rows = batch.of_fold(fold)
                members = self.judges(fold)
                out_f[:, items.cpu()] = self.f(part.x, members).log_softmax(-1).cpu()
                out_p[:, rows.cpu()] = self.answers.explain(part.a, part.y_noisy, members)[1].cpu()
            log_f.append(out_f)
            log_p.append(out_p)
            item.append(batch.item.cpu() + n)
            n += len(batch.fold)
        return self.choose(torch.cat(log_f, 1), torch.cat(log_p, 1), torch.cat(item))

    def choose(
        self, log_f: Float[Tensor, "G B K"], log_p: Float[Tensor, "G R K"], item: Int[Tensor, " R"]
    ) -> list[dict[str, Any]]:
        """Tempers and shares of the settings, by the leave-one-answer-out likelihood; a record of each setting."""
        calibrated = self.f.recalibrates
        found = [find_tempers(f, p, item, calibrated=calibrated) for f, p in zip(log_f, log_p, strict=True)]
        shares = mixture_shares(torch.stack([loo for _, _, loo in found]))
        records = []
        for at, ((sharpness, tau, loo), share) in enumerate(zip(found, shares.tolist(), strict=True)):
            members = slice(at * self.folds, (at + 1) * self.folds)
            self.sharpness[members], self.tau[members], self.share[members] = sharpness, tau, share / self.folds
            decay, dropout = self.settings[at] if self.settings else (None, None)
            records.append(
                {
                    "weight_decay": decay,
                    "input_dropout": dropout,
                    "held_out_log_likelihood": float(loo.mean()),
                    "sharpness": sharpness,
                    "tau": tau,
                    "share": share,
                }
            )
        return records

    # --- training members together, or apart ---

    def after_backward(self, clip: float | None) -> None:
        """The loss is the mean over members: give each the gradient of its own, clip it, add its weight decay."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad = parameter.grad * len(self.fold)
        if clip is not None:
            self.f.clip_gradients(clip)
        if self.settings:
            self.f.add_decay(self.decay)

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

    def groups(self, processes: int) -> list[Group]:
        """Members that are trained together: stacked ones shared out among processes, any others one by one."""
        m = len(self.fold)
        if self.f.stack is None and m > 1:
            return [Group([member], int(self.fold[member])) for member in range(m)]
        n = min(processes, m)
        return [Group(list(range(first, m, n)), None) for first in range(n)]

    def keep(self, members: Sequence[int]) -> None:
        """Leave out all other members: what one group trains."""
        self.f.keep(members)
        self.answers.keep(members)
        index = torch.tensor(members)
        for name in ("fold", "decay", "sharpness", "tau", "share"):
            setattr(self, name, getattr(self, name)[index])

    def put(self, members: Sequence[int], part: "Method") -> None:
        """Take over what a group has learned."""
        assert isinstance(part, LatentTruth)
        self.f.put(members, part.f)
        self.answers.put(members, part.answers)

    def on_epoch_start(self, epoch: int, scan: Scan) -> bool:
        """Count the answers of every annotator, where a step moves the numbers of its own annotators alone."""
        if epoch == 0 and self.answers.sparse:
            who = scan(lambda batch: self.answers.annotator(batch.a), with_x=False)
            self.answers.answers.copy_(who.bincount(minlength=len(self.answers.answers)).clamp(min=1))
        return False


def truthfulness(skill: Tensor) -> Tensor:
    """Share of an annotator's right answers that come from the truth; a share of exp(-skill) would be given anyway."""
    return 1 - (-skill.clamp(min=0.0)).exp()
