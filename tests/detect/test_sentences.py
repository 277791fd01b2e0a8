"""What a run found, in sentences."""

import pytest
from msgspec.structs import replace

from pidual.detect.sentences import (
    describe_contradiction,
    describe_decisions,
    describe_direction,
    describe_expected,
    describe_gold,
    describe_precision,
    describe_worth,
    whole_percent,
)
from pidual.run.records.summary import Detection, FromRun, GoldEstimates, PIDirection, PIWorth, Rate


def test_the_first_line_of_a_fit_says_how_far_its_list_can_be_trusted():
    assert describe_precision(Detection(0.84, 0.61, 0.98, [], [])) == ", of which 84% are expected to be (61% to 98%)."
    sure = Detection(0.9987, 0.9926, 1.0, [], [])
    assert describe_precision(sure) == ", of which over 99% are expected to be (99% to 100%)."
    level = Detection(0.842, 0.838, 0.98, [], [])
    assert describe_precision(level) == ", of which 84% are expected to be (84% to 98%)."
    assert describe_precision(replace(sure, precision_low=0.9961)) == ", of which over 99% are expected to be."
    assert describe_precision(Detection(None, None, None, [], [])) == "."


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.004, "under 1%"), (0.006, "1%"), (0.994, "99%"), (0.996, "over 99%"), (1, "100%")]
)
def test_shares_in_whole_per_cent(share, text):
    assert whole_percent(share) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "none"), (0.004, "under 1%"), (0.96, "about 96%"), (0.996, "over 99%"), (1, "all")]
)
def test_an_expected_share_in_words(share, text):
    assert describe_expected(share) == text


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (1, "1 decision on run was used: the consensus of 1 item changed"),
        (2, "2 decisions on run were used: the consensus of 2 items changed"),
    ],
)
def test_decisions_that_were_used_in_words(n, text):
    about = FromRun("run", None, n, 0, 0, n, 0, (5, 4), (0.2, 0.1))
    assert describe_decisions(about) == [
        f"{text}, 0 of which nobody looked at; labels that look wrong 5 -> 4, estimated noise 20.0% -> 10.0%."
    ]


def test_what_checked_items_say_and_what_they_contradict():
    accuracy, noise = Rate(0.95, 0.91, 0.98), Rate(0.232, 0.212, 0.254)
    found = GoldEstimates(
        100, 1.0, 2.0, noise, accuracy, [], stated_noise=0.259, stated_accuracy=0.94, contradicted=True
    )
    assert describe_gold(found) == [
        "By your 100 checked items the consensus is right for 95.0% (91.0% to 98.0%) of the others; before: 94.0%.",
        "Of the labels, 23.2% (21.2% to 25.4%) are wrong; before: 25.9%.",
    ]
    said = "By your 100 checked items the share of wrong labels is 23.2% (21.2% to 25.4%), not 25.9% as stated before"
    assert describe_contradiction(found) == f"{said}; all numbers here follow them."
    assert found.holds_accuracy
    assert not replace(found, stated_accuracy=0.99).holds_accuracy
    assert describe_contradiction(replace(found, contradicted=False)) is None


@pytest.mark.parametrize(("difference", "words"), [(0.0104, "1 point more"), (0.0204, "2 points more")])
def test_one_point_is_no_points(difference, words):
    found = PIDirection("tool", "web", "phone", "cat", difference, 0.001, 0.03, 0, True)
    assert f"'cat' {words} often than their items deserve" in describe_direction(found)


@pytest.mark.parametrize(
    ("n", "low", "end"),
    [
        (400, 0.01, "points); so PI helped."),
        (400, -0.01, "points); so this does not show that PI helped."),
        (30, -0.01, "points); so this does not show that PI helped (30 items are few)."),
    ],
)
def test_a_control_ends_with_what_follows_from_it(n, low, end):
    worth = [PIWorth(what, n, 0.8, 0.75, 0.05, low, 0.11) for what in ("their noisy labels", "the consensus")]
    assert describe_worth(worth).endswith(end)
