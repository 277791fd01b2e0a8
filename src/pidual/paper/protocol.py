"""How the paper trains, and how the code base it was built on does where the paper does not say.

Momentum is Nesterov's in both, the default of `Training`.
"""

from typing import Any


def paper_protocol(images: str = "cifar", *, codebase: bool = False) -> dict[str, Any]:
    """Training options of the paper: "cifar" (METHODS 1.1) or "imagenet" (METHODS 1.2).

    Parameters
    ----------
    images : "cifar" or "imagenet"
    codebase : bool
        False is the paper as printed. True adds what it does not say and the code base it was built on does (METHODS
        1.4). What is not a training option has to be asked for beside it: the network option `statistics` ("cifar10" on
        CIFAR, "unit" on ImageNet), and on ImageNet inputs read with `image_size=224, centre_crop=True` and the option
        `pi_weight_decay=True` of methods with PI networks. Its bfloat16 on TPUs is left to the hardware: `precision`.
    """
    if images == "imagenet":
        printed = {
            "epochs": 90,
            "batch_size": 2048,
            "lr": 0.1,
            "schedule": "steps",
            "milestones": (30, 60, 80),
            "lr_decay": 0.1,
            "weight_decay": 1e-4,
        }
        return printed | (IMAGENET_CODEBASE if codebase else {})
    printed = {
        "epochs": 90,
        "batch_size": 256,
        "lr": 0.1,
        "schedule": "steps",
        "milestones": (36, 72, 96),
        "lr_decay": 0.2,
        "weight_decay": 1e-4,
    }
    return printed | (CIFAR_CODEBASE if codebase else {})


PI_DUAL_PLUS_SCHEDULE: dict[str, Any] = {"epochs": 300, "batch_size": 128, "schedule": "cosine"}  # METHODS 3.2
# Decay is that of the penalty weight_decay * w^2, the rate is inside the velocity, and of 400 noisy validation rows 256
# are seen at a batch of 256.
KERAS = {"decay_convention": "keras", "momentum_convention": "keras", "valid_whole_batches": True}
CIFAR_CODEBASE: dict[str, Any] = {
    **KERAS,
    "lr_scale_batch": 128,
    "warmup_epochs": 1,
    "crop_pad": 2,  # the repositories of ELR, SOP, DivideMix, PES and CORES have 4
    "flip": True,
}
IMAGENET_CODEBASE: dict[str, Any] = {
    **KERAS,
    "lr_scale_batch": 256,
    "warmup_epochs": 5,
    "decay_norms": False,
    "crop_pad": 0,
    "resized_crop": True,
    "flip": True,
}
