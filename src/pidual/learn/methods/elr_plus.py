"""ELR+: ELR with mixup and two networks, each of which remembers what the slow average of the other predicts.

For f, and the same for g with both exchanged:

    t_i <- beta t_i + (1 - beta) softmax g_ema(x_i)                 t of f; the rows before they are mixed; no gradient
    x, Y, q <- l x_i + (1 - l) x_j, l Y_i + (1 - l) Y_j, l t_i + (1 - l) t_j       Y one-hot of y_noisy, l >= 1/2
    L   = -sum_k Y_k log p_k + lam * log(1 - <q, p>)                p = softmax f(x), clamped in the second term
    g_ema <- a g_ema + (1 - a) g after each step,  a = ema * r(s),  r(s) = exp(-5 (1 - min(s, 1))^2)

s is the share of the first half of the run that is behind us: at first the averages follow the networks at once. Only
parameters are averaged, and the averages predict with the statistics of their batch. With `refine_labels` (the
authors' form for CIFAR-100), Y <- Y * q / sum(Y * q), and lam grows as r(s) does. Prediction uses the mean of both
networks' logits.

Liu et al., "Early-learning regularization prevents memorization of noisy labels", NeurIPS 2020, arXiv 2007.00151.
What differs from the authors' code: both networks are updated in the same step, theirs one after the other in each
epoch; a batch is one half rows for f and one half rows for g, each in an order of its own, so an epoch has twice the
steps. The averages begin as copies of the networks (at s = 0 they forget where they began at once) and are updated at
the beginning of the next step. Each process mixes its own rows, so what is mixed depends on their number.
"""

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...options import NotNegative, Share
from .base import Batch, Spec
from .elr import TINY
from .kinds import WithMemory
from .parts.memory import SampleMemory
from .parts.networks import second_network, update_average
from .parts.processes import n_processes
from .parts.selection import half, mixup


class ELRPlus(WithMemory):
    """Two networks with early-learning regularisation towards each other's averages, on mixed rows.

    Parameters
    ----------
    beta : float
        Weight of earlier predictions in a row's target (authors, CIFAR-10: 0.7; CIFAR-100: 0.9).
    lam : float
        Strength of the pull towards that target (authors, CIFAR-10: 3; CIFAR-100: 7).
    alpha : float
        Strength of mixup: the mixing weight is drawn from Beta(alpha, alpha) (authors: 1).
    ema : float
        How slowly the averaged networks follow the trained ones in the end; 1 would stop them (authors: 0.997).
    ramp : float
        Share of the run in which `ema` reaches its value, and `lam` too with `refine_labels` (authors: 40,000 of 78,000
        steps on CIFAR-10, of 97,750 on CIFAR-100).
    refine_labels : bool
        Correct labels by their targets, and let `lam` grow from about 0 (authors: for CIFAR-100).
    **memory
        As in ELR, twice the room.
    """

    title = "ELR+"
    reference = "Liu et al., NeurIPS 2020, arXiv 2007.00151"
    networks = 2
    per_row_state = "target probabilities, of either network (2 K)"
    scores = ("confidence", "target_disagreement")

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        second: nn.Module | None = None,
        *,
        beta: Share = 0.7,
        lam: NotNegative = 3.0,
        alpha: NotNegative = 1.0,
        ema: Share = 0.997,
        ramp: Share = 0.5,
        refine_labels: bool = False,
        **memory: Any,
    ):
        super().__init__(f, spec, **memory)
        self.beta, self.lam, self.alpha, self.ema, self.refine_labels = beta, lam, alpha, ema, refine_labels
        self.g = second_network(f, second)
        self.f_ema, self.g_ema = (copy.deepcopy(net).requires_grad_(False) for net in (self.f, self.g))
        self.targets_f, self.targets_g = self.remember(spec.n_classes), self.remember(spec.n_classes)
        self.n_classes = spec.n_classes
        self.ramp_rows = ramp * spec.epochs * 2 * spec.n_train
        self.step = nn.Buffer(torch.zeros((), dtype=torch.int64))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        r = self.ramp(int(self.step) * len(batch.index) * n_processes())
        update_average(self.f_ema, self.f, self.ema * r)
        update_average(self.g_ema, self.g, self.ema * r)
        self.step.add_(1)
        losses_f = self.losses(self.f, self.g_ema, self.targets_f, half(batch, 0))
        losses_g = self.losses(self.g, self.f_ema, self.targets_g, half(batch, 1))
        cross_entropy, pull = (of_f + of_g for of_f, of_g in zip(losses_f, losses_g, strict=True))
        lam = self.lam * r if self.refine_labels else self.lam
        return {"loss": cross_entropy + lam * pull, "pull": pull.detach() / 2}

    def losses(
        self, net: nn.Module, partner_ema: nn.Module, targets: SampleMemory, batch: Batch
    ) -> tuple[Tensor, Tensor]:
        """Return the cross-entropy and pull of one network on its rows, whose targets move first."""
        with torch.no_grad():
            slow = partner_ema(batch.x).float().softmax(1)  # in training mode, as the authors'
        t = self.beta * targets[batch.index] + (1 - self.beta) * slow
        targets.update(batch.index, t)
        x, y, other, share = mixup(batch.x, F.one_hot(batch.y_noisy, self.n_classes).float(), self.alpha)
        q = share * t + (1 - share) * t[other]
        if self.refine_labels:
            y = y * q / (y * q).sum(1, keepdim=True).clamp(min=1e-12)
        log_p = net(x).float().log_softmax(1)
        pull = (1 - (q * log_p.exp().clamp(TINY, 1 - TINY)).sum(1)).log()
        return batch.mean(-(y * log_p).sum(1)), batch.mean(pull)

    def ramp(self, rows: int) -> float:
        """Return r after so many visited rows."""
        return math.exp(-5 * (1 - min(1.0, rows / max(1.0, self.ramp_rows))) ** 2)

    def epoch_rows(self, epoch: int, order: Tensor) -> Tensor:
        """Return the rows for f and rows for g, each in an order of its own, in turn."""
        return torch.stack([order, order[order]], 1).flatten()

    def logits(self, x: Tensor) -> Tensor:
        logits: Tensor = (self.f(x) + self.g(x)) / 2
        return logits

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """Return 1 - t[given label], t the mean of both networks' targets, scaled to sum 1."""
        t = self.targets_f[batch.index] + self.targets_g[batch.index]
        return {"target_disagreement": 1 - (t / t.sum(1, keepdim=True)).gather(1, batch.y_noisy[:, None])[:, 0]}
