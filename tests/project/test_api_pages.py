"""Every public name has a page, in the menu, and an example in its docstring that prints what it shows."""

import doctest
import importlib.util
import inspect
import re
from functools import cached_property
from pathlib import Path
from unittest import mock

import pytest

import pidual
from pidual.learn.methods import METHODS

pytestmark = [pytest.mark.runs_first, pytest.mark.shapes_unchecked]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SECTIONS = ["Parameters", "Attributes", "Returns", "Raises", "See Also", "Notes", "References", "Examples"]


def load(name):
    found = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


generate = load("generate")
NAMES = [name for names in generate.API.values() for name in names]


def docstrings(name):
    """The docstring of a name and, of a class, those of its own methods; each with what it is of."""
    yield name, generate.docstring_of(name)
    thing = generate.object_of(name)
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            text = inspect.getdoc(getattr(value, "__func__", value)) if callable(getattr(thing, member)) else None
            if text and not member.startswith("_"):
                yield f"{name}.{member}", text


def examples(name):
    """The examples of a name: what it is of, and a doctest."""
    for of, text in docstrings(name):
        found = doctest.DocTestParser().get_doctest(text, {}, of, str(generate.source_of(name)), 0)
        if found.examples:
            yield of, found


def test_every_public_name_has_its_place():
    way_out = "give it a group in API of docs/generate.py and a line in the menu (mkdocs.yml), then run `make docs`"
    assert sorted(NAMES) == sorted({*pidual.__all__, *generate.BESIDE}), way_out
    assert set(generate.BESIDE) & set(pidual.__all__) == set()


def test_the_menu_has_the_groups_of_the_overview():
    menu = (ROOT / "mkdocs.yml").read_text().partition("- Overview: api.md\n")[2].partition("- Command line:")[0]
    groups = re.findall(r"^ {10}- (.+):\n((?: {14}- .+\n)+)", menu, re.MULTILINE)
    found = {group: re.findall(r"- (\w+): api/\1\.md\n", pages) for group, pages in groups}
    assert found == generate.API


def test_there_is_no_page_of_a_name_that_is_gone():
    assert sorted(path.stem for path in (DOCS / "api").glob("*.md")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_an_example_that_uses_it(name):
    code = [one.source for of, found in examples(name) if of == name for one in found.examples]
    assert 2 <= len(code) <= 10
    words = {
        name,
        name.lower(),
        *(["judged"] if name.endswith("Judgement") else []),
        *(["data"] if "Data" in name else []),
    }
    assert words & set(re.findall(r"\w+", "".join(code)))


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_name_print_what_they_show(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with mock.patch.dict(METHODS):
        for _, found in examples(name):
            said = []
            doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=said.append)
            assert said == [], "".join(said)


@pytest.mark.parametrize("name", NAMES)
def test_the_sections_of_a_docstring_are_in_their_order(name):
    for of, text in docstrings(name):
        heads = re.findall(r"^(\w[\w ]*)\n-{3,}$", text, re.MULTILINE)
        assert heads == [head for head in SECTIONS if head in heads], of


@pytest.mark.parametrize("name", [name for name in NAMES if name != "METHODS"])
def test_every_parameter_is_described_and_no_other(name):
    thing = generate.object_of(name)
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return
    described = {one.strip("*") for one in generate.parameters(thing.__doc__)}
    bases = [pidual.CrowdClassifier, *thing.__mro__] if inspect.isclass(thing) else []
    elsewhere = {one.strip("*") for base in bases for one in generate.parameters(base.__doc__ or "")}
    of = thing.__init__ if inspect.isclass(thing) else thing
    asked = set(inspect.signature(of).parameters) - {"self", "args", "kwargs"}
    assert asked - described <= elsewhere
    assert described - asked <= {"second", "options"}  # of methods: `Method(f, spec, second=None, *, option=default)`


@pytest.mark.parametrize("name", NAMES)
def test_a_list_of_attributes_has_every_property(name):
    """The page has this list in place of one that is made of the properties."""
    thing, text = generate.object_of(name), generate.docstring_of(name)
    if "Attributes\n----" in text:
        own = [base for base in thing.__mro__ if base.__module__.startswith("pidual")]
        of = {one for base in own for one, value in vars(base).items() if isinstance(value, property | cached_property)}
        hidden = set(generate.INTERNAL.get(name, "").split("|"))
        public = {one for one in of - hidden if not one.startswith("_")}
        assert public - set(re.findall(r"\w+", text.partition("Attributes\n----")[2])) == set()


@pytest.mark.parametrize("name", NAMES)
def test_what_a_docstring_says_to_see_exists(name):
    seen = re.search(r"^See Also\n-+\n((?:.+\n?)+)", generate.docstring_of(name), re.MULTILINE)
    for other in re.findall(r"^(\w+) : \S", seen[1], re.MULTILINE) if seen else []:
        assert other in NAMES
        assert other != name


def test_docstrings_link_to_other_pages_but_not_to_their_own():
    pytest.importorskip("griffe")
    given = "`Run.judge` or `judge` in `Totals`, see docs/people.md.\n\nSee Also\n--------\njudge : Makes it.\n"
    made = load("api_site").linked(given, "Totals")
    assert made == (
        "[`Run.judge`][pidual.Run] or `judge` in `Totals`, see [docs/people.md](../../people/).\n\n"
        "See Also\n--------\n- [`judge`][pidual.judge]: Makes it.\n"
    )
