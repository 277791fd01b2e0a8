"""Items of known class correct what a fit states: consensus, noise, shares, annotators, verdict."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli

from pidual import judge
from pidual.api.classifier import CrowdClassifier
from pidual.api.fit import fit_table
from pidual.api.run import Run
from pidual.data import AnnotationTable, Inputs
from pidual.data.datasets.synthetic import make_judges
from pidual.learn.engine import Interrupted
from pidual.run.decisions import Store

pytestmark = pytest.mark.shapes_unchecked

PI = ["annotator", "order", "words"]
SEEDS = range(12)


def frame_of(panel):
    """The judgements that are answers, as a table of annotations."""
    frame = panel.frame[panel.frame["verdict"] != "unsure"].drop(columns="logprob")
    return frame.rename(columns={"judge": "annotator", "verdict": "label"}).reset_index(drop=True)


def gold_of(panel, frame, n=None):
    """The known class of each row, None where there is none."""
    return frame["item"].map(panel.gold.head(n).set_index("item")["truth"]).to_numpy(dtype=object)


@pytest.fixture(scope="module")
def judged():
    """Panels, and judgements with and without their gold."""
    found = []
    for seed in SEEDS:
        panel = make_judges(seed=seed)
        frame = frame_of(panel)
        found.append((panel, frame, judge(frame, pi=PI), judge(frame, pi=PI, truth=panel.gold)))
    return found


def true_of(panel, frame, judgement):
    """The accuracy of the consensus on items without gold, the share of wrong labels, and that of items that pass."""
    items = judgement.items.set_index(judgement.items["item"].astype(str))
    right = items["consensus_label"].astype(str) == panel.truth.loc[items.index]
    wrong = frame["label"].to_numpy() != panel.truth.loc[frame["item"]].to_numpy()
    return right[~items.index.isin(panel.gold["item"])].mean(), wrong.mean(), (panel.truth == "pass").mean()


def test_a_panel_is_doubtful_until_gold_says_what_is_true(judged):
    for _, _, without, gold in judged:
        assert without.summary.verdict.status == "doubtful"
        assert "`pidual next RUN --gold 50`" in " ".join(without.summary.verdict.reasons)
        assert without.summary.gold is None
        assert not any("pidual next" in reason for reason in gold.summary.verdict.reasons)


def test_what_is_stated_with_gold_is_near_the_truth_and_in_its_interval(judged):
    off, held = [], []
    for panel, frame, _, found in judged:
        gold = found.summary.gold
        stated = gold.accuracy, gold.noise, next(each for each in gold.shares if each.label == "pass")
        true = true_of(panel, frame, found)
        off.append([abs(each.rate - value) for each, value in zip(stated, true, strict=True)])
        held.append([each.low <= value <= each.high for each, value in zip(stated, true, strict=True)])
        assert found.summary.noise == gold.noise
        assert found.summary.consensus.accuracy == gold.accuracy.rate
        assert gold.n_gold == 100
    assert (np.median(off, axis=0) < 0.03).all(), off
    assert np.mean(held) > 0.85, held


def test_gold_has_its_class_and_others_are_as_sure_as_they_are_right(judged):
    stated, right = [], []
    for panel, frame, _, found in judged:
        items = found.items.set_index(found.items["item"].astype(str))
        gold = panel.gold.set_index("item")["truth"]
        assert (items.loc[gold.index, "consensus_label"].astype(str) == gold).all()
        np.testing.assert_allclose(items.loc[gold.index, "consensus_quality"], 1, atol=1e-6)
        rows = frame["item"].isin(gold.index)
        is_right = frame.loc[rows, "label"].to_numpy() == gold.loc[frame.loc[rows, "item"]].to_numpy()
        np.testing.assert_allclose(found.predictions["label_quality"][rows.to_numpy()], is_right, atol=1e-6)
        rest = items[~items.index.isin(gold.index)]
        stated.append(rest["consensus_quality"].mean())
        right.append((rest["consensus_label"].astype(str) == panel.truth.loc[rest.index]).mean())
    assert np.mean(stated) == pytest.approx(np.mean(right), abs=0.03)


def test_each_annotator_has_an_interval_that_holds(judged):
    held = []
    for panel, frame, _, found in judged:
        right = frame["label"].to_numpy() == panel.truth.loc[frame["item"]].to_numpy()
        true = pd.Series(right).groupby(frame["annotator"]).mean()
        people = found.annotators.set_index(found.annotators["annotator"].astype(str))
        held.append(people["quality_low"].le(true + 1e-6) & people["quality_high"].ge(true - 1e-6))
    assert np.mean(held) > 0.9


def test_what_gold_contradicts_is_said_first():
    rng = np.random.default_rng(0)
    y, shared = rng.integers(0, 2, 400), rng.random(400) < 0.35  # items that mislead nearly everybody
    said = np.where(rng.random((400, 6)) < np.where(shared, 0.1, 0.95)[:, None], y[:, None], 1 - y[:, None])
    frame = pd.DataFrame(
        {"item": np.repeat(np.arange(400), 6), "label": said.ravel(), "annotator": list("abcdef") * 400}
    )
    gold = pd.DataFrame({"item": np.arange(100), "truth": y[:100]})
    found = judge(frame, truth=gold).summary
    assert found.gold.contradicted
    assert found.gold.stated_accuracy > found.gold.accuracy.high
    assert found.gold.accuracy.low <= 1 - shared[100:].mean() <= found.gold.accuracy.high
    first = found.verdict.reasons[0]
    assert first.startswith("By your 100 checked items the consensus is right for")
    assert f"not {found.gold.stated_accuracy:.1%} as stated before" in first
    assert found.verdict.status == "doubtful"


def test_noise_that_gold_contradicts_is_said_first_and_is_no_doubt(tmp_path):
    panel = make_judges(n_items=150, n_judges=6, n_gold=75, seed=2)
    frame = frame_of(panel)
    frame.assign(truth=gold_of(panel, frame)).to_csv(tmp_path / "labels.csv", index=False)
    words = ["--no-x", "--pi", ",".join(PI), "--quiet", "--keep-ids", "--out", tmp_path / "run"]
    code, out, err = run_cli(["fit", tmp_path / "labels.csv", *words])
    assert code == 0, err
    summary = Run.open(tmp_path / "run").summary
    gold, noise = summary.gold, summary.gold.noise
    assert not noise.low <= gold.stated_noise <= noise.high
    assert gold.accuracy.low <= gold.stated_accuracy <= gold.accuracy.high
    assert summary.verdict.status == "ok"
    said = f"By your 75 checked items the share of wrong labels is {noise.rate:.1%} ("
    assert out.startswith(said)
    assert f"not {gold.stated_noise:.1%} as stated before; all numbers here follow them." in out.splitlines()[0]
    assert said in (tmp_path / "run" / "report.html").read_text()


def test_any_source_of_gold_gives_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    panel = make_judges(n_items=120, n_judges=6, n_gold=40, seed=1)
    frame = frame_of(panel)
    frame.to_csv("labels.csv", index=False)
    frame.assign(truth=gold_of(panel, frame)).to_csv("with_truth.csv", index=False)
    panel.gold.to_csv("gold.csv", index=False)
    words = ["--no-x", "--pi", ",".join(PI), "--quiet", "--keep-ids"]
    for table, out, more in (("labels.csv", "file", ["--truth", "gold.csv"]), ("with_truth.csv", "column", [])):
        code, said, err = run_cli(["fit", table, *words, *more, "--out", out])
        assert code == 0, err
        assert "By your 40 checked items the consensus is right for " in said
        assert "Shares of the items by class: fail " in said
    runs = [Run.open(name) for name in ("file", "column")]
    codes = [["fail", "pass"].index(each) if isinstance(each, str) else -1 for each in gold_of(panel, frame)]
    found = [
        *(run.summary.gold for run in runs),
        judge(frame, pi=PI, truth=gold_of(panel, frame)).summary.gold,
        judge(frame, pi=PI, truth=codes).summary.gold,
        judge(frame.assign(truth=gold_of(panel, frame)), pi=PI).summary.gold,
    ]
    assert all(each == found[0] for each in found)
    assert runs[0].calibration == found[0]
    assert "truth" not in runs[1].predictions.frame


def test_decisions_are_gold_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    panel = make_judges(n_items=120, n_judges=6, n_gold=40, seed=1)
    frame = frame_of(panel)
    frame.to_csv("labels.csv", index=False)
    panel.gold.to_csv("gold.csv", index=False)
    words = ["--no-x", "--pi", ",".join(PI), "--quiet", "--keep-ids"]
    assert run_cli(["fit", "labels.csv", *words, "--out", "run"])[0] == 0
    assert run_cli(["fit", "labels.csv", *words, "--truth", "gold.csv", "--out", "told"])[0] == 0
    rows = frame.drop_duplicates("item").index[frame.drop_duplicates("item")["item"].isin(panel.gold["item"])]
    decide(Run.open("run"), rows, frame, panel.truth)
    before = Run.open("run").calibration
    assert before.n_gold == 40
    assert before.cutoff is not None
    assert run_cli(["fit", "--from", "run", "--quiet", "--out", "again"])[0] == 0
    assert numbers(Run.open("again")) == pytest.approx(numbers(Run.open("told")))


def numbers(found):
    """What gold says in numbers."""
    gold = found.summary.gold
    rates = [gold.accuracy, gold.noise, *gold.shares]
    return [gold.sharpness, gold.votes, *(value for each in rates for value in (each.rate, each.low, each.high))]


def decide(run, rows, frame, truth):
    """Let a reviewer say what is true of these labels."""
    store = Store(run)
    for row in rows:
        label, right = frame["label"][row], truth[frame["item"][row]]
        what = ("keep", label) if label == right else ("change", right)
        store.add(int(row), *what, reviewer="ann", request=str(row))
    store.close()


def test_too_few_items_say_how_many_are_missing():
    panel = make_judges(n_items=100, n_judges=5, n_gold=12)
    frame = frame_of(panel)
    found = judge(frame, pi=PI, truth=panel.gold).summary
    assert found.gold is None
    assert "12 checked items; with 8 more they correct what is stated of all." in found.warnings


def test_a_classifier_learns_from_gold():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 4)), rng.integers(0, 2, 200)
    x[:, 0] += 2 * y
    said = np.where(rng.random((200, 3)) < 0.7, y[:, None], 1 - y[:, None])
    rows, truth = np.repeat(np.arange(200), 3), np.where(np.arange(200) < 60, y.astype(float), np.nan)
    found = CrowdClassifier(random_state=0).fit(x[rows], said.ravel(), np.tile(list("abc"), 200), truth=truth[rows])
    gold = found.summary_.gold
    assert gold.n_gold == 60
    assert gold.noise.low <= (said != y[:, None]).mean() <= gold.noise.high


def test_a_fit_that_was_stopped_after_the_one_without_gold_goes_on(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 3)).astype(np.float32), rng.integers(0, 2, 80)
    x[:, 0] += 2 * y
    said = np.where(rng.random((80, 3)) < 0.75, y[:, None], 1 - y[:, None])
    frame = pd.DataFrame({"item": np.repeat(np.arange(80), 3), "label": said.ravel(), "annotator": list("abc") * 80})
    table, inputs = AnnotationTable.from_frame(frame, keep_ids=True), Inputs.from_array(x)
    truth = np.where(frame["item"] < 30, y[frame["item"]], -1)
    whole, asked = fit_table(table, inputs, tmp_path / "whole", truth=truth), iter([False, True])
    with pytest.raises(Interrupted):
        fit_table(table, inputs, tmp_path / "parts", truth=truth, stop=lambda: next(asked))
    parts = fit_table(table, inputs, tmp_path / "parts", truth=truth, resume=True)
    assert numbers(parts) == pytest.approx(numbers(whole))
    pd.testing.assert_frame_equal(parts.predictions.frame, whole.predictions.frame)
    pd.testing.assert_frame_equal(parts.annotators, whole.annotators)


@pytest.mark.parametrize("method", ["ce", "pi_dual"])
def test_gold_corrects_what_any_method_states(tmp_path, method):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 4)).astype(np.float32), rng.integers(0, 2, 400)
    x[:, 0] += 2 * y
    shared = rng.random(400) < 0.3  # items that mislead nearly everybody
    said = np.where(rng.random((400, 4)) < np.where(shared, 0.1, 0.95)[:, None], y[:, None], 1 - y[:, None])
    frame = pd.DataFrame({"item": np.repeat(np.arange(400), 4), "label": said.ravel(), "annotator": list("abcd") * 400})
    frame.to_csv(tmp_path / "labels.csv", index=False)
    np.save(tmp_path / "x.npy", x)
    pd.DataFrame({"item": np.arange(100), "truth": y[:100]}).to_csv(tmp_path / "gold.csv", index=False)
    words = ["fit", "labels.csv", "--x", "x.npy", "--method", method, "--epochs", "3", "--keep-ids", "--out"]
    with contextlib.chdir(tmp_path):
        assert run_cli([*words, "told", "--truth", "gold.csv"])[0] == 0
        assert run_cli([*words, "untold"])[0] == 0
    told, untold = Run.open(tmp_path / "told"), Run.open(tmp_path / "untold")
    is_right = told.items["consensus_label"].astype(int).to_numpy() == y[told.items["item"].astype(int)]
    known, gold = told.items["item"].astype(int).to_numpy() < 100, told.summary.gold
    assert (gold.n_gold, untold.summary.gold) == (100, None)
    assert gold.accuracy.low <= is_right[~known].mean() <= gold.accuracy.high
    assert gold.noise.low <= (said != y[:, None]).mean() <= gold.noise.high
    assert is_right[known].all()
    pd.testing.assert_frame_equal(told.predict(x), untold.predict(x))  # f learns from labels alone
    assert len(told.history) == len(untold.history) == 3
    sure = [run.judge(frame.tail(396), x=x)["consensus_quality"].mean() for run in (told, untold)]
    assert abs(sure[0] - is_right[~known].mean()) < 0.1 < abs(sure[1] - is_right[~known].mean())
