import numpy as np
import pandas as pd
import pytest

from pidual import detect
from pidual.detect import describe_annotators, mark_issues
from pidual.run.predictions import Predictions
from pidual.show.report.words import sure

BASE = {"classes": ["cat", "dog", "eel"], "predicted_probability": [0.97] * 4, "label_quality": [0.012, 0.9, 0.9, 0.9]}


def find_parts(is_issue, *, classes, given, predicted, by_input=None, item=None, annotator=None, pi=None, **consensus):
    """The parts of the reasons, by arrays; `predicted` is the consensus, and `by_input` what the model says."""
    frame = pd.DataFrame({"label": pd.Categorical.from_codes(given, pd.Index(classes))})
    frame["item"] = pd.Categorical(np.arange(len(given)) if item is None else item)
    if annotator is not None:
        frame["annotator"] = pd.Categorical(annotator)
    sure = consensus["predicted_probability"]
    model = (predicted, sure) if by_input is None else by_input
    made = Predictions.build(
        frame if pi is None else frame.join(pi),
        classes,
        predicted_label=model[0],
        predicted_probability=model[1],
        consensus_label=predicted,
        consensus_quality=sure,
        label_quality=consensus["label_quality"],
        pi_columns=[] if pi is None else list(pi),
        has_input=by_input is not None,
    )
    return detect.find_reasons(made, is_issue)


def find_reasons(is_issue, **evidence):
    """The whole reason of each issue."""
    return find_parts(is_issue, **evidence).get("whole", [])


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ([0], "The only other label of this item says cat."),
        ([1], "The only other label of this item says the same as this one."),
        ([2], "The only other label of this item says something else again."),
        ([0, 0], "Both other labels of this item say cat."),
        ([0, 0, 0], "All 3 other labels of this item say cat."),
        ([1, 1], "Both other labels of this item say the same as this one."),
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
    assert reason == [f"The consensus is cat (99.9%), not dog (0.1%). {text}"]


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ([1], "The only other label of this item says the same as this one."),
        ([2], "The only other label of this item says something else."),
        ([1, 1], "Both other labels of this item say the same as this one."),
        ([1, 2], "1 of 2 other labels of this item says the same as this one."),
        ([0, 2, 2], "None of 3 other labels of this item says the same as this one."),
        ([1, 1, 2], "2 of 3 other labels of this item say the same as this one."),
    ],
)
def test_votes_where_no_other_class_is_likelier(others, text):
    n = 1 + len(others)
    reason = find_reasons(
        [True] + [False] * (n - 1),
        classes=["cat", "dog", "eel"],
        given=[1, *others],
        predicted=[1] * n,
        label_quality=[0.4] * n,
        predicted_probability=[0.7] * n,
        by_input=([1] * n, [0.6] + [0.7] * (n - 1)),
        item=[0] * n,
    )
    label = "The consensus is dog as labelled (70%), but rests on this one answer: counted half, it has 40%."
    assert reason == [f"{label} {text} By its input alone it is dog as labelled (60%)."]


def test_no_annotator_is_named_by_chance_or_by_the_one_label_in_question():
    named = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth, who = rng.integers(0, 30, 1200), np.concatenate([rng.integers(0, 40, 1000), np.arange(40, 240)])
        given = np.where(rng.random(1200) < 0.85, truth, (truth + 1 + rng.integers(0, 29, 1200)) % 30)
        evidence = {"classes": list(range(30)), "label_quality": np.full(1200, 0.1), "annotator": who}
        reasons = find_reasons(
            given != truth, given=given, predicted=truth, predicted_probability=np.full(1200, 0.9), **evidence
        )
        named += any("of this annotator's labels" in reason for reason in reasons)
    assert named <= 1


def test_the_record_of_an_annotator_is_no_reason_if_this_is_their_only_mistake():
    truth, who = np.zeros(200, int), np.arange(200) // 10
    given = np.isin(np.arange(200), [0, 10, 11]).astype(int)  # one mistake of the first, two of the second
    args = {"given": given, "predicted": truth, "predicted_probability": np.full(200, 0.9), "annotator": who}
    reasons = find_reasons(given != truth, classes=["cat", "dog"], label_quality=np.full(200, 0.1), **args)
    said = "The consensus is cat (90%), not dog (10%)."
    record = " This annotator is right on 8 of 10 items that are cat (80%; all: 98%)."
    assert reasons == [said, said + record, said + record]


def crowd(n=2000, bad=True, **pi) -> dict:
    """Every tenth label wrong; annotator 0 gives half of them, unless nobody is bad."""
    wrong = np.arange(n) % 10 == 0
    given = wrong.astype(int)
    annotator = np.where(bad & (np.arange(n) % 20 == 0), 0, 1 + np.arange(n) // 10 % 9)
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


def test_annotator_on_a_class_by_plain_loops():
    rng = np.random.default_rng(0)
    truth, who = rng.integers(0, 3, 4000), rng.integers(0, 12, 4000)
    given = np.where(rng.random(4000) < 0.9, truth, rng.integers(0, 3, 4000))
    given = np.where((who == 7) & (truth == 1) & (rng.random(4000) < 0.4), 2, given)
    issue = given != truth
    base = {"classes": ["cat", "dog", "eel"], "label_quality": np.full(4000, 0.1)}
    reasons = find_parts(
        issue, given=given, predicted=truth, predicted_probability=np.full(4000, 0.9), annotator=who, **base
    )["annotator"]
    count = ((who == 7) & (truth == 1) & (given == 2)).sum()
    n = ((who == 7) & (truth == 1)).sum()
    rest = ((who != 7) & (truth == 1) & (given == 2)).sum(), ((who != 7) & (truth == 1)).sum()
    usual = (count + rest[0]) / (n + rest[1])
    others = (rest[0] + 2 * usual) / (rest[1] + 2)
    share = count / n
    expected = (
        f"This annotator says eel to {share:.0%} of items that are dog ({count} of {n}); the others to {others:.0%}."
    )
    for row, text in zip(np.flatnonzero(issue), reasons, strict=True):
        on_this = who[row] == 7 and truth[row] == 1 and given[row] == 2
        assert (text == expected) == on_this
        assert on_this or "This annotator says" not in text


def test_an_annotator_who_is_bad_at_everything():
    rng = np.random.default_rng(0)
    truth, who = rng.integers(0, 40, 2000), rng.integers(0, 5, 2000)
    given = np.where(rng.random(2000) < np.where(who == 0, 0.5, 0.9), truth, rng.integers(0, 40, 2000))
    base = {"classes": list(range(40)), "label_quality": np.full(2000, 0.1), "annotator": who}
    reasons = find_reasons(
        given != truth, given=given, predicted=truth, predicted_probability=np.full(2000, 0.9), **base
    )
    share, rest = (given == truth)[who == 0].mean(), (given == truth)[who > 0].mean()
    text = f"The consensus agrees with {share:.0%} of this annotator's labels, with {rest:.0%} of the others'."
    assert [text in reason for reason in reasons] == (who[given != truth] == 0).tolist()


def test_pairs_of_classes_that_are_confused():
    truth = np.repeat([0, 1, 2], 1000)
    given = truth.copy()
    given[:300] = 1  # of the cats
    given[[1000, 2000, 2001]] = [2, 0, 1]
    base = {"classes": ["cat", "dog", "eel"], "label_quality": np.full(3000, 0.1)}
    parts = find_parts(given != truth, given=given, predicted=truth, predicted_probability=np.full(3000, 0.9), **base)
    assert parts["pair"] == ["30% of the answers to items that are cat say dog."] * 300 + [""] * 3


def fast_answers(n=2000):
    """A quarter of the wrong answers, and no others, take 0.4."""
    return np.where(np.arange(n) % 40 == 0, 0.4, np.random.default_rng(0).uniform(1, 5, n))


def test_extreme_values_only_where_they_go_with_issues():
    pi = {"reaction_time_s": fast_answers(), "clicks": np.random.default_rng(1).permutation(2000) * 1.0}
    reasons = find_reasons(**crowd(bad=False, **pi, constant=np.ones(2000)))
    assert "Answered in 0.4 s, faster than 98% of answers; 5" in reasons[0]
    assert "% of such answers look wrong, where 10% would be usual." in reasons[0]
    assert not any("clicks" in reason or "constant" in reason for reason in reasons)
    assert not any("Answered" in reason for reason in reasons[1:4])


def test_units_come_from_the_column_name():
    fast = fast_answers()
    when = pd.Timestamp("2026-01-01") - pd.to_timedelta(fast, unit="h").round("s")
    for column, values, text in (
        ("time_ms", fast, "Answered in 0.4 ms, faster than 98% of answers"),
        ("reactionTime", fast, "reactionTime is 0.4, faster than 98% of answers"),
        ("trial", -fast, "trial is -0.4, higher than 98% of answers"),
        ("created", when, "created is 2025-12-31 23:36:00, later than 98% of answers"),
        ("seconds", np.where(fast < 1, np.nan, fast), "seconds is missing; 100% of such answers look wrong"),
    ):
        assert text in find_reasons(**crowd(bad=False, **{column: values}))[0]


def test_categories_and_missing_values():
    tool = np.where(np.arange(2000) % 20 == 0, "phone", "web")
    level = np.where(np.arange(2000) % 20 == 0, 3, np.arange(2000) % 3)
    reasons = find_reasons(**crowd(bad=False, tool=tool, level=level, age=np.arange(2000.0)))
    assert "tool is phone; 100% of such answers look wrong, where 10% would be usual." in reasons[0]
    assert "level is 3; 100% of such answers" in reasons[0]
    assert "tool" not in reasons[1]
    assert not any("nan" in reason for reason in reasons)


def test_what_is_no_more_than_who_it_was_is_not_named():
    """The bad annotator has a phone: that is said about the annotator, not of phones."""
    args = crowd(tool=np.where(np.arange(2000) % 20 == 0, "phone", "web"))
    assert "tool" not in find_reasons(**args)[0]
    assert "tool is phone" in find_reasons(**(args | {"annotator": None}))[0]


def test_values_of_a_column_like_an_id_are_not_written():
    person = np.where(np.arange(2000) % 20 == 0, "anna@example.org", [f"p{i % 70}" for i in range(2000)])
    reason = find_reasons(**crowd(bad=False, person=person))[0]
    assert "anna" not in reason
    assert "Of answers with the same person, 100% look wrong, where 10% would be usual." in reason


def test_what_weighs_most_comes_first():
    fast = np.where(np.arange(2000) % 20 == 0, 0.4, np.random.default_rng(0).uniform(1, 5, 2000))
    people = {"annotator": (np.arange(2000) + np.arange(2000) // 10) % 10}  # ten for each item
    reason = find_reasons(**crowd(bad=False, seconds=fast) | people, item=np.arange(2000) // 10)[0]
    votes, pi = reason.index("All 9 other labels"), reason.index("Answered in 0.4 s")
    assert reason.startswith("The consensus is cat")
    assert votes < pi
    reason = find_reasons(**crowd(bad=False, seconds=fast), item=(np.arange(2000) + 1) // 2)[2]
    assert reason.index("Answered in 0.4 s") < reason.index("The only other label")


def test_one_answer_an_item_has_a_reason_beside_the_label():
    given, consensus = np.array([1, 0, 0, 1]), np.array([0, 1, 1, 1])
    model = (np.array([0, 2, 0, 1]), np.array([0.993, 0.5, 0.61, 0.7]))
    votes = find_parts(
        [True, True, True, False],
        given=given,
        predicted=consensus,
        by_input=model,
        item=np.arange(4),
        **BASE,
    )["votes"]
    assert votes == [
        "By its input alone it is cat too (99.3%).",
        "By its input alone it is eel (50%).",
        "By its input alone it is cat as labelled (61%).",
    ]
    blind = (np.zeros(4, int), np.full(4, 0.5))  # there is no input
    args = {"given": given, "predicted": consensus, "item": np.arange(4)}
    assert find_parts([True] * 4, **args, by_input=blind, **BASE)["votes"] == [""] * 4


def test_shares_are_rounded_as_in_the_report():
    shares = np.concatenate([np.linspace(0.011, 0.989, 979), [0.60531, 0.6045, 0.6055]]).astype(np.float32)
    args = {"given": np.ones(len(shares), int), "predicted": np.zeros(len(shares), int), "label_quality": shares}
    reasons = find_reasons(np.ones(len(shares), bool), classes=["cat", "dog"], predicted_probability=shares, **args)
    assert reasons == [f"The consensus is cat ({sure(p)}), not dog ({sure(p)})." for p in shares.tolist()]


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
    known = {name: args[name] for name in ("predicted_probability", "label_quality")}
    known["predicted_label"] = args["predicted"]
    marked, cutoff = mark_issues(Predictions.build(frame, ["cat", "dog"], **known, pi_columns=["annotator", "pace_s"]))
    assert cutoff.kind == "auto"
    assert (marked.is_issue == args["is_issue"]).all()
    assert (marked.frame["reason"] != "").to_numpy().tolist() == args["is_issue"].tolist()
    assert not any("a-0000" in reason for reason in marked.frame["reason"])
    people = describe_annotators(marked, marked.label_quality)
    assert people is not None
    assert people["annotator"][0] == "a-000000000000"
    assert people["num_issues"].sum() == marked.n_issues


def test_an_issue_is_a_label_of_low_quality_that_the_consensus_of_several_does_not_confirm():
    rng = np.random.default_rng(0)
    given, predicted, consensus = np.zeros(300, int), np.zeros(300, int), np.zeros(300, int)
    predicted[:40], consensus[20:60] = 1, 1
    quality = np.where(np.arange(300) < 60, rng.uniform(0.01, 0.1, 300), rng.uniform(0.9, 0.99, 300))
    items = np.arange(300)
    items[-10:] = np.arange(10)  # which the first ten labels are not the only answers to
    frame = pd.DataFrame({"item": pd.Categorical(items), "label": pd.Categorical.from_codes(given, ["cat", "dog"])})
    known = {"predicted_label": predicted, "predicted_probability": np.full(300, 0.8), "label_quality": quality}
    both = known | {"consensus_label": consensus, "consensus_quality": np.full(300, 0.9)}
    marked, _ = mark_issues(Predictions.build(frame, ["cat", "dog"], **both))
    assert np.flatnonzero(marked.is_issue).tolist() == list(range(10, 60))
    assert np.flatnonzero(marked.is_resting).tolist() == list(range(10))
    copies, _ = mark_issues(Predictions.build(frame, ["cat", "dog"], **both), np.arange(290))
    assert not copies.is_resting.any()  # as the last ten rows repeat answers
    assert marked.frame["reason"][0].startswith("The consensus is cat as labelled (90%), but rests on this one answer")
    assert marked.frame["reason"][20].startswith("The consensus is dog (90%), not cat (")
