"""How a file of ours is read and written: the class of what is in it says so, and no file is read in another way.

A file has a format number. One of another format is refused: a run of an older pidual is fitted again.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from ...errors import RunError
from ...files import fingerprint

FORMAT = 2  # 1 was that of pidual 0.2
DAMAGED = "the run is damaged, so copy it again or fit again"
SHOWN = 60  # characters of a wrong value in a message
LARGEST = 2**53  # whole numbers beyond this are not the same in every JSON reader

Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
Number = Annotated[float, Meta(ge=-1.7e308, le=1.7e308)]
AtLeast0 = Annotated[float, Meta(ge=0, le=1.7e308)]
Share = Annotated[float, Meta(ge=-1e-6, le=1 + 1e-6)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Shape = Annotated[list[Positive], Meta(min_length=1, max_length=8)]
Label = str | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # a class
Options = dict[str, Any]  # of a method, a network or training, which say themselves what they may be

Kind = TypeVar("Kind")
NAMES = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "object": "an object"}
NAMES |= {"array": "a list", "null": "null"}


class Record(Struct, frozen=True, omit_defaults=True):
    """A file of ours, or a part of one. What has its default is not written; what is unknown is not read."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        values: dict[str, Any] = msgspec.to_builtins(self, enc_hook=_as_float)
        return values


def _as_float(value: Any) -> float:
    """Return a float of NumPy's as one of Python's; other types that JSON does not have are an error."""
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


def read_record(path: Path, kind: type[Kind], *, way_out: str = DAMAGED) -> Kind:
    """Read the record in a JSON file.

    Parameters
    ----------
    path : Path
    kind : type
        The class of the record.
    way_out : str
        What a message says to do.
    """
    return parse_record(path, read_text(path, way_out), kind, way_out=way_out)


def read_text(path: Path, way_out: str = DAMAGED) -> str:
    """Read the text of a file."""
    if not path.is_file():
        raise RunError(f"{path} is missing or is not a file; {way_out}.")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise RunError(f"{path} cannot be read ({reason}); {way_out}.") from error


def parse_record(
    path: Path, text: str, kind: type[Kind], *, way_out: str = DAMAGED, place: str = "", finite: bool = True
) -> Kind:
    """Make a record of JSON text from `path`; `place` is where in the file.

    `finite` refuses numbers that are not, which only Python writes as JSON.
    """
    what = f"{path}, {place}" if place else str(path)
    try:
        value = msgspec.json.decode(text) if finite else json.loads(text)
        if not finite:
            json.dumps(value, ensure_ascii=False).encode()  # half a character, which msgspec refuses as well
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else error
        raise RunError(f"{what} is not valid JSON and cannot be read ({reason}); {way_out}.") from error
    return as_record(what, value, kind, way_out)


def as_record(what: str, value: Any, kind: type[Kind], way_out: str = DAMAGED) -> Kind:
    """Make a record of JSON values; a message calls them `what`."""
    if isinstance(value, dict) and isinstance(found := value.get("format", FORMAT), int) and found != FORMAT:
        if found > FORMAT:
            raise RunError(
                f"{what} was written by a newer pidual (format {found}, this one reads {FORMAT}); update pidual to "
                "read it."
            )
        raise RunError(f"{what} was written by an older pidual (format {found}, this one reads {FORMAT}); fit again.")
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RunError(f"{what} cannot be used: {describe_problem(error, value)}; {way_out}.") from error


def describe_problem(error: Exception, value: Any) -> str:
    """Say where a value is not what it should be, what it should be, and what it is."""
    found = re.fullmatch(r"(.*?)(?:, got `[^`]*`)?(?: - at `(?:key in )?\$\.?([^`]*)`)?", str(error), re.DOTALL)
    assert found is not None
    problem, where = found[1], found[2] or ""
    if missing := re.fullmatch(r"Object missing required field `(.*)`", problem):
        return f"{where}{'.' * bool(where)}{missing[1]} is missing"
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", problem):
        return f"{where}{'.' * bool(where)}{unknown[1]} is unknown"
    for name, place in re.findall(r"([^.\[\]]+)|\[(\d+)\]", where.partition("[...]")[0]):
        value = value[int(place)] if place else value.get(name)
    shown = "" if "[...]" in where else f", not {_shown(value)}"
    if problem.startswith("Expected "):
        rule = re.sub(r"`(.*?)`", lambda part: " or ".join(NAMES.get(n, n) for n in part[1].split(" | ")), problem[9:])
        return f"{where or 'it'} must be {rule}{shown}"
    if problem.startswith("Invalid enum value"):
        return f"{where} is {_shown(value)}, which is not one of its values"
    return f"{where or 'it'} {problem[:1].lower()}{problem[1:]}"


def _shown(value: Any) -> str:
    """Return a value for a message: what it is, of limited length, on one line."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    found = json.dumps(value, default=str)
    return found if len(found) <= SHOWN else f"{found[:SHOWN]}..."


def file_digest(path: Path) -> str:
    """Return the BLAKE2b digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def seal(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a JSON file with a digest of themselves."""
    rest = {name: value for name, value in values.items() if name != "digest"}
    return rest | {"digest": fingerprint([json.dumps(rest, sort_keys=True).encode()])}
