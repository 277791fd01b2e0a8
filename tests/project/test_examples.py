"""Every example runs as a script and prints what it promises."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.shapes_unchecked

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(name, folder):
    """Run an example as a script in an empty folder, which it leaves empty; what it prints."""
    printed, complaints = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaints):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert complaints.getvalue() == ""
    assert list(folder.iterdir()) == []
    return printed.getvalue()


def test_fabric(tmp_path):
    printed = run("loop_fabric.py", tmp_path)
    numbers = map(float, re.fullmatch(r".*accuracy: (.*)\nmean gate .* labels (.*), of .* (.*)\n", printed).groups())
    accuracy, wrong, right = numbers
    assert accuracy > 0.8
    assert wrong > right + 0.3


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")  # of these packages, about themselves and each other
@pytest.mark.parametrize(
    ("name", "needs"), [("loop_hugging_face.py", ["transformers", "accelerate"]), ("loop_lightning.py", ["lightning"])]
)
def test_loops_of_others(name, needs, tmp_path):
    for package in needs:
        pytest.importorskip(package)
    printed = io.StringIO()
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(printed):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert float(printed.getvalue().splitlines()[-1].removeprefix("test accuracy: ")) > 0.8


@pytest.mark.parametrize(
    "path", sorted(set(EXAMPLES.iterdir()) - set(EXAMPLES.glob("start_*"))), ids=lambda path: path.name
)
def test_every_example_but_the_start_pages_is_run_here(path):
    assert f'"{path.name}"' in Path(__file__).read_text()
