import sys

import torch
from torch import nn

from pidual.learn.batch import PI, Batch, Spec
from pidual.learn.engine import Training
from pidual.learn.engine.fit import clip_gradients, make_optimizers
from pidual.learn.methods import PiDual
from pidual.learn.nets import PILinear


def sparse_method(monkeypatch):
    monkeypatch.setattr(sys.modules[PILinear.__module__], "SPARSE_ABOVE", 10)
    return PiDual(nn.Linear(3, 2), Spec(10, 2, (50,), 0), width=4, random_pi=0)


def one_batch():
    codes = torch.tensor([[3], [7], [3]])
    return Batch.of_rows(
        torch.arange(3), (torch.randn(3, 3),), torch.tensor([0, 1, 1]), PI(codes, torch.zeros(3, 0)), torch.ones(3)
    )


def test_a_sparse_group_moves_only_the_rows_of_the_batch_by_the_whole_distance(monkeypatch):
    method = sparse_method(monkeypatch)
    dense, sparse = make_optimizers(method, Training(lr=0.1, momentum=0.9, weight_decay=0.5))
    before = method.shared.table.detach().clone()
    method(one_batch())["loss"].backward()
    gradient = method.shared.table.grad.to_dense()
    sparse.step()
    dense.step()
    moved = (method.shared.table.detach() != before).any(1).nonzero()[:, 0]
    assert set(moved.tolist()) <= {3, 7}
    torch.testing.assert_close(method.shared.table.detach(), before - 0.1 / (1 - 0.9) * gradient)


def test_clipping_counts_dense_and_sparse_gradients(monkeypatch):
    method = sparse_method(monkeypatch)
    method(one_batch())["loss"].backward()
    dense = [p.grad.to_dense() if p.grad.is_sparse else p.grad.clone() for p in method.parameters()]
    norm = torch.stack([g.norm() for g in dense]).norm()
    clip_gradients(method, float(norm) / 2)
    for parameter, gradient in zip(method.parameters(), dense, strict=True):
        torch.testing.assert_close(parameter.grad.to_dense(), gradient / 2, rtol=1e-4, atol=1e-7)
    clip_gradients(method, 1e6)
    torch.testing.assert_close(method.f.weight.grad, dense[0] / 2, rtol=1e-4, atol=1e-7)
