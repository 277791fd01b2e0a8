"""Latent truth around a network: all answers of an item count together, and its true class is never seen.

    L       = - mean_i log sum_k f_k(x_i) e^{J_i(k)}               of each network, over the items that it sees
    J_i(k)  = sum_j w_ij log P(l_ij | k, a_ij)                     what the answers to item i say

There are F networks. Network m does not see the items of fold m, and is the one that is asked about them. P is the
answer model (`learn.answers`), fitted beside what these networks say after 1, 2, 4, 8, ... epochs; in the first epoch P
is what everybody confuses, by the votes. Where the class of an item is known, no other has a part in L or in the fit of
P. Prediction is the mean of all softmaxes.

Ours, after Dawid and Skene (1979).
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from ...options import Range
from ..answers.design import Design
from ..answers.model import Answers, fit_answer_model
from ..batch import in_full_precision
from ..closed_form.alternate import log_confusions, vote_shares
from .base import Batch, Method, Scan, Spec
from .parts.memory import SampleMemory
from .parts.networks import log_mean_softmax, second_network

FIT_NUMBERS = 2**24  # items x classes that the answer model is fitted to
FIT_STEPS = 20  # of L-BFGS; with 60 the model fits the answers better, and J is no better
CHUNK = 2**22  # items x classes of which J is worked out at once
RULED_OUT = -1e9  # log of a probability that is 0


class LatentTruth(Method):
    """A network for each fold of the items, which learns from all other items, and an answer model beside them.

    It is what `--network` makes of the default; without a network, the default is worked out in closed form.

    Parameters
    ----------
    folds : int
        Number F of networks, each of which does not see one part of the items. 1 is a single network that sees all of
        them, so that none is judged by a network that has not seen it.

    See Also
    --------
    CrowdClassifier : The default, with a network or without.

    References
    ----------
    Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm", 1979.

    Examples
    --------
    >>> from pidual import CrowdClassifier, LatentTruth, make_crowd
    >>> crowd = make_crowd(60, noise=0.3)
    >>> X, y, pi = crowd.x[crowd.frame["item"]], crowd.frame["label"], crowd.frame["annotator"]
    >>> model = CrowdClassifier(network="mlp", epochs=2, method__folds=3).fit(X, y, pi=pi)
    >>> isinstance(model.method_, LatentTruth), len(model.method_.members)
    (True, 3)
    """

    title = "Latent truth"
    reference = "Ours, after Dawid and Skene (1979)"
    needs_pi = True
    networks = 2
    by_item = True
    per_row_state = "what the answers say (K)"

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        second: nn.Module | None = None,
        *,
        folds: Annotated[int, Range(lambda value: 1 <= value <= 100, "from 1 to 100")] = 2,
    ):
        super().__init__(f, spec)
        given = [second, *[None] * (folds - 2)][: folds - 1]
        self.others = nn.ModuleList(second_network(f, network, beside=False) for network in given)
        self.folds, self.spec = folds, spec
        self.evidence = SampleMemory(spec.n_train, spec.n_classes)  # J of each item, at its first answer

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        J = only_known(self.evidence[batch.index[batch.starts]], batch.truth)  # (B, K)
        loss = J.new_zeros(())
        for m, f in enumerate(self.members):
            seen = ((batch.fold != m) | (self.folds == 1)).nonzero()[:, 0]
            log_f = in_full_precision(f(batch.x[seen])).log_softmax(1) if len(seen) else nothing(f, J)
            loss = loss - (log_f + J[seen]).logsumexp(1).sum()
        # They share no weights, so that the sum of their losses trains each with its own.
        return {"loss": loss / (len(J) * max(1, self.folds - 1) / self.folds)}

    def logits(self, x: Tensor) -> Tensor:
        return log_mean_softmax(*(f(x) for f in self.members))

    def unseen_logits(self, x: Tensor, fold: Int[Tensor, " B"]) -> Float[Tensor, "B K"]:
        """Return log-probabilities by network m for inputs of fold m, and by all networks for those of no fold."""
        asked = torch.where((fold >= 0) & (fold < self.folds) & (self.folds > 1), fold, -1)
        networks: dict[int, Callable[[Tensor], Tensor]] = {-1: self.logits, **dict(enumerate(self.members))}
        order = asked.argsort(stable=True)
        numbers, counts = asked.unique(return_counts=True)
        parts = zip(numbers.tolist(), x[order].split(counts.tolist()), strict=True)
        said = torch.cat([in_full_precision(networks[m](part)).log_softmax(1) for m, part in parts])
        return said[order.argsort()]

    @property
    def members(self) -> list[nn.Module]:
        """Return all networks, by the fold that they do not see."""
        return [self.f, *self.others]

    def on_epoch_start(self, epoch: int, scan: Scan) -> None:
        """Fit P before the first epoch and after 1, 2, 4, 8, ..., and work out J by it."""
        if epoch & (epoch - 1):
            return
        answers, first, truth = read_answers(scan, self.spec)
        n, k = answers.n_items, answers.n_classes
        some = torch.arange(0, n, -(-n * k // FIT_NUMBERS))
        log_P = self.fit_P(epoch, scan, answers.subset(some.numpy()), first[some], truth[some.numpy()])
        device = next(self.parameters()).device
        for items in torch.arange(n).split(max(1, CHUNK // k)):
            part = answers.subset(items.numpy())
            J = torch.from_numpy(part.by_item @ log_P(part)).float()
            self.evidence.update(first[items].to(device), J.to(device))

    def fit_P(  # noqa: N802 - as in the equation
        self, epoch: int, scan: Scan, answers: Answers, first: Int[Tensor, " n"], truth: NDArray[np.int64]
    ) -> Callable[[Answers], NDArray[np.float64]]:
        """Fit P to answers, by the votes at first, then beside what the networks say; return log P (R, K) of any."""
        if epoch == 0:
            table = log_confusions(answers, vote_shares(answers))
            return lambda others: table.T[others.label]
        log_f = scan(partial(self._unseen, chosen=first)).double().numpy()
        return fit_answer_model(answers, log_f, truth=truth, steps=FIT_STEPS).log_likelihood

    def _unseen(self, batch: Batch, chosen: Tensor) -> Tensor:
        """Return what networks that have not seen them say about items with these first answers."""
        some = torch.isin(batch.index[batch.starts].cpu(), chosen).to(batch.fold.device)
        return self.unseen_logits(batch.x[some], batch.fold[some])


def only_known(J: Float[Tensor, "B K"], truth: Int[Tensor, " B"] | None) -> Float[Tensor, "B K"]:
    """Rule out all classes but the known one, where the class of an item is known (not -1)."""
    if truth is None:
        return J
    other = torch.arange(J.shape[1], device=J.device) != truth[:, None]
    return J.masked_fill(other & (truth >= 0)[:, None], RULED_OUT)


def nothing(f: nn.Module, J: Float[Tensor, "B K"]) -> Float[Tensor, "0 K"]:
    """Return what a network says about no item: every parameter gets a gradient of zero."""
    zero = torch.stack([parameter.sum() for parameter in f.parameters()]).sum()
    return zero * J[:0]


def read_answers(scan: Scan, spec: Spec) -> tuple[Answers, Int[Tensor, " n"], NDArray[np.int64]]:
    """Read all answers, where the first one to each item stands among them, and the class of each that is known."""
    read = partial(scan, with_x=False)
    item = read(lambda batch: batch.starts).cumsum(0).numpy() - 1
    first = read(lambda batch: batch.index[batch.starts])
    truth = read(lambda batch: torch.full_like(batch.fold, -1) if batch.truth is None else batch.truth)
    vote = read(lambda batch: batch.index if batch.vote is None else batch.vote)
    _, vote, count = vote.unique(return_inverse=True, return_counts=True)
    numbers = read(lambda batch: batch.a.numbers).numpy()
    answers = Answers.build(
        item,
        read(lambda batch: batch.y_noisy).numpy(),
        Design.fit(spec.cardinalities, spec.annotator_column, numbers),
        read(lambda batch: batch.a.codes).numpy(),
        numbers,
        n_items=len(first),
        n_classes=spec.n_classes,
        weight=(read(lambda batch: batch.weight) / count[vote]).double().numpy(),
        vote=vote.numpy(),
    )
    return answers, first, truth.numpy()
