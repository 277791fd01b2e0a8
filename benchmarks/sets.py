"""Answers that are sets of labels: pidual beside cleanlab, the majority of each class, and a fit of each class alone.

    python benchmarks/sets.py planted benchmarks/results/sets.json         # needs cleanlab
    python benchmarks/sets.py crowd benchmarks/results/sets.json           # CIFAR-10S, with PIDUAL_DATA
    python benchmarks/sets.py scale benchmarks/results/sets.json --items 100000    # 1,000 classes, the whole command
    python benchmarks/sets.py parts benchmarks/results/sets.json --items 100000    # the same, 20 of the classes

Every part replaces its rows and leaves the others.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import planted_sets
import pyarrow as pa
import pyarrow.parquet as pq
from common import data_folder, peak_memory, run_apart, write_result
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pidual import AnnotationTable, FitOptions, Inputs
from pidual.fit.fit import train
from pidual.fit.judge import assess
from pidual.fit.prepare import prepare
from pidual.learn.engine import make_fabric

SCALE_CLASSES, SCALE_FEATURES, SCALE_PEOPLE = 1000, 64, 40


# --- one crowd, by every method: quality of each class of each answer (N, K), and which are listed ---


def by_pidual(crowd, *, features=True):
    """All classes together."""
    frame = crowd.frame.rename(columns={"tags": "label"})
    table = AnnotationTable.from_frame(frame, pi=crowd.pi, keep_ids=True)
    return (*open_pairs(crowd, results := fit(table, crowd, features)), results)


def open_pairs(crowd, results):
    """What is said of open pairs; others are right, as surely as nothing is listed there."""
    frame = results.predictions.frame
    quality, listed = np.ones(crowd.said.shape), np.zeros(crowd.said.shape, bool)
    at = frame["table_row"] if "table_row" in frame else crowd.row(frame)
    quality[at, frame["tag"].cat.codes] = frame["label_quality"]
    listed[at, frame["tag"].cat.codes] = frame["is_label_issue"]
    return quality, listed


def by_class(crowd):
    """A fit of each class alone, as of any table with the classes no and yes."""
    quality, listed = np.ones(crowd.said.shape), np.zeros(crowd.said.shape, bool)
    people = []
    for at in range(crowd.said.shape[1]):
        if not crowd.said[:, at].any():
            continue
        frame = crowd.frame.drop(columns="tags").assign(label=np.where(crowd.said[:, at], "yes", "no"))
        found = fit(AnnotationTable.from_frame(frame, pi=crowd.pi, keep_ids=True), crowd, True)
        quality[:, at], listed[:, at] = found.predictions.label_quality, found.predictions.is_issue
        people.append(found.annotators.set_index("annotator")["annotator_quality"])
    return quality, listed, pd.concat(people, axis=1).mean(1)


def fit(table, crowd, features):
    """What a run says."""
    inputs = Inputs.from_array(crowd.x, np.unique(crowd.frame["item"])) if features else None
    if inputs is None:
        from pidual.data import no_inputs

        inputs = no_inputs()
    job, fabric = prepare(table, inputs, FitOptions()), make_fabric("cpu")
    return assess(job, train(job), fabric)


def by_majority(crowd):
    """Labels that the majority of the answers to their item does not share, class by class."""
    shares = crowd.shares()
    return np.where(crowd.said, shares, 1 - shares), crowd.said != (shares > 0.5), None


def by_cleanlab(crowd):
    """cleanlab's multi-label functions, an answer a row; probabilities by logistic regression on other items."""
    from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class

    item = np.unique(crowd.frame["item"], return_inverse=True)[1]
    x, p = crowd.x[item], np.empty(crowd.said.shape)
    for at in range(p.shape[1]):
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        folds = GroupKFold(5).split(x, groups=item)
        p[:, at] = cross_val_predict(model, x, crowd.said[:, at], cv=folds, method="predict_proba")[:, 1]
    labels = [np.flatnonzero(row).tolist() for row in crowd.said]
    listed = np.array(find_multilabel_issues_per_class(labels, p, n_jobs=1))
    return np.where(crowd.said, p, 1 - p), listed if listed.shape == p.shape else listed.T, None


METHODS = {
    "pidual": by_pidual,
    "pidual, no inputs": lambda crowd: by_pidual(crowd, features=False),
    "pidual, each class alone": by_class,
    "majority of each class": by_majority,
    "cleanlab multi-label": by_cleanlab,
}


class Crowd:
    """Answers, inputs of the items in the order of their names, and what is true of them (items, classes)."""

    def __init__(self, frame, x, true, said, pi):
        self.frame, self.x, self.true, self.said, self.pi = frame, x, true, said, pi
        self.item = np.unique(frame["item"], return_inverse=True)[1]
        self.wrong = said != true[self.item]

    def shares(self):
        """The share of the answers to its item that have each class, by answer."""
        n = np.bincount(self.item)
        return np.stack([np.bincount(self.item, column) / n for column in self.said.T], axis=1)[self.item]

    def row(self, frame):
        """The answer of each row of predictions."""
        return frame["row"].to_numpy()


def listing(crowd, quality, listed):
    """Precision, recall and AUC of a list, and how far its noise by class is off."""
    wrong = crowd.wrong
    noise = np.abs((1 - quality).mean(0) - wrong.mean(0)) if quality is not None else None
    rare = np.argsort(crowd.true.mean(0))[: max(1, crowd.true.shape[1] // 3)]
    return {
        "precision": float((wrong & listed).sum() / max(1, listed.sum())),
        "recall": float((wrong & listed).sum() / wrong.sum()),
        "rare_precision": float((wrong & listed)[:, rare].sum() / max(1, listed[:, rare].sum())),
        "rare_recall": float((wrong & listed)[:, rare].sum() / wrong[:, rare].sum()),
        "auc": float(roc_auc_score(wrong.ravel(), -quality.ravel())),
        "class_noise_error": float(100 * noise.mean()),
        "listed_noise_error": float(100 * np.abs(listed.mean(0) - wrong.mean(0)).mean()),
    }


def people(crowd, listed, found):
    """Where the annotator who ticks everything comes, and which classes of each are found that they never tick."""
    if found is not None and not isinstance(found, pd.Series):
        order = found.annotators["annotator"].astype(str).tolist()
        counts = found.annotator_classes
        never = counts[(counts["accuracy"] < 0.2) & ~counts["true_class"].astype(str).str.startswith("no ")]
        pairs = {(str(one.annotator), str(one.true_class)) for one in never.itertuples()}
    else:
        share = pd.Series(listed.mean(1)).groupby(crowd.frame["annotator"].to_numpy()).mean()
        order, pairs = (-share if found is None else found).sort_values().index.tolist(), None
    wanted = {("nil", planted_sets.CLASSES[at]) for at in planted_sets.NEVER}
    return {
        "all_place": order.index("all") + 1,
        "never_found": None if pairs is None else len(pairs & wanted),
        "never_wrongly": None if pairs is None else len(pairs - wanted),
    }


def planted(seeds, n):
    """Yield means over planted tables."""
    for name, method in METHODS.items():
        found = []
        for seed in range(seeds):
            made = planted_sets.make(seed, n=n)
            crowd = Crowd(made.frame, made.x, made.true, made.said, ["annotator", "seconds"])
            started = time.process_time()
            quality, listed, results = method(crowd)
            scores = {"processor_seconds": time.process_time() - started}
            found.append(listing(crowd, quality, listed) | people(crowd, listed, results) | scores)
        frame = pd.DataFrame(found)
        means = {key: None if frame[key].isna().all() else round(float(frame[key].mean()), 3) for key in frame}
        yield {"part": "planted", "method": name, "items": n, "seeds": seeds, **means}


# --- a real crowd ---


def crowd_of_images():
    """CIFAR-10S: the label and the second label of each answer as a set; the class of an image is what is true."""
    from pidual.data.datasets.cifar import CLASSES_10, load_cifar10
    from pidual.data.datasets.cifar10s import FOLDER, NAME
    from pidual.data.picture_features import PictureFeatures

    data = data_folder()
    answers, images = pd.read_csv(data / FOLDER / NAME), load_cifar10(data, "test")
    asked, item = np.unique(answers["cifar10_test_index"], return_inverse=True)
    features = PictureFeatures.fit(images.x[asked])
    said = np.zeros((len(answers), len(CLASSES_10)), bool)
    for column in ("label", "second_label"):
        there = np.flatnonzero(answers[column] >= 0)
        said[there, answers[column].to_numpy(int)[there]] = True
    names = np.array(CLASSES_10)
    frame = pd.DataFrame({"item": np.char.add("i", np.char.zfill(item.astype(str), 4))})
    frame = frame.assign(annotator=answers["annotator"].astype(str), seconds=answers["rt_ms"] / 1000)
    frame["tags"] = [names[row].tolist() for row in said]
    gold = answers.groupby(item)["gold"].first().to_numpy(int)
    true = np.arange(len(CLASSES_10)) == gold[:, None]
    return Crowd(frame, np.asarray(features(images.x[asked]), np.float32), true, said, ["annotator", "seconds"]), names


def real():
    """Yield the AUC of finding labels that are not the image's class, or miss it: together, and each class alone."""
    crowd, names = crowd_of_images()
    for name in ("pidual", "pidual, each class alone", "majority of each class", "cleanlab multi-label"):
        started = time.process_time()
        quality, listed, results = METHODS[name](crowd)
        scores = listing(crowd, quality, listed) | {"processor_seconds": round(time.process_time() - started, 1)}
        each = {
            str(tag): round(roc_auc_score(crowd.wrong[:, at], -rankdata(quality[:, at])), 3)
            for at, tag in enumerate(names)
        }
        scores = {key: round(value, 3) for key, value in scores.items()}
        means = {"mean_auc": round(float(np.mean([*each.values()])), 3), "by_class": each}
        yield {"part": "crowd", "method": name, **scores, **means, **stated(results)}


def stated(results):
    """What a run states about its list."""
    if not hasattr(results, "summary"):
        return {}
    found, verdict = results.summary.detection, results.summary.verdict.status
    ends = [round(float(each), 3) for each in (found.expected_precision, found.precision_low, found.precision_high)]
    return {"stated_precision": ends, "verdict": verdict}


# --- many classes ---


def make_files(folder, n):
    """labels.parquet and x.npy: two answers of about three tags of 1,000 to each of n items."""
    random = np.random.default_rng(0)
    k = SCALE_CLASSES
    share = 1 / np.arange(1, k + 1) ** 0.7
    share /= share.sum()
    centres = random.normal(size=(k, SCALE_FEATURES)).astype(np.float32)
    tags = [np.unique(random.choice(k, 3, p=share)) for _ in range(n)]
    x = np.stack([centres[of].sum(0) for of in tags]) + 0.7 * random.normal(size=(n, SCALE_FEATURES))
    np.save(folder / "x.npy", x.astype(np.float32))
    item = np.repeat(np.arange(n), 2)
    who = random.integers(0, SCALE_PEOPLE, len(item))
    hit = random.beta(9, 2, SCALE_PEOPLE)
    said = []
    for at, person in zip(item, who, strict=True):
        kept = tags[at][random.random(len(tags[at])) < hit[person]]
        more = random.choice(k, int(random.random() < 0.3), p=share)
        said.append(np.unique(np.concatenate([kept, more])))
    names = np.array([f"t{number:03d}" for number in range(k)])
    offsets = np.concatenate([[0], np.cumsum([len(of) for of in said])])
    column = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(names[np.concatenate(said)]))
    table = {"item": pa.array(item), "annotator": pa.array([f"p{number}" for number in who]), "tags": column}
    pq.write_table(pa.table(table), folder / "labels.parquet")
    true = np.zeros((n, k), bool)
    for at, of in enumerate(tags):
        true[at, of] = True
    return true


def scale(n):
    """Time and peak memory of the command, and what its list is worth."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        true = make_files(folder, n)
        command = ["-m", "pidual", "fit", "labels.parquet", "--label", "tags", "--x", "x.npy", "--pi", "annotator"]
        used = run_apart([*command, "--out", "run", "--keep-ids", "--quiet"], cwd=folder)
        columns = ["tagged_item", "tag", "given_label", "is_label_issue"]
        frame = pq.read_table(folder / "run/predictions.parquet", columns=columns).to_pandas()
        summary = json.loads((folder / "run/summary.json").read_text())
        size = sum(path.stat().st_size for path in (folder / "run").iterdir() if path.is_file())
    tag = frame["tag"].astype(str).str[1:].astype(int).to_numpy()
    is_true = true[frame["tagged_item"].astype(str).astype(int).to_numpy(), tag]
    wrong = is_true == frame["given_label"].astype(str).str.startswith("no ").to_numpy()
    listed = frame["is_label_issue"].to_numpy(bool)
    return {
        "part": "scale",
        "items": n,
        "classes": SCALE_CLASSES,
        "rows": summary["label_sets"]["n_rows"],
        "left_out": summary["label_sets"]["n_left_out"],
        "verdict": summary["verdict"]["status"],
        "precision": round(float((wrong & listed).sum() / max(1, listed.sum())), 3),
        "recall": round(float((wrong & listed).sum() / wrong.sum()), 3),
        "seconds": round(used["clock"]),
        "processor_seconds": round(used["seconds"]),
        "peak_gb": round(used["megabytes"] / 1024, 2),
        "run_mb": round(size / 2**20, 1),
    }


def shared_and_each(n, n_classes):
    """Processor seconds and memory of what is shared by all classes, and of each of some evenly spaced ones."""
    from threadpoolctl import threadpool_limits

    from pidual import read_table
    from pidual.fit.label_sets import _judge, _Learner

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, n)
        started = time.process_time()
        table = read_table(folder / "labels.parquet", label="tags", pi=["annotator"], keep_ids=True)
        job = prepare(table, Inputs.from_array(np.load(folder / "x.npy")), FitOptions())
        read, rows, size = time.process_time(), 0, 0
        with threadpool_limits(1):
            learner, fabric = _Learner(job), make_fabric("cpu")
            shared = time.process_time()
            labels = np.linspace(0, learner.k - 1, n_classes).astype(int).tolist()
            for label, (fitted, _) in zip(labels, learner.fit(labels), strict=True):
                found = _judge(fitted, label, learner.job_of(label), fabric)
                rows += len(found.rows)
                arrays = [found.rows, found.item, found.log_p, *vars(found.scores).values()]
                size += sum(getattr(array, "nbytes", 0) for array in [*arrays, *vars(found.posteriors).values()])
    each = (time.process_time() - shared) / n_classes
    return {
        "part": "parts",
        "items": n,
        "classes": learner.k,
        "fitted_classes": n_classes,
        "read_seconds": round(read - started, 1),
        "shared_seconds": round(shared - read, 1),
        "class_seconds": round(each, 2),
        "rows_of_class": round(rows / n_classes),
        "kept_kb_of_class": round(size / n_classes / 1024, 1),
        "peak_gb": round(peak_memory() / 1024, 2),
    }


def main():
    """Run one part, and write its rows in place of those that were there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("planted", "crowd", "scale", "parts"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--items", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fitted", type=int, default=20, help="classes that `parts` fits")
    arguments = parser.parse_args()
    if arguments.part == "planted":
        rows = planted(arguments.seeds, arguments.items or 400)
    elif arguments.part == "crowd":
        rows = real()
    elif arguments.part == "scale":
        rows = [scale(arguments.items or 100_000)]
    else:
        rows = [shared_and_each(arguments.items or 100_000, arguments.fitted)]
    for row in rows:
        print(row, flush=True)
        own = (row["part"], row.get("items"), row.get("method"))
        before = json.loads(arguments.out.read_text())["results"] if arguments.out.exists() else []
        kept = [one for one in before if (one["part"], one.get("items"), one.get("method")) != own]
        write_result(arguments.out, [*kept, row])


if __name__ == "__main__":
    main()
