"""Progress on a terminal: a bar with the time left where there is one, plain lines elsewhere; always on stderr."""

import sys
import time
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from ..errors.messages import printable
from ..learn.engine.history import Record
from ..learn.engine.progress import Progress
from ..run.files import CLOSED_FORM

SECONDS_BETWEEN_LINES = 10.0


def choose_progress() -> Progress:
    """A bar where stderr is a terminal, plain lines elsewhere."""
    return Bar() if sys.stderr.isatty() else Lines()


class Silent(Progress):
    """Only what must be known: notes."""

    def note(self, text: str) -> None:
        click.echo(printable(text), err=True)


class Lines(Progress):
    """Plain lines: the start, an epoch now and then, and a sign of life within long epochs."""

    def heading(self, text: str) -> None:
        self.note(text)

    def start(self, epochs: int, steps: int, done: int, stage: str = "") -> None:
        self.epochs, self.steps, self.done, self.began = epochs, steps, done, time.monotonic()
        self.total, self.said = epochs * steps, 0.0
        self.unit = "round" if stage == CLOSED_FORM else "epoch"
        done_text = f", {done / self.total:.0%} done before" if done else ""
        if stage == CLOSED_FORM:
            click.echo(
                f"Fitting in closed form{f': at most {epochs} rounds' if epochs > 1 else ''}{done_text}.", err=True
            )
            return
        named = f" ({stage})" if stage else ""
        click.echo(f"Training{named}: {epochs} epochs of {steps} steps{done_text}.", err=True)

    def step(self, epoch: int, step: int) -> None:
        now = time.monotonic()
        if now - self.said > SECONDS_BETWEEN_LINES and (self.said or now - self.began > 1):
            self.said = now
            position = epoch * self.steps + step
            left = (now - self.began) / max(1, position - self.done) * (self.total - position)
            place = f"{self.unit} {epoch + 1}/{self.epochs}, step {step}/{self.steps}"
            click.echo(f"{place}, about {duration(left)} left", err=True)

    def epoch(self, record: Record) -> None:
        now = time.monotonic()
        if now - self.said > SECONDS_BETWEEN_LINES or record["epoch"] + 1 == self.epochs:
            self.said = now
            click.echo(f"epoch {record['epoch'] + 1}/{self.epochs}: {describe(record)}", err=True)

    def note(self, text: str) -> None:
        click.echo(printable(text), err=True)


class Bar(Progress):
    """A bar with the time left."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self.bar: RichProgress | None = None

    def heading(self, text: str) -> None:
        self.note(text)

    def start(self, epochs: int, steps: int, done: int, stage: str = "") -> None:
        self.epochs, self.steps, self.drawn = epochs, steps, 0.0
        self.stage = "closed form, " if stage == CLOSED_FORM else f"{stage}, " if stage else ""
        self.unit = "round" if stage == CLOSED_FORM else "epoch"
        columns: list[Any] = [
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
        ]
        self.bar = RichProgress(*columns, console=self.console, transient=True)
        name = "closed form" if stage == CLOSED_FORM else "training"
        self.task = self.bar.add_task(name, total=epochs * steps, completed=done, text="")
        self.bar.start()

    def step(self, epoch: int, step: int) -> None:
        now = time.monotonic()
        if self.bar is not None and now - self.drawn > 0.1:
            self.drawn = now
            self.bar.update(
                self.task,
                completed=epoch * self.steps + step,
                description=f"{self.stage}{self.unit} {epoch + 1}/{self.epochs}",
            )

    def epoch(self, record: Record) -> None:
        if self.bar is not None:
            done = (record["epoch"] + 1) * self.steps
            self.bar.update(self.task, completed=done, text=describe(record))

    def note(self, text: str) -> None:
        self.console.print(printable(text), highlight=False, markup=False)

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def describe(record: Record) -> str:
    """An epoch in a few words."""
    words = [record["stage"]] if "stage" in record else []
    words.append(f"loss {record['loss']:.3f}")
    if "gate" in record:
        words.append(f"gate {record['gate']:.2f}")
    if "valid_accuracy" in record:
        words.append(f"noisy validation {record['valid_accuracy']:.1%}")
    return ", ".join(words)


def duration(seconds: float) -> str:
    """Seconds for people."""
    minutes, hours = seconds / 60, seconds / 3600
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if hours < 2 else f"{hours:.1f} h"
