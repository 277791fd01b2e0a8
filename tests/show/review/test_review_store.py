"""Decisions are kept: added and never changed, once each, whoever writes at the same time."""

import multiprocessing
import sqlite3

import pandas as pd
import pytest

from pidual.api.run import Run
from pidual.errors import RunError, UsageError
from pidual.run.decisions import FILE, Store, read_decisions


@pytest.fixture
def store(run):
    opened = Store(run)
    yield opened
    opened.close()


def add(store, row, decision="keep", label="cat", reviewer="ann", request=None):
    return store.add(row, decision, label, reviewer=reviewer, request=request or f"{row}{decision}{label}{reviewer}")


def test_the_last_decision_on_a_row_counts(run, store):
    add(store, 3, "keep", "cat", "ann")
    add(store, 1, "change", "dog", "ann")
    add(store, 3, "unsure", None, "bob")
    found = run.reviews
    assert found.columns.tolist() == ["row", "decision", "label", "reviewer", "at"]
    assert found["row"].tolist() == [1, 3]
    assert found["decision"].tolist() == ["change", "unsure"]
    assert found["reviewer"].tolist() == ["ann", "bob"]
    assert found["label"].iloc[0] == "dog"
    assert pd.isna(found["label"].iloc[1])
    assert (pd.Timestamp.now("UTC") - found["at"]).max() < pd.Timedelta("1min")


def test_undo_brings_back_what_counted_before(run, store):
    add(store, 3, "keep", "cat", "ann")
    add(store, 3, "change", "dog", "bob")
    add(store, 5, "unsure", None, "bob")
    assert store.undo(reviewer="bob", request="u1") == 5
    assert store.undo(reviewer="bob", request="u1") == 5  # sent twice, done once
    assert [(d.row, d.decision) for d in store.latest()] == [(3, "change")]
    assert store.undo(reviewer="bob", request="u2") == 3
    assert [(d.row, d.decision, d.reviewer) for d in store.latest()] == [(3, "keep", "ann")]
    assert store.undo(reviewer="bob", request="u3") is None  # those of others stay
    assert store.undo(reviewer="ann", request="u4") == 3
    assert store.latest() == []
    assert len(run.reviews) == 0


def test_rows_are_added_and_never_changed(run, store):
    add(store, 3)
    store.undo(reviewer="ann", request="u")
    with sqlite3.connect(run.path / FILE) as db:
        assert db.execute("SELECT decision, undoes FROM decisions ORDER BY id").fetchall() == [
            ("keep", None),
            ("undo", 1),
        ]
        for statement in ("DELETE FROM decisions", "UPDATE decisions SET label = 'x'"):
            with pytest.raises(sqlite3.IntegrityError):
                db.execute(statement)
    db.close()


def test_a_request_that_is_sent_twice_is_written_once(store):
    first = add(store, 3, request="same")
    assert add(store, 3, request="same") == (first[0], False)
    assert len(store.latest()) == 1


def test_a_decision_that_nobody_can_make_is_refused(store):
    for fields, message in (
        ((3, "undo"), "no decision 'undo'"),
        ((10**6,), "row 1000000, which is no row"),
        ((3, "change", "bird"), "label 'bird'"),
        ((3, "keep", None), "label None"),
    ):
        with pytest.raises(UsageError, match=message):
            add(store, *fields)
    assert store.latest() == []


def write_many(path, who):
    store = Store(Run(path))
    for row in range(20):
        add(store, row, "keep", "cat", who)
    store.close()


def test_several_processes_write_at_once(run):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_many, args=(run.path, f"r{number}")) for number in range(2)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    with sqlite3.connect(run.path / FILE) as db:
        assert db.execute("SELECT COUNT(*), COUNT(DISTINCT request) FROM decisions").fetchone() == (40, 40)
    db.close()
    assert len(run.reviews) == 20


def test_decisions_on_another_table_are_refused(run, store):
    store.close()
    with sqlite3.connect(run.path / FILE) as db:
        db.execute("UPDATE about SET fingerprint = 'other'")
    db.close()
    for use in (Store, read_decisions):
        with pytest.raises(RunError, match="decisions on another table"):
            use(run)


def test_a_file_that_was_overwritten_is_refused(run, store, tmp_path):
    empty = (run.path / FILE).read_bytes()
    add(store, 3)
    store.latest()
    (run.path / FILE).write_bytes(empty)
    for use in (store.latest, store.sync, lambda: add(store, 4), lambda: store.undo(reviewer="ann", request="u")):
        with pytest.raises(RunError, match="has lost decisions"):
            use()
    assert len(run.reviews) == 0
