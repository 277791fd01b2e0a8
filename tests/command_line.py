"""Run the command line as a user does: in this process where that is enough, in another one where signals matter."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from PIL import Image

from pidual.cli import main
from pidual.data.datasets.synthetic import make_crowd

SRC = Path(__file__).parents[1] / "src"


def run_cli(args, *, one_stream=False):
    """Exit code, stdout and stderr of `pidual ARGS`, in this process; `one_stream`, as on a terminal, is stdout."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code = None
    with (
        mock.patch.object(sys, "argv", ["pidual", *map(str, args)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out if one_stream else err),
    ):
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code
    return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()


def environment(**changes):
    """The environment of a process of its own: one thread, this checkout, compiled once for all such processes."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": ""} | changes


def start_cli(args, *, launcher=(), **options):
    """Start `python -m pidual ARGS` (or `python LAUNCHER -m pidual ARGS`) as a process of its own."""
    command = [sys.executable, *launcher, "-m", "pidual", *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment(), **pipes, **options)


def write_key(folder):
    """Write the key of pseudonyms, so that a command has no new one to announce."""
    (folder / ".pidual.key").touch(mode=0o600)
    (folder / ".pidual.key").write_text("5a" * 32 + "\n")


def write_crowd(folder, *, n_items=60, seed=0, n_test=20):
    """Write labels.csv, x.npy, x_test.npy and y_test.csv of a small crowd with e-mail addresses for names."""
    crowd = make_crowd(n_items, 6, 3, 3, 4, noise=0.3, spammer_share=0.2, n_test=n_test, seed=seed)
    names = np.array(["cat", "dog", "owl"])
    frame = crowd.frame.assign(label=names[crowd.frame["label"]], y=names[crowd.frame["y"]])
    frame["annotator"] = "person" + frame["annotator"].str[-1:] + "@example.org"
    frame.to_csv(folder / "labels.csv", index=False)
    write_key(folder)
    np.save(folder / "x.npy", crowd.x)
    np.save(folder / "x_test.npy", crowd.x_test)
    pd.DataFrame({"y": names[crowd.y_test]}).to_csv(folder / "y_test.csv", index=False)
    return folder


def write_pictures(folder, *, n_items=24, size=12, seed=0):
    """Write pictures/*.png, bright by day and dark by night, and pictures.csv with two labels for each."""
    rng = np.random.default_rng(seed)
    write_key(folder)
    (folder / "pictures").mkdir()
    rows = []
    for number in range(n_items):
        night = number % 2
        pixels = rng.normal(60 if night else 190, 25, (size, size, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"p{number:02}.png")
        y = ["day", "night"][night]
        rows += [(f"p{number:02}", y if rng.random() < 0.8 else "day", f"a{who}", y) for who in rng.permutation(4)[:2]]
    pd.DataFrame(rows, columns=["item", "label", "annotator", "y"]).to_csv(folder / "pictures.csv", index=False)
    return folder


def fit(folder, *options, table="labels.csv", x="x.npy"):
    return run_cli(["fit", folder / table, *(["--x", folder / x] if x else []), "--out", folder / "run", *options])


def refused(answer, exit_code, *parts):
    """Check that a command said one sentence with these parts, printed nothing else and failed with this exit code."""
    code, out, err = answer
    assert code == exit_code, err
    assert out == ""
    assert "Traceback" not in err
    lines = err.strip().splitlines()
    if lines[0].startswith("Usage: "):  # click's own: the usage line, a hint, then the error
        lines = lines[-1:]
    assert len(lines) == 1, err
    assert lines[0].startswith("Error: ")
    assert lines[0].endswith((".", "?", ")")), err
    for part in map(str, parts):
        assert part in lines[0], err


def refused_and_nothing_written(folder, answer, exit_code, *parts):
    refused(answer, exit_code, *parts)
    assert not (folder / "run").exists()


def change(folder, function):
    """Write labels.csv again after `function` has changed its frame."""
    frame = pd.read_csv(folder / "labels.csv")
    changed = function(frame)
    (frame if changed is None else changed).to_csv(folder / "labels.csv", index=False)
