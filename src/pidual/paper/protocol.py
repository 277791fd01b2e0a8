"""How the paper trains, and how the code base it was built on does where the paper does not say (METHODS 1.1 to 1.4).

Momentum is Nesterov's in both, the default of `Training`. What is not a training option has to be asked for beside the
code base's: the network option `statistics` ("cifar10" on CIFAR, "unit" on ImageNet), and on ImageNet inputs read with
`image_size=224, centre_crop=True` and the option `pi_weight_decay=True` of methods with PI networks. Its bfloat16 on
TPUs is left to the hardware: `precision`.
"""

from ..fit.settings import PAPER_CIFAR as CIFAR
from ..fit.settings import Options

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
__all__ = ["CIFAR", "CIFAR_CODEBASE", "IMAGENET", "IMAGENET_CODEBASE", "KERAS", "PYTORCH"]
