"""The docs: every page has its place, every link an end, every method and option its words."""

import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from command_line import environment, run_cli

from pidual.api.run import Run
from pidual.learn.methods import METHODS
from pidual.options import signature
from pidual.run.decisions import Store

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = {path: path.read_text() for path in [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]}
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")
FOR = ["What to type", "What to look at in the report", "What goes wrong, and how you notice", "Where the numbers are"]
TEMPLATE = ["Idea", "When it helps", "Parameters", "Details", "Scores", "Result", "Source"]


def load(name):
    """A script of docs/ as a module."""
    found = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


generate, hook, notebooks = load("generate"), load("markdown_hook"), load("notebook_hook")
TEXTS |= {path: notebooks.as_markdown(path) for path in DOCS.glob("*.ipynb")}


# --- methods ---


def part_of(name):
    """The page of a method, or its section of the page of the method it extends, as a page; and the whole page."""
    file, _, anchor = generate.page_of(name).partition("#")
    page = (DOCS / "methods" / file).read_text()
    own, *others = re.split(r"^(?=## \w+_\w+$)", page, flags=re.MULTILINE)
    if not anchor:
        return own, page
    (own,) = (part for part in others if part.startswith(f"## {anchor}\n"))
    return re.sub(r"^#(#+ )", r"\1", own, flags=re.MULTILINE), page


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_described_with_its_options_and_scores(name):
    part, page = part_of(name)
    assert re.match(rf"# {name}\b", part)
    own = METHODS[name].__init__.__kwdefaults__ or {}
    assert [option for option in own if f"`{option}" not in page] == []
    assert [score for score in METHODS[name].scores[1:] if f"`{score}`" not in page] == []
    assert METHODS[name].reference.split("arXiv ")[-1] in page


@pytest.mark.parametrize("name", METHODS)
def test_every_description_of_a_method_has_the_same_parts(name):
    part, page = part_of(name)
    heads = re.findall(r"^## (.*)$", part, re.MULTILINE)
    assert heads == [head for head in TEMPLATE if head in heads]
    extends = part not in page
    assert set(TEMPLATE) - set(heads) <= {"Details"} | ({"Idea", "Scores", "Source"} if extends else set())
    parts = dict(zip(["", *heads], re.split(r"^## .*$", part, flags=re.MULTILINE), strict=True))
    assert "```math" in parts.get("Idea", parts[""]), "the idea has its equation"
    assert f"<!-- result {name} -->\n|" in parts["Result"] or parts["Result"].strip() == "Not measured yet."


def test_a_subclass_takes_the_options_of_its_parent():
    assert {"smoothing", "width", "random_pi"} <= set(signature(METHODS["pi_dual_plus"]))
    assert "options" not in signature(METHODS["pi_dual_plus"])


# --- pages for who has what ---


@pytest.mark.parametrize("path", sorted((DOCS / "for").glob("*.md")), ids=lambda path: path.stem)
def test_every_page_for_somebody_has_the_same_parts(path):
    title, for_whom, *_ = path.read_text().split("\n\n")
    assert title.startswith("# ")
    assert re.fullmatch(r"For you if [^.]+\.", for_whom), "one sentence"
    heads = re.findall(r"^## (.*)$", path.read_text(), re.MULTILINE)
    assert [head for head in heads if head in FOR] == FOR
    assert heads[0] == FOR[0]


# --- pages that are written from the code ---


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with the pages, written by another process: click keeps what `--help` was first asked with."""
    folder = tmp_path_factory.mktemp("docs")
    subprocess.run([sys.executable, DOCS / "generate.py", folder], env=environment(), check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", generate.PAGES)
def test_a_page_that_is_written_from_the_code_is_what_the_code_says(written, name):
    assert (written / name).read_text() == (DOCS / name).read_text(), f"docs/{name} is stale: run `make docs`"


def test_the_page_of_files_has_every_field_of_a_run(crowd_files):
    """Those of the Parquet files it reads from the code; these are written by hand."""
    out = crowd_files / "run"
    fit = ["fit", crowd_files / "labels.csv", "--x", crowd_files / "x.npy", "--method", "pi_dual", "--epochs", "2"]
    assert run_cli([*fit, "--pi", "annotator,seconds", "--valid-fraction", "0.2", "--out", out, "--quiet"])[0] == 0
    fields = {name: set(listed) for name, (_, listed) in generate.OTHER_FILES.items()}
    for name in ("summary.json", "config.json"):
        assert set(json.loads((out / name).read_text())) <= fields[name], name
    logged = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    assert set(logged) >= fields["metrics.jsonl"] - {"stage"}  # of a fit of several stages; a method may log more
    Store(Run.open(out)).close()
    with closing(sqlite3.connect(out / "reviews.sqlite")) as reviews:
        assert {row[1] for row in reviews.execute("PRAGMA table_info(decisions)")} == fields["reviews.sqlite"]


def test_every_option_says_what_it_means():
    assert [line for line in generate.options().splitlines() if line.endswith("|  |")] == []
    for method in METHODS.values():
        assert [name for name, *_, meaning in generate.option_rows(method) if not meaning] == []


# --- the site ---


def nav():
    """The pages that the menu of the site has."""
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    return re.findall(r"(\S+\.md)$", menu, re.MULTILINE)


def test_every_page_is_in_the_menu_once_and_exists():
    there = {path.relative_to(DOCS).as_posix() for path in PAGES} | {f"{path.stem}.md" for path in DOCS.glob("*.ipynb")}
    assert sorted(nav()) == sorted(there | {name for name in hook.mounted() if name.endswith(".md")})


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_between_pages_leads_somewhere(path):
    text = without_code(TEXTS[path])
    for target, anchor in LINK.findall(text):
        end = (path.parent / target).resolve() if target else path
        assert end.exists(), f"{path.name} links to {target}"
        if path.parent != ROOT and not end.is_relative_to(DOCS):
            assert end.relative_to(ROOT).as_posix() in hook.mounted(), f"{path.name} links to {target}, not on the site"
        if anchor:
            assert anchor in anchors(end), f"{path.name} links to {target}#{anchor}"


def without_code(text):
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(path):
    """The anchors of a page: what code hosts and the site make alike of its headings, and those that it names."""
    text = path.read_text()
    heads = [re.sub(r"[`*]", "", head).strip().lower() for head in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    slugs = {re.sub(r"[^\w\- ]", "", head) for head in heads}
    return {slug.replace(" ", "-") for slug in slugs if "  " not in slug} | set(re.findall(r'<a id="(\S+)">', text))


def test_a_link_that_leads_nowhere_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A *heading*, of `words`\n[one](other.md#there) and `[no](link.md)`\n")
    assert anchors(page) == {"a-heading-of-words"}
    assert LINK.findall(without_code(page.read_text())) == [("other.md", "there")]


def test_lists_and_tables_need_no_empty_line_before_them():
    given = "text:\n- one\n  more\n- two\n\n| a |\n|---|\n<!-- end -->\n```\n- code\n```\n1. first"
    made = "text:\n\n- one\n  more\n- two\n\n| a |\n|---|\n\n<!-- end -->\n\n```\n- code\n```\n\n1. first\n"
    assert hook.spaced(given) == made
    assert hook.spaced(made) == made


def test_names_in_tables_may_break_at_their_joints():
    made = hook.on_page_content('<td><code>a_b.c(<a id="x_y">d</a>)</code> b_c</td><p><code>a_b</code></p>')
    assert made == '<td><code>a_<wbr>b.<wbr>c(<a id="x_y">d</a>)</code> b_c</td><p><code>a_b</code></p>'


def test_links_out_of_docs_end_on_the_site():
    linked = hook.relinked("[a](../CONTRIBUTING.md) [b](../../examples/x.py) [c](../people.md)", "page.md")
    assert linked == "[a](CONTRIBUTING.md) [b](../examples/x.py) [c](../people.md)"
    assert hook.relinked("[a](docs/people.md)", "CONTRIBUTING.md") == "[a](people.md)"


def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    if not (ROOT / "build" / "katex").is_dir():
        pytest.skip("no KaTeX in build/katex; `make docs` puts it there")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "start_csv" / "index.html").is_file()
    page = (tmp_path / "api" / "Run" / "index.html").read_text()
    assert '<a href="#source">Source</a>: <code>src/pidual/api/run.py</code>' in page
    assert page.count('id="source" data-search-exclude') == 1
    assert "<wbr>" not in page.partition('id="source"')[2].partition("</details>")[0]
    assert page.index('id="pidual.Run"') < page.index("Parameters:") < page.index("Examples:") < page.index("Methods:")
    assert "def next_gold(" not in (tmp_path / "search" / "search_index.json").read_text()
