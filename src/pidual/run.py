"""The one job: an annotation table and inputs become a run directory.

prepare   table + inputs + options   -> Job        everything is checked here, before anything is written
train     Job                        -> Fitted
assess    Job + Fitted               -> Results    predictions, items, annotators, summary
fit_table all of it, into a directory that `rundir.Run` opens again
"""

import contextlib
import hashlib
import io
import json
import math
import platform
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from .batch import Groups, Rows, Spec
from .consensus import LEAST, first_part, fit_judge, pi_effects
from .data import SPLITS, AnnotationTable, Inputs, x_rows
from .detect import Cutoff, Posteriors, describe_annotators, describe_items, mark_issues
from .directory import NEW, begun_folder, check_directory, choose_folder, locked, take_place
from .encode import PIColumn, PIEncoder, quantity
from .engine import Fitted, Interrupted, Training, fit, guard, make_fabric
from .engine.checkpoint import StateStore, save_tensors
from .engine.history import append_record, write_history
from .engine.predict import score_rows
from .engine.progress import Progress
from .engine.threads import choose_threads, goes_on_with, using_threads
from .errors import DataError, DataWarning, DivergedError, RunError, UsageError
from .files import release, write_json
from .giveaway import check_giveaway
from .messages import first_line, quoted
from .methods import METHODS, Method, check_method
from .methods.answer_model import AnswerModel
from .metrics import detection_auc, finite_or_none
from .nets import NETWORKS, WITHOUT_X, Standardize, build_network
from .options import check_options, defaults, signature
from .predictions import Predictions, write_frame
from .random_pi import derive_seed
from .rundir import Run, evaluate_issues
from .schemas import CONFIG, FORMAT, check_record, run_id, sealed
from .settings import choose_settings, data_settings, judging_settings, network_of
from .training import option_names

JUDGING_NETWORKS = {"probabilities": "given", "none": "prior"}  # by the kind of inputs; there is none of x to train
KEPT_NUMBERS = 2**27  # items x classes of which probabilities are kept at once
JUDGED_ITEMS, JUDGED_NUMBERS = 2**14, 2**23  # items, and answers x classes, that are judged at once
STANDARDIZE_BYTES = 2**27  # how much of x is looked at for mean and standard deviation


@dataclass(frozen=True)
class FitOptions:
    """What a user can ask of a fit.

    Parameters
    ----------
    method : str
        Key of METHODS, or "auto": by the shape of the data (`choose_method`).
    setting : "default" or "paper"
        Where options that are not given come from.
    method_options, training, network_options : mapping
        Options that differ from the setting's: of the method's constructor, of Training, of the network.
    network : str, optional
        Key of NETWORKS, torchvision:NAME or timm:NAME; by default an MLP for vectors and for images a small CNN, or
        WRN-28-10 in the setting "paper".
    valid_fraction : float, optional
        Share of the items held out as noisy validation rows, where the table has no split of its own; by default none
        by the method latent_truth, else 0.1, or 0.02 for images in the setting "paper".
    valid_items : int, optional
        Not more items than this are held out; None sets no limit.
    split_seed : int, optional
        Of the items that are held out; by default `seed`, so that every seed has others.
    pi_kinds : mapping
        Kind of PI columns that should not be guessed.
    pi_min_count : int, optional
        A category of PI, such as an annotator, that is seen fewer times is encoded as "other"; by default as
        `PIEncoder` has it, or 1 for images in the setting "paper".
    seed : int
        Of everything random.
    accelerator : str
        A Lightning Fabric accelerator, such as "auto", "cpu" or "cuda".
    threads : int, optional
        Threads of the processor; by default one for small networks, else as many as torch has (docs/settings.md).
    """

    method: str = "auto"
    setting: str = "default"
    method_options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    network: str | None = None
    network_options: Mapping[str, Any] = field(default_factory=dict)
    valid_fraction: float | None = None
    valid_items: int | None = 5_000
    split_seed: int | None = None
    pi_kinds: Mapping[str, str] = field(default_factory=dict)
    pi_min_count: int | None = None
    seed: int = 0
    accelerator: str = "auto"
    threads: int | None = None


@dataclass
class Job:
    """A fit that has been checked and can start."""

    table: AnnotationTable
    inputs: Inputs
    options: FitOptions
    rows: Rows
    split: NDArray[np.int8]  # 0 train, 1 valid, 2 test
    encoder: PIEncoder
    spec: Spec
    training: Training
    method_options: dict[str, Any]
    network: dict[str, Any]
    make: Callable[[], nn.Module]  # a fresh network
    build: Callable[[], Method]
    warnings: list[str]
    threads: int
    choice: str = ""  # why this method, where none was asked for

    def part(self, number: int) -> Rows | None:
        """Rows of train (0), valid (1) or test (2); None where there are none."""
        index = np.flatnonzero(self.split == number)
        return self.rows.subset(index) if len(index) else None


@dataclass
class Results:
    """What a fit says of the labels."""

    predictions: Predictions
    items: pd.DataFrame | None
    annotators: pd.DataFrame | None
    summary: dict[str, Any]


# --- prepare ---


def prepare(
    table: AnnotationTable,
    inputs: Inputs,
    options: FitOptions,
    *,
    module: nn.Module | Callable[[], nn.Module] | None = None,
    sample_weight: NDArray[np.floating[Any]] | None = None,
) -> Job:
    """Check and join everything a fit needs.

    Parameters
    ----------
    table : AnnotationTable
    inputs : Inputs
    options : FitOptions
    module : callable, optional
        Makes the prediction network, in place of one of ours.
    sample_weight : array (N,), optional
        Weight of every annotation.
    """
    in_shape = tuple(int(size) for size in inputs.array.shape[1:])
    options, choice = choose_method(options, table)
    check_method(options.method)
    judging = inputs.kind in JUDGING_NETWORKS
    check_judging(inputs, options, table)
    chosen = data_settings(options.setting, options.method, images=len(in_shape) == 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        x_row = x_rows(inputs, table)
        seed = options.seed if options.split_seed is None else options.split_seed
        if sample_weight is None:  # rows of weight 0 are a test split that nobody meant as one
            warn_of_split(table)
        fraction = chosen.valid_fraction if options.valid_fraction is None else options.valid_fraction
        split = split_rows(table, fraction, seed, options.valid_items)
        learned = np.flatnonzero(split != 2)
        encoder = PIEncoder(options.pi_kinds, options.pi_min_count or chosen.pi_min_count, raw=chosen.raw_pi)
        encoder.fit(table, learned if len(learned) < len(table) else None)
        if METHODS[options.method].needs_pi:
            check_giveaway(table, encoder.columns_, learned)
    n_train = int((split == 0).sum())
    n_items = int(np.count_nonzero(np.bincount(table.item_codes[split == 0])))
    training, method_options, network_options = resolve_options(
        options,
        n_train,
        in_shape,
        n_items,
        own_module=module is not None,
        judged_classes=len(table.classes) if judging else None,
    )
    rows = Rows.build(
        inputs.array,
        x_row,
        table.label_codes,
        encoder.transform(table),
        sample_weight,
        derive_seed(options.seed, 7),
        item=table.item_codes,
        fold=assign_folds(table.item_codes, split == 0, method_options.get("folds", 1), seed),
    )
    spec = Spec(
        n_train,
        len(table.classes),
        encoder.cardinalities,
        encoder.n_numbers,
        training.epochs,
        encoder.code_names,
        encoder.number_names,
        n_items=n_items,
    )
    network = {
        "name": JUDGING_NETWORKS.get(inputs.kind) or options.network or network_of(options.setting, in_shape),
        "in_shape": list(in_shape),
        "options": network_options,
    }
    used = one_per_item(table, x_row, split)
    standardize = None if judging else standardize_inputs(inputs, used)
    make = module or network_maker(network, spec.n_classes, standardize)
    own = module is None and network["name"] in NETWORKS
    build = method_maker(options.method, method_options, spec, make, twice=not own)
    asked = options.threads or (1 if judging else None)  # steps so short that a second thread mostly waits
    threads = choose_threads(check_build(build), training.batch_size, asked)
    texts = [str(warning.message) for warning in caught if issubclass(warning.category, DataWarning)]
    who = table.annotator_codes
    if judging and who is not None and "annotator" in table.pi_columns and np.bincount(who[who >= 0]).max() == 1:
        texts.append("Every annotator has one answer only, which says nothing of how good they are; all count alike.")
    if METHODS[options.method].needs_pi and spec.pi_dim == 0 and not METHODS[options.method].by_item:
        texts.append(
            "There is no privileged information to learn from; name PI columns to let the method explain wrong labels."
        )
    return Job(
        table,
        inputs,
        options,
        rows,
        split,
        encoder,
        spec,
        training,
        method_options,
        network,
        make,
        build,
        texts,
        threads,
        choice,
    )


def choose_method(options: FitOptions, table: AnnotationTable) -> tuple[FitOptions, str]:
    """Options with a method in place of "auto", and the reason in one sentence; "" where a method was asked for.

    Latent truth, which judges all answers of an item together, but in the setting "paper", which is that of Pi-DUAL.
    """
    if options.method != "auto":
        check_method(options.method, "auto")
        return options, ""
    if options.setting == "paper":
        return replace(options, method="pi_dual"), "Method pi_dual, which the setting 'paper' is for."
    n_items = len(table.frame["item"].cat.categories)
    per_item = len(table) / max(1, n_items)
    people = table.frame["annotator"].nunique() if "annotator" in table.frame else 0
    who = f" by {people:,} annotator{'s' if people != 1 else ''}" if people else ""
    answers = "one answer" if per_item == 1 else f"{per_item:.1f} answers"
    return (
        replace(options, method="latent_truth"),
        f"Method latent_truth: {n_items:,} items with {answers} each{who} are judged together.",
    )


def check_judging(inputs: Inputs, options: FitOptions, table: AnnotationTable) -> None:
    """Refuse what cannot be where probabilities are given in the place of x, or there is no x."""
    if options.network in WITHOUT_X:
        raise UsageError(f"There is no network '{options.network}'; choose one of {', '.join(NETWORKS)}.")
    if inputs.kind not in JUDGING_NETWORKS:
        return
    what = "given probabilities" if inputs.kind == "probabilities" else "labels without inputs"
    if options.method != "latent_truth":
        raise UsageError(f"Only the method latent_truth can judge {what}, not '{options.method}'; leave --method out.")
    if options.network is not None or options.setting != "default":
        which = "--network" if options.network is not None else "--setting"
        raise UsageError(f"There is no network to train on {what}; leave {which} out.")
    if inputs.kind == "probabilities" and inputs.array.shape[1] != len(table.classes):
        raise DataError(
            f"{inputs.source} has {inputs.array.shape[1]} columns and {table.source} has {len(table.classes)} classes; "
            "give one column of probabilities for each class, in the order of the classes."
        )


def resolve_options(
    options: FitOptions,
    n_train: int,
    in_shape: Sequence[int],
    n_items: int | None = None,
    *,
    own_module: bool = False,
    judged_classes: int | None = None,
) -> tuple[Training, dict[str, Any], dict[str, Any]]:
    """Options of training, method and network for inputs of a shape: the setting's, then the user's own.

    `judged_classes` is the number of classes where there is no network of x to train.
    """
    images, mlp = len(in_shape) == 3, not own_module and options.network in (None, "mlp")
    if judged_classes is None:
        settings = choose_settings(
            options.setting, options.method, n_train=n_train, images=images, n_items=n_items, mlp=mlp
        )
    else:
        settings = judging_settings(n_items or n_train, judged_classes)
    unknown = [name for name in options.training if name not in option_names()]
    if unknown:
        raise UsageError(f"There is no training option '{unknown[0]}'; there are {', '.join(option_names())}.")
    training = Training(**settings.training | dict(options.training) | {"seed": options.seed})
    implied = options.network in (None, network_of(options.setting, in_shape))  # its options are for no other network
    method = defaults(METHODS[options.method]) | settings.method | dict(options.method_options)
    check_options(f"method '{options.method}'", METHODS[options.method], method)
    return training, method, (settings.network if implied else {}) | dict(options.network_options)


def split_rows(
    table: AnnotationTable, valid_fraction: float, seed: int, valid_items: int | None = None
) -> NDArray[np.int8]:
    """Train (0), valid (1) or test (2) for every row; an item is in one of them only.

    The table's own split is kept. Where it names no validation rows, items are drawn from the training rows, never so
    that a class or the training set is left empty.
    """
    if not 0 <= valid_fraction < 1:
        raise UsageError(f"valid_fraction must be at least 0 and below 1, not {valid_fraction}.")
    n = len(table)
    split = (
        table.frame["split"].cat.codes.to_numpy().astype(np.int8) if "split" in table.frame else np.zeros(n, np.int8)
    )
    items = table.item_codes
    if (split == 0).sum() == 0:
        raise DataError(f"{table.source} has no row with split 'train'; there is nothing to learn from.")
    if (split == 1).any() or valid_fraction == 0:
        return split
    candidates = np.flatnonzero(np.bincount(items[split == 0]))  # np.unique takes seconds on long tables
    wanted = int(valid_fraction * len(candidates))
    wanted = wanted if valid_items is None else min(wanted, valid_items)
    drawn = np.random.default_rng(derive_seed(seed, 5)).permutation(candidates)[:wanted]
    held_out = np.zeros(int(items.max()) + 1, bool)
    held_out[drawn] = True
    valid = held_out[items] & (split == 0)
    labels, k = table.label_codes, len(table.classes)
    lost = np.bincount(labels[(split == 0) & ~valid], minlength=k) == 0
    valid &= ~lost[labels]  # a class whose rows were all drawn stays in training
    split[valid] = 1
    return split


def assign_folds(items: NDArray[np.integer], trained: NDArray[np.bool_], folds: int, seed: int) -> NDArray[np.int64]:
    """Fold of the item of every row, 0 ... folds - 1 in equal shares; -1 for items without a row that is trained on."""
    of_item = np.full(int(items.max(initial=0)) + 1, -1, np.int64)
    known = np.flatnonzero(np.bincount(items[trained], minlength=len(of_item)))
    of_item[np.random.default_rng(derive_seed(seed, 9)).permutation(known)] = np.arange(len(known)) % max(1, folds)
    of_row: NDArray[np.int64] = of_item[items]
    return of_row


def warn_of_split(table: AnnotationTable) -> None:
    """Warn of items that a table's own split has in two parts, and of classes it keeps out of training."""
    if "split" not in table.frame:
        return
    names, items = table.frame["item"].cat.categories, table.item_codes
    train = table.frame["split"].cat.codes.to_numpy() == 0
    learned, held_out = (np.bincount(items[part], minlength=len(names)) > 0 for part in (train, ~train))
    both = np.flatnonzero(learned & held_out)
    if len(both):
        (example,) = names[both[:1]].tolist()
        warnings.warn(
            f"{len(both)} of the {len(names)} items of {table.source} have rows with split 'train' and others with "
            f"'valid' or 'test', such as {quoted(example)}; put all rows of an item in one split.",
            DataWarning,
            stacklevel=2,
        )
    classes = table.classes
    lost = np.flatnonzero(np.bincount(table.label_codes[train], minlength=len(classes)) == 0)
    if len(lost):
        shown = ", ".join(quoted(classes[code]) for code in lost[:5])
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        warnings.warn(
            f"{table.source} has no row with split 'train' and label {shown}{more}, which therefore cannot be learned; "
            "move rows to 'train', or remove these labels.",
            DataWarning,
            stacklevel=2,
        )


def one_per_item(table: AnnotationTable, x_row: NDArray[np.int64], split: NDArray[np.int8]) -> NDArray[np.int64]:
    """The row of x of every item trained on: of its first annotation, where x has a row for each."""
    train = np.flatnonzero(split == 0)
    repeated = pd.Series(table.item_codes[train]).duplicated().to_numpy()
    rows: NDArray[np.int64] = x_row[train[~repeated]]
    return rows


def standardize_inputs(inputs: Inputs, used: NDArray[np.int64]) -> Standardize:
    """Mean and standard deviation of the training inputs, from evenly spaced ones where there are very many."""
    used = np.flatnonzero(np.bincount(used))
    x = inputs.array
    used = used[:: max(1, len(used) * 4 * math.prod(x.shape[1:]) // STANDARDIZE_BYTES)]
    found = Standardize.fit(x[used] if isinstance(x, np.ndarray) else x.take(used))
    if (
        inputs.kind == "text"
    ):  # the directions of text vectors come in order of importance, which scaling each would undo
        return Standardize(found.mean.numpy(), np.full(len(found.std), found.std.square().mean().sqrt().item()))
    return found


def network_maker(
    network: Mapping[str, Any], n_classes: int, standardize: Standardize | None
) -> Callable[[], nn.Module]:
    """A function that makes a fresh network."""
    name, in_shape, options = network["name"], tuple(network["in_shape"]), network["options"]
    given = [option for option in ("name", "in_shape", "n_classes", "standardize") if option in options]
    if given:
        raise UsageError(
            f"network.{given[0]} is not an option of --set: the data decides it, or --network; leave it out."
        )
    return lambda: build_network(name, in_shape=in_shape, n_classes=n_classes, standardize=standardize, **options)


def method_maker(
    name: str, options: Mapping[str, Any], spec: Spec, make: Callable[[], nn.Module], *, twice: bool = False
) -> Callable[[], Method]:
    """A function that makes the method around a fresh network.

    `twice` also makes the second network of a method that has one, where it otherwise draws the weights of a copy: what
    is made may have been trained before.
    """

    method: Callable[..., Method] = METHODS[name]
    check_options(f"method '{name}'", method, options)
    if twice and "second" in signature(method):
        return lambda: method(make(), spec, make(), **options)
    return lambda: method(make(), spec, **options)


def check_build(build: Callable[[], Method]) -> Method:
    """Build once, so that options that cannot be are refused before anything is written."""
    try:
        with torch.random.fork_rng(devices=[]):
            return build()
    except (RuntimeError, ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"The networks cannot be built with these options ({first_line(error)}).") from error


# --- train and assess ---


def train(
    job: Job,
    *,
    fabric: Fabric | None = None,
    store: StateStore | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Fitted:
    """Fit the method of a job."""
    train_rows = job.part(0)
    assert train_rows is not None
    with using_threads(job.threads):
        return fit(
            job.build, train_rows, job.part(1), job.training, fabric=fabric, store=store, progress=progress, stop=stop
        )


def assess(job: Job, fitted: Fitted, fabric: Fabric, *, consensus: bool = True) -> Results:
    """What the fitted method says of every annotation, item and annotator.

    `consensus=False` leaves it out where the method has none of its own, and items and annotators with it: a benchmark
    of labels needs neither.
    """
    table, n = job.table, len(job.table)
    given = table.label_codes
    predicted = np.zeros(n, np.int64)
    probability, quality = np.zeros(n, np.float32), np.zeros(n, np.float32)
    extra: dict[str, NDArray[Any]] = {}
    by_item = METHODS[job.options.method].by_item
    posteriors = Posteriors.empty(len(job.rows.groups), n, job.spec.n_classes) if by_item else None
    given_p = None if by_item or not consensus else ItemProbabilities(len(job.rows.groups), job.spec.n_classes)
    with using_threads(job.threads):
        for scored in score_rows(fitted.method, job.rows, fabric, job.split == 0):
            at, p = scored.rows, scored.probabilities
            predicted[at], probability[at] = p.argmax(1)[scored.input], p.max(1)[scored.input]
            quality[at] = p[scored.input, given[at]]
            if posteriors is not None and scored.posterior is not None:
                posteriors.put(scored.items, scored.posterior, at, scored.item, given[at])
                quality[at] = posteriors.right[at]
            elif given_p is not None:
                given_p.put(scored.items, scored.of_items())
            for name, values in scored.columns.items():
                extra.setdefault(name, np.zeros(n, values.dtype))[at] = values
        if not np.isfinite(quality).all() or not np.isfinite(extra.get("gate", quality)).all():
            leave = "" if job.training.guard == "recover" else ", or leave it to the guard with --set guard=recover"
            raise DivergedError(
                "Training has diverged: the network's answers are not numbers; use a smaller --lr, or clip gradients "
                f"with --set clip=1{leave}."
            )
        answers = fitted.method.answer_model
        if given_p is not None:
            posteriors, answers = judge_together(job, fitted.method, given_p, fabric)
    if "gate" in extra and "noise_label" in extra and not fitted.method.random_pi:  # of which it is the purpose
        warn_of_learning_by_heart(job, extra["noise_label"] == given, extra["gate"])
    group = group_of_rows(job.rows.groups)
    split = pd.Series(pd.Categorical.from_codes(job.split, categories=pd.Index(SPLITS)))
    predictions = Predictions.build(
        table.frame,
        table.classes,
        predicted=predicted,
        predicted_probability=probability,
        consensus=None if posteriors is None else posteriors.label[group],
        consensus_quality=None if posteriors is None else posteriors.quality[group],
        label_quality=quality,
        gate=extra.pop("gate", None),
        noise=extra.pop("noise_label", None),
        scores=extra,
        split=split,
        pi_columns=table.pi_columns,
    )
    predictions, cutoff = mark_issues(predictions, posterior=by_item)
    summary = summarise(job, fitted, predictions, cutoff)
    if posteriors is None:
        return Results(predictions, None, None, summary)
    if answers is not None:
        with using_threads(job.threads):
            summary["pi_effects"] = pi_effects(
                *answers, job.rows, job.spec, table.frame, job.encoder.columns_, posteriors.label[group], job.split != 2
            )
    items = describe_items(predictions, posteriors)
    return Results(predictions, items, describe_annotators(predictions, posteriors.right), summary)


class ItemProbabilities:
    """Log-probabilities of items in half precision: of all, or where these are too many of evenly spaced ones."""

    def __init__(self, n_items: int, n_classes: int):
        self.every = max(1, -(-n_items * n_classes // KEPT_NUMBERS))
        self.items = torch.arange(0, n_items, self.every)
        self.log_p = torch.zeros(len(self.items), n_classes, dtype=torch.float16)

    def put(self, items: NDArray[np.int64], p: NDArray[np.float64]) -> None:
        """Keep the probabilities p of these items."""
        kept = items % self.every == 0
        self.log_p[items[kept] // self.every] = log_of(p[kept]).half()


def log_of(p: NDArray[np.float64]) -> Tensor:
    """Logarithms of probabilities, none of them infinite."""
    return torch.from_numpy(np.log(np.maximum(p, LEAST))).float()


def judge_together(
    job: Job, method: Method, given: ItemProbabilities, fabric: Fabric
) -> tuple[Posteriors, tuple[AnswerModel, Tensor]]:
    """Posteriors of all items, by the probabilities of a method that does not judge items and all answers to each.

    The network answers once more where its probabilities were too many to keep.
    """
    rows, k, n = job.rows, job.spec.n_classes, len(job.rows.groups)
    judge = fit_judge(given.log_p, given.items, rows, job.split, job.spec)
    posteriors = Posteriors.empty(n, len(rows), k)
    trained = torch.from_numpy(first_part(job.split, rows, torch.arange(n)) == 0)

    def put(items: Tensor, log_p: Tensor) -> None:
        index, item = rows.groups.members(items)
        q = judge.posterior(log_p, rows.select(index, item=item, with_x=False), trained[items])
        posteriors.put(items.numpy(), q.numpy(), index.numpy(), item, rows.y_noisy[index])

    if given.every == 1:
        size = max(1, min(JUDGED_ITEMS, int(JUDGED_NUMBERS * n / (k * len(rows)))))
        for items in given.items.split(size):
            put(items, given.log_p[items].float())
    else:
        for scored in score_rows(method, rows, fabric, job.split == 0):
            put(torch.from_numpy(scored.items), log_of(scored.of_items()))
    return posteriors, (judge.members.answers, judge.shares)


def group_of_rows(groups: Groups) -> NDArray[np.int64]:
    """The number of the item of every annotation."""
    number = torch.repeat_interleave(groups.starts.diff())
    of_row = torch.empty_like(number)
    of_row[groups.order] = number
    return of_row.numpy()


def warn_of_learning_by_heart(job: Job, knows: NDArray[np.bool_], gate: NDArray[np.float32]) -> None:
    """Add a warning where PI has led the noise network to learn labels by heart instead of how they were made."""
    reason = guard.find_learning_by_heart(knows, gate, job.split == 0)
    if reason is not None:
        job.warnings.append(
            f"Labels were learned by heart: {reason}. PI that tells rows apart, and not how their labels were made, "
            "leaves the classifier little to learn from; fit again without what cannot tell of wrong labels among "
            f"{', '.join(job.table.pi_columns)}."
        )


def summarise(job: Job, fitted: Fitted, predictions: Predictions, cutoff: Cutoff) -> dict[str, Any]:
    """The summary of a run as JSON values."""
    record = next((r for r in reversed(fitted.history) if r["epoch"] == fitted.selected_epoch), fitted.history[-1])
    return {
        "n_issues": predictions.n_issues,
        "estimated_noise_rate": cutoff.estimated_noise_rate,
        "cutoff": cutoff.to_json(),
        "selected_epoch": fitted.selected_epoch,
        "valid_accuracy": record.get("valid_accuracy"),
        "seconds": sum(r["seconds"] for r in fitted.history),
        "guard": {
            "recovered": bool(fitted.events) and not fitted.collapsed,
            "collapsed": fitted.collapsed,
            "events": fitted.events,
        },
        "label_quality": "posterior" if METHODS[job.options.method].by_item else "confidence",
        "model_selection": fitted.selection,
        "warnings": job.warnings,
        "evaluation": evaluation(job, predictions),
    }


def evaluation(job: Job, predictions: Predictions) -> dict[str, Any] | None:
    """How well it went, where clean labels are known; None where they are not.

    Detection counts all rows but test rows, validation rows among them; benchmarks count the rows trained on alone.
    """
    y = predictions.y
    if y is None or not (y >= 0).any():
        return None
    known = (y >= 0) & (job.split != 2)
    wrong = (predictions.given != y)[known]
    gate = predictions.gate
    test = (y >= 0) & (job.split == 2)
    return {
        "noise_rate": float(wrong.mean()) if len(wrong) else None,
        "detection_auc": finite_or_none(detection_auc(predictions.label_quality[known], wrong)),
        "gate_auc": finite_or_none(detection_auc(1 - gate[known], wrong)) if gate is not None else None,
        "score_auc": native_aucs(job, predictions, known),
        **evaluate_issues(predictions),
        "consensus_accuracy": consensus_accuracy(predictions, known),
        "test_accuracy": float((predictions.predicted == y)[test].mean()) if test.any() else None,
    }


def consensus_accuracy(predictions: Predictions, rows: NDArray[np.bool_]) -> float | None:
    """Share of the items of these rows whose consensus is the clean label; None where there is no consensus."""
    if "consensus_label" not in predictions.frame:
        return None
    _, first = np.unique(predictions.item[rows], return_index=True)
    right = (predictions.suggested == predictions.y)[rows][first]
    return float(right.mean()) if len(right) else None


def native_aucs(job: Job, predictions: Predictions, rows: NDArray[np.bool_]) -> dict[str, float | None]:
    """Detection AUC of the method's own scores, high = wrong, on those of the rows for which they are known."""
    aucs = {}
    for name in METHODS[job.options.method].scores[1:]:
        if name in predictions.frame:
            score = predictions.frame[name].to_numpy(dtype=np.float32)
            known = rows & ~np.isnan(score)
            aucs[name] = finite_or_none(detection_auc(-score[known], (predictions.given != predictions.y)[known]))
    return aucs


# --- the run directory ---


def fit_table(
    table: AnnotationTable,
    inputs: Inputs,
    out: str | Path,
    options: FitOptions | None = None,
    *,
    source: Mapping[str, Any] | None = None,
    reads: Sequence[str | Path] = (),
    notes: Sequence[str] = (),
    force: bool = False,
    resume: bool = False,
    save_every: float = 15.0,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Fit, score and report, into a run directory.

    Parameters
    ----------
    table : AnnotationTable
    inputs : Inputs
    out : path
        The run directory; made when everything has been checked.
    options : FitOptions
    source : mapping, optional
        Where table and inputs came from, for the record.
    reads : sequence of paths
        Further files the run is made from, such as the key of the pseudonyms.
    notes : sequence of str
        Warnings from reading table and inputs, for the record.
    force : bool
        Replace a run that is there, when the new one is complete; files that pidual did not write stay.
    resume : bool
        Continue a run that is there; its data and options must be the same. A finished one is left as it is.
    save_every : float
        Seconds between two resume points within an epoch.
    progress : Progress, optional
    stop : callable
        Asked at every step; True saves the state and raises Interrupted.
    """
    out, options, progress = Path(out), options or FitOptions(), progress or Progress()
    read = (table.source, inputs.source, *reads)
    check_directory(out, force=force, resume=resume, inputs=read)
    job = prepare(table, inputs, options)
    job.warnings[:0] = notes
    if resume:
        go_on_as_started(begun_folder(out), job)
    config = describe(job, source or {})
    check_config(out, config)
    fabric = make_fabric(options.accelerator, job.training.precision)
    first = fabric.global_rank == 0
    with locked(out) if first else contextlib.nullcontext():
        folder, finished = out, False
        if first:
            check_directory(out, force=force, resume=resume, inputs=read)  # another process may have been here
            folder = start_run(out, config, force=force, resume=resume)
            finished = (folder / "summary.json").exists()
        folder, finished = fabric.broadcast((folder, finished))
        if job.choice:
            progress.fit(job.choice)
        for text in job.warnings:
            progress.note(f"Warning: {text}")
        if folder != out:
            progress.note(f"The run in {out} stays until this one is finished.")
        if not finished:
            fit_into(folder, job, fabric, save_every=save_every, progress=progress, stop=stop)
        if first:
            take_place(out, folder)
            if not (out / "report.html").exists():
                Run(out).write_report()
    return Run(out)


def fit_into(
    folder: Path, job: Job, fabric: Fabric, *, save_every: float, progress: Progress, stop: Callable[[], bool]
) -> None:
    """Train from the resume point in a folder, or from the start, and write all files of the run but its report."""
    first = fabric.global_rank == 0
    store = StateStore(folder / "state", save_every, fabric.broadcast(run_id(Run(folder).config) if first else ""))
    # Records of epochs that a kill took back are written again.
    if first and (history := store.history()):
        write_history(folder / "metrics.jsonl", history)
    recorder = Recorder(progress, folder / "metrics.jsonl" if first else None)
    started = time.monotonic()
    fitted = train(job, fabric=fabric, store=store, progress=recorder, stop=stop)
    if stop():
        raise Interrupted("stopped after training, before the labels were judged")
    if first:
        write_history(folder / "metrics.jsonl", fitted.history)
        known = len(job.warnings)
        results = assess(job, fitted, fabric)
        for text in job.warnings[known:]:
            progress.note(f"Warning: {text}")
        results.summary["seconds_total"] = time.monotonic() - started
        write_run(folder, job, fitted, results)


def go_on_as_started(folder: Path, job: Job) -> None:
    """Let a run that is continued have the threads it was started with, and warn of what would change its last digits.

    The job of a finished run, or of a new one, stays as it is.
    """
    if not (folder / "config.json").exists() or (folder / "summary.json").exists():
        return
    old = Run(folder).config
    started = {"pidual": old.get("pidual"), "torch": old.get("versions", {}).get("torch")}
    changes = [f"{name} {was} (now {version(name)})" for name, was in started.items() if was != version(name)]
    threads = old.get("hardware", {}).get("threads", job.threads)
    if job.options.threads is None:
        job.threads = goes_on_with(threads, job.threads)
    if threads != job.threads:
        changes.append(f"{threads} threads (now {job.threads})")
    if changes:
        job.warnings.append(
            f"The run was started with {', '.join(changes)}; its numbers may differ a little from those of a run that "
            "was not interrupted."
        )


def start_run(out: Path, config: dict[str, Any], *, force: bool, resume: bool) -> Path:
    """The folder to write to, with the config of this run in it; one that is continued must be the same run."""
    try:
        folder = choose_folder(out, force=force, resume=resume)
        if (folder / "config.json").exists():
            check_same(folder, config)
        else:
            write_json(folder / "config.json", config)
    except OSError as error:
        raise RunError(f"Cannot write to {out} ({error.strerror}); choose another place with --out.") from error
    return folder


def check_config(out: Path, config: dict[str, Any]) -> None:
    """Refuse what config.json cannot hold, before anything is written."""
    try:
        text = json.dumps(config, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{out / 'config.json'} cannot hold this run ({error}); give finite numbers or text as options and PI."
        ) from error
    try:
        check_record(out / "config.json", text, CONFIG, way_out="give other options")
    except RunError as error:
        raise UsageError(str(error)) from error


def check_same(out: Path, config: dict[str, Any]) -> None:
    """Refuse to continue a run with other data or options."""
    old = Run(out).config
    way_out = "resume with the data and options it was started with, or use another --out."
    if out.name == NEW:
        way_out = f"resume with the data and options it was started with, or remove {out} to keep the run before it."
    old_pi, pi = ([column["name"] for column in part.get("data", {}).get("pi", [])] for part in (old, config))
    if old_pi != pi:  # the fingerprint covers these columns, and would blame the contents of the table
        raise RunError(
            f"The run in {out} was started with the PI columns {old_pi!s:.400}, and now they are {pi}; {way_out}"
        )
    for part in ("method", "setting", "seed", "method_options", "training", "network", "data"):
        before, after = old.get(part, {}), json.loads(json.dumps(config[part]))
        if part == "training":  # an option that came after the run was started had its default then
            before = asdict(Training()) | before
        if part == "data" and before.setdefault("keep_ids", after["keep_ids"]) != after["keep_ids"]:
            which = ("without", "with") if after["keep_ids"] else ("with", "without")
            raise RunError(
                f"The run in {out} was started {which[0]} --keep-ids, and its files hold annotators accordingly; "
                f"resume {which[0]} it, or fit again {which[1]} it into another --out."
            )
        if not isinstance(after, dict):
            before, after = {part: before}, {part: after}
        for name in {**before, **after}:
            if before.get(name) == after.get(name) or name in ("table", "x"):  # the same data may have moved
                continue
            if name in ("fingerprint", "x_fingerprint"):
                which = config["data"]["table" if name == "fingerprint" else "x"]
                raise RunError(f"The run in {out} was started with other contents of {which}; {way_out}")
            was, now = before.get(name), after.get(name)
            raise RunError(
                f"The run in {out} was started with {name} = {was!r:.200}, and now it is {now!r:.200}; {way_out}"
            )


def describe(job: Job, source: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a run: everything needed to run it again."""
    table, counts = job.table, np.bincount(job.split, minlength=3)
    frame = table.frame
    return {
        "pidual": version("pidual"),
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "method": job.options.method,
        "method_title": METHODS[job.options.method].title,
        "method_choice": job.choice,
        "setting": job.options.setting,
        "seed": job.options.seed,
        "source": dict(source),
        "data": {
            "table": table.source,
            "x": str(source.get("x", "array")),
            "n_rows": len(table),
            "n_items": int(frame["item"].nunique()),
            "n_annotators": int(frame["annotator"].nunique()) if "annotator" in frame else None,
            "n_classes": job.spec.n_classes,
            "n_train": int(counts[0]),
            "n_valid": int(counts[1]),
            "n_test": int(counts[2]),
            "keep_ids": table.keeps_ids,
            "fingerprint": table.fingerprint(),
            "x_shape": [int(size) for size in job.inputs.array.shape],
            "x_fingerprint": fingerprint(job.inputs),
            "pi": [describe_pi(column, frame[column.name]) for column in job.encoder.columns_],
        },
        "method_options": job.method_options,
        "training": asdict(job.training),
        "network": job.network,
        "versions": {name: version(name) for name in ("torch", "lightning-fabric", "numpy", "pandas", "scikit-learn")}
        | {"python": platform.python_version()},
        "hardware": {"machine": platform.machine(), "system": platform.system(), "threads": job.threads},
    }


def describe_pi(column: PIColumn, values: "pd.Series[Any]") -> dict[str, Any]:
    """A PI column for people: what kind it is and what is in it."""
    described: dict[str, Any] = {"name": column.name, "kind": column.kind}
    if column.kind == "category":
        return described | {"n_missing": int(values.isna().sum()), "n_categories": column.n_codes}
    missing = np.isnan(quantity(values, column.kind))
    described["n_missing"] = int(missing.sum())
    if pd.api.types.is_datetime64_any_dtype(values):
        return described | {"first": str(values.min()), "last": str(values.max())}
    if column.kind == "duration":  # its mean and spread are of logarithms
        return described | {"median": float(np.median(quantity(values, "number")[~missing]))}
    return described | {"mean": column.mean, "std": column.std}


def fingerprint(inputs: Inputs) -> str:
    """A digest of x, of evenly spaced rows where it is very large, to tell another file from the same one."""
    if inputs.fingerprint is not None:
        return inputs.fingerprint
    x, n = inputs.array, len(inputs)
    rows = np.arange(0, n, max(1, (x.nbytes if isinstance(x, np.ndarray) else n * 2**20) // 2**28))
    digest = hashlib.blake2b(digest_size=16)
    for part in np.array_split(rows, max(1, len(rows) // 4096)):
        digest.update(np.ascontiguousarray(x[part] if isinstance(x, np.ndarray) else x.take(part)).tobytes())
        release(x)
    return digest.hexdigest()


def write_run(out: Path, job: Job, fitted: Fitted, results: Results) -> None:
    """Write everything a finished run holds but its report; summary.json marks it as finished, so it comes last."""
    method = fitted.method
    selected = {f"method.{name}": value for name, value in method.state_dict().items()}
    arrays = {
        f"inputs.{name}": torch.from_numpy(np.ascontiguousarray(value)) for name, value in job.inputs.tensors.items()
    }
    save_tensors(out / "model.safetensors", selected | arrays, {})
    save_tensors(
        out / "model-last.safetensors", {f"method.{name}": value for name, value in fitted.last.items()} | arrays, {}
    )
    standardize = next((part for part in method.modules() if isinstance(part, Standardize)), None)
    model = {
        "format": FORMAT,
        "classes": job.table.classes,
        "method": job.options.method,
        "method_options": job.method_options,
        "spec": asdict(job.spec),
        "network": job.network | {"standardize": len(standardize.mean) if standardize is not None else 0},
        "pi": job.encoder.to_json(),
        "inputs": job.inputs.schema,
    }
    write_json(out / "model.json", model)
    results.predictions.write(out / "predictions.parquet")
    if results.items is not None:
        write_frame(out / "items.parquet", results.items)
    if results.annotators is not None:
        write_frame(out / "annotators.parquet", results.annotators)
    write_frame(out / "thumbnails.parquet", thumbnails(job, results.predictions))
    run = Run(out)
    about = {"format": FORMAT, "run_id": run_id(run.config), "digests": run.digests()}
    write_json(out / "summary.json", sealed(results.summary | about))


def thumbnails(job: Job, predictions: Predictions, limit: int = 200) -> pd.DataFrame:
    """PNG images of the items with the most suspicious labels, where inputs are images: item, png."""
    pictures: dict[str, bytes] = {}
    if job.inputs.kind != "images":
        limit = 0
    for row in np.argsort(predictions.label_quality, kind="stable")[:limit]:
        x = job.rows.take_x(job.rows.x_row[row : row + 1])[0].numpy()
        buffer = io.BytesIO()
        Image.fromarray(x.transpose(1, 2, 0)).save(buffer, format="PNG")
        pictures[str(predictions.frame["item"].iloc[row])] = buffer.getvalue()
    return pd.DataFrame(
        {"item": pd.Series(list(pictures), dtype="str"), "png": pd.Series(list(pictures.values()), dtype=object)}
    )


class Recorder(Progress):
    """Passes everything on, and writes each epoch's record to metrics.jsonl."""

    def __init__(self, progress: Progress, path: Path | None):
        self.progress, self.path = progress, path

    def start(self, epochs: int, steps: int, done: int, stage: str = "", parts: int = 1) -> None:
        self.progress.start(epochs, steps, done, stage, parts)

    def part(self, number: int, stage: str) -> None:
        self.progress.part(number, stage)

    def step(self, epoch: int, step: int) -> None:
        self.progress.step(epoch, step)

    def epoch(self, record: dict[str, Any]) -> None:
        if self.path is not None:
            append_record(self.path, record)
        self.progress.epoch(record)

    def note(self, text: str) -> None:
        self.progress.note(text)

    def stop(self) -> None:
        self.progress.stop()
