import numpy as np
import pandas as pd

from pidual.data.datasets.synthetic import make_judges


def test_the_same_seed_gives_the_same_panel():
    first, again, other = make_judges(seed=1), make_judges(seed=1), make_judges(seed=2)
    pd.testing.assert_frame_equal(first.frame, again.frame)
    pd.testing.assert_frame_equal(first.gold, again.gold)
    assert not first.frame.equals(other.frame)


def test_gold_is_true_and_every_judge_answers_most_items():
    panel = make_judges(n_items=200, n_judges=6, n_gold=20, seed=3)
    assert len(panel.gold) == 20
    assert (panel.truth[panel.gold["item"]].to_numpy() == panel.gold["truth"].to_numpy()).all()
    asked = panel.frame.groupby("judge")["item"].nunique()
    assert len(asked) == 6
    assert (asked > 0.7 * 200).all()
    assert set(panel.frame["verdict"]) == {"fail", "pass", "unsure"}


def test_judges_share_mistakes_and_pass_long_answers_too_readily():
    panel = make_judges(seed=0)
    frame = panel.frame[panel.frame["verdict"] != "unsure"].assign(
        true=lambda rows: panel.truth[rows["item"]].to_numpy(), passes=lambda rows: rows["verdict"] == "pass"
    )
    long = frame["words"] > 300
    excess = frame["passes"].astype(float) - (frame["true"] == "pass")
    assert excess[long].mean() > 0.1 > excess[~long].mean()
    assert (
        frame.loc[frame["order"] == "first", "passes"].mean() > frame.loc[frame["order"] == "second", "passes"].mean()
    )
    wrong = frame.assign(wrong=frame["verdict"] != frame["true"])
    table = wrong.pivot_table(index="item", columns="judge", values="wrong").corr().to_numpy(copy=True)
    family = np.asarray(sorted(frame["judge"].unique())).astype("U1")
    same = family[:, None] == family
    np.fill_diagonal(table, np.nan)
    assert np.nanmean(table[same]) > np.nanmean(table[~same]) + 0.1
