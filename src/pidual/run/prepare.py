"""Table, inputs and options become a job that can start: everything is checked here, before anything is written."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..batch import Rows, Spec
from ..encode import PIEncoder
from ..engine.threads import choose_threads
from ..errors import DataError, DataWarning, UsageError
from ..giveaway import check_giveaway
from ..inputs import Inputs, x_rows
from ..methods import METHODS, Method, check_method
from ..nets import NETWORKS, WITHOUT_X
from ..random_pi import derive_seed
from ..settings import data_settings, network_of
from ..table import AnnotationTable
from ..training import Training
from .makers import check_build, method_maker, network_maker, standardize_inputs
from .options import FitOptions, choose_method, resolve_options
from .splits import assign_folds, one_per_item, split_rows, warn_of_split

JUDGING_NETWORKS = {"probabilities": "given", "none": "prior"}  # by the kind of inputs; there is none of x to train


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
    build: Callable[[], Method]
    warnings: list[str]
    threads: int
    choice: str = ""  # why this method, where none was asked for

    def part(self, number: int) -> Rows | None:
        """Rows of train (0), valid (1) or test (2); None where there are none."""
        index = np.flatnonzero(self.split == number)
        return self.rows.subset(index) if len(index) else None


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
        build,
        texts,
        threads,
        choice,
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
