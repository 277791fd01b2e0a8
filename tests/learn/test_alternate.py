"""Fits of f and the answer model in turn: threads, and folds of some items."""

import gc
import weakref
from threading import Barrier, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pidual.learn.answers import judging, model
from pidual.learn.answers.design import Design
from pidual.learn.answers.model import Answers
from pidual.learn.closed_form import ridge
from pidual.learn.closed_form.alternate import fit_inputs


def draw(n=1200, d=6, k=3, per_item=2, annotators=8):
    rng = np.random.default_rng(0)
    z = rng.integers(0, k, n)
    x = 2 * np.eye(d)[z] + rng.normal(size=(n, d))
    item, who = np.repeat(np.arange(n), per_item), rng.integers(0, annotators, n * per_item)
    label = np.where(rng.random(len(item)) < 0.7, z[item], rng.integers(0, k, len(item)))
    none = np.zeros((len(item), 0))
    design = Design.fit((annotators,), 0, none)
    return x, Answers.build(item, label, design, who[:, None], none, n_items=n, n_classes=k), z


def test_the_number_of_threads_makes_no_difference():
    x, answers, z = draw()
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(fit_inputs(x, np.arange(len(x)), answers))
    assert found[0].p.tobytes() == found[1].p.tobytes()
    assert found[0].q.tobytes() == found[1].q.tobytes()
    assert (found[0].q.argmax(1) == z).mean() > 0.85
    assert 0 < len(found[0].f.settings) <= 12


def test_some_items_decide_for_many(monkeypatch):
    _, answers, _ = draw()
    monkeypatch.setattr(judging, "FOLD_NUMBERS", 100)
    monkeypatch.setattr(judging, "FOLD_ITEMS", 400)
    folds = judging.HeldOut(answers, np.full(answers.n_items, -1))
    log_f, log_p = folds.fit(np.full((answers.n_items, 3), -np.log(3)), 2)
    assert folds.answers.n_items == len(log_f) == 400
    assert len(folds.answers.item) == len(log_p) == 800
    assert np.abs(np.exp(log_f).sum(1) - 1).max() < 1e-9


def test_processes_that_share_the_work_find_what_one_finds(monkeypatch):
    x, answers, _ = draw()
    monkeypatch.setattr(ridge, "CACHED", 1000)
    monkeypatch.setattr(ridge, "PART", 100)
    row, meet = np.arange(len(x)), Barrier(2)
    given, found = [None, None], [None, None]

    def work(rank):
        def total(array):
            given[rank] = array
            meet.wait()
            added = given[0] + given[1]
            meet.wait()
            return added

        found[rank] = fit_inputs(x, row, answers, processes=ridge.Processes(rank, 2, total))

    threads = [Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = fit_inputs(x, row, answers)
    for each in found:
        assert np.abs(each.p - alone.p).max() < 1e-6
        assert np.abs(each.q - alone.q).max() < 1e-6


def test_some_items_at_a_time_find_what_all_at_once_find(monkeypatch):
    x, answers, _ = draw()
    whole = fit_inputs(x, np.arange(len(x)), answers)
    monkeypatch.setattr(model, "CHUNK", 2000)
    _, again, _ = draw()
    parts = fit_inputs(x, np.arange(len(x)), again)
    assert len(again.parts) > 3
    assert all(len(part.parts) == 1 for _, part in again.parts)
    assert np.abs(parts.q - whole.q).max() < 1e-6
    assert np.abs(parts.p - whole.p).max() < 1e-6


@pytest.mark.parametrize("chunk", [2000, model.CHUNK])
def test_answers_are_gone_from_memory_with_their_last_name(monkeypatch, chunk):
    monkeypatch.setattr(model, "CHUNK", chunk)
    x, answers, _ = draw()
    fit_inputs(x, np.arange(len(x)), answers)
    gc.collect()
    gc.disable()
    try:
        gone = [weakref.ref(each) for each in (answers, *(part for _, part in answers.parts))]
        del answers
        assert [each() for each in gone] == [None] * len(gone)
    finally:
        gc.enable()
