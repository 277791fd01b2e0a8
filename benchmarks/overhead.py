"""What our training loop costs over a hand-written one, and Pi-DUAL over cross-entropy.

    python benchmarks/overhead.py [--rounds 7] [--only small_cnn,mlp,resnet50] [--out benchmarks/results/overhead.json]

Everything is timed alternately in one process, and a result is the median over rounds of the ratio within a round, so
that a busy machine slows both sides alike; by the clock, and in processor time, which other people's jobs disturb less.
The hand-written loop is what one would write in a notebook: index a permutation, forward, backward, SGD step, add up
the loss.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from common import write_result
from torch import nn

from pidual.batch import Rows, Spec
from pidual.encode import EncodedPI
from pidual.engine import Training, make_fabric
from pidual.engine.fit import Trainer
from pidual.engine.progress import Progress
from pidual.methods import METHODS
from pidual.nets import build_network

PI_DUAL = {"width": 2048, "random_pi": 30}  # as on ImageNet-PI


def make_rows(x, n_classes, n_annotators=16):
    rng = np.random.default_rng(0)
    n = len(x)
    pi = EncodedPI(rng.integers(0, n_annotators, (n, 1)).astype(np.int32), rng.normal(size=(n, 3)).astype(np.float32))
    return Rows.build(x, np.arange(n), rng.integers(0, n_classes, n), pi)


def our_epoch(rows, network, n_classes, training, method="ce", **options):
    """A function that trains one more epoch with our loop."""
    spec = Spec(len(rows), n_classes, (16,), 3)
    trainer = Trainer(
        lambda: METHODS[method](
            build_network(network, in_shape=rows.x.shape[1:], n_classes=n_classes), spec, **options
        ),
        *(rows, None, training, make_fabric("cpu"), None, Progress(), lambda: False),
    )
    trainer.set_up()

    def epoch():
        trainer.train_epoch()
        trainer.finish_epoch()

    return epoch


def hand_epoch(rows, network, n_classes, training):
    """A function that trains one more epoch with a hand-written loop on the same network and data."""
    x, y = rows.x, rows.y_noisy
    net = build_network(network, in_shape=x.shape[1:], n_classes=n_classes).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=training.lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
    size = training.batch_size

    def epoch():
        order, total = torch.randperm(len(y)), 0.0
        for start in range(0, len(y) - size + 1, size):
            index = order[start : start + size]
            loss = nn.functional.cross_entropy(net(x[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total

    return epoch


def ratios(one, other, rounds):
    """Seconds of both, and the ratio one / other, over rounds in which they alternate."""
    one(), other()  # warm up
    clock, processor = [], []
    for number in range(rounds):
        times = {}
        for function in (one, other) if number % 2 else (other, one):
            start = time.perf_counter(), time.process_time()
            function()
            times[function] = time.perf_counter() - start[0], time.process_time() - start[1]
        clock.append((times[one][0], times[other][0]))
        processor.append((times[one][1], times[other][1]))
    values = [a / b for a, b in clock]
    return {
        "ratio_median": statistics.median(values),
        "ratio_min": min(values),
        "ratio_max": max(values),
        "processor_ratio_median": statistics.median(a / b for a, b in processor),
        "seconds": statistics.median(a for a, _ in clock),
        "seconds_other": statistics.median(b for _, b in clock),
        "rounds": rounds,
    }


def small_cnn(rounds):
    """Our epoch / a hand-written epoch: small CNN, 10,000 images of 32 x 32."""
    x = np.random.default_rng(0).normal(size=(10_000, 3, 32, 32)).astype(np.float32)
    rows, training = make_rows(x, 10), Training(epochs=1000, batch_size=256, lr=0.01, guard="off")
    return ratios(our_epoch(rows, "small_cnn", 10, training), hand_epoch(rows, "small_cnn", 10, training), rounds)


def mlp(rounds):
    """Our epoch / a hand-written epoch: MLP, 100,000 rows of 512 numbers."""
    x = np.random.default_rng(0).normal(size=(100_000, 512)).astype(np.float32)
    rows, training = make_rows(x, 10), Training(epochs=1000, batch_size=256, lr=0.01, guard="off")
    return ratios(our_epoch(rows, "mlp", 10, training), hand_epoch(rows, "mlp", 10, training), rounds)


def resnet50(rounds):
    """Pi-DUAL step / cross-entropy step: ResNet-50, 1000 classes, PI networks as on ImageNet-PI; 128 x 128 images."""
    x = np.random.default_rng(0).normal(size=(32, 3, 128, 128)).astype(np.float32)
    rows, training = make_rows(x, 1000), Training(epochs=1000, batch_size=32, lr=0.001, guard="off")
    step = our_epoch(rows, "resnet50", 1000, training, "pi_dual", **PI_DUAL)
    return ratios(step, our_epoch(rows, "resnet50", 1000, training), 2 * rounds)


CASES = {"small_cnn": small_cnn, "mlp": mlp, "resnet50": resnet50}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "overhead.json")
    arguments = parser.parse_args()
    results = {}
    for name in arguments.only.split(","):
        results[name] = {"what": CASES[name].__doc__, **CASES[name](arguments.rounds)}
        print(
            name, {key: round(value, 4) for key, value in results[name].items() if isinstance(value, float)}, flush=True
        )
    write_result(arguments.out, results)
