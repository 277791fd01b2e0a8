"""The analyses of the paper on a small crowd: tables that can be checked, and figures that can be read."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
from command_line import run_cli
from tiny_benchmark import IMAGES, RECIPE, crowd, pictures

from pidual.errors import UsageError
from pidual.paper import published as paper_numbers
from pidual.paper import recipes
from pidual.paper import runs as runs_module
from pidual.paper.analyses import (
    ABLATIONS,
    ANALYSES,
    CONTROLS,
    ablations,
    analyse,
    controls,
    cost,
    dynamics,
    importance,
    size,
)
from pidual.paper.runs import run_fits
from pidual.paper.sweep import run_tuned

pytestmark = [pytest.mark.draws_figures, pytest.mark.shapes_unchecked]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Where all analyses here keep their results, so that they share fits."""
    return tmp_path_factory.mktemp("analyses")


@pytest.fixture(scope="module")
def run(out):
    return partial(run_fits, data=crowd(), out=out)


@pytest.mark.parametrize("name", [name for name in ANALYSES if name != "examples"])
def test_every_analysis_leaves_a_table_and_a_figure(name, out, run):
    methods = ["pi_dual"] if name in ("corrupted_pi", "importance", "ablations") else ["ce", "pi_dual"]
    table = analyse(name, RECIPE, out, run=run, load=crowd, methods=methods, seeds=1)
    written = pd.read_csv(out / "analyses" / f"cpu-digits_pi-low-{name}.csv")
    assert list(written.columns) == list(table.columns)
    assert len(written) == len(table) > 0
    figure = ET.parse(out / "analyses" / f"cpu-digits_pi-low-{name}.svg").getroot()
    words = "".join(figure.itertext())
    assert "pi_dual" in words


def test_dynamics_follow_both_networks(run):
    table = dynamics(RECIPE, run)
    assert table.groupby("method", sort=False)["epoch"].agg(list).to_dict() == {"ce": [0, 1, 2], "pi_dual": [0, 1, 2]}
    assert table.loc[table["method"] == "ce", "noise_wrong"].isna().all()
    assert table.loc[table["method"] == "pi_dual", "noise_wrong"].between(0, 1).all()


def test_importance_leaves_out_every_column(run):
    table = importance(RECIPE, run, seeds=1)
    assert list(table["variant"]) == ["", "without annotator", "without seconds", "without random PI"]
    assert table["parameters"].nunique() > 2


def test_sizes(run):
    table = size(RECIPE, run, seeds=1).set_index(["method", "variant"])["parameters"]
    assert set(table["pi_dual"].index) == {
        "",
        "width 4",
        "depth 2",
        "depth 4",
        "network depth 1",
    }  # it has width 8, depth 3
    assert table["pi_dual"]["width 4"] < table["pi_dual"][""]
    assert table["pi_dual"]["depth 2"] < table["pi_dual"][""] < table["pi_dual"]["depth 4"]
    assert set(table["ce"].index) == {"", "network depth 1"}


def test_ablations_take_away_a_part_each(run):
    table = ablations(RECIPE, run, seeds=1).set_index("variant")
    assert list(table.index) == ["", *ABLATIONS]
    named = (paper_numbers.PAPER_ABLATIONS, paper_numbers.NOISE_INPUT, paper_numbers.TRAM_LOSS)
    assert set(ABLATIONS) == set().union(*named) - {"eps(a)", "Pi-DUAL"}  # which are Pi-DUAL as it is
    assert table["parameters"]["no gate"] < table["parameters"][""]
    assert table["last_gate_auc"].notna().to_dict() == {name: name != "no gate" for name in table.index}


def test_controls_leave_pi_without_meaning_or_give_it_all(run):
    recipe = replace(RECIPE, methods={**RECIPE.methods, "pi_dual": {"width": 8, "random_pi": 12, "epochs": 20}})
    recipe = replace(recipe, settings={**recipe.settings, "lr": 0.1}, search={"lr": (0.1, 0.2)})
    table = controls(recipe, lambda fits: run_fits(fits, crowd(), run.keywords["out"] / "controls"), seeds=1)
    assert list(zip(table["method"], table["variant"], strict=True)) == [
        ("ce", ""),
        ("ce", "rate 0.2"),
        ("ce", "dropout"),
        ("pi_dual", ""),
        *(("pi_dual", name) for name in CONTROLS),
    ]
    shown = dynamics(recipe, lambda fits: run_fits(fits, crowd(), run.keywords["out"] / "controls"))
    assert list(dict.fromkeys(shown["method"])) == ["ce", "ce, rate 0.2", "pi_dual"]
    gate = table.set_index("variant")["last_gate_auc"]
    assert gate["oracle PI"] > 0.8 > gate["shuffled PI"]


def test_other_rates_are_those_that_the_search_did_not_choose(tmp_path, monkeypatch):
    """The recipe's own rate is 0.1: where the search takes 0.2, the other one is 0.1."""
    recipe = replace(RECIPE, settings={**RECIPE.settings, "lr": 0.1, "epochs": 1}, search={"lr": (0.1, 0.2)})
    monkeypatch.setattr("pidual.paper.sweep.load_data", lambda recipe, data: crowd())
    monkeypatch.setattr(
        "pidual.paper.sweep._tune",
        lambda recipe, method, *rest: replace(recipe, methods={**recipe.methods, method: {"lr": 0.2}}),
    )
    shown = dynamics(recipe, lambda fits: run_tuned(fits, crowd(), tmp_path), methods=["ce"])
    assert list(dict.fromkeys(shown["method"])) == ["ce", "ce, rate 0.1"]


@pytest.mark.parametrize(
    ("name", "method"),
    [("corrupted_pi", "ce"), ("importance", "tram"), ("ablations", "afm"), ("dynamics", "forward_t")],
)
def test_what_a_method_cannot_be_asked_is_refused_before_training(out, name, method):
    with pytest.raises(UsageError, match=f"'{method}'"):
        analyse(name, RECIPE, out, run=lambda fits: pytest.fail("trained"), load=crowd, methods=[method], seeds=1)


def test_corruption_is_an_option_of_the_fit(out, run):
    table = analyse("corrupted_pi", RECIPE, out, run=run, load=crowd, seeds=1)
    assert list(table["variant"]) == ["", *(f"corrupted PI {share}%" for share in (25, 50, 75, 100))]
    assert table["selected_gate_auc"].iloc[-1] < table["selected_gate_auc"].iloc[0]


def test_cost_is_relative_to_cross_entropy():
    table = cost(RECIPE, crowd(), ["pi_dual", "sop"]).set_index("method")
    assert list(table.index) == ["ce", "pi_dual", "sop"]
    assert table.loc["ce", "relative_to_ce"] == 1
    assert table.loc["pi_dual", "parameters"] > table.loc["ce", "parameters"] == table.loc["sop", "parameters"]
    assert table.loc["sop", "row_values"] > 0


def test_examples_show_images(tmp_path):
    data = pictures()
    table = analyse("examples", IMAGES, tmp_path, run=partial(run_fits, data=data, out=tmp_path), load=lambda: data)
    figure = ET.parse(tmp_path / "analyses" / "cpu-digits_pi-low-examples.svg").getroot()
    assert len(list(figure.iter("{http://www.w3.org/2000/svg}image"))) == len(table)
    assert (table.loc[table["label_is"] == "wrong", "given"] != table.loc[table["label_is"] == "wrong", "true"]).all()
    assert "label: cat" in "".join(figure.itertext())


def test_the_command_prints_the_analysis(monkeypatch, tmp_path):
    monkeypatch.setattr(runs_module, "load_dataset", lambda name, folder, **options: crowd())
    monkeypatch.setattr(recipes, "load_recipe", lambda name, scale: RECIPE)
    code, text, err = run_cli(["benchmark", "digits_pi", "--analysis", "dynamics", "--out", tmp_path, "--quiet"])
    assert (code, err) == (0, f"Tables and figures: {tmp_path / 'analyses'}\n")
    assert text.startswith("digits_pi:low\n")
    assert "noise_wrong" in text
    assert (tmp_path / "analyses" / "cpu-digits_pi-low-dynamics.svg").exists()
