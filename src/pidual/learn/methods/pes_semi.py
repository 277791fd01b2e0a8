"""PES(semi): PES with one fresh start, that of the classifier, and the rows f disagrees with as unlabelled ones.

    C    = {i : argmax of the mean softmax f over two views of x_i is y_noisy_i}, found again every epoch
    q_i  = onehot(y_noisy_i) in C;  the mean softmax over both views, sharpened: q^(1/T) / sum q^(1/T), elsewhere
    x, q <- l x_i + (1 - l) x_j,  l q_i + (1 - l) q_j        j any row or view, l ~ Beta(alpha, alpha), l >= 1/2
    L    = mean over C of  -sum_k w_k q_k log p_k  +  lambda(e) * mean over the rest and classes of (p_k - q_k)^2

p = softmax f(x); q carries no gradient. w_k = mean class count / count of class k in C, at most 3; a class without
rows in C has weight 0 and does not count in the mean. Before, `t1` of the run trains on all rows and `t2` trains a new
classifier alone; lambda grows from 0 after that. Prediction uses f.

Bai et al., "Understanding and improving early stopping for learning with noisy labels", NeurIPS 2021, arXiv
2106.15853. What differs from the authors' code: rows come in one shuffled order, so a batch holds C and the rest in
proportion on average, where theirs does so exactly; where C has less than half of the rows it is repeated to make half
of every batch, as theirs. Guesses are made for the whole batch in one pass, of which batch normalisation takes note.
And the new classifier keeps learning (see PES). t2 is a part of the run, where theirs is counted beside it; lambda
grows from epoch to epoch, theirs from step to step. Each process mixes its own rows, so what is mixed with what depends
on their number.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...options import NotNegative, Positive, Share, ShareAboveZero
from .base import Batch, Spec
from .parts.processes import kept_mean
from .parts.selection import class_weights, growth, mixup, repeated, sharpen
from .pes import PES


class PESSemi(PES):
    """PES whose last phase is MixMatch on confident and other rows.

    Parameters
    ----------
    t1, t2 : float
        `t1` of the run trains on all rows, then `t2` a new classifier (authors, CIFAR-10: 20 and 5 epochs of 300).
    lam : float
        Final weight of the loss on rows that are not confident (authors: 5 for CIFAR-10N, 75 for CIFAR-100N).
    ramp : float
        Share of the run in which that weight grows from 0 (authors: 16 epochs of 300).
    alpha, late_alpha : float
        Mixup weights are from Beta(`alpha`, `alpha`), in the second half of the run of `late_alpha` (authors: 4, 0.75).
    temperature : float
        Guessed labels are sharpened by the power 1 / temperature; 1 leaves them as they are (authors: 0.5).
    weight_cap : float
        Largest weight of a class; rare classes have larger weights (authors: 3).
    refine_lr
        As in PES.
    """

    title = "PES(semi)"
    last_phase = "semi-supervised"

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        t1: ShareAboveZero = 20 / 300,
        t2: Share = 5 / 300,
        lam: NotNegative = 5.0,
        ramp: Share = 16 / 300,
        alpha: NotNegative = 4.0,
        late_alpha: NotNegative = 0.75,
        temperature: Positive = 0.5,
        weight_cap: Positive = 3.0,
        refine_lr: NotNegative = 1e-4,
    ):
        super().__init__(f, spec, t1=t1, t2=0.0, t3=t2, refine_lr=refine_lr)
        self.lam, self.temperature, self.weight_cap = lam, temperature, weight_cap
        self.ramp, self.alphas, self.halfway = ramp * spec.epochs, (alpha, late_alpha), spec.epochs / 2

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        if not self.is_last:
            return super().forward(batch)
        labelled, views = self.confident[batch.index], torch.cat(batch.views)
        given = F.one_hot(batch.y_noisy, len(self.class_weight)).float()
        with torch.no_grad():
            guess = sharpen(self.f(views).float().softmax(1).view(2, *given.shape).mean(0), self.temperature)
        targets = torch.where(labelled[:, None], given, guess)
        x, q, _, _ = mixup(views, targets.repeat(2, 1), self.alphas[self.epoch >= self.halfway])
        log_p = self.f(x).float().log_softmax(1)
        cross_entropy = -(self.class_weight * q * log_p).sum(1).view(2, -1).mean(0)  # over both views
        distance = (log_p.exp() - q).square().mean(1).view(2, -1).mean(0)
        loss_x = kept_mean(batch, cross_entropy, labelled)
        loss_u = kept_mean(batch, distance, ~labelled)
        return {
            "loss": loss_x + self.unlabelled_weight() * loss_u,
            "loss_labelled": loss_x.detach(),
            "loss_unlabelled": loss_u.detach(),
            "confident": self.confident.float().mean(),
        }

    def unlabelled_weight(self) -> float:
        """Return lambda in this epoch."""
        return self.lam * growth(self.epoch, sum(phase.epochs for phase in self.phases[:-1]), self.ramp)

    def weights(self, counts: Tensor) -> Tensor:
        return class_weights(counts, self.weight_cap)

    def fresh_layers(self) -> dict[str, list[nn.Module]]:
        return {"classifier": [self.classifier()]}

    def epoch_rows(self, epoch: int, order: Tensor) -> Tensor:
        """Return all rows; where fewer than half are confident, these in turn with others, as many rows in all."""
        if not self.is_last:
            return order
        labelled = self.confident.cpu()[order]
        confident, rest = order[labelled], order[~labelled]
        if len(rest) <= len(confident):
            return order
        return torch.stack([repeated(confident, len(rest)), rest], 1).flatten()[: len(order)]
