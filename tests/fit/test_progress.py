import io
import sys

import pytest
from rich.console import Console

from pidual.cli.common import terminal_progress
from pidual.detect.sentences import describe_epoch, duration
from pidual.fit.terminal import Bar, Lines, Silent

RECORD = {"epoch": 0, "loss": 1.5, "gate": 0.25, "valid_accuracy": 0.5}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def train(progress, epochs=3, steps=4, done=0):
    """What one of several fits tells its progress."""
    progress.heading("Fit 1 of 2: ce")
    progress.start(epochs, steps, done)
    for epoch in range(done // steps, epochs):
        for step in range(steps):
            progress.step(epoch, step + 1)
        progress.epoch(RECORD | {"epoch": epoch})
    progress.note("Something happened.")
    progress.stop()


def test_lines_say_first_and_last_epoch(capsys):
    train(Lines())
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Fit 1 of 2: ce",
        "Training: 3 epochs of 4 steps.",
        "epoch 1/3: loss 1.500, gate 0.25, noisy validation 50.0%",
        "epoch 3/3: loss 1.500, gate 0.25, noisy validation 50.0%",
        "Something happened.",
    ]


def test_lines_of_a_continued_run(capsys):
    train(Lines(), done=8)
    assert capsys.readouterr().err.splitlines()[1] == "Training: 3 epochs of 4 steps, 67% done before."


def test_lines_give_a_sign_of_life_in_a_long_epoch(capsys, monkeypatch):
    clock = iter(range(0, 10_000, 6))
    monkeypatch.setattr("pidual.fit.terminal.time.monotonic", lambda: next(clock))
    lines = Lines()
    lines.start(2, 100, 0)
    for step in range(1, 7):
        lines.step(0, step)
    said = capsys.readouterr().err.splitlines()[1:]
    assert said[0].startswith("epoch 1/2, step 2/100, about ")
    assert 2 <= len(said) <= 4  # not every step


def test_silent_says_notes_only(capsys):
    train(Silent())
    assert capsys.readouterr() == ("", "Something happened.\n")


@pytest.mark.parametrize("colour", [True, False])
def test_bar_is_drawn_on_a_terminal_without_colour_on_request(monkeypatch, colour):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    bar = Bar()
    bar.console = Console(file=stream, force_terminal=True, width=100)
    train(bar)
    drawn = stream.getvalue()
    assert "epoch" in drawn
    assert "Something happened." in drawn
    assert ("\x1b[3" in drawn) == colour  # colours are 3x codes, moving the cursor is not


def test_progress_suits_the_place_it_is_shown_in(monkeypatch):
    def chosen(stream, quiet=False):
        monkeypatch.setattr(sys, "stderr", stream)
        with terminal_progress(quiet) as progress:
            return progress

    assert isinstance(chosen(io.StringIO()), Lines)
    assert isinstance(chosen(Terminal(), quiet=True), Silent)
    bar = chosen(Terminal())
    assert isinstance(bar, Bar)
    assert bar.console.stderr
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}.items():
        monkeypatch.setenv(name, value)
    assert isinstance(chosen(Terminal()), Silent)


def test_words():
    assert describe_epoch({"loss": 0.12345}) == "loss 0.123"
    assert [duration(seconds) for seconds in (5, 150, 9000)] == ["5 s", "2 min", "2.5 h"]


def test_rounds_of_a_closed_form_are_not_called_training(capsys):
    for rounds, done in ((3, 0), (3, 1), (1, 0)):
        Lines().start(rounds, 1, done, "closed_form")
    assert capsys.readouterr().err.splitlines() == [
        "Fitting in closed form: at most 3 rounds.",
        "Fitting in closed form: at most 3 rounds, 33% done before.",
        "Fitting in closed form.",
    ]
