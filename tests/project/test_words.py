"""Plain English: the phrases that STYLE.md lists do not occur in what a user reads."""

import ast
import re
from pathlib import Path

import click
import pytest

from pidual.cli import cli

ROOT = Path(__file__).parents[2]
STYLE = ROOT / "STYLE.md"


def banned():
    """Phrases of the left column of the table, each with what to write instead."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", STYLE.read_text(), re.MULTILINE)
    found = {phrase.strip(): write for phrases, write in rows[1:] for phrase in phrases.split(",")}
    assert len(found) > 50
    return found


BANNED = banned()
PATTERN = re.compile(
    rf"(?<!there )\b({'|'.join(map(re.escape, sorted(BANNED, key=len, reverse=True)))})\b", re.IGNORECASE
)


def found_in(text):
    """Banned phrases in a text, wherever its lines break."""
    return sorted({match.lower() for match in PATTERN.findall(" ".join(text.split()))})


def strings(path):
    """Docstrings and texts of a Python file, those of f-strings with their values left out."""
    tree = ast.parse(path.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def commands(command, path=()):
    """Every command and its help."""
    yield " ".join(path), command.get_help(click.Context(command, info_name="pidual"))
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))


def files(*patterns):
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern) if path != STYLE)


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("text", ["PI that\n  tells of wrong labels", "Seed of everything random.", "It is not there."])
def test_a_banned_phrase_is_found_wherever_lines_break(text):
    assert found_in(text)


@pytest.mark.parametrize("text", ["cat is mistaken for dog", "what is known about it", "amended", "There is no class."])
def test_plain_words_pass(text):
    assert not found_in(text)


@pytest.mark.parametrize("path", files("src/pidual/**/*.py", "examples/**/*.py"), ids=name_of)
def test_docstrings_and_messages_are_plain(path):
    assert [(text[:200], words) for text in strings(path) if (words := found_in(text))] == []


@pytest.mark.parametrize(
    "path",
    files("*.md", "docs/**/*.md", "examples/**/*.md", "src/pidual/**/templates/*", "src/pidual/**/static/*"),
    ids=name_of,
)
def test_pages_are_plain(path):
    paragraphs = re.split(r"\n\s*\n|\n(?=\||- )", path.read_text())
    assert [(text[:200], words) for text in paragraphs if (words := found_in(text))] == []


def test_help_is_plain():
    assert {name: words for name, text in commands(cli) if (words := found_in(text))} == {}
