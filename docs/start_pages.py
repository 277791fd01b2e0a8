"""Run the Start pages: put what their blocks print into them, their pictures into figures/, their code into examples/.

    python docs/start_pages.py

A page is one script. Its blocks of Python and shell run in order, in one empty folder; a block ```text holds what the
block before it printed. Indented code is only shown.
"""

import contextlib
import io
import itertools
import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
PAGES = ["start_csv", "start_label_studio"]
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRESS = re.compile(r"epoch \d+/\d+[:,] ")  # as many lines as there is time; on a terminal, a bar
KEY = "0123456789abcdef" * 4  # of pseudonyms, so that they are the same in every run
WIDTH = 88  # longer lines of output are cut, and end in three dots


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and code of the blocks of a page."""
    return BLOCK.findall(text)


def script(text: str) -> str:
    """The page as a script: Python where all of it is, else shell."""
    title = re.search(r"^# (.*)$", text, re.MULTILINE)
    assert title is not None
    code = itertools.groupby((block for block in blocks(text) if block[0] != "text"), key=lambda block: block[0])
    parts = [(language, "\n\n".join(code.strip() for _, code in group)) for language, group in code]
    if [language for language, _ in parts] == ["python"]:
        return f'"""{title[1]}."""\n\n{parts[0][1]}\n'
    shell = [f"python - <<'END'\n{code}\nEND" if language == "python" else code for language, code in parts]
    return f"# {title[1]}.\nset -e\n\n" + "\n\n".join(shell) + "\n"


def run(text: str) -> str:
    """The page with what its blocks print now, run in the present folder."""
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""

    def again(block: re.Match[str]) -> str:
        nonlocal printed
        language, code = block.groups()
        if language == "text":
            return f"```text\n{shown(printed)}```"
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            if language == "python":
                exec(compile(code, "page", "exec"), names)
            else:
                for line in code.splitlines():
                    call(shlex.split(line))
        printed = out.buffer.getvalue().decode()
        return block[0]

    with mock.patch("secrets.token_hex", return_value=KEY):
        return BLOCK.sub(again, text)


def call(words: list[str]) -> None:
    """Run a line of shell: a call of pidual."""
    from pidual.cli import main

    assert words[0] == "pidual", words
    with mock.patch.object(sys, "argv", words), contextlib.suppress(SystemExit):
        main()


def shown(printed: str) -> str:
    """What a page shows of what was printed: no progress, and no line that is longer than a page is wide."""
    lines = [line for line in printed.splitlines() if not PROGRESS.match(line)]
    cut = (line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..." for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in cut)


def write(name: str) -> None:
    """Run a page, and write it, its script and its pictures."""
    path = DOCS / f"{name}.md"
    back = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            text = run(path.read_text())
        finally:
            os.chdir(back)
        for picture in sorted(Path(folder).glob("*.png")):
            shutil.copy(picture, DOCS / "figures" / picture.name)
    path.write_text(text)
    code = script(text)
    (EXAMPLES / f"{name}.{'py' if code.startswith(chr(34)) else 'sh'}").write_text(code)


if __name__ == "__main__":
    import matplotlib as mpl

    mpl.use("Agg")
    for page in sys.argv[1:] or PAGES:
        write(page)
        print(f"written: {page}")
