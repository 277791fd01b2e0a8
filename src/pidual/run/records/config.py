"""What config.json, model.json, metrics.jsonl and the resume point hold: what was run, on what, and how far it is.

A run is made again of config.json and model.json, beside weights. Parquet files of ours have notes of what is in them.
"""

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from ...errors import UsageError
from ...files import fingerprint
from .reading import FORMAT, Count, Label, Options, Positive, Record, Seconds, Shape, Share, describe_problem

MOVABLE = ("table", "x")  # of the data: where it is


class Read(Record, frozen=True):
    """How a table was read; see `pidual fit --help`.

    `annotators` are the places of the columns that hold answers.
    """

    format: str | None
    item: str | None
    label: str | None
    annotator: str | None
    y: str | None
    split: str | None
    same: dict[str, str] | None
    exact_labels: bool
    annotators: list[Count] | None
    no_answer: tuple[str, ...] = ()
    labels: list[str] | None = None
    label_separator: str | None = None
    multi_label: bool = False
    levels: tuple[str, ...] = ()
    truth_classes: tuple[str, ...] = ()


class Asked(Record, frozen=True):
    """What the command line said about inputs and PI."""

    x: str | None
    columns: list[str] | None
    text: str | None
    image_size: Positive | None
    probs: str | None
    no_x: bool | None
    pi: list[str] | None
    key_file: str | None
    embed: str | None = None


class Source(Record, frozen=True, forbid_unknown_fields=True):
    """Where table and inputs came from, as far as it is known.

    `before` is the run that this one fits again, `warm_start` whether its answer model began with that of that run,
    `decided_until` when the last decision that it used was made, and `truth` where known classes were read from.
    """

    table: str | None = None
    x: str | None = None
    truth: str | None = None
    command: str | None = None
    read: Read | None = None
    asked: Asked | None = None
    before: str | None = msgspec.field(name="from", default=None)
    warm_start: bool | None = None
    decided_until: str | None = None


class PIDescription(Record, frozen=True):
    """A PI column for people: its kind and what is in it.

    A category has `n_categories`, a moment `first` and `last`, a duration its `median`, other numbers `mean`, `std`.
    """

    name: str
    kind: str
    n_missing: Count
    n_categories: Count | None = None
    first: str | None = None
    last: str | None = None
    median: float | None = None
    mean: float | None = None
    std: float | None = None


class Data(Record, frozen=True):
    """What a run was made of; `fingerprint` and `x_fingerprint` tell table and inputs from others."""

    table: str
    x: str
    n_rows: Positive
    n_items: Positive
    n_annotators: Count | None
    n_classes: Positive
    n_train: Count
    n_valid: Count
    n_test: Count
    keep_ids: bool
    fingerprint: str
    x_shape: Shape
    x_fingerprint: str
    pi: list[PIDescription]
    n_known_items: Count | None = None
    truth_fingerprint: str | None = None


class Splits(Record, frozen=True):
    """What decides which rows are held out, and which PI values count as rare."""

    valid_items: Count | None
    split_seed: Count | None
    pi_min_count: Count | None


class Network(Record, frozen=True):
    """A network by name."""

    name: str
    in_shape: Shape
    options: Options


class Hardware(Record, frozen=True):
    """The machine, and how many threads computed."""

    machine: str
    system: str
    threads: Positive


class Config(Record, frozen=True):
    """The settings of the run, in one object.

    Parameters
    ----------
    pidual : str
        version of pidual
    format : int
        number of the file format
    created : str
        date and time
    method : str
        name of the method
    method_title : str
        its title
    method_choice : str
        why `auto` chose it
    setting : str
        `default` or `paper`
    seed : int
        random seed
    valid_fraction : float
        share of items held out
    pi_kinds : dict
        kinds of PI columns that were requested
    splits : Splits
        how items were held out
    source : Source
        files and options the data were read with, and the `command`
    data : Data
        numbers of rows, items, annotators and classes; fingerprints; PI columns
    method_options : dict
        [options of the method](options.md#methods)
    training : dict
        [options of training](options.md#training)
    network : Network
        name, input shape and [options of the network](options.md#networks)
    versions : dict
        versions of Python and libraries
    hardware : Hardware
        machine, system, number of threads
    """

    pidual: str
    format: int
    created: str
    method: str
    method_title: str
    method_choice: str
    setting: str
    seed: Count
    valid_fraction: Share | None
    pi_kinds: dict[str, str]
    splits: Splits
    source: Source
    data: Data
    method_options: Options
    training: Options
    network: Network
    versions: dict[str, str]
    hardware: Hardware

    @property
    def run_id(self) -> str:
        """Return a digest of method, options and data, wherever the files are.

        Two runs with the same id have the same results, so their files may take each other's place.
        """
        same = self.identity()
        same["data"] = {name: value for name, value in self.data.to_json().items() if name not in MOVABLE}
        return fingerprint([json.dumps(same, sort_keys=True).encode()])

    def identity(self) -> dict[str, Any]:
        """Return what a run is a run of, beside its data, as JSON values."""
        values = self.to_json()
        return {name: values[name] for name in ("method", "setting", "seed", "method_options", "training", "network")}


def as_source(given: Any) -> Source:
    """Return what a caller says about where the data came from."""
    try:
        return given if isinstance(given, Source) else msgspec.convert(dict(given or {}), Source)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise UsageError(
            f"source cannot be kept: {describe_problem(error, given)}; give text, as in {{'table': 'labels.csv', 'x': "
            "'x.npy'}."
        ) from error


Names = Annotated[list[str], Meta(min_length=1)]


class Sizes(Record, frozen=True):
    """Sizes of the training set; see `learn.batch.Spec`."""

    n_train: Positive
    n_classes: Positive
    cardinalities: tuple[Count, ...]
    n_numbers: Count
    epochs: Positive
    code_names: tuple[str, ...]
    number_names: tuple[str, ...]
    n_items: Count


class StoredNetwork(Network, frozen=True):
    """A network with the number of its inputs that are standardised, or 0."""

    standardize: Count


class Missing(Record, frozen=True):
    """Columns of x that may be missing, and the medians that stand for them."""

    columns: list[Count]
    medians: list[float]


class Embedding(Record, frozen=True):
    """The model that made vectors of the inputs, and how many numbers it gives."""

    name: str
    size: Positive


class InputSchema(Record, frozen=True):
    """How inputs are read; see `data.Inputs`."""

    kind: Literal["array", "columns", "images", "text", "probabilities", "none"]
    shape: Shape
    columns: Names | None = None
    text: str | None = None
    vocabulary: Names | None = None
    item: str | None = None
    missing: Missing | None = None
    image_size: Annotated[list[Positive], Meta(min_length=2, max_length=2)] | None = None
    centre_crop: bool | None = None
    embed: Embedding | None = None


class Model(Record, frozen=True):
    """Classes, method, network, and how PI and inputs are encoded.

    `answers` are the sizes of what was learned about answers beside a trained network.
    """

    format: int
    classes: Annotated[list[Label], Meta(min_length=1)]
    method: str
    method_options: Options
    spec: Sizes
    network: StoredNetwork
    pi: list[dict[str, Any]]
    inputs: InputSchema
    answers: Options | None = None

    def __post_init__(self) -> None:
        if not self.spec.n_classes == len(self.classes) == len(set(self.classes)):
            raise ValueError("must have as many classes as spec.n_classes says, each once")


class Event(Record, frozen=True):
    """What the guard saw after an epoch, and what it did."""

    epoch: Count
    attempt: Count
    reason: str
    action: str


class Epoch(Record, frozen=True):
    """One line per epoch, each an object. Methods and callbacks may add numbers of their own.

    Parameters
    ----------
    epoch : int
        counted from 0
    attempt : int
        counted from 0; the guard starts a new one
    seconds : float
        time of the epoch
    stage : str
        name of the stage, if a fit has several
    lr : float
        learning rate
    loss : float
        mean training loss
    valid_accuracy : float
        agreement with noisy held-out labels
    valid_loss : float
        loss on these
    format : int
        number of the file format
    """

    epoch: Count
    attempt: Count
    seconds: Seconds
    stage: str = ""
    lr: float | None = None
    loss: float | None = None
    valid_accuracy: float | None = None
    valid_loss: float | None = None
    format: int = FORMAT


class Position(msgspec.Struct):
    """Where training stands: all that its state holds beside tensors.

    `best` is the merit of the best epoch so far, and `ended` says that a callback ended training before its last epoch.
    """

    attempt: Count = 0
    epoch: Count = 0
    step: Count = 0
    sums: dict[str, float] = field(default_factory=dict)
    seconds: Seconds = 0.0
    best: tuple[float, float] | None = None
    best_epoch: int = -1
    history: list[dict[str, Any]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    ended: bool = False


class State(Record, frozen=True):
    """The resume point, beside its tensors."""

    format: int
    position: Position
    optimizer: Options
    memories: dict[str, str]
    memory_digests: dict[str, str]
    run_id: str


class TableNotes(Record, frozen=True):
    """What a Parquet file of ours says about itself.

    `categories` has the classes of each column of labels, and `pi_columns` the names of the columns of PI.
    """

    format: int
    categories: dict[str, list[Label]]
    pi_columns: list[str]
    has_input: bool = True
