"""DivideMix: two networks; each chooses which labels the other trusts, and both guess the labels that are not.

    w_i  = posterior of the component with the lower mean, of two normal ones fitted to the losses CE(f(x_i), y_noisy_i)
    f is trained with the w of g and g with that of f; row i is labelled iff w_i > threshold. Two views of each row:
    q_i  = w_i onehot(y_noisy_i) + (1 - w_i) * mean softmax of the trained network over the views      labelled
         = mean softmax of both networks over the views                                              unlabelled
    q    <- q^(1/T) / sum q^(1/T), then mixup: x, q <- l x_i + (1 - l) x_j, l q_i + (1 - l) q_j
    L    = L_x + lambda(e) L_u + L_pen
    L_x  = mean over labelled of -sum_k q_k log p_k              p = softmax of the trained network
    L_u  = mean over unlabelled and classes of (p_k - q_k)^2
    L_pen = sum_k 1/K log(1/K / mean p_k over all rows)

q carries no gradient. The first epochs are plain cross-entropy. Prediction uses the sum of both networks' logits.

Li et al., "DivideMix: learning with noisy labels as semi-supervised learning", ICLR 2020, arXiv 2002.07394. What
differs from the authors' code: both networks are updated in the same step, theirs one after the other in each epoch;
in the warm-up both see the same rows, in two views. Guesses are made in one pass, theirs in four, so that batch
normalisation sees other groups of rows. At 90% noise they average the losses of five epochs; ours does not.
A batch is a quarter of labelled and a quarter of unlabelled rows for each network (a batch of 256 has the authors' 64),
and an epoch one pass over the larger labelled set, but at least as many steps as one over all rows; the other sets are
repeated beside it. Each process mixes its own rows, so what is mixed with what depends on their number.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...options import NotNegative, Positive, Share
from .base import Batch, Method, Scan, Spec
from .parts.networks import second_network
from .parts.processes import kept_mean, n_processes, of_first_process, sum_over_processes
from .parts.selection import clean_posterior, growth, half, mixup, repeated, sharpen

TINY = 1e-12


class DivideMix(Method):
    """Two networks that divide the rows for each other, and MixMatch on the parts.

    Parameters
    ----------
    warmup : float
        Share of the run that trains on all labels first (authors: 10 epochs of 300 for CIFAR-10, 30 for CIFAR-100).
    threshold : float
        Labels that are clean with a higher probability are used (authors: 0.5); if none is, the likelier half.
    lam : float
        Final weight of rows whose label is not used (authors: 25, from 0 to 150 by kind and share of noise).
    ramp : float
        Share of the run in which that weight grows from 0 (authors: 16 epochs of 300).
    alpha : float
        Strength of mixup: the mixing weight is drawn from Beta(alpha, alpha) (authors: 4).
    temperature : float
        Guessed labels are sharpened by the power 1 / temperature; 1 leaves them as they are (authors: 0.5).
    asymmetric : bool
        Penalise confident predictions in the warm-up, by the negative entropy (authors: for asymmetric noise).
    """

    title = "DivideMix"
    reference = "Li et al., ICLR 2020, arXiv 2002.07394"
    networks = 2
    per_row_state = "probability of being clean, by either network (2)"
    n_views = 2
    scores = ("confidence", "noise_posterior")

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        second: nn.Module | None = None,
        *,
        warmup: Share = 10 / 300,
        threshold: Share = 0.5,
        lam: NotNegative = 25.0,
        ramp: Share = 16 / 300,
        alpha: NotNegative = 4.0,
        temperature: Positive = 0.5,
        asymmetric: bool = False,
    ):
        super().__init__(f, spec)
        self.g = second_network(f, second)
        self.warmup, self.ramp = max(1, int(warmup * spec.epochs + 0.5)), ramp * spec.epochs
        self.threshold, self.lam, self.alpha, self.temperature = threshold, lam, alpha, temperature
        self.asymmetric, self.n_classes = asymmetric, spec.n_classes
        self.progress = nn.Buffer(torch.zeros(2, dtype=torch.int64))  # rows of this epoch: visited, all
        self.w = nn.Buffer(torch.ones(2, spec.n_train))  # by f, by g
        self.labelled = nn.Buffer(torch.ones(2, spec.n_train, dtype=torch.bool))  # for f, for g

    @property
    def phase(self) -> str:
        """Return "warm-up", or what follows."""
        return "warm-up" if self.epoch < self.warmup else "semi-supervised"

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        if self.phase == "warm-up":
            return {
                "loss": self.early_loss(self.f, batch.views[0], batch) + self.early_loss(self.g, batch.views[1], batch)
            }
        terms = self.terms(0, half(batch, 0)), self.terms(1, half(batch, 1))
        loss_x, loss_u, penalty = (of_f + of_g for of_f, of_g in zip(*terms, strict=True))
        loss = loss_x + self.unlabelled_weight() * loss_u + penalty
        self.progress[0] += len(batch.index) * n_processes()
        return {"loss": loss, "loss_labelled": loss_x.detach(), "loss_unlabelled": loss_u.detach()}

    def early_loss(self, net: nn.Module, x: Tensor, batch: Batch) -> Tensor:
        """Return the cross-entropy on all rows; for asymmetric noise with the negative entropy of the prediction."""
        log_p = net(x).float().log_softmax(1)
        losses = F.nll_loss(log_p, batch.y_noisy, reduction="none")
        return batch.mean(losses + (log_p.exp() * log_p).sum(1) if self.asymmetric else losses)

    def terms(self, k: int, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return L_x, L_u and L_pen of network k on its rows."""
        labelled, net = self.labelled[k][batch.index], self.nets[k]
        x, q, _, _ = mixup(torch.cat(batch.views), self.targets(k, batch).repeat(2, 1), self.alpha)
        log_p = net(x).float().log_softmax(1)
        cross_entropy = -(q * log_p).sum(1).view(2, -1).mean(0)  # over both views
        distance = (log_p.exp() - q).square().mean(1).view(2, -1).mean(0)
        mean_p = log_p.exp().mean(0)
        mean_p = mean_p + (sum_over_processes(mean_p) / n_processes() - mean_p).detach()  # of all; gradient of ours
        penalty = -(mean_p.clamp(min=TINY) * self.n_classes).log().mean()
        return kept_mean(batch, cross_entropy, labelled), kept_mean(batch, distance, ~labelled), penalty

    @torch.no_grad()
    def targets(self, k: int, batch: Batch) -> Tensor:
        """Return q of the rows of network k before they are mixed: labels refined, or guessed by both networks."""
        net, partner = self.nets[k], self.nets[1 - k]
        own = _mean_softmax(net, batch)  # in training mode: batch normalisation takes note
        partner.eval()
        guess = (own + _mean_softmax(partner, batch)) / 2
        partner.train(net.training)
        w = self.w[1 - k][batch.index, None]
        refined = w * F.one_hot(batch.y_noisy, self.n_classes) + (1 - w) * own
        return sharpen(torch.where(self.labelled[k][batch.index, None], refined, guess), self.temperature)

    def unlabelled_weight(self) -> float:
        """Return lambda at this step, with the part of the epoch that is behind us."""
        e = self.epoch + int(self.progress[0]) / max(1, int(self.progress[1]))
        return self.lam * growth(e, self.warmup, self.ramp)

    def on_epoch_start(self, epoch: int, scan: Scan) -> None:
        """Let each network divide the rows for the other."""
        if self.phase == "warm-up":
            return
        losses = scan(lambda batch: torch.stack([batch.losses(net(batch.x)) for net in self.nets], 1))
        w = torch.stack([clean_posterior(column) for column in losses.unbind(1)])
        self.w.copy_(of_first_process(w.to(self.w.device)))
        clean = self.w > self.threshold
        half_of_them = self.w >= self.w.median(1, keepdim=True).values
        self.labelled.copy_(torch.where(clean.any(1, keepdim=True), clean, half_of_them).flip(0))
        n_steps = max(int(self.labelled.sum(1).max()), -(-self.w.shape[1] // 4))  # of four rows; at least all rows
        self.progress.copy_(torch.tensor([0, 4 * n_steps]))

    def epoch_rows(self, epoch: int, order: Tensor) -> Tensor:
        """Return labelled for f, labelled for g, unlabelled for f, unlabelled for g, in turn.

        Every second row is for f. Where a network has no unlabelled rows, labelled ones stand in, and L_u is 0.
        """
        if self.phase == "warm-up":
            return order
        labelled = self.labelled.cpu()[:, order]
        parts = [order[labelled[0]], order[labelled[1]], order[~labelled[0]], order[~labelled[1]]]
        parts[2:] = [part if len(part) else stand_in for stand_in, part in zip(parts[:2], parts[2:], strict=True)]
        return torch.stack([repeated(part, int(self.progress[1]) // 4) for part in parts], 1).flatten()

    @property
    def nets(self) -> tuple[nn.Module, nn.Module]:
        """Return both networks."""
        return self.f, self.g

    def logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.f(x) + self.g(x)
        return logits

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """Return 1 - w, the mean of both networks' at the last division; 0 before the first."""
        w = self.w.mean(0)[batch.index.clamp(min=0)]
        return {"noise_posterior": (1 - w).masked_fill(batch.index < 0, torch.nan)}


def _mean_softmax(net: nn.Module, batch: Batch) -> Tensor:
    """Return the mean over the views of a network's class probabilities."""
    p: Tensor = net(torch.cat(batch.views)).float().softmax(1)
    return p.view(len(batch.views), len(batch.index), -1).mean(0)
