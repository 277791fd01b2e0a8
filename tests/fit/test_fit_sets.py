"""Sets of labels: every class judged by shared features and skill, and what is wrong with a planted table found."""

import numpy as np
import pandas as pd
import pytest

from pidual import AnnotationTable, FitOptions, Inputs, UsageError, fit_table, judge
from pidual.data import no_inputs
from pidual.fit.label_sets import OPEN, _judge, _Learner
from pidual.fit.prepare import prepare
from pidual.learn.answers.model import fit_answer_model, likelihood
from pidual.learn.engine import make_fabric

pytestmark = pytest.mark.shapes_unchecked
CLASSES = ["ant", "bee", "cod", "doe"]
SHARES = np.array([0.4, 0.3, 0.2, 0.06])


def planted(seed=0, n=150, classes=CLASSES):
    """Three of five people for each item: three careful ones, one who never ticks bee, one who ticks everything."""
    random = np.random.default_rng(seed)
    score = random.normal(size=(n, 4))
    true = score > np.quantile(score, 1 - SHARES, axis=0).diagonal()
    x = (score + 0.7 * random.normal(size=score.shape)) @ random.normal(size=(4, 10))
    rows, said = [], []
    for item in range(n):
        for who in random.permutation(5)[:3]:
            ticks = np.where(random.random(4) < 0.94, true[item], ~true[item])
            ticks = ticks & (np.arange(4) != 1) if who == 3 else ticks
            said.append(random.random(4) < 0.95 if who == 4 else ticks)
            rows.append((f"i{item:03d}", ["ann", "ben", "cem", "never", "every"][who]))
    frame = pd.DataFrame(rows, columns=["item", "annotator"])
    frame["label"] = [[classes[at] for at in np.flatnonzero(row)] for row in said]
    table = AnnotationTable.from_frame(frame, keep_ids=True)
    return table, Inputs.from_array(x.astype(np.float32), np.unique(frame["item"])), true, np.array(said)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    table, inputs, true, said = planted()
    return fit_table(table, inputs, tmp_path_factory.mktemp("sets") / "run"), true, said


def is_wrong(frame, true):
    item, tag = (frame[name].cat.codes.to_numpy() for name in ("tagged_item", "tag"))
    return (frame["given_label"].cat.codes.to_numpy() % 2 == 1) != true[item, tag]


def is_shared(predictions):
    """Whether a third of the other answers to its item say what each answer says."""
    frame = predictions.frame
    same, n = (
        frame.groupby(by, observed=True)["label_quality"].transform("size") for by in (["item", "given_label"], "item")
    )
    return ((n > 1) & (3 * (same - 1) >= n - 1)).to_numpy()


def test_wrong_and_missing_labels_are_listed(fitted):
    run, true, said = fitted
    predictions = run.predictions
    wrong, listed = is_wrong(predictions.frame, true), predictions.is_issue
    n_wrong = (said != np.repeat(true, 3, axis=0)).sum()
    assert (wrong & listed).sum() > 0.85 * listed.sum()
    assert (wrong & listed).sum() > 0.8 * n_wrong
    stated = run.summary.detection
    assert stated.precision_low < (wrong & listed).sum() / listed.sum() < stated.precision_high
    shared = is_shared(predictions)
    assert stated.precision_low < stated.expected_precision - 0.8 * shared[listed].mean()
    issues = predictions.issues()
    missing = issues["given_label"].astype(str).str.startswith("no ")
    assert issues["reason"][missing].str.contains(r"It should have \w+ \(").mean() > 0.9
    assert issues["reason"][~missing].str.contains(r"It should not have \w+ \(").mean() > 0.9
    assert abs(run.summary.noise.rate - wrong.mean()) < 0.06
    report = (run.path / "report.html").read_text()
    assert "Answers to a class" in report
    assert "of all labels" not in report.split("How to read this")[0]


def test_rows_that_are_left_out_are_counted_and_nothing_speaks_for_them(fitted):
    run, true, said = fitted
    left, frame = run.summary.label_sets, run.predictions.frame
    assert left.n_classes == 4
    assert left.n_rows == len(frame) == run.n_rows
    assert left.n_rows + left.n_left_out == said.size
    ticked = said.reshape(150, 3, 4).any(1)
    kept = np.zeros((150, 4), bool)
    kept[frame["tagged_item"].cat.codes, frame["tag"].cat.codes] = True
    assert kept[ticked].all()
    assert left.expected_missing < OPEN * left.n_left_out
    assert true[~kept].sum() <= 2


def test_people_who_tick_everything_or_never_come_out(fitted):
    run, *_ = fitted
    people, by_class = run.annotators, run.annotator_classes
    assert people["annotator"][0] == "every"
    never = by_class[(by_class["annotator"] == "never") & (by_class["true_class"] == "bee")]
    assert never["accuracy"].item() < 0.1
    assert never["others_accuracy"].item() > 0.8
    assert people.set_index("annotator")["worst_class"]["never"] == "bee"


def test_the_order_of_classes_changes_nothing():
    order = [2, 0, 3, 1]
    names = [CLASSES[at] for at in np.argsort(order)]  # the same columns under names that sort otherwise
    table, inputs, *_ = planted(classes=names)
    job = prepare(table, inputs, FitOptions())
    one, other = _Learner(prepare(planted()[0], inputs, FitOptions())), _Learner(job)
    np.testing.assert_allclose(one.shared.flat(), other.shared.flat(), atol=2e-3)
    p = next(one.fit([0]))[0].probabilities(np.arange(150))
    moved = next(other.fit([table.sets.classes.index(names[0])]))[0].probabilities(np.arange(150))
    np.testing.assert_allclose(p, moved, atol=2e-2)


def test_a_class_of_few_answers_has_the_skill_that_is_shared():
    table, inputs, *_ = planted()
    learner = _Learner(prepare(table, inputs, FitOptions()))
    said = learner.said_of(0)
    few = said.subset(np.arange(2))
    log_p = np.log(np.full((2, 2), 0.5))
    fitted = fit_answer_model(few, log_p, prior=learner.shared)
    apart = fit_answer_model(few, log_p)
    distance = [np.abs(each.skill - learner.shared.skill).max() for each in (fitted, apart)]
    assert distance[0] < 0.5 * distance[1]
    _, slope = likelihood(fitted, few, log_p)
    pull = fitted.precision() * (fitted.flat() - learner.shared.flat())
    np.testing.assert_allclose(pull[:-1], slope.flat()[:-1], atol=0.02)  # where both balance


def test_more_classes_than_a_byte_holds():
    random = np.random.default_rng(0)
    names = [f"c{number:03d}" for number in range(70)]
    sets = [[names[69 - item % 2], *random.choice(names[:60], 2, replace=False)] for item in np.repeat(range(40), 3)]
    frame = pd.DataFrame({"item": np.repeat(range(40), 3), "annotator": [*"abc"] * 40, "label": sets})
    table = AnnotationTable.from_frame(frame, keep_ids=True)
    job = prepare(table, no_inputs(), FitOptions())
    learner, last = _Learner(job), len(table.sets.classes) - 1
    found = _judge(next(learner.fit([last]))[0], last, learner.job_of(last), make_fabric("cpu"))
    assert set(found.scores.predicted) <= {2 * last, 2 * last + 1}
    assert set(found.scores.shuffled_labels) <= {2 * last, 2 * last + 1}
    assert found.posteriors.label.tolist() == [2 * last + 1] * 20


def test_sets_are_judged_without_inputs_and_by_probabilities():
    table, _, true, said = planted()
    alone = judge(table)
    assert alone.annotators["annotator"][0] == "every"
    p = np.clip(true + np.random.default_rng(1).normal(0, 0.3, true.shape), 0.02, 0.98)
    given = judge(table, pd.DataFrame(p, columns=CLASSES).assign(item=np.unique(table.frame["item"])))
    for found, least in ((alone, 0.75), (given, 0.9)):
        frame = found.predictions
        wrong, listed = is_wrong(frame, true), frame["is_label_issue"].to_numpy(bool)
        assert (wrong & listed).sum() > least * listed.sum()
        assert (wrong & listed).sum() > 0.7 * (said != np.repeat(true, 3, axis=0)).sum()


def test_what_cannot_be_done_with_sets_says_what_can(fitted, tmp_path):
    run, *_ = fitted
    table, inputs, *_ = planted()
    with pytest.raises(UsageError, match="judged by the default, without a network"):
        fit_table(table, inputs, tmp_path / "r", FitOptions(network="mlp"))
    with pytest.raises(UsageError, match="one class at a time"):
        fit_table(table, inputs, tmp_path / "r", truth=np.zeros(len(table), np.int64))
    with pytest.raises(UsageError, match="keeps no classifier"):
        run.predict(inputs.array)
    with pytest.raises(UsageError, match="not fitted again with decisions"):
        fit_table(table, inputs, tmp_path / "r", from_run=run)
    with pytest.raises(UsageError, match="leave --gold out"):
        run.next_gold(5)
