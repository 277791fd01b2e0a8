"""How far the numbers of a run are right before and after some decisions, on all sets of benchmarks/detection.py.

    PIDUAL_DATA=DIR python benchmarks/calibration.py [--only cheap,...] [--cache FOLDER] [--out FILE]

A reviewer who knows the clean labels decides on n labels: the n worst (`worst`), or n spread evenly over the list of
those that look wrong and half as many beyond (`spread`). Noise rate and expected precision, as the run states them and
as `Run.calibration` has them, and whether the 90% interval holds the truth. Sets of which only some labels are
known to be right or wrong are left out. `--cache` has the fits of detection.py. FILE is that
of simulate_review.py, whose rows stay.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, replace_parts
from detection import Cache, load, ours
from detection_sets import GROUPS
from pidual.detect.calibration import calibrate, spread_sample

from pidual.run.records.summary import Rate

SIZES = (25, 50, 100)
ORDERS = ("worst", "spread")


def qualities(name, cache):
    """Qualities, issues and wrong labels of a set, and what the run says of its noise; None where some are unknown."""
    data = load(name, 0)
    if data.frame["y"].isna().any():
        return None
    found = ours(name, "auto", data, 0, cache)
    noise = Rate(float(found.noise), float(found.low), float(found.high))
    return {
        "quality": np.asarray(found.quality, np.float64),
        "issue": found.issue,
        "wrong": (data.frame["label"] != data.frame["y"]).to_numpy(bool),
        "noise": noise,
    }


def review(about, order, n):
    """What n decisions say of noise rate and precision."""
    quality, issue, wrong = about["quality"], about["issue"], about["wrong"]
    rows = np.argsort(quality, kind="stable")[:n] if order == "worst" else spread_sample(quality, issue, n)
    decided = np.zeros(len(quality), bool)
    decided[rows] = True
    _, found = calibrate(quality, issue, decided, wrong, about["noise"])
    truths = {"noise": wrong.mean(), "precision": wrong[issue].mean()}
    return [
        value
        for name, truth in truths.items()
        for value in (
            round(float(found[name].rate - truth), 3),
            int(found[name].low <= truth <= found[name].high),
        )
    ]


def measure(name, about):
    """A row of the result: how far numbers are off, and whether intervals hold the truth, of noise and precision."""
    quality, issue, wrong, noise = (about[key] for key in ("quality", "issue", "wrong", "noise"))
    stated = [
        round(noise.rate - float(wrong.mean()), 3),
        int(noise.low <= wrong.mean() <= noise.high),
        round(float((1 - quality[issue]).mean() - wrong[issue].mean()), 3),
    ]
    reviewed = {order: {str(n): review(about, order, n) for n in SIZES} for order in ORDERS}
    return {"part": "calibrate", "data": name, "noise": round(float(wrong.mean()), 3), "stated": stated, **reviewed}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=["cheap"])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "simulate_review.jsonl")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cache, results = Cache(arguments.cache), []
    for each in [name for group in arguments.only for name in GROUPS.get(group, [group])]:
        about = qualities(each, cache)
        if about is not None:
            results.append(measure(each, about))
            print(results[-1], flush=True)
    replace_parts(arguments.out, results)
