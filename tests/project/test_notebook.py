"""The tutorial: a notebook that runs from top to end and gives what it shows, and a page of the site."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from command_line import environment

pytestmark = pytest.mark.shapes_unchecked

DOCS = Path(__file__).parents[2] / "docs"
FOUND = importlib.util.spec_from_file_location("notebook_hook", DOCS / "notebook_hook.py")
hook = importlib.util.module_from_spec(FOUND)
FOUND.loader.exec_module(hook)

NOTEBOOK = DOCS / "tutorial.ipynb"
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
KERNEL = re.compile(r"mostly by [a-z ]+\.")  # that rounding chooses among equals


def cells(text):
    return json.loads(text)["cells"]


def numbers(text):
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def test_cells_are_short_and_hold_no_error():
    code = [cell for cell in cells(NOTEBOOK.read_text()) if cell["cell_type"] == "code"]
    assert len(code) > 15
    assert [cell["source"] for cell in code if len(cell["source"]) > 25] == []
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert kinds == {"stream", "execute_result"}
    assert len(NOTEBOOK.read_bytes()) < 60_000


def test_a_notebook_is_a_page():
    page = hook.as_markdown(NOTEBOOK)
    assert page.startswith("# Tutorial")
    assert "```sh\npidual fit labels.csv" in page
    assert "<table>\n  <thead>" in page
    linked = hook.on_page_markdown("[a](../tutorial.ipynb) [b](tutorial.ipynb#fit)")
    assert linked == "[a](../tutorial.md) [b](tutorial.md#fit)"


def test_streams_of_a_cell_are_one():
    said = [{"output_type": "stream", "name": name, "text": name} for name in ("stderr", "stdout")]
    shown = {"output_type": "execute_result"}
    assert hook.joined([said[0], said[1], shown]) == [said[1] | {"text": "stderrstdout"}, shown]
    assert hook.joined([shown]) == [shown]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's packages, about themselves
def test_it_runs_and_gives_what_it_shows(monkeypatch):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    made, kept = (KERNEL.sub("", text) for text in (hook.run(NOTEBOOK), NOTEBOOK.read_text()))
    texts = [["".join(map(hook.shown, cell.get("outputs", []))) for cell in cells(text)] for text in (made, kept)]
    for now, then in zip(*texts, strict=True):
        assert NUMBER.sub("0", now).split() == NUMBER.sub("0", then).split()
        assert numbers(now) == pytest.approx(numbers(then), rel=0.05, abs=0.05)
    gained = [numbers(line)[-1] for line in texts[0][-4].splitlines() if line.startswith("trained on")]
    assert gained[1] > gained[0] + 3, "clean labels are worth something"
