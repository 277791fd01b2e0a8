"""The lowest versions that pyproject.toml allows are those that `make test-lowest` runs with."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
RUN = ["dev", "hf", "onnx", "review", "sweep"]  # extras whose lowest versions are run
NOT_RUN = {"mypy", "pandas-stubs", "pre-commit", "pytest-cov", "ruff"}  # no test needs them


def test_every_lower_bound_is_run():
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    lowest = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [
        Requirement(text) for text in [*project["dependencies"], *(line for extra in RUN for line in extras[extra])]
    ]
    for requirement in (each for each in named if each.name not in NOT_RUN):
        (bound,) = requirement.specifier
        assert bound.operator == ">="
        assert Version(bound.version) == Version(lowest[requirement.name]), requirement
