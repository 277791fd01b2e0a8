"""Whether Pi-DUAL gains by PI where an item has several answers: CIFAR-10S with one, two or all answers an image.

    PIDUAL_DATA=DIR python benchmarks/answers_per_item.py [--answers 1,2] [--seeds 3]

Of every image the first so many answers are kept; the PI is as telling as before. Cross-entropy, Pi-DUAL and
cross-entropy with every wrong label put right take as many steps as in the CPU-scale recipe, which has all answers.
Adds fits to results/benchmark, beside those of `pidual benchmark`; those that are there are not repeated.
"""

import argparse
import dataclasses
from pathlib import Path

import torch
from common import RESULTS, data_folder

from pidual.benchmark import load_recipe, run_fits
from pidual.benchmark.runs import Fit, load_data

DATASET, WORDS = "cifar10s", "an image"
CLEAN = ", clean labels"

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", default="1,2", help="numbers of answers, with commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "benchmark")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recipe = load_recipe(DATASET, "cpu")
    whole = load_data(recipe, data_folder())
    for answers in map(int, arguments.answers.split(",")):
        frame = whole.frame.groupby("item", sort=False).head(answers).reset_index(drop=True)
        epochs = round(recipe.settings["epochs"] * len(whole.frame) / len(frame))
        noisy = dataclasses.replace(whole, frame=frame)
        clean = dataclasses.replace(whole, frame=frame.assign(label=frame["y"]))
        name, change = f"{answers} {WORDS}", {"epochs": epochs}
        for seed in range(arguments.seeds):
            fits = [Fit(recipe, method, seed, name, change) for method in ("ce", "pi_dual")]
            results = run_fits(fits, noisy, arguments.out)
            results += run_fits([Fit(recipe, "ce", seed, name + CLEAN, change)], clean, arguments.out)
            for result in results:
                last = result["last"]
                print(result["method"], result["variant"], seed, last["accuracy"], last["auc"], flush=True)
