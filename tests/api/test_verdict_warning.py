"""Who calls from Python gets one warning about a result that failed or is doubtful, with all reasons, and none else."""

import warnings

import numpy as np
import pandas as pd
import pytest

from pidual import AnnotationTable, CrowdClassifier, DataWarning, FitOptions, fit_table, judge, judge_pairs, load_inputs
from pidual.data.datasets.synthetic import make_crowd
from pidual.errors import VerdictWarning

pytestmark = pytest.mark.shapes_unchecked


@pytest.fixture(scope="module")
def crowd():
    return make_crowd(200, 8, 3, 3, 4, noise=0.2, seed=0)


def verdicts_of(call):
    """What a call returns, and the texts of its warnings about verdicts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = call()
    found = [each for each in caught if issubclass(each.category, VerdictWarning)]
    assert all(each.filename == __file__ for each in found)
    return made, [str(each.message) for each in found]


def said(verdict):
    """The warning that a verdict must give."""
    words = {"failed": "do not use this result", "doubtful": "do not rely on this result alone"}
    if verdict.status == "ok":
        return []
    return [f"The verdict is {verdict.status}: {words[verdict.status]}. {' '.join(verdict.reasons)}"]


def test_a_classifier_warns_where_its_labels_have_nothing_to_do_with_x(crowd):
    inputs, labels, drawn = crowd.x[crowd.frame["item"]], crowd.frame["label"].to_numpy(), np.random.default_rng(0)
    for x, y, status in (
        (inputs, labels, "ok"),
        (inputs, drawn.permutation(labels), "doubtful"),
        (drawn.normal(size=(600, 4)), drawn.integers(0, 3, 600), "failed"),
    ):
        model, texts = verdicts_of(lambda x=x, y=y: CrowdClassifier().fit(x, y))
        assert model.summary_.verdict.status == status
        assert texts == said(model.summary_.verdict)


def test_judge_warns_of_columns_in_another_order_and_of_answers_alone(crowd):
    frame = crowd.frame[["item", "label", "annotator"]]
    p = np.full((200, 3), 0.05)
    p[np.arange(200), crowd.frame.drop_duplicates("item").sort_values("item")["y"]] = 0.9
    judged, texts = verdicts_of(lambda: judge(frame, p))
    assert (judged.summary.verdict.status, texts) == ("ok", [])
    single = frame.drop_duplicates("item")
    for judged, texts in (verdicts_of(lambda: judge(frame, p[:, [1, 2, 0]])), verdicts_of(lambda: judge(single))):
        assert judged.summary.verdict.status == "doubtful"
        assert texts == said(judged.summary.verdict)
        assert repr(judged).endswith("issues, doubtful)")


def test_fit_table_warns_and_the_run_shows_it(crowd, tmp_path):
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator"], keep_ids=True)
    noise = load_inputs(np.random.default_rng(0).normal(size=crowd.x.shape).astype(np.float32))
    run, texts = verdicts_of(lambda: fit_table(table, noise, tmp_path / "run", FitOptions()))
    assert run.summary.verdict.status == "doubtful"
    assert texts == said(run.summary.verdict)
    assert repr(run) == f"Run({str(tmp_path / 'run')!r}, doubtful)"


def test_judge_pairs_warns_of_comparisons_that_are_not_clear():
    battles = pd.DataFrame({"left": list("aabbcc") * 3, "right": list("bcacab") * 3, "winner": list("aabbab") * 3})
    judged, texts = verdicts_of(lambda: judge_pairs(battles))
    assert judged.verdict == "doubtful"
    assert len(texts) == 1
    assert "Which item is better is not clear for many pairs" in texts[0]
    assert repr(judged).endswith("issues, doubtful)")


def test_it_is_a_warning_about_the_data():
    assert issubclass(VerdictWarning, DataWarning)
