"""Comparisons of two items: what `judge_pairs` and `pidual pairs` find in planted tables."""

import json

import numpy as np
import pandas as pd
import pytest
from command_line import run_cli
from sklearn.metrics import roc_auc_score

from pidual import DataError, Inputs, UsageError, judge_pairs
from pidual.data.datasets.synthetic import make_comparisons
from pidual.data.pairs import read_pairs


@pytest.fixture(scope="module")
def planted():
    return make_comparisons(seed=2)


@pytest.fixture(scope="module")
def judged(planted):
    return judge_pairs(planted.frame)


def test_scores_are_near_the_true_ones(planted, judged):
    scores = judged.scores.set_index("item")
    true = planted.score[scores.index]
    assert np.corrcoef(scores["score"], true)[0, 1] > 0.9
    assert ((scores["score_low"] < true) & (true < scores["score_high"])).mean() > 0.85
    assert scores["score"].is_monotonic_decreasing
    assert scores["num_comparisons"].sum() == 2 * len(planted.frame)


def test_answers_against_the_better_item_rank_first(planted, judged):
    table, against = planted.frame, planted.against
    assert roc_auc_score(against, -judged.predictions["label_quality"]) > 0.85
    assert judged.noise.rate == pytest.approx(against.mean(), abs=0.08)
    assert judged.predictions["left"].tolist() == table["left"].tolist()
    won = np.where(table["winner"] == "left", table["left"], table["right"])
    assert judged.predictions["answer"].tolist() == won.tolist()


def test_the_annotator_who_answers_at_random_comes_first(judged):
    assert judged.annotators["annotator"].iloc[0] == "judge-0"


def test_the_pull_of_the_left_side_is_named(judged):
    _, low, high = judged.order_pull  # a tenth of the answers are left whatever the items, half of them wrongly
    assert low < 0.05 < high
    assert low > 0
    none = judge_pairs(make_comparisons(pull=0.0, seed=1).frame).order_pull
    assert none[1] < 0 < none[2]


def test_sides_may_be_swapped(planted, judged):
    table = planted.frame.rename(columns={"left": "right", "right": "left"})
    table["winner"] = table["winner"].map({"left": "right", "right": "left"})
    other = judge_pairs(table)
    pd.testing.assert_series_equal(
        judged.scores.set_index("item")["score"].sort_index(), other.scores.set_index("item")["score"].sort_index(),
        atol=0.05,
    )  # fmt: skip
    assert other.order_pull[0] == pytest.approx(-judged.order_pull[0], abs=0.01)


def test_features_score_items_nobody_compared():
    made = make_comparisons(60, 2500, seed=2)
    table, score, x = made.frame, made.score, made.x
    kept = table[~table["left"].isin(score.index[50:]) & ~table["right"].isin(score.index[50:])]
    found = judge_pairs(kept, Inputs.from_array(x.astype(np.float32), score.index.to_numpy(str)))
    unseen = found.scores.set_index("item").loc[score.index[50:]]
    assert (unseen["num_comparisons"] == 0).all()
    assert np.corrcoef(unseen["score"], score[50:])[0, 1] > 0.7
    with pytest.raises(DataError, match="no input for 1 of 50 items, such as 'item-000'"):
        judge_pairs(kept, Inputs.from_array(x[1:].astype(np.float32), score.index[1:].to_numpy(str)))
    with pytest.raises(UsageError, match="has no names"):
        judge_pairs(kept, Inputs.from_array(x.astype(np.float32)))


def test_ties_count():
    made = make_comparisons(ties=0.6, seed=3)
    table, score = made.frame, made.score
    found = judge_pairs(table)
    scores = found.scores.set_index("item")
    assert np.corrcoef(scores["score"], score[scores.index])[0, 1] > 0.9
    assert (found.predictions["answer"] == "tie").sum() == (table["winner"] == "tie").sum()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (("model_a", "model_b", "winner"), ("model_a", "model_b", "tie (bothbad)")),
        (("left", "right", "label"), ("1", "2", "Tie")),
        (("text1", "text2", "preference"), ("A", "b", "draw")),
        (("left", "right", "winner"), None),  # the name of the better item
    ],
)
def test_answers_are_read_in_the_words_people_use(planted, columns, words):
    table = planted.frame.iloc[:60]
    expected = read_pairs(table)
    said = table["winner"].map(dict(zip(("left", "right", "tie"), words, strict=True))) if words else np.where(
        table["winner"] == "left", table["left"], table["right"])  # fmt: skip
    names = dict(zip(("left", "right", "winner"), columns, strict=True))
    found = read_pairs(table.assign(winner=said).rename(columns=names))
    assert found.table.frame["label"].tolist() == expected.table.frame["label"].tolist()


def test_first_and_second_do_not_depend_on_the_side(planted):
    found = read_pairs(planted.frame)
    frame = found.table.frame
    swapped = np.where(frame["shown_first"] > 0, found.left, found.right)
    assert (swapped == found.first[found.table.item_codes]).all()
    assert 0.35 < (frame["label"] == "first").mean() < 0.65


def test_one_person_has_one_say_on_a_pair(planted):
    table = planted.frame
    once, often = judge_pairs(table), judge_pairs(pd.concat([table] * 3, ignore_index=True))
    assert often.noise.rate == pytest.approx(once.noise.rate, abs=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"winner": "maybe"}, r"row 0 .*'winner': 'maybe' is neither side, nor one of the two items, nor a tie"),
        ({"right": "item-000", "left": "item-000"}, r"'item-000' is compared with itself; delete the row"),
        ({"left": None}, r"column 'left': the item is missing \(empty\)"),
    ],
)
def test_rows_that_cannot_be_read_are_named(planted, change, message):
    table = planted.frame.copy()
    for name, value in change.items():
        table.loc[0, name] = value
    with pytest.raises(DataError, match=message):
        judge_pairs(table)


def test_columns_that_are_missing_are_named(planted):
    with pytest.raises(UsageError, match=r"no column left, model_a.*--left.*Its columns: one, right, winner, judge"):
        judge_pairs(planted.frame.rename(columns={"left": "one"}))
    with pytest.raises(UsageError, match="three different columns"):
        judge_pairs(planted.frame, left="left", right="left")


def test_the_command_writes_tables_and_gates(planted, tmp_path):
    planted.frame.to_csv(tmp_path / "battles.csv", index=False)
    code, out, err = run_cli(["pairs", tmp_path / "battles.csv", "--out", tmp_path / "found", "--fail-over", "5%"])
    assert code == 3
    assert "answers look wrong" in err
    assert "The left side is preferred" in err
    assert out == ""
    assert "judge-0" not in (tmp_path / "found" / "annotators.csv").read_text()  # pseudonyms
    assert len(pd.read_csv(tmp_path / "found" / "predictions.csv")) == len(planted.frame)
    code, out, _ = run_cli(["pairs", tmp_path / "battles.csv", "--json", "--keep-ids"])
    assert code == 0
    assert json.loads(out)["scores"][0]["item"] == pd.read_csv(tmp_path / "found" / "scores.csv")["item"][0]


def test_pairwise_exports_of_label_studio_are_read(planted, tmp_path):
    tasks = [
        {
            "id": number,
            "data": {"text1": row.left, "text2": row.right},
            "annotations": [
                {
                    "completed_by": int(row.judge[-1]),
                    "lead_time": 3.5,
                    "result": [
                        {
                            "type": "pairwise",
                            "from_name": "pw",
                            "to_name": "text1,text2",
                            "value": {"selected": row.winner},
                        }
                    ],
                }
            ],
        }
        for number, row in enumerate(planted.frame.itertuples())
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    found = judge_pairs(tmp_path / "export.json", label="pw", pi=[], keep_ids=True)
    assert found.scores["item"].iloc[0] == judge_pairs(planted.frame).scores["item"].iloc[0]
    assert found.predictions["left"].tolist() == planted.frame["left"].tolist()
