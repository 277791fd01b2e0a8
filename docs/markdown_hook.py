"""Let the site read the Markdown of this repository as a code host does (mkdocs calls the functions named `on_...`).

A list, a table or a comment needs no empty line before it, and pages may link to files outside of docs/: those in
`MOUNTED` are part of the site too. Long names in tables may break after an underscore or a dot, as phones are narrow.
"""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MOUNTED = ["CONTRIBUTING.md", "CHANGELOG.md", "examples/*", "benchmarks/results/**/*.svg"]

FENCE = re.compile(r"^ *(```|~~~)")
CELL = re.compile(r"<td[^>]*>.*?</td>", re.DOTALL)
CODE = re.compile(r"<code>(.*?)</code>", re.DOTALL)
JOINT = re.compile(r"<[^>]*>|(?<=\w)[_./(:=](?=\w)")  # or a tag, which stays as it is
KINDS = {
    "list": re.compile(r"^(?:[-*+]|\d+\.) "),
    "table": re.compile(r"^\|"),
    "comment": re.compile(r"^<!-- .* -->$"),
}


def mounted() -> list[str]:
    """Files outside of docs/ that are part of the site, as paths from the root of the repository."""
    found = (path for pattern in MOUNTED for path in sorted(ROOT.glob(pattern)))
    return [path.relative_to(ROOT).as_posix() for path in found if path.is_file()]


def on_files(files: Any, config: Any) -> Any:
    """Add the mounted files."""
    from mkdocs.structure.files import File

    for name in mounted():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **kwargs: Any) -> str:
    """What a page says, for Python-Markdown."""
    return spaced(relinked(markdown, page.file.src_uri))


def on_page_content(html: str, **kwargs: Any) -> str:
    """The page with places at which code in tables may break."""
    return CELL.sub(lambda cell: CODE.sub(lambda code: f"<code>{JOINT.sub(_joint, code[1])}</code>", cell[0]), html)


def _joint(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("<") else f"{found[0]}<wbr>"


def relinked(markdown: str, page: str) -> str:
    """The same text with links as if the mounted files were in docs/."""
    if page in mounted():
        return markdown.replace("](docs/", "](")
    return re.sub(r"(\]\((?:\.\./)*)\.\./(CONTRIBUTING|CHANGELOG|examples|benchmarks)\b", r"\1\2", markdown)


def spaced(markdown: str) -> str:
    """The same text with an empty line wherever another kind of block begins."""
    lines: list[str] = []
    fenced, before = False, ""
    for line in markdown.splitlines():
        fence = bool(FENCE.match(line))
        kind = "" if fenced or fence else kind_of(line, before)
        if not fenced and line.strip() and lines and lines[-1].strip() and kind != before:
            lines.append("")
        lines.append(line)
        fenced ^= fence
        before = kind if line.strip() else ""
    return "\n".join(lines) + "\n"


def kind_of(line: str, before: str) -> str:
    """What a line outside of a fence is part of: a list, a table, a comment or (empty) anything else."""
    for kind, pattern in KINDS.items():
        if pattern.match(line):
            return kind
    return "list" if before == "list" else ""
