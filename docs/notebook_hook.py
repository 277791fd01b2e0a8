"""Show the notebooks of docs/ as pages of the site: mkdocs calls the functions named `on_...`.

    python docs/notebook_hook.py           # runs every notebook again, in an empty folder, and keeps what it printed

A notebook is written with its outputs, which are small, and without anything that differs from run to run.
"""

import json
import os
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
TABLE = re.compile(r"<table.*</table>", re.DOTALL)
WIDTH = 88  # longer lines of text are folded
LINK = re.compile(r"(\]\([^)\s]*)\.ipynb(?=[#)])")


def on_files(files: Any, config: Any) -> Any:
    """Add a page for every notebook."""
    from mkdocs.structure.files import File

    for path in sorted(DOCS.glob("*.ipynb")):
        files.append(File.generated(config, f"{path.stem}.md", content=as_markdown(path)))
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """What a page says, with links to notebooks as links to their pages."""
    return LINK.sub(r"\1.md", markdown)


def as_markdown(path: Path) -> str:
    """Return a notebook as Markdown: its text, its code, and what that showed."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        shell = source.startswith("!")
        parts.append(f"```{'sh' if shell else 'python'}\n{source.removeprefix('!')}\n```")
        parts += [shown(output) for output in cell["outputs"]]
    title, *rest = parts
    download = f'<p><a href="../{path.name}" download>Download the notebook</a></p>'
    return "\n\n".join([title, download, *rest]) + "\n"


def shown(output: dict[str, Any]) -> str:
    """Return what a cell showed: a table, or text."""
    data = output.get("data", {})
    if table := TABLE.search("".join(data.get("text/html", ""))):
        return re.sub(r' (?:border|class|style)="[^"]*"', "", table[0])
    lines = "".join(output.get("text", data.get("text/plain", ""))).strip().splitlines()
    return "\n".join(["```text", *(textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in lines), "```"])


def run(path: Path) -> str:
    """Run a notebook in an empty folder, with `pidual` as it is installed beside this Python; the notebook as text."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    env = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": folder}}, record_timing=False)
        client.execute(env=env)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        if cell["cell_type"] == "code":
            cell["outputs"] = joined(cell["outputs"])
    return str(nbformat.writes(notebook)) + "\n"


def joined(outputs: list[Any]) -> list[Any]:
    """Outputs with the streams of a cell as one: in how many pieces they come is chance."""
    streams = [output for output in outputs if output["output_type"] == "stream"]
    if streams:
        text = "".join(output["text"] for output in streams)
        streams[0].update(name="stdout", text=text.replace("\r\n", "\n"))
    return streams[:1] + [output for output in outputs if output["output_type"] != "stream"]


if __name__ == "__main__":
    for notebook in sorted(DOCS.glob("*.ipynb")):
        notebook.write_text(run(notebook))
        print(f"written: {notebook.name}")
