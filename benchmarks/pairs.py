"""Scores by comparisons of two items: pidual beside crowd-kit and choix, on data with known scores.

    python benchmarks/pairs.py benchmarks/results/pairs.json       # needs crowd-kit and choix

For each setting and seed: the rank correlation of the scores with the true ones; of pidual also how many 95% intervals
hold the true score; and the AUC of finding answers that prefer the worse item (others: by the difference of scores).
"""

import argparse
import time
from pathlib import Path

import choix
import numpy as np
from common import write_result
from crowdkit.aggregation import BradleyTerry, NoisyBradleyTerry
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from pidual import Inputs, judge_pairs
from pidual.data.datasets.synthetic import make_comparisons

SETTINGS = {
    "usual": {},
    "few answers": {"n_items": 100, "n_answers": 500},
    "many answers": {"n_answers": 8000},
    "four of eight judges at random": {"n_random": 4},
    "strong pull to the left": {"pull": 0.4},
    "ties": {"ties": 0.5},
    "careful people": {"n_random": 0, "pull": 0.0},
}


def of_pidual(made, with_x=False):
    """Scores by name, quality of the answers, and how many intervals hold the true score."""
    x = Inputs.from_array(made.x.astype(np.float32), made.score.index.to_numpy(str)) if with_x else None
    found = judge_pairs(made.frame, x)
    frame = found.scores.set_index("item").loc[made.score.index]
    held = ((frame["score_low"] < made.score) & (made.score < frame["score_high"])).mean()
    return frame["score"], found.predictions["label_quality"], float(held)


def by_difference(made, score):
    """How far the answer agrees with the scores; a tie agrees with neither."""
    d = score[made.frame["left"]].to_numpy() - score[made.frame["right"]].to_numpy()
    return np.select([made.frame["winner"] == "left", made.frame["winner"] == "right"], [d, -d], 0.0)


def of_crowdkit(made, method):
    """Scores of crowd-kit, which has no ties."""
    frame = made.frame[made.frame["winner"] != "tie"]
    won = np.where(frame["winner"] == "left", frame["left"], frame["right"])
    table = frame.assign(worker=frame["judge"], label=won)[["worker", "left", "right", "label"]]
    score = np.log(method.fit_predict(table).clip(lower=1e-9)).reindex(made.score.index).fillna(0.0)
    return score, by_difference(made, score), None


def of_choix(made):
    """Scores of choix: the MAP of Bradley and Terry's model."""
    frame = made.frame[made.frame["winner"] != "tie"]
    number = {name: at for at, name in enumerate(made.score.index)}
    sides = [(number[a], number[b]) for a, b in zip(frame["left"], frame["right"], strict=True)]
    won = [(a, b) if winner == "left" else (b, a) for (a, b), winner in zip(sides, frame["winner"], strict=True)]
    score = made.score * 0 + choix.opt_pairwise(len(number), won, alpha=0.1)
    return score, by_difference(made, score), None


METHODS = {
    "pidual": of_pidual,
    "pidual, with features": lambda made: of_pidual(made, with_x=True),
    "crowd-kit Bradley-Terry": lambda made: of_crowdkit(made, BradleyTerry(n_iter=100)),
    "crowd-kit noisy Bradley-Terry": lambda made: of_crowdkit(made, NoisyBradleyTerry(n_iter=100)),
    "choix": of_choix,
}


def main():
    """Run all, and write means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    rows = []
    for setting, changes in SETTINGS.items():
        for name, method in METHODS.items():
            found, started = [], time.perf_counter()
            for seed in range(arguments.seeds):
                made = make_comparisons(**changes, seed=seed)
                score, quality, held = method(made)
                auc = roc_auc_score(made.against, -np.asarray(quality))
                found.append([spearmanr(score, made.score)[0], auc, np.nan if held is None else held])
            rank, auc, held = np.mean(found, axis=0)
            row = {"setting": setting, "method": name, "rank_correlation": round(rank, 3), "auc": round(auc, 3)}
            row |= {"cover": None if np.isnan(held) else round(held, 3)}
            rows.append(row | {"seconds": round((time.perf_counter() - started) / arguments.seeds, 2)})
            print(rows[-1], flush=True)
    write_result(arguments.out, rows, seeds=arguments.seeds)


if __name__ == "__main__":
    main()
