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


def log_softmax(f):
    """Their logarithms."""
    log_sum = max(f) + math.log(sum(math.exp(value - max(f)) for value in f))
    return [value - log_sum for value in f]


def dense(codes, numbers, sizes):
    """PI of one row as the vector the paper writes: one-hot, one-hot, numbers, random PI."""
    hot = [float(code == k) for code, size in zip(codes, sizes, strict=True) for k in range(size)]
    return torch.tensor(hot + numbers.tolist(), dtype=numbers.dtype)


def tower_by_hand(tower, phi, a, *, residual=False):
    """Logits of a PITower for features and dense PI of one row."""
    h1 = (torch.cat([tower.first.table, tower.first.dense]).T @ a + tower.first.bias).clamp(min=0)
    h2 = (tower.second.weight @ torch.cat([phi, h1]) + tower.second.bias).clamp(min=0)
    return tower.third.weight @ torch.cat([phi, h2 + h1 if residual else h2]) + tower.third.bias


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
