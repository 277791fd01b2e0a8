"""What needs no torch does not load it."""

import subprocess
import sys

import pytest


def loaded_by(code, modules):
    """Which of these modules a fresh interpreter has loaded after running the code."""
    code += f"\nimport sys\nprint(' '.join(m for m in {modules!r} if m in sys.modules), file=sys.stderr)"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stderr.split()


@pytest.mark.parametrize(
    "module",
    ["pidual", "pidual.cli", "pidual.table", "pidual.detect", "pidual.report", "pidual.rundir", "pidual.predictions"],
)
def test_does_not_load_torch(module):
    assert loaded_by(f"import {module}", ["torch", "lightning_fabric", "matplotlib"]) == []


def test_help_loads_nothing_large():
    code = "from pidual.cli import cli\ncli(['--help'], standalone_mode=False)"
    assert loaded_by(code, ["torch", "pandas", "sklearn", "numpy"]) == []


def test_a_fit_loads_no_sklearn_that_it_does_not_need():
    assert loaded_by("import pidual.run", ["sklearn", "matplotlib"]) == []
