"""The paper's tables as they are printed."""

import pytest

from pidual.learn.methods import METHODS
from pidual.paper import published as paper_numbers
from pidual.paper.published import CIFAR, COLUMNS, PAPER_DATASETS, VARIANTS, paper_number


@pytest.mark.parametrize(
    ("dataset", "method", "column", "number"),
    [
        ("cifar10h", "pi_dual", "selected_accuracy", (71.3, 3.3)),
        ("cifar10h", "ce", "last_accuracy", (42.4, 0.2)),
        ("cifar10n", "elr", "selected_accuracy", (86.6, 0.7)),
        ("cifar10n:worst", "sop", "last_accuracy", (86.0, 0.3)),
        ("cifar100n:fine", "pi_dual_plus", "selected_accuracy", (67.99, 0.08)),
        ("imagenet_pi:low", "afm", "selected_accuracy", (70.3, 0.0)),
        ("imagenet_pi:high", "pi_dual", "selected_accuracy", (62.1, 0.1)),
        ("imagenet_pi:high", "pi_dual", "last_auc", (0.987, None)),
        ("cifar10h", "pi_dual", "selected_gate_auc", (0.982, None)),
        ("cifar10n", "tram_plus_plus", "last_auc", (0.946, None)),
        ("cifar10h", "corrupted PI 75%", "selected_accuracy", (52.6, 4.0)),
        ("cifar100n", "eps(x, a)", "selected_accuracy", (43.6, 14.4)),
        ("cifar10h", "ce, resnet34", "selected_accuracy", (51.4, 2.1)),
        ("cifar10n", "width 4096", "selected_accuracy", (85.3, 0.2)),
    ],
)
def test_numbers_of_the_paper(dataset, method, column, number):
    assert paper_number(dataset, method, column) == number


def test_every_row_has_a_number_or_none_for_every_dataset():
    for name, table in COLUMNS.items():
        assert set(table) <= set(METHODS)
        for row in table.values():
            assert len(row) in (len(PAPER_DATASETS), len(CIFAR))
            limit = 1 if name.endswith("auc") else 100
            assert all(0 < number[0] < limit for number in row if number)
    assert {len(row) for row in paper_numbers.PAPER_ABLATIONS.values()} == {len(PAPER_DATASETS)}
    assert all(len(row) == len(CIFAR) for name, row in VARIANTS.items() if name not in paper_numbers.PAPER_ABLATIONS)


def test_what_the_tables_say_of_one_thing_agrees():
    for table, name in (
        (paper_numbers.DEPTH, "depth 3"),
        (paper_numbers.LEAVE_OUT, "all PI"),
        (paper_numbers.BACKBONE, "pi_dual, wrn_28_10"),
        (paper_numbers.NOISE_INPUT, "eps(a)"),
        (paper_numbers.TRAM_LOSS, "Pi-DUAL"),
    ):
        assert table[name] == paper_numbers.SELECTED_ACCURACY["pi_dual"][:3]
    assert paper_numbers.CORRUPTED_PI["corrupted PI 0%"][0] == paper_numbers.SELECTED_ACCURACY["pi_dual"][0]
