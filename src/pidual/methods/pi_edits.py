"""Changes to the PI that the paper's ablations make: columns left out, rows whose PI is replaced by random values."""

import torch
from torch import Tensor, nn

from ..batch import PI, Spec
from ..errors import UsageError
from ..random_pi import random_pi
from .parts.ranges import check_range


class PIEdits(nn.Module):
    """PI without some columns, and with some rows corrupted; random PI, the last numbers, is left as it is.

    Parameters
    ----------
    spec : Spec
        Columns of the PI.
    leave_out : str or sequence of str
        PI columns to drop.
    everything : bool
        Drop all columns, so that only random PI is left.
    corrupt : float
        Share of the training rows, drawn once per run, whose codes are replaced by random ones and whose numbers by a
        normal with the column's mean and standard deviation (0 and 1, since numbers are standardised); what was missing
        then is not.

    Attributes
    ----------
    cardinalities, n_numbers
        Of the PI that is left, as in Spec.
    """

    kept_codes: Tensor
    kept_numbers: Tensor
    is_flag: Tensor

    def __init__(self, spec: Spec, *, leave_out: str | tuple[str, ...], everything: bool, corrupt: float):
        super().__init__()
        left_out = (leave_out,) if isinstance(leave_out, str) else leave_out
        code_names = spec.code_names or ("",) * len(spec.cardinalities)
        number_names = spec.number_names or ("",) * spec.n_numbers
        unknown = [name for name in left_out if name not in (*spec.code_names, *spec.number_names)]
        if unknown:
            names = ", ".join(dict.fromkeys((*spec.code_names, *spec.number_names))) or "not known by name here"
            raise UsageError(f"leave_out names no PI column: '{unknown[0]}'; the PI columns are {names}.")
        check_range("corrupt_pi", corrupt, 0, 1)
        self.sizes, self.corrupt = spec.cardinalities, corrupt
        self.seed = int(torch.randint(2**62, ())) if corrupt else 0
        codes = [i for i, name in enumerate(code_names) if not everything and name not in left_out]
        numbers = [i for i, name in enumerate(number_names) if not everything and name not in left_out]
        self.cardinalities, self.n_numbers = tuple(spec.cardinalities[i] for i in codes), len(numbers)
        self.all_numbers = spec.n_numbers
        # A number's flag for missing values follows it under the same name.
        flags = [bool(name) and i > 0 and number_names[i - 1] == name for i, name in enumerate(number_names)]
        self.register_buffer("kept_codes", torch.tensor(codes, dtype=torch.int64), persistent=False)
        self.register_buffer("kept_numbers", torch.tensor(numbers, dtype=torch.int64), persistent=False)
        self.register_buffer("is_flag", torch.tensor(flags, dtype=torch.bool), persistent=False)
        self.drops = bool(left_out) or everything

    def forward(self, a: PI, index: Tensor) -> PI:
        """The changed PI of the training rows at these positions (-1: not trained on, never corrupted)."""
        codes, numbers, random = a.codes, a.numbers[:, : self.all_numbers], a.numbers[:, self.all_numbers :]
        if self.corrupt:
            codes, numbers = self.corrupted(codes, numbers, index)
        if self.drops:
            codes, numbers = codes[:, self.kept_codes], numbers[:, self.kept_numbers]
        return PI(codes, torch.cat([numbers, random], 1)) if self.corrupt or self.drops else a

    def corrupted(self, codes: Tensor, numbers: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """The PI with a share of the rows replaced: which ones, and by what, is a function of seed and position."""
        n_codes = codes.shape[1]
        draws = random_pi(self.seed, index.clamp(min=0).cpu().numpy(), 1 + n_codes + numbers.shape[1])
        draws_ = torch.from_numpy(draws).to(numbers)
        uniform = torch.special.ndtr(draws_[:, : 1 + n_codes])
        hit = ((uniform[:, 0] < self.corrupt) & (index >= 0))[:, None]
        sizes = torch.tensor(self.sizes, device=codes.device)
        random_codes = torch.minimum((uniform[:, 1:] * sizes).long(), sizes - 1).to(codes)
        random_numbers = draws_[:, 1 + n_codes :].masked_fill(self.is_flag, 0.0)
        return torch.where(hit, random_codes, codes), torch.where(hit, random_numbers, numbers)
