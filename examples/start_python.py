"""The same in Python."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

rng = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)
item = np.repeat(np.arange(300), 2)  # 300 images, two answers each
who = rng.permuted(np.tile(np.arange(5), (300, 1)), axis=1)[:, :2].ravel()  # by two of five people
wrong = rng.random(len(item)) < np.array([0.05, 0.05, 0.1, 0.1, 0.5])[who]

X = images[item] / 16  # a row for every answer
y = np.where(wrong, rng.integers(0, 10, len(item)), digits[item])
pi = pd.DataFrame({"annotator": np.array(["ann", "bob", "cho", "dee", "fay"])[who]})
pi["seconds"] = rng.lognormal(np.where(wrong, 0.5, 1.5), 0.4)

from pidual import CrowdClassifier

model = CrowdClassifier(random_state=0).fit(X, y, pi=pi)
accuracy = (model.predict(images[300:] / 16) == digits[300:]).mean()  # no privileged information needed
print(f"accuracy on 1,497 new images: {accuracy:.1%}")

issues = model.find_label_issues()
suspects = issues[issues["is_label_issue"]].sort_values("label_quality")
truly = (digits[item] != y)[suspects.index].mean()
print(f"{len(suspects)} of {len(issues)} labels look wrong; {truly:.0%} of them are")
print(suspects[["given_label", "consensus_label", "label_quality"]].head(3).round(3))
print(suspects["reason"].iloc[0])

print(model.annotators_[["annotator", "annotator_quality", "num_labelled", "num_issues"]].round(2))

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 6, figsize=(9, 2))
for axis, row in zip(axes, suspects.index[:6]):
    axis.imshow(X[row].reshape(8, 8), cmap="gray_r")
    axis.set_title(f"{y[row]} given\n{suspects.loc[row, 'consensus_label']} more likely", fontsize=9)
    axis.axis("off")

figure.savefig("digits.png", dpi=100, bbox_inches="tight")
