"""`--levels` and `--truth-classes`: ratings are read as the classes that they speak for."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli
from sklearn.metrics import cohen_kappa_score

from pidual import Run
from pidual.data import open_source, read_table
from pidual.detect.agreement import ordinal_alpha, weighted_kappa
from pidual.errors import DataError, UsageError
from pidual.fit.levels import in_classes
from pidual.run.decisions import Store

pytestmark = pytest.mark.shapes_unchecked

LEVELS, CLASSES = ["1", "2", "3", "4", "5"], ["fail", "pass"]
READ = ["--label", "rating", "--annotator", "judge", "--pi", "judge", "--no-answer", "skip"]
WORDS = ["fit", "ratings.csv", *READ, "--no-x", "--keep-ids", "--quiet"]
SCALE = ["--levels", ",".join(LEVELS), "--truth-classes", ",".join(CLASSES)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten judges, some harsh and some lenient, rate 400 items from 1 to 5; 60% of these should pass."""
    rng, path = np.random.default_rng(5), tmp_path_factory.mktemp("ratings")
    item, judge = np.divmod(np.arange(4000), 10)
    kept = rng.permuted(np.tile(np.arange(10) < 5, (400, 1)), axis=1).ravel()
    passes, harsh = rng.random(400) < 0.6, np.linspace(-1.2, 1.2, 10)
    liking = np.where(passes, 0.7, -0.7) + rng.normal(0, 0.6, 400)
    score = liking[item] - harsh[judge] + rng.normal(size=4000) * rng.uniform(0.5, 1.3, 10)[judge]
    rating = 1 + np.digitize(score, [-1.2, -0.4, 0.4, 1.2])
    said = np.where(rng.random(4000) < 0.02, "skip", rating.astype(str))
    frame = pd.DataFrame({"item": item, "judge": [f"j{who}" for who in judge], "rating": said})[kept]
    frame["y"] = np.array(CLASSES)[passes * 1][frame["item"]]
    frame["truth"] = frame["y"].where(frame["item"] % 5 == 0)
    frame.to_csv(path / "ratings.csv", index=False)
    return path


def read(folder):
    """The table in classes, and the ratings."""
    opened, text = in_classes(
        open_source(folder / "ratings.csv"), LEVELS, CLASSES, label="rating", annotator="judge", no_answer=["skip"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = read_table(opened, label="rating", annotator="judge", no_answer=["skip"], keep_ids=True)
    raw = pd.read_csv(folder / "ratings.csv")
    return table, raw[raw["rating"] != "skip"].reset_index(drop=True), text


def test_a_rating_speaks_for_a_class_by_who_gave_it(folder):
    table, raw, _ = read(folder)
    said = pd.DataFrame({"judge": raw["judge"], "rating": raw["rating"].astype(int), "class": table.frame["label"]})
    assert len(said.drop_duplicates()) == len(said[["judge", "rating"]].drop_duplicates())
    passing = said.assign(passes=said["class"] == "pass").pivot_table("passes", "judge", "rating", aggfunc="first")
    assert all(row.dropna().astype(int).is_monotonic_increasing for _, row in passing.iterrows())
    least = said[said["class"] == "pass"].groupby("judge")["rating"].min()
    assert least["j0"] > least["j9"]  # of the most lenient and the harshest
    right, cut = said["class"] == raw["y"], np.where(said["rating"] > 3, "pass", "fail") == raw["y"]
    assert right.mean() > cut.mean() + 0.02
    assert sum(table.no_answers.values()) == len(pd.read_csv(folder / "ratings.csv")) - len(raw) > 20
    assert (table.frame["y"].astype(str) == raw["y"]).all()
    assert (table.frame["truth"].astype(object).fillna("") == raw["truth"].fillna("")).all()


def test_agreement_on_levels_is_that_of_loops(folder):
    _, raw, text = read(folder)
    item, who, level = raw["item"].to_numpy(), pd.factorize(raw["judge"])[0], raw["rating"].astype(int).to_numpy() - 1
    counts = np.bincount(level)

    def off(a, b):  # Krippendorff's ordinal difference
        low, high = min(a, b), max(a, b)
        return (counts[low : high + 1].sum() - (counts[low] + counts[high]) / 2) ** 2 if low < high else 0.0

    units = [level[item == each] for each in np.unique(item)]
    observed = sum(sum(off(a, b) for a, b in itertools.permutations(u, 2)) / (len(u) - 1) for u in units)
    chance = sum(counts[a] * counts[b] * off(a, b) for a in range(5) for b in range(5)) / (len(level) - 1)
    alpha, low, high = ordinal_alpha(item, level)
    assert alpha == pytest.approx(1 - observed / chance)
    rng, places = np.random.default_rng(0), {each: np.flatnonzero(item == each) for each in np.unique(item)}
    drawn = []
    for _ in range(300):
        rows = [places[each] for each in rng.choice(np.unique(item), len(places))]
        numbers = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
        drawn.append(ordinal_alpha(numbers, level[np.concatenate(rows)])[0])
    assert (high - low) / 3.92 == pytest.approx(np.std(drawn), rel=0.15)
    kappas, sizes = [], []
    for a, b in itertools.combinations(range(10), 2):
        both = raw[who == a].merge(raw[who == b], on="item")
        kappas.append(cohen_kappa_score(both["rating_x"], both["rating_y"], weights="quadratic"))
        sizes.append(len(both))
    kappa = weighted_kappa(item, who, level)
    assert kappa == pytest.approx(np.average(kappas, weights=sizes))
    assert text.endswith(
        f"ordinal alpha {alpha:.2f} ({low:.2f} to {high:.2f}), weighted kappa of two annotators {kappa:.2f} on average."
    )


def test_a_fit_of_ratings_is_corrected_by_a_column_of_known_classes(folder, monkeypatch):
    monkeypatch.chdir(folder)
    code, _, err = run_cli([*WORDS, *SCALE, "--out", "run"])
    assert (code, "5 levels are read as the classes they speak for; ordinal alpha" in err) == (0, True)
    run, raw = Run("run"), pd.read_csv("ratings.csv")
    true, found = raw.groupby("item")["y"].first(), run.summary.gold
    frame = run.predictions.frame
    wrong = (frame["given_label"].astype(str) != frame["item"].astype(int).map(true)).mean()
    assert (found.n_gold, found.noise.low < wrong < found.noise.high) == (80, True)
    passing = next(each for each in found.shares if each.label == "pass")
    assert passing.low < (true == "pass").mean() < passing.high
    store = Store(run)
    store.add(0, "keep", str(frame["given_label"][0]), reviewer="ann", request="first")
    store.close()
    assert run_cli(["fit", "--from", "run", "--out", "again", "--quiet"])[0] == 0
    assert Run("again").predictions.frame["given_label"].equals(frame["given_label"])
    code, _, err = run_cli(["export", "run", "clean.csv", "--to", "csv"])
    assert (code, "Ratings cannot be replaced by classes; export --soft has" in err) == (2, True)
    assert run_cli(["export", "run", "soft.csv", "--to", "csv", "--soft"])[0] == 0


@pytest.mark.parametrize(
    ("levels", "classes", "kind", "said"),
    [
        (LEVELS[:4], CLASSES, DataError, "label '5' is not one of --levels"),
        (LEVELS, ["pass"], UsageError, "at least two names each"),
        (["1", "5"], ["a", "b", "c"], UsageError, "no more classes than levels"),
        (["1", "1", "5"], CLASSES, UsageError, "--levels and --truth-classes"),
    ],
)
def test_scales_that_do_not_fit_are_refused(folder, levels, classes, kind, said):
    with pytest.raises(kind, match=said):
        in_classes(open_source(folder / "ratings.csv"), levels, classes, label="rating", no_answer=["skip"])
