"""What the default setting rests on: each of its choices undone, one at a time, on several kinds of data.

    [PIDUAL_DATA=DIR] python benchmarks/settings.py [--seeds 2] [--out benchmarks/results/settings.json]

Digits-PI at two noise levels, two synthetic crowds, and LabelMe where DIR has it. `pi_dual` with the default setting
and its variants, and `ce` with the default setting; accuracy on clean test inputs. Fits that are there already are
not repeated.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import write_result

from pidual.batch import Rows
from pidual.datasets.digits import load_digits_pi
from pidual.datasets.synthetic import make_crowd
from pidual.engine import make_fabric
from pidual.engine.predict import predict_probabilities
from pidual.inputs import load_inputs
from pidual.run import FitOptions, assess, prepare, train
from pidual.table import AnnotationTable

VARIANTS = {
    "default": {},
    "ce": {"method": "ce"},
    "best epoch": {"training": {"select": "best"}},
    "weight decay 1e-3": {"training": {"weight_decay": 1e-3}},
    "no dropout": {"network_options": {"dropout": 0.0}},
    "rate 0.03": {"training": {"lr": 0.03}},
    "no clipping": {"training": {"clip": None}},
    "gate from 1/2": {"method_options": {"gate_bias": 0.0}},
    "random PI 4": {"method_options": {"random_pi": 4}},
    "PI width 1024": {"method_options": {"width": 1024}},
}


def labelme(data):
    """LabelMe: answers, features and clean test set."""
    folder = data / "labelme"
    answers = np.loadtxt(folder / "answers.txt", dtype=int)
    item, worker = np.nonzero(answers >= 0)
    x = {part: np.load(folder / f"LabelMe_VGG_avg_{part}.npy").astype(np.float32) for part in ("train", "test")}
    y = {part: np.loadtxt(folder / f"LabelMe_Z_{part}.txt", dtype=int) for part in ("train", "test")}
    frame = pd.DataFrame({"item": item, "annotator": worker, "label": answers[item, worker], "y": y["train"][item]})
    return (
        frame,
        ["annotator"],
        x["train"].reshape(len(x["train"]), -1),
        x["test"].reshape(len(x["test"]), -1),
        y["test"],
    )


def load_sets():
    """Name -> annotations, PI columns, inputs, clean test inputs and labels."""
    sets = {}
    for noise in ("low", "high"):
        digits = load_digits_pi(noise)
        sets[f"digits_pi {noise}"] = (digits.frame, digits.pi, digits.x, digits.x_test, digits.y_test)
    shapes = {
        "crowd, 600 rows": {"n_items": 200, "n_annotators": 15, "noise": 0.3, "spammer_share": 0.2, "seed": 1},
        "crowd, 1800 rows": {"n_annotators": 40, "n_classes": 5, "noise": 0.65, "spammer_share": 0.4, "seed": 3},
    }
    for name, shape in shapes.items():
        crowd = make_crowd(**shape)
        sets[name] = (crowd.frame, ["annotator", "seconds"], crowd.x, crowd.x_test, crowd.y_test)
    data = Path(os.environ.get("PIDUAL_DATA", "data"))
    if (data / "labelme").exists():
        sets["labelme"] = labelme(data)
    return sets


def run_fit(data, seed, options):
    """Clean test accuracy and detection AUC of one fit."""
    frame, pi, x, x_test, y_test = data
    table = AnnotationTable.from_frame(frame, pi=pi, keep_ids=True)
    job = prepare(table, load_inputs(x.astype(np.float32)), FitOptions(seed=seed, **options))
    fabric = make_fabric("cpu")
    fitted = train(job, fabric=fabric)
    rows = Rows.build(x_test.astype(np.float32), np.arange(len(x_test)), np.zeros(len(x_test), int))
    answers = np.concatenate([p.argmax(1) for p in predict_probabilities(fitted.method, rows, fabric)])
    auc = assess(job, fitted, fabric).summary["evaluation"]["detection_auc"]
    return {"test_accuracy": float((answers == y_test).mean()), "detection_auc": auc}


def summarise(rows):
    """Mean accuracy and AUC over seeds, a line for each variant."""
    frame = pd.DataFrame(rows)
    table = frame.groupby(["variant", "dataset"])[["test_accuracy", "detection_auc"]].mean().round(4)
    return json.loads(table.reset_index().to_json(orient="records"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "settings.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = arguments.out.with_suffix(".jsonl")
    log.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {(row["variant"], row["dataset"], row["seed"]) for row in rows}
    sets = load_sets()
    for seed in range(arguments.seeds):
        for variant, options in VARIANTS.items():
            for dataset, data in sets.items():
                if (variant, dataset, seed) not in done:
                    rows.append({"variant": variant, "dataset": dataset, "seed": seed, **run_fit(data, seed, options)})
                    with log.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
        frame = pd.DataFrame(summarise(rows)).pivot_table(index="variant", columns="dataset", values="test_accuracy")
        print(frame.reindex(list(VARIANTS)).to_string(), flush=True)
    write_result(arguments.out, {"summary": summarise(rows), "fits": rows}, seeds=arguments.seeds)
