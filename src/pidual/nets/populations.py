"""Populations: several networks of one kind, trained at once, that do not know about each other.

    forward(x) -> logits (M, B, K), one slice per member

MLPs are stacked into batched products: on a processor, 20 of them take a third of the time of one after the other
(torch.func's vmap: four fifths). Any other networks are side by side, and the engine trains those one after the other,
or on several processes: small CNNs by vmap take more than twice as long (benchmarks/populations.py).
"""

import itertools
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from . import MLP, WITHOUT_X, Standardize, log_probabilities


class MLPs(nn.Module):
    """M fully connected networks as batched products.

    Dropout masks are drawn once per step for all members, which cost no more of them than one network, so that a member
    is the same whichever others are trained beside it.

    Parameters
    ----------
    like : MLP
        Sizes, dropout and standardisation of every member.
    n_members : int
    input_dropout : sequence of float
        Share of the inputs that each member drops while training.
    """

    input_dropout: Tensor

    def __init__(self, like: MLP, n_members: int, input_dropout: Sequence[float]) -> None:
        super().__init__()
        linear = [layer for layer in (*like.hidden, like.head) if isinstance(layer, nn.Linear)]
        sizes = [linear[0].in_features, *(layer.out_features for layer in linear)]
        self.standardize: Standardize | None = like.standardize
        self.drops_inputs = any(input_dropout)  # of the whole population: masks must not depend on who is kept
        self.dropout = next((layer.p for layer in like.hidden if isinstance(layer, nn.Dropout)), 0.0)
        self.weights = nn.ParameterList(torch.empty(n_members, a, b) for a, b in itertools.pairwise(sizes))
        self.biases = nn.ParameterList(torch.zeros(n_members, 1, b) for b in sizes[1:])
        self.register_buffer("input_dropout", torch.tensor(input_dropout, dtype=torch.float32))
        for weights in self.weights:
            for member in () if weights.is_meta else weights:  # of sizes alone, a damaged file may ask for any number
                nn.init.xavier_uniform_(member)

    @property
    def n_members(self) -> int:
        """How many networks there are."""
        return len(self.input_dropout)

    def forward(self, x: Shaped[Tensor, "B ..."], members: Int[Tensor, " M"] | None = None) -> Float[Tensor, "M B K"]:
        """Logits of every member, or of some of them."""
        x = (x if self.standardize is None else self.standardize(x)).flatten(1).to(self.weights[0].dtype)
        rates = self.input_dropout if members is None else self.input_dropout[members]
        hidden = self.drop_inputs(x, rates) if self.training else x.expand(len(rates), *x.shape)
        last = len(self.weights) - 1
        for layer, (weights, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if members is not None:
                weights, bias = weights[members], bias[members]
            hidden = torch.baddbmm(bias, hidden, weights)
            if layer < last:
                hidden = F.relu(hidden)
                if self.training and self.dropout:
                    mask = torch.rand(hidden.shape[1:], device=x.device) >= self.dropout
                    hidden = hidden * (mask / (1 - self.dropout))
        return hidden

    def drop_inputs(self, x: Tensor, rates: Tensor) -> Float[Tensor, "M B D"]:
        """The inputs as each member sees them: one draw, cut at each member's rate."""
        if not self.drops_inputs:
            return x.expand(len(rates), *x.shape)
        draws = torch.rand(x.shape, device=x.device)
        distinct, which = rates.unique(return_inverse=True)
        seen = torch.stack([x * (draws >= rate) / (1 - rate) if rate else x for rate in distinct])
        return seen.index_select(0, which)

    def keep(self, members: Sequence[int]) -> None:
        """Leave out all other members."""
        index = torch.tensor(members)
        self.weights = nn.ParameterList(nn.Parameter(weights.detach()[index]) for weights in self.weights)
        self.biases = nn.ParameterList(nn.Parameter(bias.detach()[index]) for bias in self.biases)
        self.input_dropout = self.input_dropout[index]

    def put(self, members: Sequence[int], part: "MLPs") -> None:
        """Take over the weights of these members from a population of them alone."""
        index = torch.tensor(members)
        for mine, theirs in zip(self.parameters(), part.parameters(), strict=True):
            mine.data[index] = theirs.detach()


class Recalibrations(nn.Module):
    """M recalibrations of given probabilities, or M class priors where none are given.

    Parameters
    ----------
    like : Recalibrated or Prior
        What every member begins as.
    n_members : int
    """

    def __init__(self, like: nn.Module, n_members: int) -> None:
        super().__init__()
        for name, value in like.named_parameters():
            self.register_parameter(name, nn.Parameter(value.detach().expand(n_members, *value.shape).clone()))

    def forward(self, x: Shaped[Tensor, "B ..."], members: Int[Tensor, " M"] | None = None) -> Float[Tensor, "M B K"]:
        """Logits of every member, or of some of them."""
        chosen = {name: value if members is None else value[members] for name, value in self.named_parameters()}
        bias = chosen["bias"]
        if "log_temperature" not in chosen:
            return bias.expand(-1, len(x), -1)
        return torch.addcmul(bias, log_probabilities(x)[None], chosen["log_temperature"].exp())

    def keep(self, members: Sequence[int]) -> None:
        """Leave out all other members."""
        index = torch.tensor(members)
        for name, value in list(self.named_parameters()):
            setattr(self, name, nn.Parameter(value.detach()[index]))

    def put(self, members: Sequence[int], part: "Recalibrations") -> None:
        """Take over the numbers of these members from a population of them alone."""
        index = torch.tensor(members)
        for mine, theirs in zip(self.parameters(), part.parameters(), strict=True):
            mine.data[index] = theirs.detach()


class Population(nn.Module):
    """Networks of f's kind: MLPs as one stack, and what stands for a network where there is no x; others side by side.

    Parameters
    ----------
    f : nn.Module
        The first network; an MLP gives the sizes of all.
    n_members : int
    input_dropout : sequence of float
        Of every member; only MLPs have it.
    more : callable
        Makes another network like f, where these are not MLPs.
    """

    def __init__(
        self, f: nn.Module, n_members: int, input_dropout: Sequence[float], more: Callable[[nn.Module], nn.Module]
    ) -> None:
        super().__init__()
        self.stack: MLPs | Recalibrations | None = None
        if type(f) is MLP:
            self.stack = MLPs(f, n_members, input_dropout)
        elif type(f) in WITHOUT_X.values():
            self.stack = Recalibrations(f, n_members)
        alone = [] if self.stack is not None else [f, *(more(f) for _ in range(n_members - 1))]
        self.alone = nn.ModuleList(alone)

    @property
    def recalibrates(self) -> bool:
        """Whether there is no network of x to train."""
        return isinstance(self.stack, Recalibrations)

    def forward(self, x: Tensor, members: Tensor | None = None) -> Float[Tensor, "M B K"]:
        """Logits of all members, or of some of them."""
        if self.stack is not None:
            logits: Tensor = self.stack(x, members)
        else:
            chosen = range(len(self.alone)) if members is None else members.tolist()
            logits = torch.stack([self.alone[member](x) for member in chosen])
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def clip_gradients(self, max_norm: float) -> None:
        """Scale the gradient of every member down so that its norm is at most `max_norm`."""
        if self.stack is None:
            for network in self.alone:
                nn.utils.clip_grad_norm_(network.parameters(), max_norm)
            return
        gradients = [parameter.grad for parameter in self.parameters() if parameter.grad is not None]
        norm = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0).sqrt()
        scale = (max_norm / (norm + 1e-6)).clamp(max=1.0).view(-1, 1, 1)
        for gradient in gradients:
            gradient.mul_(scale)

    def add_decay(self, decay: Float[Tensor, " M"]) -> None:
        """Add each member's weight decay to the gradients of a stack."""
        assert self.stack is not None
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad.addcmul_(parameter.detach(), decay.view(-1, 1, 1))

    def of(self, member: int) -> list[Tensor]:
        """Parameters of a member."""
        if self.stack is None:
            return [parameter.data for parameter in self.alone[member].parameters()]
        return [parameter.data[member] for parameter in self.stack.parameters()]

    def is_finite(self, member: int) -> bool:
        """Whether all numbers of a member are."""
        buffers = self.alone[member].buffers() if self.stack is None else ()
        return all(bool(value.isfinite().all()) for value in (*self.of(member), *buffers))

    def silence(self, member: int) -> None:
        """Let a member call all classes equally likely."""
        for value in self.of(member):
            value.zero_()
        for buffer in self.alone[member].buffers() if self.stack is None else ():
            if buffer.is_floating_point():
                buffer.nan_to_num_(0.0, 0.0, 0.0)  # of normalisation layers; nothing of them reaches the last layer

    def keep(self, members: Sequence[int]) -> None:
        """Leave out all other members."""
        if self.stack is not None:
            self.stack.keep(members)
        else:
            self.alone = nn.ModuleList(self.alone[member] for member in members)

    def put(self, members: Sequence[int], part: "Population") -> None:
        """Take over these members from a population of them alone."""
        if isinstance(self.stack, MLPs) and isinstance(part.stack, MLPs):
            self.stack.put(members, part.stack)
        if isinstance(self.stack, Recalibrations) and isinstance(part.stack, Recalibrations):
            self.stack.put(members, part.stack)
        for member, network in zip(members, part.alone, strict=False):
            self.alone[member].load_state_dict(network.state_dict())
