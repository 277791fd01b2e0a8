"""Every example runs as a script and prints what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def run(name, folder):
    source = str(ROOT / "src")
    path = os.pathsep.join([source, os.environ["PYTHONPATH"]]) if os.environ.get("PYTHONPATH") else source
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list(folder.iterdir()) == []
    return done.stdout


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
