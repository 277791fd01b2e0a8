"""Options given by name, checked against the signature of what takes them.

A signature gives the kind and the range of an option: `beta: Share = 0.7`, `width: Count = 256`. Other ranges
are an `Annotated` kind: `depth: Annotated[int, at_least(2)] = 3`.
"""

import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from ..errors import UsageError
from ..errors.messages import quoted


def check_options(
    what: str, function: Callable[..., Any], options: Mapping[str, Any], taken: Collection[str] = ()
) -> None:
    """Refuse options that the function does not take, or whose values are not of the kind its signature says.

    Options are taken by keyword alone: arguments that can be given by position are none.

    Parameters
    ----------
    what : str
        What messages call the function, such as "method 'pi_dual'".
    function : callable
        Takes the options by name.
    options : mapping
        The options.
    taken : collection of str
        Arguments that are not options.
    """
    parameters = {name: p for name, p in signature(function).items() if is_option(p) and name not in taken}
    for name, value in options.items():
        if name not in parameters:
            raise UsageError(f"The {what} has no option {quoted(name)}; it takes {', '.join(parameters) or 'none'}.")
        check_value(f"The option {name} of the {what}", value, parameters[name].annotation)


def check_values(function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse values that are not of the kind, or not in the range, that the signature says."""
    parameters = signature(function)
    for name, value in options.items():
        if name in parameters and is_option(parameters[name]):
            check_value(name, value, parameters[name].annotation)


def signature(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return parameters by name; a class that hands on **options to its parent also takes the parent's."""
    if not isinstance(function, type):
        return dict(inspect.signature(function).parameters)
    parameters: dict[str, inspect.Parameter] = {}
    for made in (vars(kind)["__init__"] for kind in function.__mro__ if "__init__" in vars(kind)):
        own = {name: p for name, p in inspect.signature(made).parameters.items() if name != "self"}
        parameters |= {n: p for n, p in own.items() if n not in parameters and p.kind is not p.VAR_KEYWORD}
        if all(p.kind is not p.VAR_KEYWORD for p in own.values()):
            break
    return parameters


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return options by name with their default values."""
    return {name: p.default for name, p in signature(function).items() if is_option(p) and p.default is not p.empty}


def is_option(parameter: inspect.Parameter) -> bool:
    """Return whether an argument is taken by keyword alone."""
    return parameter.kind is parameter.KEYWORD_ONLY


def check_value(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not of this kind, or not in its range; kinds that KINDS does not have are not checked."""
    kind, *ranges = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    for good, words in (*([KINDS[kind]] if kind in KINDS else []), *ranges):
        if not good(value):
            raise UsageError(f"{name} must be {words}, not {quoted(value)}.")


def is_number(value: Any) -> bool:
    """Return whether it is a finite number, and not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_table(value: Any) -> bool:
    """Return whether it is a list of lists of numbers."""
    return isinstance(value, list | tuple) and all(
        isinstance(part, list | tuple) and all(map(is_number, part)) for part in value
    )


def _is_count(value: Any) -> bool:
    """Return whether it is a whole number of at least 0."""
    return is_number(value) and isinstance(value, int) and value >= 0


KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (_is_count, "a whole number of at least 0"),
    int | None: (lambda value: value is None or _is_count(value), "a whole number of at least 0, or none"),
    float: (is_number, "a number"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    bool | None: (lambda value: value is None or isinstance(value, bool), "true, false or none"),
    Sequence[Sequence[float]]: (_is_table, "a list of lists of numbers"),
}


# --- ranges, for annotations ---


class Range(NamedTuple):
    """What a value of the right kind must be."""

    good: Callable[[Any], bool]
    words: str


def at_least(low: float) -> Range:
    """Allow values from `low` on; none, where the kind allows it, is in every range."""
    return Range(lambda value: value is None or value >= low, f"at least {low}")


def one_of(*names: str) -> Range:
    """Allow one of these words."""
    return Range(lambda value: value in names, " or ".join(names))


def _is_span(value: Any) -> bool:
    """Return whether it is a pair of shares in ascending order."""
    return isinstance(value, list | tuple) and len(value) == 2 and _is_table([value]) and 0 <= value[0] <= value[1] <= 1


Share = Annotated[float, Range(lambda value: 0 <= value <= 1, "at least 0 and at most 1")]
ShareBelowOne = Annotated[float, Range(lambda value: 0 <= value < 1, "at least 0 and below 1")]
ShareAboveZero = Annotated[float, Range(lambda value: 0 < value <= 1, "above 0 and at most 1")]
Positive = Annotated[float, Range(lambda value: value > 0, "above 0")]
NotNegative = Annotated[float, at_least(0)]
Count = Annotated[int, at_least(1)]
Span = Annotated[Sequence[float], Range(_is_span, "two shares from 0 to 1 in ascending order")]
