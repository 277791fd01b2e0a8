"""CORES*: sieve with CORES, then let a fresh f learn from kept labels, and from the other rows without their label.

    dropped   rows whose sieve score was above 0 when CORES visited them in one epoch, 0.4 of its run
    L         = mean over kept rows of CE(f(strong x), y_noisy)
                + consistency * mean over dropped rows of KL( sg(softmax f(x)) || softmax f(strong x) )

Rows that CORES did not visit in that epoch are kept. `WithStrongView` has the two views. Prediction uses f.

Cheng et al., "Learning with instance-dependent label noise: a sample sieve approach", ICLR 2021, arXiv 2010.02347. For
every step the authors draw 320 kept rows and 80, 160 or 240 dropped ones (20%, 40%, 60% noise), and show f the strong
view of kept rows and both views of dropped ones. Ours goes over all rows in one pass, both views in one concatenated
batch, so that a batch has as many dropped rows as chance gives it; either mean is over all processes, 0 without rows.
"""

from torch import Tensor, nn

from ...options import NotNegative, Share, Span
from .base import Batch, Spec
from .cores import CORES
from .kinds import WithStrongView
from .parts.networks import first_network
from .parts.processes import kept_mean
from .parts.selection import epoch_after


class CORESStar(WithStrongView):
    """Cross-entropy on the rows that CORES kept, consistency on those that it dropped.

    Parameters
    ----------
    consistency : float
        Weight of the consistency on dropped rows (authors: 0.2 at 20% wrong labels, 0.4 at 40%, 0.9 at 60%).
    record_at : float
        Share of CORES's run after which its sieve decides which rows are dropped (authors: epoch 40 of 100, from 0).
    beta, ramp, sieve_from
        As in CORES, which is the first stage.
    """

    title = "CORES*"
    reference = "Cheng et al., ICLR 2021, arXiv 2010.02347"
    stages = 2
    per_row_state = "whether it was dropped (1 bit)"
    before: CORES

    def __init__(
        self,
        f: nn.Module,
        spec: Spec,
        second: nn.Module | None = None,
        *,
        consistency: NotNegative = 0.9,
        record_at: Share = 0.4,
        beta: NotNegative = 2.0,
        ramp: Span = (0.1, 0.4),
        sieve_from: Share = 0.3,
    ):
        super().__init__(f, spec)
        self.consistency = consistency
        self.before = CORES(first_network(f, second), spec, beta=beta, ramp=ramp, sieve_from=sieve_from)
        self.before.record_in = min(spec.epochs - 1, epoch_after(record_at, spec.epochs))
        self.before_training = {"select": "last"}  # weights chosen earlier would not know what was dropped

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        dropped = self.before.looks_wrong[batch.index]
        _, f_strong, kl = self.on_both_views(batch)
        loss = kept_mean(batch, batch.losses(f_strong), ~dropped) + self.consistency * kept_mean(batch, kl, dropped)
        return {"loss": loss, "kept": (~dropped).float().mean()}
