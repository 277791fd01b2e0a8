"""A training step of Pi-DUAL with one thread and with all cores, where threads that wait spin and where they sleep.

    python benchmarks/threads.py [--rounds 5] [--seconds 1] [--out benchmarks/results/threads.json]

The two numbers of threads take turns of a second or so in one process, since other people's jobs come and go; a result
is the median over rounds of the ratio of the seconds of a step, all cores / one thread. Whether waiting threads spin or
sleep (OMP_WAIT_POLICY) is decided when torch is loaded, so each has a process of its own. What comes out depends on
who else uses the machine: the load is in the results.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, write_result

from pidual.data.pi import EncodedPI
from pidual.learn.batch import Rows, Spec
from pidual.learn.engine import Session, Training, make_fabric
from pidual.learn.engine.fit import Trainer
from pidual.learn.engine.session import using_threads
from pidual.learn.methods import METHODS
from pidual.learn.nets import build_network

CASES = (  # shape of an input, batch, width of the network
    ((32,), 32, 128),
    ((200,), 128, 128),
    ((200,), 512, 128),
    ((200,), 1024, 128),
    ((768,), 1024, 512),
    ((768,), 1024, 1024),
    ((3, 8, 8), 64, 32),
    ((3, 32, 32), 64, 32),
)


def make_trainer(in_shape, batch_size, width):
    """Our loop with random rows, ready to train."""
    rng = np.random.default_rng(0)
    n = 4 * batch_size
    x = rng.integers(0, 256, (n, *in_shape)).astype(np.uint8 if len(in_shape) == 3 else np.float32)
    pi = EncodedPI(rng.integers(0, 16, (n, 1)).astype(np.int32), rng.normal(size=(n, 1)).astype(np.float32))
    rows = Rows.build(x, np.arange(n), rng.integers(0, 10, n), pi)
    network = "small_cnn" if len(in_shape) == 3 else "mlp"

    def build():
        f = build_network(network, in_shape=in_shape, n_classes=10, width=width)
        return METHODS["pi_dual"](f, Spec(n, 10, (16,), 1), width=256)

    training = Training(batch_size=batch_size, lr=0.01)
    trainer = Trainer(build, rows, None, training, Session(make_fabric("cpu")))
    trainer.set_up()
    return trainer


def measure(rounds, seconds):
    """A line of JSON for every case."""
    for in_shape, batch_size, width in CASES:
        trainer = make_trainer(in_shape, batch_size, width)
        batches = list(trainer.batches.epoch(trainer.batches.order(0), 0, epoch=0))

        def step_seconds(threads, trainer=trainer, batches=batches):
            with using_threads(threads):
                trainer.train_step(batches[0])
                started, steps = time.perf_counter(), 0
                while time.perf_counter() < started + seconds:
                    trainer.train_step(batches[steps % len(batches)])
                    steps += 1
                return (time.perf_counter() - started) / steps

        pairs = [(step_seconds(1), step_seconds(os.cpu_count())) for _ in range(rounds)]
        ratios = sorted(together / alone for alone, together in pairs)
        linear = [layer.weight.numel() for layer in trainer.method.modules() if isinstance(layer, torch.nn.Linear)]
        row = {
            "in_shape": in_shape,
            "batch_size": batch_size,
            "width": width,
            "multiply_adds": sum(linear) * batch_size if len(in_shape) == 1 else None,
            "ms_one_thread": round(1000 * statistics.median(alone for alone, _ in pairs), 2),
            "ratio": round(statistics.median(ratios), 2),
            "ratios": [round(ratio, 2) for ratio in ratios],
            "load": round(os.getloadavg()[0], 1),
        }
        print(json.dumps(row), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS / "threads.json")
    given = parser.parse_args()
    if given.measure:
        measure(given.rounds, given.seconds)
        return
    results = {}
    outside = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    for waiting, policy in (("spin", {}), ("sleep", {"OMP_WAIT_POLICY": "passive"})):
        command = [
            sys.executable,
            __file__,
            "--measure",
            "--rounds",
            str(given.rounds),
            "--seconds",
            str(given.seconds),
        ]
        environment = outside | policy
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        results[waiting] = [json.loads(line) for line in done.stdout.splitlines()]
    write_result(given.out, results, rounds=given.rounds, seconds=given.seconds)


if __name__ == "__main__":
    main()
