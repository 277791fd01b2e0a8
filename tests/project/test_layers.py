"""Modules import from layers above their own only (see CONTRIBUTING)."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pidual"
LAYERS = [
    {"errors"},
    {"files", "options"},
    {"data"},
    {"encode", "predictions", "metrics"},
    {"batch", "nets", "datasets", "run.files"},
    {"learn"},
    {"methods"},
    {"engine"},
    {"detect"},
    {"report", "review"},
    {"run"},
    {"export"},
    {"estimator"},
    {"paper"},
    {"sweep"},
    {"cli"},
    {"__init__", "__main__"},
]
SIDEWAYS = {}
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))


def named(parts):
    """A module or package at the root of pidual, or one of those in paper that have a layer of their own."""
    whole = ".".join(parts[:2])
    return whole if whole in RANK else parts[0]


def part_of(path):
    return named([*path.relative_to(SOURCE).with_suffix("").parts])


def imports(path):
    """Parts of pidual that a file imports, wherever in the file it does so."""
    package = path.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            names = (
                [node.module] if node.module else [alias.name for alias in node.names if alias.name != "__version__"]
            )
            for name in names:
                yield named([*base, *name.split(".")])
        else:
            whole = [node.module] if isinstance(node, ast.ImportFrom) else []
            whole += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            yield from (named(name.split(".")[1:]) for name in whole if name and name.startswith("pidual."))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_come_from_above(path):
    part = part_of(path)
    for other in imports(path):
        if other != part:
            assert RANK[other] < RANK[part], f"{part} imports {other}, which is not in a layer above it"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_engine_and_its_callers_know_fabric(path):
    if "lightning_fabric" in path.read_text():
        assert part_of(path) in {"engine", "run"}
