"""A benchmark that takes a moment: a small crowd, and a recipe for it."""

import dataclasses

import numpy as np

from pidual.data.datasets.base import NoisyDataset
from pidual.data.datasets.synthetic import make_crowd
from pidual.paper.recipes import Recipe
from pidual.paper.runs import Fit

RECIPE = Recipe(
    dataset="digits_pi:low",
    scale="cpu",
    settings={"network": "mlp", "network.width": 8, "epochs": 3, "batch_size": 32},
    methods={"pi_dual": {"width": 8, "random_pi": 2}, "afm": {"width": 8, "draws": 10}},
    other_network={"network.depth": 1},
    widths=(4, 8),
    seeds=2,
)
IMAGES = dataclasses.replace(RECIPE, settings={**RECIPE.settings, "network": "small_cnn", "network.width": 2})


def crowd(n_items=80):
    """Two answers each on 80 items in three classes, in an order of their own."""
    made = make_crowd(n_items, 6, 2, 3, 4, noise=0.3, spammer_share=0.3, n_test=40)
    frame = made.frame.sample(frac=1, random_state=0).reset_index(drop=True)
    kinds = {"annotator": "category", "seconds": "duration"}
    return NoisyDataset("digits_pi:low", frame, kinds, made.x, made.x_test, made.y_test, ["cat", "dog", "owl"])


def pictures(channels=3):
    """The crowd's items as images of noise, the first numbers of an item as brightness of their upper rows."""
    data, rng = crowd(), np.random.default_rng(0)

    def paint(x):
        images = rng.integers(0, 60, (len(x), channels, 8, 8))
        images[:, :, :4, :4] += (20 * x).clip(0, 195).astype(int)[:, None, :, None]
        return images.clip(0, 255).astype(np.uint8)

    return dataclasses.replace(data, x=paint(data.x), x_test=paint(data.x_test))


def tiny_fit(method="pi_dual", seed=0, variant="", recipe=RECIPE, **changes):
    """A fit of the recipe."""
    return Fit(recipe, method, seed, variant, changes)
