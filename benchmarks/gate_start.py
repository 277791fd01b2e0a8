"""How Pi-DUAL's gate begins, judged by noisy validation rows: CPU-scale recipes with other initial biases of the gate.

    PIDUAL_DATA=DIR python benchmarks/gate_start.py [--only cifar10_pi:high,cifar10_pi:low] [--seeds 3]

Adds fits to results/benchmark, beside those of `pidual benchmark`; those that are there are not repeated.
"""

import argparse
from pathlib import Path

import torch
from common import RESULTS, data_folder

from pidual.benchmark import load_recipe, run_fits
from pidual.benchmark.runs import Fit, load_data

BIASES = (-2.0, 0.0)  # the recipes have -4
VARIANT = "gate bias"

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="cifar10_pi:high,cifar10_pi:low", help="datasets, with commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "benchmark")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.only.split(","):
        recipe = load_recipe(name, "cpu")
        data = load_data(recipe, data_folder())
        fits = [
            Fit(recipe, "pi_dual", seed, f"{VARIANT} {bias:g}", {"gate_bias": bias})
            for seed in range(arguments.seeds)
            for bias in BIASES
        ]
        for result in run_fits(fits, data, arguments.out):
            scores = {
                "valid": result["valid_accuracy"],
                "test": result["last"]["accuracy"],
                "auc": result["last"]["auc"],
            }
            print(name, result["variant"], result["seed"], scores, flush=True)
