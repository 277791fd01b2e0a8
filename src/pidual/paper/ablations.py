"""The paper's ablations of Pi-DUAL: parts of the method left out or changed, and PI that is hidden or corrupted.

    use_gate=False               h = f(x) + eps(a)                      (our reading; the paper gives no formula)
    use_noise=False              h = (1 - gamma(a)) f(x)                (our reading): a gated row is uniform
    gate_on="probabilities"      p = (1 - gamma) softmax f + gamma softmax eps
    noise_input="x_and_pi"       eps(x, a): features(x) beside the first layer's output, which trains them (our reading)
    tram_loss=w                  + w CE(head(sg(features(x))), y_noisy), which trains f's head alone (our reading)
    leave_out="annotator"        PI columns, one or several, that are hidden
    only_random_pi=True          all PI hidden but random PI
    corrupt_pi=q                 random PI values in a share of the training rows
    shuffle_pi=True              PI dealt out again among the training rows
    oracle_pi=True               PI that says whether a label is wrong, and nothing else

The first five are of the method, the others of the data: `ablate` changes a job that has been prepared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.pi.random_pi import derive_seed, random_pi
from ..errors import UsageError
from ..fit.control import shuffle_pi
from ..fit.factories import check_build
from ..fit.prepare import Job
from ..learn.batch import PI, Batch, Rows, Spec
from ..learn.methods import PiDual, PiDualPlus
from ..learn.nets import mlp
from ..options import NotNegative, Share, check_values, one_of


class PiDualAblation(PiDual):
    """Pi-DUAL with parts left out or changed; without any of these options it is Pi-DUAL.

    `use_gate`, `use_noise`, `gate_on`, `noise_input`, `tram_loss`: as above.
    `**options`: those of Pi-DUAL.
    """

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        use_gate: bool = True,
        use_noise: bool = True,
        gate_on: Annotated[str, one_of("logits", "probabilities")] = "logits",
        noise_input: Annotated[str, one_of("pi", "x_and_pi")] = "pi",
        tram_loss: NotNegative = 0.0,
        **options: Any,
    ):
        state = torch.get_rng_state()
        super().__init__(f, spec, **options)
        self.use_gate, self.use_noise, self.gate_on = use_gate, use_noise, gate_on
        self.sees_x, self.tram_loss = noise_input == "x_and_pi", tram_loss
        self.check()
        torch.set_rng_state(state)  # weights as if what is left out had never been there
        self.shared.reset_parameters()
        width, hidden, bias = self.shared.width, len(self.eps) // 2, list(self.gamma.parameters())[-1].item()
        seen = width + (self.head.in_features if self.sees_x else 0)
        del self.eps, self.gamma
        if use_noise:
            self.eps = mlp(seen, spec.n_classes, width=width, depth=hidden)
        if use_gate:
            self.gamma = mlp(width, 1, width=width, depth=hidden, last_bias=bias)

    def check(self) -> None:
        """Refuse options that contradict each other."""
        if not (self.use_gate or self.use_noise):
            raise UsageError("Without gate and noise network Pi-DUAL is cross-entropy; use method ce.")
        if self.gate_on == "probabilities" and not (self.use_gate and self.use_noise):
            raise UsageError("gate_on=probabilities needs both the gate and the noise network.")
        if self.sees_x and not self.use_noise:
            raise UsageError("noise_input=x_and_pi needs the noise network.")
        if self.tram_loss:
            self.head  # noqa: B018  # refuses a network without one

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        if not (self.sees_x or self.tram_loss):
            h, logs = self.mix(self.f(batch.x), batch.a)
            return {"loss": batch.cross_entropy(h), **logs}
        phi = self.features(batch.x)
        h, logs = self.mix(self.head(phi), batch.a, phi)
        losses = batch.losses(h)
        if self.tram_loss:  # detached: the features learn from h alone
            losses = losses + self.tram_loss * batch.losses(self.head(phi.detach()))
        return {"loss": batch.mean(losses), **logs}

    def mix(self, f: Tensor, a: PI, phi: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """Return h (B, K), and the mean gate to log."""
        g, eps = self.answers(a, phi)
        if not self.use_gate:
            return f + eps, {}
        gamma = g.sigmoid()
        logs = {"gate": gamma.detach().mean()}
        if not self.use_noise:
            return (1 - gamma) * f, logs
        if self.gate_on == "probabilities":  # log p, of which the softmax is p
            return torch.logaddexp(F.logsigmoid(-g) + f.log_softmax(1), F.logsigmoid(g) + eps.log_softmax(1)), logs
        return (1 - gamma) * f + gamma * eps, logs

    def answers(self, a: PI, phi: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logit of the gate (B, 1) and noise logits (B, K); nothing, of width 0, of a network that is left out."""
        s = F.relu(self.shared(*a))
        nothing = s[:, :0]
        if self.sees_x and phi is None:  # the noise network cannot be asked without x
            return self.gamma(s) if self.use_gate else nothing, nothing
        seen = s if phi is None or not self.sees_x else torch.cat([phi, s], 1)
        return self.gamma(s) if self.use_gate else nothing, self.eps(seen) if self.use_noise else nothing

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        g, eps = self.answers(batch.a)
        gate = {"gate": g.sigmoid()[:, 0]} if self.use_gate else {}
        return gate | ({"noise_label": eps.argmax(1)} if eps.shape[1] else {})


class PiDualPlusAblation(PiDualAblation, PiDualPlus):
    """Pi-DUAL+ without the gate, without the noise network, or with the gate on probabilities."""

    def check(self) -> None:
        super().check()
        if self.sees_x or self.tram_loss:
            raise UsageError("Pi-DUAL+ takes neither noise_input=x_and_pi nor tram_loss; use method pi_dual.")

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        f, _, kl = self.on_both_views(batch, detach=self.detach)
        h, logs = self.mix(f, batch.a)
        losses = batch.losses(h, label_smoothing=self.smoothing)
        return {"loss": batch.mean(losses + self.lam * kl), "consistency": batch.mean(kl).detach(), **logs}


class PIEdits:
    """PI without some columns, and with some rows corrupted; random PI, the last numbers, is left as it is.

    `spec`: columns of the PI.
    `leave_out`: PI columns to drop.
    `only_random_pi`: drop all columns, so that only random PI is left.
    `corrupt_pi`: share of the training rows, drawn once per fit, whose codes are replaced by random ones and whose
        numbers by a normal with `mean` and `std`; what was missing then is not.
    `seed`: of the rows that are corrupted, and of what replaces their PI.
    `mean`, `std` (n_numbers,): of the numbers, in the rows that are trained on; by default 0 and 1.

    Attributes
    ----------
    spec : Spec
        With the columns that are left.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        leave_out: str | Sequence[str] = (),
        only_random_pi: bool = False,
        corrupt_pi: Share = 0.0,
        seed: int = 0,
        mean: Tensor | None = None,
        std: Tensor | None = None,
    ):
        check_values(PIEdits, {"only_random_pi": only_random_pi, "corrupt_pi": corrupt_pi})
        left_out = (leave_out,) if isinstance(leave_out, str) else tuple(leave_out)
        code_names = spec.code_names or ("",) * len(spec.cardinalities)
        number_names = spec.number_names or ("",) * spec.n_numbers
        unknown = [name for name in left_out if name not in (*spec.code_names, *spec.number_names)]
        if unknown:
            names = ", ".join(dict.fromkeys((*spec.code_names, *spec.number_names))) or "not known by name here"
            raise UsageError(f"leave_out names no PI column: '{unknown[0]}'; the PI columns are {names}.")
        self.sizes, self.all_numbers, self.corrupt, self.seed = spec.cardinalities, spec.n_numbers, corrupt_pi, seed
        self.mean = torch.zeros(spec.n_numbers) if mean is None else mean
        self.std = torch.ones(spec.n_numbers) if std is None else std
        self.codes = [i for i, name in enumerate(code_names) if not only_random_pi and name not in left_out]
        self.numbers = [i for i, name in enumerate(number_names) if not only_random_pi and name not in left_out]
        self.spec = replace(
            spec,
            cardinalities=tuple(spec.cardinalities[i] for i in self.codes),
            n_numbers=len(self.numbers),
            code_names=tuple(code_names[i] for i in self.codes) if spec.code_names else (),
            number_names=tuple(number_names[i] for i in self.numbers) if spec.number_names else (),
        )
        # A number's flag for missing values follows it under the same name.
        flags = [bool(name) and i > 0 and number_names[i - 1] == name for i, name in enumerate(number_names)]
        self.is_flag = torch.tensor(flags, dtype=torch.bool)
        self.drops = bool(left_out) or only_random_pi

    def __call__(self, a: PI, index: Tensor) -> PI:
        """Return the changed PI of the training rows at these positions (-1: not trained on, never corrupted)."""
        codes, numbers, random = a.codes, a.numbers[:, : self.all_numbers], a.numbers[:, self.all_numbers :]
        if self.corrupt:
            codes, numbers = self.corrupted(codes, numbers, index)
        if self.drops:
            codes, numbers = codes[:, self.codes], numbers[:, self.numbers]
        return PI(codes, torch.cat([numbers, random], 1)) if self.corrupt or self.drops else a

    def corrupted(self, codes: Tensor, numbers: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Replace the PI of a share of the rows: which ones, and by what, is a function of seed and position."""
        n_codes = codes.shape[1]
        draws = random_pi(self.seed, index.clamp(min=0).numpy(), 1 + n_codes + numbers.shape[1])
        draws_ = torch.from_numpy(draws).to(numbers)
        uniform = torch.special.ndtr(draws_[:, : 1 + n_codes])
        hit = ((uniform[:, 0] < self.corrupt) & (index >= 0))[:, None]
        sizes = torch.tensor(self.sizes)
        random_codes = torch.minimum((uniform[:, 1:] * sizes).long(), sizes - 1).to(codes)
        drawn = self.mean.to(numbers) + self.std.to(numbers) * draws_[:, 1 + n_codes :]
        random_numbers = drawn.masked_fill(self.is_flag, 0.0)
        return torch.where(hit, random_codes, codes), torch.where(hit, random_numbers, numbers)

    def rows(self, rows: Rows, trained: NDArray[np.bool_]) -> Rows:
        """All rows with their PI changed; those that are not trained on are never corrupted."""
        index = torch.from_numpy(np.where(trained, np.cumsum(trained) - 1, -1))
        codes, numbers = self(PI(rows.codes, rows.numbers), index)
        return replace(rows, codes=codes, numbers=numbers)


ABLATED: Mapping[str, type[PiDualAblation]] = {"pi_dual": PiDualAblation, "pi_dual_plus": PiDualPlusAblation}
OF_THE_METHOD = ("use_gate", "use_noise", "gate_on", "noise_input", "tram_loss")
OF_THE_DATA = ("leave_out", "only_random_pi", "corrupt_pi")
ABLATIONS = (*OF_THE_METHOD, *OF_THE_DATA, "shuffle_pi", "oracle_pi")


def ablate(job: Job, changes: Mapping[str, Any]) -> Job:
    """Return the job with an ablation: another method, or other PI, in place of its own."""
    if job.options.method not in ABLATED:
        raise UsageError(f"There are ablations of {' and '.join(ABLATED)}, not of '{job.options.method}'.")
    if changes.get("only_random_pi") and not job.method_options["random_pi"]:
        raise UsageError("only_random_pi needs a random_pi of length 1 or more.")
    job = shuffle_pi(job) if changes.get("shuffle_pi") else job
    job = _reveal(job) if changes.get("oracle_pi") else job
    trained = job.rows.numbers[torch.from_numpy(job.train)].double()
    edits = PIEdits(
        job.spec,
        mean=trained.mean(0),
        std=trained.std(0, correction=0),
        **{name: changes[name] for name in OF_THE_DATA if name in changes},
        seed=derive_seed(job.options.seed, 13),
    )
    method, options = ABLATED[job.options.method], {name: changes[name] for name in OF_THE_METHOD if name in changes}

    make = job.make
    assert make is not None

    def build() -> PiDualAblation:
        return method(make(), edits.spec, **job.method_options, **options)

    check_build(build)
    rows = edits.rows(job.rows, job.train)
    return replace(job, rows=rows, spec=edits.spec, build=build, method_options={**job.method_options, **changes})


def _reveal(job: Job) -> Job:
    """Return the job with one PI column: whether the label is wrong, standardised; the mean where nobody knows."""
    y = job.table.frame["y"].cat.set_categories(job.table.classes).cat.codes.to_numpy()
    wrong = np.where(y < 0, np.nan, job.table.label_codes != y)
    values = np.nan_to_num((wrong - np.nanmean(wrong)) / np.nanstd(wrong))[:, None]
    rows = replace(job.rows, codes=job.rows.codes[:, :0], numbers=torch.from_numpy(values).to(job.rows.numbers))
    spec = replace(job.spec, cardinalities=(), code_names=(), n_numbers=1, number_names=("wrong",))
    return replace(job, rows=rows, spec=spec)
