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

    def __post_init__(self) -> None:
        for name, size in (("code_names", len(self.cardinalities)), ("number_names", self.n_numbers)):
            if len(getattr(self, name)) not in (0, size):
                raise ValueError(f"must have {size} {name}")


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

    def __post_init__(self) -> None:
        needed = {"columns": ("columns",), "text": ("text", "vocabulary")}
        needed |= {} if self.embed else {"images": ("image_size",)}
        for name in needed.get(self.kind, ()):
            if getattr(self, name) is None:
                raise ValueError(f"has no {name}")
        width = self.shape[0] - (0 if self.missing is None else len(self.missing.columns))
        if self.columns is not None and not len(self.columns) == len(set(self.columns)) == width:
            raise ValueError("must have as many columns as its shape says, each once")
        if self.missing is not None and (
            len(self.missing.medians) != len(self.missing.columns) or max(self.missing.columns, default=0) >= width
        ):
            raise ValueError("must have a median for each of its columns that may be missing, which x must have")
        if self.vocabulary is not None and len(set(self.vocabulary)) < len(self.vocabulary):
            raise ValueError("has a word twice")
        if self.embed is not None and not (len(self.shape) == 1 and self.embed.size <= self.shape[0]):
            raise ValueError("must have as many numbers as its embedding, or more")
        if self.image_size is not None and self.embed is None and self.image_size != self.shape[1:]:
            raise ValueError("must have the last two numbers of its shape as image_size")


class Model(Record, frozen=True):
    """Classes, method, network, and how PI and inputs are encoded."""

    format: int
    classes: Annotated[list[Label], Meta(min_length=1)]
    method: str
    method_options: Options
    spec: Sizes
    network: StoredNetwork
    pi: list[dict[str, Any]]
    inputs: InputSchema

    def __post_init__(self) -> None:
        if not self.spec.n_classes == len(self.classes) == len(set(self.classes)):
            raise ValueError("must have as many classes as spec.n_classes says, each once")
        if self.network.in_shape != self.inputs.shape:
            raise ValueError("must have the same shape in network and inputs")
        if self.network.standardize not in (0, self.inputs.shape[0]):
            raise ValueError("must standardise all inputs or none")
