"""PES, progressive early stopping: stop the early layers early, give the late ones a fresh start, then trust agreement.

    all rows        L = CE(f(x), y_noisy)
    last stage      the last stage and the classifier get new weights, and Adam trains them alone, on the same loss
    classifier      the classifier alone gets new weights, and Adam trains it alone
    confident rows  every epoch, C = {i : argmax of the mean softmax f over two views of x_i is y_noisy_i};
                    L = mean over C of CE, weighted by w_k = mean class count / count of class k in C;
                    classes without rows in C have weight 0 and do not count in the mean

Late layers fit wrong labels sooner than early ones, so each is trained on the noisy labels for a shorter time.
Prediction uses f. Batch normalisation of frozen layers keeps counting, as in the authors' code.

Bai et al., "Understanding and improving early stopping for learning with noisy labels", NeurIPS 2021, arXiv
2106.15853. In the released code the optimizer never gets the new layers, which then keep the weights of the Adam
phases; here all layers train on confident rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...data.pi.random_pi import derive_seed
from ...errors import UsageError
from ...options import NotNegative, Share, ShareAboveZero
from .base import Batch, Method, Scan, Spec
from .parts.networks import classifier, last_stage, reinitialise
from .parts.processes import kept_mean, n_processes, of_first_process
from .parts.selection import class_weights, repeated

AUTHORS_STEPS = 2000  # of Adam: 7 and 5 epochs of 45,000 rows in batches of 128
HIGHEST_LR = 0.05


@dataclass(frozen=True)
class Phase:
    """A part of the run."""

    name: str
    epochs: int
    trained: frozenset[str]  # names of the parameters of f that it trains
    # layers that begin it with new weights, and that Adam trains; without any, SGD does
    fresh: Sequence[nn.Module] = ()


class PES(Method):
    """Cross-entropy, then a fresh start for late layers, then cross-entropy on the rows f agrees with.

    f's `last_stage` says which layers are the last stage and its `head` which one classifies. A network without `head`
    is classified by the last linear layer it holds; one without `last_stage` has as last stage its last child with
    parameters before the classifier, or none. A run of fewer epochs than phases leaves the fresh starts out.

    Parameters
    ----------
    t1 : float
        Share of the run that trains all layers on all rows (authors, CIFAR-10: 25 epochs of 200).
    t2, t3 : float
        `t2` of the run then trains a new last stage, `t3` a new classifier (authors: 7 and 5 epochs of 200); 0 skips.
    refine_lr : float
        Learning rate of Adam in both (authors: 1e-4). A phase of fewer steps than the authors' 2,000 has a rate that is
        higher in proportion, up to 0.05: layers still random would choose the confident rows at random.
    """

    title = "PES"
    reference = "Bai et al., NeurIPS 2021, arXiv 2106.15853"
    per_row_state = "confident or not"
    n_views = 2
    scores = ("confidence", "disagreement")
    last_phase = "confident rows"

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        *,
        t1: ShareAboveZero = 0.125,
        t2: Share = 0.035,
        t3: Share = 0.025,
        refine_lr: NotNegative = 1e-4,
    ):
        super().__init__(f, spec)
        self.refine_lr = refine_lr
        self.phases = self.plan({"all rows": t1, "last stage": t2, "classifier": t3}, spec.epochs)
        self.seed = nn.Buffer(torch.randint(2**62, ()))  # of new weights
        self.batch_size = nn.Buffer(torch.zeros((), dtype=torch.int64))  # of all processes together
        self.confident = nn.Buffer(torch.ones(spec.n_train, dtype=torch.bool))
        self.class_weight = nn.Buffer(torch.ones(spec.n_classes))

    def plan(self, shares: Mapping[str, float], epochs: int) -> list[Phase]:
        """Return the phases: these shares of the run, then the last one.

        Each has at least one epoch, unless its share is 0. In a run of fewer epochs than phases, only the first and
        the last take place.
        """
        lengths = {name: max(1, int(share * epochs + 0.5)) if share else 0 for name, share in shares.items()}
        if epochs <= sum(length > 0 for length in lengths.values()):
            lengths = {name: length if name == "all rows" else 0 for name, length in lengths.items()}
        free = frozenset(name for name, parameter in self.f.named_parameters() if parameter.requires_grad)
        fresh = self.fresh_layers()
        new = {name: free & _names_in(self.f, layers) for name, layers in fresh.items()}
        phases = [Phase(name, lengths[name], new.get(name, free), fresh.get(name, ())) for name in shares]
        left = max(0, epochs - sum(lengths.values()))
        return [*phases, Phase(self.last_phase, left, free)]

    def at(self, epoch: int) -> Phase:
        """Return the phase of an epoch."""
        for phase in self.phases[:-1]:
            if epoch < phase.epochs:
                return phase
            epoch -= phase.epochs
        return self.phases[-1]

    @property
    def phase(self) -> str:
        """Return what this epoch trains, or on which rows."""
        return self.at(self.epoch).name

    @property
    def is_last(self) -> bool:
        """Return whether the confident rows are known."""
        return self.phase == self.last_phase

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        self.batch_size.fill_(len(batch.index) * n_processes())
        losses = batch.losses(self.f(batch.x))
        if not self.is_last:
            return {"loss": batch.mean(losses)}
        loss = kept_mean(batch, losses, self.class_weight[batch.y_noisy])
        return {"loss": loss, "confident": self.confident.float().mean()}

    def on_epoch_start(self, epoch: int, scan: Scan) -> None:
        """Give layers their fresh start, or find the confident rows; a new phase has a new optimizer."""
        phase = self.at(epoch)
        if epoch > 0 and phase is not self.at(epoch - 1):
            self.rebuild_optimizer()
            if phase.fresh:
                torch.manual_seed(derive_seed(int(self.seed), epoch))  # the same on every process, and on resuming
            for layer in phase.fresh:
                reinitialise(layer)
        if self.is_last:
            self.find_confident(scan)

    def find_confident(self, scan: Scan) -> None:
        """Find the rows whose label is f's answer, all where f agrees with none, and the weights of their classes."""

        def label_and_agreement(batch: Batch) -> Tensor:
            p = torch.stack([self.f(view).float().softmax(1) for view in batch.views]).mean(0)
            return torch.stack([batch.y_noisy, (p.argmax(1) == batch.y_noisy).long()], 1)

        found = scan(label_and_agreement, augmented=True).to(self.confident.device)
        labels, agrees = of_first_process(found).unbind(1)
        self.confident.copy_(agrees if agrees.any() else torch.ones_like(agrees))
        self.class_weight.copy_(self.weights(labels[self.confident].bincount(minlength=len(self.class_weight))))

    def weights(self, counts: Tensor) -> Tensor:
        """Return weight of each class, from the number of its confident rows."""
        return class_weights(counts)

    def epoch_rows(self, epoch: int, order: Tensor) -> Tensor:
        """Return the confident rows alone, once they are known; fewer than a batch are repeated to fill one."""
        if not self.is_last:
            return order
        rows = order[self.confident.cpu()[order]]
        return repeated(rows, max(len(rows), int(self.batch_size)))

    def param_groups(self) -> list[dict[str, Any]]:
        """Return what this phase trains; everything else is frozen here, so that it is after resuming, too."""
        phase, trained = self.at(self.epoch), []
        for name, parameter in self.f.named_parameters():
            parameter.requires_grad_(name in phase.trained)
            trained += [parameter] if name in phase.trained else []
        adam = {"adam": True, "lr": self.adam_lr(phase), "weight_decay": 0.0}
        return [{"params": trained, **(adam if phase.fresh else {})}]

    def adam_lr(self, phase: Phase) -> float:
        """Return the rate at which Adam moves new layers as far as the authors' does, in however many steps."""
        steps = phase.epochs * len(self.confident) // max(1, int(self.batch_size))
        return max(self.refine_lr, min(HIGHEST_LR, self.refine_lr * AUTHORS_STEPS / max(1, steps)))

    def fresh_layers(self) -> dict[str, list[nn.Module]]:
        """Return the layers that begin a phase with new weights, and are the only ones it trains."""
        head = self.classifier()
        return {"last stage": [*last_stage(self.f, head), head], "classifier": [head]}

    def classifier(self) -> nn.Module:
        """Return the last layer of f."""
        if (head := classifier(self.f)) is None:
            name = type(self.f).__name__
            raise UsageError(f"PES needs a classifier to retrain; give {name} a linear layer called `head`.")
        return head

    def per_row(self, batch: Batch, logits: Tensor) -> dict[str, Tensor]:
        """Return 1 where the answer is not the given label, without augmentation."""
        return {"disagreement": (logits.argmax(1) != batch.y_noisy).float()}


def _names_in(f: nn.Module, layers: Sequence[nn.Module]) -> set[str]:
    """Return the names of the parameters of f that these layers hold."""
    held = {id(parameter) for layer in layers for parameter in layer.parameters()}
    return {name for name, parameter in f.named_parameters() if id(parameter) in held}
