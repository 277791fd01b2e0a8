"""What several methods share.

memory       SampleMemory: a value per training row
processes    gather, sum_over_processes, kept_mean
estimates    Draws, mean_probability: Monte-Carlo means in pieces
networks     split_network, classifier, reinitialise, fresh_copy, second_network, update_average, PITower
selection    small_loss, clean_posterior, class_weights
mixing       mixup, sharpen
rows         half, repeated, of_first_process
"""

import copy
import math
import mmap
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ..batch import PI, Batch
from ..errors import UsageError
from ..files import replacing
from ..nets import NETWORKS, PILinear, glorot_linear, he_normal_
from ..processes import place_among_processes
from ..random_pi import derive_seed

DISK_ABOVE = 2**30  # bytes beyond which a memory is kept in a file
BLOCK = 2**24  # numbers handled at a time
RELEASE_AFTER = 2**9  # rows read or written; each may bring up to 2 MB around it into memory
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class SampleMemory:
    """A vector of numbers per training row, read and written by row; neither a parameter nor part of the weights.

    Each of several processes holds, or shares with its neighbours on the machine, all rows; `update` gathers what the
    others have computed, so that all read the same values. The engine says where a large memory lies and saves it with
    the state of the run.

    Parameters
    ----------
    n_rows, width : int
        Training rows, and numbers per row.
    std : float
        Standard deviation of the normal initial values; 0 begins with zeros.
    dtype : "float32", "float16" or "bfloat16"
        How values are stored; they are read as float32.
    where : "auto", "memory" or "disk"
        "auto" keeps more than a gigabyte in a memory-mapped file.
    """

    def __init__(self, n_rows: int, width: int, *, std: float = 0.0, dtype: str = "float32", where: str = "auto"):
        if dtype not in DTYPES:
            raise UsageError(f"memory_dtype must be one of {', '.join(DTYPES)}, not '{dtype}'.")
        if where not in ("auto", "memory", "disk"):
            raise UsageError(f"memory must be auto, memory or disk, not '{where}'.")
        if std and std < torch.finfo(DTYPES[dtype]).smallest_normal:
            raise UsageError(f"{dtype} cannot hold initial values as small as {std:g}; use bfloat16 or float32.")
        self.n_rows, self.width, self.std, self.dtype = n_rows, width, std, DTYPES[dtype]
        self.seed = int(torch.randint(2**62, ()))  # the same on every process, which all build the same method
        n_bytes = n_rows * width * self.dtype.itemsize
        self.on_disk = where == "disk" or (where == "auto" and n_bytes > DISK_ABOVE)
        self.path: Path | None = None
        self._values: Tensor | None = None
        self._map: mmap.mmap | None = None
        self._touched = 0

    def __getstate__(self) -> dict[str, Any]:
        """A copy elsewhere begins anew: what is remembered of training rows does not travel with a model."""
        return {**vars(self), "_values": None, "_map": None, "path": None}

    @property
    def values(self) -> Tensor:
        """All rows (n_rows, width), as they are stored."""
        if self._values is None:
            self.open()
        assert self._values is not None
        return self._values

    def open(self, path: Path | None = None) -> None:
        """Make the memory with its initial values, in the file `path` where it belongs on disk.

        Without a path the file is a temporary one. Processes on one machine share the file; the first one makes it.
        """
        shape = (self.n_rows, self.width)
        generator = torch.Generator().manual_seed(self.seed)
        if not self.on_disk:
            self._values = torch.zeros(shape, dtype=self.dtype)
            for block in self._values.split(self._block):
                self._draw(block, generator)
            return
        if path is None:
            folder = tempfile.mkdtemp(prefix="pidual-memory-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = Path(folder) / "memory"
        self.path = path
        if place_among_processes().local_rank == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            weakref.finalize(self, path.unlink, missing_ok=True)  # a resume point is a copy of it
            with path.open("wb") as file:
                file.truncate(math.prod(shape) * self.dtype.itemsize)  # zeros that take no room yet
                for rows in range(0, self.n_rows if self.std else 0, self._block):
                    block = torch.empty((min(self._block, self.n_rows - rows), self.width), dtype=self.dtype)
                    file.write(self._draw(block, generator).view(torch.uint8).numpy().data)
        if n_processes() > 1:
            distributed.barrier()
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._values = torch.frombuffer(self._map, dtype=self.dtype).view(shape)

    def __getitem__(self, index: Tensor) -> Tensor:
        """Rows at these positions in float32, on the device of `index`; NaN where the position is -1."""
        rows = self.values[index.cpu().clamp(min=0)].float().to(index.device)
        self._release(len(index))
        return rows.masked_fill((index < 0)[:, None], math.nan)

    def update(self, index: Tensor, values: Tensor) -> None:
        """Write rows, this process's and those that the others write at the same step."""
        index, values = index.detach(), self._rounded(values.detach().float())
        if n_processes() > 1:
            index, values = gather(index), gather(values)
        self.values[index.cpu()] = values.to(self.dtype).cpu()
        self._release(len(index))

    def save(self, path: Path) -> None:
        """Write all rows to a file, there in full or not at all."""
        with replacing(path) as temporary:
            if self.path is not None:
                shutil.copyfile(self.path, temporary)  # through the file, so that the whole map is not read into memory
                return
            with temporary.open("wb") as file:
                for block in self.values.split(self._block):
                    file.write(block.view(torch.uint8).numpy().data)

    def load(self, path: Path) -> None:
        """Read all rows from a file that `save` wrote."""
        expected = self.values.numel() * self.dtype.itemsize
        if path.stat().st_size != expected:
            raise OSError(f"{path} has {path.stat().st_size} bytes, not the {expected} of {self.n_rows} rows")
        with path.open("rb") as file:
            for block in self.values.split(self._block):
                data = bytearray(block.numel() * self.dtype.itemsize)
                file.readinto(data)
                block.copy_(torch.frombuffer(data, dtype=self.dtype).view_as(block))

    @property
    def _block(self) -> int:
        """Rows handled at a time."""
        return max(1, BLOCK // max(1, self.width))

    def _draw(self, block: Tensor, generator: torch.Generator) -> Tensor:
        """Initial values in place."""
        return block.copy_(torch.randn(block.shape, generator=generator) * self.std) if self.std else block

    def _release(self, n_rows: int) -> None:
        """Let go of the pages of a file now and then: it stays in the system's cache, not in this process's memory."""
        self._touched += n_rows
        if self._map is not None and self._touched > RELEASE_AFTER and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
            self._touched = 0

    def _rounded(self, values: Tensor) -> Tensor:
        """Values that the store can hold: bfloat16 rounds up or down at random, right on average.

        Rounding to the nearest would undo every change below a 256th of the value, such as SOP's at small rates.
        """
        if self.dtype != torch.bfloat16:
            return values.to(self.dtype).float()
        bits = values.view(torch.int32)
        return ((bits + torch.randint_like(bits, 2**16)) & -(2**16)).view(torch.float32)


def n_processes() -> int:
    """Processes that train together."""
    ready = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if ready else 1


def gather(values: Tensor) -> Tensor:
    """The rows of all processes, one process after the other; in batches of items each may have another number."""
    own = torch.tensor([len(values)], device=values.device)
    counts = [torch.empty_like(own) for _ in range(n_processes())]
    distributed.all_gather(counts, own)
    lengths = [int(count) for count in counts]
    padded = torch.cat([values, values.new_zeros((max(lengths) - len(values), *values.shape[1:]))])
    parts = [torch.empty_like(padded) for _ in lengths]
    distributed.all_gather(parts, padded)
    return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])


def sum_over_processes(value: Tensor) -> Tensor:
    """The sum of every process's value, without gradient."""
    value = value.detach().clone()
    if n_processes() > 1:
        distributed.all_reduce(value)
    return value


def kept_mean(batch: Batch, losses: Tensor, keep: Tensor) -> Tensor:
    """Mean of the losses of kept rows over all processes' rows; 0 where no row is kept."""
    kept = sum_over_processes((keep * batch.weight).sum())
    total: Tensor = (losses * keep * batch.weight).sum()
    return total * n_processes() / kept.clamp(min=1e-12)


class Draws(nn.Module):
    """Standard normal numbers for Monte-Carlo estimates: new at every step, the same on every process, and the same
    ones at every prediction.

    Parameters
    ----------
    n_draws : int
        Draws S per step.
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
        """One (S, width) tensor for each width."""
        if self.training:
            self.step += 1
        step = int(self.step) if self.training else 0
        generator = torch.Generator().manual_seed(derive_seed(int(self.seed), step))
        return [torch.randn(self.n_draws, width, generator=generator).to(self.seed.device) for width in widths]


def mean_probability(logits: Callable[..., Tensor], per_row: int, *draws: Tensor) -> Tensor:
    """Mean over draws of the softmax of logits, in pieces: memory does not grow with the number of draws.

    Parameters
    ----------
    logits : callable
        Takes a piece (s, ...) of each of the draws, returns logits (B, s, K).
    per_row : int
        Numbers that a draw takes while it is worked on.
    *draws : tensors (S, ...)
    """

    def total(*pieces: Tensor) -> Tensor:
        return logits(*pieces).softmax(-1).sum(1)

    n_draws = len(draws[0])
    size = max(1, BLOCK // 16 // max(1, per_row))
    pieces: Iterator[tuple[Tensor, ...]] = zip(*(tensor.split(size) for tensor in draws), strict=True)
    # In training each of several pieces is computed again for its gradient, instead of being kept.
    again = torch.is_grad_enabled() and n_draws > size
    sums: Tensor | None = None
    for piece in pieces:
        part = checkpoint(total, *piece, use_reentrant=False, preserve_rng_state=False) if again else total(*piece)
        sums = part if sums is None else sums + part
    assert sums is not None
    return sums / n_draws


def split_network(f: nn.Module) -> tuple[Callable[[Tensor], Tensor], nn.Linear]:
    """`features` and `head` of a network whose logits are head(features(x)), for methods that see them apart."""
    features, head = getattr(f, "features", None), getattr(f, "head", None)
    if not (callable(features) and isinstance(head, nn.Linear)):
        raise UsageError(
            f"This method needs a network whose logits are head(features(x)), with a linear `head`; "
            f"{type(f).__name__} has none. Give it both, or use another method."
        )
    return features, head


def check_range(
    name: str, value: float | int, low: float | int, high: float | int = math.inf, *, inclusive: bool = True
) -> None:
    """Refuse a number outside low .. high; `low` itself counts where `inclusive`."""
    if not (low <= value <= high if inclusive else low < value <= high):
        bounds = f"{'at least' if inclusive else 'above'} {low:g}" + (
            f" and at most {high:g}" if high < math.inf else ""
        )
        raise UsageError(f"{name} must be {bounds}, not {value:g}.")


class PITower(nn.Module):
    """Logits from features and PI: how TRAM, AFM and the teacher of Distillation-PI use PI.

        h1 = ReLU(A1 a),  h2 = ReLU(A2 [phi; h1]) (+ h1),  z = A3 [phi; h2]

    Parameters
    ----------
    n_features, n_classes : int
        Width of phi; classes.
    first : PILinear
        A1.
    residual : bool
        Whether h1 is added to h2 (the paper's code base does so in TRAM's network for CIFAR, and nowhere else).
    """

    def __init__(self, n_features: int, n_classes: int, first: PILinear, *, residual: bool):
        super().__init__()
        self.n_features, self.residual = n_features, residual
        self.first = first
        self.second = glorot_linear(n_features + first.width, first.width)
        self.third = glorot_linear(n_features + first.width, n_classes)

    def forward(self, phi: Tensor, a: PI) -> Tensor:
        h1 = F.relu(self.first(a.codes, a.numbers))
        h2 = F.relu(self.second(torch.cat([phi, h1], 1)))
        if self.residual:
            h2 = h2 + h1
        logits: Tensor = self.third(torch.cat([phi, h2], 1))
        return logits

    def marginal(self, phi: Tensor, a: PI) -> Tensor:
        """Mean over the S rows of `a` of the class probabilities, for every row of phi.

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

        return mean_probability(logits, len(phi) * max(len(w2), len(w3)), h1, F.linear(h1, w2[:, d:]))

    def hidden(self) -> list[nn.Parameter]:
        """Parameters of the hidden layers, which the paper's code base does not decay on CIFAR."""
        return [*self.first.parameters(), *self.second.parameters()]


def reinitialise(module: nn.Module) -> None:
    """New weights as our networks begin with: He-normal convolutions, Glorot-uniform linear layers, zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            he_normal_(part.weight)
        elif isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
        elif callable(reset := getattr(part, "reset_parameters", None)):
            reset()
        if isinstance(part, nn.Conv2d | nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def classifier(f: nn.Module) -> nn.Module | None:
    """`head` of a network, or else its last linear layer, or else its last convolution."""
    if isinstance(head := getattr(f, "head", None), nn.Module):
        return head
    for kind in (nn.Linear, nn.modules.conv._ConvNd):
        if layers := [module for module in f.modules() if isinstance(module, kind)]:
            return layers[-1]
    return None


def fresh_copy(f: nn.Module) -> nn.Module:
    """A network of the same shape with weights of its own, and the head as the network says (`reset_head`)."""
    copied = copy.deepcopy(f)
    reinitialise(copied)
    if callable(reset := getattr(copied, "reset_head", None)):
        reset()
    return copied


def second_network(f: nn.Module, given: nn.Module | None, *, beside: bool = True) -> nn.Module:
    """The second network of a method that trains two: the one given, or else one made from f.

    A network of `pidual.nets` begins with weights drawn at random, and so does its copy. Any other may have been
    trained before: its copy keeps all weights. Two networks that are trained `beside` each other must not begin as
    equals: where they would, the second one's classifier gets new weights.
    """
    if given is None and type(f) in NETWORKS.values():
        return fresh_copy(f)
    second = copy.deepcopy(f) if given is None else given
    if beside and same_weights(f, second):
        last = classifier(second)
        if last is None:
            raise UsageError(
                f"This method trains two networks, which must not begin as equals; {type(f).__name__} has no linear "
                "layer to draw anew. Give a callable that makes a different one each time."
            )
        reinitialise(last)
    return second


def same_weights(f: nn.Module, g: nn.Module) -> bool:
    """Whether two networks have parameters, and all of them are equal; those without values (on meta) are not."""
    pairs = list(zip(f.parameters(), g.parameters(), strict=False))
    return bool(pairs) and all(not one.is_meta and torch.equal(one, two) for one, two in pairs)


def update_average(average: nn.Module, network: nn.Module, alpha: float) -> None:
    """Parameters of `average` move to alpha * average + (1 - alpha) * network; buffers do not."""
    with torch.no_grad():
        for mean, value in zip(average.parameters(), network.parameters(), strict=True):
            mean.lerp_(value, 1 - alpha)


def small_loss(losses: Tensor, share: float) -> Tensor:
    """Which rows are among the floor(share * B) smallest losses of the whole batch, but at least one; no gradient."""
    losses = losses.detach()
    everywhere = gather(losses) if n_processes() > 1 else losses
    count = max(1, math.floor(share * len(everywhere) + 1e-6))
    return losses <= everywhere.kthvalue(count).values


def clean_posterior(losses: Tensor) -> Tensor:
    """Probability of each row to belong to the component with the lower mean of a two-component normal mixture.

    Losses are scaled to [0, 1] first. Where all are the same, or one is not finite, there is nothing to tell apart:
    every row is clean.
    """
    from sklearn.exceptions import ConvergenceWarning  # slow to import, and needed by few methods
    from sklearn.mixture import GaussianMixture

    spread = losses.max() - losses.min()
    if len(losses) < 2 or not 0 < float(spread) < math.inf:
        return torch.ones_like(losses)
    scaled = ((losses - losses.min()) / spread).double().numpy()[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # ten iterations are the authors' choice
        mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=0).fit(scaled)
    posterior = mixture.predict_proba(scaled)[:, mixture.means_.argmin()]
    return torch.from_numpy(posterior).to(losses)


def class_weights(counts: Tensor, cap: float = math.inf) -> Tensor:
    """Mean count / count of each class, at most `cap`; a class without rows has 0 and no part in the mean."""
    counts = counts.float()
    mean = counts.sum() / (counts > 0).sum().clamp(min=1)
    return torch.where(counts > 0, mean / counts.clamp(min=1), 0.0).clamp(max=cap)


def sharpen(q: Tensor, temperature: float) -> Tensor:
    """q^(1/T), scaled to sum 1."""
    return (q.clamp(min=1e-12).log() / temperature).softmax(1)


def mixup(x: Tensor, targets: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor, float]:
    """Inputs and targets mixed with those of a random other row; the permutation and the weight l >= 1/2 as well.

    l ~ Beta(alpha, alpha), then max(l, 1 - l).
    """
    share = float(torch.distributions.Beta(alpha, alpha).sample()) if alpha > 0 else 1.0
    share = max(share, 1 - share)
    other = torch.randperm(len(x), device=x.device)
    x = x if x.is_floating_point() else x.float()
    return share * x + (1 - share) * x[other], share * targets + (1 - share) * targets[other], other, share


def half(batch: Batch, k: int) -> Batch:
    """Every second row, from row k on, for one of two networks; a single row is for both."""
    rows = slice(k, None, 2) if len(batch.index) > 1 else slice(None)
    return Batch.of_rows(
        batch.index[rows],
        tuple(view[rows] for view in batch.views),
        batch.y_noisy[rows],
        PI(batch.a.codes[rows], batch.a.numbers[rows]),
        batch.weight[rows],
        batch.fold[rows],
    )


def repeated(rows: Tensor, n: int) -> Tensor:
    """The first n of these rows, repeated as often as that takes."""
    return rows.repeat(-(-n // max(1, len(rows))))[:n]


def of_first_process(values: Tensor) -> Tensor:
    """What the first process has found: batch normalisation makes scans differ, but all must visit the same rows."""
    return gather(values)[: len(values)] if n_processes() > 1 else values


def clip_gradients(module: nn.Module, max_norm: float) -> None:
    """Scale all gradients down so that their global norm is at most `max_norm`; sparse ones count by their values."""
    gradients = [gradient_values(parameter) for parameter in module.parameters() if parameter.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, scale)


def gradient_values(parameter: Tensor) -> Tensor:
    """The gradient of a parameter, or the values of its sparse gradient, to be changed in place."""
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()
