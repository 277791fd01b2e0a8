"""The code in docs/ and CONTRIBUTING.md runs: python blocks, calls of `pidual`, a method. README.md: test_readme.py."""

import re
import shlex
import textwrap
from pathlib import Path
from unittest import mock

import click
import numpy as np
import pytest
from command_line import run_cli, write_key
from contract import SPEC, TRAINING
from export_files import review_tasks, write_json

from pidual.cli import cli
from pidual.data.datasets.synthetic import make_crowd
from pidual.learn.engine import fit
from pidual.learn.nets import MLP

pytestmark = [pytest.mark.runs_first, pytest.mark.shapes_unchecked]

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in FILES}
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^    (?! *(?:from|import) ).*\bpidual .*$", re.MULTILINE)  # not Python
CALL = re.compile(r"(?<!`)\bpidual ([a-z].*?)(?= {2,}| & |$)")  # up to the comment beside it, or to the next one

MEANT = {"...": "--x features.npy --pi annotator,seconds", "DIR": "data", "OUT": "out", "NAME": "dynamics"}
RUN = {  # these calls run, in order, and leave with this code; the others, of many or large fits, are only parsed
    "docs/for/own_model.md": {
        "detect --labels y.npy --probs pred_probs.npy --out suspects.csv": 0,
        "detect --labels y.npy --probs pred_probs.npy --budget 100": 0,
        "detect --labels y.npy --probs pred_probs.npy --per-class 5": 0,
        "detect --labels y.npy --probs pred_probs.npy --fail-over 5%": 3,
        "fit labels.csv --probs pred_probs.npy": 0,
        "fit labels.csv --no-x --out runs/no_x": 0,
    },
    "docs/new_answers.md": {
        "fit labels.csv --x features.npy --pi annotator,seconds": 0,
        "judge runs/labels today.csv --x today.npy --out judged.csv": 0,
        "judge runs/labels today.csv --x today.npy --fail-over 5%": 3,
    },
    "docs/paper/benchmark.md": {"benchmark --list": 0},
    "docs/bring_your_labels.md": {
        "fit export.json": 0,
        "data import export.json table.csv": 0,
        "fit wide.csv --annotators 'rater_*' --no-x": 0,
    },
    "docs/for/llm_judges.md": {
        "fit judgements.jsonl --annotator judge --label verdict --no-answer unsure --pi judge,order,words,logprob "
        "--no-x --keep-ids": 0,
        "next runs/judgements --gold 100 --out gold.csv": 0,
    },
    "docs/for/crowd.md": {
        "fit labels.csv --x items.npy --pi annotator,seconds": 0,
        "annotators runs/labels --out annotators.csv": 0,
        "next runs/labels --budget 50 --out ask_again.csv": 0,
        "export runs/labels clean.csv --to csv": 0,
    },
    "docs/for/one_annotator.md": {
        "fit labels.csv --x items.npy --pi seconds": 0,
        "detect runs/labels --budget 50 --out suspects.csv": 0,
        "next runs/labels --budget 50 --out ask.csv": 0,
    },
    "docs/for/rare_classes.md": {
        "fit labels.csv --x items.npy --pi annotator,seconds": 0,
        "detect runs/labels --per-class 20": 0,
        "detect runs/labels --class fraud": 0,
        "detect runs/labels --resting": 0,
    },
    "docs/for/texts.md": {
        "fit labels.csv --x-text text --pi annotator,seconds": 0,
        "detect runs/labels --budget 20": 0,
    },
    "docs/for/images.md": {
        "fit labels.csv --x photos --pi annotator,confidence": 0,
        "detect runs/labels --budget 20": 0,
    },
    "docs/for/scale.md": {"fit labels --x items.parquet --pi annotator,seconds": 0},
}
READS = {"docs/new_answers.md"}  # pages whose code reads what their first call writes
WRITES = {page for page in PAGES if page.startswith("docs/for/")}  # their code writes the files that their calls read


@pytest.fixture
def names(tmp_path, monkeypatch):
    """A folder with the files that the docs speak of, and what their variables hold."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIDUAL_DATA", raising=False)
    crowd = make_crowd(60, 6, 3, 3, 4, noise=0.3, n_test=20, seed=0)
    frame = crowd.frame[["item", "label", "annotator", "seconds"]]
    pred_probs = np.full((60, 3), 0.1)
    pred_probs[crowd.frame["item"], crowd.frame["y"]] = 0.8
    for name in ("labels", "today"):
        frame.to_csv(f"{name}.csv", index=False)
    labels = frame.drop_duplicates("item").sort_values("item")["label"].to_numpy()
    for name, array in {
        "features": crowd.x,
        "today": crowd.x,
        "new": crowd.x_test,
        "pred_probs": pred_probs,
        "y": labels,
    }.items():
        np.save(f"{name}.npy", array)
    write_json(tmp_path / "export.json", review_tasks(40))
    wide = frame.pivot_table(index="item", columns="annotator", values="label", observed=True).add_prefix("rater_")
    wide.to_csv("wide.csv")
    write_key(tmp_path)
    (tmp_path / "data").mkdir()
    of_rows = {"X": crowd.x[frame["item"]], "y": frame["label"].to_numpy()}
    return of_rows | {
        "x": crowd.x,
        "X_new": crowd.x_test,
        "frame": frame,
        "table": frame,
        "pred_probs": pred_probs,
        "labels": labels,
    }


RUN_ELSEWHERE = re.compile(r"README|/start_")  # by test_readme.py and the tests of the Start pages


@pytest.mark.parametrize(
    "page", [page for page, text in PAGES.items() if "```python" in text and not RUN_ELSEWHERE.search(page)]
)
def test_every_python_block_runs(page, names):
    if page in READS:
        run_cli(arguments(next(iter(RUN[page]))))
    run_blocks(page, names)


def run_blocks(page, names):
    """Run the python blocks of a page in order."""
    for block in BLOCK.finditer(PAGES[page]):
        line = PAGES[page].count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], page, "exec"), names)


def calls(page):
    """What follows `pidual` in the indented lines of a page that call it."""
    return [call for line in LINE.findall(PAGES[page]) for call in CALL.findall(line)]


def arguments(call):
    return shlex.split(" ".join(MEANT.get(word, word) for word in call.split()))


@pytest.mark.parametrize("page", [page for page in PAGES if not page.endswith("/cli.md") and calls(page)])
def test_every_call_of_the_command_line_is_understood(page, names):
    for call in calls(page):
        with mock.patch.object(click.Command, "invoke"):
            cli.main(arguments(call), "pidual", standalone_mode=False)


@pytest.mark.parametrize("page", RUN)
def test_calls_that_need_no_more_than_a_small_table_run(page, names):
    assert [call for call in RUN[page] if call not in calls(page)] == []
    if page in WRITES:
        run_blocks(page, names)
    for call, expected in RUN[page].items():
        code, _, said = run_cli(arguments(call))
        assert code == expected, f"pidual {call}: {said}"


def test_the_method_in_contributing_learns(rows):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    example = re.search(r"^ {7}from torch .*?class (\w+)\(Method\):.*?(?=^ {3}\w)", text, re.MULTILINE | re.DOTALL)
    names = {"__package__": "pidual.learn.methods", "__name__": "pidual.learn.methods.example"}
    exec(textwrap.dedent(example[0]), names)
    fitted = fit(lambda: names[example[1]](MLP(5, 3, width=16, depth=1), SPEC), rows, rows, TRAINING)
    assert fitted.history[-1]["loss"] < fitted.history[0]["loss"]
