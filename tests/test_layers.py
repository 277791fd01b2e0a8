"""Modules import from layers above their own only (see CONTRIBUTING)."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pidual"
LAYERS = [
    {"allocator", "errors", "files", "paper_numbers", "text"},
    {"options", "grids", "schemas", "people", "processes", "training"},
    {"readers", "table", "inputs", "encode", "giveaway", "predictions", "metrics", "random_pi"},
    {"batch", "nets", "augment", "datasets", "run.files"},
    {"populations"},
    {"methods"},
    {"engine"},
    {"detect"},
    {"report", "review"},
    {"settings", "recipes", "plots"},
    {"run"},
    {"benchmark"},
    {"estimator"},
    {"demo"},
    {"analyses", "sweep", "theory"},
    {"cli"},
    {"__init__", "__main__"},
]
SIDEWAYS = {
    ("table", "readers"),
    ("inputs", "readers"),
    ("inputs", "table"),
    ("encode", "table"),
    ("giveaway", "encode"),
    ("giveaway", "table"),
    ("predictions", "table"),
    ("datasets", "nets"),  # the annotators of CIFAR-10-PI
}
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))


def part_of(path):
    return ranked(*(name.removesuffix(".py") for name in path.relative_to(SOURCE).parts))


def ranked(first, *rest):
    """The part that a module is of; one that has a layer of its own is named with its package."""
    return f"{first}.{rest[0]}" if rest and f"{first}.{rest[0]}" in RANK else first


def imports(path):
    """Parts of pidual that a file imports, wherever in the file it does so."""
    package = path.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            for name in names:
                yield ranked(*base, *name.split("."))
        else:
            named = [node.module] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            yield from (ranked(*name.split(".")[1:]) for name in named if name and name.startswith("pidual."))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_come_from_above(path):
    part = part_of(path)
    for other in imports(path):
        if other != part and (part, other) not in SIDEWAYS:
            assert RANK[other] < RANK[part], f"{part} imports {other}, which is not in a layer above it"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_engine_and_its_callers_know_fabric(path):
    if "lightning_fabric" in path.read_text():
        assert part_of(path) in {"engine", "run"}
