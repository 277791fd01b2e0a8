"""PI columns that say nothing, beside telling ones, as an export of all that is known has them: what do they cost?

    python benchmarks/idle_pi.py [--seeds 40] [--out benchmarks/results/idle_pi.json]

Crowds as in the stress benchmark, other ones. `ce`, and `pi_dual` with the default setting and four kinds of PI: the
annotator and the seconds; these and a time, a batch and a screen that have nothing to do with the labels; the latter
with a code for every batch and screen that two rows share, instead of those that enough rows share only; and annotator
and seconds with six numbers that have nothing to do with the labels. `auto`, what `pidual fit` does when not asked for
a method, with three of them. Accuracy on clean test items after the last epoch, and whether the fit warned that labels
were memorised. Fits that are there already are not repeated.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, Log, write_result
from stress import fit_crowds

from pidual.fit.judge import assess

FIRST_SEED = 100  # the stress benchmark has those below


def add_idle_pi(frame, seed=31):
    """The frame with a time, a batch of four rows and one of 90 screens for every row, and the kinds of these."""
    rng, n = np.random.default_rng(seed), len(frame)
    columns = {
        "at": 37.0 * np.arange(n) + rng.normal(0, 5, n),
        "batch": [f"b{k}" for k in rng.permutation(n) // 4],
        "screen": [f"s{k}" for k in rng.integers(0, 90, n)],
    }
    return frame.assign(**columns), {"at": "number", "batch": "category", "screen": "category"}


def add_idle_numbers(frame, seed=32):
    """The frame with six normal numbers for every row, and the kinds of these."""
    rng = np.random.default_rng(seed)
    names = [f"number_{k}" for k in range(6)]
    return frame.assign(**{name: rng.normal(size=len(frame)) for name in names}), dict.fromkeys(names, "number")


FITS = {
    "ce": {"method": "ce"},
    "pi_dual": {"method": "pi_dual"},
    "pi_dual, idle PI": {"method": "pi_dual", "add_pi": add_idle_pi},
    "pi_dual, idle PI, a code for every category": {"method": "pi_dual", "add_pi": add_idle_pi, "pi_min_count": 2},
    "pi_dual, idle numbers": {"method": "pi_dual", "add_pi": add_idle_numbers},
    "auto": {"method": "auto"},
    "auto, idle PI": {"method": "auto", "add_pi": add_idle_pi},
    "auto, idle numbers": {"method": "auto", "add_pi": add_idle_numbers},
}


def told(job, fitted, fabric):
    """Whether a fit says that labels were memorised."""
    warnings = assess(job, fitted, fabric).summary.warnings
    return {"told": any(text.startswith("Labels were memorised") for text in warnings)}


def summarise(rows):
    """Mean accuracy, and what idle PI changes: the mean, its standard error, the worst crowd."""
    accuracy = {name: np.array([row[name]["test_accuracy"] for row in rows]) for name in FITS}
    change = {name: values - accuracy[name.partition(",")[0]] for name, values in accuracy.items() if "idle" in name}
    of_told = {name: np.array([row[name]["told"] for row in rows]) for name in FITS}
    pooled, pooled_told = np.concatenate([*change.values()]), np.concatenate([of_told[name] for name in change])
    return {
        "seeds": len(rows),
        "mean_accuracy": {name: float(values.mean()) for name, values in accuracy.items()},
        "collapses": {name: sum(row[name]["collapsed"] for row in rows) for name in FITS},
        "change_by_idle_pi": {
            name: {
                "mean": float(values.mean()),
                "standard_error": float(values.std(ddof=1) / len(values) ** 0.5),
                "worst": float(values.min()),
                "crowds_five_points_lower": int((values < -0.05).sum()),
                "crowds_ten_points_lower": int((values < -0.1).sum()),
                "of_them_told": int((of_told[name] & (values < -0.1)).sum()),
            }
            for name, values in change.items()
        },
        "told": {name: int(values.sum()) for name, values in of_told.items()},
        "mean_change_where_told": float(pooled[pooled_told].mean()) if pooled_told.any() else None,
        "mean_change_elsewhere": float(pooled[~pooled_told].mean()),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULTS / "idle_pi.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = Log(arguments.out, "seed")
    rows = fit_crowds(log, range(FIRST_SEED, FIRST_SEED + arguments.seeds), FITS, look=told)
    write_result(arguments.out, summarise(rows), seeds=arguments.seeds)
    print(json.dumps(summarise(rows), indent=2))
