"""What keeping freed memory is worth: an epoch in a process that keeps it / one in a process that does not.

    python benchmarks/allocator.py [--rounds 5] [--out benchmarks/results/allocator.json]

Each epoch runs in a process of its own, the two kinds in turn, on one thread; a result is the median over rounds of the
ratio of their processor times, which a busy machine hardly changes.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, write_result
from overhead import make_rows, our_epochs, our_trainer

from pidual.cli.common import keep_freed_memory
from pidual.learn.engine import Training

SHAPES = {"small_cnn": (2000, 3, 32, 32), "mlp": (20_000, 512)}


def epoch_seconds(network):
    """Processor time of one epoch, after one to warm up."""
    x = np.random.default_rng(0).normal(size=SHAPES[network]).astype(np.float32)
    training = Training(epochs=10, batch_size=64, lr=0.01, guard="off")
    epochs = our_epochs(our_trainer(make_rows(x, 10), network, 10, training))
    next(epochs)
    start = time.process_time()
    next(epochs)
    return time.process_time() - start


def in_new_process(network, kind):
    """The same in a new process."""
    command = [sys.executable, __file__, "--one", network, kind]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def compare(network, rounds):
    """Ratio of processor times over rounds in which the two alternate."""
    seconds = [(in_new_process(network, "keep"), in_new_process(network, "give back")) for _ in range(rounds)]
    values = [a / b for a, b in seconds]
    return {"ratio_median": statistics.median(values), "ratio_min": min(values), "ratio_max": max(values)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "allocator.json")
    parser.add_argument("--one", nargs=2, metavar=("NETWORK", "KIND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.one:
        network, kind = arguments.one
        if kind == "keep":
            keep_freed_memory()
        print(epoch_seconds(network))
    else:
        results = {network: compare(network, arguments.rounds) for network in SHAPES}
        print(results)
        write_result(arguments.out, results, rounds=arguments.rounds)
