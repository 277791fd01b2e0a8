import published
import pytest

from pidual.paper.datasets import cifar


@pytest.fixture
def small_cifar(monkeypatch):
    """Files of CIFAR have 20 images instead of 10,000."""
    monkeypatch.setattr(cifar, "BATCH", published.BATCH)
