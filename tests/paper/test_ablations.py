"""The paper's ablations of Pi-DUAL against plain formulas, and in their limiting cases."""

import math
from dataclasses import replace

import pytest
import torch
from small_networks import Smooth
from tiny_benchmark import crowd, tiny_fit
from torch import nn
from torch.nn import functional as F

from pidual.errors import UsageError
from pidual.learn.batch import PI, Batch, Spec
from pidual.learn.methods import PiDual
from pidual.paper.ablations import OF_THE_DATA, PiDualAblation, PiDualPlusAblation, PIEdits, ablate
from pidual.paper.score import prepare_data

D, K, W, L, B = 5, 4, 6, 3, 8
SIZES, NUMBERS = (3, 2), 2
SPEC = Spec(100, K, SIZES, NUMBERS, code_names=("annotator", "tool"), number_names=("seconds", "trial"))
DEFAULTS = {
    "use_gate": True,
    "use_noise": True,
    "gate_on": "logits",
    "only_random_pi": False,
    "noise_input": "pi",
    "tram_loss": 0.0,
    "depth": 3,
    "corrupt_pi": 0.0,
    "leave_out": (),
}


def split(options):
    """Changes of the PI, and the other options."""
    edits = PIEdits(SPEC, **{name: value for name, value in options.items() if name in OF_THE_DATA}, seed=5)
    return edits, {name: value for name, value in options.items() if name not in OF_THE_DATA}


def build(dtype=torch.float64, **options):
    """A small method whose biases are not zero, for PI with the changes."""
    edits, options = split(options)
    method = PiDualAblation(Smooth(D, K), edits.spec, **{"width": W, "random_pi": L, **options}).to(dtype)
    for parameter in method.parameters():
        nn.init.normal_(parameter, std=0.7)
    return method


@pytest.fixture
def batch():
    return make_batch()


def make_batch(dtype=torch.float64, random_pi=L):
    codes = torch.stack([torch.randint(0, size, (B,), dtype=torch.int32) for size in SIZES], 1)
    a = PI(codes, torch.randn(B, NUMBERS + random_pi, dtype=dtype))
    x, y = torch.randn(B, 3, dtype=dtype), torch.randint(0, K, (B,))
    return Batch.of_rows(torch.arange(B), (x,), y, a, torch.rand(B, dtype=dtype) + 0.5)


def dense(a, i):
    """PI of row i as the vector the paper writes: one-hot, one-hot, numbers, random PI."""
    hot = [float(a.codes[i, j] == code) for j, size in enumerate(SIZES) for code in range(size)]
    return torch.tensor(hot + a.numbers[i].tolist(), dtype=a.numbers.dtype)


def layers_by_hand(net, v):
    """Linear layers with ReLU between them."""
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    for layer in linear[:-1]:
        v = (layer.weight @ v + layer.bias).clamp(min=0)
    return linear[-1].weight @ v + linear[-1].bias


def softmax_by_hand(z):
    powers = [math.exp(value) for value in z.tolist()]
    return [power / sum(powers) for power in powers]


def loss_by_hand(method, batch, options):
    """The loss of the paper's formulas, row by row."""
    options = DEFAULTS | options
    A1 = torch.cat([method.shared.table, method.shared.dense]).T
    total = 0.0
    for i in range(B):
        y, a = int(batch.y_noisy[i]), dense(batch.a, i)
        if options["only_random_pi"]:
            s = (A1[:, -L:] @ a[-L:] + method.shared.bias).clamp(min=0)
        else:
            s = (A1 @ a + method.shared.bias).clamp(min=0)
        phi = method.f.features(batch.x[i : i + 1])[0]
        f = method.f.head.weight @ phi + method.f.head.bias
        if options["use_noise"]:
            eps = layers_by_hand(method.eps, torch.cat([phi, s]) if options["noise_input"] == "x_and_pi" else s)
        else:
            eps = torch.zeros(K)
        if options["use_gate"]:
            gamma = 1 / (1 + math.exp(-layers_by_hand(method.gamma, s).item()))
            h = (1 - gamma) * f + gamma * eps
        else:
            h = f + eps
        if options["gate_on"] == "probabilities":
            loss = -math.log((1 - gamma) * softmax_by_hand(f)[y] + gamma * softmax_by_hand(eps)[y])
        else:
            loss = -math.log(softmax_by_hand(h)[y])
        loss += options["tram_loss"] * -math.log(softmax_by_hand(f)[y])
        total += batch.weight[i].item() * loss
    return total / B


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_gate": False},
        {"use_noise": False},
        {"gate_on": "probabilities"},
        {"only_random_pi": True},
        {"noise_input": "x_and_pi"},
        {"tram_loss": 0.7},
        {"depth": 2},
        {"depth": 4},
        {"width": 11},
        {"use_gate": False, "noise_input": "x_and_pi", "depth": 4},
        {"use_noise": False, "only_random_pi": True, "depth": 2},
        {"gate_on": "probabilities", "noise_input": "x_and_pi", "tram_loss": 2.0, "only_random_pi": True},
    ],
    ids=lambda options: ",".join(f"{key}={value}" for key, value in options.items()) or "defaults",
)
def test_loss_equals_the_formula(options, batch):
    method, (edits, _) = build(**options), split(options)
    edited = batch._replace(a=edits(batch.a, batch.index))
    assert method(edited)["loss"].item() == pytest.approx(loss_by_hand(method, batch, options), abs=1e-10)


def test_defaults_are_plain_pi_dual_bitwise():
    methods = []
    for kind, options in ((PiDual, {}), (PiDualAblation, split(DEFAULTS)[1])):
        torch.manual_seed(7)
        methods.append(kind(Smooth(D, K), SPEC, width=W, random_pi=L, **options))
    plain, explicit = methods
    assert plain.state_dict().keys() == explicit.state_dict().keys()
    assert all(torch.equal(value, explicit.state_dict()[key]) for key, value in plain.state_dict().items())
    batch = make_batch(torch.float32)
    s = F.relu(plain.shared(*batch.a))
    gamma = plain.gamma(s).sigmoid()
    h = (1 - gamma) * plain.f(batch.x) + gamma * plain.eps(s)
    expected = (F.cross_entropy(h, batch.y_noisy, reduction="none") * batch.weight).mean()
    assert torch.equal(plain(batch)["loss"], expected)
    assert torch.equal(explicit(batch)["loss"], expected)


@pytest.mark.parametrize("option", [{"use_gate": False}, {"use_noise": False}, {"only_random_pi": True}])
def test_prediction_is_f_in_every_ablation(option, batch):
    method = build(**option)
    assert torch.equal(method.logits(batch.x), method.f(batch.x))


def gradients(method, batch):
    method.zero_grad()
    method(batch)["loss"].backward()
    return {name: parameter.grad.clone() for name, parameter in method.named_parameters() if parameter.grad is not None}


def fix_gate(method, logit):
    """The same gate for every row."""
    nn.init.zeros_(method.gamma[-1].weight)
    nn.init.constant_(method.gamma[-1].bias, logit)


# gate or noise network left out


def test_a_network_that_is_left_out_has_no_parameters_and_no_column(batch):
    without_gate, without_noise = build(use_gate=False), build(use_noise=False)
    assert not any(name.startswith("gamma") for name, _ in without_gate.named_parameters())
    assert not any(name.startswith("eps") for name, _ in without_noise.named_parameters())
    rows = batch._replace(views=())
    assert set(without_gate.per_row(rows, torch.zeros(B, K))) == {"noise_label"}
    assert set(without_noise.per_row(rows, torch.zeros(B, K))) == {"gate"}
    assert "gate" not in without_gate(batch)
    assert "gate" in without_noise(batch)


# the gate in probability space


@pytest.mark.parametrize("logit", [-200.0, 200.0, -30.0, 30.0])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_probability_mix_is_finite_for_extreme_gates_and_logits(logit, scale):
    method, batch = build(torch.float32, gate_on="probabilities"), make_batch(torch.float32)
    fix_gate(method, logit)
    for last in (method.f.head, method.eps[-1]):
        last.weight.data *= scale
    loss = method(batch)["loss"]
    assert bool(torch.isfinite(loss))
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients(method, batch).values())
    if abs(logit) == 200 and scale == 1:  # else the branch that is gated out can still explain the label better
        _, eps = method.answers(batch.a)
        answer = eps if logit > 0 else method.f(batch.x)
        expected = (F.cross_entropy(answer, batch.y_noisy, reduction="none") * batch.weight).mean()
        assert torch.allclose(loss, expected, rtol=1e-5)


# TRAM's loss


def test_second_term_of_tram_loss_trains_the_head_alone(batch):
    method = build(tram_loss=0.7)
    fix_gate(method, 200.0)  # h = eps: the first term gives f nothing
    found = gradients(method, batch)
    assert bool((found["f.body.weight"] == 0).all())
    assert bool((found["f.body.bias"] == 0).all())
    head = method.f.head(method.f.features(batch.x).detach())
    losses = F.cross_entropy(head, batch.y_noisy, reduction="none")
    (expected,) = torch.autograd.grad((losses * batch.weight).mean(), method.f.head.weight)
    assert torch.allclose(found["f.head.weight"], 0.7 * expected, rtol=0, atol=1e-12)


# what cannot be


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"use_gate": False, "use_noise": False}, "use method ce"),
        ({"gate_on": "probabilities", "use_gate": False}, "needs both"),
        ({"gate_on": "probabilities", "use_noise": False}, "needs both"),
        ({"gate_on": "odds"}, "gate_on must be logits or probabilities, not 'odds'"),
        ({"noise_input": "x"}, "noise_input must be pi or x_and_pi, not 'x'"),
        ({"depth": 1}, "depth must be at least 2"),
        ({"width": 0}, "width must be at least 1"),
        ({"corrupt_pi": 1.5}, "corrupt_pi"),
        ({"noise_input": "x_and_pi", "use_noise": False}, "noise_input"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        build(**options)


@pytest.mark.parametrize("options", [{"noise_input": "x_and_pi"}, {"tram_loss": 1.0}])
def test_a_network_without_features_is_refused_before_training(options):
    with pytest.raises(UsageError, match="linear `head`"):
        PiDualAblation(nn.Linear(3, K), SPEC, **options)


# jobs


def job_of(method="pi_dual", **options):
    data = crowd()
    return prepare_data(data, tiny_fit(method, **options).options(data.noise_rate))


def test_a_job_is_changed_and_the_one_before_is_left_as_it_was():
    job = job_of()
    codes, numbers = job.rows.codes.clone(), job.rows.numbers.clone()
    ablated = ablate(job, {"leave_out": "seconds", "corrupt_pi": 1.0, "use_gate": False})
    assert torch.equal(job.rows.codes, codes)
    assert torch.equal(job.rows.numbers, numbers)
    assert (job.spec.number_names, ablated.spec.number_names) == (("seconds",), ())
    assert ablated.rows.numbers.shape == (len(codes), 0)
    trained = torch.from_numpy(job.split == 0)
    assert 0 < int((ablated.rows.codes != codes)[trained].sum()) < int(trained.sum())  # some draws are what was there
    assert torch.equal(ablated.rows.codes[~trained], codes[~trained])
    method = ablated.build()
    assert type(method) is PiDualAblation
    assert not hasattr(method, "gamma")
    assert ablated.method_options == job.method_options | {"leave_out": "seconds", "corrupt_pi": 1.0, "use_gate": False}


def test_corrupted_numbers_have_mean_and_deviation_of_the_rows_that_are_trained_on():
    job = job_of()
    trained = torch.from_numpy(job.train)
    far = replace(job, rows=replace(job.rows, numbers=job.rows.numbers * 3 + 7))
    before, after = far.rows.numbers[trained], ablate(far, {"corrupt_pi": 1.0}).rows.numbers[trained]
    assert not torch.equal(before, after)
    error = float(before.std() / len(before) ** 0.5)
    assert abs(float(after.mean() - before.mean())) < 4 * error
    assert abs(float(after.std() - before.std())) < 4 * error


def test_corrupted_rows_are_the_same_for_the_same_seed():
    one, two = (ablate(job_of(), {"corrupt_pi": 0.5}).rows for _ in range(2))
    other = ablate(job_of(seed=1), {"corrupt_pi": 0.5}).rows
    assert torch.equal(one.codes, two.codes)
    assert not torch.equal(one.codes, other.codes)


def test_shuffled_pi_is_the_same_pi_of_other_rows():
    job = job_of()
    rows, trained = ablate(job, {"shuffle_pi": True}).rows, torch.from_numpy(job.train)
    whole = [torch.cat([r.codes.double(), r.numbers.double()], 1) for r in (job.rows, rows)]
    assert torch.equal(whole[0][~trained], whole[1][~trained])
    before, after = (sorted(map(tuple, pi[trained].tolist())) for pi in whole)
    assert before == after
    assert (whole[0][trained] == whole[1][trained]).all(1).double().mean() < 0.2
    assert torch.equal(ablate(job, {"shuffle_pi": True}).rows.codes, rows.codes)
    assert torch.equal(rows.row_id, job.rows.row_id)  # random PI stays with its row


def test_an_oracle_says_whether_a_label_is_wrong_and_nothing_else():
    job, data = job_of(), crowd()
    oracle = ablate(job, {"oracle_pi": True})
    assert (oracle.spec.cardinalities, oracle.spec.number_names) == ((), ("wrong",))
    wrong = (data.frame["label"] != data.frame["y"]).to_numpy()
    values = oracle.rows.numbers[:, 0].numpy()
    assert len(set(values[wrong])) == len(set(values[~wrong])) == 1
    assert values[wrong][0] > 0 > values[~wrong][0]
    assert abs(values.mean()) < 1e-6
    oracle.build()


def test_pi_dual_plus_has_ablations_and_other_methods_have_none():
    options = {"width": 8, "random_pi": 2}
    assert type(ablate(job_of("pi_dual_plus", **options), {"use_noise": False}).build()) is PiDualPlusAblation
    with pytest.raises(UsageError, match="ablations of pi_dual and pi_dual_plus, not of 'ce'"):
        ablate(job_of("ce"), {"use_gate": False})


@pytest.mark.parametrize(
    ("options", "changes", "words"),
    [
        ({"random_pi": 0}, {"only_random_pi": True}, "only_random_pi needs a random_pi of length 1 or more"),
        ({}, {"leave_out": "speed"}, "'speed'; the PI columns are annotator, seconds"),
        ({}, {"use_gate": False, "use_noise": False}, "use method ce"),
    ],
)
def test_a_job_that_cannot_be_changed_so_is_refused_before_training(options, changes, words):
    with pytest.raises(UsageError, match=words):
        ablate(job_of(**options), changes)
