"""Settings: the options a user gets without asking for them.

`paper` is the protocol of the paper. `default` is for people who cannot tune; docs/settings.md says what it rests on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from ..options import Training, option_names

Options = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """Options of training, of the method and of the network."""

    training: Options
    method: Options
    network: Options


@dataclass(frozen=True)
class _DataSettings:
    """How much of the data is held out, and how PI is encoded."""

    valid_fraction: float = 0.1  # share of the items held out as noisy validation rows
    raw_pi: bool = False  # whether numbers among the PI are standardised as they are, times too
    # a category of PI seen fewer times is encoded as "other"; by default as `PIEncoder` has it
    pi_min_count: int | None = None


def choose_settings(
    setting: str, method: str, *, n_train: int, images: bool, n_items: int | None = None, mlp: bool = False
) -> Settings:
    """Return the options of a setting.

    `setting` ("default" or "paper").
    `method`: key of METHODS.
    `n_train`: annotations trained on.
    `images`: whether the inputs are images.
    `n_items`: items trained on; by default as many as annotations.
    `mlp`: whether the network is our MLP.
    """
    _check_setting(setting)
    if setting == "default" and method == "latent_truth":
        return _latent_truth_settings(n_train if n_items is None else n_items, images, mlp)
    return SETTINGS[setting](method, n_train, images)


def data_settings(setting: str, method: str, *, images: bool) -> _DataSettings:
    """Return what a setting does with the data: the paper's, for images, is that of CIFAR-10N and CIFAR-100N.

    Latent truth holds out each item from one of its networks, and needs no further ones.
    """
    _check_setting(setting)
    if setting == "default" and method == "latent_truth":
        return _DataSettings(valid_fraction=0.0)
    if setting == "paper" and images:
        return _DataSettings(valid_fraction=0.02, raw_pi=True, pi_min_count=1)
    return _DataSettings()


def network_of(setting: str, in_shape: Sequence[int]) -> str:
    """Return the name of the network for inputs of this shape."""
    _check_setting(setting)
    from ..learn.nets import network_for  # and torch with it

    return "wrn_28_10" if setting == "paper" and len(in_shape) == 3 else network_for(in_shape)


def _check_setting(setting: str) -> None:
    """Refuse a name that no setting has."""
    if setting not in SETTINGS:
        raise UsageError(f"There is no setting '{setting}'; use one of {', '.join(SETTINGS)}.")


def split_settings(settings: Mapping[str, Any], training_type: type[Training] = Training) -> Settings:
    """Split a mapping of all options into those of training, of the method and of the network (`network.KEY`)."""
    if "seed" in settings:
        raise UsageError("The seed is not an option of --set; give it with --seed or --seeds.")
    training = {key: value for key, value in settings.items() if key in option_names(training_type)}
    network = {key.removeprefix("network."): value for key, value in settings.items() if key.startswith("network.")}
    method = {key: value for key, value in settings.items() if key not in training and not key.startswith("network.")}
    return Settings(training, method, network)


def _paper_settings(method: str, n_train: int, images: bool) -> Settings:
    """Return the paper's protocol for CIFAR as it is printed; the guard only watches.

    For images Pi-DUAL has the width of CIFAR-10N and CIFAR-100N. The paper has no other inputs.
    """
    training = PAPER_CIFAR | {"select": "best", "guard": "watch"} | (AUGMENTATION if images else {})
    if method == "pi_dual_plus":
        training |= PI_DUAL_PLUS_SCHEDULE
    options = {"width": 2048} if images and method in ("pi_dual", "pi_dual_plus") else {}
    return Settings(training, options, {})


def _default_settings(method: str, n_train: int, images: bool) -> Settings:
    """Choose by the size of the data: the smaller it is, the more must keep a network from memorising labels."""
    size = next(size for size in SIZES if n_train < size["below"])
    training = {
        "epochs": size["epochs"],
        "batch_size": size["batch_size"],
        "lr": 0.1,
        "clip": 1.0,
        "weight_decay": size["weight_decay"],
        "select": "last",
    }
    if images:
        training |= AUGMENTATION | {"epochs": min(20, size["epochs"]), "batch_size": max(64, size["batch_size"])}
        training["weight_decay"] = min(3e-3, size["weight_decay"])
    from ..learn.methods import METHODS  # and torch with it

    options: Options = {"width": 256} if METHODS[method].needs_pi else {}
    if method in ("pi_dual", "pi_dual_plus"):
        options |= {"random_pi": size["random_pi"], "gate_bias": -4.0 if images else -2.0}
    network = {"convs": 2} if images else {"width": 128, "depth": 2, "dropout": 0.5}
    return Settings(training, options, network)


def _latent_truth_settings(n_items: int, images: bool, mlp: bool) -> Settings:
    """Choose for latent truth around a network, by the number of items: five folds cost four times what two do."""
    size = next(size for size in BY_ITEMS if n_items < size["below"])
    training = {
        "epochs": size["epochs"],
        "batch_size": size["batch_size"],
        "lr": 0.1,
        "clip": 1.0,
        "select": "last",
        "weight_decay": size["weight_decay"],
    }
    if images:
        training |= AUGMENTATION | {"epochs": min(20, size["epochs"]), "weight_decay": 1e-3}
    network = {"convs": 2} if images else {"width": 128, "depth": 1, "dropout": 0.5}
    return Settings(training, {"folds": size["folds"] if mlp else 2}, network)


BY_ITEMS: tuple[dict[str, Any], ...] = (
    {"below": 500, "epochs": 60, "batch_size": 32, "folds": 5, "weight_decay": 3e-3},
    {"below": 5_000, "epochs": 60, "batch_size": 64, "folds": 5, "weight_decay": 3e-3},
    {"below": 50_000, "epochs": 20, "batch_size": 128, "folds": 5, "weight_decay": 3e-3},
    {"below": 200_000, "epochs": 10, "batch_size": 256, "folds": 2, "weight_decay": 1e-3},
    {"below": float("inf"), "epochs": 4, "batch_size": 1024, "folds": 2, "weight_decay": 1e-4},
)
PAPER_CIFAR: Options = {  # METHODS 1.1
    "epochs": 90,
    "batch_size": 256,
    "lr": 0.1,
    "schedule": "steps",
    "milestones": (36, 72, 96),
    "lr_decay": 0.2,
    "weight_decay": 1e-4,
}
PI_DUAL_PLUS_SCHEDULE: Options = {"epochs": 300, "batch_size": 128, "schedule": "cosine"}  # METHODS 3.2
AUGMENTATION = {"crop_pad": 4, "flip": True}
SIZES: tuple[dict[str, Any], ...] = (
    {"below": 1_000, "epochs": 60, "batch_size": 16, "weight_decay": 1e-2, "random_pi": 0},
    {"below": 10_000, "epochs": 30, "batch_size": 32, "weight_decay": 3e-3, "random_pi": 0},
    {"below": 100_000, "epochs": 30, "batch_size": 128, "weight_decay": 1e-3, "random_pi": 0},
    {"below": 1_000_000, "epochs": 10, "batch_size": 512, "weight_decay": 1e-4, "random_pi": 8},
    {"below": float("inf"), "epochs": 4, "batch_size": 1024, "weight_decay": 1e-4, "random_pi": 8},
)
SETTINGS = {"default": _default_settings, "paper": _paper_settings}
