import numpy as np
import published
import pytest

from pidual.data.datasets import cifar


@pytest.fixture
def small_cifar(monkeypatch):
    """Files of CIFAR have 20 images instead of 10,000."""
    monkeypatch.setattr(cifar, "BATCH", published.BATCH)


@pytest.fixture
def probs():
    """Four annotators, 2000 items, 5 classes: confident, and right nine times out of ten."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 2000)
    logits = rng.normal(0, 1, (4, 2000, 5))
    logits[:, np.arange(2000), y] += 3
    return np.exp(logits) / np.exp(logits).sum(2, keepdims=True), y
