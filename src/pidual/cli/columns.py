"""Columns of a table that a command line does not name one by one."""

import fnmatch
import shlex
from pathlib import Path
from typing import Any


def without_names(command: str) -> str:
    """A command line without the columns of annotators, whose names say who they are."""
    words = iter(shlex.split(command))
    kept = []
    for word in words:
        kept.append("--annotators=..." if word.startswith("--annotators=") else word)
        if word == "--annotators":
            next(words, None)
            kept.append("...")
    return shlex.join(kept)


def guess_options(opened: Any, options: dict[str, Any]) -> None:
    """Fill in the inputs of an export where none are given, and the item where images are named by a field."""
    guess = opened.guess
    if guess is None:
        return
    if options["x"] and guess.image and options["item"] is None and Path(options["x"]).is_dir():
        options["item"] = guess.image
    if any(options.get(name) for name in ("x", "columns", "text", "probs", "no_x", "image_size")):
        return
    options["text"] = guess.text
    options["columns"] = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in guess.columns]


def matching(opened: Any, columns: list[str]) -> list[str]:
    """The columns of the table that are named, or that are like a pattern."""
    found: list[str] = []
    for name in columns:
        like = [] if name in opened else [each for each in opened.columns if fnmatch.fnmatchcase(each, name)]
        found += like or [name]
    return found
