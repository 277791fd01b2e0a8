"""What is done for CUDA devices only, on a CPU that is taken for one."""

import sys

import numpy as np
import torch
from contract import spec_of

from pidual.fit.options import FitOptions, resolve_options
from pidual.learn.batch import Rows
from pidual.learn.engine import Session, Training, fit, make_fabric, usual_precision
from pidual.learn.engine.fit import Trainer
from pidual.learn.methods import CE
from pidual.learn.nets import SmallCNN


def test_training_on_cuda_is_in_bfloat16_unless_it_is_the_papers(monkeypatch):
    assert usual_precision("auto") == "32-true"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert [usual_precision(name) for name in ("auto", "cuda", "cpu")] == ["bf16-mixed", "bf16-mixed", "32-true"]

    def precision(**how):
        return resolve_options(FitOptions("ce", **how), 500, (3, 8, 8))[0].precision

    assert precision() == "bf16-mixed"
    assert precision(accelerator="cpu") == precision(setting="paper") == "32-true"
    assert precision(options={"precision": "64-true"}) == "64-true"


def test_pinned_batches_and_channels_last_give_the_same_fit(monkeypatch):
    rng, pinned = np.random.default_rng(0), []
    x = rng.integers(0, 256, (48, 3, 8, 8), dtype=np.uint8)
    rows = Rows.build(x, np.arange(48), rng.integers(0, 2, 48))
    training = Training(epochs=2, batch_size=16, crop_pad=1, flip=True, lr=0.01)

    def weights():
        make = lambda: CE(SmallCNN(2, in_channels=3, width=4), spec_of(rows, 2))  # noqa: E731
        return fit(make, rows, None, training, Session(make_fabric("cpu"))).last

    plain = weights()
    monkeypatch.setattr(Trainer, "on_cuda", True)
    monkeypatch.setattr(
        sys.modules[Trainer.__module__], "pin_memory", lambda batch: pinned.append(len(batch.index)) or batch
    )
    seen, forward = [], CE.forward
    monkeypatch.setattr(CE, "forward", lambda self, batch: seen.append(batch.x) or forward(self, batch))
    as_on_cuda = weights()
    assert all(batch.is_contiguous(memory_format=torch.channels_last) for batch in seen)
    assert any(value.ndim == 4 and not value.is_contiguous() for value in as_on_cuda.values())
    for name, value in plain.items():
        torch.testing.assert_close(as_on_cuda[name].contiguous(), value, rtol=1e-3, atol=1e-5)
