"""Each room stands at one rank, and imports only from rooms before it, in functions and by string too."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "pidual"
ROOMS = ("data", "run", "detect", "learn", "fit", "show", "api", "paper", "cli")
RANK = {name: rank for rank, name in enumerate(ROOMS, start=1)} | {"errors": 0, "files": 0, "options": 0, "metrics": 0}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in RANK)


def room_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def is_module(parts):
    """Whether a dotted name, or all of it but its last part, is a module in a room."""
    place = SOURCE.joinpath(*parts)
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def rooms_imported(path):
    """Rooms that a file imports, wherever and however in the file it does so."""
    package = path.relative_to(SOURCE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            yield from [base[0]] if base[0] else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (name.split(".")[1] for name in names if name and name.startswith("pidual."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = node.value.partition(":")[0].removeprefix("pidual.").split(".")
            if len(parts) > 1 and parts[0] in RANK and all(map(str.isidentifier, parts)) and is_module(parts):
                yield parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_come_from_rooms_before(path):
    room = room_of(path)
    for other in rooms_imported(path):
        if other != room and other in RANK:
            assert RANK[other] < RANK[room] or not RANK[room] + RANK[other], f"{room} imports {other}"


def test_every_folder_is_a_room():
    found = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if not path.name.startswith("__")}
    assert found == {*RANK, "py.typed"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_the_engine_and_its_callers_know_fabric(path):
    if "lightning_fabric" in path.read_text():
        assert path.relative_to(SOURCE).parts[:2] == ("learn", "engine") or room_of(path) == "fit"
