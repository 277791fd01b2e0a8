import numpy as np
import pandas as pd
import pytest

from pidual.detect import describe_annotators, find_reasons, mark_issues
from pidual.errors import UsageError
from pidual.predictions import Predictions

BASE = {"classes": ["cat", "dog", "eel"], "predicted_probability": [0.97] * 4, "label_quality": [0.012, 0.9, 0.9, 0.9]}


def test_model_and_votes():
    given, predicted = [1, 0, 0, 1], [0, 0, 0, 0]
    first = find_reasons([True, False, False, False], given=given, predicted=predicted, item=[5, 5, 5, 5], **BASE)
    assert first == [
        "The model says cat (97%), not dog (1%). 2 of 3 other labels of this item say cat, 1 agrees with this one."
    ]
    alone = find_reasons([True, False, False, False], given=given, predicted=predicted, item=[0, 1, 2, 3], **BASE)
    assert alone == ["The model says cat (97%), not dog (1%)."]


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ([0], "The only other label of this item says cat."),
        ([1], "The only other label of this item says the same as this one."),
        ([2], "The only other label of this item says something else again."),
        ([0, 0], "All 2 other labels of this item say cat."),
        ([1, 1], "All 2 other labels of this item say the same as this one."),
        ([2, 2], "None of 2 other labels of this item say cat, none agree with this one."),
        ([0, 2, 1], "1 of 3 other labels of this item says cat, 1 agrees with this one."),
    ],
)
def test_votes_in_words(others, text):
    given = [1, *others]
    n = len(given)
    reason = find_reasons(
        [True] + [False] * (n - 1),
        classes=["cat", "dog", "eel"],
        given=given,
        predicted=[0] * n,
        label_quality=[0.001] * n,
        predicted_probability=[0.999] * n,
        item=[0] * n,
    )
    assert reason == [f"The model says cat (over 99%), not dog (under 1%). {text}"]


def crowd(n=2000, **pi) -> dict:
    """Every tenth label wrong; annotator 0 gives most of them."""
    wrong = np.arange(n) % 10 == 0
    given = wrong.astype(int)
    annotator = np.where(wrong & (np.arange(n) % 20 == 0), 0, 1 + np.arange(n) % 9)
    quality = np.where(wrong, 0.02, 0.95)
    return {
        "is_issue": wrong,
        "classes": ["cat", "dog"],
        "given": given,
        "predicted": np.zeros(n, dtype=int),
        "label_quality": quality,
        "predicted_probability": np.full(n, 0.95),
        "annotator": annotator,
        "pi": pd.DataFrame(pi) if pi else None,
    }


def test_annotator_is_compared_with_the_rest():
    reasons = find_reasons(**crowd())
    assert "The model agrees with 0% of this annotator's labels, with 95% of the others'." in reasons[0]
    assert "this annotator" not in reasons[1]


def test_extreme_values_only_where_they_go_with_issues():
    rng = np.random.default_rng(0)
    wrong = np.arange(2000) % 10 == 0
    fast = np.where(wrong & (np.arange(2000) % 40 == 0), 0.4, rng.uniform(1, 5, 2000))
    pi = {"reaction_time_s": fast, "clicks": rng.permutation(2000) * 1.0, "constant": np.ones(2000)}
    reasons = find_reasons(**crowd(**pi))
    assert "Answered in 0.4 s, faster than 98% of answers." in reasons[0]
    assert not any("clicks" in reason or "constant" in reason for reason in reasons)


def test_units_come_from_the_column_name():
    fast = np.where(np.arange(2000) % 40 == 0, 0.4, np.linspace(1, 5, 2000))
    assert "Answered in 0.4 ms, faster than" in find_reasons(**crowd(time_ms=fast))[0]
    assert "reactionTime is 0.4, faster than" in find_reasons(**crowd(reactionTime=fast))[0]
    assert "trial is -0.4, higher than" in find_reasons(**crowd(trial=-fast))[0]


def test_categories_and_missing_values():
    tool = np.where(np.arange(2000) % 20 == 0, "phone", "web")
    age = np.where(np.arange(2000) % 40 == 0, np.nan, np.arange(2000.0))
    reasons = find_reasons(**crowd(tool=tool, age=age))
    assert "tool is phone, of which 100% look wrong (10% overall)." in reasons[0]
    assert "tool" not in reasons[1]
    assert not any("nan" in reason for reason in reasons)


def test_values_of_a_column_like_an_id_are_not_written():
    person = np.where(np.arange(2000) % 20 == 0, "anna@example.org", [f"p{i % 70}" for i in range(2000)])
    reason = find_reasons(**crowd(person=person))[0]
    assert "anna" not in reason
    assert "Of labels with the same person, 100% look wrong (10% overall)." in reason


def test_gate_is_mentioned_only_when_open_and_unusual():
    args = crowd()
    gate = np.where(args["is_issue"], 0.93, 0.2)
    assert "(gate 0.93)" in find_reasons(**args, gate=gate)[0]
    assert not any("gate" in reason for reason in find_reasons(**args, gate=np.full(2000, 0.99)))


def test_nothing_to_explain():
    args = crowd()
    assert find_reasons(**(args | {"is_issue": np.zeros(2000, dtype=bool)})) == []
    with pytest.raises(UsageError, match="one value per annotation"):
        find_reasons(**(args | {"is_issue": [True]}))


def test_predictions_are_marked_with_reasons_and_annotators_described():
    args = crowd()
    frame = pd.DataFrame(
        {
            "item": pd.Categorical(np.arange(2000)),
            "label": pd.Categorical.from_codes(args["given"], ["cat", "dog"]),
            "annotator": pd.Categorical.from_codes(args["annotator"], [f"a-{i:012x}" for i in range(10)]),
            "pace_s": np.where(args["is_issue"], 0.1, 3.0),
        }
    )
    known = {name: args[name] for name in ("predicted", "predicted_probability", "label_quality")}
    marked, cutoff = mark_issues(Predictions.build(frame, ["cat", "dog"], **known, pi_columns=["annotator", "pace_s"]))
    assert cutoff.kind == "auto"
    assert (marked.is_issue == args["is_issue"]).all()
    assert (marked.frame["reason"] != "").to_numpy().tolist() == args["is_issue"].tolist()
    assert not any("a-0000" in reason for reason in marked.frame["reason"])
    people = describe_annotators(marked, marked.label_quality)
    assert people is not None
    assert people["annotator"][0] == "a-000000000000"
    assert people["num_issues"].sum() == marked.n_issues
    few, _ = mark_issues(marked, budget=3)
    assert few.n_issues == 3


def test_an_issue_is_a_label_of_low_quality_and_its_reason_names_the_consensus():
    rng = np.random.default_rng(0)
    given, predicted, consensus = np.zeros(300, int), np.zeros(300, int), np.zeros(300, int)
    predicted[:40], consensus[20:60] = 1, 1
    quality = np.where(np.arange(300) < 60, rng.uniform(0.01, 0.1, 300), rng.uniform(0.9, 0.99, 300))
    frame = pd.DataFrame(
        {"item": pd.Categorical(np.arange(300)), "label": pd.Categorical.from_codes(given, ["cat", "dog"])}
    )
    known = {"predicted": predicted, "predicted_probability": np.full(300, 0.8), "label_quality": quality}
    both = known | {"consensus": consensus, "consensus_quality": np.full(300, 0.9)}
    marked, _ = mark_issues(Predictions.build(frame, ["cat", "dog"], **both))
    assert np.flatnonzero(marked.is_issue).tolist() == list(range(60))
    assert marked.frame["reason"][20].startswith("The consensus is dog (90%), not cat (")
    before, _ = mark_issues(Predictions.build(frame, ["cat", "dog"], **known))
    assert np.flatnonzero(before.is_issue).tolist() == list(range(60))
    assert before.frame["reason"][20].startswith("The model says dog (80%), not cat (")
