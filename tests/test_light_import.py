"""What needs no torch does not load it."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    ["pidual", "pidual.cli", "pidual.table", "pidual.detect", "pidual.report", "pidual.rundir", "pidual.predictions"],
)
def test_does_not_load_torch(module):
    code = f"import sys, {module}; heavy = [m for m in ('torch', 'lightning_fabric', 'matplotlib') if m in sys.modules]; sys.exit(str(heavy) if heavy else 0)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_loads_neither_torch_nor_pandas():
    code = "import sys; from pidual.cli import cli; cli(['--help'], standalone_mode=False); bad = [m for m in ('torch', 'pandas', 'sklearn', 'numpy') if m in sys.modules]; sys.exit(str(bad) if bad else 0)"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
