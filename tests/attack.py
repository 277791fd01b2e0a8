"""Files of runs and sweeps, damaged and forged in every way we could think of, and what the commands make of them.

A case is a mutation of one file, and a command that reads it. Damage leaves the digests of the run as they are: the
command must notice, or answer as it does for the untouched run. A forgery is a file of another structure that was given
its place in the digests, as somebody can who means harm: the command must refuse it or give an answer of sound form.
"""

import contextlib
import copy
import json
import math
import random
import resource
import shutil
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from command_line import run_cli, write_crowd, write_pictures
from safetensors.torch import load_file, save_file
from stored_state import write_state

from pidual.api.fit import fit_table
from pidual.data import load_inputs, read_table, table_inputs
from pidual.errors import PidualError
from pidual.fit.options import FitOptions, Provenance
from pidual.learn.engine import Interrupted
from pidual.run.files import NAMED_FILES
from pidual.run.predictions import read_frame
from pidual.run.records.config import Config
from pidual.run.records.reading import file_digest, read_record, seal

SECONDS, BYTES = 60, 3 << 30  # that a command may take here at most: no hang, no absurd amount of memory
DEEP = json.loads("[" * 200 + "]" * 200)
VALUES = (None, -1, 1e308, 10**30, "", "x" * 10_000, "../../../etc/passwd", "\ud800", [], {}, DEEP, math.nan, True)
BATCH = {"batch_size": 32, "epochs": 2}


@dataclass(frozen=True)
class Case:
    """A mutation of the file `name` of the run `base`."""

    base: str
    name: str
    what: str
    change: Callable[[Path], None]
    forged: bool

    def __str__(self):
        return f"{self.base}/{self.name}: {self.what}"


class Range:
    """Finished and unfinished runs, and a sweep, to aim at."""

    def __init__(self, folder):
        self.folder = folder
        crowd = write_crowd(folder, n_items=40)
        write_pictures(folder, n_items=16, size=8)
        frame = pd.read_csv(crowd / "labels.csv")
        words = np.array(["purring soft cat", "barking loud dog", "night owl hoots"])
        codes = pd.Categorical(frame["y"], categories=["cat", "dog", "owl"]).codes
        frame.assign(
            words=[f"{words[code]} {item % 5}" for code, item in zip(codes, frame["item"], strict=True)]
        ).to_csv(crowd / "texts.csv", index=False)
        pd.read_csv(crowd / "texts.csv").drop_duplicates("item").to_csv(crowd / "new.csv", index=False)
        x = load_inputs(crowd / "x.npy")
        table = read_table(crowd / "labels.csv", pi=["annotator", "seconds"])
        options = FitOptions("pi_dual", options={**BATCH, "width": 8, "random_pi": 2, "network.width": 8})
        elr = FitOptions(method="elr", options={**BATCH, "network.width": 8})
        self.fit(table, x, "finished", options)
        self.fit(table, x, "other", FitOptions("pi_dual", options={**BATCH, "width": 12}, seed=1))
        self.fit(table, x, "unfinished", options, stop_after=5)
        self.fit(table, x, "elr", elr)
        self.fit(table, x, "elr-unfinished", elr, stop_after=5)
        texts = read_table(crowd / "texts.csv", pi=["annotator"], x_columns=["words"])
        self.fit(texts, table_inputs(crowd / "texts.csv", text="words"), "text", options)
        pictures = read_table(folder / "pictures.csv", pi=["annotator"])
        small = FitOptions("pi_dual", options={**BATCH, "epochs": 1, "width": 8, "network.width": 4})
        self.fit(pictures, load_inputs(folder / "pictures"), "images", small)
        self.whole = {name: read_frame(folder / done / "predictions.parquet") for name, done in WHOLE.items()}
        self.commands = self.make_commands()
        assert self.run(["sweep", *self.sweep_args, "--trials", 1]).code == 0
        self.answers = {}

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

    def make_commands(self):
        """Commands by name: words after `pidual`, where RUN is the run that was changed."""
        folder = self.folder
        data = [folder / "labels.csv", "--x", folder / "x.npy", "--epochs", 2, "--batch-size", 32, "--quiet"]
        pi = [*data, "--pi", "annotator,seconds", "--out", "RUN", "--resume"]
        width = ["--set", "network.width=8"]
        self.sweep_args = [*data, "--method", "ce", "--search", "lr=0.01,0.1", "--out", folder / "sweep"]
        return {
            "predict": ["predict", "RUN", folder / "x_test.npy"],
            "predict-last": ["predict", "RUN", folder / "x_test.npy", "--weights", "last"],
            "predict-text": ["predict", "RUN", folder / "new.csv"],
            "predict-images": ["predict", "RUN", folder / "pictures"],
            "detect": ["detect", "RUN"],
            "list": ["detect", "RUN", "--budget", 9],
            "report": ["report", "RUN"],
            "resume": ["fit", *pi, *width, "--method", "pi_dual", "--set", "width=8", "--set", "random_pi=2"],
            "resume-elr": ["fit", *pi, *width, "--method", "elr"],
            "sweep": ["sweep", *self.sweep_args[:-1], "RUN", "--resume", "--trials", 2],
        }

    def run(self, words):
        """What a command answers, within limits of time and memory."""
        return Answer.of(words)

    def answer(self, command, place):
        """What a command makes of the run in `place`."""
        return self.run([place if word == "RUN" else word for word in self.commands[command]])

    def reference(self, base, command, place):
        """What a command makes of the untouched run."""
        if (base, command) not in self.answers:
            self.fresh(base, place)
            self.answers[base, command] = self.answer(command, place)
            assert self.answers[base, command].code == 0, self.answers[base, command]
            if command == "sweep":
                best = json.loads((place / "best.json").read_text())
                self.best = {name: best[name] for name in ("options", "valid_accuracy", "selected_epoch")}
        return self.answers[base, command]

    def fresh(self, base, place):
        """A copy of a run to be changed."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder / base, place)

    def problem(self, case, command, place):
        """What is wrong with how a command takes a case, or None; and its exit code."""
        expected = self.reference(case.base, command, place)
        self.fresh(case.base, place)
        case.change(place)
        found = self.answer(command, place)
        return self.judge(case, command, place, expected, found), found.code

    def judge(self, case, command, place, expected, found):
        """What is wrong with an answer, or None."""
        if found.code not in (0, 1, 2, 3):
            return f"exit code {found.code}: {found.err[-1500:]}"
        lines = [line for line in found.err.splitlines() if not line.startswith("Warning: ")]
        if found.code and (len(lines) != 1 or not lines[0].startswith("Error: ") or len(lines[0]) > 1500):
            return f"not one sentence: {found.err[-1500:]}"
        named = str(place) in lines[0] or str(self.folder) in lines[0] if found.code else True
        if not named and "The study" not in lines[0] and "diverged" not in lines[0]:
            return f"names no file of the run: {lines[0]}"
        if found.code and "allocate" in lines[0]:
            return f"asks for too much memory: {lines[0]}"
        if found.code or case.forged:
            return None
        if command == "sweep":
            best = json.loads((place / "best.json").read_text())
            same = {name: best[name] for name in ("options", "valid_accuracy", "selected_epoch")} == self.best
            return None if same else "another best trial"
        if found.out != expected.out:
            return f"another answer: {found.out[:300]}"
        if command.startswith("resume") and case.base in WHOLE:
            same = read_frame(place / "predictions.parquet").equals(self.whole[case.base])
            return None if same else "another result"
        return None


WHOLE = {"unfinished": "finished", "elr-unfinished": "elr"}


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


# --- mutations ---


def damage(base, name, other):
    """Ways in which a file is damaged by accident; `other` is the same file of another run."""
    rng = random.Random(f"{base}/{name}")

    def written(change):
        return lambda run: (run / name).write_bytes(change((run / name).read_bytes()))

    def flip(share):
        def change(data):
            changed = bytearray(data)
            changed[int(share * (len(data) - 1))] ^= 1 << rng.randrange(8)
            return bytes(changed)

        return written(change)

    yield "removed", lambda run: (run / name).unlink()
    yield "a folder", lambda run: ((run / name).unlink(), (run / name).mkdir())
    for share in (0.0, 0.1, 0.5, 0.99):
        yield f"cut at {share:.0%}", written(lambda data, share=share: data[: int(share * len(data))])
    yield "garbage", written(lambda data: random.Random(0).randbytes(len(data)))
    yield "text", written(lambda data: b"not what was here before\n")
    yield "zeros inside", written(lambda data: data[: len(data) // 3] + bytes(64) + data[len(data) // 3 + 64 :])
    yield "appended", written(lambda data: data + b"\x00\x01more")
    for share in (0.0, 0.02, 0.3, 0.5, 0.7, 0.98, 1.0):
        yield f"a bit flipped at {share:.0%}", flip(share)
    if other is not None:
        yield "of another run", lambda run: shutil.copy(other, run / name)


def json_forgeries(value, more=2):
    """Objects that differ from `value` in one place: a field left out, or a value of another kind in its place."""
    rng = random.Random(0)
    for path in list(places(value)):
        name = ".".join(map(str, path))
        changed = copy.deepcopy(value)
        parent = inside(changed, path[:-1])
        del parent[path[-1]]
        yield f"without {name}", changed
        for new in rng.sample(VALUES, more):
            changed = copy.deepcopy(value)
            inside(changed, path[:-1])[path[-1]] = new
            yield f"{name} = {str(new)[:20]}", changed
    for new in (None, [], "x", 5, {}, DEEP, value | {"format": 99}, value | {"format": "x"}, value | {"format": 0}):
        yield f"is {str(new)[:20]}", new


def places(value, path=()):
    """Paths to every field, and to the first two of every list."""
    keys = value if isinstance(value, dict) else range(min(2, len(value))) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def inside(value, path):
    """What is at a path."""
    for key in path:
        value = value[key]
    return value


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


def column_forgeries(table):
    """Tables that differ from `table` in one column, or in their rows."""
    n = len(table)
    for place, name in enumerate(table.column_names):

        def with_column(values, place=place, name=name):
            return table.set_column(place, name, values)

        yield f"without {name}", table.drop_columns([name])
        yield f"{name} all null", with_column(pa.nulls(n, table[name].type))
        yield f"{name} text", with_column(pa.array(["../x\x00<b>"] * n))
        yield f"{name} lists", with_column(pa.array([[1, 2]] * n))
        yield f"{name} -1", with_column(pa.array([-1] * n))
        yield f"{name} 1e300", with_column(pa.array([1e300] * n))
        yield f"{name} NaN", with_column(pa.array([math.nan] * n))
        yield f"{name} bytes", with_column(pa.array([b"\xff\xfe"] * n))
        yield f"{name} true", with_column(pa.array([True] * n))
    yield "no rows", table.slice(0, 0)
    yield "one row", table.slice(0, 1)
    yield "twice", pa.concat_tables([table, table])
    yield "reversed", table.take(list(range(n))[::-1])
    for notes in (None, b"{", b"[]", b"\xff", b'{"categories": {}, "pi_columns": []}', b'{"categories": 5}'):
        yield f"notes {notes}", table.replace_schema_metadata({"pidual": notes} if notes is not None else None)
    notes = json.loads(table.schema.metadata[b"pidual"])
    for what, changed in json_forgeries(notes, 3):
        yield f"notes {what}", table.replace_schema_metadata({"pidual": json.dumps(changed)})


def tensor_forgeries(tensors):
    """Tensors that differ in one place."""
    for name in list(tensors)[:: max(1, len(tensors) // 8)]:
        value = tensors[name]
        yield f"without {name}", {n: t for n, t in tensors.items() if n != name}
        yield f"{name} longer", tensors | {name: torch.cat([value.reshape(-1), value.reshape(-1)])}
        yield f"{name} scalar", tensors | {name: torch.zeros(())}
        yield f"{name} empty", tensors | {name: torch.zeros(0)}
        if value.is_floating_point():
            yield f"{name} NaN", tensors | {name: torch.full_like(value, math.nan)}
        yield f"{name} int8", tensors | {name: value.to(torch.int8)}
    yield "none", {}
    yield "one more", tensors | {"zz": torch.zeros(2)}
    yield "one more inside", tensors | {"method.zz": torch.zeros(2), "optimizer.9.9.x": torch.zeros(2)}


def forged_tensors(name, tensors, values):
    """A change that writes such a file, with a digest that fits."""

    def change(run):
        if values is None:
            save_file({n: t.contiguous() for n, t in tensors.items()}, run / name)
        else:
            write_state(run / name, tensors, values)
        reseal(run)

    return change


# --- cases ---

TARGETS = {  # run -> file -> the commands that read it
    "finished": {
        "config.json": ("predict", "list", "report", "resume"),
        "summary.json": ("predict", "list", "report", "resume"),
        "model.json": ("predict",),
        "model.safetensors": ("predict",),
        "model-last.safetensors": ("predict-last",),
        "metrics.jsonl": ("report",),
        "predictions.parquet": ("detect", "list", "report"),
        "annotators.parquet": ("detect", "list", "report"),
        "items.parquet": ("detect",),
    },
    "text": {
        "model.json": ("predict-text",),
        "model.safetensors": ("predict-text",),
        "previews.parquet": ("report",),
    },
    "images": {"model.json": ("predict-images",), "thumbnails.parquet": ("report",)},
    "elr": {"model.json": ("predict",), "model.safetensors": ("predict",)},
    "unfinished": {"config.json": ("resume",), "state/state.safetensors": ("resume",)},
    "elr-unfinished": {"state/state.safetensors": ("resume-elr",), "state/targets-*.rows": ("resume-elr",)},
    "sweep": {"study.sqlite": ("sweep",), "best.json": ("sweep",)},
}


def all_cases(folder):
    """Every case with the commands that read the file, over all runs."""
    for base, files in TARGETS.items():
        for pattern, commands in files.items():
            (path,) = sorted((folder / base).glob(pattern))[:1]
            name = str(path.relative_to(folder / base))
            other = folder / ("unfinished" if base == "elr-unfinished" else "other") / name
            for what, change in damage(base, name, other if other.is_file() else None):
                yield Case(base, name, what, change, forged=False), commands
            for what, change in forgeries(path, name):
                yield Case(base, name, what, change, forged=True), commands


def forgeries(path, name):
    """Changes that write files of another structure, with digests that fit."""
    if path.suffix == ".json":
        for what, value in json_forgeries(json.loads(path.read_text()), 1):
            yield what, lambda run, value=value: (write_any(run / name, value), reseal(run))
    elif path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for what, value in json_forgeries(lines[0]):

            def write_lines(run, value=value):
                (run / name).write_text("".join(json.dumps(line) + "\n" for line in [value, *lines[1:]]))
                reseal(run)

            yield what, write_lines
    elif path.suffix == ".parquet":
        for what, table in column_forgeries(pq.read_table(path)):
            yield what, lambda run, table=table: (pq.write_table(table, run / name), reseal(run))
    elif path.suffix == ".safetensors":
        for what, changed in tensor_forgeries(load_file(path)) if "state" not in name else ():
            yield what, forged_tensors(name, changed, None)


def sample(cases, size, seed=0):
    """Some pairs of case and command, spread over files, ways and commands."""
    pairs = [(case, command) for case, commands in cases for command in commands]
    groups = {}
    for case, command in pairs:
        groups.setdefault((case.base, case.name, command, case.forged), []).append((case, command))
    rng = random.Random(seed)
    chosen = []
    while len(chosen) < min(size, len(pairs)):
        for group in groups.values():
            if group and len(chosen) < size:
                chosen.append(group.pop(rng.randrange(len(group))))
    return chosen
