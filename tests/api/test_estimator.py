import copy
import gc
import io
import json
import pickle
import shutil
import weakref

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import pidual
from pidual import (
    AnnotationTable,
    CrowdClassifier,
    DataError,
    DataWarning,
    FitOptions,
    PiDualClassifier,
    RunError,
    UsageError,
    fit_table,
    load_inputs,
    read_table,
)
from pidual.api import classifier
from pidual.api.privacy import make_table
from pidual.data import no_inputs
from pidual.data.datasets.synthetic import make_crowd
from pidual.learn.engine.fit import Trainer, make_fabric
from pidual.metrics import detection_auc

pytestmark = [
    pytest.mark.runs_first,
    pytest.mark.shapes_unchecked,
    pytest.mark.filterwarnings("ignore:There is no privileged information"),
]

NAMES = np.array(["cat", "dog", "owl"])


def quick(method="pi_dual", **options):
    """A classifier that fits in a fraction of a second; there is nothing to set where nothing is trained."""
    if method == "latent_truth":
        return PiDualClassifier(method, random_state=0, **options)
    small = {"network__width": 32} if "module" not in options else {}
    small |= {"method__width": 16} if method == "pi_dual" else {}
    return PiDualClassifier(method, **({"epochs": 6, "batch_size": 32, "lr": 0.1, "random_state": 0} | small | options))


@pytest.fixture(scope="module")
def crowd():
    return make_crowd(120, 8, n_classes=3, n_features=5, noise=0.3, seed=1)


@pytest.fixture(scope="module")
def X(crowd):  # noqa: N802
    return crowd.x[crowd.frame["item"]]


@pytest.fixture(scope="module")
def y(crowd):
    return NAMES[crowd.frame["label"]]


@pytest.fixture(scope="module")
def pi(crowd):
    return crowd.frame[["annotator", "seconds"]]


@pytest.fixture(scope="module")
def fitted(X, y, pi):
    return quick(epochs=20).fit(X, y, pi)


# --- scikit-learn's contract ---

# With minibatches, a row of weight 2 and the same row twice take different steps; scikit-learn exempts its own
# SGDClassifier from this check for that reason. What does hold is tested below.
MINIBATCHES = {
    f"check_sample_weight_equivalence_on_{kind}_data": "with minibatches a weight is not the same as repeating the row"
    for kind in ("dense", "sparse")
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some checks have random labels
@parametrize_with_checks([quick(epochs=8)], expected_failed_checks=lambda estimator: MINIBATCHES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([CrowdClassifier()], expected_failed_checks=lambda estimator: MINIBATCHES)
def test_scikit_learn_checks_of_the_crowd_classifier(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:There is no privileged information")
@parametrize_with_checks([PiDualClassifier()], expected_failed_checks=lambda estimator: MINIBATCHES)
def test_scikit_learn_checks_of_the_pi_dual_classifier(estimator, check):
    check(estimator)


def test_each_classifier_does_what_the_command_does_by_its_name(tmp_path):
    crowd = make_crowd(60, 6, 1, n_classes=3, n_features=5, noise=0.3, seed=1)
    X, y, pi = crowd.x, crowd.frame["label"], crowd.frame[["annotator", "seconds"]]
    table = AnnotationTable.from_frame(crowd.frame, pi=list(pi), keep_ids=True)
    pi_dual = PiDualClassifier(epochs=5, random_state=4)
    for model, how in (
        (CrowdClassifier(), FitOptions()),
        (pi_dual, FitOptions("pi_dual", options={"epochs": 5}, seed=4)),
    ):
        run = fit_table(table, load_inputs(crowd.x), tmp_path / how.method, how)
        p = model.fit(X, y, pi).predict_proba(crowd.x_test)
        np.testing.assert_allclose(p, run.predict(crowd.x_test).filter(like="p_"), atol=1e-4)
        assert model.summary_.n_issues == run.summary.n_issues


def test_pi_dual_without_pi_says_what_it_has(X, y):
    with pytest.warns(DataWarning, match="^There is no privileged information: Pi-DUAL has nothing to explain wrong"):
        quick(epochs=1).fit(X, y)
    with pytest.warns(DataWarning, match="^There is no privileged information: Pi-DUAL has random PI alone; give PI"):
        quick(epochs=1, method__random_pi=4).fit(X, y)


def test_rows_without_weight_are_judged_but_not_learned_from(X, y, pi):
    used = np.random.default_rng(0).random(len(y)) < 0.7
    spoiled = np.where(used, y, "owl")
    model = quick(module=network()).fit(X, spoiled, pi, sample_weight=2.0 * used)
    without = quick(module=model.module).fit(X[used], y[used], pi[used])
    np.testing.assert_array_equal(model.predict_proba(X), without.predict_proba(X))
    issues = model.find_label_issues()
    assert list(issues["given_label"]) == list(spoiled)
    np.testing.assert_allclose(issues["label_quality"][used], without.find_label_issues()["label_quality"], rtol=1e-5)


def test_weight_is_repetition_without_minibatches(crowd):
    X, y = crowd.x[:60], NAMES[crowd.frame["y"].to_numpy()[:180:3]]
    weight = np.random.default_rng(0).integers(1, 4, 60)
    net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))  # nothing random inside
    model = quick("ce", module=net, batch_size=1000, validation_fraction=0)
    weighted = model.fit(X, y, sample_weight=weight).predict_proba(X)
    repeated = model.fit(X.repeat(weight, axis=0), y.repeat(weight)).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)
    assert not np.allclose(weighted, model.fit(X, y).predict_proba(X), atol=1e-3)


@pytest.mark.parametrize(("weight", "said"), [(0, "nothing to learn|non-zero"), (-1, "[Nn]egative")])
def test_weights_that_cannot_be(X, y, weight, said):
    with pytest.raises(ValueError, match=said):
        quick().fit(X, y, sample_weight=np.full(len(y), weight))


def test_weights_that_leave_one_class(X, y):
    with pytest.raises(DataError, match=r"one class only .*'owl'.* sample_weight is not 0"):
        quick().fit(X, y, sample_weight=y == "owl")


def test_clone_and_parameters():
    net = nn.Linear(5, 3)
    model = quick(module=net, pi_kinds={"seconds": "number"}, training__clip=2.0)
    copied = clone(model)
    assert copied.get_params().keys() == model.get_params().keys()
    assert copied.module is not net
    assert torch.equal(copied.module.weight, net.weight)
    assert copied.get_params()["training__clip"] == 2.0
    assert "training__clip=2.0" in repr(model)


def test_a_parameter_that_does_not_exist_is_refused(X, y):
    with pytest.raises(UsageError, match=r"no parameter 'clip'; options begin with training__, method__ or network__"):
        quick(clip=2.0).fit(X, y)


def test_a_grid_search_reaches_options_of_training_method_and_network(crowd, X, y):
    model = quick("pi_dual", epochs=1)
    grid = {"network__width": [4, 8], "training__clip": [1.0], "method__width": [8]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    best = search.best_estimator_
    shapes = {parameter.shape[0] for parameter in best.method_.f.parameters()}
    assert shapes == {best.get_params()["network__width"], 3}
    assert best.method_.shared.bias.shape == (8,)
    assert search.best_params_["training__clip"] == 1.0


def test_set_params_gives_options_that_were_not_there():
    model = quick("ce").set_params(training__clip=3.0, network__width=5, epochs=2)
    assert model.get_params()["training__clip"] == 3.0
    assert (model.get_params()["network__width"], model.epochs) == (5, 2)
    with pytest.raises(ValueError, match="Invalid parameter 'clip'"):
        model.set_params(clip=1.0)


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@pytest.mark.parametrize("round_trip", [lambda model: pickle.loads(pickle.dumps(model)), through_joblib, copy.deepcopy])
def test_copies_predict_the_same(fitted, X, round_trip):
    again = round_trip(fitted)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    pd.testing.assert_frame_equal(again.find_label_issues(), fitted.find_label_issues())


def test_the_training_inputs_are_let_go():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2000)).astype(np.float32)
    alive, size = weakref.ref(X), X.nbytes
    model = quick(epochs=1, network__width=8).fit(X, np.arange(400) % 2, pi=rng.integers(0, 5, 400))
    del X
    gc.collect()
    assert alive() is None
    assert len(pickle.dumps(model)) < size / 10


def test_same_random_state_same_result(X, y, pi):
    first = quick(epochs=2).fit(X, y, pi).predict_proba(X)
    torch.rand(1)  # the state of torch's own generator has no part in it
    np.testing.assert_array_equal(quick(epochs=2).fit(X, y, pi).predict_proba(X), first)
    assert (quick(epochs=2, random_state=1).fit(X, y, pi).predict_proba(X) != first).any()


def test_the_callers_generator_stays_as_it_is(X, y):
    before = torch.get_rng_state()
    quick(epochs=1).fit(X, y)
    assert torch.equal(torch.get_rng_state(), before)


def test_threads_are_those_asked_for_while_it_fits(X, y, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    seen = []
    step = Trainer.train_step
    monkeypatch.setattr(Trainer, "train_step", lambda *args: seen.append(torch.get_num_threads()) or step(*args))
    quick(threads=2, epochs=1).fit(X, y)
    assert (set(seen), torch.get_num_threads()) == ({2}, 1)


def test_plain_rows_are_predicted_as_any_others(fitted, X, monkeypatch):
    rows = X.astype(np.float64)
    expected = fitted.predict_proba(rows.tolist())  # checked by scikit-learn
    monkeypatch.setattr("pidual.api.classifier.validate_data", None)
    for plain in (rows, X, np.asfortranarray(rows), rows[::-1][::-1]):
        np.testing.assert_array_equal(fitted.predict_proba(plain), expected)
    np.testing.assert_allclose(fitted.predict_proba(X[:1]), expected[:1], rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_plain_rows_that_are_no_numbers_are_refused(fitted, X, bad):
    rows = X.astype(np.float64)
    rows[3, 1] = bad
    with pytest.raises(ValueError, match=r"value is missing, and none was in this column|infinity|too large"):
        fitted.predict_proba(rows)


def test_a_network_is_told_where_a_value_is_missing(X, y, tmp_path):
    holes = X.copy()
    holes[::4, 1] = np.nan
    with pytest.warns(DataWarning, match=r"^X: \d+ of .* values of the input column 1 are missing; the median"):
        model = quick(epochs=2).fit(holes, y)
    assert get_tags(model).input_tags.allow_nan
    assert not get_tags(quick(module=nn.Linear(4, 3))).input_tags.allow_nan
    assert (model.n_features_in_, model.in_shape_) == (X.shape[1], X.shape[1:])
    expected = model.predict_proba(holes)
    assert np.abs(expected[::4] - model.predict_proba(np.nan_to_num(holes))[::4]).max() > 0
    saved = PiDualClassifier.load(model.save(tmp_path / "saved"))
    for again in (saved, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict_proba(holes), expected)
    with pytest.raises(DataError, match=r"X, row 2, column 0 .*: the value is missing, and none was in this column"):
        model.predict_proba(np.where(np.arange(len(X))[:, None] == 2, np.nan, X))


def test_a_module_gets_neither_missing_values_nor_a_softmax(X, y):
    holes = np.where(np.arange(X.size).reshape(X.shape) == 6, np.nan, X)
    model = quick(epochs=1, module=nn.Linear(X.shape[1], 3))
    with pytest.raises(DataError, match=r"X has missing values \(NaN\), and a module gets X as it is; fill them in"):
        model.fit(holes, y)
    with pytest.raises(DataError, match="leave module out"):
        model.fit(X, y).predict_proba(holes)
    soft = nn.Sequential(nn.Linear(X.shape[1], 3), nn.Softmax(1))
    with pytest.raises(UsageError, match=r"returns probabilities; it must return logits: remove its softmax\.$"):
        quick(epochs=1, module=soft).fit(X, y)
    quick(epochs=1, module=nn.Sequential(nn.Linear(X.shape[1], 3), nn.LogSoftmax(1))).fit(X, y)


def test_a_network_has_at_least_one_unit(X, y):
    with pytest.raises(UsageError, match="option width of the network 'mlp' must be at least 1, not 0"):
        PiDualClassifier(epochs=1, network__width=0).fit(X, y)


def test_what_trains_nothing_refuses_options_of_training_in_words_of_python(X, y):
    for options, name in (({"epochs": 3}, "epochs"), ({"network__width": 9}, "network__width")):
        with pytest.raises(UsageError) as refused:
            CrowdClassifier(**options).fit(X, y)
        assert str(refused.value) == (
            f"CrowdClassifier trains nothing here, so {name} does nothing; leave it out, give network='mlp', or use "
            "PiDualClassifier."
        )
    with pytest.raises(UsageError, match=r"^PiDualClassifier trains nothing here, so epochs does nothing"):
        PiDualClassifier("latent_truth", epochs=3).fit(X, y)


def test_people_under_another_name_are_mentioned_once(crowd):
    X, y, pi = crowd.x[crowd.frame["item"]], crowd.frame["label"], crowd.frame[["annotator"]]
    with pytest.warns(DataWarning, match=r"pi has no column 'annotator', so .* rename the column .*\('who'\)") as said:
        model = CrowdClassifier().fit(X, y, pi=pi.rename(columns={"annotator": "who"}))
    assert len([each for each in said if "annotator" in str(each.message)]) == 1
    assert model.annotators_ is None
    assert CrowdClassifier().fit(X, y, pi=pi).annotators_ is not None


def test_a_class_that_is_alone_and_one_that_is_unknown_are_named_as_in_y(X, y):
    with pytest.raises(DataError, match=r"y has one class only \(0\.0\); a classifier needs"):
        CrowdClassifier().fit(X, np.zeros(len(X)))
    truth = np.where(np.arange(len(y)) == 3, "foo", None)
    with pytest.raises(DataError, match=r"^truth has 'foo', and y has no such label; correct it\.$"):
        CrowdClassifier().fit(X, y, truth=truth)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_an_accelerator_that_is_missing_is_named(X, y):
    with pytest.raises(
        UsageError, match=r"^accelerator='cuda': torch finds no such GPU here, only cpu.*; leave it out"
    ):
        quick(epochs=1, accelerator="cuda").fit(X, y)
    with pytest.raises(UsageError, match="Cannot use accelerator 'abacus'"):
        quick(epochs=1, accelerator="abacus").fit(X, y)


def test_predicting_again_makes_no_second_fabric(X, y, monkeypatch):
    model = quick(epochs=1).fit(X, y)
    before = model.predict_proba(X)

    def made(*args, **options):
        raise AssertionError("a Fabric was made")

    monkeypatch.setitem(make_fabric.__globals__, "Fabric", made)
    assert (model.predict_proba(X) == before).all()
    with pytest.raises(AssertionError, match="a Fabric was made"):
        model.set_params(accelerator="cuda").predict_proba(X)


def test_score_and_history(fitted, crowd):
    assert fitted.score(crowd.x_test, NAMES[crowd.y_test]) > 0.9
    assert [record["epoch"] for record in fitted.history_] == list(range(20))
    assert {"loss", "gate", "valid_accuracy"} <= fitted.history_[0].keys()
    assert fitted.summary_.n_issues == fitted.find_label_issues()["is_label_issue"].sum()
    assert fitted.summary_.warnings == []


# --- label issues and annotators ---


def test_find_label_issues(fitted, crowd, y):
    issues = fitted.find_label_issues()
    assert list(issues.columns[:4]) == ["is_label_issue", "label_quality", "given_label", "predicted_label"]
    assert {"gate", "noise_label", "predicted_probability", "reason"} <= set(issues.columns)
    assert list(issues["given_label"]) == list(y)
    assert set(issues["predicted_label"]) <= set(NAMES)
    wrong = (crowd.frame["label"] != crowd.frame["y"]).to_numpy()
    assert detection_auc(issues["label_quality"], wrong) > 0.9
    assert wrong[issues["is_label_issue"]].mean() > 0.8
    assert issues["reason"][issues["is_label_issue"]].str.contains("cat|dog|owl").all()
    assert issues["label_quality"].between(0, 1).all()


def test_label_issues_are_the_callers_own(fitted):
    issues = fitted.find_label_issues()
    issues["label_quality"] = 0.0
    assert fitted.find_label_issues()["label_quality"].max() > 0.5


def test_label_issues_keep_the_index(X, y):
    index = pd.Index([f"row-{i}" for i in range(len(y))])
    frame = pd.DataFrame(X, index=index, columns=list("abcde"))
    assert quick(epochs=1).fit(frame, y).find_label_issues().index.equals(index)
    assert quick(epochs=1).fit(X, pd.Series(y, index=index)).find_label_issues().index.equals(index)
    assert quick(epochs=1).fit(X, y).find_label_issues().index.equals(pd.RangeIndex(len(y)))


def test_annotators(fitted, crowd):
    annotators = fitted.annotators_
    right = (crowd.frame["label"] == crowd.frame["y"]).groupby(crowd.frame["annotator"], observed=True).mean()
    assert np.abs(annotators.set_index("annotator")["annotator_quality"] - right).max() < 0.15
    assert annotators["num_labelled"].sum() == len(crowd.frame)
    assert set(annotators["worst_class"].dropna()) <= set(NAMES)
    assert annotators["harm"].is_monotonic_decreasing


def test_a_saved_model_holds_no_ids(X, y, pi):
    model = quick(epochs=1).fit(X, y, pi)
    assert b"worker-" not in pickle.dumps(model)
    assert model.annotators_["annotator"].str.startswith("worker-").all()
    again = pickle.loads(pickle.dumps(model)).annotators_
    assert list(again["annotator"].iloc[:2]) == ["annotator-1", "annotator-2"]
    pd.testing.assert_frame_equal(again.drop(columns="annotator"), model.annotators_.drop(columns="annotator"))
    if model.summary_.agreement is not None:
        pairs = pickle.loads(pickle.dumps(model)).summary_.agreement.pairs
        numbers = dict(zip(again["annotator"], model.annotators_["annotator"], strict=True))
        assert [numbers[pair.a] for pair in pairs] == [pair.a for pair in model.summary_.agreement.pairs]
    kept = pickle.loads(pickle.dumps(model.set_params(keep_ids=True))).annotators_
    pd.testing.assert_frame_equal(kept, model.annotators_)


def test_equal_rows_stay_on_one_side_of_the_split(X, y, pi, monkeypatch):
    jobs = []
    monkeypatch.setattr(classifier, "train", lambda job, *rest: (jobs.append(job), real(job, *rest))[1])
    real = pidual.fit.fit.train
    order = np.random.default_rng(0).permutation(len(y))
    quick(epochs=1).fit(X[order], y[order], pi.iloc[order])
    (job,) = jobs
    sides = [{tuple(row) for row in X[order][job.split == part]} for part in (0, 1)]
    assert len(sides[1]) == 12  # a tenth of the 120 items
    assert not sides[0] & sides[1]
    assert len(job.inputs.array) == 120  # every item is stored once
    np.testing.assert_array_equal(job.inputs.array[job.rows.x_row], X[order])


class StopAt(pidual.Callback):
    """Ends training after an epoch, and keeps a weight of each."""

    def __init__(self, epoch):
        self.epoch, self.seen = epoch, []

    def on_epoch_end(self, trainer, record):
        self.seen.append(next(trainer.method.f.parameters()).sum().item())
        if record["epoch"] == self.epoch:
            trainer.finish()


def test_callbacks_are_refused_where_nothing_would_call_them(X, y, pi):
    with pytest.raises(UsageError, match="There is nothing to call callbacks in: latent_truth on vectors is worked"):
        quick("latent_truth", callbacks=[StopAt(1)]).fit(X, y, pi)
    assert len(quick("latent_truth", callbacks=[]).fit(X, y, pi).history_) >= 2


def test_callbacks(X, y, pi):
    stop = StopAt(1)
    model = quick(epochs=5, callbacks=[stop]).fit(X, y, pi)
    assert len(model.history_) == 2
    assert len(set(stop.seen)) == 2
    assert clone(model).get_params()["callbacks"][0].epoch == 1
    with pytest.raises(UsageError, match="callbacks is for networks"):
        CrowdClassifier(estimator=LogisticRegression(), callbacks=[stop]).fit(X, y)


# --- the prediction network ---


def network():
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))


@pytest.mark.parametrize("method", ["pi_dual", "ce"])
@pytest.mark.parametrize("module", [network, network()], ids=["callable", "instance"])
def test_any_module_learns(X, y, pi, crowd, module, method):
    model = quick(method, module=module).fit(X, y, pi)
    assert model.score(crowd.x_test, NAMES[crowd.y_test]) > 0.8
    np.testing.assert_array_equal(model.predict(X), clone(model).fit(X, y, pi).predict(X))


def test_an_instance_is_the_starting_point_and_stays_as_it_is(X, y):
    net = network()
    before = copy.deepcopy(net.state_dict())
    untrained = quick("ce", module=net, lr=0.0, training__guard="off").fit(X, y)
    with torch.no_grad():
        expected = net.eval()(torch.from_numpy(X)).softmax(1)
    np.testing.assert_allclose(untrained.predict_proba(X), expected, atol=1e-6)
    quick("ce", module=net).fit(X, y)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("module", [network, network()], ids=["callable", "instance"])
def test_a_second_network_begins_as_the_module_does(X, y, module):
    still = {"lr": 0.0, "epochs": 1, "training__guard": "off"}
    model = quick("co_teaching", module=module, **still).fit(X, y)
    f, g = model.method_.f, model.method_.g
    same = [torch.equal(one, two) for one, two in zip(f.parameters(), g.parameters(), strict=True)]
    assert same == ([True, True, False, False] if isinstance(module, nn.Module) else [False] * 4)
    first = quick("forward_t", module=module, **still).fit(X, y).method_
    assert torch.equal(first.f[0].weight, first.before.f[0].weight) == isinstance(module, nn.Module)


def test_frozen_layers_stay_frozen(X, y):
    net = network()
    net[0].requires_grad_(False)
    model = quick(module=net).fit(X, y)
    assert torch.equal(model.method_.f[0].weight, net[0].weight)
    assert not torch.equal(model.method_.f[3].weight, net[3].weight)


class Pair(nn.Module):
    def forward(self, x):
        return x, x


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (nn.Linear(5, 4), r"shape \(2, 4\) to 2 inputs; .* each of the 3 classes, shape \(2, 3\)"),
        (lambda: nn.Linear(5, 2), r"shape \(2, 2\)"),
        (nn.Linear(6, 3), r"cannot read X, which it gets as float32 of shape \(B, 5\): .*6x3"),
        (Pair(), "tensor of logits, not tuple"),
        (lambda: "resnet", "must make an nn.Module, not str"),
        ("resnet", "must be an nn.Module or a callable that makes one, not 'resnet'"),
    ],
)
def test_modules_that_cannot_be(X, y, module, said):
    with pytest.raises(UsageError, match=said):
        quick(module=module).fit(X, y)


# --- inputs ---


def test_frames_and_names(X, y, pi):
    frame = pd.DataFrame(X, columns=list("abcde")).astype("float64")
    model = quick(epochs=2).fit(frame, pd.Series(y), pi)
    assert list(model.feature_names_in_) == list("abcde")
    assert model.n_features_in_ == 5
    assert list(model.classes_) == list(NAMES)
    assert set(model.predict(frame)) <= set(NAMES)
    np.testing.assert_array_equal(model.predict_proba(frame), quick(epochs=2).fit(X, y, pi).predict_proba(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="in the same order as they were in fit"):
        model.predict(frame[list("edcba")])


@pytest.mark.parametrize("labels", [np.array([False, True]), np.array([10, 20]), np.array([1.0, 2.0]), ["no", "yes"]])
def test_labels_of_any_type(X, y, labels):
    given = np.asarray(labels)[(y == "owl").astype(int)]
    model = quick(epochs=1).fit(X, given)
    assert model.predict(X).dtype == given.dtype
    np.testing.assert_array_equal(model.find_label_issues()["given_label"].to_numpy(given.dtype), given)


@pytest.mark.filterwarnings("ignore:PI explained hardly any label")
def test_images(crowd):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    images = rng.integers(0, 60, (120, 1, 8, 8), dtype=np.uint8)
    images[np.arange(120), 0, y] += 180  # the class is the bright row
    annotator = rng.integers(0, 4, 120)
    model = quick(epochs=10, batch_size=16, network__width=8, training__crop_pad=0, training__flip=False)
    model.fit(images, np.where(annotator == 0, rng.integers(0, 3, 120), y), annotator)
    assert model.score(images, y) > 0.8
    assert model.predict_proba(images[:5]).shape == (5, 3)
    with pytest.raises(UsageError, match=r"shape \(1, 9, 8\).*fitted with \(1, 8, 8\)"):
        model.predict(np.zeros((2, 1, 9, 8), np.uint8))


# --- privileged information ---

FORMS = {
    "odd index": lambda pi: pi.set_axis(np.arange(len(pi))[::-1] + 7),
    "mapping": lambda pi: {
        "annotator": pi["annotator"].set_axis(range(9, 9 + len(pi))),
        "seconds": list(pi["seconds"]),
    },
    "text": lambda pi: pi.astype({"annotator": "str"}),
    "objects": lambda pi: pi.astype({"annotator": object}),
    "worker": lambda pi: pi.rename(columns={"annotator": "worker"}),
    "Annotator_ID": lambda pi: pi.rename(columns={"annotator": "Annotator_ID"}),
    "arrow": lambda pi: pa.table({"annotator": pi["annotator"].astype("str"), "seconds": pi["seconds"]}),
}


def pi_frame(pi, n):
    """The PI of n rows as the table of a fit has it."""
    table = make_table(pd.Categorical.from_codes(np.arange(n) % 2, [0, 1]), np.arange(n), pi, np.ones(n), False)
    return table.frame[table.pi_columns]


@pytest.mark.parametrize("form", FORMS)
def test_pi_of_one_content_in_any_form(pi, form):
    one, two = pi_frame(pi, len(pi)), pi_frame(FORMS[form](pi), len(pi))
    pd.testing.assert_frame_equal(one.astype({"annotator": "str"}), two.astype({"annotator": "str"}))
    np.testing.assert_array_equal(one["annotator"].cat.codes, two["annotator"].cat.codes)


@pytest.mark.parametrize("form", [np.asarray, list, lambda s: s.rename(None), lambda s: s.to_frame("worker")])
def test_a_single_column_without_a_name_is_the_annotator(pi, form):
    found = pi_frame(form(pi["annotator"]), len(pi))
    assert list(found) == ["annotator"]
    assert (found["annotator"].astype("str") == pi["annotator"].astype("str").to_numpy()).all()


def test_two_dimensional_pi():
    mixed = pi_frame([["ann", 1.5, True], ["bob", None, False], [None, 2.5, True]], 3)
    assert list(mixed.columns) == ["pi_0", "pi_1", "pi_2"]
    assert list(mixed["pi_0"].cat.categories) == ["ann", "bob"]
    assert list(mixed.isna().sum()) == [1, 1, 0]
    assert mixed["pi_1"].dtype == np.float64
    numbers = pi_frame(np.arange(6, dtype=np.float32).reshape(3, 2), 3)
    assert list(numbers.dtypes) == [np.float64, np.float64]


def test_text_of_pi_is_read_as_in_a_table_and_categories_stay():
    frame = pd.DataFrame(
        {
            "at": ["2024-01-01 10:00", None, "2024-01-03 10:00"],
            "seconds": ["1.5", "2", ""],
            "tool": ["mouse", "pen", None],
            "round": pd.Categorical([1, 2, 1]),
        }
    )
    got = pi_frame(frame, 3)
    np.testing.assert_array_equal(
        got["at"], np.array(["2024-01-01T10:00", "NaT", "2024-01-03T10:00"], "datetime64[us]")
    )
    np.testing.assert_array_equal(got["seconds"], [1.5, 2, np.nan])
    assert got["tool"].cat.codes.tolist() == [0, 1, -1]
    assert got["round"].cat.codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize("missing", [None, pd.NA, np.nan])
def test_missing_labels_are_named(X, y, missing):
    labels = np.where(y == y[0], "a", "b").astype(object)
    labels[[3, 5]] = missing
    with pytest.raises(DataError, match=r"y is missing in row 3 \(counted from 0\) and in 1 more; leave such rows out"):
        CrowdClassifier().fit(X, labels)


def test_names_with_a_meaning_of_their_own():
    frame = pi_frame({"item": [1, 2], "split": ["a", "b"], "label": [0, 1], "y": [1, 1], 3: [2, 3]}, 2)
    assert list(frame.columns) == ["pi_item", "pi_split", "pi_label", "pi_y", "3"]


@pytest.mark.parametrize("missing", [None, np.nan, "", "NA"])
def test_a_missing_annotator_is_an_error_as_in_a_file(X, y, pi, missing, tmp_path):
    holes = pi.astype({"annotator": object})
    holes.loc[[3, 8], "annotator"] = missing
    said = r", column 'annotator': the annotator is missing \(.*\) \(and in 1 more rows\); fill it in or delete the row"
    with pytest.raises(DataError, match=r"^pi, row 3 \(counted from 0\)" + said):
        quick().fit(X, y, holes)
    holes.assign(label=y).to_csv(tmp_path / "labels.csv", index=False)
    with pytest.raises(DataError, match="line 5" + said):
        read_table(tmp_path / "labels.csv", keep_ids=True)


def test_pi_kinds(X, y, pi, monkeypatch):
    jobs = []
    monkeypatch.setattr(classifier, "train", lambda job, *rest: (jobs.append(job), real(job, *rest))[1])
    real = pidual.fit.fit.train
    quick(epochs=1, pi_kinds={"split": "category"}).fit(X, y, {"split": np.arange(len(y)) % 4})
    assert [column.kind for column in jobs[0].encoder.columns_] == ["category"]
    with pytest.raises(UsageError, match="'second', which is not a column of pi; its columns are annotator, seconds"):
        quick(pi_kinds={"second": "duration"}).fit(X, y, pi)


def test_a_column_that_is_left_out_is_said_to_be(X, y, pi):
    with pytest.warns(DataWarning, match="'tool' .* same value in every row") as caught:
        model = quick(epochs=1).fit(X, y, pi.assign(tool="web"))
    assert caught[0].filename == __file__
    assert len(model.summary_.warnings) == 1


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (lambda pi: pi.iloc[:-1], "pi has 359 rows .* and there are 360 labels; give one row of pi for every label"),
        (lambda pi: {"a": [1, 2], "b": [1]}, "pi has 2 rows"),
        (lambda pi: np.zeros((360, 2, 2)), "one or two dimensions, not 3"),
        (lambda pi: 3, "one or two dimensions, not 0"),
        (lambda pi: pd.concat([pi, pi], axis=1), "'annotator' twice; rename"),
        (lambda pi: pi.assign(**{"3": 1}).rename(columns={"seconds": 3}), "'3' twice, by this name or another"),
    ],
)
def test_pi_that_cannot_be(X, y, pi, bad, said):
    with pytest.raises(UsageError, match=said):
        quick().fit(X, y, bad(pi))


def test_of_two_columns_that_say_who_the_usual_one_is_the_annotator(pi):
    frame = pi_frame(pi.assign(coder=pi["annotator"]), len(pi))
    assert list(frame.columns) == ["annotator", "seconds", "coder"]
    assert frame["annotator"].str.startswith("worker-").all()
    assert frame["coder"].cat.categories[0] == "coder-1"
    assert frame["coder"].nunique() == frame["annotator"].nunique()


# --- order of rows ---


@pytest.mark.filterwarnings("ignore:.* repeat an answer of the same annotator")
@pytest.mark.parametrize("which", ["y", "pi", "a column of pi"])
def test_an_index_in_another_order_is_warned_of(X, y, pi, which):
    X, y, pi = pd.DataFrame(X, columns=list("abcde")), pd.Series(y), pi.set_axis(range(len(pi)))
    order = np.random.default_rng(0).permutation(len(y))
    if which == "y":
        y = y.iloc[order]
    else:
        pi = pi.iloc[order] if which == "pi" else {"annotator": pi["annotator"], "seconds": pi["seconds"].iloc[order]}
    with pytest.warns(DataWarning, match="has the index of X in another order, .* by position") as caught:
        quick(epochs=1).fit(X, y, pi)
    assert caught[0].filename == __file__
    assert sum(one.category is DataWarning and "repeat an answer" not in str(one.message) for one in caught) == 1


# --- the command line ---


# --- inside scikit-learn ---


class Spy(PiDualClassifier):
    """Remembers the rows and the PI each fit gets; both hold the number of the row."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y, pi=None, sample_weight=None):
        Spy.seen.append((np.asarray(X), np.asarray(pi)))
        return super().fit(X, y, pi, sample_weight)


@pytest.fixture
def numbered():
    """60 rows that know their number, in X and in pi."""
    Spy.seen = []
    number = np.arange(60.0)
    return number[:, None], np.arange(60) % 2, pd.DataFrame({"number": number}, index=np.arange(60) + 100)


@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_splits_pi_with_the_rows(numbered, routing):
    X, y, pi = numbered
    with sklearn.config_context(enable_metadata_routing=routing):
        model = Spy(**quick(epochs=1).get_params())
        model = model.set_fit_request(pi=True) if routing else model
        result = cross_validate(model, X, y, params={"pi": pi}, cv=3, error_score="raise")
    assert len(result["test_score"]) == 3
    assert [len(rows) for rows, _ in Spy.seen] == [40, 40, 40]
    for rows, given in Spy.seen:
        np.testing.assert_array_equal(rows, given)


def test_routing_asks_before_it_drops_pi(numbered):
    X, y, pi = numbered
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="pi"),
    ):
        cross_validate(quick(epochs=1), X, y, params={"pi": pi}, cv=3, error_score="raise")


# --- options ---


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"validation_fraction": 1.0}, "validation_fraction must be at least 0 and below 1, not 1.0"),
        ({"method": "pi-dual"}, "no method 'pi-dual'"),
        ({"setting": "best"}, "no setting 'best'"),
        ({"training__epoch": 3}, "no training option 'epoch'"),
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"method__widht": 3}, "no option 'widht'"),
        ({"network__widht": 3}, "no option 'widht'"),
    ],
)
def test_options_that_cannot_be(X, y, options, said):
    with pytest.raises(UsageError, match=said):
        quick().set_params(**options).fit(X, y)


def test_a_collapse_is_not_silent():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(160, 3)), rng.integers(0, 2, 160)
    with pytest.warns(ConvergenceWarning, match="The fit collapsed"):
        model = quick(batch_size=16, lr=0.0, validation_fraction=0, random_state=1).fit(X, y)
    assert model.summary_.guard.collapsed


@pytest.mark.parametrize(
    ("method", "score"), [("elr", "target_disagreement"), ("divide_mix", "noise_posterior"), ("het", None)]
)
def test_other_methods_bring_their_own_scores_and_can_be_pickled(method, score, X, crowd):
    options = {"method__memory": "disk"} if method == "elr" else {}
    model = PiDualClassifier(method=method, epochs=3, random_state=0, **options)
    model.fit(X, crowd.frame["label"].to_numpy())
    issues = model.find_label_issues()
    assert score is None or score in issues
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_people_of_rows_without_weight_are_numbered_and_come_last():
    label = pd.Categorical.from_codes([0, 1, 0, 1], [0, 1])
    weight = np.array([0.0, 1, 1, 1])
    table = make_table(label, np.arange(4), {"reviewer": ["eve", "ann", "bob", "ann"]}, weight, False)
    assert table.frame["reviewer"].tolist() == ["reviewer-1", "reviewer-2", "reviewer-3", "reviewer-2"]
    assert list(table.frame["reviewer"].cat.categories) == ["reviewer-2", "reviewer-3", "reviewer-1"]
    assert table.frame["split"].tolist() == ["test", "train", "train", "train"]
    kept = make_table(label, np.arange(4), {"reviewer": ["eve", "ann", "bob", "ann"]}, weight, True)
    assert list(kept.frame["reviewer"].cat.categories) == ["ann", "bob", "eve"]


def test_items_are_in_the_order_of_their_first_rows(X, y, pi):
    index = pd.Index([f"row {i}" for i in range(len(X))])
    model = quick("latent_truth").fit(pd.DataFrame(X, index=index).rename(columns=str), y, pi=pi.set_axis(index))
    rows = pd.DataFrame(X).round(6).apply(tuple, axis=1)
    first = ~rows.duplicated().to_numpy()
    assert list(model.items_.index) == list(index[first])
    assert list(model.items_["num_annotations"]) == rows.groupby(rows, sort=False).size().tolist()
    assert list(model.items_["consensus_label"]) == list(model.label_issues_["consensus_label"][first])


@pytest.mark.parametrize("method", ["pi_dual", "latent_truth", "elr"])
def test_a_classifier_that_is_saved_and_loaded_is_the_same(method, X, y, pi, tmp_path):
    named = pd.DataFrame(X).rename(columns=str)
    secret = pi.assign(annotator="bob" + pi["annotator"].astype(str) + "@example.org")
    model = quick(method).fit(named, y, pi=secret)
    folder = model.save(tmp_path / "model")
    loaded = PiDualClassifier.load(folder)
    np.testing.assert_array_equal(loaded.predict_proba(named), model.predict_proba(named))
    assert loaded.get_params() == model.get_params()
    assert loaded.classes_.tolist() == model.classes_.tolist()
    pd.testing.assert_frame_equal(loaded.find_label_issues(), model.find_label_issues(), check_dtype=False)
    assert loaded.items_["consensus_label"].tolist() == model.items_["consensus_label"].tolist()
    assert (loaded.history_, loaded.summary_) == (model.history_, model.__getstate__()["summary_"])
    assert not any(b"example.org" in path.read_bytes() for path in folder.iterdir())
    assert model.save(folder) == folder  # replaces an earlier one
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_saving_does_not_replace_what_it_did_not_write(X, y, tmp_path):
    (tmp_path / "mine.txt").write_text("notes")
    with pytest.raises(UsageError, match="not a saved classifier; choose another place"):
        quick("ce", epochs=1).fit(X, y).save(tmp_path)
    with pytest.raises(RunError, match=r"estimator\.json is missing"):
        PiDualClassifier.load(tmp_path)


def test_a_saved_module_is_given_again(X, y, tmp_path):
    model = quick("ce", module=lambda: nn.Linear(5, 3), epochs=1).fit(X, y)
    folder = model.save(tmp_path / "model")
    with pytest.raises(UsageError, match="network of its own; give it again, with module="):
        PiDualClassifier.load(folder)
    loaded = PiDualClassifier.load(folder, module=nn.Linear(5, 3))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    with pytest.raises(UsageError, match=r"not the one that .* was saved with"):
        PiDualClassifier.load(folder, module=nn.Linear(5, 2))


@pytest.mark.parametrize("labels", [[-1, 0, 5], [False, True, True], ["b", "a", "c"]], ids=["ints", "bools", "texts"])
def test_classes_of_any_type_are_saved_as_they_are(crowd, X, pi, labels, tmp_path):
    model = quick("latent_truth", keep_ids=True).fit(X, np.asarray(labels)[crowd.frame["label"]], pi=pi)
    loaded = PiDualClassifier.load(model.save(tmp_path / "model"))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    for name in ("label_issues_", "items_", "annotators_"):
        pd.testing.assert_frame_equal(getattr(loaded, name), getattr(model, name))
    assert set(model.items_["predicted_label"]) <= set(model.classes_)


@pytest.mark.parametrize("round_trip", ["pickle", "folder"])
def test_a_person_has_one_number_in_the_index_of_rows_and_of_items(X, y, pi, round_trip, tmp_path):
    index = pd.MultiIndex.from_arrays([np.arange(len(X)), "bob" + pi["annotator"].astype(str)], names=["row", "worker"])
    model = quick("ce", epochs=1).fit(pd.DataFrame(X, index=index).rename(columns=str), y)
    folder = round_trip == "folder"
    copied = PiDualClassifier.load(model.save(tmp_path / "m")) if folder else pickle.loads(pickle.dumps(model))
    assert not copied.items_.index.get_level_values("worker").str.startswith("bob").any()
    assert set(copied.items_.index) < set(copied.label_issues_.index)
    assert copied.items_.index.get_level_values("row").tolist() == model.items_.index.get_level_values("row").tolist()


def test_saving_through_a_link_and_over_what_was_left(X, y, tmp_path, monkeypatch):
    model = quick("ce", epochs=1).fit(X, y)
    (tmp_path / "link").symlink_to(model.save(tmp_path / "model"), target_is_directory=True)
    (tmp_path / ".model.old").mkdir()  # as if an earlier save had been killed
    (tmp_path / ".model.old" / "estimator.json").write_text("{}")
    model.set_params(verbose=1).save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert PiDualClassifier.load(tmp_path / "model").verbose == 1
    assert {path.name for path in tmp_path.iterdir()} == {"link", "model"}
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(UsageError, match="a folder of its own, not the one you are in"):
        model.save(".")


def test_an_index_that_no_file_holds_is_refused_when_it_is_saved(X, y, tmp_path):
    mixed = pd.Index([1, "a"] * (len(X) // 2), dtype=object)
    model = quick("ce", epochs=1).fit(pd.DataFrame(X, index=mixed).rename(columns=str), y)
    with pytest.raises(UsageError, match=r"The index of X .* fit with another index"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def change_json(change, name="estimator.json"):
    def changed(folder):
        described = json.loads((folder / name).read_text())
        change(described)
        (folder / name).write_text(json.dumps(described))

    return changed


def cut(name):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut("model.safetensors"), r"cannot read .*model\.safetensors"),
        (cut("estimator.json"), r"estimator\.json is not valid JSON"),
        (cut("items.parquet"), r"items\.parquet cannot be read"),
        (lambda folder: (folder / "label_issues.parquet").unlink(), r"label_issues\.parquet is missing"),
        (change_json(lambda saved: saved.update(dtype="zzz")), "classes are not of the type"),
        (change_json(lambda saved: saved.update(dtype="<U999999999")), "classes are not of the type"),
        (change_json(lambda saved: saved.update(classes=["a", "b"])), "as many classes as"),
        (change_json(lambda saved: saved.update(classes=[["a"], ["b"], ["c"]])), "a number or text, not a list"),
        (change_json(lambda saved: saved.pop("own_module")), "own_module is missing"),
        (change_json(lambda saved: saved["network"]["options"].update(width=33), "model.json"), "does not fit"),
    ],
)
def test_a_damaged_folder_is_refused_in_a_sentence(saved_ce, tmp_path, damage, said):
    folder = shutil.copytree(saved_ce, tmp_path / "model")
    damage(folder)
    with pytest.raises(RunError, match=said):
        PiDualClassifier.load(folder)


@pytest.fixture(scope="module")
def saved_ce(X, y, tmp_path_factory):
    return quick("ce", epochs=1).fit(X, y).save(tmp_path_factory.mktemp("saved") / "model")


def test_parameters_that_are_objects_are_never_read_from_a_folder(X, saved_ce, tmp_path):
    folder = shutil.copytree(saved_ce, tmp_path / "model")
    change_json(lambda saved: saved["parameters"].update(estimator="x", callbacks=[1], module=2, self=3))(folder)
    loaded = PiDualClassifier.load(folder)
    assert (loaded.callbacks, loaded.module) == (None, None)
    assert len(loaded.predict(X)) == len(X)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("mlp", "module must be an nn.Module or a callable"),
        (lambda: None, "must make an nn.Module, not NoneType"),
        (nn.Linear(5, 2), r"f\.weight has the shape \[3, 5\], not \[2, 5\]; give that one\.$"),
        (nn.Sequential(nn.Linear(5, 3)), r"f\.0\.weight is missing; give that one\.$"),
    ],
)
def test_another_module_than_the_saved_one_is_refused_in_a_sentence(X, y, saved_ce, module, said, tmp_path):
    folder = quick("ce", module=lambda: nn.Linear(5, 3), epochs=1).fit(X, y).save(tmp_path / "model")
    with pytest.raises(UsageError, match=said):
        PiDualClassifier.load(folder, module=module)
    with pytest.raises(UsageError, match="no network of its own; leave module= out"):
        PiDualClassifier.load(saved_ce, module=nn.Linear(5, 3))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"module": network, "network": "mlp"}, "network is for networks by name, and module takes their place"),
        ({"module": network, "network__width": 8}, "network__width is for networks by name"),
        ({"network": 3}, "network must be a name, such as 'mlp', not 3"),
        ({"callbacks": pidual.Callback()}, "callbacks must be a list of objects of pidual.Callback"),
        ({"callbacks": [3]}, "callbacks must be a list of objects of pidual.Callback"),
        ({"training__seed": 3}, "give it as random_state"),
        ({"training__lr": 0.3}, "lr and training__lr are the same option; give one"),
    ],
)
def test_what_is_given_twice_or_in_the_wrong_place_is_refused(X, y, options, said):
    with pytest.raises(UsageError, match=said):
        quick("ce", **options).fit(X, y)


@pytest.mark.parametrize(
    "options",
    [FitOptions(), FitOptions("pi_dual", options={"epochs": 2})],
    ids=["worked out", "trained"],
)
def test_a_run_becomes_a_classifier(crowd, tmp_path, options):
    table = AnnotationTable.from_frame(crowd.frame, pi=["annotator", "seconds"], keep_ids=True)
    run = fit_table(table, load_inputs(crowd.x.astype(np.float32)), tmp_path / "run", options)
    kind = PiDualClassifier if options.options else CrowdClassifier
    model = kind.from_run(tmp_path / "run")
    said = run.predict(crowd.x.astype(np.float32))
    assert model.predict(crowd.x).tolist() == said["predicted_label"].tolist()
    assert len(model.find_label_issues()) == len(crowd.frame)
    assert model.get_params().get("training__epochs") == options.options.get("epochs")
    assert len(model.items_) == len(crowd.x)
    again = clone(model).fit(
        crowd.x[crowd.frame["item"]], crowd.frame["label"], pi=crowd.frame[["annotator", "seconds"]]
    )
    if not options.options:  # of which nothing is drawn at random
        np.testing.assert_allclose(again.predict_proba(crowd.x), model.predict_proba(crowd.x), atol=1e-6)
    folder = model.save(tmp_path / "model")
    assert kind.load(folder).predict(crowd.x).tolist() == model.predict(crowd.x).tolist()
    other = CrowdClassifier if options.options else PiDualClassifier
    with pytest.raises(UsageError, match=rf"model is a {kind.__name__}; read it with {kind.__name__}\.load\.$"):
        other.load(folder)
    if options.options:
        with pytest.raises(UsageError, match=r"by the method 'pi_dual'; use PiDualClassifier\.from_run\.$"):
            CrowdClassifier.from_run(run)
    else:
        assert PiDualClassifier.from_run(run).method == "latent_truth"


def test_a_run_on_columns_knows_their_names(crowd, tmp_path):
    table = AnnotationTable.from_frame(crowd.frame)
    frame = pd.DataFrame(crowd.x, columns=list("abcde"))
    fit_table(table, load_inputs(frame), tmp_path / "run", FitOptions(method="ce", options={"epochs": 1}))
    model = PiDualClassifier.from_run(tmp_path / "run")
    assert list(model.feature_names_in_) == list("abcde")
    assert len(model.predict(frame)) == len(frame)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("bacde")])
    loaded = PiDualClassifier.load(model.save(tmp_path / "model"))
    assert loaded.predict(frame).tolist() == model.predict(frame).tolist()


def test_a_run_without_inputs_becomes_no_classifier(crowd, tmp_path):
    fit_table(AnnotationTable.from_frame(crowd.frame), no_inputs(), tmp_path / "run")
    with pytest.raises(UsageError, match=r"of the kind 'none' and no array X; use Run\.items"):
        PiDualClassifier.from_run(tmp_path / "run")


def test_parameters_that_are_set_after_a_fit_change_the_next_fit_only(X, y, tmp_path):
    model = quick("ce", epochs=1).fit(X, y)
    before = model.predict(X).tolist()
    model.set_params(module=nn.Linear(5, 3))
    assert model.predict(X).tolist() == before
    assert PiDualClassifier.load(model.save(tmp_path / "model")).predict(X).tolist() == before
    other = CrowdClassifier(estimator=LogisticRegression(), random_state=0).fit(X, y)
    before = other.predict(X).tolist()
    assert other.set_params(estimator=None).predict(X).tolist() == before
    with pytest.raises(UsageError, match="use joblib"):
        other.save(tmp_path / "other")
    assert not hasattr(other.fit(X, y), "estimator_")


def test_verbose_shows_progress(X, y, capsys):
    quick("ce", epochs=2).fit(X, y)
    assert capsys.readouterr().err == ""
    quick("ce", epochs=2, verbose=1).fit(X, y)
    assert "Training: 2 epochs" in capsys.readouterr().err
