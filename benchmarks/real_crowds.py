"""Real crowds through the command line alone, with default settings.

    PIDUAL_DATA=DIR python benchmarks/real_crowds.py [--only labelme,cifar10s,...] [--seeds N] [--out FILE]

LabelMe (features), CIFAR-10S (a folder of images) and texts that language models have labelled. DIR holds `labelme/`,
`cifar-10s/`, `cifar-10-batches-bin/` and `crowds/` in their authors' formats. For every seed, methods are fitted with
`pidual fit`, and scored with `pidual predict` on clean test inputs: LabelMe's test set, and for CIFAR-10S the 9,000
images of the CIFAR-10 test set that its annotators did not see. Cross-entropy on clean labels shows what there is to
gain. The default setting selects the last epoch; on LabelMe the best epoch on noisy validation rows is scored too
(`select=best`). `auto`, which no seed changes, is fitted once. Texts are fitted with it: by the answers alone, with the
text, and with its length as PI. Fits that are there already are not repeated; each row has its commit.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from common import RESULTS, Log, data_folder, write_result
from PIL import Image

from pidual.paper.runs import commit

LABELME = ["highway", "insidecity", "tallbuilding", "street", "forest", "coast", "mountain", "opencountry"]
CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
LAST, BEST = ((("ce", epoch, 5), ("pi_dual", epoch, 5)) for epoch in ("last", "best"))  # method, epoch, seeds
CLEAN = (("ce on clean labels", "last", 5),)  # what could be gained at most by finding every wrong label
JUDGES = {
    "llm_answers": ["--no-x", "--pi", "model"],
    "llm_text": ["--x-text", "text", "--pi", "model"],
    "llm_text_length": ["--x-text", "text", "--pi", "model,length"],
}
FITS = {"labelme": (*LAST, *BEST, *CLEAN, ("auto", "last", 1)), "cifar10s": (*LAST, *CLEAN)}
FITS |= dict.fromkeys(JUDGES, (("auto", "last", 1),))
FITS["llm_answers"] += (("vote", "last", 1),)
SCORES = ("test_accuracy", "detection_auc", "gate_auc", "consensus_accuracy", "issue_precision", "issue_recall")


def labelme(data, folder):
    """The answers as a CSV and the pooled VGG features as .npy; PI: the annotator."""
    answers = np.loadtxt(data / "labelme" / "answers.txt", dtype=int)
    gold = {part: np.loadtxt(data / "labelme" / f"LabelMe_Z_{part}.txt", dtype=int) for part in ("train", "test")}
    item, worker = np.nonzero(answers >= 0)
    names = np.array(LABELME)
    table = {"item": item, "worker": worker, "label": names[answers[item, worker]], "gold": names[gold["train"][item]]}
    pd.DataFrame(table).to_csv(folder / "labels.csv", index=False)
    for part in ("train", "test"):
        x = np.load(data / "labelme" / f"LabelMe_VGG_avg_{part}.npy")
        np.save(folder / f"{part}.npy", x.reshape(len(x), -1).astype(np.float32))
    pd.DataFrame({"y": names[gold["test"]]}).to_csv(folder / "test.csv", index=False)
    return ["--x", "train.npy", "--y", "gold", "--pi", "worker"], "test.npy"


def cifar10s(data, folder):
    """The answers as a CSV and the images as PNG files; PI: annotator, confidence, reaction time, trial."""
    records = np.fromfile(data / "cifar-10-batches-bin" / "test_batch.bin", np.uint8).reshape(-1, 3073)
    frame = pd.read_csv(data / "cifar-10s" / "annotations.csv")
    seen = np.unique(frame["cifar10_test_index"])
    unseen = np.setdiff1d(np.arange(len(records)), seen)
    for part, rows in {"train": seen, "test": unseen}.items():
        (folder / part).mkdir(exist_ok=True)
        for row in rows:
            pixels = records[row, 1:].reshape(3, 32, 32).transpose(1, 2, 0)
            Image.fromarray(pixels).save(folder / part / f"{row:05d}.png")
    names = np.array(CIFAR10)
    frame["image"] = [f"{row:05d}.png" for row in frame["cifar10_test_index"]]
    frame["label"], frame["gold"] = names[frame["label"]], names[frame["gold"]]
    columns = ["image", "annotator", "label", "gold", "confidence", "rt_ms", "trial_index"]
    frame[columns].to_csv(folder / "labels.csv", index=False)
    test = {"item": [f"{row:05d}.png" for row in unseen], "y": names[records[unseen, 0]]}
    pd.DataFrame(test).to_csv(folder / "test.csv", index=False)
    return ["--x", "train", "--item", "image", "--y", "gold", "--pi", "annotator,confidence,rt_ms,trial_index"], "test"


def language_models(dataset, data, folder):
    """The judgments of texts as JSON Lines; PI: the model, and the length of the text."""
    answers, texts = (pd.read_csv(data / "crowds" / f"llm_emotion{name}.csv") for name in ("", "_texts"))
    table = answers.rename(columns={"annotator": "model"}).merge(texts, on="item")
    table = table.assign(length=table["text"].str.len())
    table.to_json(folder / "labels.jsonl", orient="records", lines=True)
    return ["--annotator", "model", "--y", "gold", "--keep-ids", *JUDGES[dataset]], None


MAKERS = {"labelme": labelme, "cifar10s": cifar10s} | {name: partial(language_models, name) for name in JUDGES}


def pidual(folder, *arguments):
    """Run the command line and read the JSON it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "pidual", *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"pidual {' '.join(map(str, arguments))}\n{done.stderr}")
    return json.loads(done.stdout)


def fit_and_score(folder, options, test, method, seed, select):
    """One fit: clean test accuracy and detection AUC."""
    if method == "vote":
        return {"consensus_accuracy": vote(pd.read_json(folder / "labels.jsonl", lines=True)), "commit": commit()}
    run = f"run-{method.replace(' ', '-')}-{seed}-{select}"
    chosen = ["--set", f"select={select}"] if select == "best" else []
    if method == "ce on clean labels":
        at = options.index("--y")
        options, method = [*options[:at], "--label", "gold", *options[at + 2 :]], "ce"
    (table,) = folder.glob("labels.*")
    arguments = ["fit", table.name, *options, "--method", method, "--seed", seed, "--out", run, *chosen]
    summary = pidual(folder, *arguments, "--force", "--json", "--quiet")
    accuracy = test and pidual(folder, "predict", run, test, "--y", "test.csv", "--json")["accuracy"]
    evaluation = summary["evaluation"] or {}
    return {
        **{name: evaluation.get(name) for name in (*SCORES, "noise_rate")},
        "test_accuracy": accuracy,
        "noise_estimate": summary["estimated_noise_rate"],
        "noise_high": summary["noise"]["high"],
        "commit": commit(),
        "recoveries": len(summary["guard"]["events"]),
        "seconds": summary["seconds_total"],
    }


def vote(table):
    """Share of items whose most frequent label is right; of several, the first by name."""
    items = table.groupby("item").agg(label=("label", lambda labels: labels.mode()[0]), gold=("gold", "first"))
    return float((items["label"] == items["gold"]).mean())


def summarise(rows):
    """Mean and standard deviation over seeds of every dataset, method and epoch."""
    of = ["dataset", "method", "select"]
    frame = pd.DataFrame(rows).reindex(columns=[*of, *SCORES, "seconds"]).astype(dict.fromkeys(SCORES, float))
    table = frame.groupby(of).agg(["mean", "std"]).round(4)
    table.columns = ["_".join(column) for column in table.columns]
    return json.loads(table.reset_index().to_json(orient="records"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="instead of the numbers in FITS")
    parser.add_argument("--only", default=",".join(FITS))
    parser.add_argument("--out", type=Path, default=RESULTS / "real_crowds.json")
    arguments = parser.parse_args()
    data = data_folder().resolve()
    log = Log(arguments.out, "dataset", "method", "select", "seed")
    for dataset in arguments.only.split(","):
        with tempfile.TemporaryDirectory() as temporary:
            options, test = MAKERS[dataset](data, Path(temporary))
            for method, select, seeds in FITS[dataset]:
                for seed in range(arguments.seeds or seeds):
                    key = {"dataset": dataset, "method": method, "select": select, "seed": seed}
                    if log.find(**key) is None:
                        log.add(key | fit_and_score(Path(temporary), options, test, method, seed, select))
    write_result(arguments.out, summarise(log.rows), only=arguments.only, seeds=arguments.seeds)
    print(pd.DataFrame(summarise(log.rows)).to_string())
