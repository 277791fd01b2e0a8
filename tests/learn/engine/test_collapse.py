import itertools

import numpy as np
import pytest
import torch
from contract import spec_of
from torch import nn

from pidual.learn.engine import Session, Training, collapse, fit, make_fabric
from pidual.learn.methods import CE, PiDual
from pidual.learn.nets import MLP
from pidual.metrics import ranking_z

RNG = np.random.default_rng(0)


def test_looks_four_times_in_a_run():
    assert [e for e in range(40) if collapse.is_due(e, 40, 10 * e)] == [9, 19, 29, 39]
    assert collapse.is_due(0, 1, 100)


def test_agreement_z_is_standard_normal_under_independence():
    z = [
        collapse.agreement_z(RNG.choice(4, 500, p=[0.7, 0.1, 0.1, 0.1]), RNG.choice(4, 500, p=[0.4, 0.3, 0.2, 0.1]))
        for _ in range(800)
    ]
    assert abs(np.mean(z)) < 0.15
    assert abs(np.std(z) - 1) < 0.1


def test_ranking_z_is_standard_normal_under_permutation_and_equals_a_sum_over_permutations():
    z = []
    for _ in range(600):
        scores = RNG.normal(size=(120, 4)) + np.array([3, 0, 0, -1])
        z.append(ranking_z(scores, RNG.choice(4, 120, p=[0.85, 0.05, 0.05, 0.05])))
    assert abs(np.mean(z)) < 0.15
    assert abs(np.std(z) - 1) < 0.1
    scores, labels = RNG.normal(size=(5, 2)), np.array([0, 0, 1, 0, 1])
    rank = scores.argsort(0).argsort(0)
    sums = [sum(rank[i, k] for i, k in enumerate(order)) for order in itertools.permutations(labels)]
    own = sum(rank[i, k] for i, k in enumerate(labels))
    assert ranking_z(scores, labels) == pytest.approx((own - np.mean(sums)) / np.std(sums))


def test_a_network_that_ranks_under_a_rare_class_has_not_collapsed():
    """It always answers the class of 90%, so its answers agree no more than chance; what it ranks tells."""
    labels = (RNG.random(600) < 0.1).astype(np.int64)
    record = {"loss": 0.3, "valid_accuracy": 0.9}
    noise = RNG.normal(size=600)
    for knows, collapsed in ((0.7, False), (0.0, True)):
        logits = np.stack([np.full(600, 5.0), noise + knows * labels], axis=1)
        assert collapse.agreement_z(logits.argmax(1), labels) == 0
        assert (collapse.find_collapse(record, 0.9, lambda logits=logits: (logits, labels)) is not None) == collapsed


def logits_of(answers):
    return np.eye(3, dtype=np.float32)[answers]


def random_answers():
    return logits_of(RNG.integers(0, 3, 600)), RNG.integers(0, 3, 600)


def good_answers_under_spam():
    """60% of the labels are spam of class 0, f knows the truth: it beats chance but not the majority."""
    y = RNG.integers(0, 3, 600)
    return logits_of(y), np.where(RNG.random(600) < 0.6, 0, y)


@pytest.mark.parametrize(
    ("record", "answers", "collapsed"),
    [
        ({"loss": 1.0, "gate": 0.99, "valid_accuracy": 0.3}, random_answers, True),
        ({"loss": 1.0, "gate": 0.4, "valid_accuracy": 0.3}, random_answers, True),
        ({"loss": 1.0, "gate": 0.99, "valid_accuracy": 0.3}, good_answers_under_spam, False),
        ({"loss": 1.0, "valid_accuracy": 0.5}, good_answers_under_spam, False),
        ({"loss": 1.0, "gate": 0.5, "valid_accuracy": 0.95}, random_answers, False),
        ({"loss": float("nan"), "valid_accuracy": 0.95}, good_answers_under_spam, True),
        ({"loss": 1.0}, random_answers, True),
    ],
)
def test_finds_collapse(record, answers, collapsed):
    assert (collapse.find_collapse(record, 0.73, answers) is not None) == collapsed


def rows_known(trained_known, held_out_known, gate, n_held_out=40):
    """360 training rows and some held out, of which the noise network knows these shares; one gate for all."""
    knows = np.concatenate(
        [np.arange(n) < round(share * n) for share, n in ((trained_known, 360), (held_out_known, n_held_out))]
    )
    return knows, np.full(len(knows), gate, np.float32), np.arange(len(knows)) < 360


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (rows_known(0.99, 0.3, 0.9), True),
        (rows_known(0.99, 0.3, 0.4), False),  # it took the wrong labels only
        (rows_known(0.9, 0.3, 0.9), False),
        (rows_known(0.99, 0.8, 0.9), False),  # what it knows holds for others
        (rows_known(0.99, 0.3, 0.9, n_held_out=5), False),  # which five rows do not tell
    ],
)
def test_finds_learning_by_heart(rows, found):
    assert (collapse.find_memorised(*rows) is not None) == found


def test_what_the_noise_network_knows_counts_by_the_gate():
    knows, _, trained = rows_known(0.8, 0.5, 0.0)
    gate = np.where(knows, 1.0, 0.1)
    known, held_out = (
        sum(gate[k] for k in range(400) if knows[k] and trained[k] == part)
        / sum(gate[k] for k in range(400) if trained[k] == part)
        for part in (True, False)
    )
    reason = collapse.find_memorised(knows, gate, trained)
    assert known > 0.96 > held_out
    assert reason is None  # most of what it takes among the others it knows too
    gate[~trained] = 1.0
    assert f"{known:.0%} of the labels it was trained on and 50% of others" in collapse.find_memorised(
        knows, gate, trained
    )


class OpenGate(PiDual):
    """Collapses unless the learning rate is small: stands for a fit whose gate opens for every row."""

    def forward(self, batch):
        nn.init.constant_(self.gamma[-1].bias, 200.0)
        nn.init.zeros_(self.gamma[-1].weight)
        return super().forward(batch)


def test_recovers_by_itself_and_says_so(rows):
    made = []

    def build():
        made.append(1)
        kind = OpenGate if len(made) == 1 else PiDual
        return kind(MLP(5, 3, width=16, depth=1), spec_of(rows, 3, (6,)), width=16, random_pi=0)

    fitted = fit(build, rows, rows, Training(epochs=24, batch_size=24, lr=0.1), Session(make_fabric("cpu")))
    assert len(made) == 2
    assert fitted.events[0].epoch == 5
    assert "mean gate is 1.000" in fitted.events[0].reason
    assert "started again with learning rate 0.0333" in fitted.events[0].action
    assert [r["attempt"] for r in fitted.history] == [0] * 6 + [1] * 24
    assert fitted.history[-1]["valid_accuracy"] > 0.6


def test_watching_changes_nothing(rows):
    def build():
        return OpenGate(MLP(5, 3, width=16, depth=1), spec_of(rows, 3, (6,)), width=16, random_pi=0)

    fitted = fit(
        build, rows, rows, Training(epochs=20, batch_size=24, lr=0.1, guard="watch"), Session(make_fabric("cpu"))
    )
    assert len(fitted.history) == 20
    assert [event.action for event in fitted.events] == ["went on"] * 4


def test_divergence_is_recovered(rows):
    fitted = fit(
        lambda: CE(MLP(5, 3, width=16, depth=1), spec_of(rows, 3)),
        rows,
        rows,
        Training(epochs=20, batch_size=24, lr=1e4),
    )
    assert fitted.events
    assert torch.isfinite(torch.tensor(fitted.history[-1]["loss"]))


def test_gives_up_after_a_few_attempts(rows):
    class Hopeless(CE):
        def forward(self, batch):
            return {"loss": super().forward(batch)["loss"] * float("nan")}

    fitted = fit(
        lambda: Hopeless(MLP(5, 3, width=4, depth=1), spec_of(rows, 3)), rows, None, Training(epochs=20, batch_size=24)
    )
    assert fitted.history[-1]["attempt"] == collapse.MAX_ATTEMPTS - 1
    assert fitted.events[-1].action == "went on"
