"""The loaders of DATASETS: called with the folder, the variant if there are any, and the seed if it counts."""

from collections.abc import Callable

from .base import NoisyDataset
from .cifar10_pi import load_cifar10_pi
from .cifar10h import load_cifar10h
from .cifar10s import load_cifar10s
from .cifarn import load_cifar10n, load_cifar100n
from .crowds import load_cifar100_sm500, load_llm_emotion, load_medical_treat
from .digits import load_noise_level
from .imagenet_pi import load_imagenet_pi
from .labelme import load_labelme

LOADERS: dict[str, Callable[..., NoisyDataset]] = {
    "cifar10h": load_cifar10h,
    "cifar10n": load_cifar10n,
    "cifar100n": load_cifar100n,
    "imagenet_pi": load_imagenet_pi,
    "cifar10s": load_cifar10s,
    "labelme": load_labelme,
    "digits_pi": load_noise_level,
    "cifar10_pi": load_cifar10_pi,
    "cifar100_sm500": load_cifar100_sm500,
    "medical_treat": load_medical_treat,
    "llm_emotion": load_llm_emotion,
}
