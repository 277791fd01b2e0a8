"""Populations whose members are trained apart: on their own rows, resumable, watched."""

import copy
import re
from dataclasses import replace

import pytest
import torch
from by_item import crowd
from population import KINDS, TRAINING, build, fit_population, stop_at
from torch import nn

from pidual.engine import Interrupted, fit, make_fabric
from pidual.engine.checkpoint import StateStore, load_tensors
from pidual.engine.fit import conclude
from pidual.engine.population import Learned
from pidual.engine.progress import Progress

STEPS = 3 * 6  # of each of five members: 96 of 120 items in batches of 14


def numbers_of(method, member):
    """All that a member has learned, as one vector."""
    answers = method.answers
    own = [answers.by_member(name, value.data)[member] for name, value in answers.named_parameters()]
    return torch.cat([value.flatten() for value in (*method.f.of(member), *own)])


def without_seconds(records):
    return [record | {"seconds": 0.0} for record in records]


def same_fit(one, two):
    """Whether two fits are equal bit for bit."""
    for a, b in ((one.last, two.last), (one.method.state_dict(), two.method.state_dict())):
        assert a.keys() == b.keys()
        assert [name for name in a if not torch.equal(a[name], b[name])] == []
    assert without_seconds(one.history) == without_seconds(two.history)
    assert (one.selection, one.events, one.collapsed) == (two.selection, two.events, two.collapsed)
    return True


@pytest.fixture(scope="module")
def whole():
    """Both kinds of population, fitted without a break."""
    return {kind: fit_population(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fold", [0, 3])
def test_labels_of_held_out_items_change_nothing_in_the_members_that_score_them(kind, fold, whole):
    rows = crowd()
    labels = torch.where(rows.fold == fold, (rows.y_noisy + 1) % 3, rows.y_noisy)
    other = fit_population(kind, replace(rows, y_noisy=labels)).method
    method = whole[kind].method
    for member, kept_from in enumerate(method.fold.tolist()):
        same = torch.equal(numbers_of(method, member), numbers_of(other, member))
        assert same == (kept_from == fold)


def test_inputs_of_held_out_items_are_not_read_by_members_apart(whole):
    rows = crowd()
    x = rows.x.clone()
    x[rows.x_row[rows.fold == 2]] = float("nan")
    fitted = fit_population("apart", replace(rows, x=x), replace(TRAINING, guard="off"))
    assert torch.equal(numbers_of(fitted.method, 2), numbers_of(whole["apart"].method, 2))


def test_members_apart_learn_and_are_named_in_the_records(whole):
    fitted = whole["apart"]
    stages = [record["stage"] for record in fitted.history]
    assert stages == [f"member {member} of 5" for member in (1, 2, 3, 4, 5) for _ in range(3)]
    assert [record["epoch"] for record in fitted.history] == 5 * [0, 1, 2]
    assert len(fitted.selection) == 1
    assert not fitted.collapsed
    rows = crowd()
    with torch.inference_mode():
        answers = fitted.method.logits(rows.x[rows.x_row]).argmax(1)
    assert (answers == rows.y_noisy).float().mean() > 0.6
    for member in range(1, 5):
        assert not torch.equal(numbers_of(fitted.method, member), numbers_of(fitted.method, 0))
    assert "stage" not in whole["stacked"].history[0]


def test_the_best_epoch_of_every_member_is_put_together():
    rows = crowd()
    training = replace(TRAINING, select="best", epochs=6, lr=0.5)
    how = {"training": training, "fabric": make_fabric("cpu")}
    make = build(rows, "apart")
    fitted = fit(make, rows, rows, **how)
    bests = {}
    for record in fitted.history:
        merit = (record["valid_accuracy"], -record["valid_loss"])
        bests[record["stage"]] = max(bests.get(record["stage"], (merit, record["epoch"])), (merit, record["epoch"]))
    assert fitted.selected_epoch in [epoch for _, epoch in bests.values()]
    for member, (_, epoch) in enumerate(bests.values()):
        last = copy.deepcopy(fitted.method)
        last.load_state_dict(fitted.last)
        assert torch.equal(numbers_of(last, member), numbers_of(fitted.method, member)) == (epoch == 5)


# --- stopped and continued ---


@pytest.mark.parametrize("step", [STEPS + 8, STEPS, 4 * STEPS + 1])
def test_a_population_stopped_in_any_member_continues_to_the_same_bits(step, whole, tmp_path):
    store = StateStore(tmp_path)
    with pytest.raises(Interrupted):
        fit_population("apart", store=store, stop=stop_at(step))
    left = []
    fitted = fit_population("apart", store=store, stop=lambda: left.append(1) and False)
    assert len(left) == 5 * STEPS - step  # what is done is not done again
    assert same_fit(fitted, whole["apart"])
    again = fit_population("apart", store=store, stop=lambda: True)
    assert same_fit(again, whole["apart"])


def test_records_of_all_members_are_found_in_the_state(whole, tmp_path):
    store = StateStore(tmp_path)
    assert store.history() == []
    with pytest.raises(Interrupted):
        fit_population("apart", store=store, stop=stop_at(2 * STEPS + 9))
    expected = without_seconds(whole["apart"].history)[:7]  # of two members, and the first epoch of the third
    assert without_seconds(store.history()) == expected


def test_the_state_of_a_finished_member_is_without_its_optimizer(tmp_path):
    store = StateStore(tmp_path)
    with pytest.raises(Interrupted):
        fit_population("apart", store=store, stop=stop_at(STEPS + 2))
    parts = [{name.partition(".")[0] for name in load_tensors(store.group(at, 5).path)[0]} for at in (0, 1)]
    assert parts == [{"method"}, {"method", "optimizer"}]


class Heard(Progress):
    """Remembers what it hears."""

    def __init__(self):
        self.starts, self.parts, self.positions = [], [], []

    def start(self, epochs, steps, done, stage="", parts=1):
        self.starts.append((epochs, steps, done, stage, parts))

    def part(self, number, stage):
        self.parts.append((number, stage))

    def step(self, epoch, step):
        self.positions.append(self.parts[-1][0] * STEPS + epoch * 6 + step)


def test_progress_is_that_of_the_whole_population(tmp_path):
    first, second, store = Heard(), Heard(), StateStore(tmp_path)
    with pytest.raises(Interrupted):
        fit_population("apart", store=store, progress=first, stop=stop_at(STEPS + 8))
    fit_population("apart", store=store, progress=second)
    assert first.starts == [(3, 6, 0, "", 5)]
    assert second.starts == [(3, 6, STEPS + 8, "", 5)]
    assert first.parts == [(0, "member 1 of 5"), (1, "member 2 of 5")]
    assert [number for number, _ in second.parts] == [0, 1, 2, 3, 4]
    assert first.positions + second.positions == list(range(1, 5 * STEPS + 1))


def test_states_of_another_grouping_are_left_alone(whole, tmp_path):
    store = StateStore(tmp_path)
    store.group(0, 2).folder.mkdir(parents=True)
    store.group(0, 2).path.write_bytes(b"of two processes")
    assert same_fit(fit_population("apart", store=store), whole["apart"])


# --- the guard ---


class Blind(nn.Module):
    """A network of which some copies see nothing of x."""

    def __init__(self, blind, at=None):
        super().__init__()
        self.blind, self.copies = blind, 0
        self.sees = 0.0 if (0 if at is None else at) in blind else 1.0
        self.layers = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))

    def __deepcopy__(self, memo):
        self.copies += 1
        return Blind(self.blind, self.copies)

    def forward(self, x):
        return self.layers(x * self.sees)


LONG = replace(TRAINING, epochs=10)


def test_a_member_that_learns_nothing_starts_again_alone_and_gets_no_share():
    fitted = fit_population("apart", training=LONG, network=lambda: Blind({2}))
    share = fitted.method.share
    assert share[2] == 0
    assert (share[[0, 1, 3, 4]] > 0).all()
    assert float(share.sum()) == pytest.approx(1)
    attempts = {}
    for record in fitted.history:
        attempts[record["stage"]] = record["attempt"]
    assert attempts == {f"member {at} of 5": 3 if at == 3 else 0 for at in (1, 2, 3, 4, 5)}
    *before, last = fitted.events
    assert all("member 3 of 5: " in event["reason"] for event in before)
    assert last["reason"] == "1 of 5 networks agree with the training labels no more than chance"
    assert last["action"] == "left them out"
    assert not fitted.collapsed


def test_a_population_of_which_no_member_learns_is_called_collapsed():
    training = replace(LONG, guard="watch")
    fitted = fit_population("apart", training=training, network=lambda: Blind({0, 1, 2, 3, 4}))
    assert fitted.collapsed
    assert len(fitted.events) == 5 + 1  # after the last epoch of every member, and at the end
    assert (fitted.method.share > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_not_finite_stay_in_their_member(kind, whole):
    rows, fitted = crowd(), whole[kind]
    method = copy.deepcopy(fitted.method)
    for value in method.f.of(1):
        value.fill_(float("nan"))
    learned = Learned(method.state_dict(), None, 2, fitted.history, [], collapsed=False)
    training = replace(TRAINING, epochs=30)
    off = conclude(copy.deepcopy(method), learned, rows, replace(training, guard="off"), make_fabric("cpu"))
    assert off.events == []
    ended = conclude(method, learned, rows, training, make_fabric("cpu"))
    assert method.share[1] == 0
    assert re.match(r"1 of \d+ networks agree", ended.events[0]["reason"])
    assert not ended.collapsed
    with torch.inference_mode():
        assert method.logits(rows.x).isfinite().all()
        index, item = rows.groups.members(torch.arange(len(rows.groups)))
        assert all(value.isfinite().all() for value in method.judge(rows.select(index, item=item)))


def test_a_member_from_which_every_item_is_kept_stays_as_it_was():
    rows = crowd(40)
    rows = replace(rows, fold=torch.ones_like(rows.fold))
    fitted = fit_population("apart", rows)
    assert {record["stage"] for record in fitted.history} == {f"member {at} of 5" for at in (1, 3, 4, 5)}
    assert all(value.isfinite().all() for value in fitted.last.values())
