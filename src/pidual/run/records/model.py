"""What model.json holds: all that is needed, beside weights, to make the method of a run again."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from .config import Network
from .reading import Count, Label, Options, Positive, Record, Shape

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
