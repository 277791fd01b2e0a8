"""The parts of benchmarks/detection.py: columns, summary, tables; with cleanlab installed, one small run."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score


@pytest.fixture(scope="module")
def scored():
    """200 labels, a quarter of them wrong, with a quality that tells them apart except for some."""
    rng = np.random.default_rng(0)
    wrong = rng.random(200) < 0.25
    quality = np.clip(rng.normal(np.where(wrong, 0.3, 0.8), 0.2), 0, 1).round(2)
    label = np.arange(200) % 3
    frame = pd.DataFrame({"item": np.arange(200), "label": label, "y": np.where(wrong, (label + 1) % 3, label)})
    return frame, quality, wrong


def test_columns_are_those_of_a_plain_count(benchmark, scored):
    frame, quality, wrong = scored
    scores = benchmark("detection_scores")
    issue = quality < 0.4
    found = scores.Found(quality, issue, 0.3, 0.2, 0.35, 0.9, 0.6, 0.95, 1.5, {"verdict": "ok"})
    row = scores.score(found, frame)
    hits = sum(bool(a and b) for a, b in zip(issue, wrong, strict=True))
    assert row["f1"] == pytest.approx(f1_score(wrong, issue), abs=1e-4)
    assert row["precision"] == pytest.approx(hits / issue.sum(), abs=1e-4)
    assert row["recall"] == pytest.approx(hits / wrong.sum(), abs=1e-4)
    assert row["best_f1"] == pytest.approx(max(f1_score(wrong, quality <= cut) for cut in quality), abs=1e-4)
    assert row["noise_error"] == pytest.approx(0.3 - wrong.mean(), abs=1e-4)
    assert row["covered"] is bool(0.2 <= wrong.mean() <= 0.35)
    assert row["gap"] == pytest.approx(0.9 - hits / issue.sum(), abs=1e-4)
    assert row["gap_covered"] is bool(0.6 <= hits / issue.sum() <= 0.95)
    pairs = [(a < b) + (a == b) / 2 for a in quality[wrong] for b in quality[~wrong]]
    assert row["auc"] == pytest.approx(np.mean(pairs), abs=1e-4)
    assert row["verdict"] == "ok"
    assert row["seconds"] == 1.5


def test_what_is_expected_of_as_many_as_are_wrong(benchmark, scored):
    _, quality, wrong = scored
    scores = benchmark("detection_scores")
    lowest = sorted(range(200), key=lambda row: quality[row])[:75]
    expected = sum(1 - quality[row] for row in lowest) - sum(bool(wrong[row]) for row in lowest)
    assert scores.gap_at(75, quality, wrong) == pytest.approx(expected / 75)


def rows_of(*cells):
    keys = ("data", "method", "seed", "auc", "f1", "best_f1", "noise_error", "covered", "recall")
    rest = {"ap": 0.5, "precision": 0.5, "noise": 0.1, "gap": None, "gap_n": None, "seconds": 2.0}
    return [dict(zip(keys, each, strict=True)) | rest for each in cells]


def test_the_tables_say_where_cleanlab_leads(benchmark):
    made = benchmark("detection_table").tables(
        rows_of(
            ("fraud", "auto", 0, 0.9, 0.8, 0.8, 0.01, True, 0.7),
            ("fraud", "cleanlab", 0, 0.95, 0.7, 0.8, 0.02, None, 0.7),
            ("idle_pi", "auto", 0, 0.9, 0.4, 0.8, 0.0, False, 0.5),
            ("idle_pi", "auto", 1, 0.9, 0.8, 0.8, 0.1, True, 0.9),
            ("idle_pi", "cleanlab", 0, 0.9, 0.7, 0.8, 0.02, None, 0.7),
            ("idle_pi", "crowdlab", 0, 0.91, 0.7, 0.8, 0.02, None, 0.7),
            ("idle_pi", "ce", 0, 0.9, 0.7, 0.8, 0.02, None, 0.7),
        )
    )
    goals = made["detection goals"].splitlines()
    assert goals[0].endswith("including CROWDLAB's: 0 of 2 sets; not `fraud`, `idle_pi`.")
    assert goals[1].endswith("1 of 2 sets; not `idle_pi`.")
    assert goals[3] == "- At least 0.85 of it: 1 of 2 sets; not `idle_pi`."
    assert goals[4].endswith("within 3 points: 1 of 2 sets; not `idle_pi`.")
    assert goals[5].startswith("- The interval of the noise rate contains the truth in 2 of 3 fits")
    assert goals[6] == "- `idle_pi`: the list finds 50% of the mistakes or more in 2 draws."
    assert "| `idle_pi`, 2 draws | 0.900 | 0.900 | 0.910 | 0.500 | 0.500 | 0.600 | 0.75 |" in made["detection"]
    assert "| `idle_pi`, 2 draws | 10.0% | +5.0 | 50% | +2.0 |" in made["detection counts"]
    assert "fraud" not in made["detection methods"]
    verdicts = benchmark("detection_table").verdicts
    assert verdicts({"verdicts": ["doubtful", "failed", "doubtful"], "seeds": 4}) == "2 doubtful, 1 failed"
    assert verdicts({"verdicts": ["failed"], "seeds": 1}) == "failed"


def test_every_set_is_in_a_group(benchmark):
    sets = benchmark("detection_sets")
    assert {"fraud", "labelme", "cifar100n", "cifar10_pi:low", "roman_numerals", "cifar10n_worst_3"} <= set(sets.SETS)
    assert {each for names in sets.GROUPS.values() for each in names} == set(sets.SETS)


def test_a_small_run_is_kept_and_judged_again(benchmark, tmp_path, monkeypatch):
    pytest.importorskip("cleanlab")
    detection, sets, common = benchmark("detection"), benchmark("detection_sets"), benchmark("common")
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 300)
    label = np.where(rng.random(300) < 0.15, (y + 1) % 3, y)
    p = np.exp(rng.normal(size=(300, 3)) + 4 * np.eye(3)[y])
    stored = sets.Stored(pd.DataFrame({"item": np.arange(300), "label": label, "y": y}), p / p.sum(1, keepdims=True))
    monkeypatch.setitem(detection.SETS, "no_pi", lambda seed: stored)
    log = common.Log(tmp_path / "detection.jsonl", "data", "method", "seed")
    cache = detection.Cache(tmp_path / "cache")
    detection.compare(["no_pi"], ["auto", "cleanlab", "crowdlab"], 1, log, cache)
    assert [row["method"] for row in log.rows] == ["auto", "cleanlab"]
    assert all(row["auc"] > 0.9 and row["f1"] > 0.6 for row in log.rows)
    assert log.rows[1]["filter_f1"] >= log.rows[1]["f1"]
    kept = common.Log(tmp_path / "detection.jsonl", "data", "method", "seed")
    monkeypatch.setitem(detection.SETS, "no_pi", None)  # not asked for: rows are there
    detection.compare(["no_pi"], ["auto", "cleanlab"], 1, kept, cache)
    detection.forget(kept, ["no_pi"], ["auto"])
    assert [row["method"] for row in common.read_rows(kept.path)] == ["cleanlab"]
    assert cache.get("x:y", lambda: 3)[0] == 3
    assert cache.get("x:y", lambda: 4)[0] == 3
    assert detection.Cache(None).get("x", lambda: 4)[0] == 4
