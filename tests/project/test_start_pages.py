"""The Start pages: each is one script of examples/, and shows what that prints."""

import codeop
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import environment

pytestmark = pytest.mark.shapes_unchecked

ROOT = Path(__file__).parents[2]
FOUND = importlib.util.spec_from_file_location("start_pages", ROOT / "docs" / "start_pages.py")
start_pages = importlib.util.module_from_spec(FOUND)
FOUND.loader.exec_module(start_pages)

PSEUDONYM = re.compile(r"\ba-[0-9a-f]{12}")  # a script that runs by itself has a key of its own
KERNEL = re.compile(r"mostly by [a-z ]+\.")
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")


def page(name):
    return (ROOT / "docs" / f"{name}.md").read_text()


def lasting(text):
    """A page without what another key changes, and without the kernel that rounding chooses among equals."""
    return KERNEL.sub("mostly by ~.", PSEUDONYM.sub("~", text))


def words(text):
    """What lasts of a page, without its numbers."""
    return NUMBER.sub("0", lasting(text)).split()


def numbers(text):
    """What is shown, and what its last digit stands for."""
    found = [number.replace(",", "") for number in NUMBER.findall(lasting(text))]
    return [(float(number), 10.0 ** -len(re.sub(r"e.*", "", number).partition(".")[2])) for number in found]


def whole(made, shown):
    """A pair of lines up to the last field that both show whole: a digit more in a number moves the cut."""
    if not shown.endswith(" ..."):
        return made, shown
    fields = [re.split(r"[, ]", line.removesuffix(" ...")) for line in (made, shown)]
    return tuple(" ".join(line[: min(map(len, fields)) - 1]) for line in fields)


def close(made, shown):
    """Return whether a number is the one shown, as far as processors round alike: a last digit, or two in a hundred."""
    (made, _), (shown, last) = made, shown
    return abs(made - shown) <= max(0.02 * abs(shown), 1.001 * last, 0.02)


@pytest.mark.parametrize("name", start_pages.PAGES)
def test_a_page_shows_what_its_run_prints_and_draws(name, tmp_path, monkeypatch):
    pytest.importorskip("sentence_transformers", reason="without it, fits of texts do not name it")
    monkeypatch.chdir(tmp_path)
    lines = [lasting(text).splitlines() for text in (start_pages.run(page(name)), page(name))]
    for made, shown in (whole(*pair) for pair in zip(*lines, strict=True)):
        assert words(made) == words(shown), "run `make docs`"
        assert [pair for pair in zip(numbers(made), numbers(shown), strict=True) if not close(*pair)] == []
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures | {"report.png", "review.png"} >= set(re.findall(r"figures/(\S+\.png)\)", page(name)))


@pytest.mark.parametrize("name", start_pages.PAGES)
def test_a_page_is_a_script_of_the_examples(name):
    (path,) = (ROOT / "examples").glob(f"{name}.*")
    assert path.read_text() == start_pages.script(page(name)), "run `make docs`"
    assert all(block != ("text", "") for block in start_pages.blocks(page(name)))


@pytest.mark.parametrize("path", ["README.md", *(f"docs/{name}.md" for name in start_pages.PAGES)])
def test_code_can_be_pasted_line_by_line(path):
    """The prompt of Python 3.11 and 3.12 wants an empty line after a loop."""
    for language, code in start_pages.blocks((ROOT / path).read_text()):
        statement: list[str] = []
        for line in f"{code}\n".splitlines() if language == "python" else []:
            statement.append(line)
            if codeop.compile_command("\n".join(statement)) is not None:
                statement = []
        assert statement == []


@pytest.mark.parametrize("name", start_pages.PAGES)
def test_every_command_of_a_page_is_run(name):
    assert re.findall(r"^ +pidual .*$", page(name), re.MULTILINE) == []


def test_pictures_are_small():
    for path in (ROOT / "docs" / "figures").iterdir():
        assert path.stat().st_size < 150_000


def test_another_number_or_word_is_noticed():
    assert words("91 of 360 look wrong") == words("92 of 360 look wrong") != words("91 of 360 look right")
    assert whole("0.43903,cho,delive ...", "0.4390,cho,delivery, ...") == ("0.43903 cho", "0.4390 cho")
    assert whole("0.43903,cho", "0.43903,cho,") == ("0.43903,cho", "0.43903,cho,")
    assert numbers("25.3% of 1,497 by a-0123456789ab") == [(25.3, 0.1), (1497, 1)]
    pairs = [("25.6", "25.3"), ("26.0", "25.3"), ("36", "37"), ("35", "37"), ("2.6", "2.5"), ("2.7", "2.5")]
    assert [close(*numbers(made), *numbers(shown)) for made, shown in pairs] == [True, False, True, False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("start_*")), ids=lambda path: path.name)
def test_a_script_runs_by_itself_and_prints_what_the_page_shows(path, tmp_path):
    command = [{".sh": "bash", ".py": "python"}[path.suffix], str(path)]
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # as where pidual is installed
    env = environment(PATH=commands)
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    printed = start_pages.shown(done.stdout)
    shown = "".join(code for language, code in start_pages.blocks(page(path.stem)) if language == "text")
    assert set(words(printed)) <= set(words(shown))
