"""What a run found, in sentences."""

import pytest

from pidual.detect.sentences import describe_decisions, describe_expected, describe_precision, whole_percent


def test_the_first_line_of_a_fit_says_how_far_its_list_can_be_trusted():
    found = {"expected_precision": 0.84, "precision_low": 0.61, "precision_high": 0.98}
    assert describe_precision(found) == ", of which 84% are expected to be (61% to 98%)."
    sure = {"expected_precision": 0.9987, "precision_low": 0.9926, "precision_high": 1.0}
    assert describe_precision(sure) == ", of which over 99% are expected to be (99% to 100%)."
    level = {"expected_precision": 0.842, "precision_low": 0.838, "precision_high": 0.98}
    assert describe_precision(level) == ", of which 84% are expected to be (84% to 98%)."
    assert describe_precision(sure | {"precision_low": 0.9961}) == ", of which over 99% are expected to be."
    assert describe_precision(dict.fromkeys(found)) == "."


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
    counts = {"n_decisions": n, "n_unsure": 0, "n_consensus_changed": n, "n_others_changed": 0}
    about = counts | {"run": "run", "n_issues": [5, 4], "noise_rate": [0.2, 0.1]}
    assert describe_decisions(about) == [
        f"{text}, 0 of which nobody looked at; labels that look wrong 5 -> 4, estimated noise 20.0% -> 10.0%."
    ]
