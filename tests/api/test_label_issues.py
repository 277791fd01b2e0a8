"""`find_label_issues` and `pidual detect --labels --probs`."""

import inspect
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from command_line import environment, run_cli

import pidual
from pidual import find_label_issues, judge
from pidual.api.label_issues import judge_labels
from pidual.data import probabilities
from pidual.data.given import read_given, read_values
from pidual.errors import DataError, DataWarning, UsageError

pytestmark = pytest.mark.shapes_unchecked

NAMES = ["ape", "bee", "cow"]


def make(n=300, k=3, seed=0, noise=0.1):
    """Labels, and probabilities of a classifier that is mostly right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, k, n)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), truth] += 4
    p = np.exp(logits)
    wrong = rng.random(n) < noise
    return np.where(wrong, (truth + 1) % k, truth), p / p.sum(1, keepdims=True), wrong


LABELS, PROBS, WRONG = make()


# --- what comes out ---


def test_a_mask_that_finds_the_mistakes():
    mask = find_label_issues(LABELS, PROBS)
    assert mask.dtype == bool
    assert mask.shape == LABELS.shape
    assert (mask & WRONG).sum() / WRONG.sum() > 0.8
    assert (mask & WRONG).sum() / mask.sum() > 0.8


def test_columns_are_those_of_cleanlab_and_of_the_estimator():
    frame = find_label_issues(LABELS, PROBS, as_frame=True)
    first = ["is_label_issue", "label_quality", "given_label", "predicted_label", "consensus_label"]
    assert list(frame) == first
    doc = pidual.PiDualClassifier.find_label_issues.__doc__
    assert all(name in doc for name in first)
    assert (frame["is_label_issue"].to_numpy() == find_label_issues(LABELS, PROBS)).all()
    assert frame["given_label"].astype(int).tolist() == LABELS.tolist()
    assert frame["predicted_label"].astype(int).tolist() == PROBS.argmax(1).tolist()
    assert frame["label_quality"].between(0, 1).all()


def test_probabilities_of_other_rows_are_told():
    rows = np.random.default_rng(1).permutation(len(PROBS))
    with pytest.warns(
        DataWarning,
        match=r"^The verdict is failed: do not use these issues\. The probabilities say noth",
    ):
        find_label_issues(LABELS, PROBS[rows])
    with pytest.warns(DataWarning, match=r"AUC 0.50\); check that probabilities and labels have rows and classes"):
        find_label_issues(LABELS, np.full_like(PROBS, 1 / 3))
    with pytest.warns(DataWarning, match="failed: do not use these issues"):
        find_label_issues(LABELS, PROBS[:, [1, 2, 0]])  # columns of other classes
    with pytest.warns(DataWarning, match=r"doubtful: do not rely on these issues alone\. There are only 12 labels"):
        find_label_issues(LABELS[:12], PROBS[:12])


def test_the_arguments_are_those_of_cleanlab():
    cleanlab = pytest.importorskip("cleanlab.filter")
    theirs = inspect.signature(cleanlab.find_label_issues).parameters
    ours = inspect.signature(find_label_issues).parameters
    assert [name for name in theirs if name not in ours] == []
    changed = {name for name in theirs if theirs[name].default != ours[name].default}
    assert changed == {"filter_by"}


@pytest.mark.parametrize("score", ["self_confidence", "normalized_margin", "confidence_weighted_entropy"])
def test_ranked_as_cleanlab_ranks(score):
    rank = pytest.importorskip("cleanlab.rank")
    quality = rank.get_label_quality_scores(LABELS, PROBS, method=score)
    found = np.flatnonzero(find_label_issues(LABELS, PROBS))
    ranked = find_label_issues(LABELS, PROBS, return_indices_ranked_by=score)
    assert ranked.tolist() == found[np.argsort(quality[found], kind="stable")].tolist()


def test_some_of_the_labels_found():
    quality = find_label_issues(LABELS, PROBS, as_frame=True)["label_quality"].to_numpy()
    found = find_label_issues(LABELS, PROBS, return_indices_ranked_by="label_quality")
    half = find_label_issues(LABELS, PROBS, frac_noise=0.5, return_indices_ranked_by="label_quality")
    assert half.tolist() == found[: round(len(found) / 2)].tolist()
    assert not find_label_issues(LABELS, PROBS, frac_noise=0).any()
    mask = find_label_issues(LABELS, PROBS, num_to_remove_per_class=[2, 0, 5])
    for one, n in enumerate([2, 0, 5]):
        rows = [row for row in range(len(LABELS)) if LABELS[row] == one]
        worst = sorted(rows, key=lambda row: quality[row])[:n]
        assert {row for row in rows if mask[row]} == set(worst)


@pytest.mark.parametrize("least", [0, 1, 95, 500])
def test_some_labels_of_each_class_are_left(least):
    mask = find_label_issues(LABELS, PROBS)
    kept = find_label_issues(LABELS, PROBS, min_examples_per_class=least)
    assert not (kept & ~mask).any()
    for one in range(3):
        n, found = (one == LABELS).sum(), mask[one == LABELS].sum()
        assert kept[one == LABELS].sum() == max(0, min(found, n - least))


# --- what goes in ---


@pytest.mark.parametrize(
    "change",
    [
        list,
        pd.Series,
        lambda labels: labels.astype(np.uint8),
        lambda labels: labels.astype(object),
        lambda labels: np.array(NAMES)[labels],
        lambda labels: pd.Series([NAMES[code] for code in labels], index=np.arange(300)[::-1]),
        lambda labels: pd.Categorical.from_codes(labels, NAMES),
    ],
)
def test_labels_in_any_form(change):
    assert (find_label_issues(change(LABELS), PROBS) == find_label_issues(LABELS, PROBS)).all()


def test_names_of_columns():
    expected = find_label_issues(LABELS, PROBS)
    names = np.array(NAMES)[LABELS]
    assert (find_label_issues(names, PROBS[:, ::-1], classes=NAMES[::-1]) == expected).all()
    assert (find_label_issues(names, pd.DataFrame(PROBS, columns=NAMES)[["cow", "ape", "bee"]]) == expected).all()
    frame = find_label_issues(LABELS, PROBS, classes=NAMES, as_frame=True)
    assert frame["given_label"].tolist() == names.tolist()
    numbers = find_label_issues(LABELS + 10, PROBS, classes=[10, 11, 12], as_frame=True)
    assert numbers["given_label"].tolist() == (LABELS + 10).tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_parts_of_a_map_are_judged_as_the_whole(tmp_path, monkeypatch, dtype):
    np.save(tmp_path / "p.npy", PROBS.astype(dtype))
    mapped = np.load(tmp_path / "p.npy", mmap_mode="r")
    seen, said = judge_labels(read_given(LABELS, np.asarray(mapped, np.float32)))
    monkeypatch.setattr(probabilities, "_CHECKED", 3 * 13)
    monkeypatch.setattr(probabilities, "_SAMPLED", 11)
    seen_in_parts, said_in_parts = judge_labels(read_given(LABELS, mapped))
    for whole, parts in zip((*seen, *said), (*seen_in_parts, *said_in_parts), strict=True):
        np.testing.assert_allclose(parts, whole, rtol=2e-5)
    assert seen.confidence.tolist() == [PROBS.astype(dtype).astype(np.float32)[i, k] for i, k in enumerate(LABELS)]


def test_no_torch_for_one_label_a_row():
    code = "import sys, numpy as np; from pidual import find_label_issues\n"
    code += "find_label_issues([0, 1] * 9, np.full((18, 2), 0.5)); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)


@pytest.fixture(scope="module")
def wide():
    """Labels of three annotators, one of whom guesses; some are missing."""
    rng = np.random.default_rng(1)
    labels = np.stack([LABELS, np.where(rng.random(300) < 0.1, rng.integers(0, 3, 300), LABELS)], 1)
    labels = np.c_[labels, rng.integers(0, 3, 300)].astype(float)
    labels[rng.random(labels.shape) < 0.3] = np.nan
    labels[:, 0] = LABELS
    return labels


def test_labels_of_several_annotators(wide):
    mask = find_label_issues(wide, PROBS)
    assert mask.shape == wide.shape
    assert not mask[np.isnan(wide)].any()
    assert mask[:, 2].sum() > 3 * mask[:, 1].sum()
    ranked = find_label_issues(wide, PROBS, return_indices_ranked_by="label_quality")
    assert sorted(map(tuple, ranked.tolist())) == list(map(tuple, np.argwhere(mask).tolist()))
    whole = np.where(np.isnan(wide), -1, wide).astype(int)
    names = pd.DataFrame(np.where(whole < 0, None, np.array(NAMES, object)[whole]), columns=["x", "y", "z"])
    frame = find_label_issues(names, PROBS, as_frame=True)
    assert len(frame) == (whole >= 0).sum()
    assert set(frame["annotator"]) == {"x", "y", "z"}
    said = [NAMES[whole[row, "xyz".index(who)]] for row, who in zip(frame["row"], frame["annotator"], strict=True)]
    assert frame["given_label"].tolist() == said
    assert (find_label_issues(whole, PROBS) == mask).all()


def test_known_annotators_count():
    rng = np.random.default_rng(2)
    who = np.where(rng.random(300) < 0.3, "guesser", "expert")
    labels = np.where(who == "guesser", rng.integers(0, 3, 300), LABELS)
    frame = find_label_issues(labels, PROBS, annotators=who, as_frame=True)
    assert frame["annotator"].tolist() == who.tolist()
    rates = frame.groupby("annotator")["is_label_issue"].mean()
    assert rates["guesser"] > 3 * rates["expert"]


# --- what is refused ---


def changed(array, row, value, column=None):
    """A copy with another value."""
    array = np.array(array)
    array[row if column is None else (row, column)] = value
    return array


BAD = [
    (np.zeros_like(LABELS), PROBS, "labels holds the class 0 alone"),
    (np.eye(3)[LABELS], PROBS, r"looks like one-hot labels; .* give labels.argmax\(1\)"),
    (LABELS.astype(float), PROBS, r"or names of classes; give labels.astype\(int\)"),
    (LABELS[:-1], PROBS, "labels has 299 rows and pred_probs has 300"),
    (LABELS[:0], PROBS[:0], r"pred_probs has the shape \(0, 3\)"),
    (LABELS[:0], PROBS, r"labels has the shape \(0,\)"),
    (LABELS, PROBS[:, 0], r"pred_probs has the shape \(300,\)"),
    (LABELS, PROBS[:, :1], "has one column"),
    (LABELS, PROBS.astype(str), "must be numbers"),
    (LABELS, PROBS.astype(object), "must be numbers"),
    (LABELS, changed(PROBS, 7, np.nan, 1), r"pred_probs, row 7 \(counted from 0\), column 1: the probability is nan"),
    (LABELS, np.log(PROBS), r"row 0 .*is not a probability; for logits"),
    (LABELS, PROBS / 2, r"row 0 .*sum to 0.5, not to 1"),
    (changed(LABELS, 5, 3), PROBS, r"labels, row 5 \(counted from 0\): 3 is not a class.*from 0 to 2"),
    (changed(LABELS, 5, -1), PROBS, r"labels, row 5 .*-1 is not a class"),
    (LABELS + 0.5, PROBS, "float64; labels are whole numbers or names"),
    (LABELS.astype(float), PROBS, "float64; labels are whole numbers or names"),
    (changed(LABELS.astype(float), 3, np.nan), PROBS, "row 3 .*the label is missing"),
    ([*NAMES, None] * 75, PROBS, "row 3 .*the label is missing"),
    (["ape", "bee"] * 150, PROBS, r"labels has 2 names \(ape, bee\) and pred_probs 3 columns"),
    (np.array([*NAMES, 2.5] * 75, dtype=object), PROBS, "row 3 .*2.5 is of the type float"),
    ([[0], [1, 2]], PROBS[:2], "rows of different lengths"),
    (LABELS.reshape(3, 10, 10), PROBS, "one label per row, or a column for every annotator"),
    (np.full((300, 2), -1), PROBS, "holds no label"),
    (np.full((300, 2), 0.5), PROBS, "row 0, column 0 .*0.5 is of the type float64"),
    (np.stack([LABELS, np.full(300, 9)], 1), PROBS, "row 0, column 1 .*9 is not a class"),
]


@pytest.mark.parametrize(("labels", "probs", "words"), BAD)
def test_what_cannot_be_judged_is_refused_in_one_sentence(labels, probs, words):
    with pytest.raises(DataError, match=words) as refusal:
        find_label_issues(labels, probs)
    assert str(refusal.value).endswith(".")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"filter_by": "both"}, "leave filter_by out"),
        ({"rank_by_kwargs": {"adjust_pred_probs": True}}, "rank_by_kwargs is not used"),
        ({"confident_joint": np.eye(3)}, "confident_joint is not used"),
        ({"multi_label": True, "annotators": ["a"] * 300}, "multi_label has no annotators"),
        ({"return_indices_ranked_by": "luck"}, "must be one of label_quality, self_confidence"),
        ({"frac_noise": 2}, "frac_noise must be a share"),
        ({"num_to_remove_per_class": [1]}, "has 1 numbers and there are 3 classes"),
        ({"classes": ["a", "a", "b"]}, "classes has 'a' twice"),
    ],
)
def test_options_that_have_no_meaning_here(options, words):
    with pytest.raises(UsageError, match=words):
        find_label_issues(LABELS, PROBS, **options)


def make_sets(n=300, k=4, seed=0):
    """Lists of classes, some with a class added or dropped, and probabilities that do not sum to one."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n, k)) < np.linspace(0.5, 0.15, k)
    p = 1 / (1 + np.exp(-(6 * truth - 3 + rng.normal(size=(n, k)))))
    wrong = rng.random((n, k)) < 0.05
    return [np.flatnonzero(row).tolist() for row in truth ^ wrong], p, wrong


def test_rows_with_several_classes_are_judged_class_by_class():
    labels, p, wrong = make_sets()
    mask = find_label_issues(labels, p, multi_label=True)
    assert mask.dtype == bool
    assert mask.shape == (300,)
    assert wrong.any(1)[mask].mean() > 0.9
    assert mask[wrong.any(1)].mean() > 0.9
    for by in ("self_confidence", "label_quality"):
        ranked = find_label_issues(labels, p, multi_label=True, return_indices_ranked_by=by)
        assert sorted(ranked) == np.flatnonzero(mask).tolist()
    frame = find_label_issues(labels, p, multi_label=True, as_frame=True, classes=range(4))
    found = frame[frame["is_label_issue"]]
    assert wrong[found["row"], found["tag"].astype(int)].mean() > 0.9
    assert [row["tag"] in labels[row["row"]] for row in frame.to_dict("records")] == frame["has_tag"].tolist()
    named = [["abcd"[one] for one in several] for several in labels]
    np.testing.assert_array_equal(find_label_issues(named, p, multi_label=True, classes=list("abcd")), mask)
    few = find_label_issues(
        labels, p, multi_label=True, num_to_remove_per_class=[[0, 1], [0, 0], [2, 0], [0, 0]], as_frame=True
    )
    few = few[few["is_label_issue"]]
    assert sorted(zip(few["tag"].astype(int), few["has_tag"], strict=True)) == [(0, True), (2, False), (2, False)]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([[0], 1, *[[2]] * 298], r"row 1 .* is not a list"),
        ([[0], [9], *[[2]] * 298], r"row 1 .*9 is not a class; the classes are 0, 1, 2, 3"),
        ([[0]], "labels has 1 rows and pred_probs has 300"),
    ],
)
def test_lists_of_classes_that_cannot_be_read(labels, words):
    with pytest.raises(DataError, match=words):
        find_label_issues(labels, make_sets()[1], multi_label=True)


def test_classes_whose_probabilities_say_nothing_are_named():
    labels, p, _ = make_sets()
    p[:, 1] = np.random.default_rng(1).random(300)
    with pytest.warns(DataWarning, match=r"issues of 1 of 4 classes \(1\)"):
        find_label_issues(labels, p, multi_label=True)


def test_annotators_and_items_that_cannot_be():
    with pytest.raises(DataError, match=r"annotators has the shape \(5,\) and there are 300 rows"):
        find_label_issues(LABELS, PROBS, annotators=["a"] * 5)
    with pytest.raises(DataError, match=r"annotators, row 2 .*missing"):
        find_label_issues(LABELS, PROBS, annotators=["a", "b", None] * 100)
    with pytest.raises(UsageError, match="so leave out `annotators`"):
        find_label_issues(np.stack([LABELS, LABELS], 1), PROBS, annotators=["a"] * 300)
    with pytest.raises(UsageError, match="so each row is an item; leave out `items`"):
        find_label_issues(np.stack([LABELS, LABELS], 1), PROBS, items=["a"] * 300)
    with pytest.raises(DataError, match=r"200 rows for 300 labels of 2 items, and none for item 'a'; give"):
        find_label_issues(LABELS, PROBS[:200], items=["a", "b"] * 150)
    with pytest.raises(UsageError, match=r"p\.csv is not a \.npy or \.npz file"):
        find_label_issues(LABELS, "p.csv")


def test_the_index_of_labels_is_kept_and_one_in_another_order_is_mentioned():
    index = pd.Index([f"row-{k}" for k in range(300)])[::-1]
    labels = pd.Series(LABELS, index=index)
    frame = find_label_issues(labels, PROBS, as_frame=True)
    assert frame.index.equals(index)
    pd.testing.assert_frame_equal(
        frame.reset_index(drop=True), find_label_issues(LABELS, PROBS, as_frame=True), check_index_type=False
    )
    pred_probs = pd.DataFrame(PROBS, index=index)
    assert find_label_issues(labels, pred_probs, as_frame=True).equals(frame)
    with pytest.warns(DataWarning, match=r"^pred_probs has the index of labels in another order, but .*by position"):
        find_label_issues(labels, pred_probs.set_axis(index[::-1]))


def answers_of_items():
    """Three answers to each of 100 items, in a mixed order, and probabilities by item."""
    random = np.random.default_rng(3)
    items = random.permutation(np.repeat(np.arange(100), 3))
    truth = random.integers(0, 3, 100)
    labels = np.where(random.random(300) < 0.2, random.integers(0, 3, 300), truth[items])
    return items, labels, 0.3 * random.dirichlet([1, 1, 1], 100) + 0.7 * np.eye(3)[truth], random.integers(0, 9, 300)


def test_answers_to_an_item_are_judged_together():
    items, labels, p, who = answers_of_items()
    names = np.array([f"item {k}" for k in range(100)])[items]
    frame = find_label_issues(labels, p[items], items=items, annotators=who, as_frame=True)
    together = judge(pd.DataFrame({"item": items, "label": labels, "annotator": who}), p).predictions
    np.testing.assert_allclose(frame["label_quality"], together["label_quality"], atol=1e-5)
    assert (frame["item"] == items).all()
    assert (frame["annotator"] == who).all()
    assert frame.groupby("item")["consensus_label"].nunique().max() == 1
    assert find_label_issues(labels, p[items], annotators=who, items=items).tolist() == frame["is_label_issue"].tolist()
    ranked = find_label_issues(labels, p, items=items, annotators=who, return_indices_ranked_by="label_quality")
    assert set(ranked) == set(np.flatnonzero(frame["is_label_issue"]))
    for probs, named in (
        (p, items),
        (pd.DataFrame(p, index=[f"item {k}" for k in range(100)])[::-1], names),
        (p[items], names),
    ):
        again = find_label_issues(labels, probs, items=named, annotators=who, as_frame=True)
        np.testing.assert_allclose(again["label_quality"], frame["label_quality"], atol=1e-5)
    alone = find_label_issues(labels, p, items=items, as_frame=True)  # nobody is known
    assert "annotator" not in alone
    assert alone.groupby("item")["consensus_label"].nunique().max() == 1


def test_answers_to_an_item_without_its_name_give_a_hint():
    items, labels, p, _ = answers_of_items()
    who = pd.Series(items).groupby(items).cumcount().to_numpy()
    with pytest.warns(DataWarning, match="Rows of pred_probs repeat, with other annotators, .* give items="):
        find_label_issues(labels, p[items], annotators=who)
    find_label_issues(labels, p[items], annotators=who, items=items)
    find_label_issues(LABELS, PROBS, annotators=np.arange(300) % 5)


# --- the command ---


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Labels, probabilities and more in files."""
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "y.npy", LABELS)
    np.save(folder / "p.npy", PROBS.astype(np.float32))
    np.save(folder / "names.npy", np.array(NAMES)[LABELS])
    np.save(folder / "objects.npy", np.array([{}] * 300, dtype=object), allow_pickle=True)
    np.save(folder / "logits.npy", np.log(PROBS))
    np.savez(folder / "all.npz", labels=LABELS, other=LABELS)
    rng = np.random.default_rng(0)
    frame = {"name": [f"i{row}" for row in range(300)], "label": np.array(NAMES)[LABELS]}
    pd.DataFrame(frame | {"who": rng.choice(["ann", "bob"], 300)}).to_csv(folder / "t.csv", index=False)
    pd.DataFrame({"said": LABELS}).to_csv(folder / "one.csv", index=False)
    return folder


def detect(folder, *words):
    """`pidual detect` with files of a folder."""
    return run_cli(
        ["detect", *[folder / word if "." in str(word) and "%" not in str(word) else word for word in words]]
    )


def test_suspects_from_files(files, tmp_path):
    code, out, err = detect(files, "--labels", "y.npy", "--probs", "p.npy", "--out", str(tmp_path / "s.csv"))
    assert (code, out) == (0, "")
    found = pd.read_csv(tmp_path / "s.csv")
    expected = find_label_issues(LABELS, PROBS.astype(np.float32), return_indices_ranked_by="label_quality")
    assert found["row"].tolist() == expected.tolist()
    assert (found["reason"].str.len() > 10).all()
    assert "split" not in found
    precision = (1 - found["label_quality"]).mean()
    assert err.startswith(f"{len(found)} labels listed; about {precision:.0%} expected to be wrong (between ")


def test_probabilities_that_say_nothing_pass_no_gate(files):
    np.save(files / "other.npy", PROBS[np.random.default_rng(1).permutation(len(PROBS))])
    asked = ("--labels", "y.npy", "--probs", "other.npy")
    code, out, err = detect(files, *asked, "--fail-over", "100%")
    assert (code, out) == (1, "")
    assert f"y.npy cannot be judged by {files / 'other.npy'}. The probabilities say nothing about the labels" in err
    code, _, err = detect(files, *asked)
    assert code == 0
    assert err.startswith("Warning: the judgement failed: The probabilities say nothing about the labels")
    assert json.loads(detect(files, *asked, "--json")[1])["verdict"]["status"] == "failed"


@pytest.mark.parametrize(
    "words",
    [
        ("--labels", "names.npy"),
        ("--labels", "t.csv"),
        ("--labels", "t.csv:label", "--items", "name"),
        ("--labels", "t.csv", "--items", "t.csv:name", "--classes", "ape,bee,cow"),
        ("--labels", "one.csv", "--classes", "ape,bee,cow"),
        ("--labels", "all.npz", "--classes", "ape,bee,cow"),
    ],
)
def test_labels_from_any_file(files, words):
    code, out, _ = detect(files, *words, "--probs", "p.npy", "--budget", 4, "--class", "bee")
    assert code == 0
    rows = [line.split(",") for line in out.splitlines()]
    assert len(rows) == 5
    assert {row[2] for row in rows[1:]} == {"bee"}
    named = rows[1][1] == f"i{rows[1][0]}"
    assert named == ("--items" in words)


def test_annotators_from_a_column(files):
    code, out, _ = detect(
        files, "--labels", "t.csv", "--probs", "p.npy", "--annotator", "who", "--by", "ann", "--budget", 3
    )
    assert code == 0
    rows = [line.split(",") for line in out.splitlines()]
    at = rows[0].index("annotator") - len(rows[0])  # from the end: reasons have commas
    assert [row[at] for row in rows[1:]] == ["ann"] * 3


def test_a_gate_on_probabilities(files):
    words = ("--labels", "y.npy", "--probs", "p.npy", "--json")
    code, out, _ = detect(files, *words, "--fail-over", "1%")
    assert code == 3
    found = json.loads(out)
    assert found["n_rows"] == 300
    assert found["n_issues"] == found["n_listed"] == find_label_issues(LABELS, PROBS).sum()
    assert found["estimated_noise_rate"] == pytest.approx(WRONG.mean(), abs=0.05)
    assert detect(files, *words, "--fail-over", "90%")[0] == 0


@pytest.mark.parametrize(
    ("words", "exit_code", "sentence"),
    [
        ([], 2, "Give a RUN, or both labels and probabilities, with --labels and --probs."),
        (["--probs", "p.npy"], 2, "Give a RUN, or both labels and probabilities, with --labels and --probs."),
        (["--labels", "y.npy"], 2, "Give a RUN, or both labels and probabilities, with --labels and --probs."),
        (["--items", "y.npy"], 2, "Give a RUN, or both labels and probabilities, with --labels and --probs."),
        (["run", "--labels", "y.npy", "--probs", "p.npy"], 2, "Give a RUN, or --labels and --probs, not both"),
        (["--labels", "none.npy", "--probs", "p.npy"], 2, "none.npy does not exist"),
        (["--labels", "y.npy", "--probs", "none.npy"], 2, "none.npy does not exist"),
        (["--labels", "y.npy", "--probs", "t.csv"], 2, "t.csv is not a .npy or .npz file"),
        (["--labels", "objects.npy", "--probs", "p.npy"], 1, "objects.npy cannot be read as a plain NumPy file"),
        (["--labels", "y.npy", "--probs", "objects.npy"], 1, "objects.npy cannot be read as a plain NumPy file"),
        (["--labels", "y.npy", "--probs", "logits.npy"], 1, "logits.npy, row 0"),
        (["--labels", "t.csv:lable", "--probs", "p.npy"], 2, "did you mean 'label'?"),
        (["--labels", "y.npy:label", "--probs", "p.npy"], 2, "has no columns; give --labels without ':label'"),
        (["--labels", "y.npy", "--probs", "p.npy", "--annotator", "who"], 2, "who does not exist"),
        (["--labels", "t.csv", "--probs", "p.npy", "--annotator", "none"], 2, "has no column 'none'"),
        (["--labels", "t.csv", "--probs", "p.npy", "--classes", "ape,bee"], 1, "labels have 2 classes (ape, bee)"),
        (["--labels", "t.csv", "--probs", "p.npy", "--classes", "a,b,c,d,e,f"], 1, "6 classes (a, b, c, d, e, f)"),
    ],
)
def test_files_that_cannot_be_used(files, tmp_path, words, exit_code, sentence):
    code, out, err = detect(files, *words, "--out", str(tmp_path / "s.csv"))
    assert (code, out) == (exit_code, "")
    assert sentence in err
    assert err.startswith("Error: ")
    assert len(err.splitlines()) == 1
    assert [*tmp_path.iterdir()] == []


def test_a_table_of_several_columns_needs_a_name(files):
    pd.DataFrame({"a": [1], "b": [2]}).to_csv(files / "two.csv", index=False)
    with pytest.raises(UsageError, match=r"say which one has the labels, as --labels .*two.csv:COLUMN"):
        read_values(str(files / "two.csv"), "labels")


@pytest.mark.parametrize("annotators", [None, np.arange(len(LABELS)) % 5])
def test_reasons_are_not_worked_out_where_nobody_sees_them(monkeypatch, annotators):
    monkeypatch.setattr("pidual.detect.cutoff.find_reasons", lambda *given: pytest.fail("reasons were worked out"))
    assert find_label_issues(LABELS, PROBS, annotators=annotators).any()
