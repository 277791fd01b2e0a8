"""What needs no torch does not load it."""

import json
import subprocess
import sys

import pytest
from command_line import run_cli

from pidual.cli.options import LIBRARIES, METHOD_NAMES, NETWORK_NAMES
from pidual.learn.methods import METHODS
from pidual.learn.nets import LIBRARIES as NETWORK_LIBRARIES
from pidual.learn.nets import NETWORKS


def loaded_by(code, modules):
    """Which of these modules a fresh interpreter has loaded after running the code."""
    code += f"\nimport sys\nprint(' '.join(m for m in {modules!r} if m in sys.modules), file=sys.stderr)"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stderr.split()


LIGHT = (
    *("pidual", "pidual.cli", "pidual.data", "pidual.detect", "pidual.show.report", "pidual.api.run"),
    "pidual.run.predictions",
)


def test_what_does_not_load_torch():
    code = "\n".join(f"import {module}" for module in LIGHT)
    assert loaded_by(code, ["torch", "lightning_fabric", "matplotlib", "sklearn", "jinja2", "optuna"]) == []


def test_help_and_the_list_of_datasets_load_nothing_large():
    code = "import pidual.data.datasets, pidual.paper.published, pidual.cli\n"
    code += "pidual.cli.cli(['--help'], standalone_mode=False)"
    assert loaded_by(code, ["torch", "pandas", "sklearn", "numpy", "optuna"]) == []


def test_a_fit_loads_no_sklearn_that_it_does_not_need():
    assert loaded_by("import pidual.api.fit", ["sklearn", "matplotlib"]) == []


WRONG = {  # words of a command: what it says
    "fit missing.csv --x x.npy": "missing.csv",
    "fit labels.csv --x x.npy --label answer": "labels.csv has no column 'answer'",
    "fit labels.csv --x x.npy --pi annotator,secnds": "'secnds'",
    "fit labels.csv --x missing.npy": "missing.npy",
    "fit labels.csv": "no input to learn from",
    "fit labels.csv --x x.npy --out .": ". exists and is not a run directory",
    "fit labels.csv --x x.npy --force --resume": "give one of them",
    "fit labels.csv --x x.npy --method pi-dual": "There is no method 'pi-dual', did you mean 'pi_dual'? Use one of ",
    "fit labels.csv --no-x --method elf": "There is no method 'elf', did you mean 'elr'? Use one of ce, ",
    "fit labels.csv --no-x --method ce": "--no-x needs the method latent_truth",
    "fit labels.csv --x x.npy --network cnn": "There is no network 'cnn'; choose one of mlp, ",
    "fit labels.csv --x x.npy --network timm:": "There is no network 'timm:'; choose one of mlp, ",
    "fit labels.csv --x x.npy --epochs 0": "epochs must be at least 1, not 0",
    "fit labels.csv --x x.npy --set lr=fast": "lr must be a number, not 'fast'",
    "fit labels.csv --x x.npy --lr 1 --set lr=1": "lr is given twice",
    "fit labels.csv --x x.npy --seed -1": "seed must be a whole number of at least 0, not -1",
    "sweep labels.csv --x x.npy --search lr=1,2 --label answer": "labels.csv has no column 'answer'",
    "sweep nothing --data .": "There is no dataset 'nothing'",
    "benchmark mydata": "There is no dataset 'mydata'",
    "benchmark cifar10n:wurst": "There is no dataset 'cifar10n:wurst'",
    "benchmark digits_pi --methods main,mine": "There is no method 'mine'; use one of ce, ",
    "predict nowhere x.npy": "nowhere is not a run directory",
    "predict nowhere x.npy --out answers.xlsx": "answers.xlsx must end in .csv or .parquet",
}


def test_wrong_usage_is_said_before_torch_is_loaded(crowd_files):
    code = f"""
import contextlib, io, json, sys
from pidual.cli import main
said = []
for words in {list(WRONG)!r}:
    sys.argv = ["pidual", *words.split()]
    with contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as leaving:
            said.append([leaving.code, err.getvalue(), "torch" in sys.modules or "sklearn" in sys.modules])
print(json.dumps(said))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=crowd_files)
    for (words, part), (exit_code, err, loaded) in zip(WRONG.items(), json.loads(done.stdout), strict=True):
        assert exit_code in (1, 2), words
        assert part in err, words
        assert not loaded, words


def test_names_that_need_no_torch_are_those_there_are():
    assert list(METHOD_NAMES) == list(METHODS)
    assert (list(NETWORK_NAMES), LIBRARIES) == (list(NETWORKS), NETWORK_LIBRARIES)


@pytest.mark.parametrize("option", [("--method", "pi-dual"), ("--network", "cnn")])
def test_names_are_refused_in_the_same_words_once_torch_is_loaded(crowd_files, option):
    command = ["fit", crowd_files / "labels.csv", "--x", crowd_files / "x.npy", *option]
    here = run_cli(command)
    done = subprocess.run([sys.executable, "-m", "pidual", *map(str, command)], capture_output=True, text=True)
    assert here == (done.returncode, done.stdout, done.stderr)
