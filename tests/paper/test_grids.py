import pytest

from pidual.errors import UsageError
from pidual.learn.methods import METHODS
from pidual.options import Training, check_options, option_names
from pidual.paper.published import GRID_NAMES, paper_grid, points


@pytest.mark.parametrize("name", GRID_NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_grid_of_options_it_takes(method, name):
    grid = paper_grid(method, name)
    assert {"lr", "weight_decay"} <= set(grid)
    assert all(len(values) == len(set(values)) > 0 for values in grid.values())
    for point in points(grid):
        training = {option: value for option, value in point.items() if option in option_names()}
        assert set(training) == {"lr", "weight_decay"}
        Training(**training)
        own = {option: value for option, value in point.items() if option not in training}
        check_options(f"method '{method}'", METHODS[method], own)


@pytest.mark.parametrize(
    ("method", "name", "size"),
    [
        ("ce", "paper", 2 * 2),
        ("ce", "imagenet_pi", 2),
        ("elr", "paper", 4 * 3 * 3),
        ("sop", "cifar10n", 4 * 3 * 4),
        ("het", "paper", 4 * 9),
        ("tram_plus_plus", "paper", 4 * 4 * 3 * 2),
        ("tram_plus_plus", "imagenet_pi", 2),
        ("pi_dual", "paper", 4 * 4),
        ("pi_dual", "imagenet_pi", 2),
        ("pi_dual_plus", "paper", 2 * 2 * 2),
    ],
)
def test_grids_have_the_size_of_the_papers(method, name, size):
    assert len(points(paper_grid(method, name))) == size


def test_unknown_names():
    with pytest.raises(UsageError, match="no grid 'svhn'; use one of paper, cifar10h"):
        paper_grid("ce", "svhn")
    with pytest.raises(UsageError, match="method 'cee'"):
        paper_grid("cee")
