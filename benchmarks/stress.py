"""Small synthetic crowds: does a fit collapse, and what does protection against it cost?

    python benchmarks/stress.py [--seeds 40] [--out benchmarks/results/stress.json]
    python benchmarks/stress.py --redraw 9,24,7,30 [--draws 9] --out OUT       crowds of the same shapes, other draws;
                                         beside those of other commits in OUT

Every seed draws another crowd: 80 to 800 items, 5 to 60 annotators, 1 to 5 answers an item, 2 to 8 classes, up to half
of the annotators spammers, 20% to 80% of the labels wrong. `pi_dual` is fitted with the `paper` and the `default`
setting, `ce` with the default one; `auto` is what `pidual fit` does when not asked for a method. A fit has collapsed
when the answers of its prediction network on 1,000 clean test items, at the selected or at the last epoch, agree with
the truth no more than chance would (z below 3). Accuracy is that of the selected epoch (`paper`: best on noisy
validation rows; others: the last). Fits that are there already are not repeated.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from common import RESULTS, Log, write_result

from pidual.data import AnnotationTable, load_inputs
from pidual.data.datasets.synthetic import make_crowd
from pidual.fit.fit import train
from pidual.fit.options import FitOptions
from pidual.fit.prepare import prepare
from pidual.learn.batch import as_storage
from pidual.learn.engine import Session, make_fabric
from pidual.learn.engine.collapse import agreement_z
from pidual.learn.engine.predict import predict_probabilities
from pidual.paper.runs import about

FITS = {
    "paper": {"method": "pi_dual", "setting": "paper"},
    "default": {"method": "pi_dual"},
    "ce": {"method": "ce"},
    "auto": {"method": "auto"},
}


def draw_crowd(seed):
    """A crowd of random shape."""
    rng = np.random.default_rng(1000 + seed)
    n_classes = int(rng.integers(2, 9))
    n_annotators = int(np.exp(rng.uniform(np.log(5), np.log(60))))
    noise = float(rng.uniform(0.2, min(0.8, 0.9 * (1 - 1 / n_classes))))
    return {
        "n_items": int(np.exp(rng.uniform(np.log(80), np.log(800)))),
        "n_annotators": n_annotators,
        "answers_per_item": int(min(rng.integers(1, 6), n_annotators)),
        "n_classes": n_classes,
        "n_features": int(rng.integers(5, 100)),
        "class_separation": float(rng.uniform(2, 3.5)),
        "spammer_share": float(rng.uniform(0, min(0.5, 0.6 * noise))),  # they alone must not make more noise
        "noise": noise,
        "seed": seed,
    }


def run_fit(shape, add_pi=lambda frame: (frame, {}), look=lambda job, fitted, fabric: {}, **options):
    """One fit: collapsed or not, clean test accuracy, mean gate, what the guard did, and what `look` sees."""
    started = time.perf_counter()
    crowd = make_crowd(**shape)
    frame, added = add_pi(crowd.frame)
    table = AnnotationTable.from_frame(frame, pi=["annotator", "seconds", *added], keep_ids=True)
    chosen = FitOptions(seed=shape["seed"], pi_kinds=added, **options)
    job = prepare(table, load_inputs(crowd.x.astype(np.float32)), chosen)
    fabric = make_fabric("cpu")
    fitted = train(job, Session(fabric))
    seen = look(job, fitted, fabric)
    test = as_storage(crowd.x_test.astype(np.float32))
    answers = {"selected": predict(fitted.method, test, fabric)}
    fitted.method.load_state_dict(fitted.last)
    answers["last"] = predict(fitted.method, test, fabric)
    z = {epoch: agreement_z(given, crowd.y_test) for epoch, given in answers.items()}
    return {
        "collapsed": min(z.values()) < 3,
        "z": {epoch: round(value, 2) for epoch, value in z.items()},
        "test_accuracy": round(float((answers["selected"] == crowd.y_test).mean()), 4),
        "last_accuracy": round(float((answers["last"] == crowd.y_test).mean()), 4),
        "gate": round(fitted.history[-1].get("gate", 0.0), 4),
        "recoveries": len(fitted.events) if chosen.setting != "paper" else 0,
        "seconds": round(time.perf_counter() - started, 1),
        **seen,
    }


def fit_crowds(log, seeds, fits, **more):
    """A row for every seed, with the fits that the log does not have yet; one seed may have several rows in it."""
    rows = []
    for seed in seeds:
        shape = draw_crowd(seed)
        row = {"seed": seed, "crowd": shape}
        for known in log.rows:
            row |= known if known["seed"] == seed else {}
        missing = {name: run_fit(shape, **more, **fit) for name, fit in fits.items() if name not in row}
        if missing:
            log.add({"seed": seed, "crowd": shape} | missing)
        rows.append(row | missing)
    return rows


def redraw(crowds, draws):
    """Test accuracies of `auto` on crowds drawn again with the shapes of some: whether a loss is one draw's."""
    shapes = {crowd: draw_crowd(crowd) for crowd in crowds}
    fits = {
        crowd: [run_fit(shape | {"seed": crowd + 1000 * k}, **FITS["auto"]) for k in range(draws)]
        for crowd, shape in shapes.items()
    }
    return {crowd: [fit["test_accuracy"] for fit in of_crowd] for crowd, of_crowd in fits.items()}


def predict(method, x, fabric):
    """Predicted classes."""
    return np.concatenate([p.argmax(1) for p in predict_probabilities(method, x, fabric)])


def summarise(rows):
    """Collapses of each setting, and accuracy where `paper` did not collapse."""
    whole = [row for row in rows if not row["paper"]["collapsed"]]
    mean = {name: float(np.mean([row[name]["test_accuracy"] for row in whole])) for name in FITS}
    difference = [row["default"]["test_accuracy"] - row["paper"]["test_accuracy"] for row in whole]
    gain = [row["auto"]["test_accuracy"] - row["default"]["test_accuracy"] for row in rows]
    return {
        "collapses": {name: sum(row[name]["collapsed"] for row in rows) for name in FITS},
        "recoveries_of_default": sum(row["default"]["recoveries"] for row in rows),
        "seeds": len(rows),
        "mean_accuracy_where_paper_did_not_collapse": mean,
        "default_minus_paper": {
            "mean": float(np.mean(difference)),
            "standard_error": float(np.std(difference, ddof=1) / len(difference) ** 0.5),
        },
        "auto_minus_default": {
            "mean": float(np.mean(gain)),
            "standard_error": float(np.std(gain, ddof=1) / len(gain) ** 0.5),
            "crowds_three_points_lower": sum(value < -0.03 for value in gain),
        },
        "mean_accuracy": {name: float(np.mean([row[name]["test_accuracy"] for row in rows])) for name in FITS},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--redraw", metavar="CROWD,CROWD,...")
    parser.add_argument("--draws", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS / "stress.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.redraw:
        before = json.loads(arguments.out.read_text())["results"] if arguments.out.exists() else {}
        found = redraw([int(crowd) for crowd in arguments.redraw.split(",")], arguments.draws)
        results = before | {about()["commit"]: found}
        write_result(arguments.out, results, redraw=arguments.redraw, draws=arguments.draws)
        raise SystemExit
    log = Log(arguments.out, "seed")
    rows = fit_crowds(log, range(arguments.seeds), FITS)
    write_result(arguments.out, summarise(rows), seeds=arguments.seeds)
    print(json.dumps(summarise(rows), indent=2))
