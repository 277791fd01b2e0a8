"""Forward-T, forward loss correction: estimate how labels are confused, and fit the noisy labels through that.

    T_kj = P(y_noisy = j | y = k) ~ eta_j(x_k),       eta a first network fitted with CE, x_k the anchor of class k
    L    = -log sum_k p_k(x) T_k[y_noisy],            p = softmax f(x)

The anchor of a class is the training row on which eta is surest of it, without its surest 3 %. T is estimated once,
before the first epoch, on all training rows without augmentation; eta has the weights with the lowest validation loss,
for one that has memorised the labels gives T = I. f begins with fresh weights. Prediction uses f, without T.

Patrini et al., "Making deep neural networks robust to label noise: a loss correction approach", CVPR 2017, arXiv
1609.03683. The released code leaves the surest 3 % out by writing zeros into eta, which the rows of later classes then
read; ours works on a copy. Estimating T takes rows x classes numbers of memory for a moment.
"""

import torch
from torch import Tensor, nn

from .base import Batch, Method, Scan, Spec
from .ce import CE
from .parts.networks import first_network

TINY = 1e-7
PERCENTILE = 97


class ForwardT(Method):
    """Cross-entropy of the noisy label's probability under an estimated transition matrix.

    Parameters
    ----------
    outlier_filter : bool
        Leave out the surest 3 % of the rows when the example of a class is chosen (authors: yes, but not on CIFAR-100).
        Turn it off with many classes: a class with fewer than 3 % of the rows then has none of its own left.
    """

    title = "Forward-T"
    reference = "Patrini et al., CVPR 2017, arXiv 1609.03683"
    stages = 2
    scores = ("confidence", "posterior_noise")

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        second: nn.Module | None = None,
        *,
        outlier_filter: bool = True,
    ):
        super().__init__(f, spec)
        self.outlier_filter = outlier_filter
        self.before, self.before_training = CE(first_network(f, second), spec), {"select": "lowest_loss"}
        self.T = nn.Buffer(torch.eye(spec.n_classes))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        p_noisy = self.through_transition(self.f(batch.x), batch.y_noisy).sum(1)
        return {"loss": batch.mean(-p_noisy.clamp(min=1e-30).log())}  # 0 where T says that nobody gives this label

    def through_transition(self, logits: Tensor, y_noisy: Tensor) -> Tensor:
        """Return p_k T_k[y_noisy] for every class k, (B, K); p is clipped before the product."""
        p = logits.float().softmax(1).clamp(TINY, 1 - TINY)
        return p * self.T.T[y_noisy]

    def on_epoch_start(self, epoch: int, scan: Scan) -> None:
        """Estimate T, before the first epoch."""
        before = self.before
        if epoch == 0 and before is not None:
            eta = scan(lambda batch: before.logits(batch.x).float().softmax(1))
            self.T.copy_(estimate_transition(eta, outlier_filter=self.outlier_filter))

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """Return 1 - P(y = y_noisy | x, y_noisy): what p and T together say about the label."""
        joint = self.through_transition(logits, batch.y_noisy)
        right = joint.gather(1, batch.y_noisy[:, None])[:, 0]
        return {"posterior_noise": 1 - right / joint.sum(1).clamp(min=1e-30)}


def estimate_transition(eta: Tensor, *, outlier_filter: bool) -> Tensor:
    """Estimate the transition matrix (K, K) of class probabilities (N, K); every row sums to 1."""
    rank = -(-PERCENTILE * (len(eta) - 1) // 100) + 1  # of the percentile, taken upwards to a value that occurs
    anchors = []
    for column in eta.T:
        below = column < column.kthvalue(rank).values
        if outlier_filter and below.any():  # none is below where nearly all are the same
            column = column.where(below, -1.0)
        anchors.append(column.argmax())
    rows = eta[torch.stack(anchors)]
    sums = rows.sum(1, keepdim=True)
    return torch.where(sums > 0, rows / sums, torch.eye(eta.shape[1]))
