"""A cross-fitted population: F members for each setting, each without one fold of the items.

What the answers to the items of its fold say about a member (`held_out`) decides how sharp its f is, by which tau
answers are tempered, and its share in the average. An item is judged by the members that have not seen it, so that no
label counts twice. Here is what this takes beside the likelihood, which `LatentTruth` has.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..batch import Batch, Spec
from ..errors import UsageError
from ..nets import MLP
from ..nets.populations import Population
from .answer_model import AnswerModel
from .base import Group, ItemScan, Judged, Method
from .held_out import by_vote, find_sharpness, find_tempers, log_posterior, mixture_shares
from .misleading import find_misleading
from .parts import second_network
from .parts.memory import SampleMemory

MOST_FOLDS = 100
SEES_ALL = -2  # the fold of a member that no item is kept from
SAMPLE_NUMBERS = 2**23  # numbers of each kind that the choice of settings looks at
FEW_ROWS = 2**16  # items and answers that are enough where f is given
CHOSEN = ("sharpness", "share", "judge_sharpness", "judge_share", "tau")


class CrossFitted(Method):
    """Members that are trained together or apart, weighed by held-out answers, and asked about what they have not seen.

    Parameters
    ----------
    population : sequence of (weight decay, input dropout, tau)
        Settings; none takes f and its training options as they are, with tau = 1.
    folds : int
        F; 1 keeps nothing apart.
    """

    by_item = True
    answers: AnswerModel
    over_epochs: SampleMemory | None = None  # sum of confidences of unseen labels, and their number

    fold: Tensor  # that each member has not seen
    decay: Tensor
    train_tau: Tensor
    sharpness: Tensor  # of each member's f, and its share, in predictions
    share: Tensor
    judge_sharpness: Tensor  # the same, and tau, where items are judged
    judge_share: Tensor
    tau: Tensor
    misleading: Tensor  # rate of items that mislead, and the part of their answers that follows

    def __init__(self, f: nn.Module, spec: Spec, population: Sequence[Sequence[float]], folds: int):
        super().__init__(f, spec)
        if population and type(f) is not MLP:
            raise UsageError("Only an MLP can have a population of several settings; leave population out.")
        for setting in population:
            if not (len(setting) == 3 and setting[0] >= 0 and 0 <= setting[1] < 1 and setting[2] > 0):
                raise UsageError(
                    "A setting of population is a weight decay of at least 0, an input dropout from 0 to below 1 and a "
                    f"tau above 0, not {list(setting)}."
                )
        self.settings = [(float(decay), float(dropout), float(tau)) for decay, dropout, tau in population]
        self.folds = folds
        if folds > MOST_FOLDS:
            raise UsageError(
                f"folds must be at most {MOST_FOLDS}, not {folds}: each setting trains one network a fold."
            )
        members = [setting for setting in self.settings or [(0.0, 0.0, 1.0)] for _ in range(folds)]
        m = len(members)
        more = partial(second_network, given=None, beside=False)
        self.f: Population = Population(f, m, [dropout for _, dropout, _ in members], more)
        self.register_buffer("fold", torch.arange(m) % folds if folds > 1 else torch.full((m,), SEES_ALL))
        self.register_buffer("decay", torch.tensor([decay for decay, _, _ in members]))
        self.register_buffer("train_tau", torch.tensor([tau for _, _, tau in members]))
        for name in ("sharpness", "tau", "judge_sharpness"):
            self.register_buffer(name, torch.ones(m))
        for name in ("share", "judge_share"):
            self.register_buffer(name, torch.full((m,), 1 / m))
        self.register_buffer("misleading", torch.zeros(2))

    # --- judging ---

    def judge(self, batch: Batch) -> Judged:
        """What members that have not seen the items say about them; items of no fold are judged by all members."""
        n, k = len(batch.fold), self.answers.n_classes
        shapes = [(n, k), (n, k), *[(len(batch.item),)] * 4]
        judged = Judged(*(self.share.new_zeros(shape) for shape in shapes))
        for fold in batch.fold.unique().tolist():
            part, items, rows = batch.of_fold(fold)
            found = self.judge_with(part, self.judges(fold))
            for whole, piece, at in zip(judged, found, (items, items, rows, rows, rows, rows), strict=True):
                whole[at] = piece
        return judged

    def judges(self, fold: int) -> Tensor:
        """The members that have not seen the items of a fold."""
        own = (self.fold == fold).nonzero()[:, 0]
        return own if len(own) else torch.arange(len(self.fold), device=own.device)

    def judge_with(self, batch: Batch, members: Tensor) -> Judged:
        """What these members say."""
        raise TypeError(f"{type(self).__name__} does not judge items")

    def add_confidence(self, batch: Batch, log_f: Float[Tensor, "M B K"], seen: Bool[Tensor, "M B"]) -> None:
        """Add f's probability of each label, the mean over members that do not see its item, to those before."""
        if self.over_epochs is None:
            return
        unseen = ~seen[:, batch.item]
        n = unseen.sum(0)
        p = (log_f[:, batch.item, batch.y_noisy].exp() * unseen).sum(0) / n.clamp(min=1)
        self.over_epochs.update(batch.index, self.over_epochs[batch.index] + torch.stack([p, (n > 0).to(p)], 1))

    def mean_confidence(self) -> Float[Tensor, " N"] | None:
        """Over the epochs; None where members are trained apart, each without the items that it does not see."""
        if self.over_epochs is None:
            return None
        p, n = self.over_epochs.values.T
        return p / n if n.any() else None

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
                share /= share.sum() if share.sum() > 0 else 1.0
                if not share.any():
                    share.fill_(1 / (len(share) - len(collapsed)))
                    share[list(collapsed)] = 0.0
        return records

    def weigh(self, scan: ItemScan) -> list[dict[str, Any]]:
        """Let held-out answers decide how sharp each setting's f is, tau, and what it counts."""
        if self.folds == 1:
            return []
        k, per_setting = self.answers.n_classes, len(self.fold) // self.folds
        log_f, log_p, item, n = [], [], [], 0  # of votes
        sample = SAMPLE_NUMBERS // (per_setting * k)
        for batch in scan(max_numbers=min(sample, FEW_ROWS) if self.f.recalibrates else sample):
            out_f = torch.zeros(per_setting, len(batch.fold), k)
            out_p = torch.zeros(per_setting, len(batch.item), k)
            for fold in batch.fold.unique().tolist():
                part, items, rows = batch.of_fold(fold)
                members = self.judges(fold)
                out_f[:, items.cpu()] = self.f(part.x, members).log_softmax(-1).to(out_f)
                out_p[:, rows.cpu()] = self.answers.explain(part.a, part.y_noisy, members)[1].to(out_p)
            of_vote, vote_item, _ = by_vote(out_p, batch.item.cpu(), None if batch.vote is None else batch.vote.cpu())
            log_f.append(out_f)
            log_p.append(of_vote)
            item.append(vote_item + n)
            n += len(batch.fold)
        return self.choose(torch.cat(log_f, 1), torch.cat(log_p, 1), torch.cat(item))

    def choose(
        self, log_f: Float[Tensor, "G B K"], log_p: Float[Tensor, "G R K"], item: Int[Tensor, " R"]
    ) -> list[dict[str, Any]]:
        """Tempers and shares of the settings, by the leave-one-answer-out likelihood; a record of each setting.

        Where items mislead, the likelihood of all answers to an item says how sharp f is where it is judged.
        """
        calibrated = self.f.recalibrates
        tempers = [find_tempers(f, p, item, calibrated=calibrated) for f, p in zip(log_f, log_p, strict=True)]
        judge_shares = mixture_shares(torch.stack([loo for _, _, loo in tempers]))
        evidence = log_posterior(torch.zeros_like(log_f), log_p, item).log_softmax(-1).logsumexp(0)
        evidence = evidence - math.log(len(log_f))  # the mean over settings
        found = [find_sharpness(f, evidence) for f in log_f]
        shares = mixture_shares(torch.stack([likelihood for _, likelihood in found]))
        misleading = find_misleading(log_f, log_p, item, [tau for _, tau, _ in tempers], judge_shares.tolist())
        rate, follow = (0.0, 0.0) if misleading is None else misleading[:2]
        self.misleading.copy_(torch.tensor([rate, follow]))
        records = []
        for at, (judge_sharpness, tau, loo) in enumerate(tempers):
            decay, dropout, train_tau = self.settings[at] if self.settings else (None, None, 1.0)
            chosen = {
                "sharpness": found[at][0],
                "share": float(shares[at]),
                "judge_sharpness": judge_sharpness if misleading is None else misleading.sharpness[at],
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
            misled = {} if misleading is None else {"misleading_rate": rate, "misleading_follow": follow}
            records.append({**setting, **likelihoods, **chosen, **misled})
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

    def groups(self, processes: int) -> list[Group]:
        """Members that are trained together: stacked ones shared out among processes, any others one by one.

        Members of one setting are trained one by one as well: a stack goes through all items with every member, and one
        that leaves out half of them would do so in vain.
        """
        m = len(self.fold)
        if m > 1 and (self.f.stack is None or (m == self.folds and not self.f.recalibrates)):
            return [Group([member], int(self.fold[member])) for member in range(m)]
        n = min(processes, m)
        return [Group(list(range(first, m, n)), None) for first in range(n)]

    def keep(self, members: Sequence[int]) -> None:
        """Leave out all other members: what one group trains."""
        self.over_epochs = None  # the members of another group do not see what these see
        self.f.keep(members)
        self.answers.keep(members)
        index = torch.tensor(members)
        for name in ("fold", "decay", "train_tau", *CHOSEN):
            setattr(self, name, getattr(self, name)[index])

    def put(self, members: Sequence[int], part: "Method") -> None:
        """Take over what a group has learned."""
        assert isinstance(part, CrossFitted)
        self.f.put(members, part.f)
        self.answers.put(members, part.answers)
