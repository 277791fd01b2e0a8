"""All methods on four datasets, and the ablations of Pi-DUAL, with the paper's selection protocol at CPU scale.

    PIDUAL_DATA=DIR python benchmarks/methods.py [--seeds 5] [--only DATASET,...] [--methods NAME,...]

For every method and dataset the same number of settings is drawn from the paper's grid of that method (rate, weight
decay and its own options); each is fitted once, and the one with the best accuracy on noisy validation rows, held out
by item, is kept. It is then fitted with five other seeds. Reported: clean test accuracy and detection AUC at the epoch
that noisy validation selects and at the last one, and training time relative to cross-entropy: processor time of whole
trainings with the chosen setting, all stages, all methods in turn. Cross-entropy on clean labels, at its chosen
setting, shows what there is to gain. The ablations take Pi-DUAL's chosen setting on Digits-PI and change one thing.
Fits that are there already are not repeated; datasets that DIR does not have are left out. The fits are lines of
results/methods.jsonl, of which benchmarks/tables.py makes the tables.
"""

import argparse
import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import RESULTS, Log, fit_and_score, load, training_seconds, write_result

from pidual.errors import DataError
from pidual.fit.options import FitOptions
from pidual.learn.methods import METHODS
from pidual.paper.ablations import ABLATIONS as ABLATION_NAMES

BUDGET = 6  # settings tried per method and dataset
SEARCH_SEED = 100
ROUNDS = 1  # of timing

MLP = "mlp", {"network.width": 128, "network.depth": 2}
CNN = "small_cnn", {"network.width": 16}
IMAGES = {"epochs": 6, "batch_size": 64, "crop_pad": 4, "flip": True}
DATASETS = {  # name in the package, network, training
    "digits_pi_low": ("digits_pi:low", MLP, {"epochs": 60, "batch_size": 64}),
    "digits_pi_high": ("digits_pi:high", MLP, {"epochs": 60, "batch_size": 64}),
    "labelme": ("labelme", MLP, {"epochs": 30, "batch_size": 64}),
    "cifar10s": ("cifar10s", CNN, IMAGES),
}
N_TEST = 2000  # at most
SHARED_GRID = {"lr": [0.01, 0.1], "weight_decay": [1e-4, 1e-3]}  # METHODS 1.1
WIDTHS = [128, 512]  # CPU scale; the paper has 1024 and more
GRIDS = {  # the paper's where it has one, else values from the authors' experiments
    "ce": {},
    "forward_t": {"outlier_filter": [True, False]},
    "co_teaching": {"noise_rate": [0.2, 0.4, 0.6]},
    "divide_mix": {"lam": [0.0, 25.0, 50.0]},
    "elr_plus": {"beta": [0.7, 0.9], "lam": [3.0, 7.0]},
    "sop_plus": {"lr_u": [1.0, 10.0, 100.0], "lr_v": [1.0, 10.0, 100.0, 1000.0]},
    "cores_star": {},
    "pes": {},
    "pes_semi": {"lam": [5.0, 75.0]},
    "distill_pi": {"width": WIDTHS, "lam": [0.25, 0.5, 0.75]},
    "elr": {"beta": [0.5, 0.7, 0.9], "lam": [1.0, 3.0, 7.0]},
    "sop": {"lr_u": [1.0, 10.0, 100.0], "lr_v": [1.0, 10.0, 100.0, 1000.0]},
    "cores": {},
    "het": {"tau": [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0], "rank": [3], "draws": [100]},
    "het_xl": {"draws": [100]},
    "tram": {"width": WIDTHS},
    "tram_plus_plus": {"width": WIDTHS, "random_pi": [8, 14, 28], "head_weight": [0.1, 0.5]},
    "afm": {"width": WIDTHS, "draws": [200]},
    "pi_dual": {"width": WIDTHS, "random_pi": [4, 8, 12, 16]},
    "pi_dual_plus": {"width": WIDTHS, "random_pi": [4, 8], "smoothing": [0.0, 0.4], "lam": [0.5, 1.0]},
}
ABLATIONS = {
    "Pi-DUAL": {},
    "no gate": {"use_gate": False},
    "no noise network": {"use_noise": False},
    "gate on probabilities": {"gate_on": "probabilities"},
    "only random PI": {"only_random_pi": True},
    "noise network on (x, a)": {"noise_input": "x_and_pi"},
    "TRAM's loss": {"tram_loss": 1.0},
    "width 64": {"width": 64},
    "width 128": {"width": 128},
    "width 256": {"width": 256},
    "width 512": {"width": 512},
    "depth 2": {"depth": 2},
    "depth 4": {"depth": 4},
    "corrupted PI 25%": {"corrupt_pi": 0.25},
    "corrupted PI 50%": {"corrupt_pi": 0.5},
    "corrupted PI 75%": {"corrupt_pi": 0.75},
    "corrupted PI 100%": {"corrupt_pi": 1.0},
    "without annotator": {"leave_out": "annotator"},
    "without confidence": {"leave_out": "confidence"},
    "without annotator accuracy": {"leave_out": "annotator_accuracy"},
    "without annotator size": {"leave_out": "annotator_size"},
    "without random PI": {"random_pi": 0},
    "random PI 16": {"random_pi": 16},
}


def settings_to_try(method):
    """`BUDGET` points of the method's grid, or all of them where there are fewer; the same for every dataset."""
    grid = SHARED_GRID | GRIDS[method]
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    order = np.random.default_rng(SEARCH_SEED).permutation(len(points))[:BUDGET]
    return [points[i] for i in order]


def options_of(method, dataset, point, seed, **changes):
    """Options of a fit at a point of the grid: the paper's schedule on this dataset's network and epochs."""
    _, (network, sizes), training = DATASETS[dataset]
    epochs = training["epochs"]
    schedule = {"schedule": "steps", "milestones": [round(0.4 * epochs), round(0.8 * epochs)], "lr_decay": 0.2}
    shared = {name: point[name] for name in SHARED_GRID}
    own = {name: value for name, value in point.items() if name not in SHARED_GRID} | changes
    return FitOptions(
        method=method,
        setting="paper",
        network=network,
        options=own | training | schedule | shared | {"select": "best", "guard": "watch"} | sizes,
        seed=seed,
        valid_fraction=0.1,
        pi_min_count=2,
    )


def search(log, method, dataset, data):
    """The point of the grid with the best accuracy on noisy validation rows (the first of equals)."""
    tried = []
    for number, point in enumerate(settings_to_try(method)):
        keys = {"dataset": dataset, "method": method, "variant": f"search {number}", "seed": SEARCH_SEED}
        row = log.find(**keys)
        if row is None:
            result = fit_and_score(data, options_of(method, dataset, point, SEARCH_SEED))
            chosen_by = {name: result[name] for name in ("valid_accuracy", "recoveries", "seconds")}
            row = log.add(keys | {"point": point} | chosen_by)  # what clean labels say of it chooses nothing
        tried.append(row)
    return max(tried, key=lambda row: row["valid_accuracy"])["point"]


def fit_clean(log, dataset, data, point, seeds):
    """Cross-entropy as if every wrong label had been put right."""
    clean = dataclasses.replace(data, frame=data.frame.assign(label=data.frame["y"]))
    for seed in range(seeds):
        keys = {"dataset": dataset, "method": "ce", "variant": "clean labels", "seed": seed}
        if log.find(**keys) is None:
            log.add(keys | {"point": point} | fit_and_score(clean, options_of("ce", dataset, point, seed)))


def time_methods(log, dataset, data, points):
    """Rows of training time, every method once in each round."""
    for turn, (method, point) in itertools.product(range(ROUNDS), points.items()):
        keys = {"dataset": dataset, "method": method, "variant": "time", "seed": turn}
        if log.find(**keys) is None:
            seconds = training_seconds(data, options_of(method, dataset, point, turn))
            log.add(keys | {"seconds": round(seconds, 3)})


def summarise(rows, by, timed=()):
    """Mean and standard deviation over seeds at both epochs, and time relative to cross-entropy."""
    if not rows:
        return pd.DataFrame()
    flat = pd.DataFrame(
        [
            {"dataset": row["dataset"], by: row[by]}
            | {f"{epoch}_{name}": row[epoch][name] for epoch in ("selected", "last") for name in ("accuracy", "auc")}
            for row in rows
        ]
    )
    groups = flat.groupby(["dataset", by], sort=False)
    table = groups.mean().round(4)
    table = table.join(groups.std().fillna(0).round(4).add_suffix("_std")).assign(seeds=groups.size())
    if timed:
        seconds = pd.DataFrame(timed).pivot_table(index=["dataset", "seed"], columns="method", values="seconds")
        ratio = seconds.div(seconds["ce"], axis=0).groupby("dataset").median()
        table["time_relative_to_ce"] = [round(float(ratio.loc[dataset, method]), 2) for dataset, method in table.index]
    return table.reset_index()


def summaries(rows):
    """Name -> table, and the column that names its rows: of the methods, of clean labels, of the ablations."""

    def of(*variants):
        return [row for row in rows if row["variant"] in variants]

    made = {
        "methods": (summarise(of("final"), "method", of("time")), "method"),
        "clean labels": (summarise(of("clean labels"), "variant"), "variant"),
        "ablations": (summarise(of(*ABLATIONS), "variant"), "variant"),
    }
    return {name: (table, by) for name, (table, by) in made.items() if len(table)}


def show(title, table, by):
    """Print one table with a column for every dataset."""
    print(f"\n{title}")
    for value in ("selected_accuracy", "last_accuracy", "selected_auc", "last_auc"):
        print(f"\n{value}")
        print(table.pivot_table(index=by, columns="dataset", values=value, sort=False).round(3).to_string())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default=",".join(DATASETS), help="datasets, with commas")
    parser.add_argument("--methods", default=",".join(METHODS), help="methods, with commas")
    parser.add_argument("--out", type=Path, default=RESULTS / "methods.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(arguments.out, "dataset", "method", "variant", "seed")
    for dataset in arguments.only.split(","):
        try:
            data = load(DATASETS[dataset][0], N_TEST)
        except DataError as error:
            print(f"{dataset} is left out: {error}")
            continue
        points = {}
        for method in arguments.methods.split(","):
            point = points[method] = search(log, method, dataset, data)
            for seed in range(arguments.seeds):
                keys = {"dataset": dataset, "method": method, "variant": "final", "seed": seed}
                if log.find(**keys) is None:
                    log.add(keys | {"point": point} | fit_and_score(data, options_of(method, dataset, point, seed)))
        if "ce" in points:
            fit_clean(log, dataset, data, points["ce"], arguments.seeds)
        time_methods(log, dataset, data, points)
        if not (dataset.startswith("digits_pi") and "pi_dual" in arguments.methods.split(",")):
            continue
        point = search(log, "pi_dual", dataset, data)
        for (variant, change), seed in itertools.product(ABLATIONS.items(), range(arguments.seeds)):
            keys = {"dataset": dataset, "method": "pi_dual", "variant": variant, "seed": seed}
            if log.find(**keys) is None:
                ablation = {name: value for name, value in change.items() if name in ABLATION_NAMES}
                own = {name: value for name, value in change.items() if name not in ablation}
                options = options_of("pi_dual", dataset, point, seed, **own)
                log.add(keys | {"point": point} | fit_and_score(data, options, ablation))
    for title, (table, by) in summaries(log.rows).items():
        show(title, table, by)
    hours = sum(row["seconds"] for row in log.rows) / 3600
    about = {"seeds": arguments.seeds, "budget": BUDGET, "scale": "cpu"}
    write_result(arguments.out, {"fits": len(log.rows), "hours": round(hours, 1)}, **about)
