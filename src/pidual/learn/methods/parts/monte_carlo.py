"""Monte-Carlo estimates, in pieces: memory does not grow with the number of draws."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ....data.pi.random_pi import derive_seed
from ....errors import UsageError

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
