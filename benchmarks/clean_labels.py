"""What there is to gain: cross-entropy as in a CPU-scale recipe, with every wrong label put right.

    PIDUAL_DATA=DIR python benchmarks/clean_labels.py [--only cifar10s,labelme] [--seeds 3]

Adds fits to results/benchmark, beside those of `pidual benchmark`; those that are there are not repeated.
"""

import argparse
import dataclasses
from pathlib import Path

import torch
from common import RESULTS, data_folder

from pidual.benchmark import load_recipe, run_fits
from pidual.benchmark.runs import Fit, load_data

VARIANT = "clean labels"

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="cifar10s,labelme", help="datasets, with commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "benchmark")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.only.split(","):
        recipe = load_recipe(name, "cpu")
        data = load_data(recipe, data_folder())
        clean = dataclasses.replace(data, frame=data.frame.assign(label=data.frame["y"]))
        fits = [Fit(recipe, "ce", seed, VARIANT) for seed in range(arguments.seeds)]
        for result in run_fits(fits, clean, arguments.out):
            print(name, result["seed"], result["selected"]["accuracy"], result["last"]["accuracy"], flush=True)
