"""The records of a JSON file one after the other, in memory that does not grow with the file.

A file is an array of objects, or objects after each other (JSON Lines); its first character says which.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ...errors import DataError
from ...errors.messages import first_line
from ..sources.base import BLOCK, TextFile

CHUNK = 1 << 20  # characters
_KINDS = {str: "text", bool: "true/false", int: "a number", float: "a number", list: "a list", dict: "an object"}


class JsonRecords(TextFile):
    """Objects in a JSON file.

    Parameters
    ----------
    path : str or Path
        The file; it may be gzipped.
    """

    def __init__(self, path: str | Path):
        super().__init__(path)
        self.columns: list[str] = []

    def starts_with(self) -> str:
        """The first character that is not a space, or nothing."""
        with self._open("replace") as stream:
            return _Window(stream, self.name).peek()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every record; anything else than an object is an error."""
        try:
            with self._open() as stream:
                for number, value in enumerate(_values(_Window(stream, self.name)), 1):
                    if not isinstance(value, dict):
                        raise DataError(
                            f"{self.name}, record {number} is {kind(value)}, not an object; write a list of objects, "
                            'such as [{"item": 1, "label": "cat"}].'
                        )
                    yield value
        except UnicodeDecodeError:
            self._check_utf8()
            raise


def kind(value: object) -> str:
    """What a value of JSON is, in words."""
    return _KINDS.get(type(value), "null")


class _Window:
    """The part of a text that is looked at."""

    def __init__(self, stream: IO[str], name: str):
        self._stream, self._name = stream, name
        self._text, self._position, self._line = "", 0, 1
        self._decode = json.JSONDecoder().raw_decode

    def peek(self) -> str:
        """The next character that is not a space, which is not passed; nothing at the end of the file."""
        while True:
            rest = self._text[self._position : self._position + 1]
            if rest and not rest.isspace():
                return rest
            if rest:
                self._position += 1
            elif not self._more():
                return ""

    def skip(self) -> None:
        """Pass one character."""
        self._position += 1

    def value(self) -> Any:
        """The value that begins here, or after spaces."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._position)
            except json.JSONDecodeError as error:
                if len(self._text) - self._position > BLOCK or not self._more():
                    raise self.error(error.msg, error.pos) from None
            except ValueError as error:  # a number of thousands of digits
                raise self.error(first_line(error)) from None
            except RecursionError:
                raise DataError(
                    f"{self._name}, line {self._line_of(self._position)} has lists and objects within each other too "
                    "deep to read; write it again without them."
                ) from None
            else:
                if end < len(self._text) or not self._more():  # a number may go on beyond the window
                    self._position = min(end, len(self._text))
                    return value

    def error(self, what: str, position: int | None = None) -> DataError:
        """What to raise where the text is not JSON."""
        position = self._position if position is None else position
        shown = what[:1].lower() + what[1:]
        return DataError(
            f"{self._name}, line {self._line_of(position)} is not JSON ({shown}); export it again, or check that it "
            "is whole."
        )

    def _line_of(self, position: int) -> int:
        return self._line + self._text.count("\n", 0, position)

    def _more(self) -> bool:
        """Read on, as much again as is there, and forget what has been passed."""
        read = self._stream.read(max(CHUNK, len(self._text) - self._position))
        if not read:
            return False
        self._line += self._text.count("\n", 0, self._position)
        self._text, self._position = self._text[self._position :] + read, 0
        return True


def _values(window: _Window) -> Iterator[Any]:
    """The values of an array, or those that stand one after the other."""
    if window.peek() != "[":
        while window.peek():
            yield window.value()
        return
    window.skip()
    if window.peek() == "]":
        window.skip()
    else:
        yield window.value()
        while (sign := window.peek()) == ",":
            window.skip()
            yield window.value()
        if sign != "]":
            raise window.error("expecting ',' or ']'" if sign else "the list has no end")
        window.skip()
    if window.peek():
        raise window.error("there is more after the end of the list")
