"""Options given by name, checked against the signature of what takes them."""

import inspect
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from .errors import UsageError
from .messages import quoted


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
        Arguments that are no options.
    """
    parameters = {name: p for name, p in signature(function).items() if is_option(p) and name not in taken}
    for name, value in options.items():
        if name not in parameters:
            raise UsageError(f"The {what} has no option {quoted(name)}; it takes {', '.join(parameters) or 'none'}.")
        check_value(f"The option {name} of the {what}", value, parameters[name].annotation)


def signature(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Parameters by name; a class that hands on **options to its parent also takes the parent's."""
    parameters = dict(inspect.signature(function).parameters)
    passed_on = [name for name, p in parameters.items() if p.kind is p.VAR_KEYWORD]
    if passed_on and isinstance(function, type):
        del parameters[passed_on[0]]
        parameters |= {n: p for n, p in signature(function.__mro__[1]).items() if n not in parameters}
    return parameters


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Options by name with their default values."""
    return {name: p.default for name, p in signature(function).items() if is_option(p) and p.default is not p.empty}


def is_option(parameter: inspect.Parameter) -> bool:
    """Whether an argument is taken by keyword alone."""
    return parameter.kind is parameter.KEYWORD_ONLY


def check_value(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not of this kind; kinds other than those of KINDS are not checked."""
    good, words = KINDS.get(kind, (lambda value: True, ""))
    if not good(value):
        raise UsageError(f"{name} must be {words}, not {quoted(value)}.")


def is_number(value: Any) -> bool:
    """Whether it is a finite number, and not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_table(value: Any) -> bool:
    """Whether it is a list of lists of numbers."""
    return isinstance(value, list | tuple) and all(
        isinstance(part, list | tuple) and all(map(is_number, part)) for part in value
    )


KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (lambda value: is_number(value) and isinstance(value, int) and value >= 0, "a whole number of at least 0"),
    float: (is_number, "a number"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    bool | None: (lambda value: value is None or isinstance(value, bool), "true, false or none"),
    Sequence[Sequence[float]]: (is_table, "a list of lists of numbers"),
}
