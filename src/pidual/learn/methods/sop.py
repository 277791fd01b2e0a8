"""SOP, sparse over-parameterisation: give every row parameters of its own to explain a wrong label with.

    U = u^2 * Y,  V = v^2 * (1 - Y)          Y one-hot of y_noisy; u one number per row, v one per row and class
    q = softmax f(x) + U - sg(V), clamped and scaled to sum 1
    L = -log q[y_noisy] + || onehot(argmax f(x)) + U - V - Y ||^2

f learns from the first term alone, v from the second, u from both. u and v begin with standard deviation 1e-8 and are
moved by plain gradient descent at their own constant rates: implicitly, that keeps them sparse. Prediction uses f.

Liu et al., "Robust training under label noise by over-parameterization", ICML 2022, arXiv 2202.14026. As the released
code does (changed after the camera-ready version), V has no gradient in the first term and U has one in both.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...options import NotNegative
from .base import Batch, Spec
from .kinds import WithMemory
from .parts.processes import n_processes

TINY = 1e-4


class SOP(WithMemory):
    """Cross-entropy of a prediction that is corrected by a sparse noise term of each row.

    Parameters
    ----------
    lr_u, lr_v : float
        Learning rates of u and v, the numbers that explain a wrong label of a row, which moves by rate / batch size
        (authors, CIFAR-100 and symmetric noise: 1 and 10; the paper tunes over 1 to 100 and 1 to 1000).
    std : float
        Standard deviation of u and v at the start (authors: 1e-8). At 0 they would never move.
    **memory
        Where u and v are kept (`WithMemory`).
    """

    title = "SOP"
    reference = "Liu et al., ICML 2022, arXiv 2202.14026"
    per_row_state = "u (1) and v (K)"
    scores = ("confidence", "estimated_noise")

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        lr_u: NotNegative = 1.0,
        lr_v: NotNegative = 10.0,
        std: NotNegative = 1e-8,
        **memory: Any,
    ):
        super().__init__(f, spec, **memory)
        self.lr_u, self.lr_v = lr_u, lr_v
        self.u, self.v = self.remember(1, std), self.remember(spec.n_classes, std)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return self.explain(batch, self.f(batch.x).float().softmax(1))

    def explain(self, batch: Batch, p: Tensor) -> dict[str, Tensor]:
        """Return the loss by which f learns, given its softmax p; u and v take their step."""
        u, v = self.u[batch.index], self.v[batch.index]
        self.descend(batch, p.detach(), u, v)
        U, V = self.noise(u, v, batch.y_noisy)
        return {"loss": self.label_loss(batch, self.corrected(p, U, V)), "noise": (U - V).abs().sum(1).mean()}

    def descend(self, batch: Batch, p: Tensor, u: Tensor, v: Tensor) -> None:
        """Take a step of plain gradient descent on the u and v of this batch; no other row moves."""
        u, v = u.requires_grad_(), v.requires_grad_()
        with torch.enable_grad():
            U, V = self.noise(u, v, batch.y_noisy)
            Y = F.one_hot(batch.y_noisy, p.shape[1])
            answer = F.one_hot(p.argmax(1), p.shape[1])
            squares = (answer + U - V - Y).square().sum(1)
            loss = (self.label_loss(batch, self.corrected(p, U, V)) + batch.mean(squares)) / n_processes()
            grad_u, grad_v = torch.autograd.grad(loss, (u, v))
        self.u.update(batch.index, u - self.lr_u * grad_u)
        self.v.update(batch.index, v - self.lr_v * grad_v)
        u.requires_grad_(False), v.requires_grad_(False)

    def noise(self, u: Tensor, v: Tensor, y_noisy: Tensor) -> tuple[Tensor, Tensor]:
        """Return U and V, (B, K) each, in [0, 1]."""
        Y = F.one_hot(y_noisy, v.shape[1])
        return (u.square() * Y).clamp(0, 1), (v.square() * (1 - Y)).clamp(0, 1)

    def corrected(self, p: Tensor, U: Tensor, V: Tensor) -> Tensor:
        """Return the corrected prediction q, (B, K)."""
        q = (p + U - V.detach()).clamp(min=TINY)
        return (q / q.sum(1, keepdim=True)).clamp(TINY, 1)

    def label_loss(self, batch: Batch, q: Tensor) -> Tensor:
        """Return -log q[y_noisy], mean over the batch: the term that f and u share."""
        return batch.mean(-q.gather(1, batch.y_noisy[:, None])[:, 0].log())

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """Return ||U - V||: the label error that u and v have come to stand for."""
        U, V = self.noise(self.u[batch.index], self.v[batch.index], batch.y_noisy)
        return {"estimated_noise": (U - V).norm(dim=1)}
