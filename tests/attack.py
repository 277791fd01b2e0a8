"""Runs to aim at, and what commands make of them once a file was changed, within limits of time and memory.

A file that was changed by accident leaves the digests of the run as they are; `reseal` gives it its place in them.
"""

import contextlib
import json
import resource
import shutil
import signal
import traceback
from dataclasses import dataclass
from pathlib import Path

from command_line import run_cli, write_crowd
from safetensors.torch import save_file
from stored_state import write_state

from pidual.api.fit import fit_table
from pidual.data import load_inputs, read_table
from pidual.errors import PidualError
from pidual.fit.options import FitOptions, Provenance
from pidual.learn.engine import Interrupted
from pidual.run.files import NAMED_FILES
from pidual.run.records.config import Config
from pidual.run.records.reading import file_digest, read_record, seal

SECONDS, BYTES = 60, 3 << 30  # that a command may take here at most: no hang, no absurd amount of memory
BATCH = {"batch_size": 32, "epochs": 2}


class Range:
    """Finished and unfinished runs to aim at."""

    def __init__(self, folder):
        self.folder = folder
        crowd = write_crowd(folder, n_items=40)
        x = load_inputs(crowd / "x.npy")
        table = read_table(crowd / "labels.csv", pi=["annotator", "seconds"])
        options = FitOptions("pi_dual", options={**BATCH, "width": 8, "random_pi": 2, "network.width": 8})
        self.fit(table, x, "finished", options)
        self.fit(table, x, "other", FitOptions("pi_dual", options={**BATCH, "width": 12}, seed=1))
        self.fit(table, x, "unfinished", options, stop_after=5)
        elr = FitOptions(method="elr", options={**BATCH, "network.width": 8})
        self.fit(table, x, "elr-unfinished", elr, stop_after=5)
        data = [folder / "labels.csv", "--x", folder / "x.npy", "--epochs", 2, "--batch-size", 32, "--quiet"]
        again = ["fit", *data, "--pi", "annotator,seconds", "--out", "RUN", "--resume", "--set", "network.width=8"]
        self.commands = {  # words after `pidual`, where RUN is the run that was changed
            "predict": ["predict", "RUN", folder / "x_test.npy"],
            "predict-last": ["predict", "RUN", folder / "x_test.npy", "--weights", "last"],
            "detect": ["detect", "RUN"],
            "report": ["report", "RUN"],
            "resume": [*again, "--method", "pi_dual", "--set", "width=8", "--set", "random_pi=2"],
            "resume-elr": [*again, "--method", "elr"],
        }

    def fit(self, table, inputs, name, options, stop_after=None):
        """Fit into a folder, to the end or to a step."""
        stop = iter([False] * (stop_after or 0) + [True]) if stop_after else None
        expected = contextlib.suppress(Interrupted) if stop_after else contextlib.nullcontext()
        with expected:
            fit_table(
                table,
                inputs,
                self.folder / name,
                options,
                provenance=Provenance({"x": "x.npy"}),
                stop=lambda: bool(stop and next(stop)),
            )

    def answer(self, command, place):
        """What a command makes of the run in `place`."""
        return Answer.of([place if word == "RUN" else word for word in self.commands[command]])

    def fresh(self, base, place):
        """A copy of a run to be changed."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder / base, place)


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command; code None and a traceback where an exception left it."""

    code: int | None
    out: str
    err: str

    @classmethod
    def of(cls, words):
        """Run a command."""

        def give_up(number, frame):
            raise TimeoutError("takes too long")

        taken = Path("/proc/self/statm")  # where there is none, memory is not limited
        pages = int(taken.read_text().split()[0]) if taken.exists() else 0
        limits = resource.getrlimit(resource.RLIMIT_AS)
        before = signal.signal(signal.SIGALRM, give_up)
        signal.alarm(SECONDS)
        if pages:
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, limits[1]))
        try:
            return cls(*run_cli(words))
        except BaseException:
            return cls(None, "", traceback.format_exc())
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)


def write_any(path, value):
    """JSON as Python writes it, NaN and halves of characters included."""
    path.write_text(json.dumps(value), encoding="utf-8")


def reseal(run):
    """Give every file its place in the digests again, as somebody can who means harm."""
    path = run / "summary.json"
    if not path.is_file():
        return
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        summary = json.loads(path.read_text())
        summary["digests"] = {name: file_digest(run / name) for name in NAMED_FILES if (run / name).is_file()}
        with contextlib.suppress(PidualError):
            summary["run_id"] = read_record(run / "config.json", Config).run_id
        path.write_text(json.dumps(seal(summary)))


def forged_tensors(name, tensors, values):
    """A change that writes such a file, with a digest that fits."""

    def change(run):
        if values is None:
            save_file({n: t.contiguous() for n, t in tensors.items()}, run / name)
        else:
            write_state(run / name, tensors, values)
        reseal(run)

    return change
