"""Latent truth in closed form on the crowds of benchmarks/crowds.py, beside the fits of the default there.

    PIDUAL_DATA=DIR python benchmarks/closed_form.py [--seeds 3] [--only real,digits,synthetic,stress,labelme,...]

The columns are those of crowds.py (crowd_scores.py), and `noise` and `noise_stated`: the share of wrong answers whose
truth is known, and what is stated about these. Nothing depends on a seed but the crowd that is drawn. Fits that are
there already are not repeated.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from common import RESULTS, Log, write_result
from crowd_data import CROWDS, STRESS_CROWDS
from crowd_scores import Judged, rounded, score, summarise, table
from crowds import choose
from threadpoolctl import threadpool_limits

from pidual.learn.answers.design import Design
from pidual.learn.answers.model import Answers
from pidual.learn.closed_form.alternate import fit_inputs
from pidual.paper.score import prepare_data
from pidual.run import FitOptions


def read(data):
    """The inputs of all items, and the answers to them."""
    job = prepare_data(data, FitOptions(method="latent_truth", accelerator="cpu"))
    rows, spec, item = job.rows, job.spec, job.table.item_codes.astype(np.int64)
    n = int(item.max()) + 1
    x_row = np.zeros(n, np.int64)
    x_row[item] = rows.x_row.numpy()
    who = spec.code_names.index("annotator") if "annotator" in spec.code_names else None
    codes, values = rows.codes.numpy(), rows.numbers.numpy()
    vote = np.arange(len(item)) if rows.vote is None else np.unique(rows.vote.numpy(), return_inverse=True)[1]
    answers = Answers.build(
        item,
        job.table.label_codes.astype(np.int64),
        Design.fit(spec.cardinalities, who, values),
        codes,
        values,
        n_items=n,
        n_classes=spec.n_classes,
        weight=1 / np.bincount(vote)[vote],
        vote=vote,
    )
    numbers = job.table.frame["item"].cat.categories.astype(int).to_numpy()  # of items, as the dataset has them
    return flat(job.inputs.array)[x_row], answers, np.asarray([int(name) for name in job.table.classes]), numbers


def flat(x):
    """Inputs as vectors."""
    x = getattr(x, "array", x)
    return np.asarray(x).reshape(len(x), -1)


def fit(data):
    """One fit, scored."""
    x, answers, classes, numbers = read(data)
    started = time.process_time()
    found = fit_inputs(x, np.arange(len(x)), answers)
    test = classes[found.f.predict(flat(data.x_test)).argmax(1)] if len(data.y_test) else None
    seconds = time.process_time() - started
    said = found.posterior
    consensus, sure = np.zeros(numbers.max() + 1, np.int64), np.zeros(numbers.max() + 1)
    consensus[numbers], sure[numbers] = classes[said.q.argmax(1)], said.q.max(1)
    judged = Judged(said.quality, consensus, sure, test=test)
    known = data.frame["y"].notna().to_numpy()
    wrong = (data.frame["label"] != data.frame["y"])[known].to_numpy(bool)
    noise = {"noise": rounded(wrong.mean()), "noise_stated": rounded(1 - said.quality[known].mean())}
    temper = {
        "tau": found.judge.temper.tau,
        "votes": rounded(said.votes.mean()),
        "misleading": found.judge.misleading is not None,
    }
    return score(judged, data.frame, data.y_test) | noise | temper | {"seconds": round(seconds, 2)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CROWDS))
    parser.add_argument("--out", type=Path, default=RESULTS / "closed_form.json")
    arguments = parser.parse_args()
    log = Log(arguments.out, "data", "method", "seed")
    with threadpool_limits(1):
        for name in choose(arguments.only):
            for seed in range(arguments.seeds * (STRESS_CROWDS if name == "stress" else 1)):
                if log.find(data=name, method="closed_form", seed=seed) is None:
                    log.add({"data": name, "method": "closed_form", "seed": seed, **fit(CROWDS[name](seed))})
    write_result(arguments.out, summarise(log.rows), seeds=arguments.seeds)
    print(table(summarise(log.rows)))
