"""Recipes: what `pidual benchmark` runs, one for each dataset and scale.

A recipe says what it costs, what to expect, and where a benchmark differs from the paper's setting (`pidual fit
--setting paper`), for all methods and for single ones. Run one with

    pidual benchmark cifar10n --scale cpu --data DIR --out DIR

The paper searches options on grids (`paper.grids`) and does not say what it chose: MIDDLE_OF_GRID has the middle of
each grid, of two values one. Where the paper is silent, the code base it was built on counts (`paper.protocol`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..data.datasets import find_entry
from ..errors import UsageError
from ..fit.settings import PI_DUAL_PLUS_SCHEDULE
from .protocol import CIFAR, CIFAR_CODEBASE, IMAGENET, IMAGENET_CODEBASE, PYTORCH

Options = Mapping[str, Any]
Methods = Mapping[str, Options]
SCALES = ("cpu", "paper")


@dataclass(frozen=True)
class Recipe:
    """How a dataset is benchmarked at a scale.

    Parameters
    ----------
    dataset : str
        Name of the dataset, with its variant behind a colon where there are any.
    scale : "cpu" or "paper"
    title, cost, expected : str
        What it is, what a fit costs, and the accuracies in % and the detection AUC of pi_dual that come out.
    settings : mapping
        Options in which all methods differ from the paper's setting: of training by their name, `network`, and options
        of the network as `network.KEY`.
    methods : mapping
        Method -> settings in which it differs from the others, options of the method among them.
    n_train, n_test : int, optional
        Items that are drawn from the training and from the test set; all by default.
    valid_fraction : float
        Share of the items held out as noisy validation set.
    split_seed : int, optional
        Of these items, the same for all seeds (the paper's code base); by default every seed holds out others.
    pi_kinds : mapping
        Kinds of PI columns where they are not the dataset's own.
    other_network : mapping
        Settings of the network that the analysis of sizes compares with.
    widths : tuple of int
        Widths of the PI networks that the analysis of sizes compares.
    seeds : int
        How many seeds a benchmark has by default.
    dataset_options : mapping
        Options of the dataset's loader.
    """

    dataset: str
    scale: str
    title: str = ""
    cost: str = ""
    expected: str = ""
    settings: Options = field(default_factory=dict)
    methods: Methods = field(default_factory=dict)
    n_train: int | None = None
    n_test: int | None = None
    valid_fraction: float = 0.1
    split_seed: int | None = None
    pi_kinds: Mapping[str, str] = field(default_factory=dict)
    other_network: Options = field(default_factory=dict)
    widths: tuple[int, ...] = (512, 1024, 2048, 4096)
    seeds: int = 5
    dataset_options: Options = field(default_factory=dict)

    def method_settings(self, method: str, changes: Options | None = None) -> dict[str, Any]:
        """Return all settings of a fit with this method; those of the recipe's network not for another network."""
        settings, changes = {**self.settings, **self.methods.get(method, {})}, changes or {}
        if changes.get("network", settings.get("network")) != settings.get("network"):
            kept = ("network", "network.statistics")
            settings = {
                name: value for name, value in settings.items() if not name.startswith("network.") or name in kept
            }
        return {**settings, **changes}


def load_recipe(dataset: str, scale: str) -> Recipe:
    """Return the recipe of a dataset at a scale; a name without a variant stands for the dataset's first one."""
    _, variant = find_entry(dataset)
    name, recipes = dataset.partition(":")[0], describe_recipes()
    if name not in recipes:
        raise UsageError(f"There is no recipe for '{dataset}'; there are recipes for {', '.join(recipes)}.")
    if scale not in SCALES:
        raise UsageError(f"There is no scale '{scale}'; there are {' and '.join(SCALES)}.")
    return replace(RECIPES[name, scale], dataset=f"{name}:{variant}" if variant else name)


def describe_recipes() -> dict[str, dict[str, str]]:
    """Return dataset -> scale -> what the recipe is."""
    names = dict.fromkeys(name for name, _ in RECIPES)
    return {name: {scale: RECIPES[name, scale].title for scale in SCALES} for name in names}


def merge(*parts: Methods) -> dict[str, dict[str, Any]]:
    """Merge settings by method; later parts win, option by option."""
    methods = dict.fromkeys(method for part in parts for method in part)
    return {method: {k: v for part in parts for k, v in part.get(method, {}).items()} for method in methods}


# --- at the paper's scale ---

PAPER_CIFAR: Options = {**CIFAR, **CIFAR_CODEBASE, "network": "wrn_28_10", "network.statistics": "cifar10"}
PAPER_IMAGENET: Options = {**IMAGENET, **IMAGENET_CODEBASE, "network": "resnet50", "network.statistics": "unit"}
PAPER_MLP: Options = {"network": "mlp", "network.width": 1024}  # for what is not an image; the paper has none
MIDDLE_OF_GRID: Methods = {
    "elr": {"beta": 0.7, "lam": 3.0},
    "sop": {"lr_u": 10.0, "lr_v": 100.0},
    "het": {"tau": 1.25},
    "tram_plus_plus": {"width": 1024, "random_pi": 14, "head_weight": 0.5},
    "pi_dual": {"random_pi": 8},
    "pi_dual_plus": {"random_pi": 8, "smoothing": 0.4, "lam": 1.0},
}
PAPER_METHODS = merge(MIDDLE_OF_GRID, {"pi_dual_plus": PI_DUAL_PLUS_SCHEDULE})
# Methods that the paper quotes train as their authors do; forward_t and co_teaching, which it names, as the rest.
AS_AUTHORS = {**PYTORCH, "lr_scale_batch": None, "warmup_epochs": 0, "crop_pad": 4}
PREACT = {**AS_AUTHORS, "nesterov": False, "network": "preact_resnet18", "lr": 0.02, "weight_decay": 5e-4}
RESNET = {**AS_AUTHORS, "network": "resnet34"}
COSINE_300 = {"epochs": 300, "batch_size": 128, "weight_decay": 5e-4, "schedule": "cosine"}
PLAIN_SGD = {"momentum": 0.0, "weight_decay": 0.0}
PES = {**RESNET, "nesterov": False}
AUTHORS_CIFAR10: Methods = {
    "het": {"draws": 10_000},  # the code base's, on CIFAR
    # 256 rows are the authors' 64 labelled and 64 unlabelled ones for either network, or ELR+'s 128 for either.
    "divide_mix": {**PREACT, "epochs": 300, "batch_size": 256, "milestones": [150], "lr_decay": 0.1},
    "elr_plus": {**PREACT, "epochs": 200, "batch_size": 256, "milestones": [150], "lr_decay": 0.1},
    "sop_plus": {**PREACT, **COSINE_300, "lr_end": 0.01, "weight_decay": 1e-3},
    "pes": {**PES, "epochs": 200, "batch_size": 128, "milestones": [100, 150], "lr_decay": 0.1},
    "pes_semi": {**PES, **COSINE_300, "lr_end": 0.01, "lr": 0.02},
    "cores": {**RESNET, **PLAIN_SGD, "epochs": 100, "batch_size": 64, "milestones": [50], "lr_decay": 0.1},
    # The authors give the second stage 1,600 epochs, which would cost more than all other methods together.
    "cores_star": {**RESNET, **COSINE_300},
}
AUTHORS_CIFAR100: Methods = {
    "divide_mix": {"warmup": 30 / 300},
    # 40,000 of 250 epochs of 391 steps are 0.41.
    "elr_plus": {"epochs": 250, "milestones": [200], "ramp": 0.41, "beta": 0.9, "lam": 7.0, "refine_labels": True},
    "pes_semi": {"t1": 35 / 300, "lam": 75.0},
    "forward_t": {"outlier_filter": False},
    "het": {"rank": 6},
}
WIDE = {"width": 2048, "pi_weight_decay": True}
WIDE_IMAGENET: Methods = {
    "het": {"rank": 15, "tau": 3.0},
    "tram": {**WIDE, "residual": False},
    "tram_plus_plus": {**WIDE, "residual": False, "random_pi": 30, "head_weight": 0.5},
    "afm": WIDE,
    "distill_pi": {**WIDE, "temperature": 3.0},
    "pi_dual": {**WIDE, "random_pi": 30},
    "pi_dual_plus": {**WIDE, "random_pi": 30},
}
NO_NUMBER = "the paper has no number"


def on_cifar(
    dataset: str, title: str, cost: str, expected: str, *methods: Methods, width: int = 1024, **own: Any
) -> Recipe:
    """Return the paper's recipe for CIFAR: WRN-28-10, the same items held out in every fit."""
    wide = {"pi_dual": {"width": width}, "pi_dual_plus": {"width": width}}
    own = {"split_seed": 0, "other_network": {"network": "resnet34"}, **own}
    methods = (PAPER_METHODS, AUTHORS_CIFAR10, *methods, wide)
    return Recipe(dataset, "paper", title, cost, expected, PAPER_CIFAR, merge(*methods), **own)


def on_vectors(dataset: str, title: str, cost: str) -> Recipe:
    """Return a recipe of the paper's protocol for what is not an image."""
    other = {"network.depth": 3}
    return Recipe(dataset, "paper", title, cost, NO_NUMBER, PAPER_MLP, PAPER_METHODS, other_network=other)


AT_PAPER_SCALE = [
    on_cifar(
        "cifar10h",
        "CIFAR-10H (worst labels) at the paper's scale.",
        "9,600 images x 90 epochs through WRN-28-10 a fit (pi_dual_plus: two views x 300 epochs); hours on the paper's "
        "kind of GPU (A100); not run by us",
        "selected epoch, the paper's: ce 51.1, elr 48.5, sop 51.3, het 50.8, tram 64.9, tram_plus_plus 66.8, afm "
        "64.0, pi_dual 71.3, pi_dual_plus 83.2; AUC 0.954",
        valid_fraction=0.04,
        # As they are, by mean and standard deviation of all 514,200 answers, as in the code base.
        pi_kinds={"reaction_time": "raw:1917.9472:11348.22427", "trial_index": "raw:104.4998:60.6211"},
    ),
    on_cifar(
        "cifar10n",
        "CIFAR-10N (worst labels) at the paper's scale.",
        "49,000 images x 90 epochs through WRN-28-10 a fit (pi_dual_plus: two views x 300 epochs); hours on the "
        "paper's kind of GPU (A100); not run by us",
        "selected epoch, the paper's: ce 80.6, elr 86.6, sop 85.0, het 81.9, tram 80.5, tram_plus_plus 83.9, afm "
        "82.0, pi_dual 84.9, pi_dual_plus 93.3; AUC 0.962",
        {"cores_star": {"consistency": 0.4}},  # the authors' at 40% noise
        width=2048,
        valid_fraction=0.02,
        pi_kinds={"seconds": "raw:46.6797:21.1822"},  # as they are, as in the code base
    ),
    on_cifar(
        "cifar100n",
        "CIFAR-100N (fine labels) at the paper's scale.",
        "as for CIFAR-10N",
        "selected epoch, the paper's: ce 60.4, elr 64.0, sop 61.9, het 60.8, tram 59.7, tram_plus_plus 61.1, afm "
        "60.0, pi_dual 64.2, pi_dual_plus 68.0; AUC 0.911",
        AUTHORS_CIFAR100,
        {"cores_star": {"consistency": 0.4}},
        width=2048,
        valid_fraction=0.02,
        pi_kinds={"seconds": "raw:113.6694:78.1860"},
    ),
    Recipe(
        "imagenet_pi",
        "paper",
        "ImageNet-PI at the paper's scale; `imagenet_pi:low` and `imagenet_pi:high`.",
        "1.28 M images x 90 epochs through ResNet-50 a fit; the paper used a TPU v3-8; start it under torchrun for "
        "several GPUs; not run by us",
        "selected epoch, the paper's, low and high: ce 68.2 and 47.2, het 69.4 and 51.9, tram 69.4 and 54.0, "
        "tram_plus_plus 69.5 and 53.8, afm 70.3 and 55.3, pi_dual 71.6 and 62.1; AUC 0.953 and 0.986; the paper could "
        "not run elr and sop here; its text has PI networks of width 2048, its 32M parameters of TRAM++ fit 1024",
        PAPER_IMAGENET,
        WIDE_IMAGENET,
        valid_fraction=0.01,
        split_seed=0,
        seeds=3,
    ),
    on_cifar(
        "cifar10s",
        "CIFAR-10S with the paper's protocol and network; it is not in the paper.",
        "6,050 answers x 90 epochs through WRN-28-10 a fit; an hour or less on a GPU, not run by us",
        NO_NUMBER,
        {"cores_star": {"consistency": 0.2}},  # the authors' at 20% noise; here are 16%
    ),
    on_vectors(
        "labelme",
        "LabelMe with the paper's protocol; it is not in the paper, and its inputs are features, so the network is an "
        "MLP.",
        "a minute a fit on one core",
    ),
    on_vectors(
        "digits_pi",
        "Digits-PI with the paper's protocol; it is not in the paper, and its inputs are 64 pixels, so the network is "
        "an MLP.",
        "half a minute a fit on one core",
    ),
    on_cifar(
        "cifar10_pi",
        "CIFAR-10-PI with the paper's protocol and network; made as ImageNet-PI was; `cifar10_pi:low` and "
        "`cifar10_pi:high`.",
        "49,000 images x 90 epochs through WRN-28-10 a fit on all of CIFAR-10; hours on a GPU, not run by us",
        NO_NUMBER,
        valid_fraction=0.02,
    ),
]

# --- at CPU scale: what two cores can do; see docs/settings.md for how the gate begins and for small crowds ---

CPU_CNN: Options = {"network": "small_cnn", "network.width": 16, "epochs": 12, "batch_size": 64, "schedule": "cosine"}
CPU_MLP: Options = {
    "network": "mlp",
    "network.width": 128,
    "network.depth": 2,
    "epochs": 30,
    "batch_size": 64,
    "schedule": "cosine",
}
CPU_METHODS: Methods = {  # narrower PI networks and fewer draws than the paper's
    "tram": {"width": 256},
    "tram_plus_plus": {"width": 256},
    "afm": {"width": 256, "draws": 200},
    "distill_pi": {"width": 256},
    "het": {"draws": 100},
    "het_xl": {"draws": 100},
    "pi_dual": {"width": 256},
    "pi_dual_plus": {"width": 256},
}
SMALL_CROWD: Methods = {"pi_dual": {"random_pi": 0}, "pi_dual_plus": {"random_pi": 0}}
SMALL = {"weight_decay": 3e-3, "clip": 1.0}
CNN_COST = "about 60 s a fit on one core (pi_dual_plus: twice that; semi-supervised methods: two to ten times)"


def on_cpu(
    dataset: str, title: str, cost: str, expected: str, *methods: Methods, cnn: bool = True, **own: Any
) -> Recipe:
    """Return a recipe for one core: a small CNN on 10,000 images, or an MLP on vectors."""
    gate = {"gate_bias": -4.0 if cnn else -2.0}
    shared = merge(MIDDLE_OF_GRID, CPU_METHODS, {"pi_dual": gate, "pi_dual_plus": gate}, *methods)
    changes = own.pop("settings", {})
    own = {"other_network": {"network.convs": 2} if cnn else {"network.depth": 3}, **own}
    own |= {"widths": (64, 128, 256, 512), "seeds": 3}
    return Recipe(dataset, "cpu", title, cost, expected, {**(CPU_CNN if cnn else CPU_MLP), **changes}, shared, **own)


AT_CPU_SCALE = [
    on_cpu(
        "cifar10h",
        "CIFAR-10H (worst labels) at CPU scale: a small CNN on the 10,000 images, 12 epochs.",
        CNN_COST,
        "the order of the paper's methods, not its numbers; not run by us, since the raw answers were not available",
        n_test=10_000,
        valid_fraction=0.04,
    ),
    on_cpu(
        "cifar10n",
        "CIFAR-10N (worst labels) at CPU scale: a small CNN on 10,000 images, 12 epochs.",
        CNN_COST,
        "last epoch: ce 52.8, divide_mix 46.3, elr 50.0, elr_plus 48.8, sop 51.7, sop_plus 52.1, cores_star "
        "46.8, pes_semi 41.0, het 50.2, tram 52.3, tram_plus_plus 51.8, afm 53.3, pi_dual 52.2, pi_dual_plus 49.7; AUC "
        "0.820; its PI says next to nothing of the errors",
        n_train=10_000,
        n_test=10_000,
    ),
    on_cpu(
        "cifar100n",
        "CIFAR-100N (fine labels) at CPU scale: a small CNN on 10,000 images, 12 epochs.",
        CNN_COST,
        "last epoch: ce 20.1, divide_mix 12.8, elr 19.1, elr_plus 17.3, sop 17.5, sop_plus 19.4, cores_star "
        "13.6, pes_semi 8.4, het 18.3, tram 19.8, tram_plus_plus 18.3, afm 21.0, pi_dual 20.1, pi_dual_plus 16.1; AUC "
        "0.677",
        {"het": {"rank": 6}, "forward_t": {"outlier_filter": False}},
        n_train=10_000,
        n_test=10_000,
    ),
    on_cpu(
        "imagenet_pi",
        "ImageNet-PI (low or high) at CPU scale: a small CNN on 20,000 images of 32 pixels, 12 epochs.",
        "not measured; images are decoded again in every epoch",
        "not run by us, since the images were not available; `cifar10_pi` is made in the same way and stands in for it",
        n_train=20_000,
        other_network={},
        dataset_options={"image_size": 32},
    ),
    on_cpu(
        "cifar10s",
        "CIFAR-10S at CPU scale: a small CNN, 6,723 answers on 1,000 images, 12 epochs.",
        "about 40 s a fit on one core (pi_dual_plus: twice that; semi-supervised methods: two to ten times)",
        "last epoch: ce 39.8, divide_mix 29.3, elr 35.0, elr_plus 33.5, sop 38.5, sop_plus 40.6, cores_star "
        "32.3, pes_semi 29.4, het 37.5, tram 38.2, tram_plus_plus 36.8, afm 41.7, pi_dual 39.7, pi_dual_plus 37.1; AUC "
        "0.798",
        SMALL_CROWD,
        settings=SMALL,
    ),
    on_cpu(
        "labelme",
        "LabelMe at CPU scale: an MLP on pooled VGG features, 2,547 answers of 59 workers, 30 epochs.",
        "about 10 s a fit on one core",
        "last epoch: ce 82.5, divide_mix 85.5, elr 83.6, elr_plus 84.3, sop 84.9, sop_plus 82.9, cores_star "
        "84.3, pes_semi 87.6, het 82.9, tram 83.0, tram_plus_plus 83.5, afm 82.3, pi_dual 83.4, pi_dual_plus 82.4; AUC "
        "0.877",
        SMALL_CROWD,
        cnn=False,
        settings={"network.dropout": 0.5, "batch_size": 32, **SMALL},
    ),
    on_cpu(
        "digits_pi",
        "Digits-PI at CPU scale: an MLP on 1,257 labels by 16 classifiers, 60 epochs; `digits_pi:low` and "
        "`digits_pi:high`.",
        "about 5 s a fit on one core; it needs no files",
        "last epoch, high noise: ce 30.9, divide_mix 76.0, elr 28.3, elr_plus 45.2, sop 39.8, sop_plus 31.2, "
        "cores_star 29.0, pes_semi 83.5, het 29.6, tram 35.6, tram_plus_plus 31.8, afm 16.9, pi_dual 77.3, "
        "pi_dual_plus 48.8; AUC 0.969; low noise: ce 63.9, divide_mix 65.4, elr 68.0, elr_plus 86.2, sop 75.9, "
        "sop_plus 64.4, cores_star 64.4, pes_semi 93.0, het 62.5, tram 65.9, tram_plus_plus 69.1, afm 88.8, "
        "pi_dual 90.4, pi_dual_plus 92.9; AUC 0.978",
        cnn=False,
        settings={"epochs": 60},
    ),
    on_cpu(
        "cifar10_pi",
        "CIFAR-10-PI at CPU scale: a small CNN on 10,000 images, 12 epochs; `cifar10_pi:low` and `cifar10_pi:high`.",
        CNN_COST,
        "last epoch, high noise: ce 41.1, elr 39.8, sop 39.6, het 39.3, tram 45.1, tram_plus_plus 42.9, afm "
        "47.1, pi_dual 50.5, pi_dual_plus 42.1; AUC 0.893; low noise: ce 53.3, elr 49.3, sop 52.1, het 50.0, tram "
        "54.5, tram_plus_plus 53.0, afm 55.4, pi_dual 56.4, pi_dual_plus 49.6; AUC 0.874",
        n_train=10_000,
        n_test=10_000,
    ),
]
RECIPES = {(recipe.dataset, recipe.scale): recipe for recipe in (*AT_PAPER_SCALE, *AT_CPU_SCALE)}
