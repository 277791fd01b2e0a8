"""Data to train on: what pidual makes itself, and what others publish, as annotations, inputs x and a clean test set.

    load_dataset("cifar10n:aggregate", Path("data"))

A dataset is named by its key of DATASETS; a variant goes behind a colon, and the first one is the default.
"""

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError

if TYPE_CHECKING:
    from .base import NoisyDataset


@dataclass(frozen=True)
class _Entry:
    """A dataset that can be loaded.

    Attributes
    ----------
    title : str
    loader : str
        Module and function, called with the folder, the variant if there are any, and the seed if it counts.
    variants : tuple of str
    random : bool
        Whether the seed decides which annotations there are.
    """

    title: str
    loader: str
    variants: tuple[str, ...] = ()
    random: bool = False


DATASETS = {
    "cifar10h": _Entry("CIFAR-10H, worst labels", "cifar10h.load_cifar10h"),
    "cifar10n": _Entry(
        "CIFAR-10N", "cifarn.load_cifar10n", ("worst", "worst-official", "aggregate", "random1", "random2", "random3")
    ),
    "cifar100n": _Entry("CIFAR-100N", "cifarn.load_cifar100n", ("fine", "coarse")),
    "imagenet_pi": _Entry("ImageNet-PI", "imagenet_pi.load_imagenet_pi", ("low", "high"), random=True),
    "cifar10s": _Entry("CIFAR-10S", "cifar10s.load_cifar10s"),
    "labelme": _Entry("LabelMe", "labelme.load_labelme", ("test", "valid")),
    "digits_pi": _Entry("Digits-PI", "digits.load_noise_level", ("low", "high"), random=True),
    "cifar10_pi": _Entry("CIFAR-10-PI", "cifar10_pi.load_cifar10_pi", ("low", "high"), random=True),
    "cifar100_sm500": _Entry("CIFAR-100 SM500", "crowds.load_cifar100_sm500"),
    "medical_treat": _Entry("Medical relations", "crowds.load_medical_treat", random=True),
    "llm_emotion": _Entry("Language models on emotions", "crowds.load_llm_emotion", random=True),
}


def load_dataset(
    name: str, data: str | Path = "data", *, seed: int = 0, features: str | None = None, **options: Any
) -> "NoisyDataset":
    """Load a dataset by name: what pidual makes itself, and files that others publish.

    Parameters
    ----------
    name : str
        Its name (docs/paper/datasets.md has them all), with a variant behind a colon or the first one: "cifar10n" is
        "cifar10n:worst".
    data : path
        Folder with the datasets in their authors' file formats; see docs/paper/datasets.md.
    seed : int
        Which annotations there are, where the dataset leaves a choice (the three whose names end in PI), or which
        items are held out as a test set (medical_treat, llm_emotion).
    features : "patches", optional
        Turn pictures into vectors (`data.picture_features.patch_features`), which are kept in DATA/picture-features.
    **options
        Passed on to the loader.

    Returns
    -------
    NoisyDataset
        Annotations, inputs, and a clean test set.

    See Also
    --------
    make_crowd : A synthetic crowd of any size.

    Examples
    --------
    >>> from pidual import load_dataset
    >>> data = load_dataset("digits_pi:low")  # this one needs no files
    >>> len(data.frame), list(data.pi)
    (1257, ['annotator', 'confidence', 'annotator_accuracy', 'annotator_size'])
    >>> data.x.shape, data.x_test.shape
    ((1257, 64), (540, 64))
    """
    entry, variant = find_entry(name)
    if entry.random:
        options["seed"] = seed
    module, function = entry.loader.split(".")
    load = getattr(import_module(f".{module}", __name__), function)
    loaded: NoisyDataset = load(Path(data), *([variant] if variant else []), **options)
    if features is None:
        return loaded
    from .. import Inputs
    from ..picture_features import patch_features

    x, x_test = loaded.x, loaded.x_test
    if features != "patches" or isinstance(x, Inputs) or isinstance(x_test, Inputs) or x.ndim != 4:
        raise UsageError(f"features={features!r} of {name}: there are 'patches', of pictures that memory holds.")
    x, x_test = patch_features(x, x_test, Path(data) / "picture-features")
    return replace(loaded, x=x, x_test=x_test)


def find_entry(name: str) -> tuple[_Entry, str | None]:
    """Return the entry of DATASETS a name stands for, and the variant."""
    key, colon, variant = name.partition(":")
    if key not in DATASETS:
        raise UsageError(f"There is no dataset '{key}'; there are {', '.join(DATASETS)}.")
    entry = DATASETS[key]
    if not colon:
        return entry, entry.variants[0] if entry.variants else None
    if variant not in entry.variants:
        known = ", ".join(f"{key}:{each}" for each in entry.variants) or "no variants of it"
        raise UsageError(f"There is no dataset '{name}'; there are {known}.")
    return entry, variant
