"""One person, one item, one vote: what repeats an answer changes nothing that a run states."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from test_consensus import judge_all, made
from test_judge import make_answers, make_probabilities

import pidual
from pidual.batch import Rows
from pidual.data import AnnotationTable, load_probabilities
from pidual.run.any_classifier import vote_shares
from pidual.run.consensus import fit_judge
from pidual.run.without_x import prepare_judging


@pytest.fixture(scope="module")
def crowd():
    """Answers of eight people, one or two to an item, and a classifier's probabilities."""
    frame, y = make_answers(150, per_item=2, right=(0.9, 0.8, 0.7, 0.7, 0.6, 0.9))
    return frame.drop(index=np.arange(1, 200, 2)).reset_index(drop=True), make_probabilities(y)


@pytest.fixture(scope="module")
def plain(crowd):
    """What is said about them."""
    frame, p = crowd
    return pidual.judge(frame, p)


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_copies_change_nothing_that_is_stated(crowd, plain, share):
    frame, p = crowd
    some = frame.sample(frac=share, random_state=0)
    found = pidual.judge(pd.concat([frame, some, some, some]), p)
    n, more = len(frame), 3 * len(some)
    assert found.summary["warnings"][0] == (
        f"{more} of {n + more} rows repeat an answer of the same person to the same item; together they count as one "
        "answer."
    )
    for name in ("rate", "low", "high"):
        assert found.summary["noise"][name] == pytest.approx(plain.summary["noise"][name], abs=0.01)
    expected, curve = plain.summary["detection"], found.summary["detection"]["curve"]
    assert found.summary["detection"]["expected_precision"] == pytest.approx(expected["expected_precision"], abs=0.01)
    assert curve[-1]["n"] == n
    assert found.summary["verdict"] == plain.summary["verdict"]
    assert found.summary["agreement"]["alpha"] == pytest.approx(plain.summary["agreement"]["alpha"])
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
    reasons = pidual.judge(pd.concat([frame] * 3), p).predictions["reason"]
    assert reasons.str.contains("The only other label").any()
    assert not reasons.str.contains("other labels").any()


def test_other_methods_have_the_same_consensus():
    rows, spec, log_p, _ = made(per_item=1)
    again = torch.arange(400).repeat(3)
    twice = dataclasses.replace(rows.subset(again), vote=again)
    judge, other = (
        fit_judge(log_p, torch.arange(400), each, np.zeros(len(each), np.int8), spec) for each in (rows, twice)
    )
    assert other.sharpness == judge.sharpness
    assert np.abs(judge_all(judge, log_p, rows) - judge_all(other, log_p, twice)).max() < 0.05


def test_rows_of_a_vote_share_its_weight():
    rows = Rows.build(np.zeros((3, 1)), np.array([0, 0, 1, 2]), np.zeros(4, int), vote=np.array([5, 5, 6, 7]))
    assert rows.weighted_by_vote().weight.tolist() == pytest.approx([2 / 3, 2 / 3, 4 / 3, 4 / 3])
    assert rows.subset(np.array([2, 0])).vote.tolist() == [6, 5]
    frame = pd.DataFrame({"item": [0, 0, 0, 1], "label": list("aabb"), "annotator": list("xxyx")})
    table = AnnotationTable.from_frame(frame)
    assert vote_shares(table, np.ones(4)).tolist() == [[0.5, 0.5], [0, 1]]
    job = prepare_judging(table, load_probabilities(np.full((2, 2), 0.5), [0, 1]))
    assert job.counted.tolist() == [1, 2, 3]
