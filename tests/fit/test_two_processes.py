"""`torchrun --nproc-per-node 2 -m pidual fit ...`: the same global batches, hence the same fit, on two processes."""

import os
import signal

import numpy as np
import pytest
from command_line import run_cli, start_cli, write_crowd, write_pictures
from on_two_processes import EXACT, fit_crowd
from safetensors.numpy import load_file

from pidual.learn.nets.augment import STRONG_POLICIES
from pidual.run.predictions import read_frame

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def start_on_two(args):
    """Start the command on two processes, in a session of its own so that a signal reaches all of them."""
    return start_cli(args, launcher=TORCHRUN, start_new_session=True)


def fit_on_two(args, says="Training: "):
    """Output of the command on two processes, which must succeed and speak once."""
    process = start_on_two(args)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert err.count(says) == 1
    assert out.count("Report: ") == 1
    return out


def largest_difference(a, b):
    """Between the weights of two runs."""
    one, two = load_file(a / "model.safetensors"), load_file(b / "model.safetensors")
    assert one.keys() == two.keys()
    return max(
        float(np.abs(one[name].astype(np.float64) - two[name]).max(initial=0)) for name in one
    )  # none is no weight


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    return write_crowd(tmp_path_factory.mktemp("crowd"))


@pytest.mark.slow  # engine/test_processes.py does it with less to start
def test_two_processes_fit_what_one_does(crowd, tmp_path):
    args = fit_crowd(crowd, *EXACT)
    fit_on_two([*args, "--out", tmp_path / "two"])
    code, _, err = run_cli([*args, "--out", tmp_path / "one", "--quiet"])
    assert code == 0, err
    assert largest_difference(tmp_path / "one", tmp_path / "two") < 1e-9
    one, two = (read_frame(tmp_path / name / "predictions.parquet") for name in ("one", "two"))
    np.testing.assert_allclose(one["label_quality"], two["label_quality"], atol=1e-6)
    np.testing.assert_allclose(one["gate"], two["gate"], atol=1e-6)


@pytest.mark.slow
def test_two_processes_work_out_what_one_does(crowd, tmp_path):
    args = ["fit", crowd / "labels.csv", "--x", crowd / "x.npy", "--pi", "annotator,seconds"]
    fit_on_two([*args, "--out", tmp_path / "two"], says="Fitting in closed form: ")
    code, _, err = run_cli([*args, "--out", tmp_path / "one", "--quiet"])
    assert code == 0, err
    for name in ("model.safetensors", "model.json", "predictions.parquet", "items.parquet", "annotators.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


@pytest.mark.slow
def test_two_processes_with_dropout(crowd, tmp_path):
    args = fit_crowd(crowd, "--set", "network.dropout=0.5")
    fit_on_two([*args, "--out", tmp_path / "two"])
    predictions = read_frame(tmp_path / "two" / "predictions.parquet")
    assert (predictions["predicted_label"].astype(str) == predictions["y"].astype(str)).mean() > 0.5


@pytest.mark.slow
def test_two_processes_with_batch_norm_on_images(tmp_path):
    write_pictures(tmp_path, n_items=64)
    args = ["fit", tmp_path / "pictures.csv", "--x", tmp_path / "pictures", "--epochs", 8, "--set", "batch_size=32"]
    fit_on_two([*args, "--method", "pi_dual", "--out", tmp_path / "two"])
    predictions = read_frame(tmp_path / "two" / "predictions.parquet")
    assert (predictions["predicted_label"].astype(str) == predictions["y"].astype(str)).mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("policy", STRONG_POLICIES)
def test_two_processes_augment_images_as_one_does(policy, tmp_path):
    write_pictures(tmp_path, n_items=64)
    args = ["fit", tmp_path / "pictures.csv", "--x", tmp_path / "pictures", "--method", "pi_dual_plus", "--epochs", 3]
    args += ["--setting", "paper", "--network", "mlp"]  # without batch normalisation
    for option in ("batch_size=32", "crop_pad=2", "flip=true", "network.dropout=0.0", f"strong_policy={policy}"):
        args += ["--set", option]
    fit_on_two([*args, "--out", tmp_path / "two"])
    code, _, err = run_cli([*args, "--out", tmp_path / "one", "--quiet"])
    assert code == 0, err
    assert largest_difference(tmp_path / "one", tmp_path / "two") < 1e-5


@pytest.mark.slow
def test_errors_are_said_once(crowd, tmp_path):
    process = start_on_two([*fit_crowd(crowd), "--out", tmp_path / "run", "--label", "lable"])
    _, err = process.communicate(timeout=240)
    assert process.returncode == 1  # torchrun's own, with a page of its own after our sentence
    assert err.count("no column 'lable'") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_stopped_on_two_processes_goes_on_with_one(crowd, tmp_path):
    args = fit_crowd(crowd, "--set", "network.dropout=0.0", "--set", "lr=0.01")  # larger steps make rounding grow
    args[args.index("--epochs") + 1] = 120
    process = start_on_two([*args, "--out", tmp_path / "run", "--save-every", 0])
    for line in process.stderr:
        if line.startswith("epoch 1/"):
            break
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    code, _, err = run_cli([*args, "--out", tmp_path / "run", "--resume"])
    assert code == 0, err
    assert "done before" in err
    assert run_cli([*args, "--out", tmp_path / "one", "--quiet"])[0] == 0
    assert largest_difference(tmp_path / "run", tmp_path / "one") < 1e-3
