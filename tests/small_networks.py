"""Networks so small that tests can follow them."""

import torch
from torch import nn

from pidual.learn.nets import Network


class Linear(nn.Module):
    """Logits W x of n numbers and classes; remembers each call: with or without gradient, in which mode."""

    def __init__(self, n):
        super().__init__()
        self.head = nn.Linear(n, n, bias=False)
        self.seen = []

    def forward(self, x):
        self.seen.append((torch.is_grad_enabled(), self.training))
        return self.head(x)


class Smooth(Network):
    """head(tanh(body(x))) of three numbers: smooth, and of the type of its input."""

    def __init__(self, width, n_classes):
        super().__init__(width, n_classes, None)
        self.body = nn.Linear(3, width)

    def features(self, x):
        return torch.tanh(self.body(x))
