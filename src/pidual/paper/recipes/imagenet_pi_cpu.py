"""ImageNet-PI (low or high) at CPU scale: a small CNN on 20,000 images of 32 pixels, 12 epochs.

    pidual benchmark imagenet_pi:low,imagenet_pi:high --scale cpu --data DIR --out DIR

Cost: not measured; images are decoded again in every epoch.
Expected: not run by us, since the images were not available. `cifar10_pi` is made in the same way and stands in for it.
"""

from . import Recipe
from .shared import CPU_CNN, CPU_CNN_METHODS, CPU_WIDTHS

RECIPE = Recipe(
    dataset="imagenet_pi",
    scale="cpu",
    settings=CPU_CNN,
    methods=CPU_CNN_METHODS,
    n_train=20_000,
    widths=CPU_WIDTHS,
    seeds=3,
    dataset_options={"image_size": 32},
)
