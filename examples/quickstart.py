"""A crowd's labels to a classifier, the labels that look wrong, and the annotators to look at."""

from pidual import PiDualClassifier
from pidual.datasets.synthetic import make_crowd

crowd = make_crowd(noise=0.4, seed=0)  # 40% of the labels are wrong
frame = crowd.frame  # one row per annotation: item, annotator, seconds, label
X = crowd.x[frame["item"]]

model = PiDualClassifier(epochs=30, random_state=0)
model.fit(X, frame["label"], pi=frame[["annotator", "seconds"]])

# Prediction needs no privileged information.
print(f"test accuracy: {model.score(crowd.x_test, crowd.y_test):.3f}")

issues = model.find_label_issues()
found = issues["is_label_issue"]
wrong = frame["label"] != frame["y"]  # known here, because the crowd is made up
print(f"labels that look wrong: {found.sum()} of {len(issues)}; rightly so: {wrong[found].mean():.3f}")
for row, issue in issues.sort_values("label_quality").head(3).iterrows():
    print(f"  row {row}: {issue['given_label']} -> {issue['consensus_label']}. {issue['reason']}")

print("annotators, worst first:")
print(model.annotators_[["annotator", "annotator_quality", "num_labelled", "num_issues"]].head(4))
