"""A panel of language models as judges, by the command line: what a run states of it, without gold and with.

    python benchmarks/judges.py [--seeds 40] [--gold 100] [--out FILE]

Every seed makes another panel (`make_judges`: twelve judges of two families, 600 items, mistakes that a
family shares, long answers passed too readily), and goes the way of docs/for/llm_judges.md: `pidual fit` on a JSONL of
judgements, `pidual next RUN --gold 100`, the true class of these items into the file, `pidual fit --truth`. A row has

    verdict            of the fit without gold
    accuracy, noise, passing, of the fit with gold
                       stated (the first without gold, then with, with its interval) and true: consensus of the items
                       without gold, share of wrong judgements, share of items that pass
    true_before        share of all items that the consensus of the fit without gold has right
    passed             share of items that pass by majority of judgements
    words, true_words  how much more often the longest third of answers is passed than it deserves, compared with the
                       shortest: stated with its interval, and true
    annotators         shares of intervals that hold: accuracy, kappa, sensitivity and specificity of each judge

Lines that are there already are not made again.
"""

import argparse
import contextlib
import io
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from common import RESULTS, Log

from pidual import Run
from pidual.cli import cli
from pidual.data.datasets.synthetic import VERDICTS, make_judges

FIT = "fit judgements.jsonl --annotator judge --label verdict --no-answer unsure --pi judge,order,words,logprob --no-x"


def call(command):
    """Run a command of pidual here, and show nothing."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        cli.main(command.split(), standalone_mode=False)


def try_panel(seed, n_gold):
    """Go through the page's case with a panel, and compare with what is true."""
    panel = make_judges(seed=seed)
    panel.frame.to_json("judgements.jsonl", orient="records", lines=True)
    call(f"{FIT} --keep-ids --out runs/judges")
    call(f"next runs/judges --gold {n_gold} --out gold.csv")
    gold = pd.read_csv("gold.csv", dtype=str)
    gold.assign(truth=panel.truth.loc[gold["item"]].to_numpy()).to_csv("gold.csv", index=False)
    call(f"{FIT} --keep-ids --truth gold.csv --out runs/checked")
    before, run = (Run(f"runs/{name}") for name in ("judges", "checked"))
    found, frame = run.summary.gold, panel.frame[panel.frame["verdict"] != "unsure"]
    true, said = panel.truth.loc[frame["item"]].to_numpy(), frame["verdict"].to_numpy()
    right = is_right(run, panel)
    passing = next(each for each in found.shares if each.label == "pass")
    row = {"seed": seed, "gold": n_gold, "verdict": before.summary.verdict.status}
    for name, old, now, value in (
        ("accuracy", found.stated_accuracy, found.accuracy, right[~right.index.isin(gold["item"])].mean()),
        ("noise", found.stated_noise, found.noise, (said != true).mean()),
        ("passing", before.items["p_pass"].mean(), passing, (panel.truth == "pass").mean()),
    ):
        row[name] = [old, now.rate, now.low, now.high, float(value)]
    row["true_before"] = float(is_right(before, panel).mean())
    vote = (frame["verdict"] == "pass").groupby(frame["item"]).mean()
    row["passed"] = float((vote > 0.5).mean())
    too_often = (said == "pass") * 1.0 - (true == "pass")
    found = next(each for each in run.summary.pi_directions if each.column == "words")
    first, last = np.quantile(frame["words"], [1 / 3, 2 / 3])
    sign = 1 if found.label == "pass" else -1
    ends = sorted([sign * found.difference_low, sign * found.difference_high])
    row["words"] = [sign * found.difference, *ends]
    row["true_words"] = float(too_often[frame["words"] >= last].mean() - too_often[frame["words"] <= first].mean())
    row["annotators"] = cover(run, frame.assign(true=true))
    return row


def is_right(run, panel):
    """Whether the consensus of each item is right."""
    items = run.items.set_index("item")
    return items["consensus_label"].astype(str) == panel.truth.loc[items.index]


def cover(run, frame):
    """Shares of intervals of judges that hold."""
    people = run.annotators.set_index("annotator")
    classes = run.annotator_classes.astype({"annotator": str, "true_class": str}).set_index(["annotator", "true_class"])
    held = {"accuracy": [], "kappa": [], "sensitivity": [], "specificity": []}
    for name, rows in frame.groupby("judge"):
        of, right = people.loc[name], rows["verdict"] == rows["true"]
        chance = sum((rows["verdict"] == each).mean() * (rows["true"] == each).mean() for each in VERDICTS)
        held["accuracy"].append(of["quality_low"] <= right.mean() <= of["quality_high"])
        kappa = (right.mean() - chance) / (1 - chance)
        held["kappa"].append(of["gold_kappa_low"] <= kappa <= of["gold_kappa_high"])
        for verdict in VERDICTS:
            of, are = classes.loc[(name, verdict)], rows["true"] == verdict
            for number, value in (("sensitivity", right[are].mean()), ("specificity", right[~are].mean())):
                held[number].append(of[f"gold_{number}_low"] <= value <= of[f"gold_{number}_high"])
    return {name: float(np.mean(values)) for name, values in held.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--gold", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS / "judges.jsonl")
    arguments = parser.parse_args()
    log = Log(arguments.out.absolute(), "seed", "gold")
    for seed in range(arguments.seeds):
        if log.find(seed=seed, gold=arguments.gold) is None:
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
                found = try_panel(seed, arguments.gold)
            log.add(json.loads(json.dumps(found, default=float), parse_float=lambda text: round(float(text), 6)))
