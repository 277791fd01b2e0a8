"""The docs name every method, every option of it, and every command."""

import subprocess
import sys
from pathlib import Path

import pytest

from pidual.methods import METHODS
from pidual.options import signature

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_page_with_its_options_and_scores(name):
    page = (DOCS / "methods" / f"{name}.md").read_text()
    assert page.startswith(f"# {name}: ")
    own = METHODS[name].__init__.__kwdefaults__ or {}
    assert [option for option in own if f"`{option}" not in page] == []
    assert [score for score in METHODS[name].scores[1:] if f"`{score}`" not in page] == []
    assert METHODS[name].reference.split("arXiv ")[-1] in page


def test_a_subclass_takes_the_options_of_its_parent():
    assert {"smoothing", "width", "random_pi"} <= set(signature(METHODS["pi_dual_plus"]))
    assert "options" not in signature(METHODS["pi_dual_plus"])


def test_the_page_of_the_command_line_is_what_help_says(tmp_path):
    generator = tmp_path / "generate.py"
    generator.write_bytes((DOCS / "generate.py").read_bytes())
    subprocess.run([sys.executable, str(generator)], check=True, capture_output=True)
    assert (tmp_path / "cli.md").read_text() == (DOCS / "cli.md").read_text(), "docs/cli.md is stale: run `make docs`"
