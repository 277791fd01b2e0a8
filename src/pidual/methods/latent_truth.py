"""Latent truth: all answers of an item are judged together, and its true class z is never seen.

    z_i    ~ softmax f(x_i)
    l_ij   ~ P(l | z_i, a_ij)                                                        the answer model
    L      = -1/n sum_i 1/tau log sum_k f_k(x_i) prod_j P(l_ij | k, a_ij)^tau  +  priors / n
    q_i(k)   proportional to f_k(x_i) prod_j P(l_ij | k, a_ij)^tau                   the posterior

A population of networks learns at once: F members for each setting of f's regularisation, each without one fold of the
items. What the answers to the items of its fold say of a member (`held_out`) decides how sharp its f is, by which tau
its answers are tempered, and its share in the average. Prediction is the average of f alone; an item is judged by the
members that have not seen it, so that no label counts twice.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..batch import Batch, Spec
from ..errors import UsageError
from ..nets import MLP
from ..populations import Population
from .answer_model import AnswerModel
from .base import Group, ItemScan, Judged, Method, Scan
from .held_out import find_sharpness, find_tempers, log_posterior, mixture_shares
from .parts import second_network

SEES_ALL = -2  # the fold of a member that no item is kept from
SAMPLE_NUMBERS = 2**25  # numbers of each kind that the choice of settings looks at
OWN_BELOW = 2**17
TINY = 1e-12
CHOSEN = ("sharpness", "share", "judge_sharpness", "judge_share", "tau")


class LatentTruth(Method):
    """A cross-fitted population of classifiers, each with its answer model.

    Parameters
    ----------
    f : nn.Module
        Prediction network, x -> logits of shape (B, K).
    spec : Spec
        Sizes of the training set: items, classes, PI.
    population : sequence of (weight decay, input dropout, tau)
        Settings: f's regularisation, and the power of the answers in L. None takes f and its training options as they
        are, with tau = 1; only an MLP can have others.
    folds : int
        F: parts of the items, each kept from one member of every setting; 1 keeps nothing apart.
    own_confusions : bool, optional
        Whether annotators have confusions of their own; by default for up to 16 classes and OWN_BELOW numbers.
    base_skill : float
        The skill that annotators begin with, as a logit.
    width : int
        Hidden units of the answer model's network of PI.
    answers_lr : float
        Learning rate of the answer model, which Adam moves.
    """

    title = "Latent truth"
    reference = "Ours, after Dawid and Skene (1979)"
    needs_pi = True
    by_item = True
    scores = ("confidence", "gate")

    fold: Tensor  # that each member has not seen
    decay: Tensor
    train_tau: Tensor
    sharpness: Tensor  # of each member's f, and its share, in predictions
    share: Tensor
    judge_sharpness: Tensor  # the same, and tau, where items are judged
    judge_share: Tensor
    tau: Tensor

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
    ):
        super().__init__(f, spec)
        if folds < 1:
            raise UsageError(f"folds must be at least 1, not {folds}.")
        if population and type(f) is not MLP:
            raise UsageError("Only an MLP can have a population of several settings; leave population out.")
        if answers_lr <= 0:
            raise UsageError(f"answers_lr must be above 0, not {answers_lr}.")
        for setting in population:
            if not (len(setting) == 3 and setting[0] >= 0 and 0 <= setting[1] < 1 and setting[2] > 0):
                raise UsageError(
                    "A setting of population is a weight decay of at least 0, an input dropout from 0 to below 1 and a "
                    f"tau above 0, not {list(setting)}."
                )
        self.settings = [(float(decay), float(dropout), float(tau)) for decay, dropout, tau in population]
        self.folds, self.n_items, self.answers_lr = folds, max(1, spec.n_items), answers_lr
        members = [setting for setting in self.settings or [(0.0, 0.0, 1.0)] for _ in range(folds)]
        m = len(members)
        more = partial(second_network, given=None, beside=False)
        self.f: Population = Population(f, m, [dropout for _, dropout, _ in members], more)
        if own_confusions is None:
            own_confusions = spec.n_classes <= 16 and spec.n_annotators * spec.n_classes**2 <= OWN_BELOW
        self.answers = AnswerModel(spec, m, base=base_skill, own_confusions=own_confusions, width=width)
        self.register_buffer("fold", torch.arange(m) % folds if folds > 1 else torch.full((m,), SEES_ALL))
        self.register_buffer("decay", torch.tensor([decay for decay, _, _ in members]))
        self.register_buffer("train_tau", torch.tensor([tau for _, _, tau in members]))
        for name in ("sharpness", "tau", "judge_sharpness"):
            self.register_buffer(name, torch.ones(m))
        for name in ("share", "judge_share"):
            self.register_buffer(name, torch.full((m,), 1 / m))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        log_f = self.f(batch.x).log_softmax(-1)  # (M, B, K)
        log_p = self.answers(batch.a, batch.y_noisy) * batch.weight[:, None]  # (M, R, K)
        tau = self.train_tau[:, None]
        joint = log_posterior(log_f, log_p, batch.item, tau[..., None])  # log f_k prod_j P^tau
        losses = -joint.logsumexp(-1) / tau
        seen = self.member_sees(batch.fold)  # (M, B)
        loss = (losses * seen).sum(1) / seen.sum(1).clamp(min=1)
        penalty = self.answers.penalty(batch.a, self.n_items)
        return {"loss": (loss + penalty).mean(), "penalty": penalty.detach().mean()}

    def logits(self, x: Tensor) -> Tensor:
        """Logarithm of the members' average probability, each as sharp as held-out answers ask for."""
        p = (self.f(x) * self.sharpness[:, None, None]).softmax(-1)
        return torch.einsum("m,mbk->bk", self.share, p).log()

    # --- judging ---

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """The gate alone, of annotations without the others of their items: by f and the answer itself."""
        skill, log_p = self.answers.explain(batch.a, batch.y_noisy)
        q = (logits.log_softmax(-1) + log_p).softmax(-1)[:, torch.arange(len(batch.y_noisy)), batch.y_noisy]
        return {"gate": self.judge_share @ (1 - q * truthfulness(skill))}

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
        logits = self.f(batch.x, members)
        log_f = (logits * self.judge_sharpness[members, None, None]).log_softmax(-1)
        skill, log_p = self.answers.explain(batch.a, batch.y_noisy, members)
        log_q = log_posterior(log_f, log_p * batch.weight[:, None], batch.item, self.tau[members, None, None])
        share, judge_share = of_sum_one(self.share[members]), of_sum_one(self.judge_share[members])
        posterior = torch.einsum("m,mbk->bk", judge_share, log_q.softmax(-1))
        truthful = posterior[batch.item, batch.y_noisy] * (judge_share @ truthfulness(skill))
        p = (logits * self.sharpness[members, None, None]).softmax(-1)
        return Judged(torch.einsum("m,mbk->bk", share, p), posterior, 1 - truthful)

    # --- held-out answers decide ---

    def on_fit_end(self, scan: ItemScan, collapsed: Sequence[int] = ()) -> list[dict[str, Any]]:
        """Let held-out answers decide; members that have learned nothing get no share."""
        for member in collapsed:
            if not (self.f.is_finite(member) and self.answers.is_finite(member)):
                self.f.silence(member)
                self.answers.silence(member)
        records = self.weigh(scan)
        for name, share in self.named_buffers():
            if name.endswith("share") and len(collapsed):
                share[list(collapsed)] = 0.0
                share /= share.sum()
        return records

    def weigh(self, scan: ItemScan) -> list[dict[str, Any]]:
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
        tempers = [find_tempers(f, p, item) for f, p in zip(log_f, log_p, strict=True)]
        judge_shares = mixture_shares(torch.stack([loo for _, _, loo in tempers]))
        evidence = log_posterior(torch.zeros_like(log_f), log_p, item).log_softmax(-1).logsumexp(0)
        found = [find_sharpness(f, evidence) for f in log_f]
        shares = mixture_shares(torch.stack([likelihood for _, likelihood in found]))
        records = []
        for at, (judge_sharpness, tau, loo) in enumerate(tempers):
            decay, dropout, train_tau = self.settings[at] if self.settings else (None, None, 1.0)
            chosen = {
                "sharpness": found[at][0],
                "share": float(shares[at]),
                "judge_sharpness": judge_sharpness,
                "judge_share": float(judge_shares[at]),
                "tau": tau,
            }
            for name, value in chosen.items():
                part = value / self.folds if name.endswith("share") else value
                getattr(self, name)[at * self.folds : (at + 1) * self.folds] = part
            likelihoods = {
                "answer_log_likelihood": float(loo.mean()),
                "item_log_likelihood": float(found[at][1].mean()),
            }
            setting = {"weight_decay": decay, "input_dropout": dropout, "train_tau": train_tau}
            records.append({**setting, **likelihoods, **chosen})
        return records

    # --- training members together, or apart ---

    @property
    def n_members(self) -> int:
        """G settings x F folds."""
        return len(self.fold)

    def member_logits(self, x: Tensor) -> Float[Tensor, "M B K"]:
        """Of every f."""
        logits: Tensor = self.f(x)
        return logits

    def member_sees(self, fold: Int[Tensor, " B"]) -> Bool[Tensor, "M B"]:
        """All items but those of its fold."""
        return fold != self.fold[:, None]

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
        own_decay = {"weight_decay": 0.0} if self.settings else {}
        people = [p for p in (self.answers.people,) if p is not None and self.answers.sparse]
        others = [p for p in self.answers.parameters() if not any(p is table for table in people)]
        adam = {"adam": True, "constant": False, "lr": self.answers_lr, "weight_decay": 0.0}
        return [
            {"params": list(self.f.parameters()), **own_decay},
            {"params": others, **adam},
            *({"params": people, "sparse": True, **adam} for _ in people),
        ]

    def groups(self, processes: int) -> list[Group]:
        """Members that are trained together: stacked ones shared out among processes, any others one by one.

        Members of one setting are trained one by one as well: a stack goes through all items with every member, and one
        that leaves out half of them would do so in vain.
        """
        m = len(self.fold)
        if m > 1 and (self.f.stack is None or m == self.folds):
            return [Group([member], int(self.fold[member])) for member in range(m)]
        n = min(processes, m)
        return [Group(list(range(first, m, n)), None) for first in range(n)]

    def keep(self, members: Sequence[int]) -> None:
        """Leave out all other members: what one group trains."""
        self.f.keep(members)
        self.answers.keep(members)
        index = torch.tensor(members)
        for name in ("fold", "decay", "train_tau", *CHOSEN):
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


def of_sum_one(share: Tensor) -> Tensor:
    """Shares of some members among themselves; equal ones where none has a share."""
    return (share + TINY) / (share + TINY).sum()
