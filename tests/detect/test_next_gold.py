"""`pidual next --gold`: which items to have checked, in a file that `pidual fit --truth` takes back."""

import contextlib
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli, write_crowd, write_key

from pidual.api.run import Run
from pidual.data.datasets.synthetic import make_judges
from pidual.detect.gold import choose_items, expected_half_widths
from pidual.detect.next_gold import expected_widths
from pidual.run.decisions import Store

pytestmark = pytest.mark.shapes_unchecked


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of a crowd (`run`), of texts whose items look like formulas (`texts`), and of 24 classes (`many`)."""
    folder = write_crowd(tmp_path_factory.mktemp("crowd"))
    frame = pd.read_csv(folder / "labels.csv")
    frame["label"] = frame["label"].map({"cat": 0, "dog": 1, "owl": 2})
    frame["text"] = "=1+" + frame["item"].astype(str) + " is a text"
    frame["item"] = "=item" + frame["item"].astype(str)
    frame[["item", "label", "annotator", "text"]].to_csv(folder / "texts.csv", index=False)
    rng = np.random.default_rng(0)
    rows = [
        (item, f"c{item % 24 if rng.random() < 0.7 else rng.integers(24):02}", f"w{who}")
        for item in range(96)
        for who in rng.permutation(30)[:2]
    ]
    pd.DataFrame(rows, columns=["item", "label", "annotator"]).to_csv(folder / "many.csv", index=False)
    write_key(folder)
    with contextlib.chdir(folder):
        for table, inputs, out in (("labels", "--no-x", "run"), ("texts", "--x-text=text", "texts")):
            code, _, err = run_cli(["fit", f"{table}.csv", inputs, "--quiet", "--out", out])
            assert code == 0, err
        assert run_cli(["fit", "many.csv", "--no-x", "--quiet", "--keep-going", "--out", "many"])[0] == 0
    return folder


def test_the_items_are_a_systematic_sample_the_same_each_time(folder):
    run = Run.open(folder / "run")
    listed = run.next_gold(20)
    assert listed.columns.tolist() == ["item", "truth"]
    assert listed["truth"].isna().all()
    chosen = choose_items(run.items["consensus_quality"].to_numpy(float), 20)
    assert listed["item"].tolist() == run.items["item"].iloc[chosen].tolist()
    pd.testing.assert_frame_equal(Run.open(folder / "run").next_gold(20), listed)
    assert len(run.next_gold(1000)) == 60


def test_the_file_is_taken_back_and_items_known_or_decided_on_are_left_out(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    code, out, err = run_cli(["next", "texts", "--gold", "30", "--out", "to check.csv"])
    assert (code, out) == (0, "")
    assert "\n'=item" in Path("to check.csv").read_text()  # no formula
    asked, expected, then = err.splitlines()
    assert asked.startswith("30 of 60 items")
    assert expected.startswith("With 30 checked items, expect 95% intervals of about ±")
    for name in ("wrong labels", "the consensus", "'0'", "'1'", "'2'"):
        assert name in expected
    listed = pd.read_csv("to check.csv", dtype="str")
    assert listed.columns.tolist() == ["item", "text", "truth"]
    assert listed["text"].str.endswith(" is a text").any()
    listed.loc[:24, "truth"] = "1"  # five stay empty
    listed.to_csv("to check.csv", index=False)
    command = then.removeprefix("Then: ")
    assert command == "pidual fit texts.csv --x-text=text --quiet --out texts-2 --truth 'to check.csv'"
    code, _, err = run_cli([*shlex.split(command)[1:], "--keep-going"])
    assert code == 0, err
    run = Run.open("texts-2")
    assert run.config.data.n_known_items == 25
    known = set(listed["item"][:25].str.lstrip("'"))
    rest = run.next_gold(100)["item"].astype(str)
    assert set(rest) == set(run.items["item"].astype(str)) - known
    store = Store(run)
    for item, decision in ((rest[0], "keep"), (rest[1], "unsure")):
        row = int(np.flatnonzero(run.predictions.frame["item"].astype(str) == item)[0])
        label = str(run.predictions.frame["given_label"][row]) if decision == "keep" else None
        store.add(row, decision, label, reviewer="ann", request=item)
    store.close()
    assert set(run.next_gold(100)["item"].astype(str)) == set(rest[1:])
    _, _, err = run_cli(["next", "texts-2", "--gold", "5"])
    assert "With 31 checked items" in err  # "cannot tell" makes no class known
    then = "Then, with the rows of to check.csv in FILE, too: pidual fit --from texts-2 --truth FILE"
    assert err.splitlines()[-1] == then  # so that what was decided counts as well


def test_many_classes_have_the_widths_of_their_likeliest(folder):
    run = Run.open(folder / "many")
    widths = expected_widths(run, 30)
    assert list(widths) == ["the share of wrong labels", "the accuracy of the consensus"]
    assert all(0 < width < 0.5 for width in widths.values())
    p, place = [], {name: number for number, name in enumerate(run.items["item"].astype(str))}
    for row in run.items.itertuples():  # with a column for each class
        top = {getattr(row, f"top_{n}"): getattr(row, f"top_{n}_probability") for n in range(1, 6)}
        p.append([top.get(name, 0.0) for name in run.predictions.classes])
    item = run.predictions.frame["item"].astype(str).map(place).to_numpy(int)
    noise, accuracy, _ = expected_half_widths(np.array(p), item, run.predictions.given.astype(int), 30)
    assert list(widths.values()) == pytest.approx([noise, accuracy], rel=0.05)


def test_the_widths_are_those_of_the_posterior(folder):
    run = Run.open(folder / "run")
    p = run.items[["p_cat", "p_dog", "p_owl"]].to_numpy(float)
    names = run.items["item"].astype(str)
    item = pd.Index(names).get_indexer(run.predictions.frame["item"].astype(str))
    noise, accuracy, shares = expected_half_widths(p / p.sum(1, keepdims=True), item, run.predictions.given, 25)
    widths = expected_widths(run, 25)
    assert widths["the share of wrong labels"] == pytest.approx(noise)
    assert widths["the accuracy of the consensus"] == pytest.approx(accuracy)
    assert [widths[f"the share of '{name}'"] for name in ("cat", "dog", "owl")] == pytest.approx(list(shares))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Pass either --budget N"),
        (["--gold", "5", "--budget", "5"], "Pass either --budget N"),
        (["--gold", "5", "--names"], "are for --budget"),
        (["--gold", "5", "--out", "tasks.json"], "must end in .csv or .parquet"),
    ],
)
def test_options_that_do_not_go_together_are_refused(folder, options, said):
    code, out, err = run_cli(["next", folder / "run", *options])
    assert (code, out) == (2, "")
    assert said in err


def test_a_panel_of_judges_has_a_way_out_that_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    panel = make_judges(200)
    frame = panel.frame[panel.frame["verdict"] != "unsure"].rename(columns={"judge": "annotator", "verdict": "label"})
    frame.to_csv("judges.csv", index=False)
    write_key(tmp_path)
    code, out, _ = run_cli(["fit", "judges.csv", "--no-x", "--quiet", "--out", "run"])
    assert code == 0
    assert "Have 50 items checked: `pidual next RUN --gold 50`.\n" in out
    assert run_cli(["next", "run", "--gold", "50", "--out", "gold.csv"])[0] == 0
    listed = pd.read_csv("gold.csv")
    listed["truth"] = panel.truth[listed["item"]].to_numpy()
    listed.to_csv("gold.csv", index=False)
    assert run_cli(["fit", "judges.csv", "--no-x", "--quiet", "--out", "again", "--truth", "gold.csv"])[0] == 0
    items = Run.open("again").items
    consensus = items.set_index(items["item"].astype(str))["consensus_label"].astype(str)
    assert (consensus[listed["item"]] == listed["truth"].to_numpy()).all()
