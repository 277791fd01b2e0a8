"""The answer model against plain loops, and what becomes of it for many classes, without PI, without annotators."""

import math

import pytest
import torch

from pidual.batch import PI, Spec
from pidual.methods.answer_model import FULL_CLASSES, AnswerModel

A, K, M, R = 5, 3, 2, 40


def spec(k=K, annotators=A, numbers=0, others=()):
    cards, names = tuple(others), tuple(f"c{i}" for i in range(len(others)))
    if annotators:
        cards, names = (annotators, *cards), ("annotator", *names)
    return Spec(R, k, cards, numbers, code_names=names, n_items=20)


def make(*, own=False, k=K, annotators=A, numbers=0, others=(), scale=1.0):
    torch.manual_seed(0)
    model = AnswerModel(spec(k, annotators, numbers, others), M, own_confusions=own).double()
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * scale
    columns = [torch.randint(-1, size, (R,)) for size in ((annotators,) if annotators else ()) + tuple(others)]
    codes = torch.stack(columns, 1) if columns else torch.zeros(R, 0, dtype=torch.long)
    return model, PI(codes, torch.randn(R, numbers, dtype=torch.float64)), torch.randint(k, (R,))


@torch.no_grad()
def by_loops(model, a, y, m, k=K):
    """softmax_l( (b + s) [l = k] + T[k, l] + v[l] + U[k, l] ), one number after the other."""
    out = torch.zeros(len(y), k, dtype=torch.float64)
    for r in range(len(y)):
        s, v, u = 0.0, [0.0] * k, [[0.0] * k for _ in range(k)]
        if model.people is not None:
            who = int(a.codes[r, model.column])
            who = len(model.people) - 1 if who < 0 else who
            row = model.people[who].view(M, -1)[m]
            s, v = float(row[0]), [float(row[1 + c]) for c in range(k)]
            if model.own is not None:
                u = model.own[who].view(M, k, k)[m].tolist()
        if model.has_pi:
            width = model.last.shape[1]
            hidden = model.hidden_bias.view(M, width)[m].clone()
            for number in range(a.numbers.shape[1]):
                hidden = hidden + a.numbers[r, number] * model.of_numbers[number].view(M, width)[m]
            for at, offset, size in zip(model.others, model.offsets, model.n_codes, strict=True):
                code = int(a.codes[r, at])
                hidden = hidden + model.of_codes[offset + (size - 1 if code < 0 else code)].view(M, width)[m]
            added = hidden.tanh() @ model.last[m]
            s, v = s + float(added[0]), [v[c] + float(added[1 + c]) for c in range(k)]
        for truth in range(k):
            scores = []
            for answer in range(k):
                if model.full:
                    t = float(model.confusions[m, truth, answer])
                else:
                    t = float(model.confusions[m, 1, answer]) + (answer == truth) * float(model.confusions[m, 0, truth])
                scores.append((2.0 + s) * (answer == truth) + t + v[answer] + u[truth][answer])
            total = sum(math.exp(score) for score in scores)
            out[r, truth] = scores[int(y[r])] - math.log(total)
    return out


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"own": True},
        {"numbers": 2},
        {"numbers": 1, "others": (4, 3), "own": True},
        {"annotators": 0},
        {"annotators": 0, "numbers": 2},
        {"k": 2},
        {"k": FULL_CLASSES + 1, "numbers": 1},
    ],
)
@torch.no_grad()
def test_equals_plain_loops(parts):
    model, a, y = make(**parts)
    log_p = model(a, y)
    for m in range(M):
        torch.testing.assert_close(log_p[m], by_loops(model, a, y, m, parts.get("k", K)))


@pytest.mark.parametrize("parts", [{}, {"own": True}, {"k": FULL_CLASSES + 1}])
def test_answers_of_a_truth_sum_to_one(parts):
    model, a, _ = make(**parts)
    k = parts.get("k", K)
    total = sum(model(a, torch.full((R,), answer)).exp() for answer in range(k))
    torch.testing.assert_close(total, torch.ones_like(total))


def test_begins_without_influence_of_pi():
    model = AnswerModel(spec(numbers=2, others=(3,)), M)
    torch.manual_seed(1)
    a = PI(torch.randint(0, 3, (R, 2)), torch.randn(R, 2))
    log_p = model(a, torch.zeros(R, dtype=torch.long))
    assert torch.equal(log_p, log_p[:, :1].expand_as(log_p))
    right = math.exp(2) / (math.exp(2) + K - 1)
    torch.testing.assert_close(log_p[0, 0].exp(), torch.tensor([right, (1 - right) / (K - 1), (1 - right) / (K - 1)]))


@pytest.mark.parametrize("parts", [{}, {"own": True, "numbers": 2, "others": (3,)}, {"k": FULL_CLASSES + 2}])
def test_gradients_are_those_of_small_differences(parts):
    model, a, y = make(**parts, scale=0.5)
    few = PI(a.codes[:4], a.numbers[:4])
    names = [name for name, _ in model.named_parameters()]

    def loss(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (few, y[:4])).sum((1, 2))

    assert torch.autograd.gradcheck(loss, tuple(model.parameters()), eps=1e-6, atol=1e-5)


@pytest.mark.parametrize("parts", [{"own": True, "numbers": 2, "others": (3,)}, {"numbers": 2}, {"others": (3,)}])
def test_members_do_not_depend_on_each_other(parts):
    model, a, y = make(**parts)
    whole = model(a, y)
    torch.testing.assert_close(model(a, y, torch.tensor([1])), whole[1:])
    part, _, _ = make(**parts)
    part.keep([1])
    torch.testing.assert_close(part(a, y), whole[1:])
    for parameter in part.parameters():
        parameter.data += 1
    model.put([1], part)
    torch.testing.assert_close(model(a, y)[1], part(a, y)[0])
    torch.testing.assert_close(model(a, y)[0], whole[0])


@torch.no_grad()
def test_the_penalty_is_half_the_weighted_squares_per_item():
    model, a, _ = make(own=True, numbers=2)
    people, own = model.people.view(A + 1, M, -1), model.own.view(A + 1, M, -1)
    for m in range(M):
        squares = float(people[:, m].square().sum() + model.confusions[m].square().sum() + model.last[m].square().sum())
        expected = (squares + 5 * float(own[:, m].square().sum())) / 2 / 20
        assert float(model.penalty(a, 20)[m]) == pytest.approx(expected)


def test_sparse_and_dense_annotators_have_the_same_penalty_over_an_epoch(monkeypatch):
    monkeypatch.setattr("pidual.methods.answer_model.SPARSE_ABOVE", 0)
    model, a, _ = make()
    known = PI(torch.arange(A).repeat(8)[:, None], a.numbers)  # everybody has answers, nobody is unknown
    model.people.data[-1] = 0.0
    assert model.sparse
    model.answers.copy_(torch.tensor([8.0] * A + [1.0]))
    sparse = model.penalty(known, 20)
    model.sparse = False
    torch.testing.assert_close(sparse, model.penalty(known, 20), rtol=0.05, atol=0.0)
