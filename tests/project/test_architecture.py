"""docs/architecture.md names rooms and files that exist, and every name at the root of the package."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
SOURCE = ROOT / "src" / "pidual"


def test_every_file_it_names_exists():
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", PAGE)
    assert len(named) > 20
    assert [name for name in named if not (SOURCE / name).exists() and not (ROOT / name).exists()] == []


def test_every_name_at_the_root_is_on_it():
    names = [path.name for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    words = set(re.findall(r"\w+", PAGE))
    assert [name for name in names if name[:2] != "__" and name.removesuffix(".py") not in words] == []
    assert len(names) <= 24


def test_the_walk_enters_no_file_twice():
    walk = PAGE.split("## One annotation")[1].split("`CrowdClassifier.fit` and")[0]
    named = re.findall(r"`((?:\w+/)*\w+\.py)`", walk)
    assert sorted(set(named)) == sorted(named)
