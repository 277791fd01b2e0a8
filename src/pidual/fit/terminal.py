"""Progress on a terminal: a bar with the time left where there is one, plain lines elsewhere; always on stderr."""

import sys
import time

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from ..detect.sentences import describe_epoch, duration
from ..errors.messages import printable
from ..learn.engine import Progress
from ..learn.engine.callbacks import Record
from ..run.files import CLOSED_FORM

SECONDS_BETWEEN_LINES = 10.0


def choose_progress() -> Progress:
    """Return a bar where stderr is a terminal, plain lines elsewhere."""
    return Bar() if sys.stderr.isatty() else Lines()


class Silent(Progress):
    """Only what must be known: notes."""

    def note(self, text: str) -> None:
        click.echo(printable(text), err=True)


class Lines(Silent):
    """Plain lines: the start, an epoch now and then, and a sign of life within long epochs."""

    def heading(self, text: str) -> None:
        self.note(text)

    def start(self, epochs: int, steps: int, done: int, stage: str = "") -> None:
        self.epochs, self.steps, self.done, self.began = epochs, steps, done, time.monotonic()
        self.total, self.said = epochs * steps, 0.0
        self.unit = "round" if stage == CLOSED_FORM else "epoch"
        done_text = f", {done / self.total:.0%} done before" if done else ""
        if stage == CLOSED_FORM:
            self.note(f"Fitting in closed form{f': at most {epochs} rounds' if epochs > 1 else ''}{done_text}.")
        else:
            self.note(f"Training{f' ({stage})' if stage else ''}: {epochs} epochs of {steps} steps{done_text}.")

    def step(self, epoch: int, step: int) -> None:
        now = time.monotonic()
        if now - self.said > SECONDS_BETWEEN_LINES and (self.said or now - self.began > 1):
            self.said = now
            position = epoch * self.steps + step
            left = (now - self.began) / max(1, position - self.done) * (self.total - position)
            place = f"{self.unit} {epoch + 1}/{self.epochs}, step {step}/{self.steps}"
            self.note(f"{place}, about {duration(left)} left")

    def epoch(self, record: Record) -> None:
        now = time.monotonic()
        if now - self.said > SECONDS_BETWEEN_LINES or record["epoch"] + 1 == self.epochs:
            self.said = now
            self.note(f"epoch {record['epoch'] + 1}/{self.epochs}: {describe_epoch(record)}")


class Bar(Progress):
    """A bar with the time left."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.bar: RichProgress | None = None

    def heading(self, text: str) -> None:
        self.note(text)

    def note(self, text: str) -> None:
        self.console.print(printable(text), highlight=False, markup=False)

    def start(self, epochs: int, steps: int, done: int, stage: str = "") -> None:
        self.epochs, self.steps, self.drawn = epochs, steps, 0.0
        closed = stage == CLOSED_FORM
        self.stage = "closed form, round" if closed else f"{stage}, epoch" if stage else "epoch"
        columns = BarColumn(), TextColumn("{task.fields[text]}"), TimeRemainingColumn()
        self.bar = RichProgress(TextColumn("{task.description}"), *columns, console=self.console, transient=True)
        name = "closed form" if closed else "training"
        self.task = self.bar.add_task(name, total=epochs * steps, completed=done, text="")
        self.bar.start()

    def step(self, epoch: int, step: int) -> None:
        now = time.monotonic()
        if self.bar is not None and now - self.drawn > 0.1:
            self.drawn = now
            position = f"{self.stage} {epoch + 1}/{self.epochs}"
            self.bar.update(self.task, completed=epoch * self.steps + step, description=position)

    def epoch(self, record: Record) -> None:
        if self.bar is not None:
            done = (record["epoch"] + 1) * self.steps
            self.bar.update(self.task, completed=done, text=describe_epoch(record))

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
