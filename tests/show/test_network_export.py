"""`pidual export --to onnx|torch`, and `--soft`: what a run has learned, for other programs."""

import contextlib
import json
import resource
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import run_cli, write_crowd, write_pictures

from pidual.api.run import Run
from pidual.errors import RunError
from pidual.show.export import network

pytestmark = pytest.mark.shapes_unchecked

SMALL = ["--quiet", "--out"]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Runs of a crowd: the default (`run`, worked out), `ce` (one MLP), `co_teaching` (two), `het` (draws), `no_x`."""
    folder = write_crowd(tmp_path_factory.mktemp("crowd"))
    x = np.load(folder / "x.npy")
    np.save(folder / "x.npy", 1000 + 50 * x)  # where standardisation matters
    words = ["fit", "labels.csv", "--x", "x.npy", "--pi", "annotator,seconds"]
    with contextlib.chdir(folder):
        assert run_cli([*words, *SMALL, "run"])[0] == 0
        for method, epochs in (("ce", 5), ("het", 1), ("co_teaching", 1)):
            more = [method, "--method", method, "--epochs", epochs, "--keep-going"]
            assert run_cli([*words, *SMALL, *more])[0] == 0
        assert run_cli(["fit", "labels.csv", "--no-x", "--quiet", "--out", "no_x"])[0] == 0
        np.save("p.npy", np.random.default_rng(0).dirichlet(np.ones(3), 60).astype(np.float32))
        assert run_cli(["fit", "labels.csv", "--probs", "p.npy", "--quiet", "--out", "given"])[0] == 0
    return folder


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A run of pictures: two small CNNs."""
    folder = write_pictures(tmp_path_factory.mktemp("pictures"))
    with contextlib.chdir(folder):
        words = ["fit", "pictures.csv", "--x", "pictures", "--network", "small_cnn"]
        assert run_cli([*words, *SMALL, "run"])[0] == 0
    return folder


def pixels(folder):
    from PIL import Image

    paths = sorted((folder / "pictures").glob("*.png"))
    return np.stack([np.asarray(Image.open(path)).transpose(2, 0, 1) for path in paths])


def ours(run, source):
    frame = Run.open(run).predict(source)
    return frame[[name for name in frame if name.startswith("p_")]].to_numpy()


def export(run, out, *words):
    code, said, err = run_cli(["export", run, out, *words])
    assert code == 0, err
    return said


def refusal(run, out, *words):
    code, _, err = run_cli(["export", run, out, *words])
    assert code in (1, 2)
    assert not Path(out).exists()
    return err


TO = ["csv", "parquet", "jsonl", "label-studio", "torch", "csv --soft"]


@pytest.mark.parametrize("to", TO)
def test_a_place_that_is_full_or_cannot_be_written_to_is_named_and_left_as_it_was(crowd, tmp_path, monkeypatch, to):
    monkeypatch.chdir(crowd)
    _, most = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for out, why, size in (
        (tmp_path / "out.csv", "File too large", 500),
        (tmp_path / "nothing" / "out.csv", "No such file or directory", most),
    ):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
        try:
            answer = run_cli(["export", "ce", out, "--to", *to.split()])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert answer == (1, "", f"Error: Cannot write {out} ({why}); choose another place.\n")
        assert list(tmp_path.iterdir()) == []


def loaded(path):
    """The network in a file of `--to torch`, read without pidual, and its classes."""
    extra = {"classes.json": ""}
    program = torch.export.load(path, extra_files=extra).module()
    return lambda x: program(torch.from_numpy(x)).detach().numpy(), json.loads(extra["classes.json"])


@pytest.mark.parametrize("name", ["run", "ce", "co_teaching"])
def test_what_predicts_loads_with_torch_alone(crowd, tmp_path, name):
    said = export(crowd / name, tmp_path / "net.pt2", "--to", "torch")
    assert said.startswith(f"{tmp_path}/net.pt2: the prediction network; its probabilities are within ")
    predict, classes = loaded(tmp_path / "net.pt2")
    assert classes == ["cat", "dog", "owl"]
    x = np.load(crowd / "x.npy")
    for rows in (1, 7, len(x)):
        np.testing.assert_allclose(predict(x[:rows]), ours(crowd / name, x)[:rows], atol=1e-6)


def test_a_network_of_pictures_loads(pictures, tmp_path):
    export(pictures / "run", tmp_path / "net.pt2", "--to", "torch")
    p = loaded(tmp_path / "net.pt2")[0](pixels(pictures))
    np.testing.assert_allclose(p, ours(pictures / "run", pictures / "pictures"), atol=1e-6)


def test_every_kernel_is_written(crowd, tmp_path, monkeypatch):
    """Held-out answers choose some; here all of them count, on inputs near the mean and far from it."""
    found = Run.open(crowd / "run").load().f
    weights = {name: torch.ones_like(value) for name, value in found.named_buffers() if name.startswith("weight_")}
    n_settings = sum(value.numel() for value in weights.values())
    real = network.load_method

    def with_all(run):
        method, arrays = real(run)
        for name, value in weights.items():
            method.f.get_buffer(name).copy_(value / n_settings)
        return method, arrays

    monkeypatch.setattr(network, "load_method", with_all)
    method = network.load_network(Run.open(crowd / "run"))
    x = np.load(crowd / "x.npy")
    x = torch.from_numpy(np.concatenate([x, 1000 + 3 * (x - 1000), 0 * x, x * 1e6]))
    expected = method.logits(x).exp().numpy()
    network.write_torch(Run.open(crowd / "run"), tmp_path / "net.pt2")
    np.testing.assert_allclose(loaded(tmp_path / "net.pt2")[0](x.numpy()), expected, atol=1e-6)
    runtime = pytest.importorskip("onnxruntime")
    assert network.write_onnx(Run.open(crowd / "run"), tmp_path / "net.onnx") <= 1e-6
    session = runtime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x.numpy()})[0], expected, atol=1e-5)


def test_given_probabilities_are_recalibrated(crowd, tmp_path):
    export(crowd / "given", tmp_path / "net.pt2", "--to", "torch")
    p, expected = np.load(crowd / "p.npy"), ours(crowd / "given", crowd / "p.npy")
    np.testing.assert_allclose(loaded(tmp_path / "net.pt2")[0](p), expected, atol=1e-6)
    runtime = pytest.importorskip("onnxruntime")
    export(crowd / "given", tmp_path / "net.onnx", "--to", "onnx")
    session = runtime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(["probabilities"], {"x": p})[0], expected, atol=1e-5)


def test_onnx_gives_our_probabilities(pictures, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    told = json.loads(export(pictures / "run", tmp_path / "net.onnx", "--to", "onnx", "--json"))
    assert told["max_difference"] <= 1e-5
    session = runtime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    model = Run.open(pictures / "run").model
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == model.classes
    x, expected = pixels(pictures), ours(pictures / "run", pictures / "pictures")
    for rows in (1, 7, len(x)):
        (p,) = session.run(["probabilities"], {"x": x[:rows]})
        np.testing.assert_allclose(p, expected[:rows], atol=1e-5)


def test_a_network_that_answers_otherwise_is_not_written(crowd, tmp_path, monkeypatch):
    real = network.trace

    def then_sharper(whole, x):
        program = real(whole, x)
        whole.method.f.log_mean = whole.method.f.log_mean + torch.eye(3)[0]  # not in place: the program has the old one
        return program

    monkeypatch.setattr(network, "trace", then_sharper)
    with pytest.raises(RunError, match="differs from ours by up to 0"):
        network.write_torch(Run.open(crowd / "run"), tmp_path / "net.pt2")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused(crowd, tmp_path, monkeypatch):
    assert "was fitted without inputs" in refusal(crowd / "no_x", tmp_path / "a.onnx", "--to", "onnx")
    assert "het averages over random draws" in refusal(crowd / "het", tmp_path / "a.onnx", "--to", "onnx")
    assert "--soft writes a table" in refusal(crowd / "run", tmp_path / "a.pt2", "--to", "torch", "--soft")
    assert "leave them out" in refusal(crowd / "run", tmp_path / "a.pt2", "--to", "torch", "--sure", "0.9")
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(network.importlib.util, "find_spec", lambda name: None)
    said = refusal(crowd / "run", tmp_path / "a.onnx", "--to", "onnx")
    assert said == "Error: ONNX needs onnx and onnxscript: pip install 'pidual[onnx]'.\n"


@pytest.mark.parametrize("to", ["csv", "parquet", "jsonl"])
def test_soft_labels_are_the_posterior(crowd, tmp_path, to):
    out = tmp_path / f"soft.{to}"
    assert export(crowd / "run", out, "--to", to, "--soft").endswith("the probability of every class for 60 items\n")
    readers = {"csv": pd.read_csv, "parquet": pd.read_parquet, "jsonl": lambda path: pd.read_json(path, lines=True)}
    soft = readers[to](out)
    items = Run.open(crowd / "run").items
    assert soft.columns.tolist() == ["item", "p_cat", "p_dog", "p_owl"]
    assert soft["item"].astype(str).tolist() == items["item"].astype(str).tolist()
    np.testing.assert_allclose(soft.iloc[:, 1:], items[["p_cat", "p_dog", "p_owl"]], rtol=1e-6)
    np.testing.assert_allclose(soft.iloc[:, 1:].sum(axis=1), 1, atol=1e-5)
