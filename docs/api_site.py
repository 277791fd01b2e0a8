"""What the pages of docs/api add to those of mkdocstrings: links between names, and where the source is.

An extension of griffe, which reads the docstrings, and a hook of mkdocs, which calls the functions named `on_...`.
"""

import re
from pathlib import Path
from typing import Any

import griffe

PAGES = sorted((Path(__file__).parent / "api").glob("*.md"))
PATHS = {page.stem: re.search(r"^::: (\S+)$", page.read_text(), re.MULTILINE)[1] for page in PAGES}  # of names
METHODS_TOO = {"find_label_issues", "judge"}  # which a docstring of a class means its own by
NAME = re.compile(rf"(?<!\[)`(pidual\.)?({'|'.join(PATHS)})(?:\.\w+)?(?:\([^`]*\))?`")
SEE_ALSO = re.compile(r"^See Also\n-+\n((?:.+\n?)+)", re.MULTILINE)
SOURCE = '<details class="mkdocstrings-source">'


class Links(griffe.Extension):
    """Turns names in docstrings into links to their pages."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite a docstring for the site."""
        if obj.docstring and not obj.is_module:
            obj.docstring.value = linked(obj.docstring.value, obj.name)


def linked(text: str, own: str) -> str:
    """The same docstring with links to the pages of other names and of docs/, and with "See Also" as a list."""

    def link(found: re.Match[str]) -> str:
        unclear = found[2] in METHODS_TOO and not found[1]
        return found[0] if found[2] == own or unclear else f"[{found[0]}][{PATHS[found[2]]}]"

    def as_list(found: re.Match[str]) -> str:
        linked = re.sub(r"^(\w+) : ", lambda one: f"- [`{one[1]}`][{PATHS[one[1]]}]: ", found[1], flags=re.MULTILINE)
        return f"See Also\n--------\n{linked}"

    text = NAME.sub(link, SEE_ALSO.sub(as_list, text))
    return re.sub(r"\bdocs/([\w/]+)\.md", r"[docs/\1.md](../../\1/)", text)


def on_page_content(html: str, page: Any, **kwargs: Any) -> str:
    """The page with a line that says where its source is; code of the package is not searched, nor broken."""
    if not (source := page.meta.get("source")):
        return html
    html = re.sub(r"<pre.*?</pre>", lambda code: code[0].replace("<wbr>", ""), html, flags=re.DOTALL)
    where, shown = f"<code>{source}</code>", html.partition(SOURCE)[1]
    html = html.replace(SOURCE, f'{SOURCE[:-1]} id="source" data-search-exclude>', 1)
    html = html.replace(SOURCE, f"{SOURCE[:-1]} data-search-exclude>")
    where = f'<a href="#source">Source</a>: {where}' if shown else f"Source: {where}"
    return html.replace("</h1>", f'</h1>\n<p class="api-source">{where}</p>', 1)
