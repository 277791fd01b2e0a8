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

    Parameters
    ----------
    n_features, n_classes, n_landmarks : int
    kernels : sequence of (kind, scale, n)
        Each kernel, the scale of its columns, and how many settings of the mixture have it.
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
            "each": (n_features,),  # what columns are divided by
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

    @classmethod
    def of(cls, fitted: ClosedForm, landmarks: np.ndarray) -> "KernelMixture":
        """Make the module of a fit, with the inputs that its kernels look back to."""
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
            values |= {"mean": each.scale.mean, each.kernel.scale: each.scale.std}
        for name, value in values.items():
            getattr(made, name).copy_(torch.as_tensor(np.asarray(value, np.float64)))
        return made

    def forward(self, x: Tensor) -> Tensor:
        """Return the logarithm of the probabilities of the classes (B, K)."""
        x, total = x.flatten(1).double(), x.new_zeros((), dtype=torch.float64)
        for at, (kind, scale, n) in enumerate(self.kernels):
            a, b = (self.scaled(z, scale) for z in (x, self.landmarks))
            k = (
                a
                if kind == "linear"
                else gauss(a, b, self.get_buffer(f"width_{at}"))
                if kind == "gauss"
                else relu(a, b)
            )
            scores = k @ self.get_buffer(f"coefficients_{at}") - self.get_buffer(f"offset_{at}")
            p = (self.log_mean + scores.unflatten(1, (n, self.n_classes))).softmax(2)
            total = total + (self.get_buffer(f"weight_{at}")[:, None] * p).sum(1)
        return (total + TINY).log()

    def scaled(self, x: Tensor, scale: str) -> Tensor:
        """Bring columns to one scale; one that was constant becomes zero."""
        scaled: Tensor = (x - self.mean) / getattr(self, scale)
        return scaled.clamp(-CLIP[scale], CLIP[scale])


def gauss(a: Tensor, b: Tensor, width: Tensor) -> Tensor:
    """Return the Gaussian kernel of all pairs."""
    distances = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
    return (distances.clamp(min=0) / -width).exp()


def relu(a: Tensor, b: Tensor) -> Tensor:
    """Return the kernel of an infinitely wide ReLU network of all pairs."""
    a, b = (nn.functional.pad(z / z.shape[1] ** 0.5, (0, 1), value=CONSTANT) for z in (a, b))
    dot = a @ b.T
    norms = a.norm(dim=1)[:, None] * b.norm(dim=1)
    cosine = (dot / norms).clamp(-1, 1)
    away = 1 - cosine.acos() / torch.pi
    kernel: Tensor = norms * ((1 - cosine.square()).sqrt() / torch.pi + away * cosine) + dot * away
    return kernel
