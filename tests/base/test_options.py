"""Options by name: of the kind, and in the range, that a signature says."""

from typing import Annotated

import pytest
from torch import nn

from pidual.errors import UsageError
from pidual.learn.batch import Spec
from pidual.learn.methods import METHODS, PiDual, PiDualPlus
from pidual.learn.nets import MLP
from pidual.options import (
    Count,
    NotNegative,
    Positive,
    Share,
    ShareAboveZero,
    ShareBelowOne,
    Span,
    at_least,
    check_options,
    check_value,
    defaults,
    is_option,
    one_of,
    signature,
)

SPEC = Spec(20, 3, (4,), 1, epochs=4)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("elr", {"beta": 5}, "beta must be at least 0 and at most 1, not 5."),
        ("elr", {"lam": -3}, "lam must be at least 0, not -3."),
        ("elr", {"beta": "high"}, "beta must be a number, not 'high'."),
        ("sop", {"lr_u": -1}, "lr_u must be at least 0, not -1."),
        ("sop_plus", {"lr_v": -1.0}, "lr_v must be at least 0, not -1.0."),
        ("cores", {"beta": -2}, "beta must be at least 0, not -2."),
        ("cores", {"ramp": (0.9, 0.1)}, "ramp must be two shares from 0 to 1 in ascending order, not (0.9, 0.1)."),
        ("cores", {"ramp": 0.5}, "ramp must be two shares from 0 to 1 in ascending order, not 0.5."),
        ("cores_star", {"sieve_from": 1.5}, "sieve_from must be at least 0 and at most 1, not 1.5."),
        ("pes", {"t1": 0}, "t1 must be above 0 and at most 1, not 0."),
        ("het", {"tau": 0.0}, "tau must be above 0, not 0.0."),
        ("het_xl", {"tau_min": 2.0, "tau_max": 1.0}, "tau_max must be above tau_min, 2, not 1."),
        ("het", {"rank": 1.5}, "rank must be a whole number of at least 0, or none, not 1.5."),
        ("tram", {"width": 0}, "width must be at least 1, not 0."),
        ("pi_dual", {"random_pi": -1}, "random_pi must be a whole number of at least 0, not -1."),
        ("pi_dual_plus", {"depth": 1}, "depth must be at least 2, not 1."),
        ("pi_dual_plus", {"strong_policy": "UDA"}, "strong_policy must be autoaugment or uda, not 'UDA'."),
        ("latent_truth", {"folds": 0}, "folds must be from 1 to 100, not 0."),
    ],
)
def test_a_method_refuses_values_out_of_range_with_one_sentence(method, options, words):
    with pytest.raises(UsageError) as error:
        METHODS[method](MLP(2, 3, width=4), SPEC, **options)
    assert str(error.value) == words


@pytest.mark.parametrize("method", METHODS)
def test_defaults_are_in_their_own_range(method):
    check_options(f"method '{method}'", METHODS[method], defaults(METHODS[method]))


@pytest.mark.parametrize("method", METHODS)
def test_every_number_of_a_method_has_a_range(method):
    free = {"gate_bias", "base_skill", "random_pi"}  # any number; from 0 on, as every whole number
    numbers = {n: p.annotation for n, p in signature(METHODS[method]).items() if is_option(p) and n not in free}
    assert [name for name, kind in numbers.items() if kind in (int, float)] == []


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Share, (0, 0.5, 1), (-0.1, 1.1)),
        (ShareBelowOne, (0, 0.9), (1, -1)),
        (ShareAboveZero, (0.1, 1), (0, 2)),
        (Positive, (1e-9, 7), (0, -1)),
        (NotNegative, (0, 7), (-1e-9,)),
        (Count, (1, 7), (0, -1, 1.5, True)),
        (Span, ((0, 1), [0.5, 0.5]), ((1, 0), (0.1,), (0, 2), "ab", 3)),
        (Annotated[int | None, at_least(2)], (None, 2), (1, "2")),
        (Annotated[str, one_of("a", "b")], ("a", "b"), ("c", 1)),
    ],
)
def test_ranges(kind, good, bad):
    for value in good:
        check_value("it", value, kind)
    for value in bad:
        with pytest.raises(UsageError, match="it must be"):
            check_value("it", value, kind)


def test_a_class_takes_the_options_of_all_classes_it_hands_them_on_to():
    class Both(PiDualPlus):
        def __init__(self, f, spec, *, extra: Share = 0.5, **options):
            super().__init__(f, spec, **options)

    assert set(signature(Both)) == {"f", "spec", "extra", *signature(PiDualPlus)}
    assert set(signature(PiDualPlus)) > set(signature(PiDual)) > {"f", "spec", "width"}
    with pytest.raises(UsageError, match="width must be at least 1"):
        Both(MLP(2, 3, width=4), SPEC, width=0)


def test_arguments_by_name_and_unknown_options():
    assert METHODS["ce"](f=nn.Linear(2, 3), spec=SPEC).epoch == 0
    with pytest.raises(TypeError, match="unexpected keyword argument 'betta'"):
        METHODS["elr"](nn.Linear(2, 3), SPEC, betta=0.5)
