"""Symmetric noise and no PI: does every method end above cross-entropy's last epoch?

    python benchmarks/symmetric_noise.py [--seeds 3] [--methods NAME,...] [--out FILE]

scikit-learn's digits, 40% of the training labels replaced by another class drawn uniformly, one label an item; an MLP
without dropout, 60 epochs at rate 0.05 on a cosine, weight decay 1e-4, batch 64. Nothing is tuned: each method has its
own defaults; co_teaching is told the noise rate, SOP has large rates of the paper's grid since 60 visits of a row are
few, PI networks are 256 wide and see random PI of length 8 or nothing. Reported: clean test accuracy and detection AUC
after the last epoch. Where a method does not end above cross-entropy, a variant of it, or of cross-entropy, tells why.
Fits that are there already are not repeated.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import RESULTS, Log, fit_and_score, write_result
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from pidual.data.datasets.base import NoisyDataset
from pidual.fit.options import FitOptions
from pidual.learn.methods import METHODS

NOISE = 0.4
TRAINING = {"epochs": 60, "batch_size": 64, "lr": 0.05, "schedule": "cosine", "weight_decay": 1e-4}
NETWORK = {"width": 128, "depth": 2}
FASTER_SOP = {"lr_u": 10.0, "lr_v": 100.0}
OPTIONS = {
    "co_teaching": {"noise_rate": NOISE},
    "sop": FASTER_SOP,
    "sop_plus": FASTER_SOP,
    "het": {"draws": 100},
    "het_xl": {"draws": 100},
    "afm": {"draws": 100},
}
REASONS = {  # name: method, its options, options of the network
    "cores, sieve from 5% of the run": ("cores", {"sieve_from": 0.05, "ramp": [0.0, 0.1]}, {}),
    "het_xl, temperature 1": ("het_xl", {"draws": 100, "tau_min": 0.999, "tau_max": 1.001}, {}),
    "het_xl, temperature 3": ("het_xl", {"draws": 100, "tau_min": 2.999, "tau_max": 3.001}, {}),
    "ce, one layer more": ("ce", {}, {"depth": 3}),
}


def noisy_digits(seed):
    """Digits with symmetric noise on the training part."""
    x, y = load_digits(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x.astype(np.float32), y, test_size=0.3, random_state=0, stratify=y)
    rng = np.random.default_rng(seed)
    wrong = rng.random(len(y)) < NOISE
    label = np.where(wrong, (y + rng.integers(1, 10, len(y))) % 10, y)
    frame = pd.DataFrame({"item": np.arange(len(y)), "label": label, "y": y})
    return NoisyDataset("noisy digits", frame, {}, x, x_test, y_test, [])


def summarise(rows):
    """Mean over seeds, best first, with the gain over cross-entropy."""
    flat = pd.DataFrame([{"method": row["method"], **row["last"]} for row in rows]).drop(columns="score_auc")
    table = flat.groupby("method").mean().round(4)
    table["gain_over_ce"] = (table["accuracy"] - table.loc["ce", "accuracy"]).round(4)
    return table.sort_values("accuracy", ascending=False).reset_index()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS), help="with commas")
    parser.add_argument("--out", type=Path, default=RESULTS / "symmetric_noise.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(arguments.out, "method", "seed")
    for seed in range(arguments.seeds):
        data = noisy_digits(seed)
        fits = {method: (method, OPTIONS.get(method, {}), {}) for method in arguments.methods.split(",")} | REASONS
        for name, (method, own, network) in fits.items():
            if log.find(method=name, seed=seed) is None:
                options = FitOptions(
                    method=method,
                    setting="paper",
                    options=({"width": 256} if METHODS[method].needs_pi else {})
                    | own
                    | TRAINING
                    | {"select": "last", "guard": "watch"}
                    | {f"network.{key}": value for key, value in (NETWORK | network).items()},
                    seed=seed,
                    network="mlp",
                )
                log.add({"method": name, "seed": seed} | fit_and_score(data, options))
    table = summarise(log.rows)
    print(table.to_string())
    write_result(arguments.out, json.loads(table.to_json(orient="records")), seeds=arguments.seeds, noise=NOISE)
