"""The closed form as a torch module: probabilities of the classes of any inputs, to be saved, served and exported.

    p(x) = sum_m w_m softmax(log mean q + beta_m (k_m(x, landmarks) A_m - c_m))

in double precision, so that a row has the same answer whatever rows are with it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .kernels import CLIP, CONSTANT
from .ridge import ClosedForm, Setting

TINY = 1e-300


class KernelMixture(nn.Module):
    """A mixture of kernel regressions.

    `kernels` (kind, scale, n): each kernel, the scale of its columns, and how many settings of the mixture have it.
    """

    mean: Tensor
    each: Tensor
    alike: Tensor
    landmarks: Tensor
    log_mean: Tensor

    def __init__(self, n_features: int, n_classes: int, n_landmarks: int, kernels: Sequence[tuple[str, str, int]]):
        super().__init__()
        self.n_classes, self.kernels = n_classes, [(kind, scale, int(n)) for kind, scale, n in kernels]
        shapes: dict[str, tuple[int, ...]] = {
            "mean": (n_features,),
            "each": (n_features,),  # what columns are multiplied by
            "alike": (n_features,),
            "landmarks": (n_landmarks, n_features),
            "log_mean": (n_classes,),
        }
        for at, (kind, _, n) in enumerate(self.kernels):
            size = n_features if kind == "linear" else n_landmarks
            shapes |= {f"coefficients_{at}": (size, n * n_classes), f"offset_{at}": (n * n_classes,)}
            shapes |= {f"weight_{at}": (n,), f"width_{at}": ()}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64))
        self.scales = sorted({scale for kind, scale, _ in self.kernels if kind != "linear"})
        for scale in self.scales:  # landmarks are scaled once, not for every input
            for name, shape in (
                (f"landmarks_{scale}", (n_landmarks, n_features)),
                (f"squares_{scale}", (n_landmarks,)),
            ):
                self.register_buffer(name, torch.zeros(shape, dtype=torch.float64), persistent=False)
        self.register_load_state_dict_post_hook(_scale_landmarks)  # type: ignore[no-untyped-call]

    def scale_landmarks(self) -> None:
        """Work out what kernels need of the landmarks."""
        for scale in self.scales:
            scaled = self.scaled(self.landmarks, scale)
            self.get_buffer(f"landmarks_{scale}").copy_(scaled)
            self.get_buffer(f"squares_{scale}").copy_(scaled.square().sum(1))

    @classmethod
    def of(cls, fitted: ClosedForm) -> "KernelMixture":
        """Make the module of a fit."""
        landmarks = fitted.landmarks
        groups: dict[int, list[Setting]] = {}
        for setting in fitted.settings:
            groups.setdefault(id(setting.block), []).append(setting)
        features = [group[0].block.features for group in groups.values()]
        kernels = [
            (each.kernel.kind, each.kernel.scale, len(group))
            for each, group in zip(features, groups.values(), strict=True)
        ]
        made = cls(landmarks.shape[1], len(fitted.log_mean), len(landmarks), kernels)
        values: dict[str, Any] = {"landmarks": landmarks, "log_mean": fitted.log_mean}
        for at, (each, group) in enumerate(zip(features, groups.values(), strict=True)):
            block = group[0].block
            of_features = np.concatenate([setting.coefficients for setting in group], axis=1)  # (D, n K)
            values[f"offset_{at}"] = block.mean @ of_features
            if each.kernel.kind == "linear":
                d = len(each.scale.mean)
                x = np.eye(d) * np.sqrt(d) if each.landmarks is None else each.landmarks.astype(np.float64)
                of_features = x.T @ of_features / d
            values[f"coefficients_{at}"] = of_features
            values[f"weight_{at}"] = [setting.weight for setting in group]
            values[f"width_{at}"] = each.kernel.width
            values |= {"mean": each.scale.mean, each.kernel.scale: 1 / each.scale.std}
        for name, value in values.items():
            getattr(made, name).copy_(torch.as_tensor(np.asarray(value, np.float64)))
        made.scale_landmarks()
        return made

    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments that make a module of these sizes, beside those that the data decides."""
        return {"n_landmarks": len(self.landmarks), "kernels": [list(kernel) for kernel in self.kernels]}

    @property
    def shares(self) -> dict[str, float]:
        """Return the weight of each kind of kernel."""
        found: dict[str, float] = {}
        for at, (kind, _, _) in enumerate(self.kernels):
            found[kind] = found.get(kind, 0.0) + float(self.get_buffer(f"weight_{at}").sum())
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Return the logarithm of the probabilities of the classes (B, K)."""
        x, total = x.flatten(1).double(), x.new_zeros((), dtype=torch.float64)
        scaled = {scale: self.scaled(x, scale) for scale in {scale for _, scale, _ in self.kernels}}
        dots = {scale: scaled[scale] @ self.get_buffer(f"landmarks_{scale}").T for scale in self.scales}
        for at, (kind, scale, n) in enumerate(self.kernels):
            k = scaled[scale]
            if kind != "linear":
                squares = k.square().sum(1)[:, None], self.get_buffer(f"squares_{scale}")
                k = (
                    gauss(dots[scale], *squares, self.get_buffer(f"width_{at}"))
                    if kind == "gauss"
                    else relu(dots[scale], *squares, k.shape[1])
                )
            scores = k @ self.get_buffer(f"coefficients_{at}") - self.get_buffer(f"offset_{at}")
            p = (self.log_mean + scores.unflatten(1, (n, self.n_classes))).softmax(2)
            total = total + (self.get_buffer(f"weight_{at}")[:, None] * p).sum(1)
        return (total + TINY).log()

    def scaled(self, x: Tensor, scale: str) -> Tensor:
        """Bring columns to one scale; one that was constant becomes zero."""
        scaled: Tensor = (x - self.mean) * getattr(self, scale)
        return scaled.clamp(-CLIP[scale], CLIP[scale])


def _scale_landmarks(loaded: KernelMixture, _: object) -> None:
    loaded.scale_landmarks()


def gauss(dot: Tensor, a: Tensor, b: Tensor, width: Tensor) -> Tensor:
    """Return the Gaussian kernel, from products of inputs and landmarks and their squares."""
    return ((a + b - 2 * dot).clamp(min=0) / -width).exp()


def relu(dot: Tensor, a: Tensor, b: Tensor, d: int) -> Tensor:
    """Return the kernel of an infinitely wide ReLU network, from products of inputs and landmarks and their squares."""
    dot, a, b = (z / d + CONSTANT**2 for z in (dot, a, b))
    norms = a.sqrt() * b.sqrt()
    cosine = (dot / norms).clamp(-1, 1)
    away = 1 - cosine.acos() / torch.pi
    kernel: Tensor = norms * (1 - cosine.square()).sqrt() / torch.pi + 2 * dot * away
    return kernel
