"""New answers judged by a run on other items, beside a fit on all, and one on the new answers alone.

    python benchmarks/new_answers.py [--seeds 5] [--out FILE]

The items of a synthetic crowd (600 items of 6 classes, 30 annotators, 2 answers to each; `pidual.make_crowd`) are
parted in two. A run on the first half judges the answers to the second (`Run.judge`); the same answers are judged by a
fit on both halves, and by a fit on the second half alone. `auc`: chance that a wrong answer scores below a right one;
`consensus`: share of items whose consensus is right; `noise`: estimated share of wrong answers, beside `wrong`, the
true one.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from common import RESULTS, write_result
from sklearn.metrics import roc_auc_score

from pidual import fit_table, make_crowd, merge
from pidual.data import AnnotationTable, Inputs


def scores(judged, y):
    """How good what is said about the answers is; y by item."""
    truth = y[judged["item"].astype(int)]
    wrong = judged["given_label"].astype(int).to_numpy() != truth
    right = judged["consensus_label"].astype(int).to_numpy() == truth
    first = ~judged["item"].duplicated().to_numpy()
    auc = float(roc_auc_score(wrong, -judged["label_quality"]))
    return {"auc": auc, "consensus": float(right[first].mean()), "wrong": float(wrong.mean())}


def one_crowd(seed, folder):
    """Rows of the three ways to judge the second half of a crowd."""
    made = make_crowd(600, 30, 2, 6, 10, noise=0.6, seed=seed)
    y = made.frame.drop_duplicates("item").set_index("item")["y"].sort_index().to_numpy()
    frame = made.frame[["item", "annotator", "label", "seconds"]]
    second = np.random.default_rng(seed).permutation(600)[300:]
    new = frame["item"].isin(second).to_numpy()
    names = np.arange(600).astype(str)
    inputs = Inputs.from_array(made.x, names)
    np.savez(folder / "x.npz", x=made.x, item=names)  # by name: a bare array of as many rows would be read row by row

    def fitted(name, rows):
        table = AnnotationTable.from_frame(frame[rows], pi=["annotator", "seconds"], keep_ids=True)
        return fit_table(table, inputs, folder / name)

    run = fitted("first", ~new)
    judged = run.judge(frame[new].reset_index(drop=True), folder / "x.npz")
    rows = [{"judged_by": "the other half", **scores(judged, y), "noise": merge(judged).noise.rate}]
    for name, which in (("both halves", np.ones(len(frame), bool)), ("itself alone", new)):
        found = fitted(name, which).predictions.frame
        found = found[np.isin(found["item"].astype(int), second)]
        rows.append({"judged_by": name, **scores(found, y), "noise": float(1 - found["label_quality"].mean())})
    return [{"seed": seed, **row} for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "new_answers.json")
    args = parser.parse_args()
    rows = []
    for seed in range(args.seeds):
        with tempfile.TemporaryDirectory() as folder:
            rows += one_crowd(seed, Path(folder))
    for way in dict.fromkeys(row["judged_by"] for row in rows):
        mean = {name: np.mean([row[name] for row in rows if row["judged_by"] == way]) for name in ("auc", "consensus")}
        print(f"{way}: AUC {mean['auc']:.3f}, consensus {mean['consensus']:.1%}")
    write_result(args.out, rows, seeds=args.seeds)


if __name__ == "__main__":
    main()
