# With a model you already have.
set -e

python - <<'END'
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

rng = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)
wrong = rng.random(len(digits)) < 0.1
labels = np.where(wrong, (digits + rng.integers(1, 10, len(digits))) % 10, digits)
model = KNeighborsClassifier(15, algorithm="kd_tree")  # the same on any number of cores
pred_probs = cross_val_predict(model, images, labels, method="predict_proba")

from pidual import find_label_issues

issues = find_label_issues(labels, pred_probs)
print(f"{issues.sum()} of {len(labels)} labels look wrong; {wrong[issues].mean():.1%} of them are")
print(f"{wrong.sum()} labels are wrong; {issues[wrong].mean():.1%} of them were found")

import pandas as pd

from pidual import judge

random_labels = rng.integers(0, 10, (300, 2))
second = np.where(rng.random(300) < 0.1, random_labels[:, 0], digits[:300])
third = np.where(rng.random(300) < 0.5, random_labels[:, 1], digits[:300])
answers = pd.DataFrame({"item": np.tile(np.arange(300), 3)})
answers["label"] = np.concatenate([labels[:300], second, third])
answers["annotator"] = np.repeat(["first", "second", "third"], 300)

judged = judge(answers, pred_probs[:300])
print(judged.annotators[["annotator", "annotator_quality", "num_labelled", "num_issues"]].round(2))
consensus = judged.items.set_index("item")["consensus_label"].astype(int)
print(f"the consensus is right on {(consensus[np.arange(300)] == digits[:300]).mean():.1%} of the items")

import matplotlib.pyplot as plt

quality = find_label_issues(labels, pred_probs, as_frame=True)["label_quality"]
figure, axis = plt.subplots(figsize=(6, 2.4))
axis.hist([quality[~wrong], quality[wrong]], bins=20, label=["right", "wrong"])
axis.set(xlabel="label_quality", ylabel="labels", yscale="log")
axis.legend(title="the label is")
figure.savefig("quality.png", dpi=100, bbox_inches="tight")

np.save("labels.npy", labels)
np.save("pred_probs.npy", pred_probs)
answers.to_csv("answers.csv", index=False)
np.save("answers_probs.npy", pred_probs[:300])  # a row for every item
END

pidual detect --labels labels.npy --probs pred_probs.npy --out suspects.csv

pidual fit answers.csv --probs answers_probs.npy
