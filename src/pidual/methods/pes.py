"""PES, progressive early stopping: stop the early layers early, give the late ones a fresh start, then trust agreement.

    all rows        L = CE(f(x), y_noisy)
    last stage      the last stage and the classifier get new weights, and Adam trains them alone, on the same loss
    classifier      the classifier alone gets new weights, and Adam trains it alone
    confident rows  every epoch, C = {i : argmax of the mean softmax f over two views of x_i is y_noisy_i};
                    L = mean over C of CE, weighted by w_k = mean class count / count of class k in C

Late layers fit wrong labels sooner than early ones, so each is trained on the noisy labels for a shorter time.
Prediction uses f. Batch normalisation of frozen layers goes on counting, as in the authors' code.

Bai et al., "Understanding and improving early stopping for learning with noisy labels", NeurIPS 2021, arXiv
2106.15853. In the released code the optimizer never hears of the new layers, which then keep the weights of the Adam
phases; here all layers train on confident rows, and `train_new_layers=False` gives the released behaviour.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..batch import Batch, Spec
from ..errors import UsageError
from ..random_pi import derive_seed
from .base import Method, Scan
from .parts import check_range, class_weights, gather, kept_mean, n_processes, reinitialise


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
        Shares that train the last stage, and the classifier (authors: 7 and 5 epochs of 200).
    refine_lr : float
        Rate of Adam in both (authors: 1e-4, with thousands of steps).
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
        for name, share in {"t1": t1, "t2": t2, "t3": t3}.items():
            check_range(name, share, 0, 1)
        check_range("refine_lr", refine_lr, 0)
        self.refine_lr, self.train_new_layers = refine_lr, train_new_layers
        self.lengths = phase_lengths({"all rows": t1, "last stage": t2, "classifier": t3}, spec.epochs)
        self.trainable = frozenset(name for name, parameter in f.named_parameters() if parameter.requires_grad)
        if not train_new_layers and not self.parameters_of(self.last_phase):
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
    def phase(self) -> str:  # type: ignore[override]
        """What this epoch trains, and on what."""
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
        new_phase = self.phase != before
        if new_phase and self.phase in ("last stage", "classifier"):
            with torch.random.fork_rng():
                torch.manual_seed(derive_seed(int(self.seed), epoch))
                for module in self.new_layers():
                    reinitialise(module)
        elif self.phase == self.last_phase:
            self.find_confident(scan)
        return new_phase

    def find_confident(self, scan: Scan) -> None:
        """Rows whose label is the answer of f, and the weights of their classes; where there are none, all rows."""

        def label_and_agrees(batch: Batch) -> Tensor:
            p = torch.stack([self.f(view).float().softmax(1) for view in batch.views]).mean(0)
            return torch.stack([batch.y_noisy, (p.argmax(1) == batch.y_noisy).long()], 1)

        labels, confident = of_first_process(scan(label_and_agrees, augmented=True).to(self.seed.device)).unbind(1)
        self.confident.copy_(confident.bool() if confident.any() else torch.ones_like(confident))
        self.class_weight.copy_(self.weights(labels[self.confident].bincount(minlength=len(self.class_weight))))

    def weights(self, counts: Tensor) -> Tensor:
        """Weight of each class, of the number of its confident rows."""
        return class_weights(counts)

    def epoch_rows(self, epoch: int, order: Tensor) -> Tensor:
        """The confident rows alone, once they are known; fewer than a batch are repeated to fill one."""
        if self.phase != self.last_phase:
            return order
        return at_least(order[self.confident.cpu()[order]], int(self.batch_size))

    def param_groups(self) -> list[dict[str, Any]]:
        """What this phase trains; the other parameters are frozen here, so that a resumed run freezes them too."""
        trained = self.parameters_of(self.phase)
        for name, parameter in self.f.named_parameters():
            parameter.requires_grad_(name in trained)
        adam = {"adam": True, "lr": self.refine_lr, "weight_decay": 0.0}
        return [{"params": list(trained.values()), **(adam if self.phase in ("last stage", "classifier") else {})}]

    def parameters_of(self, phase: str) -> dict[str, nn.Parameter]:
        """Parameters that a phase trains, by name."""
        new = {id(parameter) for module in self.new_layers(phase) for parameter in module.parameters()}
        wanted: Callable[[nn.Parameter], bool] = lambda parameter: True
        if phase in ("last stage", "classifier"):
            wanted = lambda parameter: id(parameter) in new
        elif phase == self.last_phase and not self.train_new_layers:
            wanted = lambda parameter: id(parameter) not in new
        return {name: value for name, value in self.f.named_parameters() if name in self.trainable and wanted(value)}

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """1 where the answer is not the given label, without augmentation."""
        return {"disagreement": (logits.argmax(1) != batch.y_noisy).float()}
