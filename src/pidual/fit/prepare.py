"""Table, inputs and options become a job that can start: everything is checked here, before anything is written."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import nn

from ..data import AnnotationTable, Inputs, add_known, x_rows
from ..data.pi import PIEncoder
from ..data.pi.checks import Problem, check_pi
from ..data.pi.random_pi import derive_seed
from ..data.table import describe_repeats
from ..detect.gold import LEAST_GOLD
from ..detect.sentences import describe_few_gold
from ..errors import DataError, UsageError
from ..errors.messages import collected_warnings, quoted
from ..learn.answers.model import AnswerModel
from ..learn.batch import Rows, Spec
from ..learn.closed_form.pictures import is_picture
from ..learn.engine.session import choose_threads
from ..learn.methods import METHODS, Method, check_method
from ..learn.nets import NETWORKS, WITHOUT_X
from ..options import Training
from ..run.files import CLOSED_FORM, WITHOUT_TRAINING
from ..run.records.config import Network
from ..run.records.summary import CopyGroup, LabelSetsLeftOut, PIProblem
from .factories import check_build, method_maker, network_maker, standardize_inputs
from .options import FitOptions, choose_method, resolve_options
from .settings import data_settings, network_of
from .splits import (
    TEST,
    TRAIN,
    VALID,
    assign_folds,
    find_copies,
    find_split_problems,
    one_per_item,
    same_inputs,
    split_rows,
)

JUDGING_NETWORKS = {"probabilities": "given", "none": "prior"}  # by the kind of inputs; there is none of x to train


@dataclass
class Job:
    """A fit that has been checked and can start."""

    # table, inputs, options: what it is made of; method and valid_fraction of the options are known
    table: AnnotationTable
    inputs: Inputs
    options: FitOptions
    rows: Rows  # all annotations, encoded
    split: NDArray[np.int8]  # (N,), TRAIN, VALID or TEST; `train`, `valid` and `test` say it in words
    encoder: PIEncoder
    spec: Spec
    # training, method_options, network: options as they were resolved
    training: Training
    method_options: dict[str, Any]
    network: Network
    make: Callable[[], nn.Module] | None  # makes a fresh network; None where none is trained
    build: Callable[[], Method] | None  # makes the method around one
    warnings: list[str]  # what the user should know about the data
    threads: int
    together: NDArray[np.int64]  # (N,), code of the item of every annotation; one code for items with the same input
    choice: str = ""  # why this method, where none was asked for
    pi_health: list[PIProblem] = field(default_factory=list)  # what is wrong with PI columns
    # clusters of annotators who copy each other and count as one voter, where a fit has found any
    copies: list[CopyGroup] = field(default_factory=list)
    # the same of annotators of whom nothing shows whether they copy
    open_pairs: list[CopyGroup] = field(default_factory=list)
    start: AnswerModel | None = None  # what is known about annotators before a fit that trains no network
    # where rows are about one class of a set of labels each: how many are not among them
    left_out: LabelSetsLeftOut | None = None

    @property
    def train(self) -> NDArray[np.bool_]:
        """Return which annotations are trained on (N,)."""
        return np.asarray(self.split == TRAIN)

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Return which annotations are held out as noisy validation rows (N,)."""
        return np.asarray(self.split == VALID)

    @property
    def test(self) -> NDArray[np.bool_]:
        """Return which annotations are held out as test rows (N,)."""
        return np.asarray(self.split == TEST)

    @cached_property
    def counted(self) -> NDArray[np.int64] | None:
        """Return the last row of each answer, by which labels and people are counted; None where none is repeated."""
        codes = self.table.answer_codes
        return None if codes is None else np.flatnonzero(~pd.Series(codes).duplicated(keep="last").to_numpy())

    @property
    def n_gold(self) -> int:
        """Return the number of items of known class."""
        known = self.rows.truth
        return 0 if known is None else len(self.rows.item[known >= 0].unique())

    @property
    def trains(self) -> bool:
        """Return whether a network is trained."""
        return self.network.name not in WITHOUT_TRAINING

    @property
    def cross_fitted(self) -> bool:
        """Return whether each item is judged by networks that have not seen it."""
        return not self.trains or (self.method_class.by_item and self.method_options.get("folds", 1) > 1)

    @property
    def method_class(self) -> type[Method]:
        """Return the class of the method."""
        return METHODS[self.options.method]

    def select(self, which: NDArray[np.bool_]) -> Rows | None:
        """Select these of the rows, such as `train`; None where there are none."""
        index = np.flatnonzero(which)
        return self.rows.subset(index) if len(index) else None


def prepare(
    table: AnnotationTable,
    inputs: Inputs,
    options: FitOptions,
    *,
    module: nn.Module | Callable[[], nn.Module] | None = None,
    sample_weight: NDArray[np.floating[Any]] | None = None,
    truth: NDArray[np.int64] | None = None,
) -> Job:
    """Check and join everything a fit needs.

    `module`: makes the prediction network, in place of one of ours.
    `sample_weight` (N,): weight of every annotation.
    `truth` (N,): code of the class of each annotation's item where it is known, else -1.
    """
    options, choice = choose_method(options, table)
    check_method(options.method)
    truth = add_known(table, truth)
    _check_judging(inputs, options, table)
    joined = _join_data(table, inputs, options, own_split=sample_weight is None)
    in_shape, judging = tuple(int(size) for size in inputs.array.shape[1:]), inputs.kind in JUDGING_NETWORKS
    n_train, n_answers, n_items = joined.count_trained(table)
    name = _choose_network(inputs, options, in_shape, module)
    trains = name not in WITHOUT_TRAINING
    if table.sets is not None and (trains or options.method != "latent_truth"):
        raise UsageError(
            "Sets of labels are judged by the default, without a network to train: give vectors (embeddings of "
            "images), probabilities or no inputs, and leave --method and --network out."
        )
    if trains:
        training, method_options, network_options = resolve_options(options, n_answers, in_shape, n_items)
    else:
        _check_nothing_to_train(options, judging=judging)
        training, method_options, network_options = Training(seed=options.seed), {}, {}
    rows = Rows.build(
        inputs.array,
        joined.x_row,
        table.label_codes,
        joined.encoder.transform(table),
        sample_weight,
        derive_seed(options.seed, 7),
        item=table.item_codes,
        fold=assign_folds(joined.together, joined.split == TRAIN, method_options.get("folds", 1), joined.seed)
        if trains
        else None,
        truth=truth,
        vote=table.answer_codes,
    )
    encoder = joined.encoder
    sizes = encoder.cardinalities, encoder.n_numbers, training.epochs, encoder.code_names, encoder.number_names
    spec = Spec(n_train, len(table.classes), *sizes, n_items=n_items)
    network = Network(name, list(in_shape), network_options)
    make, build, threads = None, None, 1
    if options.threads is not None:  # that many, if there are as many cores
        threads = choose_threads(Method(nn.Identity(), spec), 1, options.threads)
    if trains:
        standardize = standardize_inputs(inputs, one_per_item(table, joined.x_row, joined.split))
        make = module or network_maker(network, spec.n_classes, standardize)
        own = module is None and name in NETWORKS
        build = method_maker(options.method, method_options, spec, make, twice=not own)
        threads = choose_threads(check_build(build), training.batch_size, options.threads)
    job = Job(
        table=table,
        inputs=inputs,
        options=replace(options, valid_fraction=joined.valid_fraction),
        rows=rows,
        split=joined.split,
        encoder=encoder,
        spec=spec,
        training=training,
        method_options=method_options,
        network=network,
        make=make,
        build=build,
        warnings=[
            *describe_repeats(table.answer_codes, people="annotator" in table.frame),
            *joined.warnings,
            *_find_uninformative(table, options.method, method_options.get("random_pi", 0), spec, judging),
            *_advise_embedding(inputs),
        ],
        threads=threads,
        together=joined.together,
        choice=choice,
        pi_health=[PIProblem(*problem) for problem in joined.pi_health],
    )
    if 0 < job.n_gold < LEAST_GOLD:
        job.warnings.append(describe_few_gold(job.n_gold))
    return job


def _choose_network(
    inputs: Inputs, options: FitOptions, in_shape: tuple[int, ...], module: Callable[[], nn.Module] | None
) -> str:
    """Return the name of the network, or of what stands for it: latent truth trains one if it is named."""
    if inputs.kind in JUDGING_NETWORKS:
        return JUDGING_NETWORKS[inputs.kind]
    asked = module is not None or options.network is not None or options.setting != "default"
    if options.method == "latent_truth" and not asked and (len(in_shape) != 3 or is_picture(in_shape)):
        return CLOSED_FORM
    return options.network or network_of(options.setting, in_shape)


class NothingToTrainError(UsageError):
    """Options of training, of the method or of a network where there is nothing to train."""


def _check_nothing_to_train(options: FitOptions, *, judging: bool) -> None:
    """Refuse options of training, of the method or of a network where there is none; `judging`: nor can be one."""
    for name in options.options:
        why = (
            "answers are judged without a network to train"
            if judging
            else "latent_truth without a named network is worked out, not trained"
        )
        way_out = "" if judging else ", or name a network to train (--network mlp or small_cnn; network=)"
        raise NothingToTrainError(f"There is no {quoted(name)} to set: {why}. Leave it out{way_out}.")


@dataclass
class _Joined:
    """Table and inputs put together."""

    x_row: NDArray[np.int64]  # the row of x of every annotation
    together: NDArray[np.int64]  # its item, as one for items with the same input
    split: NDArray[np.int8]
    seed: int  # of the split
    valid_fraction: float
    encoder: PIEncoder
    warnings: list[str]
    pi_health: list[Problem]

    def count_trained(self, table: AnnotationTable) -> tuple[int, int, int]:
        """Count annotations, answers and items that are trained on."""
        train = self.split == TRAIN
        answers = None if table.answer_codes is None else np.count_nonzero(np.bincount(table.answer_codes[train]))
        n_items = np.count_nonzero(np.bincount(table.item_codes[train]))
        return int(train.sum()), int(train.sum() if answers is None else answers), int(n_items)


def _join_data(table: AnnotationTable, inputs: Inputs, options: FitOptions, *, own_split: bool) -> _Joined:
    """Find the input of every annotation, split the rows, and learn how to encode PI from those that are not test.

    `own_split` says that a split of the table was meant as one: rows of weight 0 are a test split that nobody meant.
    """
    chosen = data_settings(options.setting, options.method, images=len(inputs.array.shape) == 4)
    seed = options.seed if options.split_seed is None else options.split_seed
    fraction = chosen.valid_fraction if options.valid_fraction is None else options.valid_fraction
    with collected_warnings() as warnings:
        x_row = x_rows(inputs, table)
        together = same_inputs(inputs, table.item_codes, x_row)
        warnings += find_split_problems(table) if own_split else []
        warnings += find_copies(table, together, own_split=own_split)
        split = split_rows(table, fraction, seed, options.valid_items, together)
        learned = np.flatnonzero(split != TEST)
        encoder = PIEncoder(options.pi_kinds, options.pi_min_count or chosen.pi_min_count, raw=chosen.raw_pi)
        encoder.fit(table, learned if len(learned) < len(table) else None)
        used = METHODS[options.method].needs_pi
        problems, new = check_pi(table, encoder.columns_, learned, together, used=used)
        warnings += new if used else []
    return _Joined(x_row, together, split, seed, fraction, encoder, warnings, problems)


def _find_uninformative(table: AnnotationTable, method: str, random_pi: int, spec: Spec, judging: bool) -> list[str]:
    """Warn of PI that says nothing: annotators of one answer each, or no PI at all."""
    found, who = [], table.annotator_codes
    if judging and who is not None and "annotator" in table.pi_columns and np.bincount(who[who >= 0]).max() == 1:
        found.append("Every annotator has only one answer, too few to estimate how good they are; all count the same.")
    if METHODS[method].needs_pi and spec.pi_dim == 0 and not METHODS[method].by_item:
        has = "random PI alone" if random_pi else "nothing to explain wrong labels with, and does hardly more than ce"
        found.append(f"There is no privileged information: {METHODS[method].title} has {has}; give PI columns.")
    return found


def _advise_embedding(inputs: Inputs) -> list[str]:
    """Say that texts can be embedded, where what that needs is installed."""
    if inputs.kind != "text" or "embed" in inputs.schema or find_spec("sentence_transformers") is None:
        return []
    return [
        "The texts are compared by their words alone; a language model usually finds more: name one with --embed, "
        "such as sentence-transformers/all-MiniLM-L6-v2, which is then downloaded, or the folder of one."
    ]


def _check_judging(inputs: Inputs, options: FitOptions, table: AnnotationTable) -> None:
    """Refuse options that make no sense where probabilities are given in place of x, or there is no x."""
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
    n_classes = len(table.all_classes)
    if inputs.kind == "probabilities" and inputs.array.shape[1] != n_classes:
        raise DataError(
            f"{inputs.source} has {inputs.array.shape[1]} columns and {table.source} has {n_classes} classes; "
            "give one column of probabilities for each class, in the order of the classes."
        )
