"""Classifiers of scikit-learn as f."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from pidual import CrowdClassifier, PiDualClassifier
from pidual.api.any_classifier import check_classifier, fit_soft, probabilities
from pidual.data.datasets.synthetic import make_crowd
from pidual.errors import DataWarning, UsageError
from pidual.metrics import detection_auc

pytestmark = pytest.mark.shapes_unchecked


@pytest.fixture(scope="module")
def crowd():
    return make_crowd(300, 8, 4, 3, 12, noise=0.45, spammer_share=0.3, n_test=400, seed=1)


def rows(crowd):
    return crowd.x[crowd.frame["item"]], crowd.frame["label"], crowd.frame[["annotator"]]


@pytest.fixture(scope="module")
def fitted(crowd):
    x, label, pi = rows(crowd)
    model = CrowdClassifier(estimator=LogisticRegression(warm_start=True), random_state=0)
    return model.fit(x, label, pi=pi)


def votes(crowd):
    counts = np.zeros((len(crowd.x), 4))
    np.add.at(counts, (crowd.frame["item"], crowd.frame["label"]), 1)
    return counts.argmax(1)


def test_it_beats_the_classifier_on_votes(crowd, fitted):
    alone = LogisticRegression().fit(crowd.x, votes(crowd)).score(crowd.x_test, crowd.y_test)
    assert fitted.score(crowd.x_test, crowd.y_test) > alone
    found = fitted.find_label_issues()
    wrong = crowd.frame["label"].to_numpy() != crowd.frame["y"].to_numpy()
    assert detection_auc(found["label_quality"].to_numpy(), wrong) > 0.9
    assert set(fitted.annotators_["annotator"]) == set(crowd.frame["annotator"])
    assert fitted.summary_.model_selection


def test_a_label_does_not_reach_the_classifier_that_judges_it():
    """Near-equal pairs of items, labels by the toss of a coin: what is said about an item ignores its label."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(150, 4)), 2, axis=0) + 1e-3 * rng.normal(size=(300, 4))
    label = rng.integers(0, 2, 300)
    model = CrowdClassifier(estimator=ExtraTreesClassifier(50, random_state=0), random_state=0)
    model.fit(x, label)
    agreement = (model.find_label_issues()["predicted_label"] == label).mean()
    assert abs(agreement - 0.5) < 0.1


def test_missing_values_reach_an_estimator_that_takes_them(crowd):
    x, label, pi = rows(crowd)
    holes = np.where(np.random.default_rng(0).random(crowd.x.shape) < 0.1, np.nan, crowd.x)
    trees = CrowdClassifier(estimator=HistGradientBoostingClassifier(max_iter=15), random_state=0)
    assert get_tags(trees).input_tags.allow_nan
    assert trees.fit(holes[crowd.frame["item"]], label, pi=pi).score(crowd.x_test, crowd.y_test) > 0.7
    assert np.isfinite(trees.predict_proba(holes)).all()
    with pytest.raises(ValueError, match="infinity"):
        trees.predict_proba(np.full((1, x.shape[1]), np.inf))
    plain = CrowdClassifier(estimator=LogisticRegression())  # which says so itself
    with pytest.raises(ValueError, match=r"LogisticRegression cannot be fitted to these inputs \(Input X contains NaN"):
        plain.fit(holes[crowd.frame["item"]], label)
    filled = CrowdClassifier(estimator=make_pipeline(SimpleImputer(), LogisticRegression()), random_state=0)
    assert filled.fit(holes[crowd.frame["item"]], label, pi=pi).score(crowd.x_test, crowd.y_test) > 0.7


def test_clone_parameters_and_pickle(crowd, fitted):
    copy = clone(fitted)
    assert copy.get_params()["estimator__warm_start"] is True
    assert copy.set_params(estimator__C=3.0).estimator.C == 3.0
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(crowd.x_test), fitted.predict_proba(crowd.x_test))
    np.testing.assert_allclose(fitted.predict_proba(crowd.x_test).sum(1), 1, atol=1e-6)


def test_labels_are_text_and_rows_have_weights(crowd):
    x, label, pi = rows(crowd)
    names = np.array(["ant", "bee", "cat", "dog"])[label]
    weight = np.ones(len(x))
    weight[:30] = 0
    model = CrowdClassifier(estimator=LogisticRegression(), random_state=0)
    model.fit(x, names, pi=pi, sample_weight=weight)
    assert set(model.predict(crowd.x_test)) <= set(names)
    assert len(model.find_label_issues()) == len(x)
    assert model.find_label_issues()["label_quality"].notna().all()


def test_a_classifier_without_weights_gets_the_most_likely_class(crowd):
    x, label, pi = rows(crowd)
    model = CrowdClassifier(estimator=KNeighborsClassifier(), random_state=0)
    with pytest.warns(DataWarning, match="takes no sample weights: it was fitted to the most probable class"):
        model.fit(x, label, pi=pi)
    assert model.score(crowd.x_test, crowd.y_test) > 0.6


def test_what_takes_weights():
    assert check_classifier(LogisticRegression()) == "sample_weight"
    piped = make_pipeline(StandardScaler(), LogisticRegression())
    assert check_classifier(piped) == "logisticregression__sample_weight"
    assert check_classifier(KNeighborsClassifier()) is None


def test_rows_of_soft_labels_are_a_fit_to_copies():
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = (x[:, 0] > 0).astype(int)
    q = np.eye(3, dtype=np.float32)[y]
    q[:5] = [0.5, 0.5, 0]
    soft = fit_soft(LogisticRegression(), x, q, np.arange(40), "sample_weight")
    copies = np.concatenate([np.arange(5), np.arange(40)])
    label, weight = np.concatenate([1 - y[:5], y]), np.r_[np.full(10, 0.5), np.ones(35)]
    by_hand = LogisticRegression().fit(x[copies], label, sample_weight=weight)
    np.testing.assert_allclose(soft.coef_, by_hand.coef_, atol=1e-3)
    p = probabilities(soft, x, 3)  # the third class was never seen
    assert (p[:, 2] > 0).all()
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"estimator": RidgeClassifier()}, "must have predict_proba, which RidgeClassifier has not"),
        ({"estimator": LogisticRegression}, "the class LogisticRegression .*make an object of it"),
        ({"estimator": LogisticRegression(), "epochs": 3}, "epochs is for networks"),
        ({"estimator": LogisticRegression(), "method": "ce"}, "CrowdClassifier has no parameter 'method'"),
    ],
)
def test_what_is_refused(crowd, options, said):
    x, label, _ = rows(crowd)
    with pytest.raises(UsageError, match=said):
        CrowdClassifier(**options).fit(x, label)
    with pytest.raises(UsageError, match=r"is for CrowdClassifier\(estimator=\.\.\.\)\.$"):
        PiDualClassifier(estimator=LogisticRegression()).fit(x, label)
