"""Figures that the text of the docs quotes, outside of tables, are those of the result files."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def results(name):
    return json.loads((RESULTS / f"{name}.json").read_text())["results"]


def page(name):
    return (ROOT / "docs" / name).read_text()


def crowd(data, value, method="auto"):
    (row,) = (row for row in results("crowds") if (row["data"], row["method"]) == (data, method))
    return 100 * row[value]["mean"]


def missing(name, phrases):
    return [phrase for phrase in phrases if phrase not in page(name)]


def test_crowds():
    stated, right = (
        {data: crowd(data, value) for data in ("labelme", "cifar10s")} for value in ("stated", "consensus")
    )
    stress, idle = results("stress")["mean_accuracy"], results("idle_pi")["change_by_idle_pi"]
    changes = [idle[f"auto, idle {kind}"] for kind in ("PI", "numbers")]
    phrases = [
        f"{stated['labelme']:.1f}% where {right['labelme']:.1f}%",
        f"{stated['cifar10s']:.1f}% where {right['cifar10s']:.1f}%",
        f"{crowd('llm_emotion', 'stated'):.0f}% where {crowd('llm_emotion', 'consensus'):.0f}%",
        f"`auto` {100 * stress['auto']:.1f}, `pi_dual` {100 * stress['default']:.1f}, ",
        f"cross-entropy {100 * stress['ce']:.1f}",
        f"{-100 * changes[0]['mean']:.1f} points on average",
        f"on {' and '.join(str(change['crowds_five_points_lower']) for change in changes)} of the 40 crowds",
        f"at most {-100 * min(change['worst'] for change in changes):.0f}",
    ]
    assert missing("crowds.md", phrases) == []


def test_settings():
    of = {(row["method"], row["select"]): row for row in results("labelme")}
    phrases = [
        f"{100 * of[method, select]['test_accuracy_mean']:.1f}% ± {100 * of[method, select]['test_accuracy_std']:.1f}"
        for method, select in [("ce", "last"), ("pi_dual", "last"), ("ce", "best"), ("pi_dual", "best")]
    ]
    idle = results("idle_pi")["mean_accuracy"]
    phrases += [f"{100 * idle[name]:.1f}%" for name in ("pi_dual", "pi_dual, idle PI", "ce")]
    ratios = {(row["case"][:8], row["way"]): row["ratio"] for row in results("populations")}
    phrases += [f"{ratios['20 MLPs ', 'vmap']:.2f} | {ratios['20 MLPs ', 'batched products']:.2f}"]
    assert missing("settings.md", phrases) == []


def test_theory():
    wrong = results("theory")["by_wrong_labels"]
    ols = dict(zip(wrong["n_wrong"], wrong["ols"], strict=True))
    phrases = [f"{ols[160]['total']:.3f}", *(f"{ols[n]['bias']:.3f} at {n}" for n in (40, 80))]
    assert missing("theory.md", [phrase.strip() for phrase in phrases]) == []


def test_review():
    review = results("review")
    phrases = [
        f"starts in {review['start_s']} s",
        f"{review['memory_mb at the end']} MB ({review['memory_mb peak']} MB",
        f"{review['page_ms all']['median']} ms (95% within {review['page_ms all']['p95']} ms)",
        f"{review['decisions ms']['median']} ms each (95% within {review['decisions ms']['p95']} ms)",
    ]
    assert missing("review.md", phrases) == []


QUOTED = {  # what pages quote from a page whose tables are made of result files
    "what_can_go_wrong.md": ("detection.md", ["32 of 35 fits"]),
    "many_annotators.md": ("detection.md", ["269 of 294"]),
    "evidence.md": ("detection.md", ["27 sets"]),
}


@pytest.mark.parametrize("name", QUOTED)
def test_a_figure_quoted_from_another_page_is_on_that_page(name):
    source, figures = QUOTED[name]
    words = page(name).replace("269 of the 294", "269 of 294").replace("All 27 sets", "of 27 sets")
    assert [figure for figure in figures if figure not in words or figure not in page(source)] == []


def test_what_can_go_wrong_quotes_the_crowds():
    idle = [results("idle_pi")["change_by_idle_pi"][f"auto, idle {kind}"] for kind in ("PI", "numbers")]
    assert all(round(-100 * change["mean"]) == 1 for change in idle), "about one point"
    phrases = [
        f"{crowd('llm_emotion', 'stated'):.0f}% where {crowd('llm_emotion', 'consensus'):.0f}% are right",
        f"at most {-100 * min(change['worst'] for change in idle):.0f}",
    ]
    assert missing("what_can_go_wrong.md", phrases) == []
    for data in ("shared_3", "shared_10"):
        assert crowd(data, "auc", "crowd_layer") > crowd(data, "auc")
        assert crowd(data, "consensus", "crowd_layer") > crowd(data, "consensus")


def test_rare_classes_are_as_bad_as_the_pages_say(benchmark):
    """What `rare_classes.md` and `what_can_go_wrong.md` say of `fraud` in words."""
    counts = benchmark("tables").detection_tables()["detection counts"]
    (fraud,) = (row for row in benchmark("site_tables").rows_of(counts) if row["set"] == "`fraud`")
    assert 0.6 < float(fraud["precision"]) < 0.75, "a third of what it lists is right"
    assert float(fraud["recall"]) > 0.9, "nearly all"
    assert float(fraud["expected precision is off by"]) > 10, "more than ten points too high"
    assert fraud["planted annotators on top"] == "1 of 1"
