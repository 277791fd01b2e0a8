"""One thread for small networks, unless somebody has chosen otherwise."""

import os

import pytest

from pidual.learn.batch import Spec
from pidual.learn.engine.session import CHOSEN_OUTSIDE, SMALL, choose_threads, threads_on_resume, using_threads
from pidual.learn.methods import METHODS
from pidual.learn.nets import build_network


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch):
    """Nobody has chosen a number of threads; torch has three of four cores."""
    for name in CHOSEN_OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    with using_threads(3):
        yield


def a_method(name="ce", network="mlp", in_shape=(100,), cardinalities=(8,), **options):
    f = build_network(network, in_shape=in_shape, n_classes=10, width=200)
    return METHODS[name](f, Spec(1000, 10, cardinalities, 1, 5), **options)


def test_a_step_of_few_multiplications_takes_one_thread():
    f = a_method()
    weights = sum(p.numel() for p in f.parameters() if p.ndim == 2)
    batch_size = int(SMALL // weights)
    assert choose_threads(f, batch_size) == 1
    assert choose_threads(f, batch_size + 1) == 3


def test_convolutions_take_all_threads():
    assert choose_threads(a_method(network="small_cnn", in_shape=(3, 8, 8)), 1) == 3


@pytest.mark.parametrize("name", CHOSEN_OUTSIDE)
def test_what_the_environment_says_stays(name, monkeypatch):
    monkeypatch.setenv(name, "1")
    assert choose_threads(a_method(), 16) == 3


def test_what_is_asked_for_is_done():
    assert choose_threads(a_method(), 16, asked=4) == 4
    assert choose_threads(a_method(network="small_cnn", in_shape=(3, 8, 8)), 64, asked=1) == 1


def test_a_fit_goes_on_with_its_threads_where_there_are_cores_for_them(monkeypatch):
    assert threads_on_resume(4, 1) == 4
    assert threads_on_resume(64, 1) == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert threads_on_resume(4, 1) == 1
