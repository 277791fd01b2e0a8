"""Small batches without PI for the tests of single methods, and what they measure with."""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pidual.learn.batch import PI, Batch


def batch_of(index, x, y, weight=None):
    """A batch of these rows, each with one view; all count alike unless `weight` says otherwise."""
    return batch_of_views(index, (x,), y, weight)


def batch_of_views(index, views, y, weight=None):
    """The same, with several views of each input."""
    n = len(index)
    no_pi = PI(torch.zeros(n, 0, dtype=torch.int32), torch.zeros(n, 0))
    weight = torch.ones(n) if weight is None else weight
    return Batch.of_rows(torch.as_tensor(index), tuple(views), torch.as_tensor(y), no_pi, weight)


def softmax(f):
    """Probabilities of a list of logits, by plain loops."""
    e = [math.exp(value - max(f)) for value in f]
    return [value / sum(e) for value in e]


def fixed_mixup(monkeypatch, module, of_alpha, share=0.7):
    """Have a module mix with a known weight and known partners; the returned list collects these."""
    others = []

    def mixup(x, targets, alpha):
        assert alpha == of_alpha
        other = torch.randperm(len(x))
        others.append(other.tolist())
        return share * x + (1 - share) * x[other], share * targets + (1 - share) * targets[other], other, share

    monkeypatch.setattr(module, "mixup", mixup)
    return others


def count(module):
    """Numbers among the parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def finite_difference(function, rows, i, k, step=1e-5):
    """Derivative of a function of a list of lists by entry (i, k)."""
    values = []
    for sign in (1, -1):
        moved = [list(row) for row in rows]
        moved[i][k] += sign * step
        values.append(function(moved))
    return (values[0] - values[1]) / (2 * step)


class Largest(TorchDispatchMode):
    """Numbers in the largest tensor that any operation made."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.numel = max([self.numel, *(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))])
        return out
