"""How much privileged information says of which labels are wrong, and how much the input does; without any method.

    PIDUAL_DATA=DIR python benchmarks/pi_information.py [--out benchmarks/results/pi_information.json]

Gradient boosting predicts "this label is wrong" from the PI columns alone, taught with clean labels on four fifths of
the items and scored on the other fifth: 0.5 says nothing, 1 says all. The datasets are those of the CPU-scale recipes.
CIFAR-10N is there with the answers of each of its workers as well: its worst labels are the second or third worker's
only where these are wrong, so that there the worker says something even if no worker is better than another.

Where people answer about the same inputs: how often two of them who are both wrong give the same wrong label, and how
often they would if the wrong labels of a class were dealt out to its inputs at random.

Where a dataset has several labels of an input: how many inputs get their clean label by a vote, and by a vote in which
each label counts as much as the PI makes it credible (log odds of the prediction above). The difference is about
what PI can repair where the answers are put together anyway.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from common import RESULTS, data_folder, write_result
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, KFold
from sklearn.preprocessing import TargetEncoder

from pidual.data.datasets import load_dataset
from pidual.errors import DataError
from pidual.paper.recipes import load_recipe
from pidual.paper.runs import load_data

DATASETS = (
    *("cifar10_pi:high", "cifar10_pi:low", "digits_pi:high", "digits_pi:low"),
    *("cifar100n", "cifar10n", "cifar10n:random1", "cifar10n:random2", "cifar10n:random3", "cifar10s", "labelme"),
)
WORKERS = ("cifar10n:random1", "cifar10n:random2", "cifar10n:random3")  # of each image


def all_answers(name, data):
    """Every answer to the inputs of a dataset, where the dataset itself has one or a choice of them."""
    if name.partition(":")[0] in ("cifar10_pi", "digits_pi"):
        return load_dataset(name, data_folder(), answers_per_item=None).frame
    if name in ("cifar10n", *WORKERS):
        return pd.concat([load_dataset(worker, data_folder()).frame for worker in WORKERS])
    return data.frame


def same_mistake(frame):
    """How often two people who are both wrong about an item give the same label, and how often its class alone does it.

    The second is what would be seen if the wrong labels of a class were dealt out to its items at random. None and None
    where no item has two wrong answers.
    """
    wrong = frame[frame["label"] != frame["y"]].drop_duplicates(["item", "annotator"])
    by_item, by_class = wrong.groupby("item"), wrong.groupby("y")
    pairs = pairs_of(by_item.size())
    if not pairs.sum():
        return None, None
    same = pairs_of(wrong.groupby(["item", "label"]).size())
    of_class = pairs_of(wrong.groupby(["y", "label"]).size()).groupby("y").sum() / pairs_of(by_class.size())
    expected = pairs * by_item["y"].first().map(of_class)
    return round(float(same.sum() / pairs.sum()), 4), round(float(expected.sum() / pairs.sum()), 4)


def pairs_of(counts):
    """Ordered pairs among so many."""
    return counts * (counts - 1)


def wrongness(data):
    """Probability that a label is wrong, by its PI, of every row; taught on the rows of other items."""
    frame = data.frame.reset_index(drop=True)
    wrong = (frame["label"] != frame["y"]).to_numpy()
    categories = [name for name, kind in data.pi.items() if kind == "category"]
    numbers = frame[[name for name in data.pi if name not in categories]].astype(float).to_numpy()
    scores = np.empty(len(frame))
    for taught, asked in GroupKFold(5, shuffle=True, random_state=0).split(frame, groups=frame["item"]):
        parts = [numbers]
        if categories:
            texts = frame[categories].astype(str)
            encoder = TargetEncoder(target_type="binary", cv=KFold(5, shuffle=True, random_state=0))
            encoded = np.empty((len(frame), len(categories)))
            encoded[taught] = encoder.fit_transform(texts.iloc[taught], wrong[taught])
            encoded[asked] = encoder.transform(texts.iloc[asked])
            parts.append(encoded)
        x = np.hstack(parts)
        model = HistGradientBoostingClassifier(max_iter=100, learning_rate=0.05, max_leaf_nodes=15, random_state=0)
        scores[asked] = model.fit(x[taught], wrong[taught]).predict_proba(x[asked])[:, 1]
    return scores


def vote_right(frame, weights):
    """Share of the items with their clean label by a weighted vote; an item with k labels ahead counts 1 / k."""
    votes = (
        frame.assign(weight=weights)
        .groupby(["item", "label"], as_index=False)
        .agg(weight=("weight", "sum"), y=("y", "first"))
    )
    ahead = votes[np.isclose(votes["weight"], votes.groupby("item")["weight"].transform("max"))]
    return float((ahead["label"] == ahead["y"]).groupby(ahead["item"]).mean().mean())


def votes(frame, wrongness):
    """What a plain vote and one weighted by the PI get right; None and None where no item has two labels."""
    if not frame["item"].duplicated().any():
        return None, None
    n_classes = frame["y"].nunique()
    odds = np.log((1 - wrongness) / wrongness * (n_classes - 1))  # a wrong label is one of n_classes - 1
    return round(vote_right(frame, np.ones(len(frame))), 4), round(vote_right(frame, odds), 4)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "pi_information.json")
    arguments = parser.parse_args()
    results = []
    for name in DATASETS:
        try:
            data = load_data(load_recipe(name, "cpu"), data_folder())
        except DataError as error:
            print(f"{name} is left out: {error}")
            continue
        scores, wrong = wrongness(data), data.frame["label"] != data.frame["y"]
        noise, auc = float(wrong.mean()), float(roc_auc_score(wrong, scores))
        same, by_class = same_mistake(all_answers(name, data))
        vote, weighted_vote = votes(data.frame, scores)
        results.append(
            {"dataset": name, "pi": list(data.pi), "noise_rate": round(noise, 4), "auc": round(auc, 4)}
            | {"same_mistake": same, "same_mistake_by_class": by_class, "vote": vote, "weighted_vote": weighted_vote}
        )
        print(results[-1], flush=True)
    write_result(arguments.out, results)
