"""The consensus that every method gets: given probabilities and all answers to an item, judged together."""

import numpy as np
import pandas as pd
import pytest
import torch
from contract import spec_of
from scipy.stats import beta

from pidual.api.fit import fit_table
from pidual.data import Inputs, read_table
from pidual.data.datasets.synthetic import make_crowd
from pidual.data.pi import EncodedPI
from pidual.fit import closed
from pidual.fit.fit import train
from pidual.fit.judge import assess
from pidual.fit.options import FitOptions
from pidual.fit.predict import ItemProbabilities, Tempered, first_part, predict_alone
from pidual.fit.prepare import prepare
from pidual.learn.answers.judging import fit_judge
from pidual.learn.answers.model import log_softmax
from pidual.learn.answers.rows import AnswerRows
from pidual.learn.batch import Rows
from pidual.learn.engine import Session, make_fabric
from pidual.learn.engine.predict import Scored

pytestmark = pytest.mark.shapes_unchecked


def made(n=400, k=3, people=10, per_item=3, seed=0, sure=2.0):
    """Rows of a crowd, and log-probabilities of a model that knows a little of the truth."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    item = np.repeat(np.arange(n), per_item)
    who = rng.integers(0, people, len(item))
    skill = rng.uniform(0.3, 0.95, people)
    given = np.where(rng.random(len(item)) < skill[who], y[item], rng.integers(0, k, len(item)))
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), y] += sure
    pi = EncodedPI(who[:, None].astype(np.int32), np.zeros((len(item), 0), np.float32))
    rows = Rows.build(np.zeros((n, 1), np.float32), item, given, pi, item=item)
    spec = spec_of(rows, k, (people,))
    spec = type(spec)(**{**vars(spec), "code_names": ("annotator",)})
    return rows, spec, log_softmax(logits), y


def judge_all(judge, log_p, rows):
    return judge(rows.of(np.arange(len(log_p)))[0], log_p).q


def test_answers_make_the_consensus_better_than_vote_and_model():
    rows, spec, log_p, y = made()
    answers = AnswerRows.fit(rows, spec, np.ones(len(rows), bool))
    judge = fit_judge(answers.of(np.arange(400))[0], log_p)
    q = judge_all(judge, log_p, answers)
    votes = np.zeros((400, 3))
    np.add.at(votes, (rows.item.numpy(), rows.y_noisy.numpy()), 1)
    right = (q.argmax(1) == y).mean()
    assert right > max((votes.argmax(1) == y).mean(), (log_p.argmax(1) == y).mean())
    assert abs(q.max(1).mean() - right) < 0.1


def test_answers_that_are_left_out_teach_nothing():
    rows, spec, log_p, _ = made()
    kept = rows.item.numpy() >= 100
    other = rows.subset(torch.arange(len(rows)))
    other.y_noisy[~torch.from_numpy(kept)] = 0
    judges = []
    for each in (rows, other):
        answers = AnswerRows.fit(each, spec, kept)
        judges.append(fit_judge(answers.of(np.arange(400), kept)[0], log_p))
    assert judges[0].temper == judges[1].temper
    assert (judges[0].model.flat() == judges[1].model.flat()).all()


def test_trained_items_are_made_as_sure_as_held_out_ones(crowd):
    table, inputs, _ = crowd
    job = prepare(table, inputs, FitOptions(method="ce", accelerator="cpu", valid_fraction=0.3))
    kept = ItemProbabilities(300, 4)
    trained, rng = first_part(job) == 0, np.random.default_rng(0)
    logits = 3 * rng.normal(size=(300, 4)) * np.where(trained, 2.5, 1.0)[:, None]
    kept.put(np.arange(300), np.exp(log_softmax(logits)))
    tempered = Tempered.fit(job, kept)
    sure = np.exp(tempered(np.arange(300), kept.log_p.astype(float))).max(1)
    assert tempered.power < 0.8
    assert abs(sure[trained].mean() - sure[~trained].mean()) < 0.03
    kept.put(np.arange(300), np.exp(log_softmax(logits / np.where(trained, 5.0, 1.0)[:, None])))
    assert Tempered.fit(job, kept).power == 1.0  # never surer


# --- as part of a fit ---


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crowd")
    crowd = make_crowd(300, 20, 3, noise=0.35, seed=3)
    crowd.frame.to_csv(folder / "labels.csv", index=False)
    table = read_table(folder / "labels.csv", pi=["annotator", "seconds"])
    return table, Inputs(crowd.x, None, "array", {}, source="x"), crowd


def fitted(crowd, method, **options):
    table, inputs, _ = crowd
    job = prepare(table, inputs, FitOptions(method=method, accelerator="cpu", **options))
    fabric = make_fabric("cpu")
    return job, train(job, Session(fabric)), fabric


def epochs(method, n):
    return {} if method == "latent_truth" else {"epochs": n}


def truth_and_vote(crowd):
    frame = crowd[2].frame
    y = frame.groupby("item")["y"].first()
    vote = frame.groupby("item")["label"].agg(lambda labels: labels.mode()[0])
    return y, float((vote == y).mean())


@pytest.mark.parametrize("method", ["ce", "pi_dual", "latent_truth"])
def test_the_consensus_of_a_small_crowd(crowd, method, monkeypatch):
    job, fit, fabric = fitted(crowd, method, options=epochs(method, 10))
    results = assess(job, fit, fabric)
    items, y, vote = results.items, *truth_and_vote(crowd)
    right = (items["consensus_label"].astype(int).to_numpy() == y[items["item"].astype(int)].to_numpy()).mean()
    assert right >= vote - 0.01
    assert abs(items["consensus_quality"].mean() - right) < 0.1
    assert items[[f"p_{k}" for k in range(4)]].sum(axis=1).to_numpy() == pytest.approx(np.ones(300), abs=1e-5)
    frame = results.predictions.frame
    joined = frame[["item", "consensus_label", "consensus_quality"]].astype({"item": str}).drop_duplicates()
    assert joined.merge(items.astype({"item": str}), on=["item", "consensus_quality"]).shape[0] == 300
    assert results.summary.evaluation.consensus_accuracy == pytest.approx(right)
    assert (frame["label_quality"][frame["is_label_issue"]] < results.summary.cutoff.value).all()
    (effect,) = results.summary.pi_effects
    assert (effect.column, effect.low < effect.high) == ("seconds", True)
    assert effect.right_at_low < effect.right_at_high  # quick answers are wrong ones
    people = results.annotators.set_index("annotator")
    assert (
        (people["quality_low"] <= people["annotator_quality"]) & (people["annotator_quality"] <= people["quality_high"])
    ).all()
    posterior = items.set_index("item")[[f"p_{k}" for k in range(4)]].loc[frame["item"]].to_numpy()
    in_full = posterior[np.arange(900), frame["given_label"].cat.codes]
    assert (frame["label_quality"] <= in_full + 1e-5).mean() > 0.8  # most speak for themselves, half as much
    assert np.corrcoef(frame["label_quality"], in_full)[0, 1] > 0.9
    assert results.summary.noise.low <= results.summary.noise.rate <= results.summary.noise.high
    consensus = results.summary.consensus
    assert consensus.accuracy == pytest.approx(items["consensus_quality"].mean(), abs=1e-6)
    by_chance = beta(300 * consensus.accuracy, 300 * (1 - consensus.accuracy)).ppf([0.025, 0.975])
    assert consensus.low < by_chance[0] + 0.01  # 300 items may be others
    assert consensus.high > by_chance[1] - 0.01
    if method != "latent_truth":
        monkeypatch.setattr(
            "pidual.fit.predict.KEPT_NUMBERS", 600
        )  # every second item is kept, and the network asked twice
        again = assess(job, fit, fabric).items
        assert (again["consensus_label"] == items["consensus_label"]).mean() > 0.95


@pytest.mark.parametrize("method", ["ce", "latent_truth"])
def test_a_run_of_many_classes(tmp_path, method):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(25), 4)
    frame = pd.DataFrame({"item": np.repeat(np.arange(100), 2), "label": [f"c{k:02d}" for k in np.repeat(y, 2)]})
    frame["annotator"] = [f"p{i % 5}" for i in range(200)]
    frame.to_csv(tmp_path / "labels.csv", index=False)
    table = read_table(tmp_path / "labels.csv", pi=["annotator"])
    inputs = Inputs.from_array(rng.normal(size=(100, 4)).astype(np.float32), source="x")
    run = fit_table(table, inputs, tmp_path / "run", FitOptions(method=method, options=epochs(method, 1)))
    items = run.items
    assert (items["top_1"] == items["consensus_label"]).all()
    assert (items["top_1_probability"] == items["consensus_quality"]).all()
    shares = items[[f"top_{place}_probability" for place in range(1, 6)]].to_numpy()
    assert (np.diff(shares, axis=1) <= 0).all()
    assert not [name for name in items if name.startswith("p_")]
    assert len(run.detect(budget=3)) == 3


@pytest.mark.parametrize("method", ["ce", "latent_truth"])
def test_answers_of_test_rows_do_not_touch_predictions(tmp_path, method):
    crowd = make_crowd(120, 10, 3, seed=1)
    frames = []
    for shift in (0, 1):
        frame = crowd.frame.assign(split=np.where(crowd.frame["item"].astype(int) < 30, "test", "train"))
        test = frame["split"] == "test"
        frame.loc[test, "label"] = (frame.loc[test, "y"].astype(int) + shift) % 4
        frame.to_csv(tmp_path / "labels.csv", index=False)
        table = read_table(tmp_path / "labels.csv", pi=["annotator", "seconds"])
        inputs = Inputs(crowd.x, None, "array", {}, source="x")
        job, fit, fabric = fitted((table, inputs, crowd), method, options=epochs(method, 2))
        results = assess(job, fit, fabric)
        frames.append(results.predictions.frame)
        right = (frames[-1]["predicted_label"].astype(int) == frames[-1]["y"].astype(int))[test]
        assert results.summary.evaluation.test_accuracy == pytest.approx(right.mean())
    first, second = (frame.sort_values("row") for frame in frames)
    assert (first["predicted_label"].astype(str) == second["predicted_label"].astype(str)).all()
    test = first["split"] == "test"
    assert (first["consensus_label"].astype(str) != second["consensus_label"].astype(str))[test].any()
    assert np.allclose(first["consensus_quality"][~test], second["consensus_quality"][~test], atol=1e-6)


def test_several_inputs_of_one_item_are_averaged():
    p = np.array([[0.8, 0.2], [0.4, 0.6], [0.1, 0.9]], np.float32)
    item, inputs = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 2, 2])
    scored = Scored(np.arange(5), np.array([7, 8]), item, inputs, p, {})
    assert scored.of_items() == pytest.approx(np.array([[0.6, 0.4], [0.1, 0.9]]))


def test_a_benchmark_leaves_the_consensus_out(crowd):
    job, fit, fabric = fitted(crowd, "ce", options={"epochs": 2})
    predictions = predict_alone(job, fit, fabric)
    assert (predictions.suggested == predictions.predicted).all()
    assert predictions.n_issues == 0  # nothing is judged, and no reason is looked for
    whole = assess(job, fit, fabric).predictions
    assert (predictions.label_quality == whole.frame["given_probability"]).all()  # of the network alone


def test_effects_of_categories_and_constants(tmp_path):
    rng = np.random.default_rng(0)
    crowd = make_crowd(300, 20, 3, noise=0.3, seed=5)
    frame = crowd.frame.assign(tool=np.where(crowd.frame["label"] == crowd.frame["y"], "web", "phone"), same=1.5)
    frame.loc[rng.random(len(frame)) < 0.3, "tool"] = "desk"
    frame["many"] = [f"v{i}" for i in rng.integers(0, 60, len(frame))]
    frame["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 9, len(frame)), unit="D")
    frame.to_csv(tmp_path / "labels.csv", index=False)
    table = read_table(tmp_path / "labels.csv", pi=["annotator", "tool", "same", "many", "day"])
    job, fit, fabric = fitted(
        (table, Inputs(crowd.x, None, "array", {}, source="x"), crowd), "ce", options={"epochs": 15}
    )
    effects = {effect.column: effect for effect in assess(job, fit, fabric).summary.pi_effects}
    assert {*effects} == {"tool", "day"}
    tool = effects["tool"]
    assert (tool.low, tool.high) == ("phone", "web")
    assert tool.right_at_low < 0.5 < tool.right_at_high
    assert effects["day"].low.startswith("2026-01-01")
    assert abs(effects["day"].right_at_low - effects["day"].right_at_high) < 0.15


@pytest.mark.parametrize("kept", [2**27, 0])
def test_of_many_answers_some_items_are_fitted_and_all_are_judged(kept, tmp_path, monkeypatch):
    """A third of the items is fitted; what is said about the others is what the classifier predicts, kept or not."""
    crowd = make_crowd(600, 8, 3, 3, 4, noise=0.3, seed=0)
    table = read_table(crowd.frame, pi=["annotator"], keep_ids=True)
    monkeypatch.setattr(closed, "LEARNED_NUMBERS", 1800)  # answers x classes are 5,400
    monkeypatch.setattr(closed, "KEPT_NUMBERS", kept)
    run = fit_table(table, Inputs.from_array(crowd.x), tmp_path / "run")
    found = run.predictions.frame
    assert found["row"].tolist() == list(range(1800))
    items = found.drop_duplicates("item").astype({"item": int}).set_index("item").sort_index()
    fitted = table.frame["item"].cat.categories[::3]
    said, predicted = (each["predicted_probability"].to_numpy() for each in (items, run.predict(crowd.x)))
    others = ~items.index.isin(fitted)
    np.testing.assert_allclose(said[others], predicted[others], atol=1e-5)
    assert np.abs(said - predicted)[~others].max() > 1e-3  # by fits without the item
    y = crowd.frame.groupby("item")["y"].first()
    assert (items["consensus_label"].to_numpy() == y.to_numpy()).mean() > 0.9


@pytest.mark.parametrize("k", [2, 40])
def test_two_and_many_classes_one_item_and_one_answer(k):
    for n, per_item in ((1, 1), (30, 1), (5, 40)):
        rows, spec, log_p, _ = made(n=n, k=k, per_item=per_item)
        answers = AnswerRows.fit(rows, spec, np.ones(len(rows), bool))
        judge = fit_judge(answers.of(np.arange(n))[0], log_p)
        assert judge_all(judge, log_p, answers).sum(1) == pytest.approx(np.ones(n), abs=1e-5)
