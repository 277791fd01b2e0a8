"""CORES, the sample sieve: be confident, and leave out the rows whose label a confident f does not believe.

    l_ik  = -log softmax(f(x_i))_k
    L     = mean over kept rows of  CE_i - beta(e) * sum_k pi_k l_ik,   divided by 1 + beta(e)
    row i is kept  iff  CE_i - mean_k l_ik <= 0                         once the sieve is on; all rows before

pi is the share of each class among the noisy labels of kept rows, beta grows from 0 with the epoch e. The sieve is
asked again at every step, with the augmented input of that step. Prediction uses f.

Cheng et al., "Learning with instance-dependent label noise: a sample sieve approach", ICLR 2021, arXiv 2010.02347. The
authors divide the learning rate by 1 + beta; under their SGD without momentum or decay that is what dividing the loss
does, with momentum, decay or clipping it is not quite.
"""

import torch
from torch import Tensor, nn

from ...options import NotNegative, Share, Span
from .base import Batch, Method, Scan, Spec
from .parts.processes import gather, kept_mean, n_processes, sum_over_processes
from .parts.selection import epoch_after, growth

TINY = 1e-8


class CORES(Method):
    """Confidence-regularised cross-entropy on the rows that pass the sieve.

    Parameters
    ----------
    beta : float
        Final strength of the term that makes f confident; 0 leaves it out (authors: 2).
    ramp : two float
        Two shares of the run, between which beta grows linearly from 0 (authors: epochs 10 to 40 of 100).
    sieve_from : float
        Share of the run after which rows that look wrong are left out (authors: after epoch 30 of 100).
    """

    title = "CORES"
    reference = "Cheng et al., ICLR 2021, arXiv 2010.02347"
    scores = ("confidence", "sieve_score")

    def __init__(
        self, f: nn.Module, spec: Spec, *, beta: NotNegative = 2.0, ramp: Span = (0.1, 0.4), sieve_from: Share = 0.3
    ):
        super().__init__(f, spec)
        self.final_beta, self.sieve_after = beta, sieve_from * spec.epochs
        self.ramp = ramp[0] * spec.epochs, ramp[1] * spec.epochs
        self.record_in = epoch_after(0.4, spec.epochs)  # epoch 40 of the authors' 100
        k = spec.n_classes
        self.counts = nn.Buffer(torch.ones(k, dtype=torch.int64))  # noisy labels of all rows, by class
        self.dropped = nn.Buffer(torch.zeros(k, dtype=torch.int64))  # left out, in the last epoch or this one
        self.prior = nn.Buffer(torch.full((k,), 1 / k))
        # Rows with a score above 0 when epoch `record_in` visited them, for CORES*.
        self.looks_wrong = nn.Buffer(torch.zeros(spec.n_train, dtype=torch.bool))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        logits = self.f(batch.x).float()
        minus_log_p = -(logits.softmax(1) + TINY).log()  # l_ik
        cross_entropy = batch.losses(logits)
        keep = self.sieve(cross_entropy, minus_log_p) <= 0
        if self.epoch == self.record_in:
            self.record(batch.index, ~keep)
        if self.epoch <= self.sieve_after:
            keep = torch.ones_like(keep)
        self.dropped.add_(sum_over_processes(self.count(batch.y_noisy[~keep])))
        beta = self.beta()
        loss = kept_mean(batch, cross_entropy - beta * (minus_log_p * self.prior).sum(1), keep) / (1 + beta)
        return {"loss": loss, "kept": keep.float().mean()}

    def sieve(self, cross_entropy: Tensor, minus_log_p: Tensor) -> Tensor:
        """Return CE_i - mean_k l_ik, above 0 where the label looks wrong; no gradient."""
        return (cross_entropy - minus_log_p.mean(1)).detach()

    def record(self, index: Tensor, looks_wrong: Tensor) -> None:
        """Remember what the sieve says about these rows, and of those of the other processes."""
        if n_processes() > 1:
            index, looks_wrong = gather(index), gather(looks_wrong)
        self.looks_wrong[index] = looks_wrong

    def beta(self) -> float:
        """Return the strength of the confidence regulariser in this epoch."""
        first, last = self.ramp  # beta is 0 in epoch `first` and full in the epoch before `last`
        return self.final_beta * growth(self.epoch, first, last - 1 - first)

    def on_epoch_start(self, epoch: int, scan: Scan) -> None:
        """Find the class shares of what the last epoch kept."""
        if epoch == 0:
            self.counts.copy_(self.count(scan(lambda batch: batch.y_noisy, with_x=False).long()))
        kept = (self.counts - self.dropped).clamp(min=0)
        self.prior.copy_(kept / kept.sum() if kept.sum() > 0 else self.counts / self.counts.sum())
        self.dropped.zero_()

    def count(self, labels: Tensor) -> Tensor:
        """Count the rows of each class."""
        return labels.bincount(minlength=len(self.counts)).to(self.counts)

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """Return the sieve's score of the trained f, without augmentation (the authors record it while training)."""
        return {"sieve_score": self.sieve(batch.losses(logits), -(logits.softmax(1) + TINY).log())}
