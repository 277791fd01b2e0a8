"""One person, one item, one vote: what repeats an answer changes nothing that a run states."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from answers import make_answers, make_probabilities
from sklearn.linear_model import LogisticRegression
from test_consensus import judge_all, made

import pidual
from pidual.api.any_classifier import vote_shares
from pidual.api.fit import fit_table
from pidual.data import AnnotationTable, Inputs, load_probabilities
from pidual.errors import DataWarning
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare
from pidual.learn.answers.judging import fit_judge
from pidual.learn.answers.rows import AnswerRows
from pidual.learn.batch import Rows
from pidual.learn.engine import Interrupted
from pidual.run.records.summary import CopyGroup


def judged(frame, p=None):
    return pidual.judge(frame, p)


@pytest.fixture(scope="module")
def crowd():
    """Answers of eight people, one or two to an item, and a classifier's probabilities."""
    frame, y = make_answers(150, per_item=2, right=(0.9, 0.8, 0.7, 0.7, 0.6, 0.9))
    return frame.drop(index=np.arange(1, 200, 2)).reset_index(drop=True), make_probabilities(y)


@pytest.fixture(scope="module")
def plain(crowd):
    """What is said about them."""
    frame, p = crowd
    return judged(frame, p)


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_copies_change_nothing_that_is_stated(crowd, plain, share):
    frame, p = crowd
    some = frame.sample(frac=share, random_state=0)
    found = judged(pd.concat([frame, some, some, some]), p)
    n, more = len(frame), 3 * len(some)
    assert found.summary.warnings[0] == (
        f"{more} of {n + more} rows repeat an answer of the same annotator to the same item; together they count "
        "as one answer."
    )
    for name in ("rate", "low", "high"):
        assert getattr(found.summary.noise, name) == pytest.approx(getattr(plain.summary.noise, name), abs=0.01)
    expected, curve = plain.summary.detection, found.summary.detection.curve
    assert found.summary.detection.expected_precision == pytest.approx(expected.expected_precision, abs=0.01)
    assert curve[-1].n == n
    assert found.summary.verdict == plain.summary.verdict
    assert found.summary.agreement.alpha == pytest.approx(plain.summary.agreement.alpha)
    assert found.items["num_annotations"].tolist() == plain.items["num_annotations"].tolist()
    assert np.abs(found.items["consensus_quality"] - plain.items["consensus_quality"]).max() < 0.02
    both = found.annotators.merge(plain.annotators, on="annotator")
    assert len(both) == 6
    assert (both["num_labelled_x"] == both["num_labelled_y"]).all()
    assert np.abs(both["annotator_quality_x"] - both["annotator_quality_y"]).max() < 0.01
    of_copies, own = found.predictions["label_quality"].to_numpy()[n:], plain.predictions["label_quality"]
    assert np.abs(of_copies - np.tile(own.loc[some.index].to_numpy(), 3)).max() < 0.02


def test_a_reason_counts_people_not_rows(crowd):
    frame, p = crowd
    reasons = judged(pd.concat([frame] * 3), p).predictions["reason"]
    assert reasons.str.contains("The only other label").any()
    assert not reasons.str.contains("other labels").any()


def test_other_methods_have_the_same_consensus():
    rows, spec, log_p, _ = made(per_item=1)
    again = torch.arange(400).repeat(3)
    twice = dataclasses.replace(rows.subset(again), vote=again)
    found = []
    for each in (rows, twice):
        answers = AnswerRows.fit(each, spec, np.ones(len(each), bool))
        found.append(judge_all(fit_judge(answers.of(np.arange(400))[0], log_p), log_p, answers))
    assert found[0] == pytest.approx(found[1], abs=1e-3)


def test_rows_of_a_vote_share_its_weight():
    rows = Rows.build(np.zeros((3, 1)), np.array([0, 0, 1, 2]), np.zeros(4, int), vote=np.array([5, 5, 6, 7]))
    assert rows.weighted_by_vote().weight.tolist() == pytest.approx([2 / 3, 2 / 3, 4 / 3, 4 / 3])
    assert rows.subset(np.array([2, 0])).vote.tolist() == [6, 5]
    frame = pd.DataFrame({"item": [0, 0, 0, 1], "label": list("aabb"), "annotator": list("xxyx")})
    table = AnnotationTable.from_frame(frame)
    assert vote_shares(table, np.ones(4)).tolist() == [[0.5, 0.5], [0, 1]]
    job = prepare(table, load_probabilities(np.full((2, 2), 0.5), [0, 1]), FitOptions.judging())
    assert job.counted.tolist() == [1, 2, 3]


# --- annotators who copy each other ---


@pytest.fixture(scope="module")
def copied():
    """Answers of three people, of whom ann and bob have the same; and a classifier's probabilities."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 300)
    answers = [np.where(rng.random(300) < 0.65, y, (y + rng.integers(1, 3, 300)) % 3) for _ in range(2)]
    given = {"ann": answers[0], "bob": answers[0], "cid": answers[1]}
    frame = pd.concat(
        [pd.DataFrame({"item": range(300), "label": said, "annotator": who}) for who, said in given.items()]
    )
    return frame, y, make_probabilities(y, strength=4.0)


def test_copies_count_as_one_voter(copied):
    frame, y, p = copied
    found = judged(frame, p)
    assert found.summary.copies == [CopyGroup(["ann", "bob"], 300, 300)]
    wrong = float((frame["label"].to_numpy() != np.tile(y, 3)).mean())
    assert found.summary.noise.low < wrong < found.summary.noise.high
    assert found.summary.noise.rate == pytest.approx(wrong, abs=0.04)
    assert (found.items["consensus_label"] == y).mean() > 0.85
    assert dict(found.annotators.set_index("annotator")["copies"].dropna()) == {"ann": "bob", "bob": "ann"}
    alone = judged(frame[frame["annotator"] != "bob"], p)
    assert np.abs(found.items["consensus_quality"] - alone.items["consensus_quality"]).mean() < 0.02
    assert alone.summary.copies == []
    assert alone.annotators["copies"].isna().all()


def test_without_inputs_the_verdict_says_that_nothing_is_known(copied):
    found = judged(copied[0])
    assert found.summary.copies == []
    assert found.summary.verdict.status == "doubtful"
    assert "whether they know or copy" in found.summary.verdict.reasons[-1]


def test_a_killed_second_fit_is_continued(copied, tmp_path):
    frame, y, _ = copied
    x = np.eye(3)[y] * 4 + np.random.default_rng(0).normal(size=(300, 3))
    table, inputs = AnnotationTable.from_frame(frame, keep_ids=True), Inputs.from_array(x, source="x")
    options = FitOptions()
    whole = fit_table(table, inputs, tmp_path / "whole", options)
    second = tmp_path / "run" / "state" / "merged"
    with pytest.raises(Interrupted):
        fit_table(table, inputs, tmp_path / "run", options, save_every=0, stop=lambda: second.exists())
    assert second.exists()
    run = fit_table(table, inputs, tmp_path / "run", options, resume=True)
    assert run.summary.copies == whole.summary.copies
    pd.testing.assert_frame_equal(run.predictions.frame, whole.predictions.frame)
    assert "ann and bob gave the same answers, wrong ones too" in (run.path / "report.html").read_text()


def test_a_pickle_does_not_name_those_who_copy(copied):
    frame, y, _ = copied
    x = np.eye(3)[y] * 4 + np.random.default_rng(0).normal(size=(300, 3))
    model = pidual.CrowdClassifier(estimator=LogisticRegression(), random_state=0)
    with pytest.warns(DataWarning, match="ann and bob gave the same answers"):
        model.fit(np.tile(x, (3, 1)), frame["label"], pi=frame[["annotator"]])
    assert model.summary_.copies[0].annotators == ["ann", "bob"]
    text = pickle.dumps(model)
    assert not any(name in text for name in (b"ann\x94", b"bob", b"ann and"))
    again = pickle.loads(text)
    names = again.summary_.copies[0].annotators
    assert dict(again.annotators_.set_index("annotator")["copies"].dropna()) == {names[0]: names[1], names[1]: names[0]}
