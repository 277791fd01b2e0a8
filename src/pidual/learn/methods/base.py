"""Method: the interface of a way of learning from noisy labels. Everything else is the engine's.

Write `forward`, and `logits` where prediction is not f alone; the others are there for the papers that need them:

    a value per row (SOP, ELR)           a `SampleMemory` (`parts.memory`), read and written at `batch.index`
    two networks (DivideMix)             both inside the one module; `forward` adds their losses, `logits` joins them
    data split again each epoch          `on_epoch_start` scans the training rows, `epoch_rows` says which are visited
    all answers of an item together      `by_item = True`; `batch.item` says which input an answer is about
    layers re-initialised mid-run (PES)  `on_epoch_start` does it and calls `rebuild_optimizer`
    a first stage (Forward-T)            `before` is a Method that the engine fits first
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from ...options import check_values
from ..batch import PI, Batch, Spec
from .parts.memory import SampleMemory
from .parts.networks import split_network

__all__ = ["PI", "Batch", "Method", "Scan", "Spec"]  # what a method is written in


@runtime_checkable
class Scan(Protocol):
    """Evaluates a function of the batch on all training rows, in order, in evaluation mode, without gradient.

    Where `by_item` is True the batches are of items, in the order of `Rows.groups`.
    """

    def __call__(self, function: Callable[[Batch], Tensor], *, with_x: bool = True, augmented: bool = False) -> Tensor:
        """Return the values; `with_x=False` leaves the inputs out, `augmented` gives the views of training."""


class Method(nn.Module):
    """A training objective around a prediction network `f`: subclass it to write a method.

    Every constructor is `Method(f, spec, second=None, *, option=default)`; the annotation of an option says about what
    kind it is and in which range, and any other value is refused (`pidual.options`). All training goes through
    `forward`, so that precision and several processes work; everything else is called on the bare module.

    Parameters
    ----------
    f : nn.Module
        Prediction network, x -> logits of shape (B, K). Methods that see `features` and `head` apart need a network
        whose logits are head(features(x)).
    spec : Spec
        Sizes of the training set, and the epochs of the run; phases of a method are shares of these.
    second : nn.Module, optional
        Of methods that train two networks, at once or one after the other: the other one. By default it is made from f
        (`parts.networks.second_network`).
    **options
        Of the method, by keyword.

    Attributes
    ----------
    epoch : int
        The present one; the engine sets it.
    phase : str
        Name of the present phase, for records and the progress bar; "" where there is only one.
    features : callable
        What the head sees, x -> (B, D); refused where f is not head(features(x)).
    head : nn.Linear
        The last layer of f, features -> logits.
    memories : dict of str to SampleMemory
        Memories of every training row, by attribute; the engine places them and saves them with the state.
    title : str
        Its name for people; a class attribute, as are the next ones.
    reference : str
        Where it was published.
    needs_pi : bool
        Whether it is trained with PI.
    networks : int
        Prediction networks trained.
    stages : int
        Trainings one after the other.
    per_row_state : str
        What is kept for every training row, in words.
    n_views : int
        Augmented views of every input.
    strong_views : int
        How many of them, the last ones, are strongly augmented.
    by_item : bool
        Whether batches are of items, each input once with all of its annotations.
    scores : tuple of str
        What `per_row` returns, "confidence" first; a high score looks wrong.

    See Also
    --------
    PiDual : One that is a page long.
    METHODS : Where a method gets its name.

    Notes
    -----
    CONTRIBUTING.md says how a method becomes part of the package.

    Examples
    --------
    >>> from pidual import METHODS, Method, PiDualClassifier, make_crowd
    >>> class Smooth(Method):
    ...     title = "Cross-entropy with smooth labels"
    ...
    ...     def forward(self, batch):
    ...         losses = batch.losses(self.f(batch.x), label_smoothing=0.1)
    ...         return {"loss": batch.mean(losses)}
    >>> METHODS["smooth"] = Smooth
    >>> crowd = make_crowd(100, answers_per_item=1)
    >>> model = PiDualClassifier("smooth", epochs=2).fit(crowd.x, crowd.frame["label"])
    >>> model.predict(crowd.x_test).shape
    (1000,)
    """

    title: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    needs_pi: ClassVar[bool] = False
    networks: ClassVar[int] = 1  # prediction networks trained
    stages: ClassVar[int] = 1  # trainings one after the other
    per_row_state: ClassVar[str] = ""  # what is kept for every training row
    n_views: ClassVar[int] = 1  # augmented views of every input
    by_item: ClassVar[bool] = False  # batches of items, each input once with all of its annotations
    strong_views: ClassVar[int] = 0  # how many of them, the last ones, are strongly augmented
    scores: ClassVar[tuple[str, ...]] = ("confidence",)  # then native ones, columns of `per_row`: high = looks wrong

    strong_policy: str = "autoaugment"  # how: a name of nets.augment.STRONG_POLICIES
    random_pi: int = 0  # length of the random PI the engine appends to a
    before_training: Mapping[str, Any] = {}  # training options in which the first stage differs

    def __new__(cls, *args: Any, **options: Any) -> "Method":
        check_values(cls, options)
        return super().__new__(cls)

    def __init__(self, f: nn.Module, spec: Spec):
        super().__init__()
        self.f = f
        self.epoch = 0
        self._rebuilds_optimizer = False
        self.before: Method | None = None  # a first stage: fitted first, then part of this method with frozen weights
        self.learned: Any = None  # what a finished fit has learned about answers: `AnswerWeights`

    @property
    def features(self) -> Callable[[Tensor], Tensor]:
        """Return what the head sees, x -> (B, D); refused where f is not head(features(x))."""
        return split_network(self.f)[0]

    @property
    def head(self) -> nn.Linear:
        """Return the last layer of f, features -> logits."""
        return split_network(self.f)[1]

    @property
    def phase(self) -> str:
        """Return the name of the present phase, for records and the progress bar; "" where there is only one."""
        return ""

    def train(self, mode: bool = True) -> "Method":
        """Set training or evaluation mode; a first stage has been trained, and stays in evaluation mode."""
        super().train(mode)
        if self.before is not None:
            self.before.eval()
        return self

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return one training computation: "loss" is minimised, scalars beside it are logged."""
        raise TypeError(f"{type(self).__name__} does not say how it is trained: write its forward")

    def logits(self, x: Tensor) -> Tensor:
        """Predict: the softmax of the logits is the answer. They depend on x only; by default they are f's."""
        logits: Tensor = self.f(x)
        return logits

    def unseen_logits(self, x: Tensor, fold: Int[Tensor, " B"]) -> Float[Tensor, "B K"]:
        """Return what networks say that have not seen the items of these folds, where there are such; else `logits`."""
        return self.logits(x)

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """Return further values per annotation for the predictions.

        `batch` comes without x, `logits` are of its inputs; `batch.index` is -1 for rows that were not trained on.
        """
        return {}

    def begin_epoch(self, epoch: int, scan: Scan) -> bool:
        """Set `epoch`, then call `on_epoch_start`; return whether the optimizer must be built again. For the engine."""
        self.epoch, self._rebuilds_optimizer = epoch, False
        self.on_epoch_start(epoch, scan)
        return self._rebuilds_optimizer

    def on_epoch_start(self, epoch: int, scan: Scan) -> None:
        """Change phase. What is remembered from here to `forward` has to be a buffer, `epoch` apart."""

    def rebuild_optimizer(self) -> None:
        """Have the engine build the optimizer again, of new `param_groups`; in `on_epoch_start`."""
        self._rebuilds_optimizer = True

    def epoch_rows(self, epoch: int, order: Tensor) -> Tensor:
        """Return the training rows this epoch visits, in order; `order` is a permutation of all of them.

        Where `by_item` is True, both are of items, numbered by their codes in ascending order (`Rows.groups`).
        """
        return order

    def param_groups(self) -> list[dict[str, Any]]:
        """Return the parameters in groups, each with the optimizer settings in which it differs from the run's.

        `sparse`: a batch touches few rows of it. `adam`: Adam, at the group's own `lr`, which stays the same unless
        `constant` is False.
        """
        return [{"params": [parameter for parameter in self.parameters() if parameter.requires_grad]}]

    @property
    def memories(self) -> dict[str, SampleMemory]:
        """Return the memories of this method, by attribute; the engine places them and saves them with the state."""
        return {name: value for name, value in vars(self).items() if isinstance(value, SampleMemory)}
