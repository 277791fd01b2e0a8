"""A fit that cannot be trusted says so, and one that can does not cry wolf."""

import shlex
import warnings

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace

from pidual import find_label_issues, judge
from pidual.data import AnnotationTable, load_inputs
from pidual.detect import Verdict, verdict
from pidual.errors import DataWarning
from pidual.errors.messages import quoted
from pidual.fit.fit import train
from pidual.fit.judge import assess, find_majority
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare
from pidual.learn.engine import Session, make_fabric
from pidual.metrics import detection_auc
from pidual.run.predictions import Predictions
from pidual.run.records.summary import ClassFindings, Consensus, Detection

RNG = np.random.default_rng(0)


def test_the_gravest_reason_decides():
    assert Verdict.of([None], [None, None]).to_json() == {"status": "ok", "reasons": []}
    assert Verdict.of([None], [None, "b"]).to_json() == {"status": "doubtful", "reasons": ["b"]}
    assert Verdict.of(["a"], ["b"]).to_json() == {"status": "failed", "reasons": ["a", "b"]}


def labels_and_probabilities(n, knows, rare=0.05):
    """f's probability of the labels and of shuffled ones, where f says the frequent class for every row."""
    y = (RNG.random(n) < rare).astype(int)
    logit = -3 + knows * y + RNG.normal(size=n)
    p = np.stack([1 / (1 + np.exp(logit)), 1 / (1 + np.exp(-logit))], axis=1)
    other = RNG.permutation(y)
    return p[np.arange(n), y], y, p[np.arange(n), other], other


def test_ranks_above_is_standard_normal_by_chance_and_sees_a_rare_class():
    found = [verdict.ranks_above(*labels_and_probabilities(400, 0.0)) for _ in range(400)]
    z = [(auc - 0.5) / error for auc, error in found]
    assert abs(np.mean(z)) < 0.2
    assert 0.7 < np.std(z) < 1.5
    auc, error = verdict.ranks_above(*labels_and_probabilities(4000, 1.0))
    assert auc > max(0.6, 0.5 + 5 * error)


def test_ranks_above_is_the_mean_auc_of_the_classes():
    own, given, other, others = labels_and_probabilities(200, 1.0, rare=0.4)
    aucs = {}
    for label in (0, 1):
        both = np.r_[own[given == label], other[(others == label) & (given != label)]]
        aucs[label] = detection_auc(both, np.arange(len(both)) >= (given == label).sum())
    mean = np.mean([aucs[label] for label in given])
    assert verdict.ranks_above(own, given, other, others)[0] == pytest.approx(mean)


def test_what_may_be_chance_is_a_doubt_where_f_is_all_there_is():
    """AUC .56 of 300 labels: neither surely weak, nor surely more than chance."""
    rng = np.random.default_rng(0)
    given, other = np.zeros(300, int), np.zeros(300, int)
    given[150:] = 1
    other[:150] = 1
    own = rng.normal(size=300)
    own += (np.arange(300) % 150 < 60) * 0.7
    shuffled = rng.normal(size=300)
    auc, error = verdict.ranks_above(own, given, shuffled, other)
    assert 0.6 - 2 * error < auc < 0.5 + 3 * error
    failure, doubt = verdict.find_chance(own, given, shuffled, other, answers_alone=False)
    assert failure is None
    assert f"AUC {auc:.2f}, up to {0.5 + 3 * error:.2f} by chance" in doubt
    assert verdict.find_chance(own, given, shuffled, other, answers_alone=True) == (None, None)


def test_chance_is_a_failure_where_f_is_all_there_is():
    chance = labels_and_probabilities(500, 0.0, rare=0.5)
    failure, doubt = verdict.find_chance(*chance, answers_alone=False)
    assert "same order" in failure
    assert doubt is None
    failure, doubt = verdict.find_chance(*chance, answers_alone=True)
    assert failure is None
    assert "each other alone" in doubt
    assert verdict.find_chance(*labels_and_probabilities(500, 2.0), answers_alone=False) == (None, None)


def test_few_held_out_labels_most_of_them_wrong_are_no_proof_of_chance():
    """A good classifier of ten classes, and 125 held-out labels of which three in four are wrong."""
    failed = 0
    for _ in range(40):
        y = RNG.integers(0, 10, 125)
        given = np.where(RNG.random(125) < 0.73, RNG.integers(0, 10, 125), y)
        p = np.full((125, 10), 0.02)
        p[np.arange(125), y] = 0.82
        p += RNG.random(p.shape) / 100
        other, rows = RNG.permutation(given), np.arange(125)
        failed += verdict.find_chance(p[rows, given], given, p[rows, other], other, answers_alone=False)[0] is not None
    assert failed == 0


@pytest.mark.parametrize(
    ("share", "rate", "answers", "found"),
    [
        (0.125, 0.025, 1, True),  # five times what is taken for wrong
        (0.125, 0.1, 1, False),
        (0.03, 0.005, 1, False),  # both are small
        (0.6, 0.1, 3, False),  # the answers decide
    ],
)
def test_held_out_labels_contradict(share, rate, answers, found):
    disagrees = np.arange(1000) < 1000 * share
    assert (verdict.find_contradiction(disagrees, rate, answers) is not None) == found


def test_a_consensus_that_is_open_too_often_is_doubtful():
    found = Consensus(accuracy=0.879, low=0.5, high=0.95, votes=1.66, answers=3.0)
    assert verdict.find_unsure_consensus(found).startswith(
        "By the answers alone the consensus is right for about 88% of the items; mistakes that answers share"
    )
    assert "88% of the pairs of item and class;" in verdict.find_unsure_consensus(found, of_sets=True)
    assert verdict.find_unsure_consensus(replace(found, accuracy=0.88)) is None


def test_a_whole_class_is_named():
    def found(given, issues):
        classes = [ClassFindings("ok", 900, 20, 18.0), ClassFindings("fraud", given, issues, 0.9 * issues)]
        return verdict.find_whole_class(Detection(0.9, 0.8, 1.0, [], classes))

    assert "38 of the 40 labels 'fraud'" in found(40, 38)
    assert found(40, 30) is None
    assert found(5, 5) is None


def spelled(given, consensus, classes, is_issue=None, predicted=None):
    """Labels, all of which look wrong if not said otherwise, and the consensus on their items."""
    label = pd.Categorical(given, classes)
    made = Predictions.build(
        pd.DataFrame({"item": pd.Categorical(range(len(given))), "label": label}),
        classes,
        predicted_label=label.codes if predicted is None else pd.Categorical(predicted, classes).codes,
        predicted_probability=np.ones(len(given)),
        label_quality=np.full(len(given), 0.1),
        consensus_label=pd.Categorical(consensus, classes).codes,
        consensus_quality=np.full(len(given), 0.9),
    )
    return made.with_issues(np.ones(len(given), bool) if is_issue is None else is_issue)


@pytest.mark.parametrize(
    ("one", "other"), [("cat", "Cat"), ("cat  flap", "Cat flap"), ("1", "1.0"), ("STRASSE", "Straße")]
)
def test_labels_that_differ_from_the_consensus_in_spelling_alone_are_doubtful(one, other):
    classes = [other, "dog", one]
    found = verdict.find_spellings(spelled([one, one, "dog"], [other, "dog", one], classes))
    assert found is not None
    assert found.startswith("In 1 of 3 labels that look wrong, ")
    assert f"such as {one!r} and {other!r}; if these are one class" in found


def test_where_a_label_is_the_consensus_what_the_classifier_says_counts():
    classes = ["Cat", "cat", "dog"]
    found = spelled(["cat", "cat"], ["cat", "dog"], classes, predicted=["Cat", "Cat"])  # the second is a dog
    assert "In 1 of 2 labels" in verdict.find_spellings(found)


@pytest.mark.parametrize(
    ("name", "n", "doubt"), [("Unsure", 40, True), ("don't know", 40, True), ("fail", 40, False), ("unsure", 20, False)]
)
def test_a_class_that_says_that_nobody_could_tell_is_a_doubt(name, n, doubt):
    found = verdict.find_no_answer(spelled([name] * n + ["pass"] * 60, ["pass"] * (n + 60), [name, "pass"]))
    assert (found is not None) == doubt
    assert found is None or f"40 labels are {quoted(name)}" in found
    assert found is None or f"leave them out with --no-answer {shlex.quote(name)}, and fit again." in found


@pytest.mark.parametrize(("spellings", "status"), [(("Cat", "C.a.t."), "doubtful"), (("Cat", "cat"), "ok")])
def test_a_run_with_two_spellings_of_a_class_is_doubtful(spellings, status):
    truth = RNG.integers(0, 3, 150)
    label = np.array(["Cat", "dog", "fox"])[np.repeat(truth, 3)].astype(object)
    cats = np.flatnonzero(label == "Cat")
    label[cats] = RNG.choice(spellings, len(cats))
    answers = pd.DataFrame({"item": np.repeat(np.arange(150), 3), "label": label, "annotator": list("abc") * 150})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of the table, about the same
        found = judge(answers).summary.verdict
    assert found.status == status
    assert not found.reasons or ["differ in spelling alone" in reason for reason in found.reasons] == [True]


def test_a_list_that_is_mostly_right_is_doubtful():
    found = Detection(0.6, 0.3, 0.7, [], [ClassFindings("ok", 90, 3, 2.0), ClassFindings("fraud", 10, 2, 1.0)])
    assert "60% are expected to be (30% to 70%)" in verdict.find_low_precision(found)
    assert verdict.find_low_precision(replace(found, precision_low=0.37)) is None
    assert verdict.find_low_precision(replace(found, classes=found.classes[:1])) is None  # three labels prove nothing
    assert verdict.find_low_precision(Detection(None, None, None, [], [])) is None
    of_sets = replace(found, precision_low=0.5)
    assert verdict.find_low_precision(of_sets) is None
    assert "understand a class in different ways" in verdict.find_low_precision(of_sets, of_sets=True)


def test_a_noise_network_that_answers_the_class_frequencies_is_named():
    n = 200
    given = np.r_[np.zeros(180, int), np.ones(20, int)]
    frame = pd.DataFrame({"item": pd.Categorical(range(n)), "label": np.array(["ok", "fraud"])[given]})

    def made(noise, gate):
        return Predictions.build(
            frame,
            ["ok", "fraud"],
            predicted_label=given,
            predicted_probability=np.ones(n),
            label_quality=np.ones(n),
            gate=np.full(n, gate),
            noise_label=noise,
        )

    assert "'ok' for 100% of the rows" in verdict.find_noise_prior(made(np.zeros(n, int), 0.25))
    assert verdict.find_noise_prior(made(np.zeros(n, int), 0.05)) is None
    assert verdict.find_noise_prior(made(np.ones(n, int), 0.25)) is None
    assert verdict.find_noise_prior(made(given, 0.25)) is None


def crowd(n=600, noise=0.2):
    y = RNG.integers(0, 3, n)
    p = np.full((n, 3), 0.1)
    p[np.arange(n), y] = 0.8
    return np.where(RNG.random(n) < noise, RNG.integers(0, 3, n), y), p


def test_probabilities_of_other_rows_make_a_fit_that_failed():
    labels, p = crowd()
    assert judge(pd.DataFrame({"label": labels}), p).summary.verdict == Verdict("ok", [])
    found = judge(pd.DataFrame({"label": labels}), p[::-1]).summary.verdict
    assert found.status == "failed"
    assert "same order" in found.reasons[0]


def test_probabilities_of_a_model_that_has_seen_the_labels_are_doubtful():
    labels, _ = crowd()
    p = np.full((len(labels), 3), 0.01)
    p[np.arange(len(labels)), labels] = 0.98
    found = judge(pd.DataFrame({"label": labels}), p).summary.verdict
    assert found.status == "doubtful"
    assert f"favour {len(labels):,} of {len(labels):,} given labels" in found.reasons[0]
    with pytest.warns(DataWarning, match="cross_val_predict"):
        assert not find_label_issues(labels, p).any()
    many = np.repeat(labels, 3)
    answers = pd.DataFrame({"label": many, "item": np.repeat(np.arange(len(labels)), 3)})
    assert judge(answers, p).summary.verdict.status == "ok"  # a good model of items that all agree on
    p[:10] = p[:10, [1, 2, 0]]
    assert judge(pd.DataFrame({"label": labels}), p).summary.verdict.status == "ok"


def test_x_that_gives_nearly_every_label_back_is_doubtful():
    agrees = np.ones(1000, bool)
    assert verdict.find_given_back(agrees, 1.0, []).startswith("The classifier gives 1,000 of 1,000 labels back that")
    assert verdict.find_given_back(agrees[:299], 1.0, []) is None
    assert verdict.find_given_back(agrees, 3.0, []) is None  # other answers show what is wrong
    assert "that most answers have, even where people disagree" in verdict.find_given_back(agrees, 3.0, ["'code'"])
    agrees[:2] = False
    assert verdict.find_given_back(agrees, 1.0, []) is None
    assert verdict.find_given_back(agrees, 1.0, ["'code'"]).startswith(
        "Column 'code' of x alone gives the label away: "
    )
    assert "Columns 3, 4 of x (counted from 0) alone give the" in verdict.find_given_back(agrees, 1.0, ["3", "4"])


def test_the_majority_of_an_item():
    item, label = np.array([5, 5, 5, 2, 2, 7, 9, 9, 9]), np.array([1, 0, 1, 0, 1, 3, 2, 2, 2])
    rows = find_majority(item, label, split=False)
    assert [(item[row], label[row]) for row in rows] == [(2, 0), (5, 1), (7, 3), (9, 2)]
    assert item[find_majority(item, label, split=True)].tolist() == [5]


def fitted_verdict(frame, x, pi=("annotator",), **options):
    """The verdict on a fit; of two epochs where there are any."""
    table = AnnotationTable.from_frame(frame, pi=list(pi), keep_ids=True)
    epochs = {"epochs": 2} if "method" in options and options["method"] != "auto" else {}
    job = prepare(table, load_inputs(x.astype(np.float32)), FitOptions(options=epochs, **options))
    fabric = make_fabric("cpu")
    return assess(job, train(job, Session(fabric)), fabric).summary.verdict


@pytest.mark.parametrize(("method", "answers"), [("auto", 1), ("ce", 1), ("auto", 3)])
def test_x_that_holds_the_given_label_or_the_majority_is_never_ok(method, answers):
    rng = np.random.default_rng(0)
    y, item = rng.integers(0, 3, 200), np.repeat(np.arange(200), answers)
    label = np.where(rng.random(len(item)) < 0.25, (y[item] + 1) % 3, y[item])
    frame = pd.DataFrame({"item": item, "label": label, "annotator": rng.integers(0, 8, len(item))})
    most = frame.groupby("item")["label"].agg(lambda given: given.mode()[0])
    x = np.c_[3 * np.eye(3)[y] + rng.normal(size=(200, 3)), 4 * np.eye(3)[most]]
    found = fitted_verdict(frame, x, method=method)
    assert found.status == "doubtful"
    assert any(text.startswith("Columns 3, 4, 5 of x (counted from 0)") for text in found.reasons)


def test_pi_that_nearly_gives_the_label_away_is_never_ok():
    rng = np.random.default_rng(0)
    label, x = rng.integers(0, 3, 400), rng.normal(size=(400, 3))
    hint = np.where(rng.random(400) < 0.006, rng.random(400), label + rng.normal(0, 0.05, 400))
    frame = pd.DataFrame({"label": label, "annotator": rng.integers(0, 8, 400), "hint": hint})
    found = fitted_verdict(frame, x, pi=("annotator", "hint"))
    assert found.status != "ok"
    assert any(text.startswith("PI column 'hint' gives the label away") for text in found.reasons)
    assert not any("PI column" in text for text in fitted_verdict(frame, x, method="ce").reasons)


def test_a_failure_names_the_order_of_rows_before_the_learning_rate():
    text = verdict.find_collapse(True)
    assert 0 < text.index("same order") < text.index("can show the class") < text.index("--lr")
    assert verdict.find_collapse(False) is None
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"label": rng.integers(0, 3, 300), "annotator": 0})
    found = fitted_verdict(frame, np.ones((300, 3)))
    assert found.status == "failed"
    assert "check that inputs and labels are in the same order" in found.reasons[0]


def test_few_labels_are_doubtful():
    labels, p = crowd(20, noise=0.0)
    found = judge(pd.DataFrame({"label": labels}), p).summary.verdict
    assert found.status == "doubtful"
    assert "only 20 labels" in found.reasons[0]


@pytest.mark.parametrize(("others", "found"), [(3, True), (9, True), (10, False)])
def test_labels_that_are_all_of_one_class_but_a_few_are_doubtful(others, found):
    given = ["ok"] * 300 + ["fraud", "theft", "loss"] * (others // 3) + ["fraud"] * (others % 3)
    text = verdict.find_few_labels(spelled(given, given, ["ok", "fraud", "theft", "loss"]))
    assert (text == f"All labels but {others} are 'ok': too few others to learn where 'ok' is wrong.") == found
    assert (text is None) != found


@pytest.mark.parametrize(("n_items", "n_classes", "said"), [(300, 100, True), (2_000, 100, False), (90, 30, False)])
def test_classes_of_few_items_are_too_many_to_learn(n_items, n_classes, said):
    found = verdict.find_small_classes(n_items, n_classes)
    assert (found is not None) == said
    assert found is None or "100 classes and 3.0 items for each" in found


@pytest.mark.parametrize(("rate", "per_item", "said"), [(0.5, 1.0, True), (0.5, 3.0, False), (0.3, 1.0, False)])
def test_single_answers_of_which_half_look_wrong_cannot_be_trusted(rate, per_item, said):
    found = verdict.find_half_wrong(rate, per_item)
    assert (found is not None) == said
    assert found is None or found.startswith("An estimated 50% of the labels are wrong, and items have one each")
