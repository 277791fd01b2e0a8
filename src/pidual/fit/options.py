"""What a user can ask of a fit, and what that comes to for the data at hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from ..data import AnnotationTable
from ..errors import UsageError
from ..errors.messages import quoted
from ..learn.engine import usual_precision
from ..learn.methods import METHODS, check_method
from ..options import Training, check_options, defaults, option_names, signature
from .settings import choose_settings, network_of, split_settings


@dataclass(frozen=True)
class FitOptions:
    """Options of `fit_table`: method, seed, network, training.

    Parameters
    ----------
    method : str
        Key of `METHODS`, or "auto": latent_truth, but pi_dual in the setting "paper".
    setting : "default" or "paper"
        Preset for options you do not set.
    options : mapping
        Options that differ from the setting's, by the names that `--set` has (docs/options.md): of training (`lr`), of
        the method (`lam`) and of the network (`network.width`).
    network : str, optional
        Name of a network, torchvision:NAME or timm:NAME; by default none for latent_truth, else an MLP for vectors and
        a small CNN for images; WRN-28-10 for images in the setting "paper".
    valid_fraction : float, optional
        Share of the items held out as noisy validation rows, where the table has no split of its own; by default none
        by the method latent_truth, else 0.1, or 0.02 for images in the setting "paper".
    valid_items : int, optional
        Largest number of items to hold out; None sets no limit.
    split_seed : int, optional
        Seed for choosing the items to hold out; by default `seed`, so that every seed holds out others.
    pi_kinds : mapping
        Kinds of PI columns, instead of guessing them.
    pi_min_count : int, optional
        A category of PI, such as an annotator, that is seen fewer times is encoded as "other"; by default 2
        for annotators, 2 to 10 for other columns of small to large tables, 1 for images in the setting "paper".
    seed : int
        Random seed.
    accelerator : str
        A Lightning Fabric accelerator, such as "auto", "cpu" or "cuda".
    threads : int, optional
        Number of CPU threads; by default one for small networks, otherwise as many as torch has (docs/settings.md).
    training : type
        `Training`, or a subclass of it that has more options.

    See Also
    --------
    fit_table : Takes them.
    METHODS : All methods by name.

    Examples
    --------
    >>> from pidual import AnnotationTable, FitOptions, Inputs, fit_table, make_crowd
    >>> crowd = make_crowd(60, 6, noise=0.3)
    >>> frame = crowd.frame[["item", "annotator", "label"]]
    >>> table = AnnotationTable.from_frame(frame, keep_ids=True)
    >>> options = FitOptions("elr", options={"epochs": 5, "lam": 1, "network.width": 64})
    >>> run = fit_table(table, Inputs.from_array(crowd.x), "runs/elr", options)
    >>> run.config.method, len(run.history)
    ('elr', 5)
    """

    method: str = "auto"
    setting: str = "default"
    options: Mapping[str, Any] = field(default_factory=dict)
    network: str | None = None
    valid_fraction: float | None = None
    valid_items: int | None = 5_000
    split_seed: int | None = None
    pi_kinds: Mapping[str, str] = field(default_factory=dict)
    pi_min_count: int | None = None
    seed: int = 0
    accelerator: str = "auto"
    threads: int | None = None
    training: type[Training] = Training

    @classmethod
    def judging(cls, pi_kinds: Mapping[str, str] | None = None) -> Self:
        """Make options to judge answers without a network to train."""
        return cls(method="latent_truth", pi_kinds=pi_kinds or {}, accelerator="cpu")


@dataclass(frozen=True)
class Provenance:
    """Where the data of a fit came from, for the record of its run.

    Parameters
    ----------
    source : mapping of str
        Where table and inputs came from, in words: `table`, `x`, `truth`, `command`.
    reads : sequence of paths
        Further files the run is made from, such as the key of the pseudonyms; none of them is overwritten.
    warnings : sequence of str
        Warnings from reading table and inputs.

    See Also
    --------
    fit_table : Takes it.

    Examples
    --------
    >>> from pidual import AnnotationTable, Inputs, fit_table, make_crowd
    >>> from pidual.fit.options import Provenance
    >>> crowd = make_crowd(60, 6, noise=0.3)
    >>> frame = crowd.frame[["item", "annotator", "label"]]
    >>> table = AnnotationTable.from_frame(frame, keep_ids=True)
    >>> origin = Provenance({"table": "answers of May", "x": "embeddings.npy"})
    >>> run = fit_table(table, Inputs.from_array(crowd.x), "runs/crowd", provenance=origin)
    >>> run.config.source.table
    'answers of May'
    """

    source: Mapping[str, Any] = field(default_factory=dict)
    reads: Sequence[str | Path] = ()
    warnings: Sequence[str] = ()


def choose_method(options: FitOptions, table: AnnotationTable) -> tuple[FitOptions, str]:
    """Choose a method in place of "auto", and say why in one sentence; "" where a method was asked for.

    Latent truth, which judges all answers of an item together, but in the setting "paper", which is that of Pi-DUAL.
    """
    if options.method != "auto":
        check_method(options.method, "auto")
        return options, ""
    if options.setting == "paper":
        return replace(options, method="pi_dual"), "Method pi_dual, which the setting 'paper' is for."
    n_items = len(table.frame["item"].cat.categories)
    per_item = table.n_answers / max(1, n_items)
    people = table.frame["annotator"].nunique() if "annotator" in table.frame else 0
    who = f" by {people:,} annotator{'s' if people != 1 else ''}" if people else ""
    answers = "one answer" if per_item == 1 else f"{per_item:.1f} answers"
    return (
        replace(options, method="latent_truth"),
        f"Method latent_truth: {n_items:,} items with {answers} each{who} are judged together.",
    )


def _check_spelling(method: str, options: Mapping[str, Any], training: type[Training] = Training) -> None:
    """Refuse an option that the method does not have, and training has by nearly the same name."""
    for name in options:
        near = get_close_matches(name, option_names(training), 1) if name not in signature(METHODS[method]) else []
        if near:
            raise UsageError(
                f"There is no option {quoted(name)} of training or of the method '{method}'; {near[0]} is one."
            )


def resolve_options(
    options: FitOptions,
    n_train: int,
    in_shape: Sequence[int],
    n_items: int | None = None,
) -> tuple[Training, dict[str, Any], dict[str, Any]]:
    """Resolve options of training, method and network for inputs of a shape: the setting's, then the user's own."""
    images = len(in_shape) == 3
    sizes: dict[str, Any] = {"n_train": n_train, "n_items": n_items, "images": images}
    settings = choose_settings(options.setting, options.method, **sizes, mlp=options.network == "mlp")
    given = split_settings(options.options, options.training)
    _check_spelling(options.method, given.method, options.training)
    usual: dict[str, Any] = {"precision": usual_precision(options.accelerator)} if options.setting == "default" else {}
    training = options.training(**usual | settings.training | given.training | {"seed": options.seed})
    implied = options.network in (None, network_of(options.setting, in_shape))  # its options are for no other network
    method = defaults(METHODS[options.method]) | settings.method | given.method
    check_options(f"method '{options.method}'", METHODS[options.method], method)
    return training, method, (settings.network if implied else {}) | given.network
