"""Figures that the text of the docs quotes, outside of tables, are those of the result files."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
        f"costs `auto` {-100 * changes[0]['mean']:.1f} points on average",
        f"and {-100 * changes[1]['mean']:.1f} if it is six numbers",
        f"on {' and '.join(str(change['crowds_five_points_lower']) for change in changes)} of the 40 crowds",
        f"at most {-100 * min(change['worst'] for change in changes):.0f}",
    ]
    assert missing("evidence.md", phrases) == []


def real_crowds():
    return {(row["dataset"], row["method"], row["select"]): row for row in results("real_crowds")}


def test_language_models():
    lines = (RESULTS / "real_crowds.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["dataset"].startswith("llm") and row["method"] == "auto"]

    def ends(name, keep=lambda row: True):
        values = [row[name] for row in rows if keep(row)]
        return min(values), max(values)

    with_text, without = (
        ends("seconds", lambda row, alone=alone: (row["dataset"] == "llm_answers") == alone) for alone in (False, True)
    )
    phrases = [
        f"{rows[0]['noise_rate']:.0%} of the answers are wrong",
        "estimate {:.0f} to {:.0f}%".format(*(100 * end for end in ends("noise_estimate"))),
        "end at {:.0f} to {:.0f}%".format(*(100 * end for end in ends("noise_high"))),
        "took {:.0f} to {:.0f} s".format(*with_text),
        f"{without[0]:.0f} s with `--no-x`",
    ]
    assert missing("for/llm_judges.md", phrases) == []


def test_a_panel_of_judges():
    rows = [json.loads(line) for line in (RESULTS / "judges.jsonl").read_text().splitlines()]
    assert len(rows) == 40

    def cells(name):
        before, now, low, high, true = (f"{100 * value:.1f}%" for value in rows[0][name])
        return f"{before} | {now} ({low} to {high}) | {true} |"

    doubtful = sum(row["verdict"] == "doubtful" for row in rows)
    bias, low, high = (f"{100 * value:.0f}" for value in rows[0]["words"])
    consensus = cells("accuracy").replace(") | ", f") | {100 * rows[0]['true_before']:.1f}% without gold, ")
    consensus = consensus.removesuffix(" |") + " with |"
    phrases = [consensus, *map(cells, ("noise", "passing")), f"`doubtful` for {doubtful} of the 40"]
    phrases += [f"'pass' {bias} points more often than their items deserve (95%: {low} to {high})"]
    phrases += [f"It is {100 * rows[0]['true_words']:.0f} points", f"By majority, {100 * rows[0]['passed']:.1f}% pass"]
    assert missing("for/llm_judges.md", phrases) == []


def test_new_answers():
    rows, said = results("new_answers"), {}
    for way in ("the other half", "both halves", "itself alone"):
        of = [row for row in rows if row["judged_by"] == way]
        said[way] = [sum(row[name] for row in of) / len(of) for name in ("auc", "consensus")]
    half, both, alone = (f"{auc:.3f}" for auc, _ in said.values())
    first, second, third = (f"{consensus:.1%}" for _, consensus in said.values())
    phrases = [f"{half}, consensus right for {first}", f"{both} and {second}", f"{alone} and {third}"]
    assert missing("new_answers.md", phrases) == []


def test_settings():
    of = real_crowds()
    phrases = [
        f"{100 * row['test_accuracy_mean']:.1f}% ± {100 * row['test_accuracy_std']:.1f}"
        for row in (of["labelme", method, select] for select in ("last", "best") for method in ("ce", "pi_dual"))
    ]
    drawn = {
        row["variant"]: 100 * row["accuracy"] for row in results("random_pi") if row["dataset"] == "digits_pi high"
    }
    none, eight, longer, longest = (drawn[f"random PI {length}"] for length in (0, 8, 64, 256))
    said = f"{none:.1f}% without random PI, {eight:.1f}% with 8, {longer:.1f}% with 64 and {longest:.1f}% with 256"
    assert missing("paper/results.md", [said]) == []
    idle = results("idle_pi")["mean_accuracy"]
    phrases += [f"{100 * idle[name]:.1f}%" for name in ("pi_dual", "pi_dual, idle PI", "ce")]
    assert missing("settings.md", phrases) == []


def test_judge():
    def speed(name, size, what, dtype="float16"):
        rows = results("judge")[name]
        return next(row for row in rows if (row["size"], row["what"], row["dtype"]) == (size, what, dtype))

    small, large = (speed("detect_speed", size, "find_label_issues") for size in ("small", "large"))
    phrases = [
        f"50,000 x 10 take {small['seconds']:.1f} s",
        f"in float16 {large['seconds']:.0f} s and {large['peak_bytes'] / 1e9:.1f} GB",
        f"{speed('speed', 'small', 'judge')['seconds']:.1f} s for 50,000 items",
    ]
    assert missing("for/own_model.md", phrases) == []
    judged = [row for row in results("judge")["speed"] if row["size"] == "large"]
    assert max(row["seconds"] for row in judged) < 57 < max(row["seconds"] for row in judged) + 1
    assert f"{max(row['peak_bytes'] for row in judged) / 1e9:.1f} GB" == "1.9 GB"
    assert "less than 57 s and 1.9 GB" in page("for/own_model.md")


def test_pages_quote_the_tables_that_they_leave_out(benchmark):
    """What the text says about tables that are in results/tables.md alone."""
    tables = benchmark("tables")
    made = {
        name: benchmark("site_tables").rows_of(table)
        for name, table in tables.all_pages()[tables.EVERY_TABLE].items()
        if table.startswith("|")
    }
    mean, of_14 = made["detection scores"][-2:]
    assert (mean["set"], of_14["set"]) == ("mean", "mean of the 14 with all scores")
    phrases = [
        f"{mean['quality']} on 24 sets, as with",
        f"({mean['counted in full']}, {mean['not counted']}), and far",
        f"input alone ({mean['network alone']};",
    ]
    assert max(of_14["AUM"], of_14["gate"]) < of_14["quality"]
    assert missing("detection.md", phrases) == []
    crowds = made["crowds made up"]
    ahead = {
        value: sum(float(row[f"{value}: auto"]) >= float(row[f"{value}: best peer"].split()[0]) for row in crowds)
        for value in ("accuracy", "AUC", "consensus")
    }
    assert ahead["accuracy"] == len(crowds), "the best classifier on all"
    phrases = [f"one) on {ahead['AUC']}, and", f"one) on {ahead['consensus']}. In"]
    assert missing("evidence.md", phrases) == []
    accuracy = {row["method"]: float(row["accuracy (%)"]) for row in made["symmetric"]}
    best = [accuracy[name] for name in ("divide_mix", "pes_semi", "pes", "co_teaching", "elr_plus")]
    needs = {row["method and store"]: row for row in made["sample_memory"]}
    what_if = {row["method"]: row for row in made["what if"]}
    auc, accuracies = (
        {name: float(row[title].split(" ")[0] or "nan") for name, row in what_if.items()}
        for title in ("AUC, last epoch", "accuracy, last epoch")
    )
    opened = accuracies["pi_dual, random mistakes, PI tells all"] - accuracies["ce, random mistakes"]
    phrases = [
        f"Cross-entropy ends at {accuracy['ce']:.0f}%",
        f"at {min(best):.0f} to {max(best):.0f}%",
        f"early sieve at {accuracy['cores, sieve from 5% of the run']:.0f}%",
        f"ELR and SOP at {accuracy['elr']:.0f} and {accuracy['sop']:.0f}%",
        f"ELR needs {float(needs['elr']['memory (GB)']):.1f} GB of memory",
        f"SOP needs {float(needs['sop']['memory (GB)']):.1f} GB",
        f"AUC {auc['pi_dual, PI tells all']:.3f}, cross-entropy {auc['ce']:.3f}",
        f"opens the gate and gains {opened:.1f} points",
        f"gains {accuracies['ce, clean labels'] - accuracies['ce']:.1f} points if every wrong label",
    ]
    assert missing("paper/results.md", phrases) == []


QUOTED = {  # what pages quote from a page whose tables are made of result files
    "what_can_go_wrong.md": ("detection.md", ["32 of 35 fits"]),
    "for/crowd.md": ("detection.md", ["269 of 294"]),
    "for/one_annotator.md": ("evidence.md", ["0.949"]),
    "evidence.md": ("detection.md", ["27 sets"]),
}


@pytest.mark.parametrize("name", QUOTED)
def test_a_figure_quoted_from_another_page_is_on_that_page(name):
    source, figures = QUOTED[name]
    words = page(name).replace("269 of the 294", "269 of 294").replace("All 27 sets", "of 27 sets")
    assert [figure for figure in figures if figure not in words or figure not in page(source)] == []
