"""Every recipe can be run as it is: its settings are options that exist; it says what it costs and what to expect."""

from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

from pidual.data import AnnotationTable
from pidual.data.datasets import DATASETS
from pidual.data.pi import PIEncoder
from pidual.errors import UsageError
from pidual.fit.options import resolve_options
from pidual.fit.settings import split_settings
from pidual.learn.batch import Spec
from pidual.learn.methods import METHODS, DivideMix, ELRPlus
from pidual.learn.nets import PILinear, build_network
from pidual.options import check_options, defaults
from pidual.paper.published import CIFAR as CIFAR_SETS
from pidual.paper.published import DIFFERENCES, PAPER_DATASETS, SEMI_SUPERVISED, paper_grid, paper_number
from pidual.paper.recipes import (
    CIFAR,
    CIFAR_CODEBASE,
    IMAGENET,
    IMAGENET_CODEBASE,
    SCALES,
    describe_recipes,
    load_recipe,
)
from pidual.paper.runs import Fit

FITS = Path(__file__).parents[2] / "benchmarks" / "results" / "benchmark"
NAMES = list(describe_recipes())
ALL = [(name, scale) for name in NAMES for scale in SCALES]
VECTORS = {"labelme": (512,), "digits_pi": (64,)}


@pytest.mark.parametrize(("name", "scale"), ALL)
def test_every_method_of_a_recipe_has_options_that_exist(name, scale):
    recipe = load_recipe(name, scale)
    shape = (400,) if recipe.dataset_options.get("features") else VECTORS.get(name, (3, 32, 32))
    for method in METHODS:
        options = Fit(recipe, method).options(0.4)
        resolve_options(options, 1000, shape)
        given = split_settings(options.options, options.training)
        check_options(method, METHODS[method], given.method)
        with torch.device("meta"):
            build_network(options.network, in_shape=shape, n_classes=10, **given.network)
    assert set(recipe.methods) <= set(METHODS)
    other = Fit(recipe, "ce", 0, "other", recipe.other_network).options(0.4)
    assert not recipe.other_network or (other.network, split_settings(other.options, other.training).network) != (
        options.network,
        {},
    )


def test_paper_scale_is_the_papers_protocol():
    fractions = {"cifar10h": 0.04, "cifar10n": 0.02, "cifar100n": 0.02, "imagenet_pi": 0.01}
    for name, fraction in fractions.items():
        recipe = load_recipe(name, "paper")
        printed, added = (IMAGENET, IMAGENET_CODEBASE) if name == "imagenet_pi" else (CIFAR, CIFAR_CODEBASE)
        assert recipe.valid_fraction == fraction
        assert recipe.settings.items() >= {**printed, **added}.items()
        assert recipe.n_train is None
        assert recipe.n_test is None
    widths = {name: load_recipe(name, "paper").method_settings("pi_dual").get("width", 1024) for name in fractions}
    assert widths == {"cifar10h": 1024, "cifar10n": 2048, "cifar100n": 2048, "imagenet_pi": 2048}
    assert load_recipe("imagenet_pi", "paper").method_settings("pi_dual")["random_pi"] == 30


def test_times_at_paper_scale_are_the_code_bases():
    """(t - mean) / std of all answers, METHODS 4.1 to 4.3, and nothing is cut off."""
    constants = {
        "cifar10h": {"reaction_time": (1917.9472, 11348.22427), "trial_index": (104.4998, 60.6211)},
        "cifar10n": {"seconds": (46.6797, 21.1822)},
        "cifar100n": {"seconds": (113.6694, 78.1860)},
    }
    for name, columns in constants.items():
        kinds = load_recipe(name, "paper").pi_kinds
        assert kinds.keys() == columns.keys()
        for column, (mean, std) in columns.items():
            values = [-12.0, 0.0, mean, 700.0, 3e6]
            frame = pd.DataFrame({"item": range(5), "label": [0, 1, 0, 1, 0], column: values})
            table = AnnotationTable.from_frame(frame, pi=[column])
            found = PIEncoder({column: kinds[column]}).fit(table).transform(table).numbers[:, 0].tolist()
            assert found == pytest.approx([(value - mean) / std for value in values], rel=1e-6)


@pytest.mark.parametrize("name", ["cifar10n", "cifar100n"])
def test_divide_mix_has_its_authors_rows_and_steps(name):
    """64 labelled and 64 unlabelled rows for either network; an epoch is a pass over the labelled ones."""
    settings = load_recipe(name, "paper").method_settings("divide_mix")
    method = DivideMix(nn.Linear(3, 10), Spec(49_000, 10, epochs=300))
    method.epoch = 100
    labelled = torch.arange(49_000) % 5 < 3  # 60%
    method.labelled.copy_(labelled.expand(2, -1))
    method.progress[1] = 4 * int(labelled.sum())
    rows = method.epoch_rows(100, torch.randperm(49_000))
    assert len(rows) // settings["batch_size"] == 49_000 * 3 // 5 // 64 == 459
    for step in (0, 200, 458):
        batch = rows[step * settings["batch_size"] :][: settings["batch_size"]]
        for own in (batch[0::2], batch[1::2]):
            assert [int(labelled[own].sum()), int((~labelled[own]).sum())] == [64, 64]


@pytest.mark.parametrize("name", ["cifar10n", "cifar100n"])
def test_elr_plus_has_its_authors_rows_and_steps(name):
    settings = load_recipe(name, "paper").method_settings("elr_plus")
    method = ELRPlus(nn.Linear(3, 10), Spec(49_000, 10, epochs=settings["epochs"]))
    rows = method.epoch_rows(0, torch.randperm(49_000))
    assert settings["batch_size"] // 2 == 128
    assert len(rows) // settings["batch_size"] == 49_000 // 128 == 382
    steps = settings["epochs"] * 391  # of the authors' 50,000 rows
    assert settings.get("ramp", 0.5) * steps == pytest.approx(40_000, rel=0.025)


@pytest.mark.parametrize("name", ["cifar10n", "cifar100n"])
def test_human_labels_at_cpu_scale_are_the_papers_optimiser_on_features_that_can_be_memorised(name):
    recipe = load_recipe(name, "cpu")
    assert recipe.n_train is None
    assert recipe.dataset_options == {"features": "patches"}
    assert "pi_dual_plus" not in recipe.main
    assert {METHODS[method].stages for method in recipe.main} == {1}
    for method in recipe.main:
        options = resolve_options(Fit(recipe, method).options(0.4), 49_000, (400,))
        assert {key: getattr(options[0], key) for key in CIFAR if key not in recipe.settings} == {
            "schedule": "steps",
            "lr_decay": 0.2,
            "weight_decay": 1e-4,
        }
        assert "dropout" not in options[2]
        assert options[1].get("random_pi") in (None, 0, 256)


def test_quoted_methods_train_as_their_authors_do():
    recipe = load_recipe("cifar10n", "paper")
    plain = {method for method in METHODS if not recipe.method_settings(method).get("nesterov", True)}
    assert plain == {"divide_mix", "elr_plus", "sop_plus", "pes", "pes_semi"}
    ends = {method: recipe.method_settings(method).get("lr_end", 0.0) for method in METHODS}
    assert {method for method, end in ends.items() if end} == {"sop_plus", "pes_semi"}
    assert 0.02 * ends["sop_plus"] == pytest.approx(2e-4)
    noise = {"cifar10h": 0.9, "cifar10n": 0.4, "cifar100n": 0.4, "cifar10s": 0.2}
    for name, weight in noise.items():
        settings = defaults(METHODS["cores_star"]) | load_recipe(name, "paper").method_settings("cores_star")
        assert settings["consistency"] == weight, name
    draws = {name: load_recipe(name, "paper").method_settings("het").get("draws", 1000) for name in NAMES}
    images = {"cifar10h", "cifar10n", "cifar100n", "cifar10s", "cifar10_pi"}
    assert draws == {name: 10_000 if name in images else 1000 for name in NAMES}


def test_a_dataset_without_recipes_is_refused():
    assert {"cifar100_sm500", "medical_treat", "llm_emotion"} <= {*DATASETS} - {*NAMES}
    with pytest.raises(UsageError, match="no recipe for 'llm_emotion'; there are recipes for cifar10h, cifar10n"):
        load_recipe("llm_emotion", "cpu")
    assert list(describe_recipes()) == NAMES


def test_a_benchmark_fits_the_methods_of_the_papers_table_and_watches_enough_rows():
    recipes = {name: load_recipe(name, "paper") for name in PAPER_DATASETS}
    for name, recipe in recipes.items():
        of_paper = {m for m in METHODS if paper_number(name, m, "selected_accuracy") and m not in SEMI_SUPERVISED}
        assert set(recipe.main) - {"pi_dual_plus"} == of_paper, name
        assert ("pi_dual_plus" in recipe.main) == (name in CIFAR_SETS)
        assert recipe.watched >= (50_000 if name.startswith("imagenet") else 10_000)


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("method", ["elr", "sop", "het", "tram", "tram_plus_plus", "afm", "pi_dual", "pi_dual_plus"])
def test_options_at_paper_scale_lie_on_the_papers_grid(name, method):
    if name == "imagenet_pi" and method in ("elr", "sop", "pi_dual_plus"):
        pytest.skip("the paper does not run it there")
    settings = defaults(METHODS[method]) | load_recipe(name, "paper").method_settings(method)
    for option, values in paper_grid(method, name).items():
        assert settings[option] in values or settings[option] is None, option


def test_names_that_are_not_there():
    with pytest.raises(UsageError, match="no dataset 'cifar11'; there are cifar10h, "):
        load_recipe("cifar11", "cpu")
    with pytest.raises(UsageError, match="there are cifar10_pi:low, cifar10_pi:high"):
        load_recipe("cifar10_pi:middle", "cpu")
    with pytest.raises(UsageError, match="no scale 'gpu'; there are cpu and paper"):
        load_recipe("cifar10n", "gpu")


def test_every_width_of_the_papers_table_has_the_same_optimiser():
    """A sparse table of annotators has SGD without momentum; those of 2,571 people on CIFAR-10H are dense."""
    tables = [PILinear((2571,), 2, width, sparse=None) for width in load_recipe("cifar10h", "paper").widths]
    assert [table.sparse for table in tables] == [False] * 4
