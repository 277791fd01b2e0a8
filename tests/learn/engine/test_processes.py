"""Two processes learn what one does, stopped and resumed: items, some methods; -m slow has the others.

And the command, as if started by torchrun; test_two_processes.py starts it so.
"""

import json

import numpy as np
import own_loop
import pytest
import torch
from by_item import fit_in_double
from command_line import run_cli, write_crowd
from contract import everything, fit_method
from on_two_processes import EXACT, fit_crowd, fit_on_two
from safetensors.torch import load_file

from pidual.run.predictions import read_frame

pytestmark = pytest.mark.runs_first

METHODS = ("distill_pi", "elr", "latent_truth", "pi_dual")  # with two stages, a memory, items and folds, PI


@pytest.fixture(scope="module")
def on_two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    (folder / "crowd").mkdir()
    write_crowd(folder / "crowd")
    return fit_on_two(folder, ("by_item", *METHODS, "own_loop", "command"))


def test_the_command_fits_what_it_does_on_one_and_speaks_once(on_two_processes, tmp_path):
    answers = [json.loads((on_two_processes / f"command-{rank}.json").read_text()) for rank in (0, 1)]
    assert [code for code, _, _ in answers] == [0, 0]
    assert sum(err.count("Training: ") for _, _, err in answers) == 1
    assert sum(out.count("Report: ") for _, out, _ in answers) == 1
    code, _, err = run_cli(fit_crowd(on_two_processes / "crowd", *EXACT, "--out", tmp_path / "one", "--quiet"))
    assert code == 0, err
    one, two = (load_file(run / "model.safetensors") for run in (tmp_path / "one", on_two_processes / "command"))
    assert one.keys() == two.keys()
    assert max(float((one[name].double() - two[name].double()).abs().max()) for name in one) < 1e-9
    one, two = (read_frame(run / "predictions.parquet") for run in (tmp_path / "one", on_two_processes / "command"))
    np.testing.assert_allclose(one["label_quality"], two["label_quality"], atol=1e-6)
    np.testing.assert_allclose(one["gate"], two["gate"], atol=1e-6)


def test_a_method_of_items_learns_what_it_does_on_one(on_two_processes):
    one, two = fit_in_double(), load_file(on_two_processes / "by_item.safetensors")
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert torch.allclose(value, two[name], atol=1e-9 if value.dtype == torch.float64 else 1e-6), name


@pytest.mark.parametrize("name", METHODS)
def test_a_method_learns_what_it_does_on_one(name, on_two_processes):
    one, two = everything(fit_method(name)), load_file(on_two_processes / f"{name}.safetensors")
    assert one.keys() == two.keys()
    for key, value in one.items():
        assert torch.allclose(value.double(), two[key].double(), atol=1e-4), key


def test_a_loop_of_ones_own_learns_what_it_does_on_one(on_two_processes):
    f, loss = own_loop.make()
    optimizer = torch.optim.SGD([*f.parameters(), *loss.parameters()], lr=0.1)
    for _ in range(5):
        own_loop.step(f, loss, optimizer, slice(None))
    two = load_file(on_two_processes / "own_loop.safetensors")
    for name, value in {**f.state_dict(), **loss.state_dict()}.items():
        torch.testing.assert_close(two[name], value, atol=1e-6, rtol=1e-5)
