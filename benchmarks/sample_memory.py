"""ELR and SOP with a value per row and class at the size of ImageNet: memory, and time of a step beside cross-entropy.

    python benchmarks/sample_memory.py [--rows 1281167] [--classes 1000] [--steps 200] [--batch 256] [--folder DIR]

Synthetic features, an MLP, the store on disk in a temporary folder (of DIR). Each method trains in a process of its
own, whose largest resident memory is reported; then all train in turn, some steps each, in one process, and the time
of a step is compared with cross-entropy's. Writes results/sample_memory.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, peak_memory, write_result

from pidual.learn.batch import Rows, Spec
from pidual.learn.engine import Session, Training, make_fabric
from pidual.learn.engine.fit import Trainer
from pidual.learn.methods import METHODS
from pidual.learn.nets import MLP

N_FEATURES, WIDTH = 64, 512
OPTIONS = {
    "ce": ("ce", {}),
    "elr": ("elr", {"memory": "disk"}),
    "sop": ("sop", {"memory": "disk"}),
}


class OnDisk:
    """As much of a state store as a trainer needs to place a memory; no state is saved here."""

    save_every = float("inf")

    def __init__(self, folder):
        self.folder = Path(folder)


def make_trainer(name, arguments, folder):
    """A trainer of the method on random features, ready to step."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((arguments.rows, N_FEATURES), dtype=np.float32)
    rows = Rows.build(x, np.arange(arguments.rows), rng.integers(0, arguments.classes, arguments.rows))
    spec = Spec(len(rows), arguments.classes)
    method, options = OPTIONS[name]
    training = Training(epochs=1, batch_size=arguments.batch, lr=0.01)

    def build():
        return METHODS[method](MLP(N_FEATURES, arguments.classes, width=WIDTH, depth=1), spec, **options)

    trainer = Trainer(build, rows, None, training, Session(make_fabric("cpu"), OnDisk(Path(folder) / name)))
    trainer.set_up()
    return trainer


def steps_of(trainer):
    """The training steps of a trainer, one at a time."""
    for batch in trainer.batches.epoch(trainer.batches.order(0)):
        loss = trainer.train_step(batch)["loss"].detach()
        trainer.position.step += 1
        yield float(loss)


def run_alone(name, arguments, folder):
    """Loss, largest resident memory and seconds of one method's steps, in this process."""
    started = time.perf_counter()
    trainer = make_trainer(name, arguments, folder)
    ready = time.perf_counter()
    losses = [loss for loss, _ in zip(steps_of(trainer), range(arguments.steps), strict=False)]
    peak = round(peak_memory() * 2**20)
    store = sum(path.stat().st_size for path in Path(folder).rglob("*.memory"))
    return {
        "steps": len(losses),
        "peak_bytes": peak,
        "store_bytes": store,
        "seconds_to_start": round(ready - started, 1),
        "seconds_per_step": round((time.perf_counter() - ready) / len(losses), 4),
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }


def compare(arguments, folder, piece=20):
    """Seconds of a step of each method relative to cross-entropy's, `piece` steps of each in turn."""
    running = {name: steps_of(make_trainer(name, arguments, folder)) for name in OPTIONS}
    rounds = []
    for _ in range(arguments.steps // piece):
        seconds = {}
        for name, steps in running.items():
            started = time.perf_counter()
            for _ in range(piece):
                next(steps)
            seconds[name] = (time.perf_counter() - started) / piece
        rounds.append(seconds)
    ratios = {name: [seconds[name] / seconds["ce"] for seconds in rounds[1:]] for name in OPTIONS}
    return {
        name: {"median": round(float(np.median(r)), 3), "min": round(min(r), 3), "max": round(max(r), 3)}
        for name, r in ratios.items()
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_281_167)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--alone", choices=OPTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS / "sample_memory.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.alone:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            print(json.dumps(run_alone(arguments.alone, arguments, folder)))
        raise SystemExit
    sizes = {"rows": arguments.rows, "classes": arguments.classes, "steps": arguments.steps, "batch": arguments.batch}
    same = [part for key, value in sizes.items() for part in (f"--{key}", str(value))]
    same += ["--folder", str(arguments.folder)] if arguments.folder else []
    alone = {}
    for name in OPTIONS:
        done = subprocess.run(
            [sys.executable, __file__, "--alone", name, *same], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        alone[name] = json.loads(done.stdout)
        print(name, alone[name], flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        ratios = compare(arguments, folder)
    print(ratios)
    write_result(arguments.out, {"alone": alone, "step_time_relative_to_ce": ratios}, **sizes)
