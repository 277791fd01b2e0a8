"""PES, progressive early stopping: stop the early layers early, give the late ones a fresh start, then trust agreement.

    all rows        L = CE(f(x), y_noisy)
    last stage      the last stage and the classifier get new weights, and Adam trains them alone, on the same loss
    classifier      the classifier alone gets new weights, and Adam trains it alone
    confident rows  every epoch, C = {i : argmax of the mean softmax f over two views of x_i is y_noisy_i};
                    L = mean over C of CE, weighted by w_k = mean class count / count of class k in C;
                    classes without rows in C have weight 0 and no part in the mean

Late layers fit wrong labels sooner than early ones, so each is trained on the noisy labels for a shorter time.
Prediction uses f. Batch normalisation of frozen layers goes on counting, as in the authors' code.

Bai et al., "Understanding and improving early stopping for learning with noisy labels", NeurIPS 2021, arXiv
2106.15853. In the released code the optimizer never hears of the new layers, which then keep the weights of the Adam
phases; here all layers train on confident rows, and `train_new_layers=False` gives the released behaviour.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..batch import Batch, Spec
from ..errors import UsageError
from ..random_pi import derive_seed
from .base import Method, Scan
from .parts.mixing import repeated
from .parts.networks import classifier, reinitialise
from .parts.processes import kept_mean, n_processes, of_first_process
from .parts.ranges import check_range
from .parts.selection import class_weights

AUTHORS_STEPS = 2000  # of Adam: 7 and 5 epochs of 45,000 rows in batches of 128
HIGHEST_LR = 0.05


class PES(Method):
    """Cross-entropy, then a fresh start for late layers, then cross-entropy on the rows f agrees with.

    Parameters
    ----------
    f : nn.Module
        Prediction network, x -> logits of shape (B, K). Its `last_stage` says which layers are the last stage and its
        `head` which one classifies. A network without `head` is classified by the last linear layer it holds; one
        without `last_stage` has as last stage its last child with parameters before the classifier, or none.
    spec : Spec
        Sizes of the training set, and the epochs of the run, of which the phases below are shares. Each phase has at
        least one epoch; a run of fewer epochs than phases leaves the fresh starts out.
    t1 : float
        Share of the run that trains on all rows (authors, CIFAR-10: 25 epochs of 200).
    t2, t3 : float
        Shares that train the last stage, and the classifier (authors: 7 and 5 epochs of 200); 0 leaves one out.
    refine_lr : float
        Rate of Adam in both (authors: 1e-4). Phases of fewer steps than the authors' 2,000 have a higher rate, by as
        much and up to 0.05: new layers that are still random would choose the confident rows at random.
    train_new_layers : bool
        Whether the last stage and the classifier go on learning afterwards (released code: they do not).
    """

    title = "PES"
    reference = "Bai et al., NeurIPS 2021, arXiv 2106.15853"
    per_row_state = "confident or not"
    n_views = 2
    scores = ("confidence", "disagreement")
    last_phase = "confident rows"
    epoch: Tensor
    seed: Tensor
    batch_size: Tensor
    confident: Tensor
    class_weight: Tensor

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        t1: float = 0.125,
        t2: float = 0.035,
        t3: float = 0.025,
        refine_lr: float = 1e-4,
        train_new_layers: bool = True,
    ):
        super().__init__(f, spec)
        check_range("t1", t1, 0, 1, inclusive=False)
        check_range("t2", t2, 0, 1)
        check_range("t3", t3, 0, 1)
        check_range("refine_lr", refine_lr, 0)
        self.refine_lr, self.train_new_layers = refine_lr, train_new_layers
        self.lengths = phase_lengths({"all rows": t1, "last stage": t2, "classifier": t3}, spec.epochs)
        self.trainable = frozenset(name for name, parameter in f.named_parameters() if parameter.requires_grad)
        if not self.trained_in(self.last_phase):
            raise UsageError(
                f"train_new_layers=False leaves nothing of {type(f).__name__} to train: all its layers are new ones."
            )
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seed", torch.randint(2**62, ()))  # of new weights
        self.register_buffer("batch_size", torch.zeros((), dtype=torch.int64))  # of all processes together
        self.register_buffer("confident", torch.ones(spec.n_train, dtype=torch.bool))
        self.register_buffer("class_weight", torch.ones(spec.n_classes))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        self.batch_size.fill_(len(batch.index) * n_processes())
        cross_entropy = F.cross_entropy(self.f(batch.x).float(), batch.y_noisy, reduction="none")
        if self.phase != self.last_phase:
            return {"loss": batch.mean(cross_entropy)}
        return {
            "loss": kept_mean(batch, cross_entropy, self.class_weight[batch.y_noisy]),
            "confident": self.confident.float().mean(),
        }

    @property
    def phase(self) -> str:
        """What this epoch trains, or on which rows."""
        epoch = int(self.epoch)
        for name, length in self.lengths.items():
            if epoch < length:
                return name
            epoch -= length
        return self.last_phase

    def on_epoch_start(self, epoch: int, scan: Scan) -> bool:
        """Give layers their fresh start, or find the confident rows; a new phase has a new optimizer."""
        before = self.phase
        self.epoch.fill_(epoch)
        if self.phase != before and self.phase in self.renewed():
            torch.manual_seed(derive_seed(int(self.seed), epoch))  # the same weights on every process, and on resuming
            for module in self.renewed()[self.phase]:
                reinitialise(module)
        if self.phase == self.last_phase:
            self.find_confident(scan)
        return self.phase != before

    def find_confident(self, scan: Scan) -> None:
        """Rows whose label is f's answer, and the weights of their classes; all rows where f agrees with none."""

        def label_and_agreement(batch: Batch) -> Tensor:
            p = torch.stack([self.f(view).float().softmax(1) for view in batch.views]).mean(0)
            return torch.stack([batch.y_noisy, (p.argmax(1) == batch.y_noisy).long()], 1)

        found = scan(label_and_agreement, augmented=True).to(self.confident.device)
        labels, agrees = of_first_process(found).unbind(1)
        self.confident.copy_(agrees if agrees.any() else torch.ones_like(agrees))
        self.class_weight.copy_(self.weights(labels[self.confident].bincount(minlength=len(self.class_weight))))

    def weights(self, counts: Tensor) -> Tensor:
        """Weight of each class, from the number of its confident rows."""
        return class_weights(counts)

    def epoch_rows(self, epoch: int, order: Tensor) -> Tensor:
        """The confident rows alone, once they are known; fewer than a batch are repeated to fill one."""
        if self.phase != self.last_phase:
            return order
        rows = order[self.confident.cpu()[order]]
        return repeated(rows, max(len(rows), int(self.batch_size)))

    def param_groups(self) -> list[dict[str, Any]]:
        """What this phase trains; everything else is frozen here, so that it is after resuming, too."""
        trained = self.trained_in(self.phase)
        for name, parameter in self.f.named_parameters():
            parameter.requires_grad_(name in trained)
        adam = {"adam": True, "lr": self.adam_lr(), "weight_decay": 0.0}
        return [{"params": list(trained.values()), **(adam if self.phase in self.renewed() else {})}]

    def adam_lr(self) -> float:
        """The rate at which Adam moves new layers as far as the authors' does, in however many steps."""
        steps = self.lengths.get(self.phase, 0) * len(self.confident) // max(1, int(self.batch_size))
        return max(self.refine_lr, min(HIGHEST_LR, self.refine_lr * AUTHORS_STEPS / max(1, steps)))

    def trained_in(self, phase: str) -> dict[str, nn.Parameter]:
        """Parameters that a phase trains, by name."""
        free = {name: parameter for name, parameter in self.f.named_parameters() if name in self.trainable}
        renewed = self.renewed()
        if phase not in renewed and (phase != self.last_phase or self.train_new_layers):
            return free
        layers = renewed.get(phase, next(iter(renewed.values())))  # the first fresh start includes the later ones
        new = {id(parameter) for layer in layers for parameter in layer.parameters()}
        return {name: parameter for name, parameter in free.items() if (id(parameter) in new) == (phase in renewed)}

    def renewed(self) -> dict[str, list[nn.Module]]:
        """Layers that get new weights in a phase, and are the only ones it trains."""
        head = new_classifier(self.f)
        return {"last stage": [*last_stage(self.f, head), head], "classifier": [head]}

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """1 where the answer is not the given label, without augmentation."""
        return {"disagreement": (logits.argmax(1) != batch.y_noisy).float()}


def phase_lengths(shares: Mapping[str, float], epochs: int) -> dict[str, int]:
    """Epochs of each phase but the last: its share of the run, at least one unless the share is 0.

    In a run of fewer epochs than phases, only the first and the last take place.
    """
    lengths = {name: max(1, int(share * epochs + 0.5)) if share else 0 for name, share in shares.items()}
    if epochs > sum(length > 0 for length in lengths.values()):
        return lengths
    return {name: length if name == next(iter(shares)) else 0 for name, length in lengths.items()}


def new_classifier(f: nn.Module) -> nn.Module:
    """The classifier of a network, which is trained anew."""
    head = classifier(f)
    if head is None:
        raise UsageError(f"PES needs a classifier to train anew; give {type(f).__name__} a linear layer called `head`.")
    return head


def last_stage(f: nn.Module, head: nn.Module) -> list[nn.Module]:
    """`last_stage` of a network, or else its last child with parameters that does not hold the classifier."""
    if (stage := getattr(f, "last_stage", None)) is not None:
        return list(stage)
    before = (child for child in f.children() if head not in child.modules())
    return [child for child in before if next(child.parameters(), None) is not None][-1:]
