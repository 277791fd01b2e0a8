"""Data to train on: what pidual makes itself, and what others publish, as annotations, inputs x and a clean test set.

    load_dataset("cifar10n:aggregate", Path("data"))

A dataset is named by its key of DATASETS; a variant goes behind a colon, and the first one is the default.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError

if TYPE_CHECKING:
    from .base import NoisyDataset


@dataclass(frozen=True)
class Entry:
    """A dataset that can be loaded.

    Attributes
    ----------
    title : str
    loader : str
        Module of pidual and function in it: called with the folder of the data, the variant if there are any,
        and the seed if it is random.
    variants : tuple of str
    random : bool
        Whether the seed decides which annotations there are.
    recipes : bool
        Whether `pidual benchmark` has recipes for it; benchmarks/crowds.py compares methods on the others.
    """

    title: str
    loader: str
    variants: tuple[str, ...] = ()
    random: bool = False
    recipes: bool = True


DATASETS = {
    "cifar10h": Entry("CIFAR-10H, worst labels", "data.datasets.published.cifar10h:load_cifar10h"),
    "cifar10n": Entry(
        "CIFAR-10N",
        "data.datasets.published.cifarn:load_cifar10n",
        ("worst", "worst-official", "aggregate", "random1", "random2", "random3"),
    ),
    "cifar100n": Entry("CIFAR-100N", "data.datasets.published.cifarn:load_cifar100n", ("fine", "coarse")),
    "imagenet_pi": Entry(
        "ImageNet-PI", "data.datasets.published.imagenet_pi:load_imagenet_pi", ("low", "high"), random=True
    ),
    "cifar10s": Entry("CIFAR-10S", "data.datasets.published.cifar10s:load_cifar10s"),
    "labelme": Entry("LabelMe", "data.datasets.published.labelme:load_labelme", ("test", "valid")),
    "digits_pi": Entry("Digits-PI", "data.datasets.digits:load_noise_level", ("low", "high"), random=True),
    "cifar10_pi": Entry(
        "CIFAR-10-PI", "data.datasets.published.cifar10_pi:load_cifar10_pi", ("low", "high"), random=True
    ),
    "cifar100_sm500": Entry("CIFAR-100 SM500", "data.datasets.published.crowds:load_cifar100_sm500", recipes=False),
    "medical_treat": Entry(
        "Medical relations", "data.datasets.published.crowds:load_medical_treat", random=True, recipes=False
    ),
    "llm_emotion": Entry(
        "Language models on emotions", "data.datasets.published.crowds:load_llm_emotion", random=True, recipes=False
    ),
    **{
        name: Entry(title, f"data.datasets.hard_cases:{name}", random=True, recipes=False)
        for name, title in {
            "topics": "Texts on four topics",
            "spammers": "Digits by 30 workers, 9 of them spammers",
            "wide_table": "Digits, a column for each annotator",
            "messy_labels": "Texts, and a class in two spellings",
            "fraud": "Payments, 2% of them fraud",
            "one_annotator": "Breast cancer by one person",
            "many_annotators": "Digits by 2,000 people",
            "few_mistakes": "Digits with 2% noise",
            "adversaries": "Digits, wrong on purpose",
            "small_images": "500 small images",
            "no_pi": "Wine without PI",
            "idle_pi": "Breast cancer, PI that says nothing",
        }.items()
    },
}


def load_dataset(name: str, data: str | Path = "data", *, seed: int = 0, **options: Any) -> "NoisyDataset":
    """Load a dataset.

    Parameters
    ----------
    name : str
        Key of DATASETS, with a variant behind a colon or the first one: "cifar10n" is "cifar10n:worst".
    data : path
        Folder with the datasets in their authors' file formats; see docs/datasets.md.
    seed : int
        Which annotations there are, where the dataset leaves a choice (the three whose names end in PI), or which
        items are held out as a test set (medical_treat, llm_emotion).
    **options
        Passed on to the loader.
    """
    entry, variant = find_entry(name)
    module, _, function = entry.loader.partition(":")
    load = getattr(import_module(f"pidual.{module}"), function)
    if entry.random:
        options["seed"] = seed
    dataset: NoisyDataset = load(Path(data), *([variant] if variant else []), **options)
    return dataset


def find_entry(name: str) -> tuple[Entry, str | None]:
    """The entry of DATASETS a name stands for, and the variant."""
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
