"""Latent truth: its likelihood against plain loops, its limiting cases, and folds that never leak."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from pidual.batch import Rows, Spec
from pidual.datasets.synthetic import make_crowd
from pidual.encode import EncodedPI
from pidual.engine import Training, fit, make_fabric
from pidual.errors import UsageError
from pidual.methods.latent_truth import LatentTruth
from pidual.nets import MLP

D, K, A, N = 4, 3, 6, 12
POPULATION = ((1e-3, 0.5, 1.0), (1e-2, 0.0, 0.5))


def rows(seed=0, answers=(1, 2, 3), folds=2, truth=None):
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(N), np.resize(answers, N))
    pi = EncodedPI(rng.integers(0, A, (len(item), 1)).astype(np.int32), np.zeros((len(item), 0), np.float32))
    x = rng.normal(size=(N, D)).astype(np.float32)
    weight = rng.uniform(0.5, 1.5, len(item)).astype(np.float32)
    known = None if truth is None else np.asarray(truth)[item]
    return Rows.build(x, item, rng.integers(0, K, len(item)), pi, weight, item=item, fold=item % folds, truth=known)


def build(population=POPULATION, folds=2, **options):
    spec = Spec(24, K, (A,), code_names=("annotator",), n_items=N)
    torch.manual_seed(0)
    return LatentTruth(MLP(D, K, width=8, depth=1, dropout=0.0), spec, population=population, folds=folds, **options)


def batch_of(data):
    index, item = data.groups.members(torch.arange(N))
    return data.select(index, item=item)


@torch.no_grad()
def test_the_loss_is_that_of_plain_loops():
    data, method = rows(), build(own_confusions=True).eval()  # no dropout
    for parameter in method.answers.parameters():
        parameter.data = torch.randn_like(parameter) * 0.5
    batch = batch_of(data)
    f, log_p = method.f(batch.x).softmax(-1), method.answers(batch.a, batch.y_noisy)
    total = 0.0
    for m in range(4):
        tau, terms = POPULATION[m // 2][2], []
        for i in range(N):
            if i % 2 == m % 2:  # the member's own fold
                continue
            joint = []
            for k in range(K):
                value = float(f[m, i, k])
                for j in torch.nonzero(batch.item == i)[:, 0].tolist():
                    value *= math.exp(float(log_p[m, j, k])) ** (tau * float(batch.weight[j]))
                joint.append(value)
            terms.append(-math.log(sum(joint)) / tau)
        total += sum(terms) / len(terms) + float(method.answers.penalty(batch.a, N)[m])
    assert float(method(batch)["loss"]) == pytest.approx(total / 4, rel=1e-5)


def test_confidence_is_averaged_over_epochs_by_members_that_do_not_see_the_item():
    method, sums = build(), torch.zeros(24)
    batch = batch_of(rows(truth=TRUTH))
    for epoch in range(3):
        torch.manual_seed(epoch)  # the same dropout
        f = method.train().f(batch.x).softmax(-1).detach()
        torch.manual_seed(epoch)
        method(batch)
        for row, (item, label) in enumerate(zip(batch.item.tolist(), batch.y_noisy.tolist(), strict=True)):
            unseen = [m for m in range(4) if m % 2 == item % 2]
            sums[batch.index[row]] += sum(float(f[m, item, label]) for m in unseen) / len(unseen)
        with torch.no_grad():
            method.eval()(batch)  # no epoch of training
            for parameter in method.f.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
    torch.testing.assert_close(method.mean_confidence(), sums / 3)


def test_confidence_is_not_kept_where_every_member_sees_all_or_is_trained_apart():
    assert build(folds=1).mean_confidence() is None
    apart = build()
    apart.keep([0, 2])
    assert apart.mean_confidence() is None
    assert build().mean_confidence() is None  # nothing trained yet


@torch.no_grad()
def test_members_against_an_answer_are_counted_by_their_share():
    method, batch = build().eval(), batch_of(rows())
    method.judge_share.copy_(torch.tensor([0.1, 0.2, 0.4, 0.3]))
    judged = method.judge(batch)
    for row, item in enumerate(batch.item.tolist()):
        members = [m for m in range(4) if m % 2 == item % 2]
        part, _, rws = batch.of_fold(item % 2)
        at = rws.tolist().index(row)
        wrong = [float(method.judge_with(part, torch.tensor([m])).right[at]) < 0.5 for m in members]
        share = method.judge_share[members]
        assert float(judged.against[row]) == pytest.approx(float((share * torch.tensor(wrong)).sum() / share.sum()))


TRUTH = [0, -1, 2, -1, 1, 1, -1, 0, -1, -1, 2, 2]  # of the items


@torch.no_grad()
def test_where_the_class_is_known_no_other_has_a_part_in_the_loss():
    method = build(own_confusions=True).eval()
    for parameter in method.answers.parameters():
        parameter.data = torch.randn_like(parameter) * 0.5
    batch = batch_of(rows(truth=TRUTH))
    assert batch.truth.tolist() == TRUTH
    f, log_p = method.f(batch.x).softmax(-1), method.answers(batch.a, batch.y_noisy)
    total = 0.0
    for m in range(4):
        tau, terms = POPULATION[m // 2][2], []
        for i in [i for i in range(N) if i % 2 != m % 2]:
            joint = 0.0
            for k in range(K) if TRUTH[i] < 0 else [TRUTH[i]]:
                value = float(f[m, i, k])
                for j in torch.nonzero(batch.item == i)[:, 0].tolist():
                    value *= math.exp(float(log_p[m, j, k])) ** (tau * float(batch.weight[j]))
                joint += value
            terms.append(-math.log(joint) / tau)
        total += sum(terms) / len(terms) + float(method.answers.penalty(batch.a, N)[m])
    assert float(method(batch)["loss"]) == pytest.approx(total / 4, rel=1e-5)


@torch.no_grad()
def test_a_known_class_is_the_posterior_and_says_which_answers_are_right():
    method = build().eval()
    told, untold = batch_of(rows(truth=TRUTH)), batch_of(rows())
    judged, other = method.judge(told), method.judge(untold)
    known = torch.tensor(TRUTH) >= 0
    torch.testing.assert_close(judged.posterior[known], F.one_hot(torch.tensor(TRUTH)[known], K).float())
    torch.testing.assert_close(judged.posterior[~known], other.posterior[~known])
    of_known = known[told.item]
    right = (told.y_noisy == torch.tensor(TRUTH)[told.item]).float()
    torch.testing.assert_close(judged.right[of_known], right[of_known])
    torch.testing.assert_close(judged.right[~of_known], other.right[~of_known])
    torch.testing.assert_close(judged.probabilities, other.probabilities)  # by the input alone


@torch.no_grad()
def test_nothing_known_changes_nothing():
    method = build().eval()
    told, untold = batch_of(rows(truth=[-1] * N)), batch_of(rows())
    assert float(method(told)["loss"]) == float(method(untold)["loss"])
    for one, other in zip(method.judge(told), method.judge(untold), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_rows_keep_what_is_known():
    data = rows(truth=TRUTH)
    part = data.subset(np.arange(5, 15))
    assert part.truth.tolist() == data.truth[5:15].tolist()
    batch = batch_of(data)
    found, items, _ = batch.of_fold(1)
    assert found.truth.tolist() == [TRUTH[i] for i in items.tolist()] == TRUTH[1::2]


@torch.no_grad()
def test_one_answer_and_perfect_annotators_is_cross_entropy():
    data, method = rows(answers=(1,)), build((), folds=1, base_skill=60.0).eval()
    batch = batch_of(data)._replace(weight=torch.ones(N))
    expected = F.cross_entropy(method.f(batch.x)[0], batch.y_noisy)
    assert float(method(batch)["loss"]) == pytest.approx(float(expected), rel=1e-5)


@torch.no_grad()
def test_own_confusions_alone_are_crowd_layer_on_probabilities():
    data, method = rows(answers=(1,)), build((), folds=1, base_skill=0.0, own_confusions=True).eval()
    method.answers.own.data = torch.randn_like(method.answers.own)
    batch = batch_of(data)._replace(weight=torch.ones(N))
    matrices = method.answers.own.view(A + 1, K, K).softmax(-1)[batch.a.codes[:, 0].long()]
    p = torch.einsum("bk,bkl->bl", method.f(batch.x)[0].softmax(-1), matrices)
    expected = F.nll_loss(p.log(), batch.y_noisy) + method.answers.penalty(batch.a, N)[0]
    assert float(method(batch)["loss"]) == pytest.approx(float(expected), rel=1e-5)


@torch.no_grad()
def test_two_equal_annotators_without_x_have_the_closed_form():
    """Both are right at rate r: q = r^2 / (r^2 + (1-r)^2/(K-1)) if they agree; if not, each counts the same."""
    method = build((), folds=1).eval()
    for parameter in method.f.parameters():
        parameter.data.zero_()  # f is constant
    data = rows(answers=(2,))
    data = Rows.build(
        data.x.numpy(),
        data.x_row.numpy(),
        data.y_noisy.numpy(),
        EncodedPI(np.zeros((2 * N, 1), np.int32), np.zeros((2 * N, 0), np.float32)),
        item=data.item.numpy(),
    )
    batch = batch_of(data)
    posterior = method.judge(batch).posterior
    r = math.exp(2) / (math.exp(2) + K - 1)
    for i, (a, b) in enumerate(data.y_noisy.view(N, 2).tolist()):
        agree = r**2 / (r**2 + (1 - r) ** 2 / (K - 1))
        split = r * (1 - r) / (K - 1)
        differ = split / (2 * split + (K - 2) * ((1 - r) / (K - 1)) ** 2)
        assert float(posterior[i, a]) == pytest.approx(agree if a == b else differ, rel=1e-5)


def test_gradients_of_members_are_their_own():
    """The mean over members, scaled back, is what each member alone would have."""
    data = rows()
    batch = batch_of(data)
    whole = build()
    torch.manual_seed(1)
    whole(batch)["loss"].backward()
    whole.after_backward(0.1)
    for member in range(4):
        part = build()
        part.keep([member])
        torch.manual_seed(1)
        part(batch)["loss"].backward()
        part.after_backward(0.1)
        for mine, theirs in zip(part.f.parameters(), whole.f.parameters(), strict=True):
            torch.testing.assert_close(mine.grad[0], theirs.grad[member])


def fit_crowd(crowd, labels=None, population=POPULATION, epochs=12, seed=0):
    frame = crowd.frame
    item = frame["item"].to_numpy()
    y = frame["label"].to_numpy() if labels is None else labels
    codes = frame["annotator"].astype("category").cat.codes.to_numpy().astype(np.int32)[:, None]
    pi = EncodedPI(codes, np.zeros((len(frame), 0), np.float32))
    data = Rows.build(crowd.x.astype(np.float32), item, y, pi, item=item, fold=item % 2)
    n_classes = int(frame["label"].max()) + 1
    spec = Spec(len(frame), n_classes, (int(codes.max()) + 1,), code_names=("annotator",), n_items=len(crowd.x))
    network = {"width": 16, "depth": 1, "dropout": 0.2}

    def make():
        return LatentTruth(MLP(crowd.x.shape[1], n_classes, **network), spec, population=population, folds=2)

    training = Training(epochs=epochs, batch_size=32, lr=0.1, clip=1.0, select="last", seed=seed)
    return fit(make, data, None, training, fabric=make_fabric("cpu")), data


def test_a_label_of_a_held_out_item_changes_nothing_in_the_members_that_judge_it():
    crowd = make_crowd(n_items=80, n_annotators=8, answers_per_item=2, n_classes=3, seed=0)
    labels = crowd.frame["label"].to_numpy().copy()
    before, _ = fit_crowd(crowd, labels)
    flipped = labels.copy()
    flipped[crowd.frame["item"].to_numpy() == 4] = (flipped[crowd.frame["item"].to_numpy() == 4] + 1) % 3
    after, _ = fit_crowd(crowd, flipped)
    judges = before.method.judges(0)  # of item 4, in fold 0
    others = before.method.judges(1)
    for mine, theirs in zip(before.method.f.parameters(), after.method.f.parameters(), strict=True):
        assert torch.equal(mine[judges], theirs[judges])
    assert not torch.equal(before.method.f.stack.weights[0][others], after.method.f.stack.weights[0][others])
    for name, value in before.method.answers.named_parameters():
        theirs = dict(after.method.answers.named_parameters())[name]
        assert torch.equal(
            before.method.answers.by_member(name, value)[judges], after.method.answers.by_member(name, theirs)[judges]
        )


def test_it_finds_the_wrong_answers_of_a_crowd():
    crowd = make_crowd(n_items=300, n_annotators=12, answers_per_item=3, n_classes=3, seed=1)
    fitted, data = fit_crowd(crowd, epochs=25)
    index, item = data.groups.members(torch.arange(len(data.groups)))
    with torch.no_grad():
        judged = fitted.method.judge(data.select(index, item=item))
    truth = torch.tensor(crowd.frame.groupby("item")["y"].first().tolist())
    votes = F.one_hot(data.y_noisy[index], 3)
    vote = torch.zeros(len(truth), 3, dtype=torch.long).index_add(0, item, votes).argmax(1)
    assert (judged.posterior.argmax(1) == truth).float().mean() >= (vote == truth).float().mean()
    wrong = data.y_noisy[index] != truth[item]
    assert judged.gate[wrong].mean() > judged.gate[~wrong].mean() + 0.3
    torch.testing.assert_close(judged.posterior.sum(1), torch.ones(len(truth)))
    assert [round(sum(record[name] for record in fitted.selection), 4) for name in ("share", "judge_share")] == [1, 1]


def test_options_that_cannot_be_are_refused():
    with pytest.raises(UsageError, match="folds must be at most 100, not 1000: each setting trains one network a fold"):
        build(folds=1000)
    with pytest.raises(UsageError, match="folds must be at least 1"):
        build(folds=0)
    spec = Spec(24, K, (A,), code_names=("annotator",), n_items=N)
    with pytest.raises(UsageError, match="Only an MLP"):
        LatentTruth(torch.nn.Linear(D, K), spec, population=POPULATION)


@pytest.mark.parametrize("k", [2, 40])
def test_any_number_of_classes_and_no_annotator(k):
    torch.manual_seed(0)
    n = 30
    item = np.repeat(np.arange(n), 2)
    data = Rows.build(
        np.random.default_rng(0).normal(size=(n, D)).astype(np.float32), item, item % k, item=item, fold=item % 2
    )
    spec = Spec(2 * n, k, n_items=n)
    method = LatentTruth(MLP(D, k, width=8, depth=1), spec, population=POPULATION, folds=2)
    index, which = data.groups.members(torch.arange(n))
    batch = data.select(index, item=which)
    loss = method(batch)["loss"]
    loss.backward()
    assert math.isfinite(float(loss.detach()))
    with torch.no_grad():
        assert method.judge(batch).posterior.shape == (n, k)
