"""Recipes: what `pidual benchmark` runs, one for each dataset and scale.

A recipe says where a benchmark differs from the paper's setting (`pidual fit --setting paper`), for all methods and for
single ones; docs/paper/results.md has what came out. Run one with

    pidual benchmark cifar10n --scale cpu --data DIR --out DIR

The paper searches options on grids (`paper.published`) and does not say what it chose: MIDDLE_OF_GRID has the middle of
each grid, of two values one. Where the paper is silent, the code base it was built on counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..data.datasets import find_entry
from ..errors import UsageError
from ..fit.settings import PAPER_CIFAR as CIFAR
from ..fit.settings import PI_DUAL_PLUS_SCHEDULE

Options = Mapping[str, Any]

Methods = Mapping[str, Options]
SCALES = ("cpu", "paper")
MAIN_METHODS = ("ce", "elr", "sop", "het", "tram", "tram_plus_plus", "afm", "pi_dual", "pi_dual_plus")


@dataclass(frozen=True)
class Recipe:
    """How a dataset is benchmarked at a scale."""

    dataset: str  # name of the dataset, with its variant behind a colon where there are any
    scale: str  # "cpu" or "paper"
    title: str = ""  # what it is
    # options in which all methods differ from the paper's setting: of training by their name, `network`, and options of
    # the network as `network.KEY`
    settings: Options = field(default_factory=dict)
    # method -> settings in which it differs from the others, options of the method among them
    methods: Methods = field(default_factory=dict)
    # n_train, n_test: items that are drawn from the training and from the test set; all by default
    n_train: int | None = None
    n_test: int | None = None
    valid_fraction: float = 0.1  # share of the items held out as noisy validation set
    # of these items, the same for all seeds (the paper's code base); by default every seed holds out others
    split_seed: int | None = None
    # kinds of PI columns where they are not the dataset's own
    pi_kinds: Mapping[str, str] = field(default_factory=dict)
    # settings of the network that the analysis of sizes compares with
    other_network: Options = field(default_factory=dict)
    widths: tuple[int, ...] = (512, 1024, 2048, 4096)  # widths of the PI networks that the analysis of sizes compares
    seeds: int = 5  # how many seeds a benchmark has by default
    main: tuple[str, ...] = MAIN_METHODS  # methods that a benchmark fits by default: those of the paper's table
    # option -> values that `--tune` tries for every method, in place of the paper's grids
    search: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    # method -> what was found in a search, and how; these options are among those of `methods`
    tuned: Methods = field(default_factory=dict)
    watched: int = 1_000  # training rows, and test rows, that the networks are asked about after every epoch
    dataset_options: Options = field(default_factory=dict)  # options of the dataset's loader

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


# --- how the paper trains, and the code base it was built on where the paper does not say (METHODS 1.1 to 1.4) ---

# Momentum is Nesterov's in both, the default of `Training`. What is not a training option has to be asked for beside
# the code base's: the network option `statistics` ("cifar10" on CIFAR, "unit" on ImageNet), and on ImageNet inputs read
# with `image_size=224, centre_crop=True` and the option `pi_weight_decay=True` of methods with PI networks. Its
# bfloat16 on TPUs is left to the hardware: `precision`.
IMAGENET: Options = {  # METHODS 1.2
    "epochs": 90,
    "batch_size": 2048,
    "lr": 0.1,
    "schedule": "steps",
    "milestones": (30, 60, 80),
    "lr_decay": 0.1,
    "weight_decay": 1e-4,
}
# Decay is that of the penalty weight_decay * w^2, the rate is inside the velocity, and of 400 noisy validation rows 256
# are seen at a batch of 256.
KERAS: Options = {"decay_convention": "keras", "momentum_convention": "keras", "valid_whole_batches": True}
PYTORCH: Options = {"decay_convention": "pytorch", "momentum_convention": "pytorch", "valid_whole_batches": False}
CIFAR_CODEBASE: Options = {
    **KERAS,
    "lr_scale_batch": 128,
    "warmup_epochs": 1,
    "crop_pad": 2,  # the repositories of ELR, SOP, DivideMix, PES and CORES have 4
    "flip": True,
}
IMAGENET_CODEBASE: Options = {
    **KERAS,
    "lr_scale_batch": 256,
    "warmup_epochs": 5,
    "decay_norms": False,
    "crop_pad": 0,
    "resized_crop": True,
    "flip": True,
}

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
WIDE = {"width": 2048, "pi_weight_decay": True}  # as the text has it; its 32M parameters of TRAM++ fit 1024
WIDE_IMAGENET: Methods = {
    "het": {"rank": 15, "tau": 3.0},
    "tram": {**WIDE, "residual": False},
    "tram_plus_plus": {**WIDE, "residual": False, "random_pi": 30, "head_weight": 0.5},
    "afm": WIDE,
    "distill_pi": {**WIDE, "temperature": 3.0},
    "pi_dual": {**WIDE, "random_pi": 30},
    "pi_dual_plus": {**WIDE, "random_pi": 30},
}


def _on_cifar(dataset: str, title: str, *methods: Methods, width: int = 1024, **own: Any) -> Recipe:
    """Return the paper's recipe for CIFAR: WRN-28-10, the same items held out in every fit."""
    wide = {"pi_dual": {"width": width}, "pi_dual_plus": {"width": width}}
    own = {"split_seed": 0, "watched": 10_000, "other_network": {"network": "resnet34"}, **own}
    methods = (PAPER_METHODS, AUTHORS_CIFAR10, *methods, wide)
    return Recipe(dataset, "paper", title, PAPER_CIFAR, merge(*methods), **own)


def _on_vectors(dataset: str, title: str) -> Recipe:
    """Return a recipe of the paper's protocol for what is not an image."""
    other = {"network.depth": 3}
    return Recipe(dataset, "paper", title, PAPER_MLP, PAPER_METHODS, other_network=other)


AT_PAPER_SCALE = [
    _on_cifar(
        "cifar10h",
        "CIFAR-10H (worst labels) at the paper's scale.",
        valid_fraction=0.04,
        # As they are, by mean and standard deviation of all 514,200 answers, as in the code base.
        pi_kinds={"reaction_time": "raw:1917.9472:11348.22427", "trial_index": "raw:104.4998:60.6211"},
    ),
    _on_cifar(
        "cifar10n",
        "CIFAR-10N (worst labels) at the paper's scale.",
        {"cores_star": {"consistency": 0.4}},  # the authors' at 40% noise
        width=2048,
        valid_fraction=0.02,
        pi_kinds={"seconds": "raw:46.6797:21.1822"},  # as they are, as in the code base
    ),
    _on_cifar(
        "cifar100n",
        "CIFAR-100N (fine labels) at the paper's scale.",
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
        PAPER_IMAGENET,
        WIDE_IMAGENET,
        valid_fraction=0.01,
        split_seed=0,
        seeds=3,
        main=("ce", "het", "tram", "tram_plus_plus", "afm", "pi_dual"),
        watched=50_000,  # at high noise a sixth of them is right: enough to see that 0.1% of the wrong ones are learned
    ),
    _on_cifar(
        "cifar10s",
        "CIFAR-10S with the paper's protocol and network; it is not in the paper.",
        {"cores_star": {"consistency": 0.2}},  # the authors' at 20% noise; here are 16%
    ),
    _on_vectors(
        "labelme",
        "LabelMe with the paper's protocol; it is not in the paper, and its inputs are features, so the network is an "
        "MLP.",
    ),
    _on_vectors(
        "digits_pi",
        "Digits-PI with the paper's protocol; it is not in the paper, and its inputs are 64 pixels, so the network is "
        "an MLP.",
    ),
    _on_cifar(
        "cifar10_pi",
        "CIFAR-10-PI with the paper's protocol and network; made as ImageNet-PI was; `cifar10_pi:low` and "
        "`cifar10_pi:high`.",
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
PATCHES: Options = {"epochs": 20, "batch_size": 128, "lr": 0.05, "milestones": (8, 16)}  # the rest is the paper's
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


def _on_cpu(dataset: str, title: str, *methods: Methods, cnn: bool = True, **own: Any) -> Recipe:
    """Return a recipe for one core: a small CNN on 10,000 images, or an MLP on vectors."""
    gate = {"gate_bias": -4.0 if cnn else -2.0}
    shared = merge(MIDDLE_OF_GRID, CPU_METHODS, {"pi_dual": gate, "pi_dual_plus": gate}, *methods)
    changes = own.pop("settings", {})
    own = {"other_network": {"network.convs": 2} if cnn else {"network.depth": 3}, **own}
    own |= {"widths": (64, 128, 256, 512), "seeds": 3}
    return Recipe(dataset, "cpu", title, {**(CPU_CNN if cnn else CPU_MLP), **changes}, shared, **own)


def _on_patches(dataset: str, what: str, *methods: Methods) -> Recipe:
    """Return the recipe that shows the paper's effect on real labels: an MLP on learned patches of all images.

    The network can memorise wrong labels, but not at once, and random PI is so long that the noise network does so
    before it. Every method's learning rate is chosen from the same short grid (`--tune`).
    """
    wide = {key: {"width": 512} for key in ("tram", "tram_plus_plus", "afm", "distill_pi", "pi_dual", "pi_dual_plus")}
    long = {key: {"random_pi": 256} for key in ("tram_plus_plus", "pi_dual", "pi_dual_plus")}
    return Recipe(
        dataset,
        "cpu",
        f"{what} at CPU scale: an MLP on learned patches of all 50,000 images, 20 epochs.",
        {**PAPER_MLP, "network.width": 512, "network.depth": 1, **PATCHES},
        merge(MIDDLE_OF_GRID, CPU_METHODS, wide, long, *methods),
        valid_fraction=0.02,
        main=MAIN_METHODS[:-1],
        search={"lr": (0.01, 0.05)},
        widths=(128, 256, 512, 1024),
        watched=2_000,
        dataset_options={"features": "patches"},
    )


AT_CPU_SCALE = [
    _on_cpu(
        "cifar10h",
        "CIFAR-10H (worst labels) at CPU scale: a small CNN on the 10,000 images, 12 epochs, too few to memorise.",
        n_test=10_000,
        valid_fraction=0.04,
    ),
    _on_patches("cifar10n", "CIFAR-10N (worst labels)"),
    _on_patches("cifar100n", "CIFAR-100N (fine labels)", {"het": {"rank": 6}, "forward_t": {"outlier_filter": False}}),
    _on_cpu(
        "imagenet_pi",
        "ImageNet-PI (low or high) at CPU scale: a small CNN on 20,000 images of 32 pixels, 12 epochs; never run.",
        n_train=20_000,
        other_network={},
        dataset_options={"image_size": 32},
    ),
    _on_cpu(
        "cifar10s",
        "CIFAR-10S at CPU scale, where Pi-DUAL gains nothing: a small CNN, 6,723 answers on 1,000 images, 12 epochs.",
        SMALL_CROWD,
        settings=SMALL,
    ),
    _on_cpu(
        "labelme",
        "LabelMe at CPU scale, a small crowd: an MLP on pooled VGG features, 2,547 answers of 59 workers, 30 epochs.",
        SMALL_CROWD,
        cnn=False,
        settings={"network.dropout": 0.5, "batch_size": 32, **SMALL},
    ),
    _on_cpu(
        "digits_pi",
        "Digits-PI at CPU scale: an MLP on 1,257 labels by 16 classifiers, 60 epochs; `digits_pi:low` and "
        "`digits_pi:high`.",
        cnn=False,
        settings={"epochs": 60},
    ),
    _on_cpu(
        "cifar10_pi",
        "CIFAR-10-PI at CPU scale: a small CNN on 10,000 images, 12 epochs; `cifar10_pi:low` and `cifar10_pi:high`.",
        n_train=10_000,
        n_test=10_000,
    ),
]
RECIPES = {(recipe.dataset, recipe.scale): recipe for recipe in (*AT_PAPER_SCALE, *AT_CPU_SCALE)}
