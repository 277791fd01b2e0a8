"""Settings: the options a user gets without asking for them.

`paper` is the protocol of the paper. `default` is for people who cannot tune; docs/settings.md says what it rests on.
"""

from dataclasses import dataclass
from typing import Any

from .engine.training import paper_protocol
from .errors import UsageError

Options = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """Options of training, of the method and of the network."""

    training: Options
    method: Options
    network: Options


def choose_settings(setting: str, method: str, *, n_train: int, images: bool) -> Settings:
    """The options of a setting.

    Parameters
    ----------
    setting : "default" or "paper"
    method : str
        Key of METHODS.
    n_train : int
        Annotations trained on.
    images : bool
        Whether the inputs are images.
    """
    if setting not in SETTINGS:
        raise UsageError(f"There is no setting '{setting}'; use one of {', '.join(SETTINGS)}.")
    settings = SETTINGS[setting](method, n_train)
    if not images:
        return settings
    return Settings(settings.training | {"crop_pad": 4, "flip": True}, settings.method, {})


def paper_settings(method: str, n_train: int) -> Settings:
    """The paper's protocol and networks for CIFAR-10H, whatever the data; the guard only watches."""
    training = paper_protocol() | {"select": "best", "guard": "watch"}
    return Settings(training, {"width": 1024, "random_pi": 8} if method == "pi_dual" else {}, {})


def default_settings(method: str, n_train: int) -> Settings:
    """By the size of the data: about as many steps as it takes, and networks too small to remember every label."""
    epochs, batch_size = next((e, b) for limit, e, b in SIZES if n_train < limit)
    training = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": 0.1,
        "clip": 1.0,
        "weight_decay": 1e-3,
        "select": "last",
    }
    random_pi = 0 if n_train < RANDOM_PI_FROM else 8
    pi_dual = {"width": 256, "random_pi": random_pi, "gate_bias": -2.0}
    return Settings(training, pi_dual if method == "pi_dual" else {}, {"width": 128, "depth": 1, "dropout": 0.5})


SIZES = ((10_000, 60, 64), (100_000, 30, 128), (1_000_000, 10, 512), (float("inf"), 4, 1024))  # rows, epochs, batch
RANDOM_PI_FROM = 20_000
SETTINGS = {"default": default_settings, "paper": paper_settings}
