"""`pidual annotators` of a panel of judges, with gold labels and answers in two orders."""

import contextlib
import io
import re

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli

from pidual.api.run import Run
from pidual.data.datasets.synthetic import make_judges

pytestmark = pytest.mark.shapes_unchecked

FIT = "fit judgements.jsonl --annotator judge --label verdict --pi judge,words,order --no-x --keep-ids --out"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Judgements by five judges of 200 items, and runs with and without 120 gold labels."""
    folder = tmp_path_factory.mktemp("judges")
    panel = make_judges(200, 5, 120, seed=2)
    frame = panel.frame[panel.frame["verdict"] != "unsure"]
    frame.to_json(folder / "judgements.jsonl", orient="records", lines=True)
    panel.gold.to_csv(folder / "gold.csv", index=False)
    with contextlib.chdir(folder):
        for out in ("told --truth gold.csv", "untold"):
            code, _, err = run_cli([*FIT.split(), *out.split()])
            assert code == 0, err
    return folder, panel, frame


def table(*args):
    code, out, err = run_cli(["annotators", *args])
    assert code == 0, err
    return pd.read_csv(io.StringIO(out))


def test_each_judge_has_numbers_by_gold_with_intervals(folder):
    path, panel, frame = folder
    found = table(path / "told", "--gold")
    assert len(found) == 5 * 2
    last = frame.drop_duplicates(["item", "judge"], keep="last")
    last = last.assign(truth=panel.truth[last["item"]].to_numpy())
    inside = []
    for row in found.itertuples():
        mine = last[last["judge"] == row.annotator]
        said = mine.loc[mine["truth"] == row.true_class, "verdict"] == row.true_class
        inside.append(row.accuracy_low <= (mine["verdict"] == mine["truth"]).mean() <= row.accuracy_high)
        inside.append(row.sensitivity_low <= said.mean() <= row.sensitivity_high)
        assert -1 <= row.kappa_low <= row.kappa <= row.kappa_high <= 1
    assert np.mean(inside) >= 0.85
    of_pass, of_fail = found[found["true_class"] == "pass"], found[found["true_class"] == "fail"]
    assert of_pass["sensitivity"].to_numpy() == pytest.approx(of_fail["specificity"].to_numpy(), abs=1e-3)


def test_a_terminal_gets_a_short_table(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("pidual.cli.annotators.is_terminal", lambda stream: True)
    first = folder[1].frame["judge"].min()
    for options, names in (
        (["--gold"], "annotator accuracy kappa true_class sensitivity specificity"),
        (["--order", "order"], "annotator order_pairs order_agreement order_shift order_favours"),
        ([], "annotator quality num_labelled num_issues worst_class worst_confusion harm"),
    ):
        code, out, err = run_cli(["annotators", folder[0] / "told", *options])
        assert code == 0, err
        header, *lines = out.splitlines()
        assert {*header.split()} == {*names.split()}
        assert len({line.index(line.split()[1], len(line.split()[0])) for line in lines}) == 1  # aligned
        assert max(map(len, lines)) < 140
        assert any(line.startswith(first) for line in lines)
        code, out, _ = run_cli(["annotators", folder[0] / "told", *options, "--out", tmp_path / "all.csv"])
        assert (code, out) == (0, "")
        assert len((tmp_path / "all.csv").read_text().split("\n")[0].split(",")) >= 14
    numbers = r"\d\.\d{3} \(\d\.\d{3} to \d\.\d{3}\)"
    assert all(re.search(numbers, line) for line in lines)


def test_without_gold_there_are_no_such_numbers(folder):
    code, _, err = run_cli(["annotators", folder[0] / "untold", "--gold"])
    assert code == 2
    assert "--truth FILE, of at least 20 items" in err


def test_answers_in_two_orders_are_compared(folder):
    path, _, frame = folder
    found = table(path / "untold")
    pairs = frame.groupby(["judge", "item"])["order"].nunique().eq(2).groupby("judge").sum()
    assert found.set_index("annotator")["order_pairs"].to_dict() == pairs.to_dict()
    assert found["order_agreement"].between(found["order_agreement_low"], found["order_agreement_high"]).all()
    assert found["order_favours"].str.fullmatch("(pass|fail) when (first|second)").all()
    pd.testing.assert_frame_equal(found, table(path / "untold", "--order", "order"))
    for column, words in (("nothing", "no PI column 'nothing'"), ("words", "two values of 'words'")):
        code, _, err = run_cli(["annotators", path / "untold", "--order", column])
        assert (code, words in err) == (2, True), err


def test_the_length_bias_is_named_with_its_sign_where_gold_shows_it(folder):
    found = {each.column: each for each in Run.open(folder[0] / "told").summary.pi_directions}
    assert (found["words"].label, found["words"].value.endswith("or more")) == ("pass", True)
    assert found["words"].difference_low > 0
    assert [each.column for each in Run.open(folder[0] / "untold").summary.pi_directions] == ["order"]
    page = (folder[0] / "told" / "report.html").read_text(encoding="utf-8")
    assert "points more often than their items deserve" in page
    assert "same answer in another order for" in page
