"""A training step of a population: its networks one after the other, by torch.func's vmap, and as batched products.

    python benchmarks/populations.py [--rounds 15] [--out benchmarks/results/populations.json]

Twenty MLPs 512-128-8 with dropout on inputs and hidden units, and five small CNNs on images of 32 x 32, at batch 64: a
forward and a backward pass of the cross-entropy, without the optimizer. The ways take turns in one process, since other
people's jobs come and go; a result is the median over rounds of the processor time of a step, and of its ratio to one
after the other. One thread.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from common import RESULTS, write_result
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from pidual.nets import MLP, SmallCNN
from pidual.nets.populations import MLPs

BATCH = 64
CASES = ("20 MLPs 512-128-8", "5 small CNNs")


class PlainCNN(SmallCNN):
    """The small CNN with channels first, as vmap's grouped convolutions want them."""

    def features(self, x):
        return self.blocks(x).mean((2, 3))


class InputDropout(torch.nn.Module):
    """An MLP that drops half of its inputs while training, as the members of a stack do."""

    def __init__(self):
        super().__init__()
        self.mlp = MLP(512, 8, width=128, depth=1, dropout=0.5)

    def forward(self, x):
        return self.mlp(F.dropout(x, 0.5, self.training))


def make_cnn(kind=SmallCNN):
    """A small CNN for ten classes; batch normalisation counts in the batch alone, as vmap cannot change buffers."""
    network = kind(10, 3)
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
            layer.num_batches_tracked = None
    return network


def one_after_the_other(networks, x, y):
    """A step of every network by itself."""

    def step():
        for network in networks:
            network.zero_grad()
            F.cross_entropy(network(x), y).backward()

    return step


def by_vmap(networks, x, y):
    """A step of all networks by vmap over their stacked parameters, each with its own dropout."""
    parameters, buffers = stack_module_state(networks)
    skeleton = networks[0]

    def logits(own, own_buffers):
        return functional_call(skeleton, (own, own_buffers), (x,))

    every = vmap(logits, randomness="different")

    def step():
        for parameter in parameters.values():
            parameter.grad = None
        out = every(parameters, buffers)
        F.cross_entropy(out.flatten(0, 1), y.repeat(len(out))).mul(len(out)).backward()

    return step


def by_products(n, x, y):
    """A step of all MLPs as pidual stacks them: batched products, one draw of dropout masks for all."""
    stack = MLPs(MLP(512, 8, width=128, depth=1, dropout=0.5), n, [0.5] * n)

    def step():
        stack.zero_grad()
        out = stack(x)
        F.cross_entropy(out.flatten(0, 1), y.repeat(len(out))).mul(len(out)).backward()

    return step


def ways(case):
    """The ways to take a step, by name."""
    torch.manual_seed(0)
    if case == CASES[0]:
        x, y = torch.randn(BATCH, 512), torch.randint(8, (BATCH,))
        networks = [InputDropout() for _ in range(20)]
        return {
            "one after the other": one_after_the_other(networks, x, y),
            "vmap": by_vmap([InputDropout() for _ in range(20)], x, y),
            "batched products": by_products(20, x, y),
        }
    x, y = torch.rand(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))
    return {
        "one after the other": one_after_the_other([make_cnn() for _ in range(5)], x, y),
        "vmap": by_vmap([make_cnn() for _ in range(5)], x, y),
        "vmap, channels first": by_vmap([make_cnn(PlainCNN) for _ in range(5)], x, y),
    }


def measure(steps, rounds, seconds=0.3):
    """Processor seconds of a step, way by way, in every round."""
    for step in steps.values():
        step()
    found = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            began, taken = time.process_time(), 0
            while time.process_time() - began < seconds:
                step()
                taken += 1
            found[name].append((time.process_time() - began) / taken)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS / "populations.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for case in CASES:
        found = measure(ways(case), args.rounds)
        base = found["one after the other"]
        for name, seconds in found.items():
            ratios = [one / other for one, other in zip(seconds, base, strict=True)]
            row = {
                "case": case,
                "way": name,
                "milliseconds": round(1000 * statistics.median(seconds), 2),
                "ratio": round(statistics.median(ratios), 3),
                "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
            }
            results.append(row)
            print(f"{case}: {name}: {row['milliseconds']:.1f} ms, {row['ratio']:.2f} times")
    write_result(args.out, results, rounds=args.rounds, batch_size=BATCH)


if __name__ == "__main__":
    main()
