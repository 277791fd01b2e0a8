"""The files of a run are checked when they are read: what is in them is refused or right."""

import json
import math
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from attack import Answer, Range, forged_tensors, reseal, write_any
from safetensors.torch import load_file
from stored_state import read_state

from pidual.api.run import Run
from pidual.errors import RunError
from pidual.fit.factories import method_maker
from pidual.fit.load_model import WithoutMemory, load_method, method_of, sizes_of
from pidual.learn.batch import Spec
from pidual.learn.methods import METHODS
from pidual.learn.nets import Standardize, build_network
from pidual.options import defaults
from pidual.run.predictions import read_frame, write_frame
from pidual.run.records.config import Model
from pidual.run.records.reading import FORMAT, as_record

pytestmark = pytest.mark.shapes_unchecked

OF_MEMBERS = ("fold", "decay", "train_tau", "input_dropout")  # a number for each member, as the options have them


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """Runs to aim at."""
    return Range(tmp_path_factory.mktemp("targets"))


@pytest.fixture
def run(targets, tmp_path):
    """A copy of a finished run that a test may change."""
    targets.fresh("finished", tmp_path / "run")
    return Run.open(tmp_path / "run")


def refused(answer, *parts):
    """Whether a command ended with one sentence that has these parts."""
    assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1), answer.err
    for part in ("Error: ", *parts):
        assert str(part) in answer.err
    return True


def change_json(path, **fields):
    """Set fields of a JSON file, or remove those given as None."""
    value = json.loads(path.read_text()) | fields
    write_any(path, {name: field for name, field in value.items() if field is not None})


# --- formats ---


def test_every_file_has_a_format(run):
    for name in ("config.json", "summary.json", "model.json"):
        assert json.loads((run.path / name).read_text())["format"] == FORMAT
    for line in (run.path / "metrics.jsonl").read_text().splitlines():
        assert json.loads(line)["format"] == FORMAT
    for path in run.path.glob("*.parquet"):
        assert json.loads(pq.read_schema(path).metadata[b"pidual"])["format"] == FORMAT


@pytest.mark.parametrize(
    ("name", "command"),
    [("config.json", "resume"), ("summary.json", "detect"), ("model.json", "predict"), ("metrics.jsonl", "report")],
)
def test_a_file_of_another_pidual(targets, run, name, command):
    path = run.path / name
    whole = path.read_text()
    path.write_text(whole.replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}'))
    reseal(run.path)
    refused(targets.answer(command, run.path), path, f"newer pidual (format {FORMAT + 1}", "update pidual")
    path.write_text(whole.replace(f'"format": {FORMAT}', '"format": 1'))
    reseal(run.path)
    refused(targets.answer(command, run.path), path, "older pidual (format 1", "fit again")


# --- digests ---


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("model.safetensors", "predict"),
        ("model-last.safetensors", "predict-last"),
        ("model.json", "predict"),
        ("predictions.parquet", "detect"),
        ("predictions.parquet", "report"),
        ("annotators.parquet", "report"),
        ("metrics.jsonl", "report"),
        ("summary.json", "report"),
    ],
)
def test_a_file_of_another_run(targets, run, name, command):
    shutil.copy(targets.folder / "other" / name, run.path / name)
    refused(targets.answer(command, run.path), run.path / name, "the run is damaged, so copy it again or fit again")


def test_the_state_of_another_run(targets, tmp_path):
    targets.fresh("unfinished", tmp_path / "run")
    state = tmp_path / "run" / "state" / "state.safetensors"
    shutil.copy(targets.folder / "other" / "state" / "state.safetensors", state)
    refused(targets.answer("resume", tmp_path / "run"), state, "the state of another run", "--force")
    tensors, _ = read_state(targets.folder / "other" / "state" / "state.safetensors")
    _, values = read_state(targets.folder / "unfinished" / "state" / "state.safetensors")
    forged_tensors("state.safetensors", tensors, values)(state.parent)
    refused(targets.answer("resume", tmp_path / "run"), state, "does not fit this run", "shape", "--force")


def test_a_memory_that_has_changed(targets, tmp_path):
    targets.fresh("elr-unfinished", tmp_path / "run")
    (path,) = sorted((tmp_path / "run" / "state").glob("targets-*.rows"))[:1]
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    refused(targets.answer("resume-elr", tmp_path / "run"), tmp_path / "run" / "state", "damaged")


@pytest.mark.parametrize("command", ["predict", "detect", "report", "resume"])
def test_a_number_that_has_changed_in_the_summary(targets, run, command):
    change_json(run.path / "summary.json", valid_accuracy=0.987)
    refused(targets.answer(command, run.path), run.path / "summary.json", "has changed since it was written")


# --- weights and answers ---


def build(name):
    """The method and a function that makes it."""
    spec = Spec(50, 3, (4, 5), 2, 10, ("who", "tool"), ("seconds", "seconds"))
    network = lambda: build_network(  # noqa: E731
        "mlp", in_shape=(6,), n_classes=3, standardize=Standardize(np.zeros(6), np.ones(6)), width=8
    )
    return method_maker(name, defaults(METHODS[name]), spec, network)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_its_sizes_without_memory(name):
    with WithoutMemory(10_000):
        sizes = build(name)().state_dict()
    real = build(name)().state_dict()
    assert {key: value.shape for key, value in sizes.items()} == {key: value.shape for key, value in real.items()}
    made = [key for key, value in sizes.items() if not value.is_meta and value.dim() and "standardize" not in key]
    assert [key for key in made if key.split(".")[-1] not in OF_MEMBERS] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda model: [part.update({key: [10**7]}) for part, key in shapes_of(model)],
        lambda model: [part.update({key: [10**11]}) for part, key in shapes_of(model)],
        lambda model: model["method_options"].update(width=10**9),
        lambda model: model["method_options"].update(depth=10**9),
        lambda model: model["method_options"].update(depth=10**5),
        lambda model: model["network"]["options"].update(width=10**9),
        lambda model: model["network"]["options"].update(depth=10**9),
        lambda model: model["spec"].update(cardinalities=[10**12], code_names=["annotator"]),
        lambda model: model["spec"].update(n_numbers=10**12, number_names=[]),
    ],
)
def test_sizes_that_do_not_fit_the_weights_take_no_memory(targets, run, change, monkeypatch):
    monkeypatch.setattr("attack.BYTES", 1 << 29)
    model = json.loads((run.path / "model.json").read_text())
    change(model)
    write_any(run.path / "model.json", model)
    config = json.loads((run.path / "config.json").read_text())
    config["network"]["in_shape"] = model["network"]["in_shape"]
    config["data"]["x_shape"][1:] = model["network"]["in_shape"]
    write_any(run.path / "config.json", config)
    reseal(run.path)
    refused(targets.answer("predict", run.path), run.path / "model.json", "the run is damaged")


def shapes_of(model):
    """Where model.json has the shape of an input."""
    model["network"]["standardize"] = 0
    return [(model["network"], "in_shape"), (model["inputs"], "shape")]


def test_inputs_too_large_for_an_answer(targets, run, tmp_path, monkeypatch):
    x = np.load(targets.folder / "x_test.npy").astype(np.float64)
    x[3] = 1e300
    np.save(tmp_path / "x.npy", x)
    refused(Answer.of(["predict", run.path, tmp_path / "x.npy"]), tmp_path / "x.npy", "row 3")
    np.save(tmp_path / "x.npy", np.where(x < 1e300, x, 0))
    answers = np.where(np.arange(len(x))[:, None] == 3, np.nan, np.full((len(x), 3), 1 / 3)).astype(np.float32)
    monkeypatch.setattr("pidual.fit.load_model.predict_probabilities", lambda *args: [answers])
    words = ["row 3 (counted from 0)", "not a number", "too large"]
    refused(Answer.of(["predict", run.path, tmp_path / "x.npy"]), tmp_path / "x.npy", *words)


def test_a_run_names_no_place_to_fetch_a_network_from(run):
    for name in ("timm:hf-hub:someone/net", "torchvision:../net", "timm:local-dir:/etc"):
        change_json(run.path / "model.json", network=run.model.network.to_json() | {"name": name})
        change_json(run.path / "config.json", network=run.config.network.to_json() | {"name": name})
        reseal(run.path)
        run.forget()
        with pytest.raises(RunError, match=r"model\.json names the network .*not a name of a network"):
            load_method(run)


def test_networks_of_other_libraries_fetch_nothing(run, monkeypatch):
    asked = []

    def network_maker(network, n_classes, standardize):
        asked.append(network)
        return lambda: build_network("mlp", in_shape=(4,), n_classes=n_classes, width=8)

    monkeypatch.setattr("pidual.fit.load_model.network_maker", network_maker)
    options = {"pretrained": True, "checkpoint_path": "/etc/passwd", "weights": "DEFAULT", "drop": 0.1}
    values = run.model.to_json()
    values["network"] |= {"name": "timm:resnet18.a1_in1k", "options": options}
    method_of(run.path / "model.json", as_record("model", values, Model), 1000)()
    assert asked[0].options == {"drop": 0.1}


def test_a_network_that_computes_when_it_is_made():
    class Computing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(2, int(torch.ones(3).sum())))

    def make():
        try:
            return Computing()
        except RuntimeError as error:
            raise RunError(str(error)) from error

    assert sizes_of(make, 10, of_library=True) == {"weight": (2, 3)}
    with pytest.raises(RunError):
        sizes_of(make, 10, of_library=False)


def test_all_that_a_run_holds_is_checked_from_python(targets, run):
    assert len(run.items) == 40
    frame = read_frame(run.path / "items.parquet")
    frame["consensus_quality"] = 2.0
    write_frame(run.path / "items.parquet", frame)
    run.forget()
    with pytest.raises(RunError, match=r"items\.parquet is not the file"):
        _ = run.items
    reseal(run.path)
    run.forget()
    with pytest.raises(RunError, match=r"items\.parquet .*(classes|from 0 to 1)"):
        _ = run.items


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite(targets, run, value):
    path = run.path / "model.safetensors"
    tensors = load_file(path)
    tensors["method.f.head.weight"][0, 0] = value
    forged_tensors(path.name, tensors, None)(run.path)
    refused(targets.answer("predict", run.path), path, "not finite in method.f.head.weight")
