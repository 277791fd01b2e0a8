"""Progress of the training loop. The engine calls these; the command line draws them."""

from .history import Record


class Progress:
    """Called at every step and epoch; does nothing."""

    def heading(self, text: str) -> None:
        """A fit begins, which of several it is, or by which method and why; or it collapsed and begins again."""

    def start(self, epochs: int, steps: int, done: int, stage: str = "") -> None:
        """Training, or a stage of it, begins: `epochs` epochs of `steps` steps, of which `done` are behind us."""

    def step(self, epoch: int, step: int) -> None:
        """So many steps of an epoch are done; a phase with more or fewer counts in parts of an epoch's."""

    def epoch(self, record: Record) -> None:
        """An epoch is done."""

    def note(self, text: str) -> None:
        """Something worth knowing happened."""

    def stop(self) -> None:
        """Training is over, whether it succeeded or not."""
