"""What a report says about verdict, amounts, annotators, classes and PI, and of runs that do not know them."""

import re

import numpy as np
import pandas as pd
import pytest
from fabricated import Page, change_files, fabricate_run, page_of

from pidual.api.run import Run
from pidual.detect import mark_issues
from pidual.errors import RunError
from pidual.run.predictions import Predictions, read_frame, write_frame
from pidual.run.records.config import Config
from pidual.run.records.reading import as_record, file_digest
from pidual.run.records.summary import Summary
from pidual.show.report import build_report, people
from pidual.show.report.people import annotators, axis_of, by_class
from pidual.show.report.sections import amounts, data_name, why

pytestmark = pytest.mark.shapes_unchecked

NAMES = ["cat", "<i>dog</i>", "owl"]
FOUND = {
    "noise": {"rate": 0.2, "low": 0.15, "high": 0.26},
    "detection": {
        "expected_precision": 0.9,
        "precision_low": 0.84,
        "precision_high": 0.95,
        "curve": [
            {"n": 10, "expected_wrong": 9.8, "precision": 0.98},
            {"n": 50, "expected_wrong": 45.0, "precision": 0.9},
            {"n": 400, "expected_wrong": 300.0, "precision": 0.75},
        ],
        "classes": [
            {"class": "cat", "given": 130, "issues": 7, "expected_wrong": 12.4},
            {"class": "<i>dog</i>", "given": 140, "issues": 70, "expected_wrong": 64.2},
        ],
    },
    "agreement": {
        "alpha": 0.612,
        "alpha_low": 0.58,
        "alpha_high": 0.65,
        "mean_kappa": 0.6,
        "pairs": [{"a": "a-1", "b": "<i>b</i>", "kappa": -0.125, "items": 31}],
    },
    "classes": {
        "names": NAMES,
        "transitions": [[0.9, 0.07, 0.03], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]],
        "pairs": [{"true": "<i>dog</i>", "given": "cat", "count": 51.7, "share": 0.4}],
        "advice": ["cat and <i>dog</i> are mistaken for each other: define them better."],
    },
    "pi_health": [{"column": "<i>tool</i>", "problem": "constant", "text": "It has one value; leave it out."}],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fabricate_run(tmp_path_factory.mktemp("runs") / "full", n_items=200, classes=NAMES, noise=0.15)


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A run that knows all there is to know."""
    path = fabricate_run(tmp_path_factory.mktemp("runs") / "known", n_items=200, classes=NAMES, noise=0.15)
    people = read_frame(path / "annotators.parquet")
    n = len(people)
    people = people.assign(
        harm=np.linspace(0, 1, n),
        expected_wrong=np.linspace(3, 9, n),
        worst_class_accuracy=0.28,
        agreement=np.where(np.arange(n) % 2, np.nan, 0.43),
        median_seconds=2.75,
    )
    write_frame(path / "annotators.parquet", people)
    effects = [
        {"column": "tool", "low": "web", "high": "phone", "right_at_low": 0.6, "right_at_high": 0.9, "tells": False}
        | {"difference": 0.25, "difference_low": -0.05, "difference_high": 0.55},
        {"column": "seconds", "low": 1.5, "high": 12.0, "right_at_low": 0.7, "right_at_high": 0.8, "tells": True}
        | {"difference": 0.1, "difference_low": 0.04, "difference_high": 0.16},
    ]
    doubt = {"status": "doubtful", "reasons": ["Networks <i>disagree</i> on 31% of the suspects."]}
    change_files(path, FOUND | {"verdict": doubt, "pi_effects": effects})
    return path


@pytest.fixture(scope="module")
def page(known):
    return page_of(known)


def read_with(path, **changes):
    """The run as if its config or summary had other values."""
    run, kinds = Run(path), {"config": Config, "summary": Summary}
    made = {name: as_record(name, getattr(run, name).to_json() | new, kinds[name]) for name, new in changes.items()}
    return Run.holding(path, **made)


def page_with(path, summary):
    return Page(build_report(read_with(path, summary=summary)).read_text(encoding="utf-8"))


def test_sections_of_what_a_run_does_not_know_are_left_out(run):
    detection = FOUND["detection"] | dict.fromkeys(("expected_precision", "precision_low", "precision_high"))
    nothing = {"agreement": None, "pi_effects": None, "pi_directions": None, "pi_health": []}
    page = page_with(run, nothing | {"detection": detection})
    for absent in ("Krippendorff", "Where answers are right more often", "Expected hits"):
        assert absent not in page.words
    assert {attrs["href"] for attrs in page.all("a")} >= {"#suspects", "#annotators", "#classes", "#settings"}
    assert "#pi" not in {attrs["href"] for attrs in page.all("a")}


def test_the_page_of_a_run_that_knows_all_is_well_formed(page):
    assert page.unclosed == []
    assert not [attrs for attrs in page.all("i") if "style" not in attrs]  # those of bars are ours
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for attrs in page.all("a")} <= set(ids)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all("scope" in attrs for attrs in page.all("th"))
    assert {"header", "nav", "main", "footer"} <= {tag for tag, _ in page.tags}


def test_no_two_sentences_run_together(page, run):
    for words in (page.words, page_of(run).words):
        assert not re.search(r"[a-z)%][.;:!][A-Z“][a-z]", words)


def test_the_verdict_comes_before_all_numbers(page):
    start = page.words.index("Verdict: Doubtful: check before you rely on it")
    assert page.words.index("Networks <i>disagree</i> on 31% of the suspects.") > start
    assert page.words.index("Estimated noise") > start + 100


@pytest.mark.parametrize(
    ("status", "title", "says"),
    [("ok", r"\d+ of 400 labels look wrong", "The result looks sound"), ("failed", "This fit failed", "not to act on")],
)
def test_what_the_verdict_does_to_the_headline(run, status, title, says):
    page = page_with(run, FOUND | {"verdict": {"status": status, "reasons": []}})
    assert re.match(title, page.words)
    assert says in page.words
    assert ("An estimated" in page.words) == (status == "ok")


def test_how_many_and_how_sure(known, page):
    n, n_issues = 400, Run(known).summary.n_issues
    assert "About 80 labels (20.0%) are wrong; with 90% probability 15.0% to 26.0%, that is 60 to 104" in page.words
    assert f"Of the {n_issues} flagged, 90.0% should really be wrong (84.0% to 95.0%)" in page.words
    assert f"about {0.9 * n_issues:.0f} should really be wrong" in page.words
    assert "<i>dog</i> 140 64 70 cat 130 12 7" in page.words  # most wrong labels first
    found = amounts(Run(known), Predictions.read(known / "predictions.parquet"))
    x, y = [0, 10, 50, n_issues, 400], [0, 9.8, 45, 0.9 * n_issues, 300]
    for row in found["milestones"]:
        place = max(at for at in range(4) if x[at] < row["n"])
        slope = (y[place + 1] - y[place]) / (x[place + 1] - x[place])
        assert row["wrong"] == pytest.approx(y[place] + slope * (row["n"] - x[place]))
        assert row["precision"] == pytest.approx(row["wrong"] / row["n"])
        assert 1 <= row["n"] <= n
    (flagged,) = [row for row in found["milestones"] if row["n"] == n_issues]
    assert flagged["precision"] == pytest.approx(0.9)  # as the headline says


def test_annotators_who_do_most_harm_come_first_with_what_stands_out(known, page):
    people = read_frame(known / "annotators.parquet").sort_values("harm", ascending=False)
    places = [page.words.index(str(name)) for name in people["annotator"][:1]]
    assert places == [page.words.index(str(people["annotator"].iloc[0]))]
    shown = annotators(people)
    assert [row["annotator"] for row in shown["first"]] == people["annotator"].tolist()[: len(shown["first"])]
    first = shown["first"][0]
    assert first["wrong"] == 9
    assert "(28.0% right)" in page.words
    assert "median 2.75 s" in page.words
    assert "agreement is low: Krippendorff’s alpha is 0.61 (0.58 to 0.65)" in page.words
    assert "a-1 <i>b</i> 31 -0.12" in page.words


def test_the_worst_annotators_are_shown_on_each_class_beside_the_others(run, page):
    people, frame = read_frame(run / "annotators.parquet"), read_frame(run / "annotator_classes.parquet")
    shown = by_class(people, frame)
    worst = people.sort_values("harm", ascending=False, kind="stable")["annotator"].astype(str).tolist()[:10]
    assert [row["name"] for row in shown["rows"]] == worst
    assert shown["classes"] == sorted(NAMES)
    for row in shown["rows"]:
        for name, cell in zip(sorted(NAMES), row["cells"], strict=True):
            found = frame[(frame["annotator"] == row["name"]) & (frame["true_class"] == name)]
            if cell is None:
                assert not len(found)
                continue
            assert cell["accuracy"] == pytest.approx(found["accuracy"].item())
            less = found["others_accuracy"].item() - found["accuracy"].item()
            assert cell["strength"] == pytest.approx(min(max(2 * less, 0), 1), abs=1e-3)
    assert sum(cell is not None for row in shown["rows"] for cell in row["cells"]) > 20
    assert "On which classes they are wrong" in page.words


def test_of_many_classes_those_are_shown_on_which_the_worst_annotators_lose_most(tmp_path):
    path = fabricate_run(tmp_path / "run", n_items=300, classes=[f"class {i}" for i in range(30)], annotators=12)
    frame = read_frame(path / "annotator_classes.parquet")
    shown = by_class(read_frame(path / "annotators.parquet"), frame)
    assert (len(shown["classes"]), shown["total"]) == (12, 30)
    names = [row["name"] for row in shown["rows"]]
    lost = dict.fromkeys(frame["true_class"].cat.categories, 0.0)
    for record in frame.to_dict("records"):
        if record["annotator"] in names:
            lost[record["true_class"]] += record["num_items"] * max(record["others_accuracy"] - record["accuracy"], 0)
    assert {*shown["classes"]} == {*sorted(lost, key=lost.get)[-12:]}
    assert "Shown are the 12 of 30 classes" in page_of(path).words


@pytest.mark.parametrize(
    ("low", "high", "average", "axis"),
    [(0.71, 0.93, 0.85, (0.7, 0.95)), (0.0, 1.0, 0.5, (0, 1)), (0.8, 0.8, 0.8, (0.8, 0.85)), (1, 1, 1, (0.95, 1))],
)
def test_the_axis_of_intervals_is_filled(low, high, average, axis):
    assert axis_of(low, high, average) == pytest.approx(axis)


def test_classes_with_advice_and_what_is_given_where_they_are_true(page):
    assert "cat and <i>dog</i> are mistaken for each other: define them better." in page.words
    assert "<i>dog</i> cat 52 40.0%" in page.words
    assert "cat 90 7 3 <i>dog</i> 40 60 · owl · · 100" in page.words
    assert "Most frequent corrections" not in page.words


@pytest.mark.parametrize("wrong", [[[1.0]], [1, 2, 3], [[1, 0, 0]] * 2, "text"])
def test_a_matrix_of_another_shape_is_refused(run, wrong):
    with pytest.raises(RunError, match="transitions"):
        page_with(run, {"classes": FOUND["classes"] | {"transitions": wrong}})


def test_privileged_information_that_tells_comes_first(page):
    assert "<i>tool</i> : It has one value; leave it out." in page.words
    seconds, tool = page.words.index("seconds 1.5 70.0%"), page.words.index("tool web 60.0%")
    assert seconds < tool
    assert "+25.0 points (-5.0 to +55.0 points) may be chance" in page.words[tool:]
    assert "may be chance" not in page.words[seconds:tool]


def test_an_effect_whose_interval_excludes_zero_is_no_chance(run):
    ends = {"right_at_low": 0.6, "right_at_high": 0.8, "difference": 0.2, "difference_high": 0.3}
    effects = [
        {"column": name, "low": "web", "high": "phone", **ends, "difference_low": low, "tells": tells}
        for name, low, tells in (("tool", 0.1, True), ("page", 0.05, False), ("hour", -0.1, False))
    ]
    words = page_with(run, {"pi_effects": effects, "pi_health": [], "pi_directions": None}).words
    assert "(+5.0 to +30.0 points) not used in reasons" in words
    assert "(-10.0 to +30.0 points) may be chance" in words
    assert "(+10.0 to +30.0 points) " in words
    assert words.count("may be chance") == words.count("not used in reasons") == 1


def test_a_report_changes_nothing_but_itself(known):
    def others():
        return {path.name: file_digest(path) for path in known.iterdir() if path.is_file()} | {"report.html": ""}

    before = others()
    Run(known).report()
    assert others() == before


def test_suspects_show_their_unusual_columns_and_texts(run, tmp_path):
    kept = read_frame(run / "previews.parquet")
    worst = int(Predictions.read(run / "predictions.parquet").issues().iloc[0]["row"])
    first = kept[kept["row"] == worst]
    page = page_of(run)
    for _, entry in first.iterrows():
        said = f"{entry['column']} {entry['value']:.4g} usually {entry['low']:.4g} to {entry['high']:.4g}"
        assert said in page.words
    missing = float("nan")
    words = {"row": [worst], "column": ["text"], "text": ["Refund <script>me</script>"]}
    words |= {name: [missing] for name in ("value", "low", "high", "distance")}
    other = fabricate_run(tmp_path / "run", n_items=200, classes=NAMES, noise=0.15)
    write_frame(other / "previews.parquet", pd.DataFrame(words))
    change_files(other)
    page = page_of(other)
    assert "Refund <script>me</script>" in page.words
    assert "usually" not in page.words


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({"reason": "Old and whole."}, "Old and whole."),
        ({"reason": "It is b. All say b.", "reason_label": "It is b.", "reason_votes": "All say b."}, "All say b."),
        ({"reason": "All say b. It is b.", "reason_label": "It is b.", "reason_votes": "All say b."}, "All say b."),
        ({"reason": "It is b.", "reason_label": "It is b."}, "It is b."),
        ({"reason": "", "reason_label": "It is b.", "reason_votes": "All say b."}, "All say b."),
        (
            {
                "reason": "It rests on it. By x.",
                "reason_label": "It rests on it.",
                "given_label": "b",
                "suggested": "b",
            },
            "It rests on it. By x.",
        ),
    ],
)
def test_why_without_what_the_columns_say(record, shown):
    assert why(record) == shown


def test_labels_that_rest_on_one_answer_are_a_group_of_their_own(tmp_path):
    run = fabricate_run(tmp_path / "run", n_items=120, classes=NAMES)
    predictions = Predictions.read(run / "predictions.parquet")
    predictions.frame["consensus_label"] = predictions.frame["given_label"].where(
        predictions.frame["row"] % 2 == 0, predictions.frame["consensus_label"]
    )
    marked = mark_issues(predictions)[0]
    marked.write(run / "predictions.parquet")
    change_files(run, summary={"n_issues": marked.n_issues})
    n_resting = marked.is_resting.sum()
    assert 20 < n_resting < marked.n_issues + n_resting
    page = build_report(Run.open(run)).read_text()
    assert f"{marked.n_issues} of {len(marked)} labels look wrong" in page
    assert f"{n_resting} more labels are the consensus only because of themselves" in page
    assert f"Of the others, {n_resting} are the consensus only because of themselves; look at them next" in page
    assert "do not stand out" not in page
    assert page.count('<dd class="given">') == min(200, marked.n_issues)  # crossed out
    assert page.count("but rests on this one answer: counted half") == 20


@pytest.mark.parametrize(
    ("source", "name"),
    [({"table": "labels/a.csv", "x": "x"}, "a.csv"), ({"x": "Digits-PI"}, "Digits-PI"), ({}, "full")],
)
def test_the_name_of_the_data(run, source, name):
    assert Run(run).config.data.table == "table"
    opened = read_with(run, config={"source": source})
    assert data_name(opened) == name
    config = {"source": source, "data": opened.config.data.to_json() | {"table": "folder/labels.csv"}}
    assert data_name(read_with(run, config=config)) == "labels.csv"


def test_a_page_of_very_long_names_is_light(tmp_path):
    names = [letter * 4_000 for letter in "abcdefghijkl"]
    run = fabricate_run(tmp_path / "run", n_items=300, classes=names, annotators=200)
    page_of(run)
    assert (run / "report.html").stat().st_size < 2_000_000


@pytest.mark.parametrize("n_gold", [0, 40])
def test_which_way_answers_are_moved_and_by_what_it_was_found(run, n_gold):
    ends = {"difference": -0.18, "difference_low": -0.24, "difference_high": -0.12, "n_gold": n_gold}
    found = {
        "column": "words",
        "value": "300 or more",
        "against": "9 or less",
        "class": "<b>cat",
        **ends,
        "tells": True,
    }
    chance = found | {"column": "tool", "tells": False}  # too many were compared
    page = page_with(run, {"pi_effects": None, "pi_health": [], "pi_directions": [found, chance]})
    sentence = "'<b>cat' 18 points less often than their items deserve (95%: 12 to 24), compared with words 9 or less."
    assert f"Answers with words 300 or more: {sentence}" in page.words
    assert page.words.count("may be chance, as many were compared") == 1
    assert ("At least 40 checked items stand behind each number" in page.words) == bool(n_gold)
    assert ("left out" in page.words) == (not n_gold)
    assert "#pi" in {attrs["href"] for attrs in page.all("a")}


def test_what_an_order_moves_is_in_points():
    row = {"order_pairs": 40, "order_agreement": 0.8, "order_agreement_low": 0.7, "order_agreement_high": 0.9}
    row |= {"order_favours": "fail when second", "order_shift": 0.07, "order_shift_low": 0.02, "order_shift_high": 0.11}
    assert "more often fail when second (+7.0 points, 2.0 to 11.0)" in people._notes(row)
    assert not any("fail when second" in note for note in people._notes(row | {"order_shift_low": -0.01}))
