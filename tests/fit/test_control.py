"""`pidual fit --control`: a fit with shuffled PI beside it says what PI was worth."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import run_cli
from scipy.stats import t

from pidual import Run, read_table
from pidual.data import Inputs
from pidual.data.datasets import load_dataset
from pidual.fit.control import measure_worth, shuffle_pi
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare

pytestmark = pytest.mark.shapes_unchecked

PI = "annotator,confidence,annotator_accuracy,annotator_size"
WORDS = f"fit labels.csv --x x.npy --pi {PI} --keep-ids --quiet --epochs 6 --valid-fraction 0.3".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Digits of which 73% have a wrong label, and PI that says which."""
    path = tmp_path_factory.mktemp("control")
    digits = load_dataset("digits_pi:high")
    digits.frame.drop(columns="y").to_csv(path / "labels.csv", index=False)
    np.save(path / "x.npy", digits.x)
    return path


@pytest.fixture(scope="module")
def job(folder):
    table = read_table(folder / "labels.csv", pi=PI.split(","))
    inputs = Inputs.from_array(np.load(folder / "x.npy"))
    return prepare(table, inputs, FitOptions(method="pi_dual", valid_fraction=0.3))


def test_the_pi_of_training_rows_is_dealt_out_again_and_that_of_others_stays(job):
    before, after = job.rows.codes.numpy(), shuffle_pi(job).rows.codes.numpy()
    assert (before[~job.train] == after[~job.train]).all()
    assert sorted(before[job.train, 0]) == sorted(after[job.train, 0])
    assert (before != after)[job.train].mean() > 0.5
    assert (after == shuffle_pi(job).rows.codes.numpy()).all()
    other = replace(job, options=replace(job.options, seed=1))
    assert (after != shuffle_pi(other).rows.codes.numpy()).any()


def test_worth_and_its_interval_by_loops(job):
    rng, n = np.random.default_rng(0), len(job.table)
    given = job.table.label_codes
    said = [np.where(rng.random(n) < share, given, rng.integers(0, 10, n)) for share in (0.8, 0.5)]
    best = [rng.integers(0, 10, len(job.rows.groups)) for _ in said]
    own, control = (
        SimpleNamespace(predictions=SimpleNamespace(predicted=p, given=given), posteriors=SimpleNamespace(label=b))
        for p, b in zip(said, best, strict=True)
    )
    found = measure_worth(job, own, control)
    of_row = job.table.item_codes
    rows, items = np.flatnonzero(job.valid), sorted(set(of_row[job.valid]))
    assert [each.n_items for each in found] == [len(items)] * 2 == [377] * 2
    for gain, share in (
        (found[0], lambda p, r: float(p[r] == given[r])),
        (found[1], lambda p, r: sum(p[r] == b[of_row[r]] for b in best) / 2),
    ):
        means = [np.mean([share(p, r) for r in rows]) for p in said]
        off = dict.fromkeys(items, 0.0)
        for r in rows:
            off[of_row[r]] += share(said[0], r) - share(said[1], r) - (means[0] - means[1])
        half = t.ppf(0.975, len(items) - 1) * np.sqrt(sum(v**2 for v in off.values()) + 1) / len(rows)
        assert [gain.own, gain.shuffled, gain.difference] == pytest.approx([*means, means[0] - means[1]])
        assert [gain.difference_low, gain.difference_high] == pytest.approx(
            [gain.difference - half, gain.difference + half]
        )
    same = measure_worth(job, own, own)
    assert same[0].difference == 0 < same[0].difference_high < 0.03


def test_a_run_says_what_its_pi_was_worth(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert run_cli([*WORDS, "--method", "pi_dual", "--out", "plain"])[0] == 0
    code, out, err = run_cli([*WORDS, "--method", "pi_dual", "--out", "run", "--control"])
    assert (code, err) == (0, "")
    run, plain = Run("run"), Run("plain")
    (held_out, consensus), frame = run.summary.pi_worth, run.predictions.frame
    held = frame["split"] == "valid"
    assert held_out.own == pytest.approx((frame["predicted_label"] == frame["given_label"])[held].mean())
    assert held_out.difference_low > 0
    assert consensus.difference_low > 0
    assert f"What PI was worth, on 377 held-out items: {held_out.own:.1%} agreement with their noisy labels" in out
    assert "points); so PI helped." in out
    assert "What PI was worth" in (folder / "run" / "report.html").read_text()
    assert frame.equals(plain.predictions.frame)  # the fit itself is as it is without a control
    assert [epoch["loss"] for epoch in run.history] == [epoch["loss"] for epoch in plain.history]
    assert plain.summary.pi_worth is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "ce"], "A control needs a network that is given PI; use --method pi_dual"),
        (["--network", "mlp"], "A control needs a network that is given PI; use --method pi_dual"),
        (["--method", "pi_dual", "--valid-fraction", "0"], "none is held out; give --valid-fraction 0.1."),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_fitted(folder, monkeypatch, options, said):
    monkeypatch.chdir(folder)
    words = WORDS[:-2] if "--valid-fraction" in options else WORDS
    code, _, err = run_cli([*words, *options, "--out", "refused", "--control"])
    assert code == 2
    assert said in err
    assert not (folder / "refused").exists()
