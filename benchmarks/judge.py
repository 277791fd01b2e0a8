"""Judging labels by given probabilities: how long it takes, how much memory, and what it is worth.

    PIDUAL_DATA=data python benchmarks/judge.py [--only large small accuracy command detect] [--dtype float16]

large: 1,281,167 items of 1,000 classes from a memory map, one answer each. small: 50,000 items of 10 classes, three
answers each. command: the large one through the command line, from a CSV file to the run directory. accuracy: the
probabilities of DATA/label-errors with the three answers of CIFAR-10N, and roman numerals with one answer each: AUC of
wrong labels and accuracy of the consensus, before (the probabilities, the vote) and after.
detect: one label an item, by find_label_issues, by judge and by cleanlab's scores and filters: AUC, average precision,
F1 of what is found and of the best possible cut, noise rate; and time and memory of find_label_issues and of
`pidual detect` for both sizes, one label an item. Parts that are not asked for stay as they are in the result file.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from cleanlab.filter import find_label_issues as cleanlab_issues
from cleanlab.rank import get_label_quality_scores
from common import RESULTS, data_folder, write_result
from sklearn.metrics import average_precision_score

from pidual import find_label_issues, judge
from pidual.data.datasets.cifarn import KEYS_10, LABELS_10, RANDOM_10, SIDE_10, read_labels, read_side_info
from pidual.metrics import detection_auc

SIZES = {"small": (50_000, 10, 3, 200), "large": (1_281_167, 1_000, 1, 500)}  # items, classes, answers each, annotators


def make_files(folder, size, dtype, seed=0):
    """labels.parquet, labels.csv and p.npy of a crowd whose classifier and annotators are right in most cases."""
    n, k, per_item, n_annotators = SIZES[size]
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    p = np.lib.format.open_memmap(folder / "p.npy", "w+", dtype, (n, k))
    noise = rng.gumbel(size=(4096, k)).astype(np.float32)  # rows that come again and again, in another order of classes
    for start in range(0, n, len(noise)):
        part = y[start : start + len(noise)]
        logits = np.roll(noise[: len(part)], start // len(noise), axis=1).copy()
        logits[np.arange(len(part)), part] += np.log(k) + 2
        e = np.exp(logits - logits.max(1, keepdims=True))
        p[start : start + len(part)] = e / e.sum(1, keepdims=True)
    p.flush()
    item = np.repeat(np.arange(n), per_item)
    who = rng.integers(0, n_annotators, len(item))
    wrong = rng.random(len(item)) < rng.beta(2, 6, n_annotators)[who]
    label = np.where(wrong, rng.integers(0, k, len(item)), y[item])
    frame = pd.DataFrame({"item": item, "label": label, "annotator": np.char.add("w", who.astype(str)), "y": y[item]})
    frame.to_parquet(folder / "labels.parquet")
    frame.to_csv(folder / "labels.csv", index=False)


def judge_files(folder):
    """The call to `judge` alone, timed inside the process that is watched; torch is loaded."""
    frame, p = pd.read_parquet(folder / "labels.parquet"), np.load(folder / "p.npy", mmap_mode="r")
    y = frame.pop("y").to_numpy()
    started, worked = time.perf_counter(), time.process_time()
    judged = judge(frame, p)
    seconds, processor = time.perf_counter() - started, time.process_time() - worked
    quality = judged.predictions["label_quality"].to_numpy()
    answer = {"seconds": seconds, "processor_seconds": processor}
    print(json.dumps(answer | {"auc": detection_auc(quality, frame["label"].to_numpy() != y)}))


def watch(command, folder):
    """Run a command: what it printed, seconds, those of the processor, and peak resident memory in bytes."""
    started, peak, worked = time.perf_counter(), 0, 0.0
    with (folder / "out.txt").open("w+") as out:
        process = subprocess.Popen(command, stdout=out, cwd=folder)
        one = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                peak = max(peak, one.memory_info().rss)
                worked = sum(one.cpu_times()[:2])
            except psutil.Error:
                break
            time.sleep(0.05)
        seconds = time.perf_counter() - started
        out.seek(0)
        text = out.read()
    if process.returncode:
        raise SystemExit(f"failed with {process.returncode}: {command}")
    return text, seconds, worked, peak


def measure(size, dtype, command):
    """Time and memory of judging a crowd of this size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, size, dtype)
        about = {"size": size, "dtype": dtype, "map_bytes": (folder / "p.npy").stat().st_size}
        text, _, _, peak = watch([sys.executable, __file__, "--inside", folder], folder)
        rows = [about | {"what": "judge"} | json.loads(text.splitlines()[-1]) | {"peak_bytes": peak}]
        if command:
            words = ["-m", "pidual", "fit", "labels.csv", "--probs", "p.npy", "--quiet", "--json"]
            _, seconds, worked, peak = watch([sys.executable, *words], folder)
            times = {"seconds": seconds, "processor_seconds": worked}
            rows.append(about | {"what": "pidual fit", **times, "peak_bytes": peak})
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows


def accuracy():
    """AUC of wrong labels and accuracy of the consensus on real labels, before and after."""
    data = data_folder()
    labels = read_labels(data, LABELS_10, KEYS_10)
    side = read_side_info(data, SIDE_10, workers=3, images=10)
    y, answers = labels["clean_label"], np.stack([labels[key] for key in RANDOM_10])
    item = np.tile(np.arange(len(y)), 3)
    crowd = {
        "item": item,
        "label": answers.ravel(),
        "annotator": side.annotator.ravel(),
        "seconds": side.seconds.ravel(),
    }
    rows = []
    for which in ("worst", "aggregate"):
        stored = np.load(data / "label-errors" / f"cifar-10n-{which}_resnet18.npz")
        p, given = np.zeros((len(y), 10), np.float16), np.zeros(len(y), np.int64)
        p[stored["image"]], given[stored["image"]] = stored["pred_probs"], stored["labels"]
        kinds = ([], ["annotator"], ["annotator", "seconds"])
        rows += [compare(f"cifar10n:{which}", pd.DataFrame(crowd), p, given, y, pi) for pi in kinds]
    stored = np.load(data / "label-errors" / "roman-numeral_resnet18.npz")
    given, wrong = stored["labels"].astype(np.int64), stored["wrong"]
    frame = pd.DataFrame({"item": np.arange(len(given)), "label": given})
    rows.append(compare("roman numerals", frame, stored["pred_probs"], given, np.where(wrong, -1, given), []))
    return rows


def compare(name, frame, p, given, y, pi):
    """What is known before, and after judging; y is -1 where only that the label is wrong is known."""
    items, known = np.arange(len(y)), y >= 0
    wrong = given != y
    votes = np.zeros(p.shape)
    np.add.at(votes, (frame["item"], frame["label"]), 1)
    started = time.process_time()
    judged = judge(frame, p, pi=pi)
    seconds = time.process_time() - started
    same = frame["label"].to_numpy() == given[frame["item"]]
    quality = np.zeros(len(y))
    quality[frame["item"][same]] = judged.predictions["label_quality"][same]
    consensus = judged.items.set_index(judged.items["item"].astype(int))["consensus_label"].astype(int).sort_index()
    row = {
        "data": name,
        "pi": pi,
        "processor_seconds": seconds,
        "model_selection": [choice.to_json() for choice in judged.summary.model_selection],
    }
    row["auc"] = {
        "probabilities": detection_auc(p[items, given].astype(np.float64), wrong),
        "judged": detection_auc(quality, wrong),
    }
    if known.all():
        answers = {"vote": votes.argmax(1), "probabilities": p.argmax(1), "judged": consensus.to_numpy()}
        row["consensus"] = {what: float((answer == y).mean()) for what, answer in answers.items()}
    print(json.dumps(row), flush=True)
    return row


FILTERS = (
    *("prune_by_noise_rate", "prune_by_class", "both", "confident_learning", "predicted_neq_given"),
    *("low_normalized_margin", "low_self_confidence"),
)
SCORES = {
    "self_confidence": {"method": "self_confidence"},
    "normalized_margin": {"method": "normalized_margin"},
    "confidence_weighted_entropy": {"method": "confidence_weighted_entropy"},
    "self_confidence, adjusted": {"method": "self_confidence", "adjust_pred_probs": True},
    "normalized_margin, adjusted": {"method": "normalized_margin", "adjust_pred_probs": True},
}


def detect_accuracy():
    """What is found among labels of which one an item is known."""
    rows = []
    for name in ("cifar-10n-aggregate", "cifar-10n-worst", "roman-numeral"):
        stored = np.load(data_folder() / "label-errors" / f"{name}_resnet18.npz")
        p, given, wrong = stored["pred_probs"].astype(np.float64), stored["labels"].astype(np.int64), stored["wrong"]
        p /= p.sum(1, keepdims=True)
        found = find_label_issues(given, p, as_frame=True)
        judged = judge(pd.DataFrame({"item": np.arange(len(given)), "label": given}), p.astype(np.float32)).predictions
        for what, frame in (("find_label_issues", found), ("judge", judged)):
            quality = frame["label_quality"].to_numpy(np.float64)
            row = ranked(quality, wrong) | flagged(frame["is_label_issue"].to_numpy(), wrong)
            rows.append({"data": name, "by": what, **row, "noise_rate": float((1 - quality).mean())})
        for what, options in SCORES.items():
            quality = get_label_quality_scores(given, p, **options)
            rows.append({"data": name, "by": f"cleanlab, {what}", **ranked(quality, wrong)})
        for what in FILTERS:
            mask = cleanlab_issues(given, p, filter_by=what, n_jobs=1)
            rows.append({"data": name, "by": f"cleanlab, {what}", **flagged(mask, wrong)})
        for row in rows[-2 - len(SCORES) - len(FILTERS) :]:
            print(json.dumps(row | {"wrong": float(wrong.mean())}), flush=True)
    return rows


def ranked(quality, wrong):
    """AUC and average precision of a score, and the F1 of its best cut."""
    hits = np.cumsum(wrong[np.argsort(quality, kind="stable")])
    best = (2 * hits / (np.arange(1, len(hits) + 1) + wrong.sum())).max()
    average = float(average_precision_score(wrong, -quality))
    return {"auc": detection_auc(quality, wrong), "average_precision": average, "best_f1": float(best)}


def flagged(mask, wrong):
    """F1 of the labels that are found, and how many these are."""
    return {"f1": float(2 * (mask & wrong).sum() / (mask.sum() + wrong.sum())), "found": int(mask.sum())}


DETECT = """
import json, time
import numpy as np
from pidual import find_label_issues
labels = np.load("labels.npy")
started, worked = time.perf_counter(), time.process_time()
mask = find_label_issues(labels, "p.npy")
seconds, processor = time.perf_counter() - started, time.process_time() - worked
np.save("mask.npy", mask)
print(json.dumps({"seconds": seconds, "processor_seconds": processor}))
"""  # alone in its process: nothing of what this file imports is needed


def detect_speed(size, dtype):
    """Time and memory of one label an item, from Python and on the command line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder, size, dtype)
        frame = pd.read_parquet(folder / "labels.parquet").drop_duplicates("item")
        np.save(folder / "labels.npy", frame["label"].to_numpy())
        np.save(folder / "truth.npy", frame["y"].to_numpy())
        about = {"size": size, "dtype": dtype, "map_bytes": (folder / "p.npy").stat().st_size}
        text, _, _, peak = watch([sys.executable, "-c", DETECT], folder)
        found = flagged(np.load(folder / "mask.npy"), np.load(folder / "labels.npy") != np.load(folder / "truth.npy"))
        rows = [about | {"what": "find_label_issues"} | json.loads(text) | found | {"peak_bytes": peak}]
        words = ["-m", "pidual", "detect", "--labels", "labels.npy", "--probs", "p.npy", "--out", "suspects.csv"]
        _, seconds, worked, peak = watch([sys.executable, *words], folder)
        times = {"seconds": seconds, "processor_seconds": worked}
        rows.append(about | {"what": "pidual detect", **times, "peak_bytes": peak})
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=["small", "large", "command", "accuracy", "detect"])
    parser.add_argument("--dtype", nargs="*", default=["float16", "float32"])
    parser.add_argument("--out", type=Path, default=RESULTS / "judge.json")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        judge_files(arguments.inside)
        raise SystemExit
    results = json.loads(arguments.out.read_text())["results"] if arguments.out.exists() else {}
    if "accuracy" in arguments.only:
        results["accuracy"] = accuracy()
    if "detect" in arguments.only:
        results["detect"] = detect_accuracy()
        results["detect_speed"] = [
            row for size in SIZES for dtype in arguments.dtype for row in detect_speed(size, dtype)
        ]
    if {*SIZES} & {*arguments.only}:
        results["speed"] = []
    for size in SIZES:
        for dtype in arguments.dtype if size in arguments.only else []:
            results["speed"] += measure(size, dtype, "command" in arguments.only)
    write_result(arguments.out, results, only=arguments.only, dtype=arguments.dtype)
