"""Settings: the training and method options a user gets without asking.

`paper` is the protocol of the paper (METHODS 1.1 and 3.1). `default` is for people who cannot tune.
"""

from typing import Any

from .engine.training import paper_protocol
from .errors import UsageError

SETTINGS = ("default", "paper")

Options = dict[str, Any]


def choose_settings(setting: str, method: str, *, n_train: int, images: bool) -> tuple[Options, Options]:
    """Training options and method options.

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
    if setting == "paper":
        return paper_settings(method, images=images)
    if setting == "default":
        return default_settings(method, n_train=n_train, images=images)
    raise UsageError(f"There is no setting '{setting}'; use one of {', '.join(SETTINGS)}.")


def paper_settings(method: str, *, images: bool) -> tuple[Options, Options]:
    """The paper's CIFAR protocol, and its networks for CIFAR-10H; the guard only watches."""
    training = paper_protocol() | {"select": "best", "guard": "watch"}
    if images:
        training |= {"crop_pad": 4, "flip": True}
    return training, {"width": 1024, "random_pi": 8} if method == "pi_dual" else {}


def default_settings(method: str, *, n_train: int, images: bool) -> tuple[Options, Options]:
    """Options by the size of the data."""
    epochs, batch_size = (60, 64) if n_train < 10_000 else (30, 128) if n_train < 100_000 else (10, 1024)
    training: Options = {
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": 0.05,
        "clip": 1.0,
        "weight_decay": 1e-4,
        "select": "last",
    }
    if images:
        training |= {"crop_pad": 4, "flip": True}
    return training, {"width": 256, "random_pi": 0} if method == "pi_dual" else {}
