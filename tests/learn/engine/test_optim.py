import pytest
import torch
from torch import nn

from pidual.learn.batch import PI, Batch, Spec
from pidual.learn.engine import Training
from pidual.learn.engine.optim import clip_gradients, make_optimizers
from pidual.learn.methods import CE, TRAM, PiDual
from pidual.learn.nets import MLP, SmallCNN


def sparse_method(monkeypatch):
    monkeypatch.setattr("pidual.learn.nets.pi_linear.SPARSE_ABOVE", 10)
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


def test_momentum_carries_a_single_gradient_just_as_far():
    """One gradient, then nothing: SGD with Nesterov momentum ends lr / (1 - momentum) times the gradient away."""
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, nesterov=True)
    for step in range(400):
        weight.grad = torch.tensor([1.0 if step == 0 else 0.0])
        optimizer.step()
    assert weight.item() == pytest.approx(-0.1 / (1 - 0.9), rel=1e-5)


@pytest.mark.parametrize("nesterov", [True, False], ids=["nesterov", "plain"])
@pytest.mark.parametrize("convention", ["pytorch", "keras"])
def test_momentum_against_plain_loops(convention, nesterov):
    rates, decay, momentum = [0.1, 0.1, 0.02, 0.05, 0.004], 0.03, 0.9
    gradients = torch.randn(len(rates), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).tolist()
    method = CE(nn.Linear(3, 1, bias=False).double(), Spec(10, 2, (), 0))
    nn.init.constant_(method.f.weight, 0.5)
    training = Training(momentum=momentum, nesterov=nesterov, weight_decay=decay, momentum_convention=convention)
    (optimizer,) = make_optimizers(method, training)
    weights, velocities = [0.5] * 3, [0.0] * 3
    for rate, gradient in zip(rates, gradients, strict=True):
        method.f.weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        for i in range(3):
            g = gradient[i] + decay * weights[i]
            if convention == "keras":
                velocities[i] = momentum * velocities[i] - rate * g
                weights[i] += momentum * velocities[i] - rate * g if nesterov else velocities[i]
            else:
                velocities[i] = momentum * velocities[i] + g
                weights[i] -= rate * (g + momentum * velocities[i] if nesterov else velocities[i])
        torch.testing.assert_close(method.f.weight.detach()[0], torch.tensor(weights, dtype=torch.float64))


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, True), (0.9, True), (0.9, False)])
def test_at_one_rate_the_velocities_of_keras_and_torch_move_alike(momentum, nesterov):
    ends = []
    for convention in ("pytorch", "keras"):
        method = CE(nn.Linear(3, 2).double(), Spec(10, 2, (), 0))
        for parameter in method.parameters():
            nn.init.constant_(parameter, 0.3)
        training = Training(momentum=momentum, nesterov=nesterov, weight_decay=0.01, momentum_convention=convention)
        (optimizer,) = make_optimizers(method, training)
        for step in range(5):
            for parameter in method.parameters():
                parameter.grad = torch.full_like(parameter, 0.5 - 0.2 * step)
            optimizer.step()
        ends.append(method.f.weight.detach())
    torch.testing.assert_close(*ends)


def test_every_parameter_is_in_one_group(monkeypatch):
    method = sparse_method(monkeypatch)
    groups = [
        parameter
        for optimizer in make_optimizers(method, Training())
        for g in optimizer.param_groups
        for parameter in g["params"]
    ]
    assert len(groups) == len(list(method.parameters()))
    assert {id(p) for p in groups} == {id(p) for p in method.parameters()}


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


class Tiny(nn.Module):
    """A kernel with bias, a batch normalisation, a layer normalisation and a head."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.ln, self.head = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.LayerNorm(2), nn.Linear(2, 2)


def decay_of(method, training):
    """Weight decay of every parameter by name."""
    names = {id(p): name for name, p in method.named_parameters()}
    optimizers = make_optimizers(method, training)
    return {names[id(p)]: g["weight_decay"] for o in optimizers for g in o.param_groups for p in g["params"]}


def test_weight_decay_can_spare_normalisation_layers():
    method = CE(Tiny(), Spec(10, 2))
    kernels = {f"f.{part}" for part in ("conv.weight", "conv.bias", "head.weight", "head.bias")}
    norms = {f"f.{part}" for part in ("bn.weight", "bn.bias", "ln.weight", "ln.bias")}
    assert decay_of(method, Training(weight_decay=0.3)) == dict.fromkeys(kernels | norms, 0.3)
    spared = decay_of(method, Training(weight_decay=0.3, decay_norms=False))
    assert spared == dict.fromkeys(kernels, 0.3) | dict.fromkeys(norms, 0.0)


@pytest.mark.parametrize("pi_weight_decay", [False, True])
def test_rules_of_the_code_base_with_a_pi_tower(pi_weight_decay):
    """CIFAR: everything but the tower's hidden layers. ImageNet: kernels and biases, the tower's too, but no BN."""
    method = TRAM(SmallCNN(2, width=4), Spec(10, 2, (5,), 1), width=6, pi_weight_decay=pi_weight_decay)
    hidden = ("tower.first.", "tower.second.")
    training = Training(weight_decay=0.1, decay_convention="keras", decay_norms=not pi_weight_decay)
    for name, decay in decay_of(method, training).items():
        norm = name.startswith("f.blocks") and name.split(".")[3] == "1"
        spared = norm if pi_weight_decay else name.startswith(hidden)
        assert decay == (0.0 if spared else 0.2), name


def test_kerass_decay_has_the_gradient_of_its_penalty():
    method, same = (CE(MLP(3, 2, width=4, depth=1), Spec(10, 2)) for _ in range(2))
    same.load_state_dict(method.state_dict())
    l2 = 0.05
    (optimizer,) = make_optimizers(method, Training(lr=0.1, momentum=0.0, weight_decay=l2, decay_convention="keras"))
    for parameter in method.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    penalty = l2 * sum(parameter.square().sum() for parameter in same.parameters())
    penalty.backward()
    for moved, start in zip(method.parameters(), same.parameters(), strict=True):
        torch.testing.assert_close(start.grad, 2 * l2 * start.detach())
        torch.testing.assert_close(moved.detach(), start.detach() - 0.1 * start.grad)


def test_the_rate_can_grow_with_the_batch(monkeypatch):
    def rates(**training):
        optimizers = make_optimizers(sparse_method(monkeypatch), Training(lr=0.1, momentum=0.5, **training))
        return [group["base_lr"] for optimizer in optimizers for group in optimizer.param_groups]

    assert rates(batch_size=512) == pytest.approx([0.1, 0.1, 0.2])  # the sparse group has its whole distance at once
    assert rates(batch_size=512, lr_scale_batch=128) == pytest.approx([0.4, 0.4, 0.8])
    assert rates(batch_size=64, lr_scale_batch=128) == pytest.approx([0.05, 0.05, 0.1])
