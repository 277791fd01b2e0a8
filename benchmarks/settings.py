"""What the default setting rests on: each of its choices undone, one at a time, on data it was chosen on.

    [PIDUAL_DATA=DIR] python benchmarks/settings.py [--seeds 3] [--out benchmarks/results/settings.json]
    PIDUAL_DATA=DIR python benchmarks/settings.py --images [--seeds 3] [--out benchmarks/results/settings_images.json]
    PIDUAL_DATA=DIR python benchmarks/settings.py --random-pi [--seeds 3] [--out benchmarks/results/random_pi.json]

The data is kept apart from what the setting is judged on elsewhere: Digits-PI with other labels than the demo's, three
synthetic crowds of other shapes and seeds than the stress benchmark's, and, where DIR has it, LabelMe scored on its
validation part. With --images: a synthetic crowd's answers for CIFAR-10 training images. `pi_dual` and `ce` with the
default setting, then its variants. With --random-pi: `pi_dual` with random PI of several lengths, also on the learned
patches of CIFAR-10-PI where DIR has it (`pidual data relabel cifar10_pi`, made of the first 10,000 images); accuracy on
clean test inputs after the last epoch. Fits that are there already are not repeated.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import RESULTS, Log, crowd, data_folder, fit_and_score, load, write_result

from pidual.data.datasets.cifar import CLASSES_10, load_cifar10
from pidual.fit.options import FitOptions

VARIANTS = {
    "default": {},
    "ce": {"method": "ce"},
    "weight decay 1e-3": {"options": {"weight_decay": 1e-3}},
    "weight decay 1e-2": {"options": {"weight_decay": 1e-2}},
    "batch 64": {"options": {"batch_size": 64}},
    "no dropout": {"options": {"network.dropout": 0.0}},
    "rate 0.03": {"options": {"lr": 0.03}},
    "no clipping": {"options": {"clip": None}},
    "gate from 1/2": {"options": {"gate_bias": 0.0}},
    "random PI 4": {"options": {"random_pi": 4}},
    "PI width 1024": {"options": {"width": 1024}},
}
ONE_CONVOLUTION = {"options": {"network.convs": 1}}
IMAGE_VARIANTS = {
    "default": {},
    "ce": {"method": "ce"},
    "one convolution a block": ONE_CONVOLUTION,
    "ce, one convolution a block": {"method": "ce", **ONE_CONVOLUTION},
}
RANDOM_PI_VARIANTS = {f"random PI {length}": {"options": {"random_pi": length}} for length in (0, 8, 64, 256)}


def load_sets():
    """The tuning sets by name."""
    small = {"n_items": 200, "n_annotators": 15, "noise": 0.3, "spammer_share": 0.2, "seed": 21}
    middle = {"noise": 0.4, "spammer_share": 0.2, "n_features": 40, "class_separation": 2.5, "seed": 22}
    heavy = {"n_annotators": 40, "n_classes": 5, "noise": 0.6, "spammer_share": 0.3, "seed": 23}
    sets = {f"digits_pi {noise}": load(f"digits_pi:{noise}", seed=5) for noise in ("low", "high")}
    sets |= {"crowd 600 rows": crowd(**small), "crowd 40%": crowd(**middle), "crowd 60%": crowd(**heavy)}
    if (data_folder() / "labelme").exists():
        sets["labelme valid"] = load("labelme:valid")
    return sets


def load_cifar10_pi_sets():
    """CIFAR-10-PI as vectors, at both noise levels; empty where its answers were not made."""
    there = (data_folder() / "cifar-10-pi").exists()
    return {
        f"CIFAR-10-PI {noise}": load(f"cifar10_pi:{noise}", features="patches") for noise in ("low", "high") if there
    }


def image_crowd(n_test=3000):
    """1,000 CIFAR-10 training images, six answers each, a quarter of them wrong; scored on other training images."""
    shape = {"n_items": 1000, "n_annotators": 100, "answers_per_item": 6, "n_classes": 10}
    made = crowd(**shape, noise=0.25, spammer_share=0.15, seed=24)
    images = load_cifar10(data_folder(), "train", partial=True)  # the first file of five has enough
    y = made.frame.drop_duplicates("item")["y"].to_numpy()
    rows = np.empty(len(y), int)
    for k in range(len(CLASSES_10)):  # an image of its class for each item
        rows[y == k] = np.flatnonzero(images.y == k)[: (y == k).sum()]
    others = np.setdiff1d(np.arange(len(images.y)), rows)[:n_test]
    return dataclasses.replace(made, x=images.x[rows], x_test=images.x[others], y_test=images.y[others])


def summarise(rows):
    """Mean accuracy and AUC over seeds, a line for each variant."""
    flat = [{**row, "accuracy": row["last"]["accuracy"], "auc": row["last"]["auc"]} for row in rows]
    table = pd.DataFrame(flat).groupby(["variant", "dataset"])[["accuracy", "auc"]].mean().round(4)
    return json.loads(table.reset_index().to_json(orient="records"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--images", action="store_true")
    kinds.add_argument("--random-pi", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    name, variants = "settings", VARIANTS
    if arguments.images:
        name, variants = "settings_images", IMAGE_VARIANTS
    elif arguments.random_pi:
        name, variants = "random_pi", {"ce": {"method": "ce"}, **RANDOM_PI_VARIANTS}
    out = arguments.out or RESULTS / f"{name}.json"
    sets = {"image crowd": image_crowd()} if arguments.images else load_sets()
    sets |= load_cifar10_pi_sets() if arguments.random_pi else {}
    torch.set_num_threads(1)
    log = Log(out, "variant", "dataset", "seed")
    for dataset, data in sets.items():
        for seed in range(arguments.seeds):
            for variant, options in variants.items():
                keys = {"variant": variant, "dataset": dataset, "seed": seed}
                if log.find(**keys) is None:
                    log.add(keys | fit_and_score(data, FitOptions(**{"method": "pi_dual", **options}, seed=seed)))
    summary = summarise(log.rows)
    table = pd.DataFrame(summary).pivot_table(index="variant", columns="dataset", values="accuracy")
    print(table.assign(mean=table.mean(axis=1)).reindex(list(variants)).round(3).to_string())
    write_result(out, summary, seeds=arguments.seeds)
