"""What a release says of itself: one version, and a changelog whose names exist."""

import re
import runpy
import tomllib
from pathlib import Path

import pidual

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()


def test_the_version_is_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "pidual.__version__"}
    written = [path for path in (ROOT / "src").rglob("*.py") if f'"{pidual.__version__}"' in path.read_text()]
    assert written == [ROOT / "src" / "pidual" / "__init__.py"]


def test_citation_and_changelog_are_of_this_version():
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == pidual.__version__
    assert re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)[:2] == ["Unreleased", pidual.__version__]


def test_the_wheel_has_every_file_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    package = ROOT / "src" / "pidual"
    patterns = project["tool"]["setuptools"]["package-data"]["pidual"]
    packed = [path for pattern in patterns for path in package.glob(pattern)]
    other = [path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert sorted(packed) == sorted(other)
    assert len(packed) > 10
    modules = [path for path in package.rglob("*.py") if not (path.parent / "__init__.py").is_file()]
    assert modules == []  # folders without it are no packages to setuptools


def test_every_python_that_is_promised_is_run():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = re.findall(r"Python :: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)
    assert re.search(r"^MATRIX := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split() == promised
    assert project["requires-python"] == f">={promised[0]}"


def test_all_is_every_extra_that_works_with_any_torch():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["all"] == ["pidual[hf,onnx,review,sweep,text]"]
    left_out = {"label-studio", "vision"}  # the first brings OpenCV and NLTK along
    assert set(extras) - left_out - {"all", "peers", "dev", "docs"} == {"hf", "onnx", "review", "sweep", "text"}


def test_with_an_address_the_readme_works_on_an_index(tmp_path):
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    runpy.run_path(str(ROOT / "docs" / "address.py"))["readdress"](tmp_path, "https://example.org/us/pidual/")
    links = re.findall(r"\]\(([^)]+)\)", (tmp_path / "README.md").read_text())
    assert {link.partition("/")[0] for link in links if not link.startswith("#")} == {"https:"}
    for kind, picture in (("raw", True), ("blob", False)):
        paths = [link.partition(f"/us/pidual/{kind}/main/")[2].partition("#")[0] for link in links]
        found = [path for path in paths if path]
        assert found
        assert all((ROOT / path).exists() and (path.endswith((".png", ".svg")) == picture) for path in found)
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Source"] == "https://example.org/us/pidual"
    assert list(urls) == ["Source", "Documentation", "Issues", "Paper"]
