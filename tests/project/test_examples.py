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


def test_own_loop(tmp_path):
    printed = run("own_loop.py", tmp_path)
    plain, pi_dual = map(float, re.fullmatch(r"test accuracy: cross-entropy (.*), Pi-DUAL (.*)\n", printed).groups())
    assert 0.4 < plain < 1
    assert pi_dual > plain + 0.1


def test_own_loop_is_short():
    assert len((EXAMPLES / "own_loop.py").read_text().splitlines()) <= 40


@pytest.mark.parametrize(
    "path", sorted(set(EXAMPLES.iterdir()) - set(EXAMPLES.glob("start_*"))), ids=lambda path: path.name
)
def test_every_example_but_the_start_pages_is_run_here(path):
    assert f'run("{path.name}"' in Path(__file__).read_text()
