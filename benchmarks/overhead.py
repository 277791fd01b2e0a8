"""What our training loop costs over a hand-written one, and Pi-DUAL over cross-entropy.

    python benchmarks/overhead.py [--rounds 7] [--only small_cnn,mlp,resnet50] [--out benchmarks/results/overhead.json]

Both sides alternate step by step in one process: after each step of ours, which tells its progress, the other side
takes one. Other people's jobs come and go within seconds, so both sides of a round meet the same ones; whole epochs in
turn do not, and differ by a tenth and more. The process keeps freed memory, as that of a command does: the pages that
glibc would give back and ask for again fall on either side by chance. A result is the median over rounds of the ratio
of the seconds of an epoch, by the clock and in processor time. The hand-written loop is what one would write in a
notebook: index a permutation, forward, backward, SGD step, add up the loss.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from common import write_result
from torch import nn

from pidual.cli.common import keep_freed_memory
from pidual.data.pi import EncodedPI
from pidual.learn.batch import Rows, Spec
from pidual.learn.engine import Callback, Session, Training, make_fabric
from pidual.learn.engine.fit import Trainer
from pidual.learn.methods import METHODS
from pidual.learn.nets import build_network

PI_DUAL = {"width": 2048, "random_pi": 30}  # as on ImageNet-PI


def make_rows(x, n_classes, n_annotators=16):
    rng = np.random.default_rng(0)
    n = len(x)
    pi = EncodedPI(rng.integers(0, n_annotators, (n, 1)).astype(np.int32), rng.normal(size=(n, 3)).astype(np.float32))
    return Rows.build(x, np.arange(n), rng.integers(0, n_classes, n), pi)


def our_trainer(rows, network, n_classes, training, method="ce", **options):
    """Our loop, ready to train."""
    spec = Spec(len(rows), n_classes, (16,), 3)
    trainer = Trainer(
        lambda: METHODS[method](
            build_network(network, in_shape=rows.x.shape[1:], n_classes=n_classes), spec, **options
        ),
        *(rows, None, training, Session(make_fabric("cpu"))),
    )
    trainer.set_up()
    return trainer


def our_epochs(trainer):
    """Train with our loop, one epoch at each turn."""
    while True:
        trainer.train_epoch()
        trainer.finish_epoch()
        yield


def hand_steps(rows, network, n_classes, training):
    """Train with a hand-written loop on the same network and data, one step at each turn."""
    x, y = rows.x, rows.y_noisy
    net = build_network(network, in_shape=x.shape[1:], n_classes=n_classes).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=training.lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
    size = training.batch_size
    while True:
        order, total = torch.randperm(len(y)), 0.0
        for start in range(0, len(y) - size + 1, size):
            index = order[start : start + size]
            loss = nn.functional.cross_entropy(net(x[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            yield total


def now():
    """Seconds by the clock, and of processor time."""
    return np.array([time.perf_counter(), time.process_time()])


class Turns(Callback):
    """Gives the other side a step after each of ours, and keeps its seconds."""

    def __init__(self, other):
        self.other, self.seconds = other, np.zeros(2)

    def on_step(self, trainer):
        start = now()
        next(self.other)
        self.seconds += now() - start


def ratios(trainer, other, rounds):
    """Seconds of our epoch, of as many steps of the other side, and their ratio, over rounds."""
    turns = Turns(other)
    trainer.callbacks = [turns]
    epochs, ours, others = our_epochs(trainer), [], []
    next(epochs)  # warm up
    for _ in range(rounds):
        turns.seconds = np.zeros(2)
        start = now()
        next(epochs)
        ours.append(now() - start - turns.seconds)
        others.append(turns.seconds)
    clock, processor = (np.array(ours) / np.array(others)).T
    return {
        "ratio_median": float(np.median(clock)),
        "ratio_min": float(clock.min()),
        "ratio_max": float(clock.max()),
        "processor_ratio_median": float(np.median(processor)),
        "seconds": float(np.median(ours, axis=0)[0]),
        "seconds_other": float(np.median(others, axis=0)[0]),
        "rounds": rounds,
    }


def small_cnn(rounds):
    """Our epoch / a hand-written epoch: small CNN, 10,000 images of 32 x 32."""
    x = np.random.default_rng(0).normal(size=(10_000, 3, 32, 32)).astype(np.float32)
    case = make_rows(x, 10), "small_cnn", 10, Training(epochs=1000, batch_size=256, lr=0.01, guard="off")
    return ratios(our_trainer(*case), hand_steps(*case), rounds)


def mlp(rounds):
    """Our epoch / a hand-written epoch: MLP, 100,000 rows of 512 numbers."""
    x = np.random.default_rng(0).normal(size=(100_000, 512)).astype(np.float32)
    case = make_rows(x, 10), "mlp", 10, Training(epochs=1000, batch_size=256, lr=0.01, guard="off")
    return ratios(our_trainer(*case), hand_steps(*case), rounds)


def resnet50(rounds):
    """Pi-DUAL step / cross-entropy step: ResNet-50, 1000 classes, PI networks as on ImageNet-PI; 128 x 128 images."""
    x = np.random.default_rng(0).normal(size=(32, 3, 128, 128)).astype(np.float32)
    case = make_rows(x, 1000), "resnet50", 1000, Training(epochs=1000, batch_size=32, lr=0.001, guard="off")
    return ratios(our_trainer(*case, "pi_dual", **PI_DUAL), our_epochs(our_trainer(*case)), 4 * rounds)


CASES = {"small_cnn": small_cnn, "mlp": mlp, "resnet50": resnet50}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "overhead.json")
    arguments = parser.parse_args()
    keep_freed_memory()
    results = {}
    for name in arguments.only.split(","):
        results[name] = {"what": CASES[name].__doc__, **CASES[name](arguments.rounds)}
        print(
            name, {key: round(value, 4) for key, value in results[name].items() if isinstance(value, float)}, flush=True
        )
    write_result(arguments.out, results)
