"""Labels judged by given probabilities, or by the answers alone: what is read, what is refused, what it comes to."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from answers import make_answers, make_probabilities
from command_line import refused_and_nothing_written, run_cli, write_crowd

import pidual
from pidual import judge
from pidual.api.any_classifier import item_posteriors
from pidual.api.run import Run
from pidual.data import AnnotationTable, load_probabilities, no_inputs
from pidual.detect.sentences import percent
from pidual.errors import DataWarning, UsageError
from pidual.fit.fit import train
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare
from pidual.learn.answers.posterior import put_together
from pidual.learn.batch import Mapped, Rows
from pidual.learn.nets import Recalibrated, build_network
from pidual.run.decisions import Store
from pidual.run.predictions import read_frame

pytestmark = [pytest.mark.runs_first, pytest.mark.shapes_unchecked]

NAMES = np.array(["cat", "dog", "owl"])


def posteriors(table, pred_probs=None, **options):
    """q of every item."""
    inputs = no_inputs() if pred_probs is None else load_probabilities(pred_probs, table.classes)
    job = prepare(table, inputs, FitOptions.judging(**options))
    return item_posteriors(job, train(job))


def test_rows_that_are_no_answer_do_not_vote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = make_answers(60, per_item=4)[0].assign(label=lambda f: NAMES[f["label"]])
    abstained = frame["label"].where(np.arange(len(frame)) % 9 > 0, np.where(frame["item"] % 2, "unsure", "Unsure "))
    frame.assign(label=abstained).to_csv("labels.csv", index=False)
    answered = frame[np.arange(len(frame)) % 9 > 0]
    n = len(frame) - len(answered)
    words = ["fit", "labels.csv", "--no-x", "--keep-ids", "--quiet"]
    code, _, err = run_cli([*words, "--no-answer", "UNSURE", "--out", "run"])
    assert code == 0, err
    assert f"{n} rows (11.2%) with no answer ('UNSURE') are left out of the votes." in err
    run = Run.open("run")
    assert run.config.source.read.no_answer == ("UNSURE",)
    assert run.predictions.frame["row"].tolist() == list(range(len(answered)))
    assert run.predictions.frame["table_row"].tolist() == answered.index.tolist()
    people = (
        run.annotators.astype({"annotator": str}).set_index("annotator")[["num_labelled", "no_answers"]].sort_index()
    )
    assert people.sum(axis=1).tolist() == frame["annotator"].value_counts().sort_index().tolist()
    assert people["no_answers"].sum() == n
    report = (tmp_path / "run" / "report.html").read_text()
    assert report.count("No answer</th>") == 1
    share = people["no_answers"] / people.sum(axis=1)
    assert all(f'data-label="No answer">{percent(one)}</td>' in report for one in share)
    assert "no_answers" in run_cli(["annotators", "run"])[1]
    alone = judge(answered)
    pd.testing.assert_frame_equal(run.items, alone.items, check_dtype=False, check_categorical=False)
    assert "no_answers" not in alone.annotators
    with pytest.warns(DataWarning, match=f"{n} rows"):
        same = judge(frame.assign(label=abstained), no_answer=["unsure"])
    pd.testing.assert_frame_equal(same.items, alone.items)
    with pytest.raises(UsageError, match="give it to read_table"):
        judge(AnnotationTable.from_frame(answered), no_answer=["unsure"])

    assert run_cli([*words, "--no-answer", "UNSURE", "--out", "run", "--resume"])[0] == 0
    store = Store(run)
    store.add(3, "keep", run.predictions.frame["given_label"].astype(str)[3], reviewer="ann", request="1")
    store.close()
    code, _, err = run_cli(["fit", "--from", "run", "--out", "again", "--quiet"])
    assert code == 0, err
    assert Run.open("again").config.source.read.no_answer == ("UNSURE",)
    assert run_cli(["export", "run", "clean.csv", "--to", "csv"])[0] == 0
    clean = pd.read_csv("clean.csv")["label"]
    assert clean[abstained != frame["label"]].str.strip().str.lower().eq("unsure").all()


@pytest.fixture
def files(tmp_path):
    """A crowd with p.npy, the probabilities of its items."""
    write_crowd(tmp_path)
    frame = pd.read_csv(tmp_path / "labels.csv")
    y = frame.groupby("item")["y"].first()
    np.save(tmp_path / "p.npy", make_probabilities(y.map({name: k for k, name in enumerate(NAMES)}).to_numpy()))
    return tmp_path


def fit(folder, *options):
    return run_cli(["fit", folder / "labels.csv", "--out", folder / "run", "--quiet", *options])


# --- end to end ---


def test_fit_with_probabilities_writes_a_run_that_predicts(files):
    code, out, err = fit(files, "--probs", files / "p.npy", "--json")
    assert code in (0, None), err
    summary = json.loads(out)
    assert summary["evaluation"]["detection_auc"] > 0.95
    run = pidual.Run(files / "run")
    assert run.config.method == "latent_truth"
    assert run.config.network.name == "given"
    assert len(read_frame(files / "run" / "items.parquet")) == 60
    code, _, err = run_cli(["predict", files / "run", files / "p.npy", "--out", files / "new.csv"])
    assert code in (0, None), err
    predicted = pd.read_csv(files / "new.csv")
    agree = predicted["predicted_label"].to_numpy() == NAMES[np.load(files / "p.npy").argmax(1)]
    assert agree.mean() > 0.85  # a class bias moves a few


def test_given_probabilities_are_predicted_as_held_out_answers_ask_for(files):
    """The exponent of each, and what is added for each class, are those of the fit."""
    assert fit(files, "--probs", files / "p.npy")[0] == 0
    run, p = pidual.Run(files / "run"), np.load(files / "p.npy").astype(np.float64)
    learned = run.load().learned.judge
    said = run.predict(files / "p.npy").filter(regex="^p_")
    np.testing.assert_allclose(said, np.exp(learned.log_f(np.log(p))), atol=1e-6)
    some = run.predict(p[[7, 3]].astype(np.float32)).filter(regex="^p_")
    np.testing.assert_allclose(some, said.iloc[[7, 3]], atol=1e-7)
    last = run.predict(files / "p.npy", weights="last").filter(regex="^p_")
    np.testing.assert_array_equal(last, said)
    code, _, err = run_cli(["predict", files / "run", files / "x.npy"])
    assert (code, err.count("\n")) == (1, 1)


@pytest.mark.parametrize("options", [("--probs", "p.npy"), ("--no-x",)])
def test_what_was_learned_about_answers_is_in_the_run(files, options, monkeypatch):
    monkeypatch.chdir(files)
    assert fit(files, *options)[0] == 0
    learned = pidual.Run(files / "run").load().learned.judge
    (record,) = pidual.Run(files / "run").summary.model_selection
    assert (learned.temper.tau, learned.temper.sharpness) == (record.tau, record.sharpness)
    assert np.exp(learned.log_share).sum() == pytest.approx(1)
    assert learned.model.skill.std() > 0.1  # some of these people guess
    before = (files / "run" / "predictions.parquet").read_bytes()
    assert fit(files, *options, "--force", "--seed", 5)[0] == 0
    assert (files / "run" / "predictions.parquet").read_bytes() == before


def test_fit_without_x(files):
    code, out, err = fit(files, "--no-x", "--json")
    assert code in (0, None), err
    assert json.loads(out)["evaluation"]["detection_auc"] > 0.9
    refused = run_cli(["predict", files / "run", files / "x_test.npy", "--out", files / "new.csv"])
    assert refused[0] == 2
    assert "fitted without inputs" in refused[2]


def test_reasons_without_x_do_not_speak_of_an_input(files):
    assert fit(files, "--no-x")[0] == 0
    run = pidual.Run(files / "run")
    assert run.predictions.n_issues > 10
    assert not run.predictions.has_input
    reasons = run.predictions.issues()["reason"]
    assert not reasons.str.contains("input").any()
    assert reasons.str.contains("other label").all()
    code, out, err = run_cli(["detect", files / "run", "--budget", "150"])  # reasons that the run does not hold
    assert code == 0, err
    assert "input alone" not in out
    assert "input alone" not in (files / "run" / "report.html").read_text()


def test_judge_gives_what_a_run_holds(files):
    frame, _ = make_answers()
    judged = pidual.judge(frame)
    assert len(judged.items) == 200
    assert len(judged.predictions) == len(frame)
    assert set(judged.annotators["annotator"]) == set(frame["annotator"])
    (record,) = judged.summary.model_selection
    assert record.tau > 0
    again = pidual.judge(AnnotationTable.from_frame(frame, keep_ids=True))
    np.testing.assert_array_equal(again.predictions["label_quality"], judged.predictions["label_quality"])


def test_probabilities_help(files):
    frame, y = make_answers(right=(0.7, 0.6, 0.5))
    table = AnnotationTable.from_frame(frame)
    p = make_probabilities(y)
    alone, given = ((posteriors(table, probs).argmax(1) == y).mean() for probs in (None, p))
    votes = np.zeros((len(y), 3))
    np.add.at(votes, (frame["item"], frame["label"]), 1)
    assert given > max(alone, (votes.argmax(1) == y).mean(), (p.argmax(1) == y).mean())


# --- what is read ---


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("how", ["array", "npy", "npz", "csv", "parquet", "frame"])
def test_probabilities_of_any_form_are_one(tmp_path, how, dtype):
    p = make_probabilities(np.arange(12) % 3).astype(dtype)
    names = [f"item-{row}" for row in range(12)]
    frame = pd.DataFrame(p.astype(np.float64), columns=["p_owl", "p_cat", "p_dog"]).assign(item=names)
    source = {"array": p, "frame": frame}.get(how, tmp_path / f"p.{how}")
    if how == "npy":
        np.save(source, p)
    elif how == "npz":
        np.savez(source, pred_probs=p, item=names)
    elif how in ("csv", "parquet"):
        frame.to_csv(source, index=False) if how == "csv" else frame.to_parquet(source)
    read = load_probabilities(source, NAMES.tolist())
    named = how in ("csv", "parquet", "frame")  # columns by the names of the classes, wherever they stand
    np.testing.assert_allclose(read.array, p[:, [1, 2, 0]] if named else p, rtol=1e-6)
    assert read.kind == "probabilities"
    assert (read.names is None) == (how in ("array", "npy"))


def test_rows_are_joined_by_name(files):
    frame, y = make_answers()
    p = make_probabilities(y)
    order = np.random.default_rng(1).permutation(len(y))
    named = pd.DataFrame(p[order], columns=["0", "1", "2"]).assign(item=order.astype(str))
    by_number, by_name = (pidual.judge(frame, probs).predictions["label_quality"] for probs in (p, named))
    np.testing.assert_array_equal(by_number, by_name)


def test_a_memory_map_is_read_in_parts(tmp_path):
    p = make_probabilities(np.arange(50) % 3)
    np.save(tmp_path / "p.npy", p)
    read = load_probabilities(tmp_path / "p.npy", 3)
    rows = Rows.build(read.array, np.arange(50), np.zeros(50, np.int64))
    assert isinstance(rows.x, Mapped)
    np.testing.assert_array_equal(rows.take_x(torch.tensor([4, 1])).numpy(), p[[4, 1]])
    frame, _ = make_answers(n_items=50)
    in_memory, mapped = (pidual.judge(frame, probs).predictions["label_quality"] for probs in (p, read.array))
    np.testing.assert_array_equal(in_memory, mapped)


def test_a_recalibration_has_a_temperature_and_a_bias():
    f = Recalibrated(3)
    with torch.no_grad():
        f.log_temperature.fill_(0.5)
        f.bias.copy_(torch.tensor([[0.1, 0.2, -0.3]]))
    p = torch.from_numpy(make_probabilities(np.arange(5) % 3))
    torch.testing.assert_close(f(p), p.log() * np.exp(0.5) + torch.tensor([0.1, 0.2, -0.3]))
    assert build_network("prior", in_shape=(1,), n_classes=3)(torch.zeros(6, 1)).shape == (6, 3)


# --- what is refused ---


def with_row(p, row, values):
    p = p.copy()
    p[row] = values
    return p


BAD = {
    "a sum": (lambda p: with_row(p, 5, [0.5, 0.2, 0.2]), ["row 5", "sum to 0.9"]),
    "logits": (lambda p: np.log(p), ["row 0", "column", "not a probability", "softmax"]),
    "above one": (lambda p: with_row(p, 2, [2.0, 0.5, 0.5]), ["row 2", "column 0", "2 is not a probability"]),
    "NaN": (lambda p: with_row(p, 3, [np.nan, 0.5, 0.5]), ["row 3", "column 0", "nan"]),
    "columns": (lambda p: np.full((60, 4), 0.25), ["4 columns", "3 classes", "cat, dog, owl"]),
    "rows": (lambda p: p[:40], ["no probabilities for 20 of the 60 items", "40 rows"]),
    "a vector": (lambda p: p[:, 0], ["shape (60,)"]),
    "text": (lambda p: p.astype(str), ["numbers"]),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_probabilities_are_refused_in_one_sentence(files, what):
    change, parts = BAD[what]
    np.save(files / "bad.npy", change(np.load(files / "p.npy")))
    refused_and_nothing_written(files, fit(files, "--probs", files / "bad.npy"), 1, files / "bad.npy", *parts)


def test_nan_in_a_table_of_probabilities(files):
    p = pd.DataFrame(np.load(files / "p.npy"), columns=NAMES)
    p.loc[3, "dog"] = np.nan
    p.assign(item=range(60)).to_csv(files / "bad.csv", index=False)
    refused_and_nothing_written(files, fit(files, "--probs", files / "bad.csv"), 1, "bad.csv", "row 3", "column 1")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--probs", "p.npy", "--x", "x.npy"), ("--probs and --x", "one of them")),
        (("--probs", "p.npy", "--no-x"), ("--probs and --no-x", "one of them")),
        (("--no-x", "--x-columns", "a"), ("--no-x and --x-columns", "one of them")),
        (("--probs", "p.npy", "--method", "ce"), ("latent_truth", "'ce'")),
        (("--no-x", "--method", "pi_dual"), ("latent_truth", "'pi_dual'")),
        (("--no-x", "--network", "mlp"), ("--network",)),
        (("--no-x", "--setting", "paper"), ("--setting",)),
        (("--no-x", "--epochs", "3"), ("no 'epochs' to set", "judged without a network", "Leave it out.")),
        (("--probs", "p.npy", "--set", "folds=2"), ("no 'folds' to set", "judged without a network")),
        (("--probs", "nothing.npy"), ("nothing.npy", "does not exist")),
        (("--x", "x.npy", "--network", "given"), ("no network 'given'",)),
    ],
)
def test_options_that_do_not_go_together(files, options, parts):
    options = [files / option if str(option).endswith(".npy") else option for option in options]
    refused_and_nothing_written(files, fit(files, *options), 2, *parts)


def test_answers_that_are_all_equal(files):
    frame = pd.read_csv(files / "labels.csv").assign(label="cat")
    frame.to_csv(files / "labels.csv", index=False)
    answer = fit(files, "--probs", files / "p.npy")
    refused_and_nothing_written(files, answer, 1, "every label is 'cat'", "at least two classes")


def test_annotators_with_one_answer_are_judged_alike():
    frame, y = make_answers(n_items=60)
    frame["annotator"] = [f"w{row}" for row in range(len(frame))]
    judged = pidual.judge(frame, make_probabilities(y))
    assert any("one answer" in text for text in judged.summary.warnings)
    assert np.isfinite(judged.predictions["label_quality"]).all()


def test_an_item_without_an_answer_is_left_out(files):
    frame = pd.read_csv(files / "labels.csv")
    frame.loc[frame["item"] == 4, "label"] = None
    frame.to_csv(files / "labels.csv", index=False)
    code, _, err = fit(files, "--probs", files / "p.npy")
    assert code == 0
    assert "3 rows without a label are skipped" in err
    assert "1 of 60 rows of" in err


# --- limiting cases ---


def dawid_skene(frame, n_classes, rounds=400, skill=1.0, confusions=1.0):
    """q by EM of one shared confusion matrix, softmax(b [l = k] + T) with Gaussian priors, and class frequencies."""
    n = frame["item"].max() + 1
    b, rate = 2.0, 0.05
    t = np.zeros((n_classes, n_classes))
    log_prior = np.full(n_classes, -np.log(n_classes))
    items, labels = frame["item"].to_numpy(), frame["label"].to_numpy()
    for _ in range(rounds):
        logits = b * np.eye(n_classes) + t
        log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        log_q = np.tile(log_prior, (n, 1))
        for item, label in zip(items, labels, strict=True):
            log_q[item] += log_p[:, label]
        q = np.exp(log_q - log_q.max(1, keepdims=True))
        q /= q.sum(1, keepdims=True)
        counts = np.zeros_like(t)
        for item, label in zip(items, labels, strict=True):
            counts[:, label] += q[item]
        for _ in range(20):  # towards the maximum of counts . log_p - |T|^2 / 2
            p = np.exp(b * np.eye(n_classes) + t)
            p /= p.sum(1, keepdims=True)
            t += rate / len(frame) * n_classes * (counts - counts.sum(1, keepdims=True) * p - confusions * t)
        log_prior = np.log(q.mean(0))
    return q


def test_a_constant_f_is_dawid_skene_with_priors():
    frame, _ = make_answers(n_items=150, right=(0.85, 0.75, 0.65), seed=1)
    table = AnnotationTable.from_frame(frame.drop(columns="annotator"))  # one answer model for everybody
    job = prepare(table, no_inputs(), FitOptions.judging())
    fitted = train(job)
    expected = dawid_skene(frame, 3)
    model, answers = fitted.judge.model, fitted.answers.of(np.arange(150))[0]
    log_f = model.log_f(np.full((150, 3), -np.log(3)))
    independent = put_together(answers, log_f, model.log_likelihood(answers), 1.0, rho=0.0)
    assert (independent.q.argmax(1) == expected.argmax(1)).mean() > 0.98
    assert np.abs(independent.q - expected).mean() < 0.02
    assert (item_posteriors(job, fitted).argmax(1) == expected.argmax(1)).mean() > 0.9  # answers count less than f here


@pytest.mark.parametrize("per_item", [1, 3])
def test_probabilities_that_are_right_keep_the_consensus_right(per_item):
    frame, y = make_answers(per_item=per_item, right=(0.7, 0.6, 0.5, 0.4))
    assert (posteriors(AnnotationTable.from_frame(frame), np.eye(3)[y]).argmax(1) == y).all()


# --- items that mislead ---


def test_items_that_mislead_are_said_to_and_the_probabilities_count_there(tmp_path):
    rng = np.random.default_rng(3)
    n, k, each = 500, 4, 6
    y = rng.integers(0, k, n)
    misled = rng.random(n) < 0.2
    looks = np.where(misled, (y + 1 + rng.integers(0, k - 1, n)) % k, y)
    item = np.repeat(np.arange(n), each)
    from_look = np.where(rng.random(len(item)) < 0.8, looks[item], y[item])
    label = np.where(rng.random(len(item)) < 0.15, rng.integers(0, k, len(item)), from_look)
    p = np.eye(k)[np.where(rng.random(n) < 0.05, rng.integers(0, k, n), y)] * 0.9 + 0.1 / k
    table = pd.DataFrame({"item": item, "label": label})
    judged = pidual.judge(table, p)
    assert judged.summary.model_selection[0].misleading_rate in (0.15, 0.2, 0.3)
    consensus = judged.items.set_index(judged.items["item"].astype(int))["consensus_label"].astype(int)
    right = (consensus.sort_index().to_numpy() == y)[misled].mean()
    vote = np.stack([np.bincount(row, minlength=k) for row in label.reshape(n, each)]).argmax(1)
    assert (vote == y)[misled].mean() < 0.2
    assert right > 0.8
    table.to_csv(tmp_path / "labels.csv", index=False)
    np.save(tmp_path / "p.npy", p)
    code, out, err = run_cli(["fit", tmp_path / "labels.csv", "--probs", tmp_path / "p.npy", "--out", tmp_path / "run"])
    assert code == 0, err
    assert "of the items seem to mislead" in out + err
    assert "of the items seem to mislead" in (tmp_path / "run" / "report.html").read_text()


def test_tables_that_judge_opens_and_those_it_cannot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = make_answers(30, per_item=3)[0]
    expected = judge(frame).items
    (tmp_path / "parts").mkdir()
    half = len(frame) // 2
    frame[:half].to_parquet("parts/a.parquet")
    frame[half:].to_parquet("parts/b.parquet")
    for given in ("parts", tmp_path / "parts", "parts/*.parquet"):
        pd.testing.assert_frame_equal(judge(given).items.astype(str), expected.astype(str))
    assert not list(tmp_path.rglob(".pidual.key"))  # nothing is kept, and people have their names
    with pytest.raises(
        UsageError, match=r"no column 'label'; rename the column of labels to 'label', or name it with la"
    ):
        judge(frame.rename(columns={"label": "given"}))
    with pytest.raises(UsageError, match=r"several tables \(train, test\); choose one, such as ds\['train'\]\."):
        judge({"train": frame, "test": frame})
    with pytest.raises(UsageError, match="a path or a stream of Arrow, not int"):
        judge(3)
    with pytest.raises(UsageError, match="a table is a path, a DataFrame or a stream of Arrow, not dict"):
        judge({"label": [1, 2]})
