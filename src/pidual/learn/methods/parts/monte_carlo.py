"""Monte-Carlo estimates, in pieces: memory does not grow with the number of draws; and logits from features and PI."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ....data.pi.random_pi import derive_seed
from ....errors import UsageError
from ...batch import PI, Spec
from ...nets import PILinear, glorot_linear

BLOCK = 2**20  # numbers handled at a time
MIN_PROBABILITY = 1e-5
MIN_DIAGONAL = 1e-3


class Draws(nn.Module):
    """Standard normal numbers for Monte-Carlo estimates: new at every step, the same on every process, and the same
    ones at every prediction.

    `n_draws`: draws S per step.
    """

    step: Tensor
    seed: Tensor

    def __init__(self, n_draws: int):
        super().__init__()
        if n_draws < 1:
            raise UsageError(f"Monte-Carlo estimates need at least one draw, not {n_draws}.")
        self.n_draws = n_draws
        self.register_buffer("seed", torch.randint(2**62, ()))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, *widths: int) -> list[Tensor]:
        """Draw one (S, width) tensor for each width."""
        if self.training:
            self.step += 1
        step = int(self.step) if self.training else 0
        generator = torch.Generator().manual_seed(derive_seed(int(self.seed), step))
        return [torch.randn(self.n_draws, width, generator=generator).to(self.seed.device) for width in widths]


def covariance_rank(rank: int | None, size: int, of: str) -> int:
    """Return the rank asked for, or 3 if there are as many; refuse one that a covariance cannot have."""
    rank = min(3, size) if rank is None else rank
    if not 1 <= rank <= size:
        raise UsageError(f"rank must be between 1 and the number of {of}, {size}, not {rank}.")
    return rank


def covariance(factors: Tensor, diagonal: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return V (B, D, R) and d > 0 (B, D) of the noise V e + d e', from the outputs of two linear layers."""
    return factors.view(*diagonal.shape, rank), F.softplus(diagonal) + MIN_DIAGONAL


def log_mean_probability(
    logits: Callable[..., Tensor], per_row: int, *draws: Tensor, floor: float = MIN_PROBABILITY
) -> Tensor:
    """Return The log of `mean_probability`, of which the softmax is that mean; no probability is below `floor`."""
    return mean_probability(logits, per_row, *draws).clamp(min=floor).log()


def mean_probability(logits: Callable[..., Tensor], per_row: int, *draws: Tensor) -> Tensor:
    """Return the mean over draws of the softmax of logits, in pieces: memory does not grow with the number of draws.

    `logits`: takes a piece (s, ...) of each of the draws, returns logits (B, s, K).
    `per_row`: numbers that a draw takes while it is worked on.
    `*draws` (S, ...).
    """

    def total(*pieces: Tensor) -> Tensor:
        return logits(*pieces).softmax(-1).sum(1)

    n_draws = len(draws[0])
    size = max(1, BLOCK // max(1, per_row))
    pieces: Iterator[tuple[Tensor, ...]] = zip(*(tensor.split(size) for tensor in draws), strict=True)
    # In training each of several pieces is computed again for its gradient, instead of being kept.
    again = torch.is_grad_enabled() and n_draws > size
    sums: Tensor | None = None
    for piece in pieces:
        part = checkpoint(total, *piece, use_reentrant=False, preserve_rng_state=False) if again else total(*piece)
        sums = part if sums is None else sums + part
    assert sums is not None
    return sums / n_draws


TINY = 1e-20


class PITower(nn.Module):
    """Logits from features and PI: how TRAM, AFM and the teacher of Distillation-PI use PI.

        h1 = ReLU(A1 a),  h2 = ReLU(A2 [phi; h1]) (+ h1),  z = A3 [phi; h2]

    `n_features`, `width`: width of phi, and of h1 and h2.
    `spec`: its classes and PI.
    `random_pi`: length of the random PI among a.
    `residual`: whether h1 is added to h2 (the paper's code base does so in TRAM's network for CIFAR, and nowhere else).
    """

    def __init__(self, n_features: int, spec: Spec, width: int, *, residual: bool = False, random_pi: int = 0):
        super().__init__()
        self.n_features, self.residual = n_features, residual
        self.first = PILinear(spec.cardinalities, spec.n_numbers + random_pi, width)
        self.second = glorot_linear(n_features + width, width)
        self.third = glorot_linear(n_features + width, spec.n_classes)

    def forward(self, phi: Tensor, a: PI) -> Tensor:
        h1 = F.relu(self.first(a.codes, a.numbers))
        h2 = F.relu(self.second(torch.cat([phi, h1], 1)))
        if self.residual:
            h2 = h2 + h1
        logits: Tensor = self.third(torch.cat([phi, h2], 1))
        return logits

    def marginal(self, phi: Tensor, a: PI) -> Tensor:
        """Return The log of the mean over the S rows of `a` of the class probabilities, for every row of phi.

        A2 and A3 are cut into the part that sees phi and the part that sees the PI: the former is applied once per
        input, A2's latter once per draw. Pairs of input and draw meet in pieces only.
        """
        d = self.n_features
        (w2, b2), (w3, b3) = (self.second.weight, self.second.bias), (self.third.weight, self.third.bias)
        h1 = F.relu(self.first(a.codes, a.numbers))  # (S, W)
        from_phi, to_logits = F.linear(phi, w2[:, :d], b2), F.linear(phi, w3[:, :d], b3)

        def logits(h1: Tensor, from_pi: Tensor) -> Tensor:
            h2 = F.relu(from_phi[:, None] + from_pi)  # (B, s, W)
            return to_logits[:, None] + F.linear(h2 + h1 if self.residual else h2, w3[:, d:])

        sizes = len(phi) * max(len(w2), len(w3))
        return log_mean_probability(logits, sizes, h1, F.linear(h1, w2[:, d:]), floor=TINY)

    @property
    def hidden(self) -> list[nn.Module]:
        """Return the hidden layers, which the paper's code base does not decay on CIFAR."""
        return [self.first, self.second]
