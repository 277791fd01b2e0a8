"""Runs to review; training is made up (tests/show/report/fabricated.py)."""

import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from fabricated import change_files, fabricate_run, png
from review_server import CLASSES, SCRIPT, Server

from pidual.api.run import Run
from pidual.run.predictions import write_frame


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory):
    """A run of hostile classes, with texts and pictures of its suspects."""
    path = fabricate_run(tmp_path_factory.mktemp("review") / "run", n_items=150, classes=CLASSES)
    rows = np.flatnonzero(Run(path).predictions.is_issue)
    items = Run(path).predictions.frame["item"].astype(str).iloc[rows[::2]].unique()
    text = pd.Series([f"Text {row} {SCRIPT} <b>bold</b>" for row in rows], dtype="str")
    numbers = dict.fromkeys(("value", "low", "high", "distance"), np.full(len(rows), np.nan))
    about = pd.DataFrame({"row": rows, "column": pd.Series("text", text.index), "text": text} | numbers)
    write_frame(path / "previews.parquet", about)
    pictures = pd.DataFrame({"item": pd.Series(items, dtype="str"), "png": [png(24)] * len(items)})
    write_frame(path / "thumbnails.parquet", pictures)
    change_files(path)
    return path


@pytest.fixture
def run(whole_run, tmp_path):
    """A copy that a test may decide on."""
    shutil.copytree(whole_run, tmp_path / "run")
    return Run.open(tmp_path / "run")


@pytest.fixture
def start(run):
    """Starts servers of the run, and ends them."""
    started = []

    def start_one(*words):
        started.append(Server(run.path, *words))
        return started[-1]

    yield start_one
    for server in started:
        server.stop(signal.SIGKILL)
